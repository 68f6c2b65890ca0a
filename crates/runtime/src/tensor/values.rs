//! Elements that the host has read.

use crate::error::RuntimeError;

/// Elements that the host has read: their values, or that there are none, where the context simulates time only.
///
/// Values that are absent equal nothing but themselves; they are never zeros.
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
    /// The values, row by row.
    Known(Vec<T>),
    /// No values: the transfer took its time, and the context holds no data.
    Absent,
}

impl<T> Values<T> {
    /// Returns the values, or where they are absent [`RuntimeError::NoData`].
    pub fn known(self) -> Result<Vec<T>, RuntimeError> {
        match self {
            Self::Known(values) => Ok(values),
            Self::Absent => Err(RuntimeError::NoData),
        }
    }

    /// Whether there are no values.
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
