//! Recovery: a context after launches that stalled, endless kernels, empty accesses, tensors dropped while the machine
//! is borrowed, and messages that were not received.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{
    Channels, Context, ContextConfig, Launch, RingConfig, RuntimeError, SlotKind, Tensor,
};
use cubeyard_sim::{Span, interruptible};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::numeric::Unary;
use cubeyard_tl::{Op, Port, Tl};

use crate::lab::ring;
use crate::lab::{context, kernel, launch, one, place, run, sip, tensors};

/// Creates a tensor with a row of 64 for each of two PEs, which are connected as a ring.
fn two(context: &Context, kind: SlotKind) -> (Tensor, Channels) {
    let rows =
        Placement { pe: Split::RowWise, cubes: Some(1), pes: Some(2), ..Placement::default() };
    let values: Vec<f32> = (0..128_u8).map(f32::from).collect();
    let x = context.from_slice(&[2, 64], &values).unwrap().to(&rows).unwrap();
    let config = RingConfig { kind, ..RingConfig::default() };
    (x, context.connect(&ring(2), &config).unwrap())
}

/// Each PE sends `sent` of its rows to the east, and receives `received` rows from the west into its own.
fn exchange(name: &str, sent: [u64; 2], received: [u64; 2]) -> Kernel {
    Kernel::new(name, move |tl, args| {
        Box::pin(async move {
            let (own, place) = (args.tensor(0).local(), usize::try_from(tl.program_id(0)).unwrap());
            let tile = tl.load(&own);
            (0..sent[place]).for_each(|_| tl.send(Port::E, &tile));
            for _ in 0..received[place] {
                tl.store(&own, &tl.recv(Port::W, &own.ty().shape, own.ty().dtype));
            }
        })
    })
}

/// After a stall, every later call on the context returned the old stall: nothing could be read, launched or freed any
/// more.
#[test]
fn a_context_goes_on_after_launches_that_could_not() {
    for kind in [SlotKind::Tcm, SlotKind::Hbm] {
        let context = context("", true);
        let (x, channels) = two(&context, kind);
        let launcher = Launcher::new(&context);
        // The second PE waits for two messages, but only one arrives.
        let stalls = exchange("stalls", [1, 1], [1, 2]);
        let stuck =
            launcher.launch(&context.stream(), &stalls, &launch(tensors(&[&x]), 2)).unwrap();
        let error = stuck.wait().unwrap_err().to_string();
        assert!(error.starts_with("the machine has come to a stop: "), "{error}");
        assert!(error.contains("of stalls: a message from sip0.cube0.pe0"), "{error}");
        // Waiting again returns the same error; memory holds the data written until then.
        assert_eq!(stuck.wait().unwrap_err().to_string(), error);
        context.synchronize().unwrap();
        let swapped: Vec<f32> = (64..128_u8).chain(0..64).map(f32::from).collect();
        assert_eq!(x.read::<f32>().unwrap(), swapped);
        // The same kernel with the messages that it waits for, twice: slots are free and in order.
        for _ in 0..2 {
            let swaps = exchange("swaps", [5, 5], [5, 5]);
            launcher.run(&swaps, &launch(tensors(&[&x]), 2)).unwrap();
        }
        assert_eq!(x.read::<f32>().unwrap(), swapped);
        assert_eq!(launcher.findings(), []);
        drop((stuck, x, channels));
        assert!(context.is_pristine());
        assert!(context.close().is_clean());
    }
}

/// Two launches on a stream, the first of which stalls: the second runs, as it does after a failed one.
#[test]
fn what_comes_after_a_stalled_launch_on_its_stream_runs() {
    let context = context("", true);
    let (x, _channels) = two(&context, SlotKind::Tcm);
    let launcher = Launcher::new(&context);
    let stream = context.stream();
    let [first, second] = [exchange("stalls", [0, 0], [0, 1]), exchange("swaps", [1, 1], [1, 1])]
        .map(|kernel| launcher.launch(&stream, &kernel, &launch(tensors(&[&x]), 2)).unwrap());
    assert!(matches!(context.synchronize(), Err(RuntimeError::Stalled(_))));
    assert!(matches!(first.wait(), Err(RuntimeError::Stalled(_))));
    second.wait().unwrap();
    let swapped: Vec<f32> = (64..128_u8).chain(0..64).map(f32::from).collect();
    assert_eq!(x.read::<f32>().unwrap(), swapped);
}

/// A launch that was stopped at its deadline left messages in the slots for the next one.
#[test]
fn a_context_goes_on_after_a_deadline() {
    let context = context("", true);
    let (x, channels) = two(&context, SlotKind::Tcm);
    let launcher = Launcher::new(&context);
    let stalls = exchange("stalls", [3, 0], [0, 4]);
    let stuck = launcher.launch(&context.stream(), &stalls, &launch(tensors(&[&x]), 2)).unwrap();
    let error = stuck.wait_within(Span::from_ps(1_000_000_000)).unwrap_err();
    assert!(matches!(error, RuntimeError::Stalled(_) | RuntimeError::Deadline { .. }), "{error}");
    x.write(&[1_f32; 128]).unwrap();
    let swaps = exchange("swaps", [4, 4], [4, 4]);
    launcher.run(&swaps, &launch(tensors(&[&x]), 2)).unwrap();
    assert_eq!(x.read::<f32>().unwrap(), [1.0; 128]);
    drop((stuck, x, channels));
    assert!(context.is_pristine());
}

/// Messages that were not received stayed in their slots, and the next launch received them as its own.
#[test]
fn a_message_that_nobody_received_is_found_and_dropped() {
    for kind in [SlotKind::Tcm, SlotKind::Sram] {
        let context = context("", true);
        let (x, channels) = two(&context, kind);
        let launcher = Launcher::new(&context);
        let forgets = exchange("forgets", [3, 1], [1, 1]);
        launcher.run(&forgets, &launch(tensors(&[&x]), 2)).unwrap();
        let findings = launcher.findings();
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(
            (finding.kernel.as_str(), finding.pe.to_string()),
            ("forgets", "sip0.cube0.pe0".to_owned())
        );
        assert!(finding.place.starts_with("stalls.rs:"), "{finding}");
        assert_eq!(finding.what, "send f32[1, 64] to E: sip0.cube0.pe1 never received it");
        // The next launch has all slots, and receives its own messages.
        x.write(&[7_f32; 128]).unwrap();
        launcher.run(&exchange("swaps", [4, 4], [4, 4]), &launch(tensors(&[&x]), 2)).unwrap();
        assert_eq!(x.read::<f32>().unwrap(), [7.0; 128]);
        assert_eq!(launcher.findings().len(), 1);
        drop((x, channels));
        assert!(context.is_pristine());
        assert!(context.close().is_clean());
    }
}

/// Only commands were counted: a loop of fences, waits or reshapes used up all memory, and a loop of queries never
/// ended.
#[test]
fn a_kernel_without_an_end_is_one_whatever_it_calls() {
    type Body = fn(&Tl, &Args);
    let bodies: [(&str, Body); 8] = [
        ("fence", |tl, _| tl.fence()),
        ("wait_for", |tl, args| {
            let tile = tl.load(&args.tensor(0).local());
            loop {
                drop(tl.wait_for(&tile));
            }
        }),
        ("wait", |tl, args| {
            let x = args.tensor(0).local();
            let handle = tl.map(Op::Unary(Unary::Neg), vec![(&x).into()]).tiles(1, 64).store(&x);
            loop {
                drop(tl.wait(&handle));
            }
        }),
        ("reshape", |tl, args| {
            let tile = tl.load(&args.tensor(0).local());
            loop {
                tl.reshape(&tile, &[64, 1]);
            }
        }),
        ("program_id", |tl, _| {
            tl.program_id(0);
        }),
        ("cdiv", |tl, _| {
            tl.cdiv(1, 1);
        }),
        ("ref_", |tl, _| {
            tl.ref_(0, &[1], DType::F32);
        }),
        ("gemm", |tl, args| {
            let x = args.tensor(0).local();
            drop(tl.gemm(&x, &x));
        }),
    ];
    let context = context("", true);
    let x = place(&context, &[1, 64], &[1_f32; 64]);
    for mode in [Mode::Recorded, Mode::Live] {
        for (name, body) in bodies {
            let endless = kernel(name, move |tl, args| {
                loop {
                    body(tl, args);
                }
            });
            let launcher = Launcher::with_mode(&context, mode).limit(100_000);
            let error = run(&launcher, &endless, tensors(&[&x])).unwrap_err().to_string();
            let expected = "more than 100000 calls of tl: the kernel seems not to end";
            assert!(error.ends_with(expected), "{name}: {error}");
            assert!(error.contains("stalls.rs:"), "{name}: {error}");
        }
    }
}

/// A load or store of zero rows was an access of 0 bytes, which was never answered.
#[test]
fn a_load_or_store_of_no_rows_moves_nothing() {
    for data in [true, false] {
        for mode in [Mode::Recorded, Mode::Live] {
            let context = context("", data);
            let x = place(&context, &[4, 8], &[1_f32; 32]);
            let nothing = kernel("nothing", |tl, args| {
                let x = args.tensor(0).local();
                for (rows, columns) in [(0, 8), (2, 0), (0, 0)] {
                    let none = x.block(&[2, 0], &[rows, columns]);
                    let tile = tl.load(&none);
                    assert_eq!((tile.dim(0), tile.dim(1)), (rows, columns));
                    tl.store(&none, &tile);
                    tl.store(&x.at(0, &[rows, columns]), &tile);
                }
                tl.store(&x, &(&tl.load(&x) * 2.0));
            });
            let launcher = Launcher::with_mode(&context, mode);
            run(&launcher, &nothing, tensors(&[&x])).unwrap();
            if data {
                assert_eq!(x.read::<f32>().unwrap(), [2.0; 32]);
            }
            assert_eq!(launcher.findings(), []);
        }
    }
}

/// Reading, launching or freeing a tensor while the machine was borrowed panicked.
#[test]
fn nothing_panics_while_the_machine_is_looked_at() {
    let context = context("", true);
    let (x, channels) = two(&context, SlotKind::Hbm);
    let other = place(&context, &[4], &[1_f32; 4]);
    let launcher = Launcher::new(&context);
    let swaps = exchange("swaps", [1, 1], [1, 1]);
    let under_way = launcher.launch(&context.stream(), &swaps, &launch(tensors(&[&x]), 2)).unwrap();
    context.keep_ops();
    let now = context.machine(|machine| {
        let looked = |result: Result<(), RuntimeError>| {
            assert!(matches!(result, Err(RuntimeError::Looked)), "{result:?}");
        };
        looked(x.read::<f32>().map(drop));
        looked(x.write(&[0_f32; 128]));
        looked(x.read_from(x.shards().unwrap()[0].at, 0..4).map(drop));
        looked(context.zeros(&[4], DType::F32).unwrap().to(&one()).map(drop));
        looked(under_way.wait().map(drop));
        looked(under_way.wait_within(Span::from_ps(1)).map(drop));
        looked(context.synchronize());
        looked(launcher.run(&swaps, &launch(tensors(&[&x]), 2)).map(drop));
        looked(context.connect(&ring(4)[2..3], &RingConfig::default()).map(drop));
        context.take_ops();
        // A nested borrow, and drops in both.
        context.machine(|machine| {
            drop(other);
            assert_eq!(machine.now(), context.now());
        });
        assert_eq!(context.memory_stats().tensors, 1);
        machine.now()
    });
    assert_eq!(context.memory_stats().used.get(), 2 * 256 + 2 * 2 * 4 * 4096);
    assert!(context.now() > now, "giving back takes time on the fabric");
    under_way.wait().unwrap();
    context.machine(|_| drop((x, channels)));
    assert!(context.is_pristine());
    assert!(context.close().is_clean());
}

#[test]
fn an_interrupted_launch_stops_with_those_behind_it_and_the_context_goes_on() {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let over = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    let ones =
        |context: &Context| context.from_slice(&[128], &[1.0_f32; 128]).unwrap().to(&over).unwrap();
    let x = ones(&context);
    let reads = kernel("reads", |tl, args| {
        for _ in 0..300 {
            tl.load(&args.tensor(0).local());
        }
    });
    let launcher = Launcher::new(&context);
    let stream = context.stream();
    let all = Launch::new(sip()).arguments([&x]);
    let first = launcher.launch(&stream, &reads, &all).unwrap();
    let behind = launcher.launch(&stream, &reads, &all).unwrap();
    let whole = launcher.launch(&context.stream(), &reads, &all).unwrap();
    for handle in [first, behind, whole] {
        let error = interruptible(|| true, || handle.wait()).unwrap_err();
        assert!(matches!(error, RuntimeError::Interrupted), "{error}");
    }
    assert_eq!(context.under_way(), 0);
    assert_eq!(x.read::<f32>().unwrap(), vec![1.0; 128]);
    let report = launcher.run(&reads, &all).unwrap();
    assert_eq!(report.pes.len(), 128);
    // A fresh context takes the same time: nothing of the interrupted launches remains.
    let fresh = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let y = ones(&fresh);
    let alone = Launcher::new(&fresh).run(&reads, &Launch::new(sip()).arguments([&y])).unwrap();
    assert_eq!(alone.max(), report.max());
    drop(x);
    assert!(context.is_pristine());
}
