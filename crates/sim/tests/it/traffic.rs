//! Random traffic on random grids, and its outcome.

use cubeyard_sim::{
    Asks, Bandwidth, Engine, EngineConfig, Flit, NodeId, NullObserver, Observer, Span, Stop, Time,
    TransferSpec,
};
use proptest::prelude::*;

use crate::grid::{Diary, Grid, Note};

#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) grid: Grid,
    pub(crate) transfers: Vec<Planned>,
}

#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) at: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
    /// Delay of each flit's request after the call; empty if all are made at once.
    pub(crate) asks: Vec<u64>,
    pub(crate) answered: bool,
}

fn grids() -> impl Strategy<Value = Grid> {
    (2..5_usize, 1..4_usize).prop_flat_map(|(width, height)| {
        let plain = Grid::plain(width, height);
        let (nodes, links) = (plain.nodes.len(), plain.links.len());
        let overheads = prop_oneof![Just(0_u64), Just(2000), 0..9000_u64];
        let speeds = prop_oneof![Just(256.0), Just(128.0), Just(512.0), 1.0..300.0];
        (
            proptest::collection::vec((overheads, any::<bool>(), prop::bool::weighted(0.2)), nodes),
            proptest::collection::vec((speeds, prop_oneof![Just(0_u64), 0..50_u64]), links),
            // Mostly off, since serial nodes exclude trains.
            prop::bool::weighted(0.2),
            prop_oneof![3 => Just(0_u64), 1 => 1..40_u64],
        )
            .prop_map(move |(nodes, links, is_serial, header_bytes)| {
                let mut grid = Grid { header_bytes, ..plain.clone() };
                for (index, (overhead, flits, store)) in nodes.into_iter().enumerate() {
                    grid.nodes[index].overhead = Span::from_ps(overhead);
                    grid.nodes[index].is_serial = is_serial;
                    grid.flit_takers[index] = flits;
                    grid = if store { grid.store(index) } else { grid };
                }
                for (link, (speed, propagation)) in grid.links.iter_mut().zip(links) {
                    link.bandwidth = Bandwidth::from_gb_per_second(speed).unwrap();
                    link.propagation = Span::from_ps(propagation);
                }
                grid
            })
    })
}

pub(crate) fn traffic() -> impl Strategy<Value = Traffic> {
    grids().prop_flat_map(|grid| {
        let nodes = grid.nodes.len();
        let bytes = prop_oneof![Just(0_u64), 1..600_u64, 1000..40_000_u64, Just(16_384)];
        let at = prop_oneof![Just(0_u64), (0..60_u64).prop_map(|ns| ns * 1000), 0..200_000_u64];
        let asks = prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(0..90_000_u64, 1..200)];
        let planned = (at, 0..nodes, 1..nodes, bytes, asks, any::<bool>()).prop_map(
            move |(at, from, away, bytes, asks, answered)| {
                let to = (from + away) % nodes;
                Planned { at, from, to, bytes, asks, answered }
            },
        );
        let transfers = proptest::collection::vec(planned, 1..12);
        transfers.prop_map(move |transfers| Traffic { grid: grid.clone(), transfers })
    })
}

/// Records of all nodes, busy time of each link, and the order hash.
pub(crate) type Outcome = (Vec<(usize, Time)>, Vec<(usize, Flit)>, Vec<Span>, u64, u64);

pub(crate) fn run<O: Observer<Box<Note>>>(
    traffic: &Traffic,
    trains: bool,
    observer: O,
    pause: bool,
) -> Outcome {
    run_with(traffic, EngineConfig { trains, buffers: None }, observer, pause, None)
}

/// Runs traffic as trains that keep at most `times` times, unless they are alone.
pub(crate) fn run_limited(traffic: &Traffic, times: u64, pause: bool) -> Outcome {
    run_with(traffic, EngineConfig::default(), NullObserver, pause, Some(times))
}

pub(crate) fn run_as<O: Observer<Box<Note>>>(
    traffic: &Traffic,
    config: EngineConfig,
    observer: O,
) -> Outcome {
    run_with(traffic, config, observer, false, None)
}

fn run_with<O: Observer<Box<Note>>>(
    traffic: &Traffic,
    config: EngineConfig,
    observer: O,
    pause: bool,
    longest: Option<u64>,
) -> Outcome {
    let grid = &traffic.grid;
    let mut engine = grid.engine_as(config, observer);
    longest.into_iter().for_each(|times| engine.limit_trains(times));
    order(&mut engine, traffic, 0);
    if pause {
        // Reading the figures in the middle of a run must change nothing.
        while engine.run_until(engine.now() + Span::from_ps(7777)) == Stop::Deadline {
            engine.busy();
        }
    }
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(engine.under_way(), 0);
    let received = received(&engine);
    let diaries = (0..grid.nodes.len()).map(|node| engine.component(NodeId::new(node)).unwrap());
    let flits = diaries.flat_map(|diary| diary.flits.clone()).collect();
    let hops = engine.flit_hops();
    let hash = engine.order_hash();
    (received, flits, engine.busy(), hops, hash)
}

/// Returns the recorded deliveries of whole transfers.
pub(crate) fn received<O: Observer<Box<Note>>>(engine: &Engine<Diary, O>) -> Vec<(usize, Time)> {
    let nodes = (0..engine.network().nodes().len()).map(NodeId::new);
    let diaries = nodes.map(|node| engine.component(node).unwrap());
    diaries.flat_map(|diary| diary.received.clone()).collect()
}

/// Schedules the transfers relative to a start time.
pub(crate) fn order<O: Observer<Box<Note>>>(
    engine: &mut Engine<Diary, O>,
    traffic: &Traffic,
    from: u64,
) {
    let grid = &traffic.grid;
    for (label, planned) in traffic.transfers.iter().enumerate() {
        let at = Time::from_ps(from + planned.at);
        let flits = planned.bytes.div_ceil(grid.flit_bytes).max(1);
        let asks = match planned.asks.as_slice() {
            [] => Asks::At(at),
            asks => {
                let each = asks.iter().cycle().zip(0..flits);
                Asks::Each(each.map(|(&after, _)| at + Span::from_ps(after)).collect())
            }
        };
        let note = |answer| Box::new(Note { label, answer });
        let answer = planned.answered.then(|| TransferSpec {
            route: grid.checked_route(planned.to, planned.from),
            bytes: planned.bytes,
            asks: Asks::At(Time::ZERO),
            message: note(None),
        });
        let route = grid.checked_route(planned.from, planned.to);
        let send = TransferSpec { route, bytes: planned.bytes, asks, message: note(answer) };
        engine.call_at(at, NodeId::new(planned.from), note(Some(send)));
    }
}
