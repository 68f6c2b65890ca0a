//! Ports: the ends of channels to other PEs.

use std::fmt;

use cubeyard_device::pe::PortId;

/// One end of a channel to another PE, by number. The first eight are the neighbours in the mesh of cubes and
/// among the SIPs; the meaning of the others is defined by the algorithm that installs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

impl Port {
    /// The neighbour to the north.
    pub const N: Self = Self(0);
    /// The neighbour to the east.
    pub const E: Self = Self(1);
    /// The neighbour to the south.
    pub const S: Self = Self(2);
    /// The neighbour to the west.
    pub const W: Self = Self(3);
    /// The SIP to the north.
    pub const GLOBAL_N: Self = Self(4);
    /// The SIP to the east.
    pub const GLOBAL_E: Self = Self(5);
    /// The SIP to the south.
    pub const GLOBAL_S: Self = Self(6);
    /// The SIP to the west.
    pub const GLOBAL_W: Self = Self(7);

    /// Returns the machine-wide id of this port within a group; each group has its own ports.
    pub fn of_group(self, group: u16) -> PortId {
        PortId(u32::from(group) << 16 | u32::from(self.0))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["N", "E", "S", "W", "global_N", "global_E", "global_S", "global_W"];
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "port {}", self.0),
        }
    }
}
