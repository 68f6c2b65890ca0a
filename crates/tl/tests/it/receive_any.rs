//! Messages from any of several ports.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{RingConfig, RuntimeError};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::{Port, Tl};
use expect_test::expect;

use crate::lab::ring;
use crate::lab::{context, launch, place, tensors};

const BOTH: [Port; 2] = [Port::E, Port::W];

/// Runs a kernel on a ring of three PEs with one row of 8 numbers each. Returns the 8 numbers of the first PE, which
/// must be the same in both modes, and in the same time.
fn run(body: impl AsyncFn(&Tl, &Args) + Copy + 'static) -> Result<Vec<f32>, RuntimeError> {
    let mut results = Vec::new();
    for mode in [Mode::Recorded, Mode::Live] {
        let context = context("", true);
        let x = place(&context, &[8], &[-1.0_f32; 8]);
        let _channels = context.connect(&ring(3), &RingConfig::default()).unwrap();
        let launcher = Launcher::with_mode(&context, mode);
        let kernel =
            Kernel::new("any", move |tl, args| Box::pin(async move { body(&tl, &args).await }));
        let report = launcher.run(&kernel, &launch(tensors(&[&x]), 3))?;
        assert_eq!(launcher.findings(), []);
        results.push((x.read::<f32>()?.known()?, report.max()));
    }
    assert_eq!(results[0], results[1], "recorded and live");
    Ok(results.swap_remove(0).0)
}

/// Computes for a while.
async fn compute(tl: &Tl, rounds: u32) {
    let mut tile = tl.zeros(&[64, 64], DType::F32);
    for _ in 0..rounds {
        tile = tl.exp(&tile);
    }
    tl.wait_for(&tile).await;
}

/// Stores a number at a position of the first PE's row.
fn note(tl: &Tl, args: &Args, at: u64, tile: &cubeyard_tl::Tile) {
    tl.store(&args.tensor(0).whole().at(at, &[1]), &tl.cast(tile, DType::F32));
}

/// Each of the other PEs sends two messages, which contain the sender and the message number.
fn send_two(tl: &Tl) {
    let rank = tl.program_id(0);
    let back = if rank == 1 { Port::W } else { Port::E };
    for which in 0..2 {
        tl.send(back, &tl.full(&[1], (10 * rank + which) as f64, DType::F32));
    }
}

/// The first PE receives four messages, and stores the port and the contents of each.
fn receive_four(tl: &Tl, args: &Args) {
    for turn in 0..4 {
        let (tile, from) = tl.recv_any(&BOTH, &[1], DType::F32);
        note(tl, args, turn, &from);
        note(tl, args, 4 + turn, &tile);
    }
}

#[test]
fn what_comes_first_is_received_first() {
    let values = run(async |tl, args| match tl.program_id(0) {
        0 => receive_four(tl, args),
        1 => {
            compute(tl, 20).await;
            send_two(tl);
        }
        _ => send_two(tl),
    });
    assert_eq!(values.unwrap(), [1.0, 1.0, 0.0, 0.0, 20.0, 21.0, 10.0, 11.0]);
}

#[test]
fn ports_take_turns_where_several_have_something() {
    let values = run(async |tl, args| {
        if tl.program_id(0) == 0 {
            compute(tl, 20).await;
            receive_four(tl, args);
        } else {
            send_two(tl);
        }
    });
    assert_eq!(values.unwrap(), [0.0, 1.0, 0.0, 1.0, 10.0, 20.0, 11.0, 21.0]);
}

/// A command receives messages of its port before later commands, of either kind.
#[test]
fn receives_of_both_kinds_get_messages_in_the_order_of_the_kernel() {
    let values = run(async |tl, args| match tl.program_id(0) {
        0 => {
            let first = tl.recv_async(Port::W, &[1], DType::F32);
            let (second, from) = tl.recv_any(&BOTH, &[1], DType::F32);
            let third = tl.recv_async(Port::E, &[1], DType::F32);
            let (fourth, also) = tl.recv_any(&BOTH, &[1], DType::F32);
            for (at, tile) in (0..).zip([first, second, third, fourth, from, also]) {
                note(tl, args, at, &tile);
            }
        }
        1 => {
            compute(tl, 20).await;
            send_two(tl);
        }
        _ => send_two(tl),
    });
    assert_eq!(values.unwrap(), [20.0, 21.0, 10.0, 11.0, 1.0, 0.0, -1.0, -1.0]);
}

#[test]
fn a_live_kernel_can_look_where_a_message_came_from() {
    let context = context("", true);
    let x = place(&context, &[8], &[-1.0_f32; 8]);
    let _channels = context.connect(&ring(3), &RingConfig::default()).unwrap();
    let kernel = Kernel::new("answers", |tl, args| {
        Box::pin(async move {
            if tl.program_id(0) != 0 {
                send_two(&tl);
                return;
            }
            for at in 0..4 {
                let (tile, from) = tl.recv_any(&BOTH, &[1], DType::F32);
                let is_east = tl.value(&from).await == [0.0];
                note(&tl, &args, at, &if is_east { tl.neg(&tile) } else { tile });
            }
        })
    });
    let launcher = Launcher::with_mode(&context, Mode::Live);
    launcher.run(&kernel, &launch(tensors(&[&x]), 3)).unwrap();
    let mut values = x.read::<f32>().unwrap().known().unwrap();
    values.sort_by(f32::total_cmp);
    assert_eq!(values, [-11.0, -10.0, -1.0, -1.0, -1.0, -1.0, 20.0, 21.0]);
}

#[test]
fn a_message_that_nobody_sends_is_reported_with_all_who_could() {
    let error = run(async |tl, args| {
        if tl.program_id(0) == 0 {
            receive_four(tl, args);
        }
    });
    let error = error.unwrap_err().to_string();
    expect!["the machine has come to a stop: sip0.io0.pcie_ep waits for the answers to 1 requests; sip0.io0.io_cpu waits for 1 cubes of request 3; sip0.cube0.m_cpu waits for 1 PEs of request 3; sip0.cube0.pe0.pe_cpu waits for receive f32[1] from E or W at receive_any.rs:60 of any: a message from sip0.cube0.pe1 or sip0.cube0.pe2"].assert_eq(&error);
    let error = run(async |tl, _| drop(tl.recv_any(&[], &[1], DType::F32)));
    expect![
        "any on sip0.cube0.pe0, receive_any.rs:148: recv_any of no ports: expected at least one"
    ]
    .assert_eq(&error.unwrap_err().to_string());
}
