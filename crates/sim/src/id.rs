//! Ids of nodes, links and transfers.

use std::fmt;

macro_rules! id {
    ($name:ident, $what:literal) => {
        #[doc = concat!("Id of ", $what, ": its index in the list of all.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// Creates an id from an index.
            ///
            /// # Panics
            /// If the index is above 2³² − 1.
            pub const fn new(index: usize) -> Self {
                assert!(index <= u32::MAX as usize, "too many of them");
                #[expect(clippy::cast_possible_truncation, reason = "checked above")]
                Self(index as u32)
            }

            /// Creates an id from a number.
            pub const fn numbered(number: u32) -> Self {
                Self(number)
            }

            /// Returns the id as a number.
            pub const fn number(self) -> u32 {
                self.0
            }

            /// Returns the id as an index into the list of all.
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

/// Id of a transfer: its number in the order in which transfers begin. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub(crate) u64);

impl TransferId {
    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Index of a transfer in flight, reused when the transfer is done. By then no event refers to it except outdated
/// [arrivals of trains](crate::event::FabricEvent::TrainDone), which are recognised by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u32);

impl SlotId {
    /// # Panics
    /// If the index is above 2³² − 1.
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2³² transfers at once"))
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}
