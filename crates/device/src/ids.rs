//! Identifiers of requests, commands, PEs and ports.

use std::fmt;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use serde::Serialize;

/// Number of a request, in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RequestId(u32);

impl RequestId {
    /// Returns the id of the request at `index` of the log.
    ///
    /// # Panics
    /// If `index` exceeds 2³² − 1.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2³² requests"))
    }

    /// Returns the index in the log.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a command in its program, in the order of dispatch.
pub type CommandId = u32;

/// Number of a port of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Number of the element format of a message. Programs define its meaning; both ends of a channel must use the same
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatId(pub u8);

/// Position of a PE in the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeRef {
    /// SIP that holds the PE.
    pub sip: SipId,
    /// Cube that holds the PE.
    pub cube: CubeId,
    /// Number of the PE in its cube.
    pub pe: PeId,
}

/// PEs of one SIP: the same PEs in each of the selected cubes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeGrid {
    /// SIP of the PEs.
    pub sip: SipId,
    /// Cubes of the SIP that take part.
    pub cubes: Vec<CubeId>,
    /// PEs of each cube that take part.
    pub pes: Vec<PeId>,
}

impl PeGrid {
    /// Returns all PEs, cube by cube.
    pub fn all(&self) -> impl Iterator<Item = PeRef> {
        let in_cube =
            move |&cube| self.pes.iter().map(move |&pe| PeRef { sip: self.sip, cube, pe });
        self.cubes.iter().flat_map(in_cube)
    }
}

/// Grid of a single PE.
impl From<PeRef> for PeGrid {
    fn from(PeRef { sip, cube, pe }: PeRef) -> Self {
        Self { sip, cubes: vec![cube], pes: vec![pe] }
    }
}

/// Formats a PE as in `sip0.cube3.pe2`.
impl fmt::Display for PeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.sip, self.cube, self.pe)
    }
}
