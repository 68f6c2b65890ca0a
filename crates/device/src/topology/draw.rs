//! Pictures of a machine, level by level, as SVG.
//!
//! Each is complete in itself: no script, no font and no style sheet from elsewhere, and a background of
//! its own.

mod canvas;
mod cube;
mod pe;
mod sip;
mod system;

use super::{Topology, WireSpec};

/// A level of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The SIPs and the switch between them.
    System,
    /// The cubes and IO chiplets of a SIP.
    Sip,
    /// The routers of a cube and what is attached to them.
    Cube,
    /// A PE and its slice of the HBM.
    Pe,
}

impl View {
    /// All levels, from the outermost.
    pub const ALL: [Self; 4] = [Self::System, Self::Sip, Self::Cube, Self::Pe];

    /// What files and options call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Sip => "sip",
            Self::Cube => "cube",
            Self::Pe => "pe",
        }
    }
}

impl Topology {
    /// One level of the machine as an SVG picture.
    pub fn draw(&self, view: View) -> String {
        match view {
            View::System => system::draw(self),
            View::Sip => sip::draw(self.spec()),
            View::Cube => cube::draw(self.spec()),
            View::Pe => pe::draw(self.spec()),
        }
    }
}

/// As in `256 GB/s, 0.5 mm`.
fn wire(wire: WireSpec) -> String {
    format!("{}, {} mm", wire.bandwidth, wire.length_mm)
}

/// As in `1 PE` or `8 PEs`.
fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
