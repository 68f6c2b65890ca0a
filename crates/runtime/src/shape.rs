//! Dimensions of a tensor.
//!
//! ```
//! use cubeyard_runtime::dtype::DType;
//! use cubeyard_runtime::shape::Shape;
//!
//! let shape: Shape = "2x3x4".parse()?;
//! assert_eq!(shape, Shape::new(&[2, 3, 4])?);
//! assert_eq!(shape.elements(), 24);
//! assert_eq!(shape.nbytes(DType::F16)?, 48);
//! assert_eq!(shape.strides(), [12, 4, 1]);
//! assert_eq!(shape.matrix(), (6, 4));
//! assert_eq!(shape.reshape(&[4, 6])?.to_string(), "4x6");
//! # Ok::<(), cubeyard_runtime::shape::ShapeError>(())
//! ```

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use thiserror::Error;

use crate::dtype::DType;

const SCALAR: &str = "scalar";

/// Dimensions of a tensor, at most eight; none for a single number. A dimension may be 0: then there are no elements.
/// The product of all nonzero dimensions fits in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Dimensions; zero from index `rank` on.
    dimensions: [u64; Shape::MOST],
    rank: usize,
}

/// Reason why dimensions are not valid for a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// More than eight dimensions.
    #[error("a shape has at most {} dimensions; this one has {dimensions}", Shape::MOST)]
    Dimensions {
        /// Number of dimensions.
        dimensions: usize,
    },
    /// More than 2⁶⁴ − 1 elements or bytes.
    #[error("{shape} has more {what} than 64 bits can count")]
    Overflow {
        /// Text of the dimensions.
        shape: String,
        /// `elements`, or `bytes of` an element type.
        what: String,
    },
    /// The numbers of elements differ.
    #[error("{from} has {elements} elements, but {to} has {others}")]
    Reshape {
        /// The current shape.
        from: String,
        /// Number of elements of the current shape.
        elements: u64,
        /// The requested shape.
        to: String,
        /// Number of elements of the requested shape.
        others: u64,
    },
    /// The text is not a shape.
    #[error("expected dimensions such as 4096x4096, each below 2^64, or {SCALAR}; found `{found}`")]
    Text {
        /// The text, escaped and cut to 80 characters.
        found: String,
    },
}

impl Shape {
    /// Maximum number of dimensions.
    pub const MOST: usize = 8;

    /// Shape of a single number, without dimensions.
    pub const SCALAR: Self = Self { dimensions: [0; Self::MOST], rank: 0 };

    /// Creates a shape; the last dimension varies fastest.
    pub fn new(dimensions: &[u64]) -> Result<Self, ShapeError> {
        let rank = dimensions.len();
        let mut kept = [0; Self::MOST];
        let Some(places) = kept.get_mut(..rank) else {
            return Err(ShapeError::Dimensions { dimensions: rank });
        };
        places.copy_from_slice(dimensions);
        // Strides and rows are products of some dimensions, so these must fit even if one dimension is 0.
        let multiply = |product: u64, &size: &u64| product.checked_mul(size.max(1));
        let product = dimensions.iter().try_fold(1, multiply);
        match product {
            Some(_) => Ok(Self { dimensions: kept, rank }),
            None => Err(overflow(dimensions, "elements".to_owned())),
        }
    }

    /// Returns the dimensions, outermost first.
    pub fn dimensions(&self) -> &[u64] {
        &self.dimensions[..self.rank]
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.dimensions().iter().product()
    }

    /// Returns the size of all elements in bytes, if it fits in 64 bits.
    pub fn nbytes(&self, dtype: DType) -> Result<u64, ShapeError> {
        let bytes = self.elements().checked_mul(dtype.size());
        bytes.ok_or_else(|| overflow(self.dimensions(), format!("bytes of {dtype}")))
    }

    /// Returns the row-major stride of each dimension, in elements.
    pub fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.rank];
        for place in (1..self.rank).rev() {
            strides[place - 1] = strides[place] * self.dimensions[place];
        }
        strides
    }

    /// Returns rows and columns of the matrix that a placement splits: the last dimension is the columns, and the
    /// product of all others is the rows. A vector is one column, so that splitting its rows splits its elements.
    pub fn matrix(&self) -> (u64, u64) {
        match self.dimensions() {
            [rows @ .., columns] if self.rank > 1 => (rows.iter().product(), *columns),
            _ => (self.elements(), 1),
        }
    }

    /// Returns rows and columns of a range of elements in the [matrix](Self::matrix), in row-major order. Returns
    /// `None` if the range is empty or not a rectangle, that is, neither whole rows nor a part of one row.
    ///
    /// ```
    /// # use cubeyard_runtime::shape::Shape;
    /// let shape = Shape::new(&[6, 4])?;
    /// assert_eq!(shape.rectangle(&(8..16)), Some([2..4, 0..4]));
    /// assert_eq!(shape.rectangle(&(9..11)), Some([2..3, 1..3]));
    /// assert_eq!(shape.rectangle(&(2..8)), None);
    /// # Ok::<(), cubeyard_runtime::shape::ShapeError>(())
    /// ```
    pub fn rectangle(&self, elements: &Range<u64>) -> Option<[Range<u64>; 2]> {
        let (_, columns) = self.matrix();
        let Range { start, end } = *elements;
        if start >= end || end > self.elements() {
            return None;
        }
        let (first, last) = (start / columns, (end - 1) / columns);
        if start.is_multiple_of(columns) && end.is_multiple_of(columns) {
            return Some([first..last + 1, 0..columns]);
        }
        let column = start % columns;
        (first == last).then(|| [first..last + 1, column..column + (end - start)])
    }

    /// Returns a shape with other dimensions and the same number of elements.
    pub fn reshape(&self, dimensions: &[u64]) -> Result<Self, ShapeError> {
        let to = Self::new(dimensions)?;
        let (elements, others) = (self.elements(), to.elements());
        if elements == others {
            return Ok(to);
        }
        Err(ShapeError::Reshape { from: self.to_string(), elements, to: to.to_string(), others })
    }
}

fn overflow(dimensions: &[u64], what: String) -> ShapeError {
    ShapeError::Overflow { shape: text(dimensions), what }
}

fn text(dimensions: &[u64]) -> String {
    if dimensions.is_empty() {
        return SCALAR.to_owned();
    }
    dimensions.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// Formats dimensions as in `4096x4096`, or `scalar`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.dimensions()))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape({self})")
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        if text == SCALAR {
            return Ok(Self::SCALAR);
        }
        let dimensions: Option<Vec<u64>> = text.split('x').map(number).collect();
        let escaped = || text.chars().take(80).flat_map(char::escape_debug).collect();
        Self::new(&dimensions.ok_or_else(|| ShapeError::Text { found: escaped() })?)
    }
}

/// Parses digits only; `parse` alone accepts a sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
