//! Tiled operations whose result overlaps an operand in memory.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::Args;
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::numeric::{Binary, Reduce, Unary};
use cubeyard_tl::{Op, Ref, Source, Tl};

use crate::lab::{compute, context, kernel, place, run, tensors};

fn refused(body: impl Fn(&Tl, &Args) + Copy + 'static) -> Option<String> {
    let context = context("", true);
    let memory = place(&context, &[256, 128], &vec![1.0_f32; 256 * 128]);
    let run = run(&Launcher::new(&context), &kernel("overlap", body), tensors(&[&memory]));
    run.err().map(|error| error.to_string())
}

fn at(args: &Args, row: u64, column: u64, shape: [u64; 2]) -> Ref {
    args.tensor(0).local().block(&[row, column], &shape)
}

/// A tile of the result was stored while other tiles of the operand were still to be loaded: a third of the elements
/// were wrong.
#[test]
fn a_product_over_one_of_its_operands_is_refused() {
    let error = refused(|tl, args| {
        let [a, b] = [0, 128].map(|row| at(args, row, 0, [128, 128]));
        tl.gemm(&a, &b).store(&a);
    });
    let error = error.expect("it is refused");
    let wanted = "gemm f32[128, 128]: its result overlaps operand A, f32[128, 128], in memory";
    assert!(error.contains(wanted) && error.contains("overlaps.rs"), "{error}");
    // An overlap of one element, through another view of the memory, and with the other operand.
    let error = refused(|tl, args| {
        let [a, b] = [0, 64].map(|row| at(args, row, 0, [64, 64]));
        tl.gemm(&a, &b).store(&args.tensor(0).local().at(127 * 128 + 63, &[64, 64]));
    });
    assert!(error.expect("it is refused").contains("overlaps operand B"));
}

#[test]
fn a_result_beside_its_operands_is_not_refused() {
    let error = refused(|tl, args| {
        let [a, b, right, below] = [(0, 0), (64, 0), (0, 64), (128, 0)]
            .map(|(row, column)| at(args, row, column, [64, 64]));
        tl.gemm(&a, &b).store(&right);
        tl.gemm(&a, &b).store(&below);
        // Rows of another pitch, in the gaps between the rows of A.
        let gaps = args.tensor(0).local().at(64, &[32, 64]).strided(&[256, 1]);
        tl.gemm(&at(args, 0, 0, [32, 64]), &b).store(&gaps);
    });
    assert_eq!(error, None);
}

/// A tile of an elementwise operation depends only on the same tile of its operands.
#[test]
fn an_elementwise_operation_works_in_place_and_only_there() {
    let start: Vec<f32> = (0..64 * 96).map(|at| at as f32).collect();
    let inputs: [(&[u64], _); 1] = [(&[64, 96], start.clone())];
    let found = compute("", &inputs, (&[64, 96], DType::F32), |tl, args| {
        let x = args.tensor(0).local();
        tl.map(Op::Binary(Binary::Add), vec![Source::from(&x), Source::from(&x)])
            .tiles(16, 32)
            .store(&x);
        tl.store(&args.tensor(1).local(), &tl.load(&x));
    });
    assert_eq!(found, start.iter().map(|value| f64::from(*value) * 2.0).collect::<Vec<_>>());
    let error = refused(|tl, args| {
        let [x, y] = [0, 1].map(|row| at(args, row, 0, [64, 64]));
        tl.map(Op::Unary(Unary::Neg), vec![Source::from(&x)]).tiles(16, 32).store(&y);
    });
    assert!(error.expect("it is refused").contains("its result overlaps operand x, f32[64, 64]"));
    let error = refused(|tl, args| {
        tl.reduce_rows(Reduce::Sum, &at(args, 0, 0, [64, 64])).store(&at(args, 0, 0, [64, 1]));
    });
    assert!(error.expect("it is refused").contains("overlaps operand x"));
}
