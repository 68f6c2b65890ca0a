//! Networks of plain nodes, for checks that need no machine.

use std::collections::BTreeMap;

use cubeyard_runtime::random_bits;
use cubeyard_sim::{
    Asks, Bandwidth, Component, Context, Delivery, Engine, EngineConfig, LinkId, LinkSpec, Network,
    NodeId, NodeSpec, NullObserver, Observer, Route, Span, Stop, Time, TransferSpec,
};

/// A packet to send along a route.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) at: Time,
    pub(super) route: Route,
    pub(super) bytes: u64,
}

/// Arrival of a packet: its index in the list, and the times of injection and arrival.
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

/// A component that sends the packets it is called with and records the packets it receives.
#[derive(Debug, Default)]
pub(super) struct End {
    arrivals: Vec<Arrival>,
}

impl Component for End {
    type Message = (usize, Packet);

    fn call(&mut self, (number, packet): Self::Message, context: &mut Context<Self::Message>) {
        let (route, bytes) = (packet.route.clone(), packet.bytes);
        let asks = Asks::At(context.now());
        context.send(TransferSpec { route, bytes, asks, message: (number, packet) });
    }

    fn receive(&mut self, delivery: Delivery<Self::Message>, context: &mut Context<Self::Message>) {
        let (packet, made) = (delivery.message.0, delivery.begun);
        self.arrivals.push(Arrival { packet, made, at: context.now() });
    }
}

/// A directed wire: source, destination, bandwidth in bytes per second, propagation delay.
pub(super) type Wire = (usize, usize, u64, Span);

/// A network whose routes are given as lists of nodes.
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

    /// Returns the route over these nodes, each a neighbour of the next.
    pub(super) fn route(&self, nodes: &[usize]) -> Route {
        nodes.windows(2).map(|pair| self.links[&(pair[0], pair[1])]).collect()
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Sends all packets and returns their arrivals in the order of the list.
    pub(super) fn carry(&self, packets: &[Packet]) -> Vec<Arrival> {
        self.carry_observed(packets, NullObserver).0
    }

    /// Sends packets like [`carry`](Self::carry), with an observer; also returns the engine.
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

/// A deterministic random number generator: the outputs of [`random_bits`] for one seed, in order.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    seed: u64,
    drawn: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(super) fn next(&mut self) -> u64 {
        let bits = random_bits(self.seed, self.drawn);
        self.drawn += 1;
        bits
    }

    /// Returns a number below `bound`, which must be small enough that the bias is negligible.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// Returns `true` with a probability of `of_100_000` / 100 000.
    pub(super) fn hit(&mut self, of_100_000: u64) -> bool {
        self.next() % 100_000 < of_100_000
    }

    /// Returns an exponentially distributed number, in units of its mean / 2³². It uses only comparisons (von Neumann
    /// 1951), because logarithms differ between machines.
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
