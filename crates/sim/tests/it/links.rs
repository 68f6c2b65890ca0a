//! What crossing links costs, against figures worked out by hand.

use cubeyard_sim::{
    Asks, LinkId, Network, NodeId, NullObserver, RouteError, Span, Stop, Time, TransferSpec,
};

use crate::grid::{Grid, Note};

/// Sends one transfer from node 0 to the last node, and says when each diary entry was made.
fn alone(grid: &Grid, bytes: u64) -> Time {
    let end = grid.nodes.len() - 1;
    let route = grid.checked_route(0, end);
    let mut engine = grid.engine(true, NullObserver);
    let send = TransferSpec {
        route,
        bytes,
        asks: Asks::At(Time::ZERO),
        message: Box::new(Note { label: 0, answer: None }),
    };
    engine.call(NodeId::new(0), Box::new(Note { label: 0, answer: Some(send) }));
    assert_eq!(engine.run(), Stop::Idle);
    engine.component(NodeId::new(end)).unwrap().received[0].1
}

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}

#[test]
fn flits_are_pipelined_over_hops() {
    // 4 flits of 1 ns over 3 links: the last starts after 3 ns and crosses three times.
    assert_eq!(alone(&Grid::plain(4, 1), 1024), ps(6000));
}

#[test]
fn a_short_last_flit_takes_less() {
    // 64 bytes take a quarter of a nanosecond on each link, behind a full flit.
    assert_eq!(alone(&Grid::plain(4, 1), 256 + 64), ps(3000 + 250));
}

#[test]
fn a_command_takes_a_picosecond_on_each_link() {
    assert_eq!(alone(&Grid::plain(4, 1), 0), ps(3));
}

#[test]
fn overhead_is_charged_once_for_a_transfer() {
    let mut grid = Grid::plain(3, 1);
    grid.nodes[1].overhead = Span::from_ps(700);
    assert_eq!(alone(&grid, 256), ps(1000 + 700 + 1000));
    // The second flit waits for the first, which is 700 ps behind: 1 ns each from then on.
    assert_eq!(alone(&grid, 512), ps(1000 + 700 + 2000));
    // With an overhead above a flit's time, flits pile up behind the first and leave without a gap.
    grid.nodes[1].overhead = Span::from_ps(5000);
    assert_eq!(alone(&grid, 1024), ps(1000 + 5000 + 4000));
}

#[test]
fn a_slow_link_after_a_fast_one_sets_the_pace() {
    let mut grid = Grid::plain(3, 1);
    for link in &mut grid.links {
        if link.to == NodeId::new(2) {
            link.bandwidth = cubeyard_sim::Bandwidth::from_gb_per_second(128.0).unwrap();
        }
    }
    assert_eq!(alone(&grid, 1024), ps(1000 + 4 * 2000));
}

#[test]
fn storing_and_forwarding_takes_the_whole_twice() {
    let mut grid = Grid::plain(3, 1).store(1);
    grid.nodes[1].overhead = Span::from_ps(700);
    assert_eq!(alone(&grid, 1024), ps(4000 + 700 + 4000));
}

#[test]
fn propagation_delays_and_does_not_occupy() {
    let mut grid = Grid::plain(3, 1);
    grid.links.iter_mut().for_each(|link| link.propagation = Span::from_ps(10_000));
    assert_eq!(alone(&grid, 1024), ps(10_000 + 10_000 + 5000));
}

#[test]
fn a_route_goes_by_each_link_once() {
    let grid = Grid::plain(2, 1);
    let network = Network::new(256, grid.nodes.clone(), grid.links.clone()).unwrap();
    let [there, back] = [1, 0].map(LinkId::new);
    assert!(network.route(&[there, back]).is_ok());
    assert_eq!(network.route(&[there, back, there]), Err(RouteError::Twice(there)));
}
