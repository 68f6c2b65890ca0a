//! Arrays: tiles with their elements.

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::cast::{Width, converted};
use super::constant::moved;
use super::narrow::Format;
use super::value::{Data, each};
use super::{Constant, NumericError, TileType, infer};

/// A tile with its elements in row-major order.
///
/// Two arrays are equal if their types and all elements are equal; NaN is equal to nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    ty: TileType,
    data: Data,
}

impl Array {
    /// Decodes little-endian bytes, as stored in memory. A bool is true for any byte other than 0.
    pub fn from_bytes(ty: &TileType, bytes: &[u8]) -> Result<Self, NumericError> {
        let ty = ty.clone().checked()?;
        let found = bytes.len() as u64;
        if found != ty.nbytes() {
            return Err(NumericError::Bytes { tile: ty, found });
        }
        let data = decoded(ty.dtype, bytes);
        Ok(Self { ty, data })
    }

    /// Encodes the elements as little-endian bytes, as stored in memory.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (dtype, width) = (self.ty.dtype, self.ty.dtype.size());
        match &self.data {
            Data::Single(values) if dtype == DType::F32 => {
                collected(values, |value| value.to_le_bytes())
            }
            Data::Single(values) => {
                let format = Format::of(dtype);
                words(values, width, |&value| format.encode(value).into())
            }
            Data::Double(values) => collected(values, |value| value.to_le_bytes()),
            Data::Signed(values) => words(values, width, |value| value.cast_unsigned()),
            Data::Unsigned(values) => words(values, width, |&value| value),
            Data::Truth(values) => values.iter().map(|&value| value.into()).collect(),
        }
    }

    /// Returns type and shape.
    pub fn ty(&self) -> &TileType {
        &self.ty
    }

    /// Returns an array with all elements equal to a number, as [`Constant::new`] converts it.
    pub fn full(ty: TileType, number: impl Into<Scalar>) -> Result<Self, NumericError> {
        let ty = ty.checked()?;
        Self::filled(&ty.shape, Constant::new(number, ty.dtype)?)
    }

    /// Returns an array with all elements equal to a constant.
    pub fn filled(shape: &[u64], constant: Constant) -> Result<Self, NumericError> {
        let ty = TileType::new(constant.dtype(), shape)?;
        let count = ty.count();
        let data = each!(decoded(ty.dtype, constant.bytes()), one => vec![one[0]; count]);
        Ok(Self { ty, data })
    }

    /// Returns `count` elements that count up by 1 from `start`.
    pub fn arange(
        dtype: DType,
        start: impl Into<Scalar>,
        count: u64,
    ) -> Result<Self, NumericError> {
        let start = start.into();
        let ty = infer::arange(dtype, start, count)?;
        let mut bytes = Vec::with_capacity(ty.count() * dtype.width());
        for index in 0..count {
            moved(start, index).encode(dtype, &mut bytes)?;
        }
        Self::from_bytes(&ty, &bytes)
    }

    /// Returns an array of the numbers of its type nearest to these values.
    pub fn from_values(ty: &TileType, values: &[f64]) -> Result<Self, NumericError> {
        let ty = ty.clone().checked()?;
        if values.len() != ty.count() {
            return Err(NumericError::Values { tile: ty, found: values.len() as u64 });
        }
        let mut bytes = Vec::with_capacity(values.len());
        values.iter().try_for_each(|&value| ty.dtype.encode(value, &mut bytes))?;
        Self::from_bytes(&ty, &bytes)
    }

    /// Returns the element at a row-major index. 64-bit integers beyond 2⁵³ are rounded;
    /// [`integer`](Self::integer) returns them exactly.
    pub fn get(&self, index: usize) -> Option<f64> {
        Some(match &self.data {
            Data::Single(values) => (*values.get(index)?).into(),
            Data::Double(values) => *values.get(index)?,
            Data::Signed(values) => *values.get(index)? as f64,
            Data::Unsigned(values) => *values.get(index)? as f64,
            Data::Truth(values) => u8::from(*values.get(index)?).into(),
        })
    }

    /// Returns the element at a row-major index, if the elements are integers or bools.
    pub fn integer(&self, index: usize) -> Option<i128> {
        match &self.data {
            Data::Single(_) | Data::Double(_) => None,
            Data::Signed(values) => values.get(index).map(|&value| value.into()),
            Data::Unsigned(values) => values.get(index).map(|&value| value.into()),
            Data::Truth(values) => values.get(index).map(|&value| value.into()),
        }
    }

    /// Returns all elements, converted as by [`get`](Self::get).
    pub fn values(&self) -> Vec<f64> {
        (0..self.ty.count()).map(|index| self.get(index).expect("so many there are")).collect()
    }

    /// Returns the elements in the type in which they are computed.
    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    /// Returns the elements for modification; they must stay within the element type.
    pub(super) fn data_mut(&mut self) -> &mut Data {
        &mut self.data
    }

    /// Consumes the array and returns its elements.
    pub(super) fn into_data(self) -> Data {
        self.data
    }

    /// Creates an array of elements that are already numbers of its type.
    pub(super) fn new(ty: TileType, data: Data) -> Self {
        Self { ty, data }
    }

    /// Creates an array of computed elements, which are rounded or wrapped to its type.
    pub(super) fn rounded(ty: TileType, mut data: Data) -> Self {
        let (format, width) = (Format::of(ty.dtype), Width::of(ty.dtype));
        match &mut data {
            Data::Single(values) => {
                values.iter_mut().for_each(|value| *value = format.round(*value));
            }
            Data::Double(values) => values.iter_mut().for_each(|value| *value = quiet(*value)),
            Data::Signed(values) => {
                values.iter_mut().for_each(|value| *value = width.signed(*value));
            }
            Data::Unsigned(values) => {
                values.iter_mut().for_each(|value| *value = width.unsigned(*value));
            }
            Data::Truth(_) => {}
        }
        Self { ty, data }
    }

    /// Converts the elements to another type.
    pub(super) fn converted(&self, ty: TileType) -> Self {
        let data = converted(&self.data, ty.dtype);
        Self::rounded(ty, data)
    }
}

/// Converts the elements to another type.
///
/// Floats are rounded once, to nearest, ties to even; values too large become infinite, or NaN in `fp8_e4m3`. From
/// float to integer the fraction is dropped, values out of range saturate, and NaN becomes 0. From integer to integer
/// the upper bits are dropped. To bool, any value other than 0 is true; from bool, the result is 0 or 1.
pub fn cast(a: &Array, dtype: DType) -> Result<Array, NumericError> {
    Ok(a.converted(infer::cast(a.ty(), dtype)?))
}

/// Views the bits of the elements as another type of the same size.
pub fn bitcast(a: &Array, dtype: DType) -> Result<Array, NumericError> {
    let ty = infer::bitcast(a.ty(), dtype)?;
    Array::from_bytes(&ty, &a.to_bytes())
}

/// Replaces any NaN by the canonical quiet NaN.
fn quiet(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// Decodes little-endian bytes.
fn decoded(dtype: DType, bytes: &[u8]) -> Data {
    let (format, width) = (Format::of(dtype), Width::of(dtype));
    match dtype {
        DType::F16 | DType::Bf16 => {
            Data::Single(from_chunks(bytes, |code| format.decode(u16::from_le_bytes(code))))
        }
        DType::Fp8E4m3 | DType::Fp8E5m2 => {
            Data::Single(from_chunks(bytes, |[code]| format.decode(code.into())))
        }
        DType::F32 => Data::Single(from_chunks(bytes, f32::from_le_bytes)),
        DType::F64 => Data::Double(from_chunks(bytes, f64::from_le_bytes)),
        DType::Bool => Data::Truth(from_chunks(bytes, |[byte]| byte != 0)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            Data::Signed(read(bytes, dtype.size(), |word| width.signed(word.cast_signed())))
        }
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            Data::Unsigned(read(bytes, dtype.size(), |word| word))
        }
    }
}

/// Splits bytes into elements of `N` bytes each.
fn from_chunks<const N: usize, T>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&chunk| element(chunk)).collect()
}

/// Splits bytes into elements of `width` bytes each, zero-extended to 64 bits.
fn read<T>(bytes: &[u8], width: u64, element: impl Fn(u64) -> T) -> Vec<T> {
    match width {
        1 => from_chunks(bytes, |[byte]| element(byte.into())),
        2 => from_chunks(bytes, |chunk| element(u16::from_le_bytes(chunk).into())),
        4 => from_chunks(bytes, |chunk| element(u32::from_le_bytes(chunk).into())),
        _ => from_chunks(bytes, |chunk| element(u64::from_le_bytes(chunk))),
    }
}

/// Concatenates the lower `width` bytes of each word.
fn words<T>(values: &[T], width: u64, word: impl Fn(&T) -> u64) -> Vec<u8> {
    let lower = |value: &T| word(value).to_le_bytes();
    match width {
        1 => values.iter().map(|value| lower(value)[0]).collect(),
        2 => collected(values, |value| lower(value).as_chunks::<2>().0[0]),
        4 => collected(values, |value| lower(value).as_chunks::<4>().0[0]),
        _ => collected(values, lower),
    }
}

/// Concatenates the bytes of all elements.
fn collected<const N: usize, T>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().map(bytes).collect::<Vec<_>>().into_flattened()
}
