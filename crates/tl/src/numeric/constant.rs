//! Constants: numbers as elements of a type, and the type in which numbers and tiles meet.

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::NumericError;

/// A number as an element of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    dtype: DType,
    /// Bytes of the element, and zeros.
    bytes: [u8; 8],
}

impl Constant {
    /// Converts a number: floats round it once, integers and bools refuse what they do not hold.
    pub fn new(number: impl Into<Scalar>, dtype: DType) -> Result<Self, NumericError> {
        let mut encoded = Vec::with_capacity(dtype.width());
        number.into().encode(dtype, &mut encoded)?;
        let mut bytes = [0; 8];
        bytes[..encoded.len()].copy_from_slice(&encoded);
        Ok(Self { dtype, bytes })
    }

    /// Returns 0, whose bytes are 0 in every type.
    pub fn zero(dtype: DType) -> Self {
        Self { dtype, bytes: [0; 8] }
    }

    /// Returns the type of the element.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the little-endian bytes of the element.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.dtype.width()]
    }
}

/// Returns the type in which tiles of `dtype` meet numbers, by NumPy's rules for numbers of Python.
///
/// A number takes the type of the tile if that is of its kind or of a later one: bool, integer, float. Else the tile takes
/// the default type of the number's kind: `i64` beside whole numbers, which only a tile of bools does, and `f64` beside
/// floats.
///
/// ```
/// use cubeyard_runtime::dtype::DType;
/// use cubeyard_tl::numeric::promoted;
///
/// assert_eq!(promoted(DType::F16, [0.5.into(), 3.into()]), DType::F16);
/// assert_eq!(promoted(DType::I8, [3.into()]), DType::I8);
/// assert_eq!(promoted(DType::I8, [0.5.into()]), DType::F64);
/// assert_eq!(promoted(DType::Bool, [3.into()]), DType::I64);
/// assert_eq!(promoted(DType::Bool, [true.into()]), DType::Bool);
/// ```
pub fn promoted(dtype: DType, numbers: impl IntoIterator<Item = Scalar>) -> DType {
    numbers.into_iter().fold(dtype, |dtype, number| match number {
        Scalar::Float(_) if !dtype.is_float() => DType::F64,
        Scalar::Int(_) if dtype == DType::Bool => DType::I64,
        _ => dtype,
    })
}

/// Returns the number that is `count` after another one.
pub(super) fn moved(start: Scalar, count: u64) -> Scalar {
    match start {
        Scalar::Float(value) => Scalar::Float(value + count as f64),
        Scalar::Bool(truth) => Scalar::Int(i128::from(truth) + i128::from(count)),
        Scalar::Int(whole) => Scalar::Int(whole.saturating_add(count.into())),
    }
}
