//! Values that the host has read.

use crate::error::RuntimeError;

/// Values that the host has read; absent if the context simulates times only.
///
/// Absent values are equal only to absent values; they are never zeros.
///
/// ```
/// use cubeyard_runtime::placement::Placement;
/// use cubeyard_runtime::{Context, ContextConfig, Values};
///
/// for data in [true, false] {
///     let context = Context::new(ContextConfig { data, ..ContextConfig::default() });
///     let tensor = context.from_slice(&[3], &[1_u8, 2, 3])?.to(&Placement::default())?;
///     let start = context.now();
///     let read = tensor.read::<u8>()?;
///     assert!(context.now() > start, "over the fabric, in either case");
///     assert_eq!(read == [1, 2, 3], data);
///     assert_eq!(read.is_absent(), !data);
///     assert_eq!(read.known().is_ok(), data);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values<T> {
    /// Values, row by row.
    Known(Vec<T>),
    /// No values: the context holds no data. The transfer took simulated time nevertheless.
    Absent,
}

impl<T> Values<T> {
    /// Returns the values, or [`RuntimeError::NoData`] if they are absent.
    pub fn known(self) -> Result<Vec<T>, RuntimeError> {
        match self {
            Self::Known(values) => Ok(values),
            Self::Absent => Err(RuntimeError::NoData),
        }
    }

    /// Returns whether the values are absent.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    fn are<U>(&self, others: &[U]) -> bool
    where
        T: PartialEq<U>,
    {
        matches!(self, Self::Known(values) if values.as_slice() == others)
    }
}

impl<T: PartialEq<U>, U> PartialEq<Vec<U>> for Values<T> {
    fn eq(&self, others: &Vec<U>) -> bool {
        self.are(others)
    }
}

impl<T: PartialEq<U>, U> PartialEq<[U]> for Values<T> {
    fn eq(&self, others: &[U]) -> bool {
        self.are(others)
    }
}

impl<T: PartialEq<U>, U> PartialEq<&[U]> for Values<T> {
    fn eq(&self, others: &&[U]) -> bool {
        self.are(others)
    }
}

impl<T: PartialEq<U>, U, const N: usize> PartialEq<[U; N]> for Values<T> {
    fn eq(&self, others: &[U; N]) -> bool {
        self.are(others)
    }
}
