//! Runs scenarios on the engine, for comparison with the slow reference: JSON lines in, JSON lines out.
//!
//! `testdata/reference/README.md` defines a scenario. `--flits` moves every flit by itself, `--hash` adds the hash of the
//! order of events, and `--times N` runs each scenario N times and prints the duration on standard error.

use std::cell::Cell;
use std::io::{BufRead, Write};
use std::num::NonZero;

use cubeyard_device::message::{Access, Direction, Done, Message, RequestId, RequesterMessage};
use cubeyard_device::model::{ChannelsSpec, Memory, Part, Requester};
use cubeyard_sim::{
    Arbiter, Bandwidth, BufferSpec, Component, Context, Delivery, Engine, EngineConfig, Flit,
    Forwarding, LinkId, LinkSpec, Network, NodeId, NodeSpec, NullObserver, Route, SignalId, Span,
    Stop, Time,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Scenario {
    flit_bytes: u64,
    #[serde(default)]
    header_bytes: u64,
    buffers: Option<Places>,
    nodes: Vec<Node>,
    links: Vec<Link>,
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Places {
    flits: NonZero<u32>,
    arbiter: ArbiterName,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ArbiterName {
    Fifo,
    RoundRobin,
    OldestFirst,
}

impl Places {
    fn spec(&self) -> BufferSpec {
        let arbiter = match self.arbiter {
            ArbiterName::Fifo => Arbiter::Fifo,
            ArbiterName::RoundRobin => Arbiter::RoundRobin,
            ArbiterName::OldestFirst => Arbiter::OldestFirst,
        };
        BufferSpec { flits: self.flits, arbiter }
    }
}

#[derive(Deserialize)]
struct Node {
    overhead_ps: u64,
    mode: Mode,
    #[serde(default)]
    serial: bool,
    memory: Option<MemoryChannels>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Transit,
    Store,
    End,
}

#[derive(Deserialize)]
struct MemoryChannels {
    burst_bytes: u64,
    channels: u64,
    burst_ps: u64,
    turnaround_ps: u64,
}

impl MemoryChannels {
    fn spec(&self) -> ChannelsSpec {
        ChannelsSpec {
            burst_bytes: self.burst_bytes,
            channels: self.channels,
            burst: Span::from_ps(self.burst_ps),
            turn_around: Span::from_ps(self.turnaround_ps),
            rows: None,
        }
    }
}

/// A memory that also makes requests. Our machines have none, so it is a custom component.
struct MemoryThatAsks {
    memory: Memory,
    requester: Requester,
}

impl Component for MemoryThatAsks {
    type Message = Message;

    fn wants_flits(&self) -> bool {
        true
    }

    fn flit(&mut self, flit: Flit, message: &Message) {
        if let Message::Memory(access) = message {
            self.memory.flit(flit, access);
        }
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::Requester(message) => self.requester.handle(message, context),
            Message::Memory(access) => self.memory.handle(access, context),
            other => unreachable!("neither for a memory nor for a requester: {other:?}"),
        }
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        self.call(delivery.message, context);
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        self.memory.wake(token, context);
    }
}

#[derive(Deserialize)]
struct Link {
    from: usize,
    to: usize,
    bytes_per_second: u64,
    propagation_ps: u64,
    reverse: usize,
}

#[derive(Deserialize)]
struct Request {
    op: Op,
    route: Vec<usize>,
    bytes: u64,
    address: u64,
    at_ps: u64,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Op {
    Read,
    Write,
    PostedWrite,
}

impl Scenario {
    fn network(&self) -> Network {
        let node = |node: &Node| NodeSpec {
            overhead: Span::from_ps(node.overhead_ps),
            forwarding: match node.mode {
                Mode::Store => Forwarding::StoreAndForward,
                Mode::Transit | Mode::End => Forwarding::CutThrough,
            },
            is_serial: node.serial,
        };
        let link = |link: &Link| LinkSpec {
            from: NodeId::new(link.from),
            to: NodeId::new(link.to),
            bandwidth: Bandwidth::from_bytes_per_second(link.bytes_per_second).expect("not zero"),
            propagation: Span::from_ps(link.propagation_ps),
        };
        let nodes = self.nodes.iter().map(node).collect();
        let links = self.links.iter().map(link).collect();
        let network = Network::new(self.flit_bytes, nodes, links).expect("a sound scenario");
        network.with_headers(self.header_bytes)
    }

    fn parts(&self) -> impl Iterator<Item = (NodeId, Part)> + '_ {
        self.nodes.iter().enumerate().map(|(index, node)| {
            let requester = if node.serial { Requester::serial } else { Requester::new };
            let requester = requester(Span::from_ps(node.overhead_ps));
            let part = match &node.memory {
                Some(memory) => {
                    let memory = Memory::new(memory.spec(), self.flit_bytes);
                    Part::Custom(Box::new(MemoryThatAsks { memory, requester }))
                }
                None => Part::Requester(requester),
            };
            (NodeId::new(index), part)
        })
    }

    /// Runs the scenario; returns latencies, flit-hops, and the hash of the order. With finite buffers requests can
    /// deadlock; these have no latency.
    fn run(&self, trains: bool) -> (Vec<Option<u64>>, u64, u64) {
        let config = EngineConfig { trains, buffers: self.buffers.as_ref().map(Places::spec) };
        let mut engine = Engine::observed(self.network(), self.parts(), config, NullObserver);
        let signals: Vec<SignalId> =
            (0..self.requests.len()).map(|index| self.issue(&mut engine, index)).collect();
        let is_stuck = engine.run() != Stop::Idle;
        assert!(!is_stuck || self.buffers.is_some(), "there is room for all");
        let done = signals.iter().zip(&self.requests).map(|(&signal, request)| {
            let done = engine.tasks().raised(signal)?;
            Some((done - Time::from_ps(request.at_ps)).ps())
        });
        (done.collect(), engine.flit_hops(), engine.order_hash())
    }

    fn issue(&self, engine: &mut Engine<Part>, index: usize) -> SignalId {
        let request = &self.requests[index];
        let back = request.route.iter().rev().map(|&link| self.links[link].reverse);
        let route = |links: Vec<usize>| -> Route {
            let links: Vec<_> = links.into_iter().map(LinkId::new).collect();
            engine.network().route(&links).expect("a sound scenario")
        };
        let done = engine.tasks().signal(String::new(), None);
        let access = Access {
            request: RequestId::new(index),
            direction: if request.op == Op::Read { Direction::Read } else { Direction::Write },
            address: request.address,
            bytes: request.bytes,
            rows: None,
            there: route(request.route.clone()),
            back: (request.op != Op::PostedWrite).then(|| route(back.collect())),
            data: None,
            written: Cell::default(),
            done: Done::Signal(done),
        };
        let start = NodeId::new(self.links[request.route[0]].from);
        let message = RequesterMessage::Issue(Box::new(access)).into();
        engine.call_at(Time::from_ps(request.at_ps), start, message);
        done
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let trains = !arguments.iter().any(|argument| argument == "--flits");
    let hash = arguments.iter().any(|argument| argument == "--hash");
    let times = arguments.iter().position(|argument| argument == "--times");
    let times = times.map_or(1, |at| arguments[at + 1].parse().expect("a number of times"));
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text on standard input");
        let scenario: Scenario = serde_json::from_str(&line).expect("a scenario");
        let mut result = scenario.run(trains);
        #[expect(
            clippy::disallowed_methods,
            reason = "the example measures, it does not simulate with it"
        )]
        let start = std::time::Instant::now();
        for _ in 1..times {
            result = scenario.run(trains);
        }
        if times > 1 {
            let seconds = start.elapsed().as_secs_f64() / f64::from(times - 1);
            let rate = result.1 as f64 / seconds / 1e6;
            writeln!(std::io::stderr(), "{seconds:.6} s, {rate:.2} M flit-hops/s").expect("stderr");
        }
        let (latency_ps, flit_hops, order_hash) = result;
        let mut object = serde_json::json!({ "latency_ps": latency_ps, "flit_hops": flit_hops });
        if hash {
            object["order_hash"] = format!("{order_hash:016x}").into();
        }
        writeln!(out, "{object}").expect("stdout");
    }
}
