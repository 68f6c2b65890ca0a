//! A small grid of nodes whose components record what they see.

use cubeyard_sim::{
    Asks, Bandwidth, Component, Context, Delivery, Engine, EngineConfig, Flit, Forwarding, LinkId,
    LinkSpec, Network, NodeId, NodeSpec, Observer, Route, Span, Time, TransferSpec,
};

/// Message between nodes: a label, and optionally an answer to send.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) label: usize,
    pub(crate) answer: Option<TransferSpec<Box<Note>>>,
}

/// Component that records its deliveries.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    pub(crate) wants_flits: bool,
    pub(crate) flits: Vec<(usize, Flit)>,
    pub(crate) received: Vec<(usize, Time)>,
}

impl Component for Diary {
    type Message = Box<Note>;

    fn wants_flits(&self) -> bool {
        self.wants_flits
    }

    fn flit(&mut self, flit: Flit, note: &Box<Note>) {
        self.flits.push((note.label, flit));
    }

    fn receive(&mut self, delivery: Delivery<Box<Note>>, context: &mut Context<Box<Note>>) {
        self.received.push((delivery.message.label, context.now()));
        if let Some(mut answer) = delivery.message.answer {
            answer.asks = Asks::At(context.now() + Span::from_ps(3));
            context.send(answer);
        }
    }

    /// A call with an answer sends the answer.
    fn call(&mut self, note: Box<Note>, context: &mut Context<Box<Note>>) {
        if let Some(send) = note.answer {
            context.send(send);
        }
    }
}

/// A grid: `bandwidth` and `propagation` by link, `nodes` row by row.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) width: usize,
    pub(crate) flit_bytes: u64,
    pub(crate) header_bytes: u64,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) flit_takers: Vec<bool>,
    pub(crate) links: Vec<LinkSpec>,
}

impl Grid {
    /// Returns a uniform grid: 256 B flits, 256 GB/s, no overhead and no propagation.
    pub(crate) fn plain(width: usize, height: usize) -> Self {
        let count = width * height;
        let beside = |a: usize, b: usize| {
            a.abs_diff(b) == width || a.abs_diff(b) == 1 && a / width == b / width
        };
        let pairs = (0..count).flat_map(|to| (0..count).map(move |from| (from, to)));
        let links = pairs.filter(|&(from, to)| beside(from, to)).map(|(from, to)| LinkSpec {
            from: NodeId::new(from),
            to: NodeId::new(to),
            bandwidth: Bandwidth::from_gb_per_second(256.0).unwrap(),
            propagation: Span::ZERO,
        });
        Self {
            width,
            flit_bytes: 256,
            header_bytes: 0,
            nodes: vec![NodeSpec::default(); count],
            flit_takers: vec![false; count],
            links: links.collect(),
        }
    }

    pub(crate) fn store(mut self, node: usize) -> Self {
        self.nodes[node].forwarding = Forwarding::StoreAndForward;
        self
    }

    /// Returns the route along the row, then along the column.
    pub(crate) fn route(&self, from: usize, to: usize) -> Vec<LinkId> {
        let (mut at, mut route) = (from, Vec::new());
        while at != to {
            let next = match (at % self.width, to % self.width) {
                (x, target) if x < target => at + 1,
                (x, target) if x > target => at - 1,
                _ if at < to => at + self.width,
                _ => at - self.width,
            };
            let ends = (NodeId::new(at), NodeId::new(next));
            let link = self.links.iter().position(|link| (link.from, link.to) == ends).unwrap();
            route.push(LinkId::new(link));
            at = next;
        }
        route
    }

    pub(crate) fn engine<O: Observer<Box<Note>>>(
        &self,
        trains: bool,
        observer: O,
    ) -> Engine<Diary, O> {
        self.engine_as(EngineConfig { trains, buffers: None }, observer)
    }

    pub(crate) fn engine_as<O: Observer<Box<Note>>>(
        &self,
        config: EngineConfig,
        observer: O,
    ) -> Engine<Diary, O> {
        let network = self.network();
        let diaries = self.flit_takers.iter().enumerate().map(|(node, &wants_flits)| {
            (NodeId::new(node), Diary { wants_flits, ..Diary::default() })
        });
        Engine::observed(network, diaries, config, observer)
    }

    pub(crate) fn checked_route(&self, from: usize, to: usize) -> Route {
        self.network().route(&self.route(from, to)).unwrap()
    }

    fn network(&self) -> Network {
        let network = Network::new(self.flit_bytes, self.nodes.clone(), self.links.clone());
        network.unwrap().with_headers(self.header_bytes)
    }
}
