//! Runs that move as one event against flits that move by themselves: the same to the picosecond.

use cubeyard_sim::{
    Asks, Bandwidth, Blind, Crossing, Flit, NodeId, Observer, Send, Span, Stop, Time,
};
use proptest::prelude::*;

use crate::grid::{Grid, Note};

#[derive(Clone, Debug)]
struct Traffic {
    grid: Grid,
    transfers: Vec<Planned>,
}

#[derive(Clone, Debug)]
struct Planned {
    at: u64,
    from: usize,
    to: usize,
    bytes: u64,
    /// How long after the call each flit asks; empty for all at once.
    asks: Vec<u64>,
    answered: bool,
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
        )
            .prop_map(move |(nodes, links)| {
                let mut grid = plain.clone();
                for (index, (overhead, flits, store)) in nodes.into_iter().enumerate() {
                    grid.nodes[index].overhead = Span::from_ps(overhead);
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

fn traffic() -> impl Strategy<Value = Traffic> {
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

/// What all diaries say, how busy each link was, and the hash of the order.
type Outcome = (Vec<(usize, Time)>, Vec<(usize, Flit)>, Vec<Span>, u64, u64);

fn run<O: Observer<Box<Note>>>(
    traffic: &Traffic,
    merge: bool,
    observer: O,
    pause: bool,
) -> Outcome {
    let grid = &traffic.grid;
    let mut engine = grid.engine(merge, observer);
    for (label, planned) in traffic.transfers.iter().enumerate() {
        let at = Time::from_ps(planned.at);
        let flits = planned.bytes.div_ceil(grid.flit_bytes).max(1);
        let asks = match planned.asks.as_slice() {
            [] => Asks::At(at),
            asks => {
                let each = asks.iter().cycle().zip(0..flits);
                Asks::Each(each.map(|(&after, _)| at + Span::from_ps(after)).collect())
            }
        };
        let note = |answer| Box::new(Note { label, answer });
        let answer = planned.answered.then(|| Send {
            route: grid.checked_route(planned.to, planned.from),
            bytes: planned.bytes,
            asks: Asks::At(Time::ZERO),
            message: note(None),
        });
        let route = grid.checked_route(planned.from, planned.to);
        let send = Send { route, bytes: planned.bytes, asks, message: note(answer) };
        engine.call_at(at, NodeId::new(planned.from), note(Some(send)));
    }
    if pause {
        // To look at the accounts in the middle must change nothing.
        while engine.run_until(engine.now() + Span::from_ps(7777)) == Stop::Deadline {
            engine.busy();
        }
    }
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(engine.under_way(), 0);
    let nodes = (0..grid.nodes.len()).map(NodeId::new);
    let diaries: Vec<_> = nodes.map(|node| engine.component(node).unwrap()).collect();
    let received = diaries.iter().flat_map(|diary| diary.received.clone()).collect();
    let flits = diaries.iter().flat_map(|diary| diary.flits.clone()).collect();
    let hops = engine.flit_hops();
    let hash = engine.order_hash();
    (received, flits, engine.busy(), hops, hash)
}

/// Looks at every flit, so nothing is merged; checks what must hold of each link.
#[derive(Default)]
struct Witness {
    last: Vec<Option<Crossing>>,
    seen: u64,
}

impl<M> Observer<M> for &mut Witness {
    const FLITS: bool = true;

    fn crossed(&mut self, crossing: Crossing) {
        self.seen += 1;
        let index = crossing.link.index();
        self.last.resize(self.last.len().max(index + 1), None);
        if let Some(before) = self.last[index].replace(crossing) {
            assert!(before.asked <= crossing.asked, "served in the order of asking");
            assert!(before.end <= crossing.start, "one flit at a time");
            let idle = crossing.start > before.end;
            assert!(!idle || crossing.start == crossing.asked, "no idling while somebody asks");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn runs_change_no_result(traffic in traffic()) {
        let walked = run(&traffic, false, Blind, false);
        prop_assert_eq!(&run(&traffic, true, Blind, false), &walked);
        prop_assert_eq!(&run(&traffic, true, Blind, true), &walked);
        let mut witness = Witness::default();
        prop_assert_eq!(&run(&traffic, true, &mut witness, false), &walked);
        prop_assert_eq!(witness.seen, walked.3);
    }
}

#[test]
fn another_simulation_on_a_second_thread_changes_nothing() {
    let grid = Grid::plain(4, 4);
    let transfers = (0..16).map(|from| Planned {
        at: 0,
        from,
        to: (from * 7 + 3) % 16,
        bytes: 9000 + 100 * from as u64,
        asks: Vec::new(),
        answered: true,
    });
    let transfers = transfers.filter(|planned| planned.from != planned.to).collect();
    let traffic = Traffic { grid, transfers };
    let here = run(&traffic, true, Blind, false);
    let there = std::thread::scope(|scope| {
        let others = [true, false].map(|merge| {
            let traffic = &traffic;
            scope.spawn(move || run(traffic, merge, Blind, false))
        });
        others.map(|other| other.join().unwrap())
    });
    assert_eq!(there, [here.clone(), here.clone()]);
    // The same in debug and release, today and tomorrow.
    assert_eq!(format!("{:016x}", here.4), "82fa8951ee5d8361");
}
