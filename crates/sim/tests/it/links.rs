//! Costs of crossing links, against figures computed by hand.

use cubeyard_sim::{
    Asks, LinkId, Network, NodeId, NodeSpec, NullObserver, RouteError, Span, Stop, Time,
    TransferSpec,
};

use crate::grid::{Grid, Note};

/// Sends one transfer from node 0 to the last node, and returns its arrival.
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
    // 4 flits of 1 ns over 3 links: the last flit starts after 3 ns and crosses three links.
    assert_eq!(alone(&Grid::plain(4, 1), 1024), ps(6000));
}

#[test]
fn a_short_last_flit_takes_less() {
    // 64 bytes take a quarter of a nanosecond on each link, after a full flit.
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
    // The second flit waits for the first, which is delayed by 700 ps: 1 ns each from then on.
    assert_eq!(alone(&grid, 512), ps(1000 + 700 + 2000));
    // With an overhead above the time of a flit, flits pile up behind the first and leave without a gap.
    grid.nodes[1].overhead = Span::from_ps(5000);
    assert_eq!(alone(&grid, 1024), ps(1000 + 5000 + 4000));
}

/// A header of 64 bytes is a quarter of a flit, and a command consists of its header alone.
#[test]
fn each_flit_has_a_header() {
    let grid = Grid { header_bytes: 64, ..Grid::plain(4, 1) };
    assert_eq!(alone(&grid, 1024), ps(6 * 1250));
    assert_eq!(alone(&grid, 256 + 64), ps(3 * 1250 + 500));
    assert_eq!(alone(&grid, 0), ps(3 * 250));
    // Two bytes take as long as 66.
    assert_eq!(alone(&grid, 2), alone(&Grid::plain(4, 1), 66));
}

/// Returns the arrivals of `count` transfers of 2 bytes from both neighbours at the middle of three nodes, all sent at
/// 0.
fn crowd(grid: &Grid, count: usize) -> Vec<Time> {
    let mut engine = grid.engine(true, NullObserver);
    for label in 0..count {
        let from = 2 * (label % 2);
        let send = TransferSpec {
            route: grid.checked_route(from, 1),
            bytes: 2,
            asks: Asks::At(Time::ZERO),
            message: Box::new(Note { label, answer: None }),
        };
        engine.call(NodeId::new(from), Box::new(Note { label, answer: Some(send) }));
    }
    assert_eq!(engine.run(), Stop::Idle);
    let received = &engine.component(NodeId::new(1)).unwrap().received;
    received.iter().map(|(_, at)| *at).collect()
}

/// Two bytes take 8 ps on each of the two links, so 1,920 messages have arrived after 7.68 ns, and each finishes its
/// overhead of 5 ns later. A serial node takes 5 ns for each.
#[test]
fn a_serial_node_takes_its_overhead_for_each_of_many_messages() {
    let mut grid = Grid::plain(3, 1);
    grid.nodes[1].overhead = Span::from_ps(5000);
    assert_eq!(crowd(&grid, 1920).last(), Some(&ps(960 * 8 + 5000)));
    grid.nodes[1].is_serial = true;
    let expected: Vec<_> = (1..=1920).map(|number| ps(8 + number * 5000)).collect();
    assert_eq!(crowd(&grid, 1920), expected);
    // Messages that arrive more slowly do not meet: 1,000 ps each with a header of 254 bytes, from each side.
    grid.header_bytes = 254;
    grid.nodes[1].overhead = Span::from_ps(500);
    let last = crowd(&grid, 1920).last().copied();
    assert_eq!(last, Some(ps(960 * 1000 + 2 * 500)), "two come at once");
}

#[test]
fn a_serial_node_that_stores_takes_its_overhead_for_each() {
    let mut grid = Grid::plain(3, 1).store(1);
    grid.nodes[1] = NodeSpec { overhead: Span::from_ps(700), is_serial: true, ..grid.nodes[1] };
    assert_eq!(alone(&grid, 1024), ps(4000 + 700 + 4000));
    let mut engine = grid.engine(true, NullObserver);
    for label in 0..10 {
        let (route, asks) = (grid.checked_route(0, 2), Asks::At(Time::ZERO));
        let message = Box::new(Note { label, answer: None });
        let send = TransferSpec { route, bytes: 2, asks, message };
        engine.call(NodeId::new(0), Box::new(Note { label, answer: Some(send) }));
    }
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(engine.now(), ps(8 + 10 * 700 + 8));
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
