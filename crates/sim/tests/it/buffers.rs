//! Finite buffers: the cases in which they change nothing, blocking, arbitration, and deadlocks.

use std::num::NonZero;

use cubeyard_sim::{
    Arbiter, Asks, Bandwidth, BufferSpec, Component, Crossing, Engine, EngineConfig, LinkId,
    LinkSpec, Network, NodeId, NodeSpec, Observer, Span, Stop, Time, TransferSpec, Waiter,
};
use proptest::prelude::*;

use crate::grid::{Grid, Note};
use crate::long_tests::cases;
use crate::naive;
use crate::traffic::{Planned, Traffic, run_as, traffic};

const ARBITERS: [Arbiter; 3] = [Arbiter::Fifo, Arbiter::RoundRobin, Arbiter::OldestFirst];
const PLENTY: u32 = 1 << 20;

fn places(flits: u32, arbiter: Arbiter) -> EngineConfig {
    let flits = NonZero::new(flits).unwrap();
    EngineConfig { buffers: Some(BufferSpec { flits, arbiter }), ..EngineConfig::default() }
}

const UNLIMITED: EngineConfig = EngineConfig { trains: false, buffers: None };

/// Observer that records every crossing.
#[derive(Default)]
struct Film(Vec<Crossing>);

impl<M> Observer<M> for &mut Film {
    const FLITS: bool = true;

    fn crossed(&mut self, crossing: Crossing) {
        self.0.push(crossing);
    }
}

impl Film {
    fn of(traffic: &Traffic, config: EngineConfig) -> Self {
        let mut film = Self::default();
        run_as(traffic, config, &mut film);
        film
    }

    fn by(&self, link: LinkId) -> impl Iterator<Item = &Crossing> {
        self.0.iter().filter(move |crossing| crossing.link == link)
    }

    fn last(&self) -> u64 {
        self.0.iter().map(|crossing| crossing.arrived.ps()).max().unwrap()
    }

    /// Returns when the flit of a crossing left its buffer entry.
    fn left(&self, grid: &Grid, crossing: &Crossing) -> u64 {
        let ends = grid.nodes[grid.links[crossing.link.index()].to.index()];
        let stored = ends.forwarding == cubeyard_sim::Forwarding::StoreAndForward;
        let next = self.0.iter().find(|next| {
            (next.transfer, next.flit, next.hop)
                == (crossing.transfer, crossing.flit, crossing.hop + 1)
        });
        next.filter(|_| !stored).map_or(crossing.arrived.ps(), |next| next.start.ps())
    }

    /// Returns the maximum number of buffer entries of a link in use at once, counted until the credit has returned.
    fn most(&self, grid: &Grid, link: LinkId) -> usize {
        let credit_latency = grid.links[link.index()].propagation.ps().max(1);
        let stays: Vec<_> = self
            .by(link)
            .map(|crossing| (crossing.start.ps(), self.left(grid, crossing) + credit_latency))
            .collect();
        let at = |time| stays.iter().filter(|(from, to)| (*from..*to).contains(&time)).count();
        stays.iter().map(|&(from, _)| at(from)).max().unwrap_or(0)
    }
}

fn flow(from: usize, to: usize, flits: u64) -> Planned {
    Planned { at: 0, from, to, bytes: flits * 256, asks: Vec::new(), answered: false }
}

fn line(nodes: usize, transfers: Vec<Planned>) -> Traffic {
    Traffic { grid: Grid::plain(nodes, 1), transfers }
}

/// Redirects all traffic to node 0, so that at every node all flits want the same link.
fn to_one(mut traffic: Traffic) -> Traffic {
    for planned in &mut traffic.transfers {
        planned.from = planned.from.max(1);
        planned.to = 0;
        planned.answered = false;
    }
    traffic
}

/// Traffic with many simultaneous events: equal links, and request times in whole nanoseconds.
fn in_step() -> impl Strategy<Value = Traffic> {
    let transfer = (0..4_u64, 0..12_usize, 1..12_usize, 0..4_u64);
    proptest::collection::vec(transfer, 10..60).prop_map(|transfers| {
        let planned = |(at, from, away, flits)| {
            let to = (from + away) % 12;
            Planned { at: at * 1000, ..flow(from, to, flits) }
        };
        Traffic { grid: Grid::plain(4, 3), transfers: transfers.into_iter().map(planned).collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    #[test]
    fn with_room_and_one_way_out_of_every_node_nothing_changes(traffic in traffic()) {
        let traffic = to_one(traffic);
        let finite = run_as(&traffic, places(PLENTY, Arbiter::Fifo), cubeyard_sim::NullObserver);
        prop_assert_eq!(finite, run_as(&traffic, UNLIMITED, cubeyard_sim::NullObserver));
    }

    #[test]
    fn the_engine_does_what_the_rules_say_word_by_word(
        mut traffic in prop_oneof![traffic(), in_step()],
        places_each in 1..9_u32,
        arbiter in 0..3_usize,
    ) {
        traffic.transfers.iter_mut().for_each(|planned| planned.answered = false);
        let nodes = traffic.grid.nodes.iter_mut();
        nodes.for_each(|node| node.forwarding = cubeyard_sim::Forwarding::CutThrough);
        let arbiter = ARBITERS[arbiter];
        let mut received = run_as(&traffic, places(places_each, arbiter), cubeyard_sim::NullObserver).0;
        received.sort_unstable();
        let expected = naive::delivered(&traffic, places_each, arbiter);
        let expected = expected.into_iter().map(Time::from_ps).enumerate();
        prop_assert_eq!(received, expected.collect::<Vec<_>>());
    }

    #[test]
    fn with_room_a_lone_transfer_is_as_ever(mut traffic in traffic(), arbiter in 0..3_usize) {
        traffic.transfers.truncate(1);
        let finite = run_as(&traffic, places(PLENTY, ARBITERS[arbiter]), cubeyard_sim::NullObserver);
        prop_assert_eq!(finite, run_as(&traffic, UNLIMITED, cubeyard_sim::NullObserver));
    }

    #[test]
    fn no_place_is_taken_twice_and_row_then_column_never_blocks_for_good(
        traffic in traffic(),
        flits in 1..6_u32,
        arbiter in 0..3_usize,
    ) {
        // `run_as` requires that the engine becomes idle, with no transfer in flight.
        let film = Film::of(&traffic, places(flits, ARBITERS[arbiter]));
        let links = 0..traffic.grid.links.len();
        if film.0.len() < 1500 {
            for link in links.map(LinkId::new) {
                prop_assert!(film.most(&traffic.grid, link) <= flits as usize);
            }
        }
    }
}

#[test]
fn disjoint_flows_do_not_meet() {
    let grid = Grid::plain(4, 4);
    let rows = (0..4).map(|row| flow(4 * row, 4 * row + 3, 20));
    let back = (0..4).map(|row| flow(4 * row + 3, 4 * row, 30));
    let both_ways_out = [flow(5, 6, 9), flow(5, 9, 9)];
    let transfers = rows.chain(back).collect();
    for transfers in [transfers, both_ways_out.to_vec()] {
        let traffic = Traffic { grid: grid.clone(), transfers };
        let unlimited = run_as(&traffic, UNLIMITED, cubeyard_sim::NullObserver);
        for arbiter in ARBITERS {
            let finite = run_as(&traffic, places(PLENTY, arbiter), cubeyard_sim::NullObserver);
            assert_eq!(finite, unlimited);
        }
    }
}

#[test]
fn a_flit_at_the_head_blocks_those_behind_it() {
    // Node 1 first sends 8 flits down; then one flit down and one to the right arrive over one link.
    let mut grid = Grid::plain(3, 2);
    let down = grid.route(1, 4)[0];
    grid.links[down.index()].bandwidth = Bandwidth::from_gb_per_second(25.6).unwrap();
    let transfers = vec![flow(1, 4, 8), flow(0, 4, 1), flow(0, 2, 1)];
    let traffic = Traffic { grid, transfers };
    // The transfers of node 0 began before the transfers of node 1, so the one to the right has number 1.
    let arrival = |config| {
        let film = Film::of(&traffic, config);
        film.0
            .iter()
            .find(|crossing| crossing.transfer.get() == 1 && crossing.hop == 1)
            .unwrap()
            .start
    };
    assert_eq!(arrival(UNLIMITED).ps(), 2000);
    assert_eq!(arrival(places(PLENTY, Arbiter::Fifo)).ps(), 80_000, "when the head goes down");
}

#[test]
fn a_slow_link_fills_the_buffer_before_it_and_no_more() {
    for depth in [1, 2, 3, 7] {
        let mut traffic = line(4, vec![flow(0, 3, 40)]);
        let route = traffic.grid.route(0, 3);
        let slow = &mut traffic.grid.links[route[2].index()];
        slow.bandwidth = Bandwidth::from_gb_per_second(2.56).unwrap();
        let film = Film::of(&traffic, places(depth, Arbiter::Fifo));
        for &link in &route[..2] {
            assert_eq!(film.most(&traffic.grid, link), depth as usize);
        }
        // Before the slow link ends its first flit, only the flits that fill the first and the second buffer have left.
        let first_end = film.by(route[2]).next().unwrap().end;
        let started = film.by(route[0]).filter(|crossing| crossing.start < first_end).count();
        assert_eq!(started, 1 + 2 * depth as usize);
        assert_eq!(film.last(), 2000 + 40 * 100_000 + if depth == 1 { 39 } else { 0 });
    }
}

#[test]
fn full_rate_needs_a_place_for_every_flit_of_a_round_trip() {
    // Flits of 1 ns, and a propagation of 10 ns each way: 21 flits are on the round trip.
    let mut traffic = line(3, vec![flow(0, 2, 200)]);
    traffic.grid.links.iter_mut().for_each(|link| link.propagation = Span::from_ps(10_000));
    let unlimited = Film::of(&traffic, UNLIMITED).last();
    assert_eq!(unlimited, 2 * 10_000 + 201 * 1000);
    let last = |depth| Film::of(&traffic, places(depth, Arbiter::Fifo)).last();
    assert_eq!(last(21), unlimited);
    // 20 entries: 20 flits per 21 ns. The 200th flit is the 20th of the tenth round.
    assert_eq!(last(20), unlimited + 9 * 1000);
    // Without propagation the credit takes 1 ps, so one entry is not enough, but two are.
    let traffic = line(3, vec![flow(0, 2, 200)]);
    let last = |depth| Film::of(&traffic, places(depth, Arbiter::Fifo)).last();
    assert_eq!((last(2), last(1)), (201_000, 201_000 + 199));
}

#[test]
fn a_place_that_is_free_again_is_used_at_that_picosecond_and_not_before() {
    let mut traffic = line(3, vec![flow(0, 2, 2)]);
    let route = traffic.grid.route(0, 2);
    traffic.grid.links[route[0].index()].propagation = Span::from_ps(700);
    let film = Film::of(&traffic, places(1, Arbiter::Fifo));
    // The first flit leaves its entry at 1.7 ns, and the credit arrives 0.7 ns later.
    let starts: Vec<_> = film.by(route[0]).map(|crossing| crossing.start.ps()).collect();
    assert_eq!(starts, [0, 1000 + 700 + 700]);
}

#[test]
fn commands_take_places_too() {
    let commands = (0..5).map(|_| Planned { bytes: 0, ..flow(0, 2, 0) }).collect();
    let traffic = line(3, commands);
    let route = traffic.grid.route(0, 2);
    let film = Film::of(&traffic, places(2, Arbiter::Fifo));
    assert_eq!(film.most(&traffic.grid, route[0]), 2);
    // Two flits at once; they continue 1 ps later, and the credits arrive another 1 ps later.
    let starts: Vec<_> = film.by(route[0]).map(|crossing| crossing.start.ps()).collect();
    assert_eq!(starts, [0, 0, 2, 2, 4]);
}

/// Returns the shares of two flows that arrive over two links and leave over one, among the first `served` flits.
fn shares(arbiter: Arbiter, first: Planned, second: Planned, served: usize) -> [usize; 2] {
    // 0 → 1 → 4 and 2 → 1 → 4: the link down is as fast as each of the two.
    let traffic = Traffic { grid: Grid::plain(3, 2), transfers: vec![first, second] };
    let down = traffic.grid.route(1, 4)[0];
    let film = Film::of(&traffic, places(8, arbiter));
    let of = |label| film.by(down).take(served).filter(|at| at.transfer.get() == label).count();
    [of(0), of(1)]
}

#[test]
fn round_robin_is_fair_to_within_a_flit() {
    for served in 1..100 {
        let [left, right] = shares(Arbiter::RoundRobin, flow(0, 4, 60), flow(2, 4, 60), served);
        assert!(left.abs_diff(right) <= 1, "{left} and {right} of {served}");
    }
    // The link is never idle: a flow that is alone gets all of it.
    assert_eq!(shares(Arbiter::RoundRobin, flow(0, 4, 60), flow(2, 4, 1), 20), [19, 1]);
}

#[test]
fn the_oldest_transfer_goes_first_once_it_asks() {
    let later = Planned { at: 10_000, ..flow(2, 4, 30) };
    let [old, young] = shares(Arbiter::OldestFirst, flow(0, 4, 50), later, 50);
    assert_eq!([old, young], [50, 0]);
    // The younger flow is served first, since it begins first; the older one takes over when it arrives.
    let slow_start = Planned { asks: vec![20_000], ..flow(0, 4, 30) };
    let [old, young] = shares(Arbiter::OldestFirst, slow_start, flow(2, 4, 60), 60);
    assert_eq!([old, young], [30, 30]);
}

/// Returns the end times of transfers of 8 flits from two nodes to node 6 of a grid; the first is scheduled first.
fn ends_in_order(arbiter: Arbiter, from: [(usize, u64); 2]) -> [Time; 2] {
    let grid = Grid::plain(3, 3);
    let mut engine = grid.engine_as(places(8, arbiter), cubeyard_sim::NullObserver);
    for (label, (node, at)) in from.into_iter().enumerate() {
        engine.run_until(Time::from_ps(at));
        let message = Box::new(Note { label, answer: None });
        let asks = Asks::At(Time::from_ps(100));
        let send =
            TransferSpec { route: grid.checked_route(node, 6), bytes: 8 * 256, asks, message };
        engine.call(NodeId::new(node), Box::new(Note { label, answer: Some(send) }));
    }
    assert_eq!(engine.run(), Stop::Idle);
    let received = &engine.component(NodeId::new(6)).unwrap().received;
    [0, 1].map(|label| received.iter().find(|of| of.0 == label).unwrap().1)
}

/// The transfer with the lower number was considered the older one.
#[test]
fn of_transfers_that_began_at_one_instant_the_one_by_the_lower_link_goes_first() {
    // Both want the link from node 3 to node 6; the transfer from node 0 arrives at node 3 over the lower link.
    for arbiter in [Arbiter::OldestFirst, Arbiter::Fifo] {
        for (first, second) in [(4, 0), (0, 4)] {
            let ends = ends_in_order(arbiter, [(first, 0), (second, 0)]);
            let is_in_order = if first == 0 { ends[0] < ends[1] } else { ends[1] < ends[0] };
            assert!(is_in_order, "{arbiter:?}, {first} before {second}: {ends:?}");
        }
    }
    // If it begins a picosecond later, it is the younger one.
    let [from_4, from_0] = ends_in_order(Arbiter::OldestFirst, [(4, 0), (0, 1)]);
    assert!(from_4 < from_0, "{from_4} and {from_0}");
}

/// A ring of unidirectional links: link `i` leads to node `i`.
struct Around;

impl Component for Around {
    type Message = Vec<TransferSpec<()>>;

    fn receive(
        &mut self,
        _: cubeyard_sim::Delivery<Self::Message>,
        _: &mut cubeyard_sim::Context<Self::Message>,
    ) {
    }

    fn call(&mut self, sends: Self::Message, context: &mut cubeyard_sim::Context<Self::Message>) {
        for TransferSpec { route, bytes, asks, .. } in sends {
            context.send(TransferSpec { route, bytes, asks, message: Vec::new() });
        }
    }
}

/// Runs a ring of four nodes, each of which sends flits half way round.
fn ring(depth: u32, flits: u64) -> Stop {
    let link = |to: usize| LinkSpec {
        from: NodeId::new((to + 3) % 4),
        to: NodeId::new(to),
        bandwidth: Bandwidth::from_gb_per_second(256.0).unwrap(),
        propagation: Span::ZERO,
    };
    let network = Network::new(256, vec![NodeSpec::default(); 4], (0..4).map(link).collect());
    let network = network.unwrap();
    let config = places(depth, Arbiter::Fifo);
    let nodes = (0..4).map(|node| (NodeId::new(node), Around));
    let mut engine = Engine::observed(network.clone(), nodes, config, cubeyard_sim::NullObserver);
    for node in 0..4 {
        let half = [1, 2].map(|hop| LinkId::new((node + hop) % 4));
        let route = network.route(&half).unwrap();
        let (bytes, asks) = (256 * flits, Asks::At(Time::ZERO));
        engine.call(NodeId::new(node), vec![TransferSpec { route, bytes, asks, message: () }]);
    }
    engine.run()
}

#[test]
fn a_ring_of_full_buffers_is_a_deadlock_that_names_the_ring() {
    let Stop::Deadlock(waiting) = ring(1, 1) else { panic!("each waits for the next") };
    let text: Vec<_> = waiting.iter().map(ToString::to_string).collect();
    let waits = |link, next| {
        format!("the buffer of link {link} waits for a place in the buffer of link {next}")
    };
    assert_eq!(text, [waits(0, 1), waits(1, 2), waits(2, 3), waits(3, 0)]);
    assert_eq!(waiting[2].who, Waiter::Buffer(LinkId::new(2)));
    // With one more entry than flits, the ring does not block.
    assert_eq!(ring(2, 1), Stop::Idle);
}

#[test]
fn the_mesh_takes_no_more_than_its_capacity() {
    // All-to-all on 8 × 8 nodes with flits of 1 ns, each node in its own order. Half of the traffic crosses the middle,
    // over 8 links each way: 4/k = 0.5 flits per node and ns, minus the share that a node does not send to itself.
    let nodes = 64_usize;
    let grid = Grid::plain(8, 8);
    let destinations = |from: usize| (1..nodes).map(move |step| (from + 29 * step) % nodes);
    let transfers = (0..nodes).flat_map(|from| destinations(from).map(move |to| flow(from, to, 1)));
    let traffic = Traffic { grid, transfers: transfers.collect() };
    let accepted = |config| 63_000.0 / Film::of(&traffic, config).last() as f64;
    let unlimited = accepted(UNLIMITED);
    assert!((0.3..=0.5).contains(&unlimited), "{unlimited}");
    for arbiter in ARBITERS {
        let [shallow, deep] = [1, 8].map(|depth| accepted(places(depth, arbiter)));
        assert!((0.1..=0.5).contains(&shallow), "{arbiter:?}: {shallow}");
        assert!((shallow..=0.5).contains(&deep), "{arbiter:?}: {deep} after {shallow}");
    }
}
