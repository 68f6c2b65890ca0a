//! Routes: some written out by hand, and properties of all routes.

use cubeyard_memory::address::CubeId;
use expect_test::{Expect, expect};

use super::Topology;
use crate::topology::{LinkId, NodeId, NodeKind, Position, RouteError};

fn names(topology: &Topology, from: &str, to: &str) -> String {
    let (from, to) = (topology.find(from).unwrap(), topology.find(to).unwrap());
    let links = topology.route(from, to).unwrap();
    let ends = links.into_iter().map(|link| topology.link(link).to);
    let nodes = std::iter::once(from).chain(ends);
    nodes.map(|node| topology.node(node).name.clone() + "\n").collect()
}

#[track_caller]
fn check(from: &str, to: &str, expected: &Expect) {
    expected.assert_eq(&names(&Topology::embedded(), from, to));
}

#[test]
fn to_its_own_slice_a_pe_crosses_its_router_only() {
    check(
        "sip0.cube0.pe0",
        "sip0.cube0.pe0.hbm",
        &expect![[r#"
            sip0.cube0.pe0.pe_dma
            sip0.cube0.r0c0
            sip0.cube0.hbm_ctrl.pe0
        "#]],
    );
}

#[test]
fn a_neighbour_is_one_router_further() {
    check(
        "sip0.cube0.pe1",
        "sip0.cube0.pe0.hbm",
        &expect![[r#"
            sip0.cube0.pe1.pe_dma
            sip0.cube0.r0c1
            sip0.cube0.r0c0
            sip0.cube0.hbm_ctrl.pe0
        "#]],
    );
}

#[test]
fn where_row_and_column_are_blocked_the_shortest_way_is_taken() {
    // Along row 3 and along row 2, the HBM is in the way. North and south of it is equally far, and
    // r2c4 has the lower number.
    check(
        "sip0.cube0.sram",
        "sip0.cube0.m_cpu",
        &expect![[r#"
            sip0.cube0.sram
            sip0.cube0.r3c4
            sip0.cube0.r2c4
            sip0.cube0.r1c4
            sip0.cube0.r1c3
            sip0.cube0.r1c2
            sip0.cube0.r1c1
            sip0.cube0.r2c1
            sip0.cube0.m_cpu
        "#]],
    );
}

#[test]
fn where_the_row_is_blocked_the_column_comes_first() {
    check(
        "sip0.cube0.r2c1",
        "sip0.cube0.r0c3",
        &expect![[r#"
            sip0.cube0.r2c1
            sip0.cube0.r1c1
            sip0.cube0.r0c1
            sip0.cube0.r0c2
            sip0.cube0.r0c3
        "#]],
    );
}

#[test]
fn a_flow_uses_the_connection_on_the_targets_router() {
    check(
        "sip0.cube0.pe0",
        "sip0.cube1.pe4.hbm",
        &expect![[r#"
            sip0.cube0.pe0.pe_dma
            sip0.cube0.r0c0
            sip0.cube0.r0c1
            sip0.cube0.r0c2
            sip0.cube0.r0c3
            sip0.cube0.r0c4
            sip0.cube0.r0c5
            sip0.cube0.r1c5
            sip0.cube0.r2c5
            sip0.cube0.r3c5
            sip0.cube0.r4c5
            sip0.cube0.ucie_e.conn2
            sip0.cube0.ucie_e
            sip0.cube1.ucie_w
            sip0.cube1.ucie_w.conn2
            sip0.cube1.r4c0
            sip0.cube1.hbm_ctrl.pe4
        "#]],
    );
}

#[test]
fn another_sip_is_reached_through_the_switch() {
    check(
        "sip0.cube0.pe0",
        "sip1.cube0.pe0.hbm",
        &expect![[r#"
            sip0.cube0.pe0.pe_dma
            sip0.cube0.r0c0
            sip0.cube0.ucie_w.conn0
            sip0.cube0.ucie_w
            sip0.io0.io_ucie0
            sip0.io0.io_ucie0.conn0
            sip0.io0.io_noc
            sip0.io0.pcie_ep
            fabric.switch0
            sip1.io0.pcie_ep
            sip1.io0.io_noc
            sip1.io0.io_ucie0.conn0
            sip1.io0.io_ucie0
            sip1.cube0.ucie_w
            sip1.cube0.ucie_w.conn0
            sip1.cube0.r0c0
            sip1.cube0.hbm_ctrl.pe0
        "#]],
    );
}

#[test]
fn the_host_enters_at_the_targets_row() {
    check(
        "sip0.io0.pcie_ep",
        "sip0.cube4.pe2.hbm",
        &expect![[r#"
            sip0.io0.pcie_ep
            sip0.io0.io_noc
            sip0.io0.io_ucie1.conn0
            sip0.io0.io_ucie1
            sip0.cube4.ucie_w
            sip0.cube4.ucie_w.conn0
            sip0.cube4.r0c0
            sip0.cube4.r0c1
            sip0.cube4.r0c2
            sip0.cube4.r0c3
            sip0.cube4.r0c4
            sip0.cube4.r1c4
            sip0.cube4.hbm_ctrl.pe2
        "#]],
    );
}

/// Returns the connections that a route crosses, on the source side of each crossing.
fn connections(topology: &Topology, route: &[LinkId]) -> Vec<u32> {
    let nodes = route.iter().map(|&link| topology.node(topology.link(link).to));
    nodes.filter_map(|node| node.place.connection).collect()
}

#[test]
fn the_farthest_cube_is_six_crossings_away() {
    let topology = Topology::embedded();
    let find = |name| topology.find(name).unwrap();
    let route = topology.route(find("sip0.cube0.pe0"), find("sip0.cube15.pe7.hbm")).unwrap();
    // PE 7 is at r5c5: on the east and south sides, and entered from the north, so connection 0.
    assert_eq!(connections(&topology, &route), [0; 12]);
    let cubes: Vec<_> = route.iter().map(|&link| topology.node(topology.link(link).to)).collect();
    let mut cubes: Vec<_> = cubes.iter().filter_map(|node| node.place.cube).collect();
    cubes.dedup();
    let cubes: Vec<_> = cubes.into_iter().map(CubeId::number).collect();
    assert_eq!(cubes, [0, 1, 2, 3, 7, 11, 15]);
}

/// Counts the flows from cube 0 to cube 1 on each connection.
fn used(text: &str, flows: impl Iterator<Item = (u32, u32)>) -> [u32; 4] {
    let topology = Topology::read("flows", text).unwrap();
    let mut used = [0; 4];
    for (from, to) in flows {
        let from = topology.find(&format!("sip0.cube0.pe{from}")).unwrap();
        let to = topology.find(&format!("sip0.cube1.pe{to}.hbm")).unwrap();
        used[connections(&topology, &topology.route(from, to).unwrap())[0] as usize] += 1;
    }
    used
}

#[test]
fn seven_of_eight_flows_to_the_next_cube_share_a_connection() {
    assert_eq!(used("", (0..8).map(|pe| (pe, pe))), [7, 0, 1, 0]);
}

#[test]
fn balanced_flows_are_spread_evenly() {
    let balanced = "ucie: {balance: true}";
    assert_eq!(used(balanced, (0..8).map(|pe| (pe, pe))), [2; 4]);
    for one in 0..8 {
        assert_eq!(used(balanced, (0..8).map(|pe| (pe, one))), [2; 4], "all to {one}");
        assert_eq!(used(balanced, (0..8).map(|pe| (one, pe))), [2; 4], "{one} to all");
    }
}

/// Checks that a route has the right ends, is contiguous, visits no node twice and uses one connection number. A route
/// within a cube does not leave the cube.
fn check_route(topology: &Topology, from: NodeId, to: NodeId) {
    let route = topology.route(from, to).unwrap();
    let mut at = from;
    let mut met = vec![from];
    for &link in &route {
        let link = topology.link(link);
        assert_eq!(link.from, at);
        at = link.to;
        assert!(!met.contains(&at), "{} twice", topology.node(at).name);
        met.push(at);
    }
    assert_eq!(at, to);
    let mut connections = connections(topology, &route);
    connections.dedup();
    assert!(connections.len() <= 1, "{connections:?}");
    let place = |node| topology.node(node).place;
    if (place(from).sip, place(from).cube) == (place(to).sip, place(to).cube) {
        assert!(met.iter().all(|&node| place(node).cube == place(from).cube), "left the cube");
    }
}

/// Checks the routes between all ends of traffic, or every `stride`th of them; returns their number.
pub(super) fn check_all_pairs(topology: &Topology, stride: usize) -> usize {
    let ends: Vec<_> = (0..topology.nodes().len())
        .map(|index| NodeId::numbered(u32::try_from(index).unwrap()))
        .filter(|&node| topology.route(node, node).is_ok())
        .collect();
    let mut checked = 0;
    for (place, &from) in ends.iter().enumerate() {
        for &to in ends.iter().skip(place % stride).step_by(stride) {
            check_route(topology, from, to);
            checked += 1;
        }
    }
    checked
}

#[test]
fn every_route_is_sound() {
    let cube = Topology::read("cube", "{sips: {count: 1}, cubes: {w: 1, h: 1}}").unwrap();
    // 32 routers, M_CPU, SRAM, three nodes for each of 8 PEs, three of the IO chiplet, the switch.
    assert_eq!(check_all_pairs(&cube, 1), (32 + 2 + 24 + 3 + 1_usize).pow(2));
    for text in ["", "ucie: {balance: true}", "io: {chiplets: [N, E]}"] {
        assert!(check_all_pairs(&Topology::read("sample", text).unwrap(), 97) > 30_000);
    }
}

/// Returns the distance of each node of a cube from one of its routers, in links within the cube.
fn distances(topology: &Topology, from: NodeId) -> Vec<Option<usize>> {
    let mut distances = vec![None; topology.nodes().len()];
    let mut reached = vec![from];
    distances[from.index()] = Some(0);
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        let links_to = topology.links().iter().filter(|link| link.to == at);
        let beside = links_to.map(|link| link.from);
        for node in beside.filter(|&node| topology.node(node).kind == NodeKind::Router) {
            if distances[node.index()].is_none() {
                distances[node.index()] = distances[at.index()].map(|distance| distance + 1);
                reached.push(node);
            }
        }
    }
    distances
}

#[test]
fn between_the_routers_of_a_cube_no_way_is_shorter() {
    let holes =
        ["[r2c2, r2c3, r3c2, r3c3]", "[r0c2, r1c2, r2c2, r3c2, r4c2]", "[r1c1, r2c3, r4c2]", "[]"];
    let mut checked = 0;
    for hole in holes {
        let text = format!("routers: {{removed: {hole}}}");
        let topology = Topology::read("cube", &text).unwrap();
        let routers: Vec<_> = (0..36)
            .filter_map(|at| {
                let (sip, cube) = (topology.sips().next()?, topology.cubes().next()?);
                let at = Position { row: at / 6, column: at % 6 };
                topology.layout.router(sip.number(), cube.number(), at)
            })
            .collect();
        for &from in &routers {
            let distances = distances(&topology, from);
            for &to in &routers {
                let links = topology.route(from, to).unwrap().len();
                assert_eq!(Some(links), distances[to.index()], "{hole}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 32 * 32 + 31 * 31 + 33 * 33 + 36 * 36);
}

#[test]
fn nothing_ends_in_a_port() {
    let topology = Topology::embedded();
    let find = |name| topology.find(name).unwrap();
    let error = topology.route(find("sip0.cube0.pe0"), find("sip0.cube0.ucie_e")).unwrap_err();
    let kind = NodeKind::Port;
    assert_eq!(error, RouteError::NotAnEnd { name: "sip0.cube0.ucie_e".to_owned(), kind });
}
