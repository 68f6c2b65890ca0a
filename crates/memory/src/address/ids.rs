//! Ids of SIPs, dies and PEs, and virtual addresses.

use std::fmt;

use super::AddressError;
use crate::Bytes;

/// Defines an id type below a fixed limit, and the word that precedes it when displayed.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $shown:literal, $field:literal, $count:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            /// Number of valid ids.
            pub const COUNT: u32 = $count;

            /// Creates the id with a number, counted from 0.
            pub fn new(index: u32) -> Result<Self, AddressError> {
                let limit = Self::COUNT;
                let small = u8::try_from(index).ok().filter(|_| index < limit);
                small.map(Self).ok_or(AddressError::Number { field: $field, value: index, limit })
            }

            /// Returns the number, counted from 0.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the number, as passed to [`new`](Self::new).
            pub const fn number(self) -> u32 {
                self.0 as u32
            }

            pub(super) const fn field(self) -> u64 {
                self.0 as u64
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($shown, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A package of cubes and IO chiplets.
    SipId, "sip", "SIP", 16
);
id!(
    /// A cube of a SIP.
    CubeId, "cube", "cube", 16
);
id!(
    /// An IO chiplet of a SIP.
    IoChipletId, "io", "IO chiplet", 5
);
id!(
    /// A processing element of a cube. The PE-local window bounds the number; cubes have 8 today.
    PeId, "pe", "PE", 64
);

/// A die of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Die {
    /// Cube, with die number 0 to 15.
    Cube(CubeId),
    /// IO chiplet, with die number 16 to 20.
    IoChiplet(IoChipletId),
}

impl Die {
    pub(super) fn from_field(field: u32) -> Option<Self> {
        match field.checked_sub(CubeId::COUNT) {
            None => CubeId::new(field).map(Self::Cube).ok(),
            Some(chiplet) => IoChipletId::new(chiplet).map(Self::IoChiplet).ok(),
        }
    }

    pub(super) fn field(self) -> u64 {
        match self {
            Self::Cube(cube) => cube.field(),
            Self::IoChiplet(chiplet) => u64::from(CubeId::COUNT) + chiplet.field(),
        }
    }
}

impl fmt::Display for Die {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cube(cube) => cube.fmt(f),
            Self::IoChiplet(chiplet) => chiplet.fmt(f),
        }
    }
}

/// A virtual address that all PEs of a context share.
///
/// (A [`VirtualAddress`](crate::VirtualAddress), in contrast, is a region and an offset in it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceVa(u64);

impl DeviceVa {
    /// Creates the address `bits`.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the address as a number.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the address `by` bytes higher, or `None` if it exceeds 64 bits.
    #[must_use]
    pub const fn checked_add(self, by: Bytes) -> Option<Self> {
        match self.0.checked_add(by.get()) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl fmt::Display for DeviceVa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va {:#x}", self.0)
    }
}
