//! Rust types as elements of tensors.

use half::{bf16, f16};

use super::DType;

/// A Rust type that tensors can be created from and read as, without conversion to `f64`.
///
/// ```
/// use cubeyard_runtime::dtype::{DType, Element};
///
/// let bytes = u64::slice_to_bytes(&[u64::MAX, 1]);
/// assert_eq!(u64::slice_from_bytes(&bytes), Some(vec![u64::MAX, 1]));
/// assert_eq!(u64::slice_from_bytes(&bytes[1..]), None);
/// assert_eq!(u64::DTYPE, DType::U64);
/// ```
pub trait Element: Copy + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Element type of a tensor with such elements.
    const DTYPE: DType;

    /// Appends the bytes of the element, [`DType::size`] of them.
    fn to_bytes(self, bytes: &mut Vec<u8>);

    /// Returns the element with these bytes.
    ///
    /// # Panics
    ///
    /// If the length is not [`DType::size`].
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Returns the concatenated bytes of elements.
    fn slice_to_bytes(elements: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        elements.iter().for_each(|element| element.to_bytes(&mut bytes));
        bytes
    }

    /// Returns the elements with these bytes; `None` if the last element is incomplete.
    fn slice_from_bytes(bytes: &[u8]) -> Option<Vec<Self>> {
        let elements = bytes.chunks_exact(Self::DTYPE.width());
        elements.remainder().is_empty().then(|| elements.map(Self::from_bytes).collect())
    }
}

macro_rules! element {
    ($($name:ty: $dtype:ident),*) => {$(
        impl Element for $name {
            const DTYPE: DType = DType::$dtype;

            fn to_bytes(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("an element has so many bytes"))
            }
        }
    )*};
}

element!(
    f16: F16, bf16: Bf16, f32: F32, f64: F64,
    i8: I8, i16: I16, i32: I32, i64: I64,
    u8: U8, u16: U16, u32: U32, u64: U64
);

/// Every byte other than 0 is read as true.
impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn to_bytes(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        u8::from_bytes(bytes) != 0
    }
}
