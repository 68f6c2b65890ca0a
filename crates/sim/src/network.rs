//! Nodes and the directed links between them: what is given, and does not change.

use std::rc::Rc;

use thiserror::Error;

use crate::id::{LinkId, NodeId};
use crate::{Bandwidth, Span};

/// The links that a transfer takes, one after the other.
pub type Route = Rc<[LinkId]>;

/// How a node passes on what goes through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Flit by flit, as they come.
    #[default]
    CutThrough,
    /// When the whole transfer is there.
    StoreAndForward,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// What it charges each transfer, once.
    pub overhead: Span,
    /// How it passes transfers on.
    pub forwarding: Forwarding,
}

/// A wire in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// How fast it takes bytes in.
    pub bandwidth: Bandwidth,
    /// How long a byte is on the wire.
    pub propagation: Span,
}

/// A graph that a machine is made of, checked.
///
/// ```
/// use cubeyard_sim::{Bandwidth, LinkSpec, Network, NodeId, NodeSpec, Span};
///
/// let (a, b) = (NodeId::new(0), NodeId::new(1));
/// let link = |from, to| LinkSpec {
///     from,
///     to,
///     bandwidth: Bandwidth::from_gb_per_second(256.0).unwrap(),
///     propagation: Span::ZERO,
/// };
/// let network = Network::new(256, vec![NodeSpec::default(); 2], vec![link(b, a), link(a, b)])?;
/// assert_eq!(network.links().len(), 2);
/// # Ok::<(), cubeyard_sim::NetworkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    flit_bytes: u64,
    nodes: Vec<NodeSpec>,
    links: Vec<LinkSpec>,
    /// The first link to each node.
    first_in: Vec<u32>,
    /// The bandwidths that links have, in order.
    bandwidths: Vec<Bandwidth>,
}

/// A graph that cannot be. Nothing is made of it; mend the lists and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// Flits must carry something.
    #[error("flits of no bytes")]
    EmptyFlits,
    /// A link begins or ends at a node that is not there.
    #[error("link {link} joins node {node}, and there are {nodes} nodes")]
    NoSuchNode {
        /// The link.
        link: LinkId,
        /// The node it names.
        node: NodeId,
        /// How many nodes there are.
        nodes: usize,
    },
    /// Links must be numbered by the node they lead to, because ties are decided by link.
    #[error(
        "link {link} leads to node {to}, after a link to node {before}: links are numbered by destination"
    )]
    Unordered {
        /// The link that is out of order.
        link: LinkId,
        /// Where it leads.
        to: NodeId,
        /// Where the link before it leads.
        before: NodeId,
    },
}

/// A list of links that is no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// A route has at least one link.
    #[error("a route of no links")]
    Empty,
    /// The network has no such link.
    #[error("no link {0}")]
    NoSuchLink(LinkId),
    /// A link does not begin where the one before it ends.
    #[error("link {link} begins at node {from}, and the route has come to node {at}")]
    Broken {
        /// The link.
        link: LinkId,
        /// Where it begins.
        from: NodeId,
        /// Where the route is.
        at: NodeId,
    },
    /// A route goes by each link once.
    #[error("link {0} twice")]
    Twice(LinkId),
}

impl Network {
    /// A network of these nodes and links, whose transfers move in flits of `flit_bytes`.
    pub fn new(
        flit_bytes: u64,
        nodes: Vec<NodeSpec>,
        links: Vec<LinkSpec>,
    ) -> Result<Self, NetworkError> {
        if flit_bytes == 0 {
            return Err(NetworkError::EmptyFlits);
        }
        check(&nodes, &links)?;
        let first_in = |node| links.partition_point(|link| link.to.index() < node);
        let first_in = (0..nodes.len()).map(|node| LinkId::new(first_in(node)).number()).collect();
        let mut bandwidths: Vec<_> = links.iter().map(|link| link.bandwidth).collect();
        bandwidths.sort_unstable();
        bandwidths.dedup();
        Ok(Self { flit_bytes, nodes, links, first_in, bandwidths })
    }

    /// How much a flit carries.
    pub fn flit_bytes(&self) -> u64 {
        self.flit_bytes
    }

    /// All nodes.
    pub fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    /// All links.
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// A link.
    pub fn link(&self, link: LinkId) -> &LinkSpec {
        &self.links[link.index()]
    }

    /// How many flits carry so many bytes: at least one.
    pub fn flits(&self, bytes: u64) -> u64 {
        // No division for a command.
        if bytes <= self.flit_bytes { 1 } else { bytes.div_ceil(self.flit_bytes) }
    }

    /// Checks that the links follow each other, each once.
    pub fn route(&self, links: &[LinkId]) -> Result<Route, RouteError> {
        let mut at = None;
        for (place, &link) in links.iter().enumerate() {
            if links[..place].contains(&link) {
                return Err(RouteError::Twice(link));
            }
            let spec = self.links.get(link.index()).ok_or(RouteError::NoSuchLink(link))?;
            match at {
                Some(at) if at != spec.from => {
                    return Err(RouteError::Broken { link, from: spec.from, at });
                }
                _ => at = Some(spec.to),
            }
        }
        at.map(|_| links.into()).ok_or(RouteError::Empty)
    }

    /// The place of flits that begin at a node in the order of ties: before those that come by its links.
    pub(crate) fn rank_of_start(&self, node: NodeId) -> u32 {
        self.first_in[node.index()] + node.number()
    }

    /// The place of flits that come by a link to a node in the order of ties.
    pub(crate) fn rank_of_link(link: LinkId, to: NodeId) -> u32 {
        link.number() + to.number() + 1
    }

    /// The place of a bandwidth among those that links have.
    pub(crate) fn pace_of(&self, bandwidth: Bandwidth) -> u32 {
        let place = self.bandwidths.partition_point(|other| *other < bandwidth);
        u32::try_from(place).expect("link numbers have 32 bits")
    }

    /// How long so many bytes take at a pace.
    pub(crate) fn span_at(&self, pace: u32, bytes: u64) -> Span {
        self.bandwidths[pace as usize].span(bytes)
    }
}

fn check(nodes: &[NodeSpec], links: &[LinkSpec]) -> Result<(), NetworkError> {
    let mut before = NodeId::new(0);
    for (index, spec) in links.iter().enumerate() {
        let link = LinkId::new(index);
        for node in [spec.from, spec.to] {
            if node.index() >= nodes.len() {
                return Err(NetworkError::NoSuchNode { link, node, nodes: nodes.len() });
            }
        }
        if spec.to < before {
            return Err(NetworkError::Unordered { link, to: spec.to, before });
        }
        before = spec.to;
    }
    Ok(())
}
