//! Errors of placements.

use std::fmt;

use cubeyard_memory::address::SipId;
use thiserror::Error;

use crate::shape::ShapeError;

/// A level at which a tensor is copied or split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The SIPs of the system.
    Sip,
    /// The cubes of a SIP.
    Cube,
    /// The PEs of a cube.
    Pe,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sip => "SIP",
            Self::Cube => "cube",
            Self::Pe => "PE",
        })
    }
}

/// Reason why a placement does not fit a machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// More cubes or PEs than the machine has.
    #[error("the placement needs {asked} {level}s, but the machine has {there}")]
    TooMany {
        /// Level with too few members.
        level: Level,
        /// The requested number.
        asked: u32,
        /// Number that the machine has.
        there: u32,
    },
    /// No SIP, cube or PE to place on.
    #[error("a placement needs at least one {level}")]
    Nowhere {
        /// Level without members.
        level: Level,
    },
    /// The machine has no such SIP.
    #[error("there is no {sip}: the machine has {there} SIPs, counted from 0")]
    NoSuchSip {
        /// SIP that does not exist.
        sip: SipId,
        /// Number that the machine has.
        there: u32,
    },
    /// A SIP is named twice.
    #[error("{sip} is named twice; a placement names each SIP once")]
    SipTwice {
        /// SIP that is repeated.
        sip: SipId,
    },
    /// The size of the tensor exceeds 64 bits.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}
