//! Diagrams of a machine, level by level, as self-contained SVG.

mod cube;
mod diagram;
mod pe;
mod sip;
mod system;

use cubeyard_device::topology::{Spec, Topology, WireSpec};

/// Level of a machine that a diagram shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The SIPs and the switch between them.
    System,
    /// The cubes and IO chiplets of a SIP.
    Sip,
    /// The routers of a cube and the components attached to them.
    Cube,
    /// A PE and its slice of the HBM.
    Pe,
}

impl View {
    /// All levels, from the outermost to the innermost.
    pub const ALL: [Self; 4] = [Self::System, Self::Sip, Self::Cube, Self::Pe];

    /// Returns the name of the level in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Sip => "sip",
            Self::Cube => "cube",
            Self::Pe => "pe",
        }
    }
}

/// Draws one level of a machine as SVG.
pub fn machine(topology: &Topology, view: View) -> String {
    match view {
        View::System => system::draw(topology),
        View::Sip => sip::draw(topology.spec()),
        View::Cube => cube::draw(topology.spec()),
        View::Pe => pe::draw(topology.spec()),
    }
}

/// Formats the bandwidth and length of a wire, e.g. `256 GB/s, 0.5 mm`.
fn wire(wire: WireSpec) -> String {
    format!("{}, {} mm", wire.bandwidth, wire.length_mm)
}

/// Formats a count, e.g. `1 PE` or `8 PEs`.
fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the number of IO chiplets of a SIP.
fn chiplets(spec: &Spec) -> u32 {
    u32::try_from(spec.io.chiplets.len()).expect("a SIP has four sides")
}
