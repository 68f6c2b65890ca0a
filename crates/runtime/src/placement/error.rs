//! What can be wrong with a placement.

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

/// As in `SIP`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sip => "SIP",
            Self::Cube => "cube",
            Self::Pe => "PE",
        })
    }
}

/// Why a placement means nothing on a machine. Nothing has been made; choose another.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// More cubes or PEs than the machine has.
    #[error("a placement over {asked} {level}s needs as many, and the machine has {there}")]
    TooMany {
        /// Of what.
        level: Level,
        /// How many are asked for.
        asked: u32,
        /// How many there are.
        there: u32,
    },
    /// On nothing at all.
    #[error("a placement needs at least one {level}")]
    Nowhere {
        /// Of what there is none.
        level: Level,
    },
    /// The machine has no such SIP.
    #[error("there is no {sip}: the machine has {there} SIPs, counted from 0")]
    NoSuchSip {
        /// Which.
        sip: SipId,
        /// How many there are.
        there: u32,
    },
    /// A SIP is named twice.
    #[error("{sip} is named twice; a placement names each SIP once")]
    SipTwice {
        /// Which.
        sip: SipId,
    },
    /// The tensor has too many bytes.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}
