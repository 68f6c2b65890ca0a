//! Networks of plain nodes, for checks that have no machine: packets go in, and are seen coming out.

use std::collections::BTreeMap;

use cubeyard_memory::trace::synthetic::SplitMix64;
use cubeyard_sim::{
    Asks, Bandwidth, Blind, Component, Context, Delivery, Engine, EngineConfig, LinkId, LinkSpec,
    Network, NodeId, NodeSpec, Observer, Route, Send, Span, Stop, Time,
};

/// Something to be carried along a route.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) at: Time,
    pub(super) route: Route,
    pub(super) bytes: u64,
}

/// A packet that has come: its place in the list, when it was made, when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) packet: usize,
    pub(super) made: Time,
    pub(super) at: Time,
}

impl Arrival {
    pub(super) fn latency(&self) -> Span {
        self.at - self.made
    }
}

/// Sends what it is told to and keeps what it receives.
#[derive(Debug, Default)]
pub(super) struct End {
    arrivals: Vec<Arrival>,
}

impl Component for End {
    type Message = (usize, Packet);

    fn call(&mut self, (number, packet): Self::Message, context: &mut Context<Self::Message>) {
        let (route, bytes) = (packet.route.clone(), packet.bytes);
        let asks = Asks::At(context.now());
        context.send(Send { route, bytes, asks, message: (number, packet) });
    }

    fn receive(&mut self, delivery: Delivery<Self::Message>, context: &mut Context<Self::Message>) {
        let (packet, made) = (delivery.message.0, delivery.begun);
        self.arrivals.push(Arrival { packet, made, at: context.now() });
    }
}

/// A wire in one direction: from, to, bytes a second, propagation.
pub(super) type Wire = (usize, usize, u64, Span);

/// A network of which routes are given by nodes.
#[derive(Clone, Debug)]
pub(super) struct Wires {
    network: Network,
    links: BTreeMap<(usize, usize), LinkId>,
}

impl Wires {
    pub(super) fn new(flit_bytes: u64, nodes: Vec<NodeSpec>, mut wires: Vec<Wire>) -> Self {
        wires.sort_by_key(|&(from, to, ..)| (to, from));
        let ends = wires.iter().enumerate();
        let links = ends.map(|(link, &(from, to, ..))| ((from, to), LinkId::new(link))).collect();
        let link = |(from, to, bandwidth, propagation): Wire| LinkSpec {
            from: NodeId::new(from),
            to: NodeId::new(to),
            bandwidth: Bandwidth::from_bytes_per_second(bandwidth).expect("a wire carries bytes"),
            propagation,
        };
        let specs = wires.into_iter().map(link).collect();
        let network = Network::new(flit_bytes, nodes, specs).expect("ordered by destination");
        Self { network, links }
    }

    /// The route over these nodes, each beside the next.
    pub(super) fn route(&self, nodes: &[usize]) -> Route {
        nodes.windows(2).map(|pair| self.links[&(pair[0], pair[1])]).collect()
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Carries all packets and says when each came, in the order of the list.
    pub(super) fn carry(&self, packets: &[Packet]) -> Vec<Arrival> {
        self.carry_observed(packets, Blind).0
    }

    /// As [`carry`](Self::carry), with somebody looking on, and with the number of crossings of links.
    pub(super) fn carry_observed<O: Observer<(usize, Packet)>>(
        &self,
        packets: &[Packet],
        observer: O,
    ) -> (Vec<Arrival>, Engine<End, O>) {
        let nodes = 0..self.network.nodes().len();
        let ends = nodes.clone().map(|node| (NodeId::new(node), End::default()));
        let config = EngineConfig::default();
        let mut engine = Engine::observed(self.network.clone(), ends, config, observer);
        for (number, packet) in packets.iter().enumerate() {
            let from = self.network.link(packet.route[0]).from;
            engine.call_at(packet.at, from, (number, packet.clone()));
        }
        assert_eq!(engine.run(), Stop::Idle, "packets arrive");
        let end = |node| engine.component(NodeId::new(node)).expect("every node has an end");
        let mut arrivals: Vec<_> = nodes.flat_map(|node| end(node).arrivals.clone()).collect();
        arrivals.sort_by_key(|arrival| arrival.packet);
        (arrivals, engine)
    }
}

/// Numbers that look random and are the same everywhere (`SplitMix64`).
#[derive(Clone, Debug)]
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`, which is so small that no number is seen to be more frequent.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// True in so many of a hundred thousand cases.
    pub(super) fn hit(&mut self, of_100_000: u64) -> bool {
        self.next() % 100_000 < of_100_000
    }

    /// A number of an exponential distribution, in units of its mean / 2³². By comparisons alone (von
    /// Neumann 1951), because logarithms differ between machines.
    pub(super) fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.next() >> 32;
            let (mut least, mut falling) = (first, 1);
            loop {
                let next = self.next() >> 32;
                if next >= least {
                    break;
                }
                (least, falling) = (next, falling + 1);
            }
            if falling % 2 == 1 {
                return (whole << 32) + first;
            }
            whole += 1;
        }
    }
}
