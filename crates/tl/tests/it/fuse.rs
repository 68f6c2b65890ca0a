//! Fused chains: the results of the same operations one by one, in the time of one pass.

use cubeyard_device::topology::{CoreSpec, Topology};
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::{Bandwidth, Span};
use cubeyard_tl::kernel::Args;
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Lazy, Tile, Tl};
use proptest::prelude::*;

use crate::lab::{compute, context, kernel, one, place, run, tensors};

const SHAPE: &[u64] = &[24, 40];

fn values(seed: u64) -> Vec<f32> {
    let value = |index: u64| {
        let bits = (index + seed * 1000 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        0.1 + 0.8 * bits as f32 / (1 << 24) as f32
    };
    (0..SHAPE.iter().product()).map(value).collect()
}

/// Applies an operation of a random chain to the value so far and one of two tiles.
fn lazily(op: u8, x: &Lazy, other: &Tile) -> Lazy {
    match op % 9 {
        0 => x + other,
        1 => x - other,
        2 => x * 0.5,
        3 => x.maximum(other),
        4 => x.exp2(),
        5 => (x * x + 1.0).rsqrt(),
        6 => x.fma(other, 0.25),
        7 => x.lt(other).select(other, x),
        _ => x.cast(DType::F16).cast(DType::F32),
    }
}

/// Applies the same operation as a separate command.
fn eagerly(tl: &Tl, op: u8, x: &Tile, other: &Tile) -> Tile {
    match op % 9 {
        0 => x + other,
        1 => x - other,
        2 => x * 0.5,
        3 => tl.maximum(x, other),
        4 => tl.exp2(x),
        5 => tl.rsqrt(&(&(x * x) + 1.0)),
        6 => tl.fma(x, other, 0.25),
        7 => tl.where_(&tl.lt(x, other), other, x),
        _ => tl.cast(&tl.cast(x, DType::F16), DType::F32),
    }
}

/// Returns the results of a chain and its row sums, fused or not.
fn results(ops: &'static [u8], fused: bool) -> [Vec<f64>; 2] {
    let both = move |tl: &Tl, args: &Args| -> [Tile; 2] {
        let tiles = [0, 1].map(|position| tl.load(&args.tensor(position).local()));
        let other = |index: usize| &tiles[(index + 1) % 2];
        if fused {
            let start = tiles[0].lazy() * 1.0;
            let end = ops.iter().enumerate().fold(start, |x, (i, &op)| lazily(op, &x, other(i)));
            tl.eval_all([&end, &end.sum_keep(1)])
        } else {
            let start = &tiles[0] * 1.0;
            let end =
                ops.iter().enumerate().fold(start, |x, (i, &op)| eagerly(tl, op, &x, other(i)));
            let sums = tl.sum_keep(&end, 1);
            [end, sums]
        }
    };
    let inputs = [(SHAPE, values(1)), (SHAPE, values(2))];
    let whole = compute("", &inputs, (SHAPE, DType::F32), move |tl, args| {
        tl.store(&args.tensor(2).local(), &both(tl, args)[0]);
    });
    let sums = compute("", &inputs, (&[24, 1], DType::F32), move |tl, args| {
        tl.store(&args.tensor(2).local(), &both(tl, args)[1]);
    });
    [whole, sums]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_chain_has_the_numbers_of_its_operations_one_by_one(
        ops in proptest::collection::vec(0..9_u8, 1..12),
    ) {
        let ops: &'static [u8] = Box::leak(ops.into_boxed_slice());
        let bits = |values: [Vec<f64>; 2]| values.map(|all| all.into_iter().map(f64::to_bits).collect::<Vec<_>>());
        prop_assert_eq!(bits(results(ops, true)), bits(results(ops, false)));
    }
}

fn core() -> CoreSpec {
    Topology::embedded().spec().pe.core.clone()
}

/// Returns the time of strips through three stages, by the documented rules.
fn pass(count: u64, stages: [Span; 3]) -> Span {
    let slowest = stages.into_iter().max().unwrap_or(Span::ZERO);
    stages.into_iter().sum::<Span>() + slowest * (count - 1)
}

/// Returns the time of a kernel that loads two tiles, computes, and stores one.
fn time(body: fn(&Tl, &Tile, &Tile) -> Tile) -> Span {
    let context = context("", false);
    let [a, b] = [1, 2].map(|seed| place(&context, SHAPE, &values(seed)));
    let out = context.empty(SHAPE, DType::F32).unwrap().to(&one()).unwrap();
    let kernel = kernel("pass", move |tl, args| {
        let [a, b] = [0, 1].map(|position| tl.load(&args.tensor(position).local()));
        tl.store(&args.tensor(2).local(), &body(tl, &a, &b));
    });
    run(&Launcher::new(&context), &kernel, tensors(&[&a, &b, &out])).unwrap().max()
}

#[test]
fn a_chain_fetches_and_stores_once_and_works_for_each_operation() {
    let core = core();
    let elements: u64 = SHAPE.iter().product();
    let count = elements.div_ceil(core.math.strip.into());
    let strip = |rate: Bandwidth, amount: u64| rate.span(amount.div_ceil(count));
    let chain = |inputs: u64, simple: u32, special: u32| {
        let work = (0..simple).map(|_| strip(core.math.simple, elements)).sum::<Span>()
            + (0..special).map(|_| strip(core.math.special, elements)).sum::<Span>();
        let fetch = strip(core.tcm_read, inputs * elements * 4);
        pass(count, [fetch, work, strip(core.tcm_write, elements * 4)])
    };
    let add = time(|_, a, b| a + b);
    let short = time(|tl, a, b| tl.eval(&(a.lazy() + b)));
    assert_eq!(short, add, "a chain of one operation is that operation");
    let long = time(|tl, a, b| tl.eval(&((a.lazy() + b) * a - 1.0).exp()));
    assert_eq!(long - short, chain(2, 3, 1) - chain(2, 1, 0));
    let apart = time(|tl, a, b| tl.exp(&(&(&(a + b) * a) - 1.0)));
    assert!(long < apart, "{long} {apart}");
}

#[test]
fn what_expressions_have_in_common_is_computed_once() {
    let shared = time(|tl, a, b| {
        let power = (a.lazy() - b).exp();
        let [weights, _] = tl.eval_all([&power, &power.sum_keep(1)]);
        weights
    });
    let twice = time(|tl, a, b| {
        let power = || (a.lazy() - b).exp();
        let [weights, _] = tl.eval_all([&power(), &power().sum_keep(1)]);
        weights
    });
    assert!(shared < twice, "{shared} {twice}");
}

/// Returns the softmax of rows as an expression of one pass.
fn softmax(x: &Tile) -> Lazy {
    let weights = (x.lazy() - &x.lazy().max_keep(1)).exp();
    &weights / &weights.sum_keep(1)
}

#[test]
fn a_reduction_of_rows_that_fit_in_a_strip_stays_in_the_unit() {
    let inputs = [(SHAPE, values(3))];
    let [fused, apart] = [true, false].map(|fused| {
        compute("", &inputs, (SHAPE, DType::F32), move |tl, args| {
            let x = tl.load(&args.tensor(0).local());
            let apart = |x: &Tile| {
                let weights = tl.exp(&(x - &tl.max_keep(x, 1)));
                &weights / &tl.sum_keep(&weights, 1)
            };
            let result = if fused { tl.eval(&softmax(&x)) } else { apart(&x) };
            tl.store(&args.tensor(1).local(), &result);
        })
    });
    assert!(fused.iter().zip(&apart).all(|(a, b)| a.to_bits() == b.to_bits()));
    let core = core();
    let elements: u64 = SHAPE.iter().product();
    let works = [
        core.math.reduce,
        core.math.simple,
        core.math.special,
        core.math.reduce,
        core.math.special,
    ];
    let works = works.map(|rate| rate.span(elements)).into_iter().sum::<Span>();
    let [fetch, store] = [core.tcm_read.span(4 * elements), core.tcm_write.span(4 * elements)];
    let once = time(|tl, a, b| tl.eval(&softmax(&tl.eval(&(a.lazy() + b)))));
    let none = time(|_, a, b| a + b);
    // One strip: the pass begins when the sum is stored, and its stages follow one another.
    assert_eq!(once - none, fetch + works + store);
}

#[test]
fn a_row_longer_than_a_strip_is_reduced_at_the_end() {
    let context = context("pe:\n  core:\n    math:\n      strip_elements: 39\n", false);
    let a = place(&context, SHAPE, &values(1));
    let kernel = kernel("long", |tl, args| {
        tl.eval(&softmax(&tl.load(&args.tensor(0).local())));
    });
    let error = run(&Launcher::new(&context), &kernel, tensors(&[&a])).unwrap_err().to_string();
    assert!(error.contains("sub f32[24, 40] uses a reduction, f32[24, 1]"), "{error}");
    assert!(error.contains("a row of 40 elements is longer than a strip, 39"), "{error}");
}

/// Returns the error of a kernel.
fn refusal(body: fn(&Tl, &Tile) -> Tile) -> String {
    let context = context("", false);
    let a = place(&context, SHAPE, &values(1));
    let kernel = kernel("refused", move |tl, args| {
        body(tl, &tl.load(&args.tensor(0).local()));
    });
    run(&Launcher::new(&context), &kernel, tensors(&[&a])).unwrap_err().to_string()
}

#[test]
fn what_is_no_pass_is_refused_with_its_line() {
    let error = refusal(|tl, a| tl.eval(&(a.lazy() - &a.lazy().max_keep(0))));
    assert!(error.contains("fuse.rs:"), "{error}");
    let reason = "sub f32[24, 40] uses a reduction, f32[1, 40], of the same pass, but it is known at its end: evaluate the reduction before";
    assert!(error.contains(reason), "{error}");
    let error = refusal(|tl, a| tl.eval(&a.lazy()));
    assert!(error.contains("an expression without an operation"), "{error}");
    let error = refusal(|tl, a| tl.eval(&(a.lazy() + &tl.zeros(&[7], DType::F32))));
    assert!(error.contains("f32[24, 40]") && error.contains("f32[7]"), "{error}");
}
