//! Nodes, links and routes of a machine, built from a topology file.
//!
//! A topology file lists the values that differ from [`DEFAULT`]. Reading it gives a [`Topology`]: a numbered node for
//! each component, a numbered directed link for each direction of a wire, and a single route from each node to each
//! other. Nothing is simulated here.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//!
//! let topology = Topology::read("small.yaml", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n")?;
//! let from = topology.find("sip0.cube0.pe0").unwrap();
//! let to = topology.find("sip0.cube1.pe4.hbm").unwrap();
//! let names: Vec<_> = topology
//!     .route(from, to)
//!     .unwrap()
//!     .into_iter()
//!     .map(|link| topology.node(topology.link(link).to).name.as_str())
//!     .collect();
//! assert_eq!(names.last(), Some(&"sip0.cube1.hbm_ctrl.pe4"));
//! assert!(names.contains(&"sip0.cube1.ucie_w.conn2"));
//!
//! let error = Topology::read("small.yaml", "cubes:\n  wide: 2\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "small.yaml:2: cubes: expected a known key, found `wide`; the nearest is `w`"
//! );
//! # Ok::<(), cubeyard_yaml::InputError>(())
//! ```

mod build;
mod factor;
mod groups;
mod ids;
mod layout;
mod mesh;
mod names;
mod overrides;
mod places;
mod reach;
mod read;
mod report;
mod resolve;
mod route;
mod sips;
mod spec;
mod suggest;
mod summary;
#[cfg(test)]
mod tests;

pub use groups::{GROUPS, KeyGroup, Scaled};
pub use ids::{Link, LinkId, Node, NodeId, NodeKind, NodePlace, Position, Side};
pub use names::NoSuchNode;
pub use overrides::{OverrideError, TopologyHash};
pub use reach::Unreachable;
pub use report::TopologyReport;
pub use resolve::ResolveError;
pub use route::RouteError;
pub use sips::{SipGrid, SipsError, SipsOverlay};
pub use spec::{
    Atomics, ComputeEngines, CoreSpec, CubesSpec, DealOrder, GemmSpec, HbmSpec, IoSpec, MCpuSpec,
    MathSpec, MmuSpec, PcieSpec, PeSpec, RoutersSpec, SerialNodes, SipTopology, SipsSpec, Spec,
    SramSpec, UcieSpec, WireSpec,
};
pub use summary::Summary;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_yaml::{Document, InputError, PlainValue};

use layout::Layout;

/// Positions of routers, cubes and ports.
pub mod geometry {
    pub use super::build::connection_router;
    pub use super::layout::{cube_beside, cube_position, io_cube, io_ports};
    pub use super::mesh::{all as routers, has as has_router, step};
}

/// Topology file of the default machine, with the meaning, unit and source of every value.
pub const DEFAULT: &str = include_str!("topology/default.yaml");

/// Name of the default file in errors.
const DEFAULT_NAME: &str = "the default topology";

/// Machine as nodes, links and routes between them. See the [module](self).
#[derive(Clone, Debug)]
pub struct Topology {
    spec: Spec,
    /// Topology file of this machine, with the defaults filled in.
    values: PlainValue,
    layout: Layout,
    nodes: Vec<Node>,
    links: Vec<Link>,
    /// Index in `links` of the first link to each node; the last entry is the number of links.
    into: Vec<u32>,
    by_name: Vec<NodeId>,
}

impl Topology {
    /// Returns the default machine.
    pub fn embedded() -> Self {
        Self::read(DEFAULT_NAME, "").expect("the default topology is tested")
    }

    /// Reads a file whose `text` is laid over the default. Errors refer to the file as `name`.
    pub fn read(name: &str, text: &str) -> Result<Self, InputError> {
        // An error in a default value is caused by the user's file.
        let default_name = format!("{name} over {DEFAULT_NAME}");
        let document = Document::overlaid(&default_name, DEFAULT, name, text)?;
        Ok(Self::new(read::spec(&document.root())?, document.root().value()))
    }

    /// Reads a file as [`read`](Self::read) does, from bytes that may not be UTF-8.
    pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Self, InputError> {
        Self::read(name, cubeyard_yaml::text(name, bytes)?)
    }

    fn new(spec: Spec, mut values: PlainValue) -> Self {
        // Write out a grid that was derived from the number of SIPs.
        values.set("sips", overrides::sips(spec.sips));
        let layout = Layout::new(&spec);
        let build::Built { nodes, links, into } = build::build(&spec, &layout);
        let by_name = names::sorted(&nodes);
        Self { spec, values, layout, nodes, links, into, by_name }
    }

    /// Returns the values of the file, with the defaults filled in.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns all nodes; a [`NodeId`] is an index into them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns all links, ordered by destination, then by source; a [`LinkId`] is an index into them.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns one node.
    ///
    /// # Panics
    ///
    /// If the id belongs to another topology and this one is smaller.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// Returns one link.
    ///
    /// # Panics
    ///
    /// If the id belongs to another topology and this one is smaller.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.index()]
    }

    /// Returns the link from one node to another, if they are neighbours.
    pub fn link_between(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        build::between(&self.links, &self.into, from, to)
    }

    /// Returns the SIPs of the machine.
    pub fn sips(&self) -> impl Iterator<Item = SipId> + use<> {
        (0..self.spec.sips.count).filter_map(|sip| SipId::new(sip).ok())
    }

    /// Returns the cubes of a SIP, row by row.
    pub fn cubes(&self) -> impl Iterator<Item = CubeId> + use<> {
        (0..self.spec.cube_count()).filter_map(|cube| CubeId::new(cube).ok())
    }

    /// Returns the PEs of a cube.
    pub fn pes(&self) -> impl Iterator<Item = PeId> + use<> {
        (0..self.spec.pe_count()).filter_map(|pe| PeId::new(pe).ok())
    }
}
