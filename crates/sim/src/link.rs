//! The state of links.

use crate::id::{LinkId, NodeId, TransferId};
use crate::network::{Forwarding, LinkSpec, Network, NodeSpec};
use crate::{Span, Time};

/// State of a link and of its downstream node. One cache line, because every hop of every transfer uses it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct LinkState {
    /// Time from which the link is free, in picoseconds.
    pub(crate) free: u64,
    /// Time of a full flit on the link, in picoseconds.
    pub(crate) flit: u64,
    pub(crate) propagation: u64,
    /// Overhead of the downstream node per transfer, in picoseconds.
    pub(crate) overhead: u64,
    /// Total busy time, in picoseconds.
    pub(crate) busy: u64,
    /// Transfer that used the link last.
    pub(crate) last: TransferId,
    /// Rank of flits whose route begins with this link.
    pub(crate) start_rank: u32,
    /// Index of the link's bandwidth in the network's list.
    pace: u32,
    pub(crate) to: NodeId,
    /// Whether the downstream node stores and forwards.
    pub(crate) stores: bool,
    /// Whether the downstream node has an overhead and processes the overhead of one transfer at a time.
    pub(crate) is_serial: bool,
}

const _: () = assert!(size_of::<LinkState>() == 64);

impl LinkState {
    const NOBODY: TransferId = TransferId(u64::MAX);

    /// Returns the rank of flits that arrive over this link.
    #[inline]
    pub(crate) fn rank(&self, id: LinkId) -> u32 {
        Network::rank_of_link(id, self.to)
    }

    pub(crate) fn is_used(&self) -> bool {
        self.last != Self::NOBODY
    }

    /// Returns the delay until the start of the link learns that a buffer entry was freed. It is at least 1 ps, so that
    /// no effect occurs in the instant of its cause.
    pub(crate) fn credit_latency(&self) -> u64 {
        self.propagation.max(1)
    }

    /// Returns the time at which a flit arrives at the other end: at least 1 ps after its start, so that no effect
    /// occurs in the instant of its cause.
    #[inline]
    pub(crate) fn arrival(&self, start: u64, end: u64) -> u64 {
        (end + self.propagation).max(start + 1)
    }

    pub(crate) fn all(network: &Network) -> Vec<Self> {
        let nodes = network.nodes();
        let state = |link: &LinkSpec| Self {
            free: 0,
            flit: network
                .span_at(network.pace_of(link.bandwidth), network.flit_bytes())
                .ps()
                .min(Time::FAR),
            propagation: link.propagation.ps().min(Time::FAR),
            overhead: nodes[link.to.index()].overhead.ps().min(Time::FAR),
            busy: 0,
            last: Self::NOBODY,
            start_rank: network.rank_of_start(link.from),
            pace: network.pace_of(link.bandwidth),
            to: link.to,
            stores: nodes[link.to.index()].forwarding == Forwarding::StoreAndForward,
            is_serial: is_serial(&nodes[link.to.index()]),
        };
        network.links().iter().map(state).collect()
    }

    /// Returns the time of a flit of `bytes` bytes on the link.
    #[inline]
    pub(crate) fn span(&self, bytes: u64, network: &Network) -> u64 {
        Paces::new(bytes, network).span(self)
    }
}

fn is_serial(node: &NodeSpec) -> bool {
    node.is_serial && node.overhead > Span::ZERO
}

/// Computes the time of a flit on successive links. It divides only when the bandwidth changes.
pub(crate) struct Paces<'a> {
    bytes: u64,
    network: &'a Network,
    last: Option<(u32, u64)>,
}

impl<'a> Paces<'a> {
    #[inline]
    pub(crate) fn new(bytes: u64, network: &'a Network) -> Self {
        Self { bytes, network, last: None }
    }

    #[inline]
    pub(crate) fn span(&mut self, link: &LinkState) -> u64 {
        match self.bytes {
            0 if self.network.header_bytes() == 0 => 0,
            bytes if bytes == self.network.flit_bytes() => link.flit,
            _ => self.divide(link.pace),
        }
    }

    #[inline]
    fn divide(&mut self, pace: u32) -> u64 {
        match self.last {
            Some((last, span)) if last == pace => span,
            _ => {
                let span = self.network.span_at(pace, self.bytes).ps().min(Time::FAR);
                self.last = Some((pace, span));
                span
            }
        }
    }
}
