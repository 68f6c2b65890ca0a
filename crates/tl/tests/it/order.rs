//! Memory and TCM in the order of a kernel's commands: each command sees the effects of the earlier ones.

mod program;

use std::rc::Rc;

use cubeyard_runtime::LaunchReport;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::numeric::Unary;
use cubeyard_tl::{Mask, Op, Ref, Source, Tl};
use proptest::prelude::*;

use crate::lab::{SMALL, compute, context, kernel, place, run, tensors};
use crate::long_tests::cases;
use program::{Fences, MEMORY, Program, programs};

/// Adds one four times to zeros, by loads and stores of the same reference.
fn four_times(
    of: impl Fn(&Ref) -> Ref + Copy + 'static,
    mask: Option<fn(&[u64]) -> bool>,
) -> Vec<f64> {
    let zeros: (&[u64], Vec<f32>) = (&[16, 16], vec![0.0; 256]);
    let out = (&[16_u64, 16][..], DType::F32);
    compute("", &[zeros], out, move |tl, args| {
        let x = of(&args.tensor(0).local());
        let mask = mask.map(|choose| Mask::new(&x.ty().shape, choose));
        for _ in 0..4 {
            match &mask {
                Some(mask) => tl.store_masked(&x, &(&tl.load_masked(&x, mask, 7.0) + 1.0), mask),
                None => tl.store(&x, &(&tl.load(&x) + 1.0)),
            }
        }
        tl.store(&args.tensor(1).local(), &tl.load(&args.tensor(0).local()));
    })
}

/// The loads of a transposed matrix were a pipeline with an empty list of dependencies. They read memory before the
/// stores of the same kernel had reached it, and the sum was 2.
#[test]
fn a_load_of_several_accesses_waits_for_the_stores_before_it() {
    assert_eq!(four_times(Ref::transposed, None), [4.0; 256]);
    let cube = |x: &Ref| x.at(0, &[4, 8, 4]).strided(&[1, 32, 4]);
    let found = four_times(cube, None);
    let in_cube = |at: usize| if at < 256 && at % 32 < 16 { 4.0 } else { 0.0 };
    assert_eq!(found, (0..256).map(in_cube).collect::<Vec<_>>());
    let odd: fn(&[u64]) -> bool = |index| (index[0] * 5 + index[1] * 3) % 7 < 3;
    let chosen = |at: usize| if (at / 16 * 5 + at % 16 * 3) % 7 < 3 { 4.0 } else { 0.0 };
    assert_eq!(four_times(Ref::clone, Some(odd)), (0..256).map(chosen).collect::<Vec<_>>());
}

#[test]
fn a_load_of_several_accesses_waits_for_the_stores_of_a_tiled_operation() {
    let ones: (&[u64], Vec<f32>) = (&[64, 64], vec![1.0; 4096]);
    let out = (&[64_u64, 64][..], DType::F32);
    let found = compute("", &[ones], out, |tl, args| {
        let (x, y) = (args.tensor(0).local(), args.tensor(1).local());
        tl.map(Op::Unary(Unary::Neg), vec![Source::from(&x)]).store(&x);
        tl.store(&y.transposed(), &tl.load(&x.transposed()));
    });
    assert_eq!(found, vec![-1.0; 4096]);
}

fn time(body: impl Fn(&Tl, &Args) + Copy + 'static) -> u64 {
    // Room for only one of the two tiles.
    let context = context("pe: { core: { scratch_bytes: 48 KiB } }", false);
    let [x, y] = [0.0_f32, 1.0].map(|value| place(&context, &[64, 128], &vec![value; 64 * 128]));
    let report = run(&Launcher::new(&context), &kernel("time", body), tensors(&[&x, &y])).unwrap();
    report.max().ps()
}

/// A TCM range is reused when the commands that use it are done, by a load of one access or of many.
#[test]
fn a_load_of_several_accesses_waits_for_its_place_in_the_tcm() {
    let sum = |tl: &Tl, args: &Args| {
        let x = tl.load(&args.tensor(0).local());
        let mut sum = tl.sum(&x, 1);
        for _ in 1..8 {
            sum = tl.sum(&x, 1);
        }
        sum
    };
    let free = time(move |tl, args| {
        sum(tl, args);
        tl.load(&args.tensor(1).local().transposed());
    });
    let waits = time(move |tl, args| {
        let _waited = tl.wait_for(&sum(tl, args));
        tl.load(&args.tensor(1).local().transposed());
    });
    // A wait is an additional call; otherwise both kernels do the same.
    assert!(free <= waits && waits - free < 100_000, "{free} ps, with a wait {waits} ps");
}

/// Runs a program on memory that counts from 0. Returns the memory, if the run has data, and the report.
fn outcome(program: &Program, mode: Mode, data: bool) -> (Option<Vec<f32>>, LaunchReport) {
    let context = context(SMALL, data);
    let start: Vec<f32> = (0..MEMORY).map(|at| at as f32).collect();
    let memory = place(&context, &[MEMORY], &start);
    let program = Rc::new(program.clone());
    let kernel = Kernel::new("random", move |tl, args| {
        let program = Rc::clone(&program);
        Box::pin(async move { program.perform(&tl, &args.tensor(0).local()) })
    });
    let launcher = Launcher::with_mode(&context, mode);
    let report = run(&launcher, &kernel, tensors(&[&memory])).unwrap();
    (memory.read::<f32>().unwrap().known().ok(), report)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    /// Loads and stores of any form, with and without fences: memory equals the result of plain loops, bit by bit; the
    /// time is the same with and without data, recorded and live.
    #[test]
    fn commands_see_memory_as_if_each_ended_before_the_next(program in programs()) {
        let expected = program.expected();
        for fences in [Fences::None, Fences::Some, Fences::All] {
            let program = program.with(fences);
            let (found, recorded) = outcome(&program, Mode::Recorded, true);
            prop_assert_eq!(found.as_ref(), Some(&expected), "{:?}", fences);
            let (found, live) = outcome(&program, Mode::Live, true);
            prop_assert_eq!(found.as_ref(), Some(&expected), "live, {:?}", fences);
            let (_, timed) = outcome(&program, Mode::Recorded, false);
            prop_assert_eq!([live.max(), timed.max()], [recorded.max(); 2]);
        }
    }
}
