//! Nodes and the directed links between them.

use std::rc::Rc;

use thiserror::Error;

use crate::id::{LinkId, NodeId};
use crate::{Bandwidth, Span};

/// Links that a transfer takes, one after the other.
pub type Route = Rc<[LinkId]>;

/// Rule by which a node forwards transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Forwards each flit when it arrives.
    #[default]
    CutThrough,
    /// Forwards the flits of a transfer when all have arrived.
    StoreAndForward,
}

/// Properties of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// Delay of each transfer that passes through or ends, once.
    pub overhead: Span,
    /// Rule by which the node forwards transfers.
    pub forwarding: Forwarding,
    /// Whether the node processes the overhead of one transfer at a time: a transfer that arrives meanwhile waits.
    /// Otherwise the overhead delays its own transfer and no other.
    pub is_serial: bool,
}

/// Properties of a link, which leads in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Node where the link begins.
    pub from: NodeId,
    /// Node where the link ends.
    pub to: NodeId,
    /// Rate at which bytes enter the link.
    pub bandwidth: Bandwidth,
    /// Time that a byte is on the wire.
    pub propagation: Span,
}

/// A checked graph of nodes and links.
#[derive(Clone, Debug)]
pub struct Network {
    flit_bytes: u64,
    header_bytes: u64,
    nodes: Vec<NodeSpec>,
    links: Vec<LinkSpec>,
    /// Distinct bandwidths of the links, in order.
    bandwidths: Vec<Bandwidth>,
}

/// Reason for which lists of nodes and links are not a network. Correct the lists and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// Flits have no bytes.
    #[error("flits of no bytes")]
    EmptyFlits,
    /// A link begins or ends at a node that is not there.
    #[error("link {link} joins node {node}, and there are {nodes} nodes")]
    NoSuchNode {
        /// Link in question.
        link: LinkId,
        /// Node that it names.
        node: NodeId,
        /// Number of nodes in the network.
        nodes: usize,
    },
    /// Links are not in the order of the nodes that they lead to, by which ties are decided.
    #[error(
        "link {link} leads to node {to}, after a link to node {before}: links are numbered by destination"
    )]
    Unordered {
        /// Link that is out of order.
        link: LinkId,
        /// Node that it leads to.
        to: NodeId,
        /// Node that the link before it leads to.
        before: NodeId,
    },
}

/// Reason for which a list of links is not a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The list is empty; a route has at least one link.
    #[error("a route of no links")]
    Empty,
    /// The network has no such link.
    #[error("no link {0}")]
    NoSuchLink(LinkId),
    /// A link does not begin where the one before it ends.
    #[error("link {link} begins at node {from}, and the route has come to node {at}")]
    Broken {
        /// Link in question.
        link: LinkId,
        /// Node where it begins.
        from: NodeId,
        /// Node where the link before it ends.
        at: NodeId,
    },
    /// A link occurs twice.
    #[error("link {0} twice")]
    Twice(LinkId),
}

impl Network {
    /// Makes a network whose transfers move in flits of `flit_bytes` bytes.
    pub fn new(
        flit_bytes: u64,
        nodes: Vec<NodeSpec>,
        links: Vec<LinkSpec>,
    ) -> Result<Self, NetworkError> {
        if flit_bytes == 0 {
            return Err(NetworkError::EmptyFlits);
        }
        check(&nodes, &links)?;
        let mut bandwidths: Vec<_> = links.iter().map(|link| link.bandwidth).collect();
        bandwidths.sort_unstable();
        bandwidths.dedup();
        Ok(Self { flit_bytes, header_bytes: 0, nodes, links, bandwidths })
    }

    /// Adds a header of so many bytes to each flit on each link, commands included.
    #[must_use]
    pub fn with_headers(self, header_bytes: u64) -> Self {
        Self { header_bytes, ..self }
    }

    /// Returns the bytes of the header of each flit.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Returns the time that a flit of so many bytes takes on a link, with its header.
    pub fn flit_span(&self, link: LinkId, bytes: u64) -> Span {
        self.link(link).bandwidth.span(bytes.saturating_add(self.header_bytes))
    }

    /// Returns the bytes of a full flit.
    pub fn flit_bytes(&self) -> u64 {
        self.flit_bytes
    }

    /// Returns all nodes, by id.
    pub fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    /// Returns all links, by id.
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// Returns the properties of a link.
    pub fn link(&self, link: LinkId) -> &LinkSpec {
        &self.links[link.index()]
    }

    /// Returns the number of flits that carry so many bytes: at least one.
    pub fn flits(&self, bytes: u64) -> u64 {
        // No division for a command.
        if bytes <= self.flit_bytes { 1 } else { bytes.div_ceil(self.flit_bytes) }
    }

    /// Makes a route of links that follow each other, each once.
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

    /// Rank of flits that begin at a node: before those that come by its links.
    pub(crate) fn rank_of_start(&self, node: NodeId) -> u32 {
        let first_in = self.links.partition_point(|link| link.to < node);
        LinkId::new(first_in).number() + node.number()
    }

    /// Rank of flits that come by a link to a node.
    pub(crate) fn rank_of_link(link: LinkId, to: NodeId) -> u32 {
        link.number() + to.number() + 1
    }

    /// Index of a bandwidth among those of the network.
    pub(crate) fn pace_of(&self, bandwidth: Bandwidth) -> u32 {
        let place = self.bandwidths.partition_point(|other| *other < bandwidth);
        u32::try_from(place).expect("link numbers have 32 bits")
    }

    /// Time that a flit of so many bytes takes, with its header, at the bandwidth of an index.
    pub(crate) fn span_at(&self, pace: u32, bytes: u64) -> Span {
        self.bandwidths[pace as usize].span(bytes.saturating_add(self.header_bytes))
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
