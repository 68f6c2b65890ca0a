//! Finds nodes by name.

use super::{NodeId, NodeKind, Topology, layout};
use cubeyard_yaml::nearest;

/// Error for a name that no node has. Use the nearest name or another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no node {name}; the nearest is {nearest}")]
pub struct NoSuchNode {
    /// Name that was given, shortened to 80 characters.
    pub name: String,
    /// Most similar name of a node.
    pub nearest: String,
}

/// Returns the nodes ordered by name.
pub(super) fn sorted(nodes: &[super::Node]) -> Vec<NodeId> {
    let mut ids: Vec<NodeId> = (0..layout::number(nodes.len())).map(NodeId::numbered).collect();
    ids.sort_unstable_by(|a, b| nodes[a.index()].name.cmp(&nodes[b.index()].name));
    ids
}

impl Topology {
    /// Finds a node by name. The name of a PE, as in `sip0.cube3.pe2`, stands for its DMA engine, and
    /// `sip0.cube3.pe2.hbm` for the controller of its slice of the HBM.
    pub fn find(&self, name: &str) -> Result<NodeId, NoSuchNode> {
        let short = || self.exact(&format!("{name}.pe_dma"));
        let hbm = || self.exact(&hbm_name(name)?);
        self.exact(name).or_else(short).or_else(hbm).ok_or_else(|| self.no_such_node(name))
    }

    fn exact(&self, name: &str) -> Option<NodeId> {
        let name_of = |id: &NodeId| self.node(*id).name.as_str();
        let place = self.by_name.binary_search_by(|id| name_of(id).cmp(name)).ok()?;
        Some(self.by_name[place])
    }

    fn no_such_node(&self, name: &str) -> NoSuchNode {
        let short = self.nodes().iter().filter(|node| node.kind == NodeKind::PeDma);
        let short = short.filter_map(|node| node.name.strip_suffix(".pe_dma"));
        let hbm: Vec<_> = short.clone().map(|pe| format!("{pe}.hbm")).collect();
        let names = self.nodes().iter().map(|node| node.name.as_str());
        let nearest = nearest(name, names.chain(short).chain(hbm.iter().map(String::as_str)));
        let name = name.chars().take(80).flat_map(char::escape_debug).collect();
        NoSuchNode { name, nearest: nearest.unwrap_or_default().to_owned() }
    }
}

/// Returns the full name of an HBM controller given as `….pe2.hbm`.
fn hbm_name(name: &str) -> Option<String> {
    let (cube, pe) = name.strip_suffix(".hbm")?.rsplit_once('.')?;
    Some(format!("{cube}.hbm_ctrl.{pe}"))
}
