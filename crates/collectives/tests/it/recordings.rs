//! Recordings of kernels that a launcher keeps, and the launches that reuse them.

use std::cell::Cell;
use std::rc::Rc;

use cubeyard_collectives::collective::{
    Algorithm, Job, Operation, ReduceOp, Ring, Schedule, Wire, World,
};
use cubeyard_collectives::distributed::{Group, GroupConfig};
use cubeyard_memory::address::{PeId, SipId};
use cubeyard_runtime::Argument;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

use crate::lab::{context, kernel, launch, place, run, tensors};

/// A kernel that multiplies its first argument into its second.
fn scale(by: f64) -> Kernel {
    Kernel::new("scale", move |tl, args| {
        Box::pin(async move {
            let tile = tl.load(&args.tensor(0).whole());
            tl.store(&args.tensor(1).whole(), &(&tile * by));
        })
    })
}

/// A recording was kept under the kernel's name, so the second of two kernels named "scale" replayed the first.
#[test]
fn kernels_of_one_name_each_do_their_own_work() {
    let context = context("", true);
    let (x, y) =
        (place(&context, &[4], &[1_f32, 2.0, 3.0, 4.0]), place(&context, &[4], &[0_f32; 4]));
    let launcher = Launcher::new(&context);
    for (by, expected) in [(3.0, [3_f32, 6.0, 9.0, 12.0]), (5.0, [5.0, 10.0, 15.0, 20.0])] {
        run(&launcher, &scale(by), tensors(&[&x, &y])).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), expected, "by {by}");
    }
}

/// Clones of a kernel are the same kernel: its function runs once for all of them.
#[test]
fn a_clone_of_a_kernel_uses_its_recording() {
    let context = context("", true);
    let x = place(&context, &[4], &[1_f32; 4]);
    let calls = Rc::new(Cell::new(0));
    let counter = Rc::clone(&calls);
    let copies = Kernel::new("copies", move |tl, args| {
        counter.set(counter.get() + 1);
        Box::pin(async move {
            let tile = tl.load(&args.tensor(0).whole());
            tl.store(&args.tensor(0).whole(), &tile);
        })
    });
    let launcher = Launcher::new(&context);
    for _ in 0..3 {
        run(&launcher, &copies.clone(), tensors(&[&x])).unwrap();
    }
    assert_eq!(calls.get(), 1);
}

/// The key of a recording had the PE, but not its place in the launch. So a kernel got the `program_id` of an
/// earlier launch.
#[test]
fn a_recording_is_of_one_place_in_a_launch() {
    let context = context("", true);
    let found = place(&context, &[4], &[-1_f32; 4]);
    let number = kernel("number", |tl, args| {
        let here = args.tensor(0).whole().at(tl.program_id(0), &[1]);
        tl.store(&here, &tl.full(&[1], args.number(1), DType::F32));
    });
    let launcher = Launcher::new(&context);
    for pes in [[0, 1], [1, 2]] {
        found.write(&[-1_f32; 4]).unwrap();
        let pes = pes.iter().map(|&pe| PeId::new(pe).unwrap()).collect();
        let mut arguments = tensors(&[&found]);
        arguments.push(Argument::from(7.0));
        launcher.run(&number, &launch(arguments, 1).pes(pes)).unwrap();
        assert_eq!(found.read::<f32>().unwrap(), [7.0, 7.0, -1.0, -1.0]);
    }
}

/// Addresses were checked only when a kernel was recorded. So the second launch read the memory of a tensor that had
/// been freed since.
#[test]
fn a_cached_recording_that_reads_a_freed_tensor_is_reported() {
    let context = context("", true);
    let kept = place(&context, &[4], &[0_f32; 4]);
    let freed = place(&context, &[4], &[1_f32; 4]);
    let address = freed.va_base().unwrap().unwrap().to_bits();
    let reads = Kernel::new("reads", move |tl, args| {
        Box::pin(async move {
            let tile = tl.load(&tl.ref_(address, &[4], DType::F32));
            tl.store(&args.tensor(0).whole(), &tile);
        })
    });
    let launcher = Launcher::new(&context);
    run(&launcher, &reads, tensors(&[&kept])).unwrap();
    drop(freed);
    let error = run(&launcher, &reads, tensors(&[&kept])).unwrap_err().to_string();
    let outside =
        format!("read of 16 bytes from {address:#x} on: {address:#x} is outside every tensor");
    assert!(error.starts_with("reads on sip0.cube0.pe0, recordings.rs:"), "{error}");
    assert!(error.ends_with(&outside), "{error}");
    // With another tensor at the same address the recording is valid again.
    let again = place(&context, &[4], &[2_f32; 4]);
    assert_eq!(again.va_base().unwrap().unwrap().to_bits(), address);
    run(&launcher, &reads, tensors(&[&kept])).unwrap();
    assert_eq!(kept.read::<f32>().unwrap(), [2.0; 4]);
}

/// Kernels that are made anew for each launch would fill memory, if their recordings outlived them.
#[test]
fn recordings_of_kernels_that_are_gone_are_forgotten() {
    let context = context("", true);
    let (x, y) = (place(&context, &[1], &[1_f32]), place(&context, &[1], &[0_f32]));
    let launcher = Launcher::new(&context);
    for by in 0..100_u8 {
        run(&launcher, &scale(by.into()), tensors(&[&x, &y])).unwrap();
        assert_eq!(launcher.recordings().len(), 1);
        assert_eq!(y.read::<f32>().unwrap(), [f32::from(by)]);
    }
}

/// A long-lived kernel is recorded for each set of arguments, so the number of recordings has a limit.
#[test]
fn the_recordings_that_were_not_used_for_longest_are_forgotten_first() {
    let context = context("", true);
    let (x, y) = (place(&context, &[8], &[1_f32; 8]), place(&context, &[8], &[0_f32; 8]));
    let calls = Rc::new(Cell::new(0));
    let counter = Rc::clone(&calls);
    let add = Kernel::new("add", move |tl, args| {
        counter.set(counter.get() + 1);
        Box::pin(async move {
            let tile = tl.load(&args.tensor(0).whole());
            tl.store(&args.tensor(1).whole(), &(&tile + args.number(2)));
        })
    });
    // Three steps each: two recordings fit.
    let launcher = Launcher::new(&context).keep_steps(8);
    let made = |number: f32| {
        let before = calls.get();
        let mut arguments = tensors(&[&x, &y]);
        arguments.push(Argument::from(number));
        run(&launcher, &add, arguments).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [number + 1.0; 8]);
        calls.get() > before
    };
    assert_eq!([1.0, 2.0, 1.0, 3.0].map(made), [true, true, false, true]);
    assert_eq!(launcher.recordings().len(), 2);
    // The recording of 2 was the least recently used, so 3 replaced it; later 2 replaced 3.
    assert_eq!([1.0, 2.0, 3.0].map(made), [false, true, true]);
}

/// An algorithm that counts the calls of its `kernel`.
#[derive(Debug)]
struct Counted(Rc<Cell<u32>>);

impl Algorithm for Counted {
    fn name(&self) -> &'static str {
        Ring.name()
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        Ring.refuses(operation, world)
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        Ring.wires(world)
    }

    fn kernel(&self, job: &Job) -> Kernel {
        self.0.set(self.0.get() + 1);
        Ring.kernel(job)
    }

    fn schedule(&self, operation: Operation, world: &World) -> Option<Schedule> {
        Ring.schedule(operation, world)
    }
}

/// A group makes the kernel of an operation once, so that its recording is reused.
#[test]
fn a_group_keeps_the_kernels_of_its_operations() {
    let context = context("", true);
    let asked = Rc::new(Cell::new(0));
    let algorithm = Box::new(Counted(Rc::clone(&asked)));
    let group = Group::new(&context, &GroupConfig::default(), algorithm, 1).unwrap();
    let tensor = |sip| {
        let placement = Placement::one(SipId::new(sip).unwrap());
        context.from_slice(&[64], &[1_f32; 64]).unwrap().to(&placement).unwrap()
    };
    let (a, b) = (tensor(0), tensor(1));
    let launcher = Launcher::new(&context);
    for (op, expected) in [(ReduceOp::Sum, 1), (ReduceOp::Sum, 1), (ReduceOp::Max, 2)] {
        let operation = Operation::AllReduce(op);
        group.run(&launcher, operation, &[(&a, &a), (&b, &b)]).unwrap();
        assert_eq!(asked.get(), expected);
    }
    assert_eq!(launcher.recordings().len(), 4);
    assert_eq!(a.read::<f32>().unwrap(), [4.0; 64]);
}
