//! Settings of a group of ranks.

use cubeyard_memory::address::{CubeId, SipId};
use cubeyard_runtime::RingConfig;

/// The kind of unit that is a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// A SIP with all its PEs.
    #[default]
    Sip,
    /// A cube with all its PEs.
    Cube,
    /// A single PE with its slice of the HBM.
    Pe,
}

impl Ranks {
    /// Names of all kinds, as in files.
    pub const NAMES: [(&'static str, Self); 3] =
        [("sip", Self::Sip), ("cube", Self::Cube), ("pe", Self::Pe)];

    /// Returns the plural of the unit, for messages.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Sip => "SIPs",
            Self::Cube => "cubes",
            Self::Pe => "PEs",
        }
    }
}

/// Settings of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupConfig {
    /// The kind of unit that is a rank.
    pub ranks: Ranks,
    /// SIPs of the group in the order of ranks; if empty, all.
    pub sips: Vec<SipId>,
    /// Cubes of each SIP that take part, in ascending order; if empty, all.
    pub cubes: Vec<CubeId>,
    /// Number of ranks; by default the maximum for these SIPs and cubes.
    pub world_size: Option<usize>,
    /// Settings of the channels' ring buffers.
    pub ring: RingConfig,
}
