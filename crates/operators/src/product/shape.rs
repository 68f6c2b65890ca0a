//! Sizes and strides of a product.

use cubeyard_runtime::dtype::DType;

use crate::cost::Vector;
use crate::error::{OperatorError, refused};
use crate::tensor::Tensor;

/// A matrix of a product: strides of its rows and columns, and of each dimension of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) batch: Vec<u64>,
    pub(crate) dtype: DType,
    pub(crate) storage: u64,
}

/// A product of matrices, or of each pair of two batches of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) m: u64,
    pub(crate) k: u64,
    pub(crate) n: u64,
    /// Sizes of the batch's dimensions.
    pub(crate) batches: Vec<u64>,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    /// Operand that is added to the product.
    pub(crate) added: Option<Matrix>,
    pub(crate) factors: [DType; 2],
    pub(crate) work: Vector,
}

impl Shape {
    #[expect(
        clippy::many_single_char_names,
        reason = "the usual names of the factors and their sizes"
    )]
    pub(crate) fn new(
        [a, b, c]: [&Tensor; 3],
        added: Option<&Tensor>,
        work: Vector,
    ) -> Result<Self, OperatorError> {
        let [[m, k], [k2, n], [m2, n2]] =
            [ends("operand 0", a)?, ends("operand 1", b)?, ends("result 0", c)?];
        if k != k2 || m != m2 || n != n2 {
            let (a, b, c) = (&a.shape, &b.shape, &c.shape);
            return refused(format!(
                "operand 1: shape {b:?} does not fit operand 0, {a:?}, and result 0, {c:?}"
            ));
        }
        let batches = c.shape[..c.shape.len() - 2].to_vec();
        let matrix =
            |name: &str, of: &Tensor, is_broadcast: bool| matrix(name, of, &batches, is_broadcast);
        let mut this = Self {
            m,
            k,
            n,
            a: matrix("operand 0", a, false)?,
            b: matrix("operand 1", b, false)?,
            c: matrix("result 0", c, false)?,
            added: added.map(|of| matrix("operand 2", of, true)).transpose()?,
            factors: [a.factor, b.factor],
            batches,
            work,
        };
        this.fold();
        Ok(this)
    }

    /// Returns the type whose rate the matrix unit has: the wider of both.
    pub(crate) fn factor(&self) -> DType {
        let [a, b] = self.factors;
        if a.size() >= b.size() { a } else { b }
    }

    pub(crate) fn batch(&self) -> u64 {
        self.batches.iter().product()
    }

    /// Makes dimensions of the batch rows of one matrix, where b is the same for all of them.
    fn fold(&mut self) {
        while let (Some(&size), Some(axis)) =
            (self.batches.last(), self.batches.len().checked_sub(1))
        {
            let follows = |of: &Matrix| of.batch[axis] == of.rows.saturating_mul(self.m);
            let added = self
                .added
                .as_ref()
                .is_none_or(|of| follows(of) || of.rows == 0 && of.batch[axis] == 0);
            let is_one = size == 1
                || self.b.batch[axis] == 0 && follows(&self.a) && follows(&self.c) && added;
            if !is_one {
                return;
            }
            self.batches.pop();
            self.m *= size;
            let all = [&mut self.a, &mut self.b, &mut self.c];
            all.into_iter().chain(&mut self.added).for_each(|of| {
                of.batch.pop();
            });
        }
    }

    /// Returns the offset of a matrix of the batch, in elements.
    pub(crate) fn offset(&self, of: &Matrix, mut number: u64) -> u64 {
        let mut offset = 0;
        for (size, stride) in self.batches.iter().zip(&of.batch).rev() {
            offset += number % size * stride;
            number /= size;
        }
        offset
    }
}

fn ends(name: &str, of: &Tensor) -> Result<[u64; 2], OperatorError> {
    match of.shape[..] {
        [.., rows, columns] => Ok([rows, columns]),
        _ => refused(format!("{name}: shape {:?}, expected at least 2 dimensions", of.shape)),
    }
}

/// Returns the strides of a tensor as a batch of matrices. Missing and, for an added operand, broadcast dimensions have
/// stride 0.
fn matrix(
    name: &str,
    of: &Tensor,
    batches: &[u64],
    is_broadcast: bool,
) -> Result<Matrix, OperatorError> {
    let rank = batches.len() + 2;
    let Some(missing) = rank.checked_sub(of.shape.len()) else {
        let found = of.shape.len();
        return refused(format!(
            "{name}: {found} dimensions, expected at most {rank} as the result has"
        ));
    };
    if missing > 0 && !is_broadcast && of.shape.len() != 2 {
        return refused(format!("{name}: shape {:?}, expected 2 dimensions or {rank}", of.shape));
    }
    let mut strides = vec![0; missing];
    strides.extend(
        of.shape.iter().zip(&of.strides).map(|(size, stride)| if *size == 1 { 0 } else { *stride }),
    );
    let sizes = of.shape.iter().rev().skip(2).zip(batches.iter().rev());
    for (size, expected) in sizes {
        if size != expected && *size != 1 {
            return refused(format!(
                "{name}: shape {:?}, expected batches of {batches:?}",
                of.shape
            ));
        }
    }
    let columns = strides.pop().unwrap_or(0);
    let rows = strides.pop().unwrap_or(0);
    Ok(Matrix { rows, columns, batch: strides, dtype: of.dtype, storage: of.storage() })
}
