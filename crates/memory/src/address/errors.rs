//! Why something is no address.

use super::{Die, PeId};
use crate::Bytes;

/// Why a number or a place is no address.
///
/// All of these are final: the same input never becomes an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// There is no SIP, cube, chiplet or PE of that number.
    #[error("there is no {field} {value}: numbers of that kind are below {limit}")]
    Number {
        /// What was numbered.
        field: &'static str,
        /// The number given.
        value: u32,
        /// The first number that is too high.
        limit: u32,
    },
    /// The offset is not inside what it is an offset in.
    #[error("offset {:#x} is outside the {field}, which is {:#x} bytes long", offset.get(), limit.get())]
    Offset {
        /// What the offset counts from the start of.
        field: &'static str,
        /// The offset given.
        offset: Bytes,
        /// The first offset that is too high.
        limit: Bytes,
    },
    /// The PE's HBM slice does not end inside the cube's HBM window.
    #[error("{pe} with slices of {:#x} bytes is outside the HBM window, which is {:#x} bytes long", slice.get(), limit.get())]
    Slice {
        /// The PE given.
        pe: PeId,
        /// The size of a slice given.
        slice: Bytes,
        /// The size of the HBM window.
        limit: Bytes,
    },
    /// The number has bits above the 51 of an address.
    #[error("{bits:#x} has more than the 51 bits of an address")]
    TooWide {
        /// The number given.
        bits: u64,
    },
    /// The number names a die that is neither a cube nor an IO chiplet.
    #[error("{bits:#x} is on die {die}, but dies above 20 are reserved")]
    ReservedDie {
        /// The number given.
        bits: u64,
        /// The die that it names.
        die: u32,
    },
    /// The number lies between the windows of its die.
    #[error("{bits:#x} is offset {:#x} of {die}, which is in no window", offset.get())]
    Unmapped {
        /// The number given.
        bits: u64,
        /// The die that it names.
        die: Die,
        /// The offset in that die.
        offset: Bytes,
    },
}
