//! Nodes and the directed links between them.

use std::rc::Rc;

use thiserror::Error;

use crate::id::{LinkId, NodeId};
use crate::{Bandwidth, Span};

/// Links of a transfer, in order.
pub type Route = Rc<[LinkId]>;

/// Forwarding rule of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// Forwards each flit on arrival.
    #[default]
    CutThrough,
    /// Forwards the flits of a transfer after all have arrived.
    StoreAndForward,
}

/// Properties of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// Delay per transfer that passes through or ends here.
    pub overhead: Span,
    /// Forwarding rule of the node.
    pub forwarding: Forwarding,
    /// Whether the node processes the overhead of one transfer at a time: a transfer that arrives in the meantime
    /// waits. Otherwise the overhead delays only its own transfer.
    pub is_serial: bool,
}

/// Properties of a directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Node where the link begins.
    pub from: NodeId,
    /// Node where the link ends.
    pub to: NodeId,
    /// Rate at which bytes enter the link.
    pub bandwidth: Bandwidth,
    /// Propagation delay of a byte.
    pub propagation: Span,
}

/// A validated graph of nodes and links.
#[derive(Clone, Debug)]
pub struct Network {
    flit_bytes: u64,
    header_bytes: u64,
    nodes: Vec<NodeSpec>,
    links: Vec<LinkSpec>,
    /// Distinct bandwidths of the links, sorted.
    bandwidths: Vec<Bandwidth>,
}

/// Reason why lists of nodes and links are not a network. Correct the lists and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// The flit size is zero.
    #[error("flits of zero bytes")]
    EmptyFlits,
    /// A link begins or ends at a node that does not exist.
    #[error("link {link} connects node {node}, but there are only {nodes} nodes")]
    NoSuchNode {
        /// The invalid link.
        link: LinkId,
        /// Node that the link refers to.
        node: NodeId,
        /// Number of nodes in the network.
        nodes: usize,
    },
    /// The links are not sorted by destination node. Ties are broken by this order.
    #[error(
        "link {link} leads to node {to}, after a link to node {before}: links must be sorted by destination"
    )]
    Unordered {
        /// Link that is out of order.
        link: LinkId,
        /// Destination of the link.
        to: NodeId,
        /// Destination of the previous link.
        before: NodeId,
    },
}

/// Reason why a list of links is not a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The list is empty; a route has at least one link.
    #[error("a route without links")]
    Empty,
    /// The network has no such link.
    #[error("there is no link {0}")]
    NoSuchLink(LinkId),
    /// A link does not begin where the previous link ends.
    #[error("link {link} begins at node {from}, but the route has reached node {at}")]
    Broken {
        /// The invalid link.
        link: LinkId,
        /// Node where the link begins.
        from: NodeId,
        /// Node where the previous link ends.
        at: NodeId,
    },
    /// A link occurs more than once.
    #[error("link {0} occurs twice")]
    Twice(LinkId),
}

impl Network {
    /// Creates a network whose transfers move in flits of `flit_bytes` bytes.
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

    /// Adds a header of `header_bytes` to each flit on each link, including commands.
    #[must_use]
    pub fn with_headers(self, header_bytes: u64) -> Self {
        Self { header_bytes, ..self }
    }

    /// Returns the header size of each flit in bytes.
    pub fn header_bytes(&self) -> u64 {
        self.header_bytes
    }

    /// Returns the time of a flit of `bytes` bytes on a link, including its header.
    pub fn flit_span(&self, link: LinkId, bytes: u64) -> Span {
        self.link(link).bandwidth.span(bytes.saturating_add(self.header_bytes))
    }

    /// Returns the size of a full flit in bytes.
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

    /// Returns the number of flits that carry `bytes` bytes: at least one.
    pub fn flits(&self, bytes: u64) -> u64 {
        // Avoids the division for commands.
        if bytes <= self.flit_bytes { 1 } else { bytes.div_ceil(self.flit_bytes) }
    }

    /// Creates a route from consecutive links, none of which may occur twice.
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

    /// Returns the rank of flits that start at a node: before flits that arrive over its links.
    pub(crate) fn rank_of_start(&self, node: NodeId) -> u32 {
        let first_in = self.links.partition_point(|link| link.to < node);
        LinkId::new(first_in).number() + node.number()
    }

    /// Returns the rank of flits that arrive at a node over a link.
    pub(crate) fn rank_of_link(link: LinkId, to: NodeId) -> u32 {
        link.number() + to.number() + 1
    }

    /// Returns the index of a bandwidth in the network's list.
    pub(crate) fn pace_of(&self, bandwidth: Bandwidth) -> u32 {
        let place = self.bandwidths.partition_point(|other| *other < bandwidth);
        u32::try_from(place).expect("link numbers have 32 bits")
    }

    /// Returns the time of a flit of `bytes` bytes, including its header, at the bandwidth with index `pace`.
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
