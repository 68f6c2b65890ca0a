//! Messages order the accesses of PEs to shared memory, if the kernels use them correctly.

use cubeyard_runtime::RingConfig;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::{Port, Tile, Tl};
use expect_test::expect;

use crate::lab::ring;
use crate::lab::{context, launch, place, tensors};

/// Runs a body on the PEs of a ring with a shared tensor; returns the races and the contents of the tensor.
fn races(pes: u8, body: impl AsyncFn(&Tl, &Args) + Copy + 'static) -> (Vec<String>, Vec<f32>) {
    let mut results = [Mode::Recorded, Mode::Live].map(|mode| {
        let context = context("", true);
        let x = place(&context, &[16], &[1.0_f32; 16]);
        let _channels = context.connect(&ring(pes.into()), &RingConfig::default()).unwrap();
        let launcher = Launcher::with_mode(&context, mode);
        let kernel =
            Kernel::new("shares", move |tl, args| Box::pin(async move { body(&tl, &args).await }));
        launcher.run(&kernel, &launch(tensors(&[&x]), pes)).unwrap();
        let found: Vec<_> = launcher.findings().iter().map(ToString::to_string).collect();
        (found, x.read::<f32>().unwrap().known().unwrap())
    });
    assert_eq!(results[0], results[1], "recorded and live");
    std::mem::take(&mut results[0])
}

fn token(tl: &Tl) -> Tile {
    tl.zeros(&[1], DType::F32)
}

fn receive(tl: &Tl) -> Tile {
    tl.recv(Port::W, &[1], DType::F32)
}

fn receive_later(tl: &Tl) -> Tile {
    tl.recv_async(Port::W, &[1], DType::F32)
}

/// Stores to the shared tensor.
fn store(tl: &Tl, args: &Args) {
    tl.store(&args.tensor(0).whole(), &tl.full(&[16], 2.0, DType::F32));
}

/// Stores, and notifies the next PE when the store is done.
fn publish(tl: &Tl, args: &Args) {
    store(tl, args);
    tl.fence();
    tl.send(Port::E, &token(tl));
}

/// Adds one to the shared tensor.
fn increment(tl: &Tl, args: &Args) {
    let x = args.tensor(0).whole();
    tl.store(&x, &(&tl.load(&x) + 1.0));
}

fn is_first(tl: &Tl) -> bool {
    tl.program_id(0) == 0
}

#[test]
fn a_fence_before_the_send_and_a_receive_that_waits_order_two_pes() {
    let (found, values) = races(2, async |tl, args| {
        if is_first(tl) {
            publish(tl, args);
        } else {
            receive(tl);
            increment(tl, args);
        }
    });
    assert_eq!((found, values), (vec![], vec![3.0; 16]));
}

#[test]
fn a_send_does_not_wait_for_a_store_before_it() {
    let (found, _) = races(2, async |tl, args| {
        if is_first(tl) {
            store(tl, args);
            tl.send(Port::E, &token(tl));
        } else {
            receive(tl);
            tl.load(&args.tensor(0).whole());
        }
    });
    expect!["shares on sip0.cube0.pe1, message_order.rs:85: load f32[16] reads bytes 0x0 to 0x3f of sip0.cube0.hbm_ctrl.pe0, which shares on sip0.cube0.pe0, message_order.rs:44: store f32[16] writes, with no order between the two"].assert_eq(&found.join("\n"));
}

#[test]
fn a_load_does_not_wait_for_a_message_that_is_received_later() {
    let (found, _) = races(2, async |tl, args| {
        if is_first(tl) {
            publish(tl, args);
        } else {
            receive_later(tl);
            tl.load(&args.tensor(0).whole());
        }
    });
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn waiting_for_it_orders_the_load() {
    let (found, _) = races(2, async |tl, args| {
        if is_first(tl) {
            publish(tl, args);
        } else {
            let come = receive_later(tl);
            tl.wait_for(&come).await;
            tl.load(&args.tensor(0).whole());
        }
    });
    assert_eq!(found, [""; 0]);
}

#[test]
fn what_was_loaded_and_sent_may_be_overwritten_by_its_receiver() {
    let (found, values) = races(2, async |tl, args| {
        let x = args.tensor(0).whole();
        if is_first(tl) {
            tl.send(Port::E, &tl.load(&x));
        } else {
            let come = tl.recv_async(Port::W, &[16], DType::F32);
            tl.store(&x, &(&come + 5.0));
        }
    });
    assert_eq!((found, values), (vec![], vec![6.0; 16]));
}

/// The second PE passes on a token: the one it received, or its own.
fn relay(own: bool) -> Vec<String> {
    let body = async move |tl: &Tl, args: &Args| match tl.program_id(0) {
        0 => {
            publish(tl, args);
        }
        1 => {
            let come = receive_later(tl);
            let passed = if own { token(tl) } else { come };
            tl.send(Port::E, &passed);
        }
        _ => {
            receive(tl);
            increment(tl, args);
        }
    };
    races(3, body).0
}

#[test]
fn what_a_pe_was_told_it_passes_on_if_its_message_comes_after() {
    assert_eq!(relay(false), [""; 0]);
    assert_eq!(relay(true).len(), 2, "its load and its store, each with the first PE's store");
}

#[test]
fn many_pes_take_turns() {
    let (found, values) = races(8, async |tl, args| {
        for _ in 0..3 {
            if !is_first(tl) {
                receive(tl);
            }
            increment(tl, args);
            tl.fence();
            tl.send(Port::E, &token(tl));
            if is_first(tl) {
                receive(tl);
            }
        }
    });
    assert_eq!((found, values), (vec![], vec![25.0; 16]));
}
