//! Convolutions, as products without a matrix of all windows.

use crate::cost::{OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::OperatorMachine;
use crate::product::{Matrix, Shape};
use crate::tensor::Tensor;

/// Options of a convolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Convolution {
    /// Distance of windows in each dimension; 1 where none is given.
    pub stride: Vec<u64>,
    /// Zeros around the input in each dimension.
    pub padding: Vec<u64>,
    /// Distance of elements of a window in each dimension.
    pub dilation: Vec<u64>,
    /// Groups of channels.
    pub groups: u64,
    /// Whether it is a transposed convolution.
    pub transposed: bool,
}

impl OperatorMachine {
    /// Returns the cost of a convolution: x `[n, c, ..]` and w `[o, c / groups, ..]` to y `[n, o, ..]`; a third operand is a
    /// bias. A transposed convolution has w `[c, o / groups, ..]`.
    ///
    /// It is a product for each image and group: windows by elements of a window, with w. Windows are read from x where they
    /// lie, each element as often as windows have it.
    pub fn convolution(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        options: &Convolution,
    ) -> Result<OperatorCost, OperatorError> {
        let ([x, w, ..], [y, ..]) = (operands, results) else {
            return refused("operands and results: expected x and w, and y");
        };
        let shape = shape(x, w, y, options)?;
        let flops = 2 * shape.batch() * shape.m * shape.k * shape.n;
        let bytes = operands.iter().chain([y]).map(Tensor::bytes).sum();
        let work = Work { bytes, flops, factor: Some(shape.factor()), ..Work::default() };
        let (name, run) = self.product_grid(&shape)?;
        Ok(work.cost(self, format!("convolution as {name}"), &run))
    }
}

#[expect(clippy::many_single_char_names, reason = "the usual names of the factors and their sizes")]
fn shape(
    x: &Tensor,
    w: &Tensor,
    y: &Tensor,
    options: &Convolution,
) -> Result<Shape, OperatorError> {
    let (rank, groups) = (x.shape.len(), options.groups.max(1));
    if rank < 3 || w.shape.len() != rank || y.shape.len() != rank {
        let (x, w, y) = (&x.shape, &w.shape, &y.shape);
        return refused(format!(
            "operand 1: shape {w:?}, expected as many dimensions as operand 0, {x:?}, and result 0, {y:?}"
        ));
    }
    for (name, list) in [
        ("stride", &options.stride),
        ("padding", &options.padding),
        ("dilation", &options.dilation),
    ] {
        if list.len() > rank - 2 {
            return refused(format!("{name}: {list:?}, expected at most {} numbers", rank - 2));
        }
    }
    let (channels, outs) = (x.shape[1], y.shape[1]);
    let fits =
        if options.transposed { [channels, outs / groups] } else { [outs, channels / groups] };
    if channels % groups != 0
        || outs % groups != 0
        || w.shape[..2] != fits
        || x.shape[0] != y.shape[0]
    {
        let w = &w.shape;
        return refused(format!(
            "operand 1: shape {w:?}, expected {fits:?} for {channels} to {outs} channels in {groups} groups"
        ));
    }
    let window: u64 = w.shape[2..].iter().product();
    let [m, k, n] = if options.transposed {
        [x.shape[2..].iter().product(), channels / groups, outs / groups * window]
    } else {
        [y.shape[2..].iter().product(), channels / groups * window, outs / groups]
    };
    let step = options.stride.last().copied().unwrap_or(1).max(1);
    let batches = vec![x.shape[0], groups];
    let a =
        view(x, [m, k], [channels / groups, if options.transposed { 1 } else { step }], &batches);
    let c = view(y, [m, n], [outs / groups, 1], &batches);
    let b = Matrix {
        rows: 1,
        columns: k,
        batch: vec![0, n * k],
        dtype: w.dtype,
        storage: (groups * n * k * w.dtype.size()).max(w.storage()),
    };
    let factors = [x.factor, w.factor];
    Ok(Shape { m, k, n, batches, a, b, c, added: None, factors, work: Vector::default() })
}

/// Returns the matrix of windows of an image: along its fast axis, which is a channel's row or, channels last, the channels.
fn view(of: &Tensor, [m, n]: [u64; 2], [channels, step]: [u64; 2], batches: &[u64]) -> Matrix {
    let is_last = of.strides[1] == 1 && of.shape[1] > 1;
    let [rows, columns] = if is_last {
        [(of.strides[of.shape.len() - 1] * step).max(1), 1]
    } else {
        [step, of.strides[1].max(1)]
    };
    // Elements of a window beyond the channels lie between those of neighbouring windows.
    let columns = if is_last { 1 } else { (columns * channels / n.max(1)).max(1) };
    let batch = vec![of.strides[0], of.strides[1] * channels];
    let reach = (batches[0] - 1) * batch[0] + (batches[1] - 1) * batch[1] + m * rows + n * columns;
    Matrix {
        rows,
        columns,
        batch,
        dtype: of.dtype,
        storage: (reach * of.dtype.size()).max(of.storage()),
    }
}
