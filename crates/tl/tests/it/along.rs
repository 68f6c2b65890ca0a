//! Loads and stores along the fast axis of memory: the numbers of plain ones, in no more time.

use cubeyard_runtime::Scalar;
use cubeyard_sim::Span;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Mask, Ref, Tl};
use proptest::prelude::*;

use crate::lab::{SMALL, context, place, run, tensors};
use crate::long_tests::cases;

/// A tile that is loaded from memory with some strides and stored to memory with others.
#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    from: Vec<u64>,
    to: Vec<u64>,
    limits: Vec<u64>,
    engines: u32,
}

impl Case {
    fn elements(&self) -> u64 {
        let end = |strides: &[u64]| -> u64 {
            self.shape.iter().zip(strides).map(|(length, stride)| (length - 1) * stride).sum()
        };
        1 + end(&self.from).max(end(&self.to))
    }

    fn copy(&self, tl: &Tl, args: &Args, along: bool) {
        let of = |at: usize, strides: &[u64]| -> Ref {
            args.tensor(at).local().at(0, &self.shape).strided(strides)
        };
        let (from, to) = (of(0, &self.from), of(1, &self.to));
        let mask = Mask::below(&self.shape, &self.limits);
        if along {
            tl.store_along(&to, &tl.load_along(&from, Some((&mask, Scalar::Int(3)))), None);
        } else {
            tl.store(&to, &tl.load_masked(&from, &mask, 3));
        }
    }

    /// Returns the result and the time.
    fn run(&self, along: bool) -> (Vec<f32>, Span) {
        let engines = self.engines;
        let core = format!("{{dma_read_engines: {engines}, dma_write_engines: {engines}}}");
        let context = context(&format!("{SMALL}pe: {{core: {core}}}\n"), true);
        let values: Vec<f32> = (0..self.elements()).map(|number| number as f32).collect();
        let x = place(&context, &[self.elements()], &values);
        let out = place(&context, &[self.elements()], &vec![-1.0_f32; values.len()]);
        let case = self.clone();
        let kernel = Kernel::new("copy", move |tl, args| {
            let case = case.clone();
            Box::pin(async move { case.copy(&tl, &args, along) })
        });
        let launcher = Launcher::new(&context);
        let report = run(&launcher, &kernel, tensors(&[&x, &out])).unwrap();
        (out.read::<f32>().unwrap().known().unwrap(), report.max())
    }
}

/// Returns strides of dimensions that lie in memory in this order, with gaps between rows.
fn strides(shape: &[u64], order: &[usize], gap: u64) -> Vec<u64> {
    let mut strides = vec![0; shape.len()];
    let mut size = 1;
    for &axis in order.iter().rev() {
        strides[axis] = size;
        size = size * shape[axis] + gap;
    }
    strides
}

fn case() -> impl Strategy<Value = Case> {
    let order = || Just(vec![0_usize, 1, 2]).prop_shuffle();
    let shape = prop::collection::vec(1..24_u64, 3);
    let limits = prop::collection::vec(0..30_u64, 3);
    let gap = prop_oneof![Just(0_u64), 0..100_u64];
    (shape, order(), order(), gap, limits, 1..3_u32).prop_map(
        |(shape, from, to, gap, limits, engines)| {
            let [from, to] = [from, to].map(|order| strides(&shape, &order, gap));
            Case { shape, from, to, limits, engines }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(500)))]

    #[test]
    fn along_memory_the_numbers_are_the_same_and_the_time_is_no_longer(case in case()) {
        let ((plain, before), (along, now)) = (case.run(false), case.run(true));
        prop_assert_eq!(plain, along);
        prop_assert!(now <= before, "{} instead of {}", now, before);
    }
}

/// Rows of one element each, 8 bytes apart, were counted as a burst each, so the permutation seemed to be quicker.
#[test]
fn rows_that_share_bursts_are_not_permuted_in_vain() {
    let case = Case {
        shape: vec![2, 9, 17],
        from: vec![153, 17, 1],
        to: vec![1, 34, 2],
        limits: vec![0, 0, 0],
        engines: 2,
    };
    assert!(case.run(true).1 <= case.run(false).1);
}

#[test]
fn a_transposed_tile_is_loaded_many_times_faster() {
    let case = Case {
        shape: vec![64, 64],
        from: vec![1, 64],
        to: vec![64, 1],
        limits: vec![64, 64],
        engines: 1,
    };
    let ((plain, before), (along, now)) = (case.run(false), case.run(true));
    assert_eq!(plain, along);
    assert!(now * 8 < before, "{now} instead of {before}");
}
