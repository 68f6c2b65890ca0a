//! Numbers of nodes, links and transfers, each a type of its own.

use std::fmt;

/// Makes a number a type, so that a node is never taken for a link.
macro_rules! id {
    ($name:ident, $what:literal) => {
        #[doc = concat!("The number of ", $what, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            #[doc = concat!("The number of ", $what, " at `index` of its list.")]
            ///
            /// # Panics
            /// Beyond 2³² − 1.
            pub const fn new(index: usize) -> Self {
                assert!(index <= u32::MAX as usize, "too many of them");
                #[expect(clippy::cast_possible_truncation, reason = "checked above")]
                Self(index as u32)
            }

            #[doc = concat!("The number of ", $what, ", as it is.")]
            pub const fn numbered(number: u32) -> Self {
                Self(number)
            }

            /// The number.
            pub const fn number(self) -> u32 {
                self.0
            }

            /// The place in its list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(NodeId, "a node");
id!(LinkId, "a link");

/// The number of a transfer: they are numbered in the order in which they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub(crate) u64);

impl TransferId {
    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Index of a transfer under way. It is used again when the transfer is done: by then no event refers to it except
/// outdated arrivals of trains, which have a number of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

impl SlotId {
    /// # Panics
    /// Beyond 2³² − 1.
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2³² transfers at once"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
