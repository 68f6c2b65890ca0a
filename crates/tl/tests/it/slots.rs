//! Messages that stay in their slots: inspected, or used there.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{LaunchReport, RingConfig, RuntimeError, SlotKind};
use cubeyard_tl::kernel::Args;
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::{Port, Tile, Tl};
use expect_test::expect;

use crate::lab::{context, kernel, launch, place, ring, tensors};

type Body = fn(&Tl, &Args);

/// Runs two PEs, in both modes and in the same time. Returns the report, and the 8 numbers that they wrote.
fn run(config: &RingConfig, bodies: [Body; 2]) -> Result<(LaunchReport, Vec<f32>), RuntimeError> {
    let mut results = Vec::new();
    for mode in [Mode::Recorded, Mode::Live] {
        let context = context("", true);
        let x = place(&context, &[8], &[0.0_f32; 8]);
        let _channels = context.connect(&ring(2), config).unwrap();
        let launcher = Launcher::with_mode(&context, mode);
        let pair = kernel("pair", move |tl, args| {
            let body = if tl.program_id(0) == 0 { bodies[0] } else { bodies[1] };
            body(tl, args);
        });
        let report = launcher.run(&pair, &launch(tensors(&[&x]), 2))?;
        assert_eq!(launcher.findings(), []);
        results.push((report, x.read::<f32>()?.known()?));
    }
    let time = |report: &LaunchReport| report.pes.iter().map(|(_, span)| *span).collect::<Vec<_>>();
    assert_eq!(time(&results[0].0), time(&results[1].0), "recorded and live");
    assert_eq!(results[0].1, results[1].1);
    Ok(results.swap_remove(0))
}

fn slots(slots: u32) -> RingConfig {
    RingConfig { slots, ..RingConfig::default() }
}

/// Returns the time of each PE, in ps.
fn times(config: &RingConfig, bodies: [Body; 2]) -> [u64; 2] {
    let report = run(config, bodies).unwrap().0;
    [0, 1].map(|pe: usize| report.pes[pe].1.ps())
}

fn send(tl: &Tl, count: u32) {
    for number in 1..=count {
        tl.send(Port::E, &tl.full(&[1], number, DType::F32));
    }
}

fn copy(tl: &Tl) -> Tile {
    tl.recv(Port::W, &[1], DType::F32)
}

fn look(tl: &Tl) -> Tile {
    tl.recv_no_consume(Port::W, &[1], DType::F32)
}

fn hold(tl: &Tl) -> Tile {
    tl.recv_slot(Port::W, &[1], DType::F32)
}

fn note(tl: &Tl, args: &Args, tiles: &[&Tile]) {
    for (at, tile) in (0..).zip(tiles) {
        tl.store(&args.tensor(0).whole().at(at, &[1]), tile);
    }
}

/// Duration of a busy phase, in ps: 200 commands of 64 × 64 elements at 64 G/s.
const BUSY: u64 = 200 * 64 * 1000;

fn busy(tl: &Tl) -> Tile {
    let mut tile = tl.zeros(&[64, 64], DType::F32);
    for _ in 0..200 {
        tile = tl.tanh(&tile);
    }
    tile
}

#[test]
fn a_message_that_is_not_consumed_is_received_again() {
    for kind in [SlotKind::Tcm, SlotKind::Sram, SlotKind::Hbm] {
        let config = RingConfig { kind, ..slots(2) };
        let (_, found) = run(
            &config,
            [
                |tl, _| send(tl, 3),
                |tl, args| {
                    let first = [look(tl), look(tl), copy(tl)];
                    let second = [look(tl), copy(tl)];
                    let (third, port) = tl.recv_any(&[Port::E, Port::W], &[1], DType::F32);
                    let [one, two, three] = &first;
                    let [four, five] = &second;
                    note(
                        tl,
                        args,
                        &[one, two, three, four, five, &third, &tl.cast(&port, DType::F32)],
                    );
                },
            ],
        )
        .unwrap();
        assert_eq!(found, [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 0.0], "{kind:?}");
    }
}

/// A message that an earlier command inspected does not count as received by `recv_any`.
#[test]
fn what_was_looked_at_is_there_for_any_port() {
    let (_, found) = run(
        &slots(4),
        [
            |tl, _| send(tl, 1),
            |tl, args| {
                let seen = look(tl);
                let (taken, _) = tl.recv_any(&[Port::W], &[1], DType::F32);
                note(tl, args, &[&seen, &taken]);
            },
        ],
    )
    .unwrap();
    assert_eq!(found[..2], [1.0, 1.0]);
}

/// A message of 4 KiB takes 8 ns to read at 512 GB/s; a command is dispatched in 1 ns and begins 1 ns later.
#[test]
fn a_message_that_stays_in_its_slot_is_not_read() {
    const SHAPE: [u64; 1] = [1024];
    let sends: Body = |tl, _| tl.send(Port::E, &tl.zeros(&SHAPE, DType::F32));
    let time = |body: Body| times(&RingConfig::default(), [sends, body])[1];
    let copied = time(|tl, _| drop(tl.recv(Port::W, &SHAPE, DType::F32)));
    let held = time(|tl, _| tl.release(&tl.recv_slot(Port::W, &SHAPE, DType::F32)));
    assert_eq!(copied - 8000, held - 2000, "both after the message has arrived");
    let both = time(|tl, _| {
        let seen = tl.recv_no_consume(Port::W, &SHAPE, DType::F32);
        drop((seen, tl.recv(Port::W, &SHAPE, DType::F32)));
    });
    assert_eq!(both, copied + 2000, "the first ends when the message has arrived");
}

#[test]
fn a_slot_that_is_held_keeps_the_sender_waiting() {
    let sends: Body = |tl, _| send(tl, 2);
    let held: Body = |tl, args| {
        let first = hold(tl);
        let work = busy(tl);
        let sum = tl.add(&tl.slice(&work, &[0, 0], &[1, 1]), &first);
        tl.release(&first);
        let second = copy(tl);
        note(tl, args, &[&tl.reshape(&tl.mul(&sum, 0.0), &[1]), &second]);
    };
    let copied: Body = |tl, args| {
        let first = copy(tl);
        let work = busy(tl);
        let sum = tl.add(&tl.slice(&work, &[0, 0], &[1, 1]), &first);
        let second = copy(tl);
        note(tl, args, &[&tl.reshape(&tl.mul(&sum, 0.0), &[1]), &second]);
    };
    assert!(times(&slots(1), [sends, held])[0] > BUSY, "the slot is free when its user is done");
    assert!(times(&slots(1), [sends, copied])[0] < BUSY / 10);
    assert!(times(&slots(2), [sends, held])[0] < BUSY / 10, "there is another slot");
    assert_eq!(run(&slots(1), [sends, held]).unwrap().1[1..2], [2.0]);
}

/// The sender uses slots in order, so a free slot after a held one does not help it.
#[test]
fn slots_become_free_in_turn() {
    let (report, found) = run(
        &slots(2),
        [
            |tl, _| send(tl, 3),
            |tl, args| {
                let first = hold(tl);
                let second = copy(tl);
                drop(tl.wait_for(&busy(tl)));
                note(tl, args, &[&first, &second]);
                tl.release(&first);
                let third = copy(tl);
                tl.store(&args.tensor(0).whole().at(2, &[1]), &third);
            },
        ],
    )
    .unwrap();
    assert_eq!(found[..3], [1.0, 2.0, 3.0]);
    assert!(report.pes[0].1.ps() > BUSY);
}

#[test]
fn several_slots_are_released_in_any_order() {
    let (_, found) = run(
        &slots(3),
        [
            |tl, _| send(tl, 6),
            |tl, args| {
                for round in 0..2 {
                    let tiles = [hold(tl), hold(tl), hold(tl)];
                    for (at, tile) in (0..).zip(&tiles) {
                        tl.store(&args.tensor(0).whole().at(3 * round + at, &[1]), tile);
                    }
                    [1, 2, 0].iter().for_each(|&at: &usize| tl.release(&tiles[at]));
                }
            },
        ],
    )
    .unwrap();
    assert_eq!(found[..6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_receiver_that_holds_what_the_sender_needs_is_reported_with_both_ends() {
    let error = run(
        &slots(1),
        [
            |tl, _| send(tl, 2),
            |tl, _| {
                let first = hold(tl);
                let _second = copy(tl);
                tl.release(&first);
            },
        ],
    )
    .unwrap_err()
    .to_string();
    let waits: Vec<_> = error.split("; ").filter(|part| part.contains("slots.rs")).collect();
    expect![[r#"
        sip0.cube0.pe0.pe_cpu waits for send f32[1] to E at slots.rs:48 of pair: a free slot at sip0.cube0.pe1, which has 1
        sip0.cube0.pe1.pe_cpu waits for receive f32[1] from W at slots.rs:53 of pair: a message from sip0.cube0.pe0"#]]
    .assert_eq(&waits.join("\n"));
}

#[test]
fn slots_that_are_misused_are_refused_with_their_line() {
    let refusal = |config: &RingConfig, body: Body| {
        let error = run(config, [|tl, _| send(tl, 1), body]).unwrap_err().to_string();
        assert!(error.contains("slots.rs:"), "{error}");
        error
    };
    let error = refusal(&slots(1), |tl, _| drop(hold(tl)));
    assert!(
        error.contains("the slot of `receive f32[1] from W, in its slot` is never released"),
        "{error}"
    );
    let error = refusal(&slots(1), |tl, _| {
        let tile = hold(tl);
        tl.release(&tile);
        tl.exp(&tile);
    });
    assert!(error.contains("use of f32[1] in a slot of W that was released"), "{error}");
    let error = refusal(&slots(1), |tl, _| tl.release(&copy(tl)));
    assert!(
        error.contains("release of f32[1]: it is in no slot; only tiles of recv_slot are"),
        "{error}"
    );
    let error = refusal(&slots(1), |tl, _| {
        let tile = hold(tl);
        tl.release(&tile);
        tl.release(&tile);
    });
    assert!(error.contains("release of f32[1]: its slot was released before"), "{error}");
    let sram = RingConfig { kind: SlotKind::Sram, ..RingConfig::default() };
    let error = refusal(&sram, |tl, _| tl.release(&hold(tl)));
    assert!(error.contains("the slots of this port are not in the TCM"), "{error}");
}
