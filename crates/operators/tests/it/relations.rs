//! Relations between the times of operators.

use cubeyard_operators::{Attention, OperatorMachine, RowWork};
use proptest::prelude::*;

use crate::lab::{NONE, ONE, dense, machine, product, small, strided, turned, typed};

/// A larger tensor may have other tiles, and a tile more or less at the end.
const TILES: f64 = 1.10;

fn added(machine: &OperatorMachine, elements: i64) -> u64 {
    let x = dense(&[elements]);
    machine.pointwise(&[x.clone(), x.clone()], &[x], ONE).unwrap().ps
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn more_elements_are_not_faster(elements in 1_i64..1 << 20, more in 0_i64..1 << 20) {
        let machine = small();
        let [few, many] = [elements, elements + more].map(|count| added(&machine, count));
        prop_assert!(few as f64 <= many as f64 * TILES, "{few} {many}");
    }

    #[test]
    fn equal_operators_take_equal_time(rows in 1_i64..200, columns in 1_i64..200) {
        let (machine, fresh) = (small(), small());
        let x = dense(&[rows, columns]);
        let time = |machine: &OperatorMachine| {
            machine.pointwise(&[turned([rows, columns])], &[x.clone()], NONE).unwrap()
        };
        let first = time(&machine);
        added(&machine, 5000);
        prop_assert_eq!(&first, &time(&machine));
        prop_assert_eq!(&first, &time(&fresh));
    }

    #[test]
    fn a_contiguous_operand_is_not_slower_than_a_strided_one(rows in 1_i64..100, columns in 16_i64..300, step in 2_i64..5) {
        let machine = small();
        let y = dense(&[rows, columns]);
        let spread = strided(&[rows, columns], &[step * columns, step]);
        let plain = machine.pointwise(&[y.clone()], &[y.clone()], NONE).unwrap().ps;
        let apart = machine.pointwise(&[spread], &[y], NONE).unwrap().ps;
        prop_assert!(plain as f64 <= apart as f64 * TILES, "{plain} {apart}");
    }

    #[test]
    fn times_are_at_least_their_bounds(m in 1_i64..200, k in 1_i64..300, n in 1_i64..200, is_turned in any::<bool>()) {
        let b = if is_turned { turned([k, n]) } else { dense(&[k, n]) };
        let cost = product(&small(), dense(&[m, k]), b, [m, n]).unwrap();
        prop_assert!(cost.ps >= cost.bound_ps, "{cost:?}");
        prop_assert_eq!(cost.flops, u64::try_from(2 * m * k * n).unwrap());
        prop_assert!((0.0..=1.0).contains(&cost.local_share));
    }
}

#[test]
fn less_bandwidth_is_not_faster() {
    let slow = machine("sips: {count: 1}\ncubes: {w: 1, h: 1}\nhbm: {channel_bandwidth_gbs: 16}\n");
    let [fast, slow] = [&small(), &slow].map(|machine| added(machine, 1 << 20));
    assert!(slow > fast * 3 / 2, "{fast} {slow}");
}

/// (A B)ᵀ = Bᵀ Aᵀ: the same loads and the same product in the other order. Tiles of the result are chosen anew.
#[test]
fn a_product_takes_as_long_as_its_transpose() {
    let machine = small();
    let plain = product(&machine, dense(&[256, 512]), dense(&[512, 384]), [256, 384]).unwrap();
    let (a, b) = (turned([384, 512]), turned([512, 256]));
    let other = machine.product(&[a, b], &[turned([384, 256])], NONE).unwrap();
    assert_eq!((plain.bytes, plain.flops), (other.bytes, other.flops));
    let ratio = plain.ps as f64 / other.ps as f64;
    assert!((0.9..1.1).contains(&ratio), "{plain:?} {other:?}");
}

#[test]
fn a_causal_mask_skips_blocks() {
    let (machine, x) = (small(), dense(&[1, 8, 1024, 64]));
    let time = |causal| {
        let options = Attention { causal, backward: false };
        machine.attention(&[x.clone(), x.clone(), x.clone()], &[x.clone()], options).unwrap()
    };
    let [causal, all] = [time(true), time(false)];
    assert!(causal.flops < all.flops * 6 / 10);
    assert!(causal.ps < all.ps * 9 / 10, "{causal:?} {all:?}");
}

/// With one block for each PE, the last queries see all keys, so the mask saves nothing. PEs with early queries meet at the
/// first keys, whose pages are then busier than without a mask: up to 15 % are allowed for that.
#[test]
fn a_causal_mask_is_hardly_slower_where_each_pe_has_one_block() {
    let machine = machine("sips: {count: 1}\n");
    let (q, k) = (dense(&[1, 32, 2048, 128]), dense(&[1, 8, 2048, 128]));
    let [causal, all] = [true, false].map(|causal| {
        let options = Attention { causal, backward: false };
        machine.attention(&[q.clone(), k.clone(), k.clone()], &[q.clone()], options).unwrap()
    });
    assert!(causal.ps as f64 <= all.ps as f64 * 1.15, "{causal:?} {all:?}");
}

#[test]
fn a_bias_that_is_broadcast_costs_little_beside_a_whole_operand() {
    let (machine, x) = (small(), dense(&[512, 2048]));
    let bias = strided(&[512, 2048], &[0, 1]);
    let row = machine.pointwise(&[x.clone(), bias], &[x.clone()], ONE).unwrap();
    let whole = machine.pointwise(&[x.clone(), x.clone()], &[x], ONE).unwrap();
    assert!(row.ps < whole.ps, "{row:?} {whole:?}");
    assert!(row.local_share > 0.95);
}

/// A copy of a row, a column, a number or a plane spread over a tensor computes nothing; a product of float32 needs no cast.
#[test]
fn work_without_an_operation_is_simulated_and_not_slower_than_with_one() {
    let machine = small();
    for strides in [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 64, 1], [64, 0, 1], [64, 1, 0]]
    {
        let (x, whole) = (strided(&[32, 48, 64], &strides), dense(&[32, 48, 64]));
        let [none, one] = [NONE, ONE]
            .map(|work| machine.pointwise(&[x.clone()], &[whole.clone()], work).unwrap());
        assert!(
            none.ps <= one.ps,
            "strides {strides:?}: {} ps, with an operation {}",
            none.ps,
            one.ps
        );
        let row = RowWork { columns: 64, vector: NONE, reduces: 0 };
        machine.rows(&[dense(&[64])], &[dense(&[48, 64])], row).unwrap();
    }
    let f32 = |shape: &[i64]| typed(shape, "float32", 4);
    let operands = [f32(&[96, 128]), f32(&[128, 64])];
    let [none, one] =
        [NONE, ONE].map(|work| machine.product(&operands, &[f32(&[96, 64])], work).unwrap());
    assert!(none.ps <= one.ps);
}
