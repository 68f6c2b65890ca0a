//! The end of simulated time: an engine stops there, and no sum wraps around.

use cubeyard_sim::{
    Arbiter, Asks, Bandwidth, BufferSpec, EngineConfig, NodeId, NullObserver, Span, Stop, Time,
    TransferSpec,
};
use proptest::prelude::*;

use crate::grid::{Grid, Note};
use crate::long_tests::cases;
use crate::traffic::{Traffic, order, received, traffic};

/// Runs traffic that begins `before` picoseconds before the end of simulated time.
fn run_late(traffic: &Traffic, before: u64, config: EngineConfig) -> (Stop, Vec<(usize, Time)>) {
    let mut engine = traffic.grid.engine_as(config, NullObserver);
    order(&mut engine, traffic, Time::HORIZON.ps() - before);
    let stop = engine.run();
    (stop, received(&engine))
}

fn with_trains(trains: bool) -> EngineConfig {
    EngineConfig { trains, buffers: None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(800)))]

    /// Events before the end are the same as at any other time, however flits move; later events do not occur.
    #[test]
    fn the_end_of_time_cuts_off_and_changes_nothing(traffic in traffic(), before in 0..400_000_u64) {
        let room = 1 << 40;
        let (stop, all) = run_late(&traffic, room, with_trains(true));
        prop_assert_eq!(stop, Stop::Idle);
        let shift = Span::from_ps(room - before);
        let later = all.iter().map(|&(label, at)| (label, at + shift));
        let in_time: Vec<_> = later.filter(|(_, at)| *at <= Time::HORIZON).collect();
        let is_cut = in_time.len() < all.len();
        for trains in [true, false] {
            let (stop, seen) = run_late(&traffic, before, with_trains(trains));
            prop_assert_eq!(&seen, &in_time);
            prop_assert!(!is_cut || stop == Stop::OutOfTime, "{:?}", stop);
        }
    }
}

/// Twenty flits over a link that takes 12 days per flit, which wrapped around 64 bits: the last flit arrived before the
/// third.
#[test]
fn a_link_that_is_too_slow_for_simulated_time_stops_the_engine() {
    let mut grid = Grid::plain(2, 1);
    grid.flit_bytes = 1 << 20;
    grid.links.iter_mut().for_each(|link| {
        link.bandwidth = Bandwidth::from_bytes_per_second(1).unwrap();
        link.propagation = Span::MAX;
    });
    let buffers = Some(BufferSpec { flits: 4.try_into().unwrap(), arbiter: Arbiter::Fifo });
    for config in [with_trains(true), with_trains(false), EngineConfig { trains: true, buffers }] {
        let mut engine = grid.engine_as(config, NullObserver);
        let message = Box::new(Note { label: 0, answer: None });
        let (route, asks) = (grid.checked_route(0, 1), Asks::At(Time::ZERO));
        let send = TransferSpec { route, bytes: 20 << 20, asks, message };
        engine.call(NodeId::new(0), Box::new(Note { label: 0, answer: Some(send) }));
        assert_eq!(engine.run(), Stop::OutOfTime, "{config:?}");
        assert_eq!(received(&engine), []);
        assert_eq!(engine.run(), Stop::OutOfTime, "and stays there");
    }
}

#[test]
fn a_task_that_sleeps_beyond_the_end_is_not_woken() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    engine.spawn("sleeper", |tasks| async move {
        tasks.sleep(Span::from_ps(Time::HORIZON.ps())).await;
        tasks.sleep(Span::from_ps(1)).await;
        panic!("nothing happens here");
    });
    assert_eq!(engine.run(), Stop::OutOfTime);
    assert_eq!(engine.now(), Time::HORIZON);
}
