//! The order of messages in a channel: the same in every memory, whatever else uses that memory.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Launch, RingConfig, SlotKind};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Port, Tl};
use proptest::prelude::*;

use crate::lab::{context, kernel, ring, sip};
use crate::long_tests;

const KINDS: [SlotKind; 3] = [SlotKind::Tcm, SlotKind::Sram, SlotKind::Hbm];

/// Number of rows of a PE's tensor; a row covers every HBM channel once.
const ROWS: u64 = 32;
const ROW: u64 = 512;
/// Number of elements in a burst.
const BURST: u64 = 64;

/// Loads `rows` bursts of one HBM channel, one after another.
fn occupy(tl: &Tl, args: &Args, channel: u64, rows: u64) {
    let _tile = tl.load(&args.tensor(0).local().block(&[0, channel * BURST], &[rows, BURST]));
}

/// Runs a kernel on the first two PEs of a cube, each with rows to load. Returns the numbers that PE 1 stored in its
/// part of a second tensor, which has `count` elements per PE.
fn received(config: &RingConfig, kernel: &Kernel, count: u64) -> Vec<f32> {
    let context = context("", true);
    let rows =
        Placement { pe: Split::RowWise, cubes: Some(1), pes: Some(2), ..Placement::default() };
    let loaded = context.zeros(&[2 * ROWS, ROW], DType::F32).unwrap().to(&rows).unwrap();
    let stored = context.zeros(&[2, count], DType::F32).unwrap().to(&rows).unwrap();
    let _channels = context.connect(&ring(2), config).unwrap();
    let launch = Launch::new(sip())
        .arguments([&loaded, &stored])
        .cubes(vec![CubeId::new(0).unwrap()])
        .pes([0, 1].map(|pe| PeId::new(pe).unwrap()).to_vec());
    let launcher = Launcher::new(&context);
    launcher.run(kernel, &launch).unwrap();
    assert_eq!(launcher.findings(), []);
    stored.read::<f32>().unwrap().known().unwrap().split_off(usize::try_from(count).unwrap())
}

/// The receiver has just loaded 32 bursts of one HBM channel. A message into a slot of this channel waits for them.
/// Messages into slots of other channels did not, and arrived before it: 2, 3, 4, 1.
#[test]
fn a_message_does_not_overtake_another_whose_slot_is_written_later() {
    for (kind, channel) in KINDS.iter().flat_map(|&kind| (0..8).map(move |at| (kind, at))) {
        let config = RingConfig { kind, slot_bytes: Bytes::new(256), ..RingConfig::default() };
        let pair = kernel("pair", move |tl, args| {
            if tl.program_id(0) == 0 {
                for number in 1..=4 {
                    tl.send(Port::E, &tl.full(&[1], number, DType::F32));
                }
                return;
            }
            occupy(tl, args, channel, ROWS);
            for place in 0..4 {
                let tile = tl.recv(Port::W, &[1], DType::F32);
                tl.store(&args.tensor(1).local().at(place, &[1]), &tile);
            }
        });
        let numbers = received(&config, &pair, 4);
        assert_eq!(numbers, [1.0, 2.0, 3.0, 4.0], "{kind:?}, channel {channel}");
    }
}

/// One step of the receiver in a random case.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Receives the next message.
    Receive,
    /// Receives the next message without waiting for it.
    ReceiveLater,
    /// Loads bursts of one HBM channel.
    Occupy { channel: u64, rows: u64 },
}

/// A sequence of messages, and the receiver's steps in the meantime.
#[derive(Clone, Debug)]
struct Case {
    slots: u32,
    slot_bytes: u64,
    /// Number of elements of each message.
    lengths: Vec<u64>,
    steps: Vec<Step>,
}

fn cases() -> impl Strategy<Value = Case> {
    let step = prop_oneof![
        2 => Just(Step::Receive),
        3 => Just(Step::ReceiveLater),
        3 => (0..8_u64, 1..=ROWS).prop_map(|(channel, rows)| Step::Occupy { channel, rows }),
    ];
    let slot_bytes = prop_oneof![Just(256_u64), Just(320), Just(1024), Just(4096)];
    let rest = (1..6_u32, proptest::collection::vec(step, 4..24));
    (slot_bytes, rest).prop_flat_map(|(slot_bytes, (slots, steps))| {
        let is_message = |step: &&Step| !matches!(step, Step::Occupy { .. });
        let messages = steps.iter().filter(is_message).count();
        let lengths = proptest::collection::vec(1..=slot_bytes / 4, messages);
        let case = move |lengths| Case { slots, slot_bytes, lengths, steps: steps.clone() };
        lengths.prop_map(case)
    })
}

impl Case {
    /// Returns the kernel of both PEs; all elements of message `i` are `i + 1`.
    fn kernel(&self) -> Kernel {
        let Self { lengths, steps, .. } = self.clone();
        Kernel::new("case", move |tl, args| {
            let (lengths, steps) = (lengths.clone(), steps.clone());
            Box::pin(async move {
                if tl.program_id(0) == 0 {
                    for (length, number) in lengths.iter().zip(1_u32..) {
                        tl.send(Port::E, &tl.full(&[*length], number, DType::F32));
                    }
                    return;
                }
                let (mut left, mut place) = (lengths.iter(), 0);
                for step in steps {
                    if let Step::Occupy { channel, rows } = step {
                        occupy(&tl, &args, channel, rows);
                        continue;
                    }
                    let length = *left.next().expect("a length for each message");
                    let shape = [length];
                    let tile = match step {
                        Step::Receive => tl.recv(Port::W, &shape, DType::F32),
                        _ => tl.recv_async(Port::W, &shape, DType::F32),
                    };
                    tl.store(&args.tensor(1).local().at(place, &shape), &tile);
                    place += length;
                }
            })
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(long_tests::cases(300)))]

    /// Messages of any length, through a few slots that are reused, while the receiver also loads.
    #[test]
    fn messages_come_out_as_they_were_sent_from_every_memory(case in cases()) {
        let numbered = case.lengths.iter().zip(1_u16..);
        let sent = numbered.flat_map(|(&length, number)| (0..length).map(move |_| f32::from(number)));
        let sent: Vec<_> = sent.collect();
        prop_assume!(!sent.is_empty());
        for kind in KINDS {
            let (slots, slot_bytes) = (case.slots, Bytes::new(case.slot_bytes));
            let config = RingConfig { kind, slots, slot_bytes, ..RingConfig::default() };
            let found = received(&config, &case.kernel(), sent.len() as u64);
            prop_assert!(found == sent, "{kind:?}: {found:?}, sent {sent:?}");
        }
    }
}
