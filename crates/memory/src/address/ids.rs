//! The numbers of SIPs, dies and PEs, each a type of its own.

use std::fmt;

use super::AddressError;

/// A number below a fixed limit, shown with what it numbers in front.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $shown:literal, $field:literal, $count:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            /// How many there can be.
            pub const COUNT: u32 = $count;

            /// The one with this number, counted from 0.
            pub fn new(index: u32) -> Result<Self, AddressError> {
                let limit = Self::COUNT;
                let small = u8::try_from(index).ok().filter(|_| index < limit);
                small.map(Self).ok_or(AddressError::Number { field: $field, value: index, limit })
            }

            /// Its number, counted from 0.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Its number, as [`new`](Self::new) takes it.
            pub const fn number(self) -> u32 {
                self.0 as u32
            }

            /// Its number, as wide as an address.
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
    /// A processing element of a cube. The number is bounded by the PE-local window, not by what
    /// cubes have today, which is 8.
    PeId, "pe", "PE", 64
);

/// A die of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Die {
    /// Dies 0 to 15.
    Cube(CubeId),
    /// Dies 16 to 20.
    IoChiplet(IoChipletId),
}

impl Die {
    /// The die with the number that an address has for it.
    pub(super) fn from_field(field: u32) -> Option<Self> {
        match field.checked_sub(CubeId::COUNT) {
            None => CubeId::new(field).map(Self::Cube).ok(),
            Some(chiplet) => IoChipletId::new(chiplet).map(Self::IoChiplet).ok(),
        }
    }

    /// The number that an address has for it.
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
