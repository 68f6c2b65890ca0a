#![expect(clippy::float_cmp, reason = "rates of whole links are exact")]

//! Bounds that can be computed by hand from the topology file.

use cubeyard_device::request::PeRef;

use super::*;
use crate::collective::ReduceOp;

/// The kind of rank in a test.
#[derive(Clone, Copy, PartialEq)]
enum Rank {
    Sip,
    Cube,
    Pe,
}

/// Returns the DMA engines of each rank.
fn members(topology: &Topology, rank: Rank) -> Vec<Vec<NodeId>> {
    let mut members: Vec<Vec<NodeId>> = Vec::new();
    for sip in topology.sips() {
        for cube in topology.cubes() {
            for pe in topology.pes() {
                let first_pe = pe.number() == 0;
                let starts = match rank {
                    Rank::Sip => first_pe && cube.number() == 0,
                    Rank::Cube => first_pe,
                    Rank::Pe => true,
                };
                if starts {
                    members.push(Vec::new());
                }
                let engine = topology.pe_dma(PeRef { sip, cube, pe });
                members.last_mut().expect("the first PE starts a rank").push(engine);
            }
        }
    }
    members
}

fn bound_of(text: &str, rank: Rank, grid: &[usize], operation: Operation) -> Option<Bound> {
    let topology = Topology::read("test.yaml", text).unwrap();
    let members = members(&topology, rank);
    let world = World { ranks: members.len(), grid: grid.to_vec(), wraps: vec![false; grid.len()] };
    assert_eq!(grid.iter().product::<usize>(), world.ranks);
    bound(&topology, &members, &world, operation, Spread::Even)
}

/// Returns bus bandwidth in GB/s and the kind of the limit.
fn figures(text: &str, rank: Rank, grid: &[usize], operation: Operation) -> (f64, BoundKind) {
    let bound = bound_of(text, rank, grid, operation).unwrap();
    ((bound.bus / 1e6).round() / 1e3, bound.kind)
}

const ALL_REDUCE: Operation = Operation::AllReduce(ReduceOp::Sum);
const TWO_CUBES: &str = include_str!("../../../../../topologies/two-cubes.yaml");
const SIX_SIPS: &str = include_str!("../../../../../topologies/six-sips-torus.yaml");

#[test]
fn sips_are_bound_by_their_way_to_the_switch() {
    use BoundKind::Injection;
    // Four cubes have four connections of 128 GB/s each to the IO chiplet, which has one endpoint of 512 GB/s.
    for operation in Operation::all(ReduceOp::Sum, 1) {
        assert_eq!(figures("", Rank::Sip, &[2], operation), (512.0, Injection), "{operation}");
        assert_eq!(figures(SIX_SIPS, Rank::Sip, &[3, 2], operation).0, 512.0, "{operation}");
    }
    let bound = bound_of("", Rank::Sip, &[2], ALL_REDUCE).unwrap();
    assert_eq!(
        bound.to_string(),
        "injection, 512 GB/s out of a rank: the link sip0.io0.io_noc → sip0.io0.pcie_ep"
    );
    let narrow = "pcie: {link: {bandwidth_gbs: 64}}\n";
    assert_eq!(figures(narrow, Rank::Sip, &[2], ALL_REDUCE), (64.0, Injection));
}

#[test]
fn sips_are_bound_by_the_connections_of_their_io_chiplet_if_those_are_slower() {
    // Of sixteen connections of 16 GB/s, routes use two for each of four cubes.
    let text = "io: {connection_link: {bandwidth_gbs: 16}}\n";
    let bound = bound_of(text, Rank::Sip, &[2], ALL_REDUCE).unwrap();
    assert_eq!(bound.capacity / 1e9, 128.0);
    assert!(bound.links.starts_with("8 links such as "), "{}", bound.links);
}

/// Two connections of 128 GB/s lead each way, but routes to the east use only the first: no PE on the west side
/// of a cube is beside the second.
#[test]
fn two_cubes_are_bound_by_the_connection_that_routes_take() {
    assert_eq!(figures(TWO_CUBES, Rank::Cube, &[2, 1, 1], ALL_REDUCE).0, 128.0);
    assert_eq!(figures(TWO_CUBES, Rank::Cube, &[2, 1, 1], Operation::AllToAll).0, 128.0);
    // A broadcast from rank 1 goes only to the west.
    assert_eq!(figures(TWO_CUBES, Rank::Cube, &[2, 1, 1], Operation::Broadcast(1)).0, 256.0);
}

#[test]
fn pes_are_bound_by_their_own_link_or_by_what_crosses_between_cubes() {
    use BoundKind::{Bisection, Injection};
    let grid = [2, 2, 1, 1];
    // A whole input goes east over 128 GB/s; the bus factor is 2 · 3/4.
    assert_eq!(figures(TWO_CUBES, Rank::Pe, &grid, ALL_REDUCE), (192.0, Bisection));
    // Two ranks each send half of their input to the other cube: one input in all. The bus factor is 3/4.
    assert_eq!(figures(TWO_CUBES, Rank::Pe, &grid, Operation::AllToAll), (96.0, Bisection));
    // Nothing goes east to a PE of the first cube, and its own link carries 256 GB/s.
    let reduce = Operation::Reduce(ReduceOp::Sum, 1);
    assert_eq!(figures(TWO_CUBES, Rank::Pe, &grid, reduce), (256.0, Injection));
}

/// To the east seven of eight positions use connection 0, of 128 GB/s: 146.286 GB/s if all send equally much.
/// To the west six do: 170.667 GB/s.
#[test]
fn a_row_of_cubes_is_bound_by_the_connection_that_most_routes_take() {
    let row = "sips: {count: 1}\ncubes: {w: 4, h: 1}\n";
    let of = |operation| figures(row, Rank::Cube, &[4, 1, 1], operation).0;
    // Half of two inputs each way; the bus factor is 3/4.
    assert_eq!(of(Operation::AllToAll), 109.714);
    // A whole input each way; the bus factor is 2 · 3/4.
    assert_eq!(of(ALL_REDUCE), 219.429);
    // A whole input from the end of the row; also from inside, since the end receives all of it from one side.
    assert_eq!(of(Operation::Broadcast(0)), 146.286);
    assert_eq!(of(Operation::Broadcast(2)), 146.286);
    // Root 1 receives half of the whole from the far side, to the west, and a quarter from the near side.
    assert_eq!(of(Operation::Gather(1)), 256.0);
    assert_eq!(of(Operation::Scatter(0)), 146.286);
    // The end receives 3/4 of the whole from its one side.
    assert_eq!(of(Operation::AllGather), 146.286);
    assert_eq!(of(Operation::ReduceScatter(ReduceOp::Sum)), 146.286);
}

/// Positions may hold different amounts, so positions beside another connection may hold most of the data. Two
/// connections lead to the east, and three to the west.
#[test]
fn what_is_not_evenly_spread_may_take_every_route() {
    let topology = Topology::read("row.yaml", "sips: {count: 1}\ncubes: {w: 4, h: 1}\n").unwrap();
    let members = members(&topology, Rank::Cube);
    let world = World { ranks: 4, grid: vec![4, 1, 1], wraps: vec![false; 3] };
    let of = |operation| bound(&topology, &members, &world, operation, Spread::Any).unwrap().bus;
    assert_eq!(of(ALL_REDUCE), 1.5 * 256e9);
    assert_eq!(of(Operation::Gather(1)), 1.5 * 384e9);
}

/// Sixteen cubes have 12 pairs of neighbours in each direction, with 2, 3, 2 and 3 connections that routes use:
/// together they receive 15,360 GB/s, of 2 · 15 inputs. The bus factor is 2 · 15/16.
#[test]
fn the_cubes_of_a_sip_are_bound_by_what_they_receive_together() {
    let found = figures("sips: {count: 1}\n", Rank::Cube, &[4, 4, 1], ALL_REDUCE);
    assert_eq!(found, (960.0, BoundKind::Injection));
}

/// The cubes of a SIP are a block: no straight cut through a torus of SIPs leaves one SIP alone. A cube in the
/// corner does not receive more.
#[test]
fn cubes_are_bound_by_the_way_out_of_their_sip() {
    // The combined input of 16 cubes leaves them once over 512 GB/s; the bus factor is 2 · 95/96.
    let torus = figures(SIX_SIPS, Rank::Cube, &[4, 4, 3, 2], ALL_REDUCE);
    assert_eq!(torus.0, 1013.333);
    assert_eq!(figures(SIX_SIPS, Rank::Cube, &[4, 4, 6], ALL_REDUCE), torus);
}

#[test]
fn one_rank_has_no_bound() {
    assert_eq!(bound_of("sips: {count: 1}\n", Rank::Sip, &[1], ALL_REDUCE), None);
}
