//! Numbers combined with tiles, and numbers as arguments: each keeps its type.

use cubeyard_runtime::dtype::{DType, Element};
use cubeyard_runtime::{Argument, Scalar};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::{Mask, Tile, Tl};

use crate::lab::{context, kernel, one, place, run, tensors};

const LARGE: i64 = (1 << 53) + 1;

/// Returns the elements that a kernel computes from others, in both modes.
fn made<T: Element, U: Element>(
    x: &[T],
    body: impl Fn(&Tl, &Tile) -> Tile + Copy + 'static,
) -> Vec<U> {
    let mut results = Vec::new();
    for mode in [Mode::Recorded, Mode::Live] {
        let (context, shape) = (context("", true), [x.len() as u64]);
        let x = place(&context, &shape, x);
        let out = context.empty(&shape, U::DTYPE).unwrap().to(&one()).unwrap();
        let kernel = kernel("made", move |tl, args| {
            let tile = body(tl, &tl.load(&args.tensor(0).local()));
            tl.store(&args.tensor(1).local(), &tile);
        });
        run(&Launcher::with_mode(&context, mode), &kernel, tensors(&[&x, &out])).unwrap();
        results.push(out.read::<U>().unwrap().known().unwrap());
    }
    assert_eq!(results[0], results[1]);
    results.swap_remove(0)
}

/// Numbers were 64-bit floats: 2⁵³ + 1 was added as 2⁵³, and compared equal to it.
#[test]
fn whole_numbers_beyond_2_to_the_53_are_exact() {
    let x = [0, -5, LARGE - 1, LARGE];
    assert_eq!(made::<i64, i64>(&x, |_, x| x + LARGE), x.map(|x| x + LARGE));
    assert_eq!(made::<i64, i64>(&x, |_, x| LARGE - x), x.map(|x| LARGE - x));
    assert_eq!(made::<i64, bool>(&x, |tl, x| tl.eq(x, LARGE)), x.map(|x| x == LARGE));
    assert_eq!(
        made::<i64, i64>(&x, |tl, _| tl.arange(LARGE, 4, DType::I64)),
        [0, 1, 2, 3].map(|at| LARGE + at)
    );
    assert_eq!(made::<u64, u64>(&[7], |tl, _| tl.full(&[1], u64::MAX, DType::U64)), [u64::MAX]);
}

/// With integer tiles a fraction was truncated: `x * 0.5` was 0, and 2 was at least 2.5.
#[test]
fn a_float_beside_integers_makes_f64_of_both() {
    let x = [-3, 0, 1, 2, 3];
    assert_eq!(made::<i32, f64>(&x, |_, x| x * 0.5), x.map(|x| f64::from(x) * 0.5));
    assert_eq!(
        made::<i32, f64>(&x, |tl, x| tl.eval(&(x.lazy() * 0.5))),
        x.map(|x| f64::from(x) * 0.5)
    );
    assert_eq!(made::<i32, bool>(&x, |tl, x| tl.ge(x, 2.5)), x.map(|x| f64::from(x) >= 2.5));
    let chosen = made::<i32, f64>(&x, |tl, x| tl.where_(&tl.gt(x, 0), x, 0.5));
    assert_eq!(chosen, x.map(|x| if x > 0 { x.into() } else { 0.5 }));
    assert_eq!(made::<bool, i64>(&[true, false], |_, x| x * 3), [3, 0]);
    assert_eq!(made::<bool, bool>(&[true, false], |tl, x| tl.xor(x, true)), [false, true]);
}

#[test]
fn elements_that_a_mask_leaves_out_are_exact() {
    let found = made::<i64, i64>(&[1, 2], |tl, x| {
        let loaded = tl.full(&[2], i64::MAX, DType::I64);
        tl.minimum(&loaded, &tl.add(x, 0))
    });
    assert_eq!(found, [1, 2]);
    let context = context("", true);
    let x = place(&context, &[3], &[1_i64, 2, 3]);
    let masked = kernel("masked", |tl, args| {
        let x = args.tensor(0).local();
        let tile = tl.load_masked(&x, &Mask::below(&[3], &[1]), i64::MAX);
        tl.store(&x, &tile);
    });
    run(&Launcher::new(&context), &masked, tensors(&[&x])).unwrap();
    assert_eq!(x.read::<i64>().unwrap().known().unwrap(), [1, i64::MAX, i64::MAX]);
}

#[test]
fn arguments_keep_their_type_and_sign() {
    let context = context("", true);
    let given = [
        Scalar::from(2.0),
        Scalar::from(-0.0),
        Scalar::from(true),
        Scalar::from(u64::MAX),
        Scalar::from(i64::MIN),
    ];
    let x = place(&context, &[5], &[0_u8; 5]);
    let looks = kernel("looks", |tl, args| {
        let texts = [
            "Float(2.0)",
            "Float(-0.0)",
            "Bool(true)",
            "Int(18446744073709551615)",
            "Int(-9223372036854775808)",
        ];
        let found: Vec<_> = (1..6).map(|position| format!("{:?}", args.number(position))).collect();
        let same = found == texts && args.whole(4) == u64::MAX && args.whole(1) == 2;
        tl.store(&args.tensor(0).local(), &tl.full(&[5], u64::from(same), DType::U8));
    });
    let mut arguments = tensors(&[&x]);
    arguments.extend(given.map(Argument::from));
    run(&Launcher::new(&context), &looks, arguments).unwrap();
    assert_eq!(x.read::<u8>().unwrap().known().unwrap(), [1; 5]);
}
