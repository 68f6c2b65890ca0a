//! Nodes and links against closed forms.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, IoChipletId, PeId, PhysAddr, SipId};
use cubeyard_sim::Span;
use expect_test::expect;

use super::Topology;
use crate::ids::PeRef;
use crate::topology::{NodeKind, Position, ResolveError, Side};

fn count(topology: &Topology, kind: NodeKind) -> usize {
    topology.nodes().iter().filter(|node| node.kind == kind).count()
}

#[test]
fn the_default_has_as_many_nodes_as_it_should() {
    let topology = Topology::embedded();
    // Ports: both ends of 24 borders between 4 × 4 cubes, and 4 at the IO chiplet.
    let (cubes, ports) = (2 * 16, 2 * (2 * 24 + 4));
    let expected = [
        (NodeKind::Switch, 1),
        (NodeKind::PcieEndpoint, 2),
        (NodeKind::IoNoc, 2),
        (NodeKind::IoCpu, 2),
        (NodeKind::IoPort, 8),
        (NodeKind::IoConnection, 32),
        (NodeKind::Port, ports),
        (NodeKind::Connection, 4 * ports),
        (NodeKind::Router, 32 * cubes),
        (NodeKind::MCpu, cubes),
        (NodeKind::Sram, cubes),
        (NodeKind::Hbm, 8 * cubes),
        (NodeKind::PeDma, 8 * cubes),
        (NodeKind::PeCpu, 8 * cubes),
    ];
    for (kind, expected) in expected {
        assert_eq!(count(&topology, kind), expected, "{kind:?}");
    }
    let nodes: usize = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(topology.nodes().len(), nodes);
}

#[test]
fn the_default_has_as_many_links_as_it_should() {
    // A full 6 × 6 grid has 60 edges; each of the four removed takes 4, less the 4 among them.
    let (mesh, attached) = (60 - (16 - 4), 2 + 3 * 8);
    let (ports, borders) = (2 * 24 + 4, 24 + 4);
    // An endpoint to the switch and to the NOC, IO_CPU, 4 ports with 4 connections of two wires.
    let io = 1 + 1 + 1 + 4 * 4 * 2;
    let wires = 2 * (16 * (mesh + attached) + ports * 4 * 2 + borders + io);
    assert_eq!(Topology::embedded().links().len(), 2 * wires);
}

#[test]
fn links_are_numbered_by_destination_and_source_and_come_in_pairs() {
    let topology = Topology::embedded();
    assert!(topology.links().is_sorted_by_key(|link| (link.to, link.from)));
    for (index, link) in topology.links().iter().enumerate() {
        let reverse = topology.link(link.reverse);
        assert_eq!(
            (reverse.from, reverse.to, reverse.reverse.index()),
            (link.to, link.from, index)
        );
        assert_eq!((reverse.bandwidth, reverse.propagation), (link.bandwidth, link.propagation));
        assert!(link.propagation <= Span::from_ps(10));
        assert_eq!(topology.link_between(link.from, link.to), Some(reverse.reverse));
    }
}

#[test]
fn nodes_of_a_sip_are_consecutive() {
    let topology = Topology::embedded();
    let sips: Vec<_> = topology.nodes().iter().map(|node| node.place.sip).collect();
    assert!(sips.is_sorted());
}

#[test]
fn accessors_and_names_agree() {
    let topology = Topology::embedded();
    let find = |name: String| topology.find(&name).unwrap();
    for sip in topology.sips() {
        assert_eq!(topology.endpoint(sip), find(format!("{sip}.io0.pcie_ep")));
        assert_eq!(topology.io_cpu(sip), find(format!("{sip}.io0.io_cpu")));
        for cube in topology.cubes() {
            let router = |row, column| {
                let at = Position { row, column };
                topology.layout.router(sip.number(), cube.number(), at)
            };
            assert_eq!(topology.m_cpu(sip, cube), find(format!("{sip}.{cube}.m_cpu")));
            assert_eq!(topology.sram(sip, cube), find(format!("{sip}.{cube}.sram")));
            assert_eq!(router(4, 5), Some(find(format!("{sip}.{cube}.r4c5"))));
            assert_eq!(router(2, 3), None);
            assert_eq!(router(6, 0), None);
            for pe in topology.pes() {
                let pe = PeRef { sip, cube, pe };
                assert_eq!(topology.pe_dma(pe), find(format!("{pe}")));
                assert_eq!(topology.pe_dma(pe), find(format!("{pe}.pe_dma")));
                assert_eq!(topology.pe_cpu(pe), find(format!("{pe}.pe_cpu")));
                assert_eq!(topology.hbm(pe), find(format!("{pe}.hbm")));
            }
        }
    }
    let west = topology.layout.port(1, 4, Side::West);
    assert_eq!(west, topology.find("sip1.cube4.ucie_w").ok());
    assert_eq!(topology.layout.port(1, 3, Side::East), None);
}

#[test]
fn a_cube_is_reached_by_the_nearest_endpoint() {
    let topology = Topology::read("two", "io: {chiplets: [E, W]}").unwrap();
    let sip = SipId::new(1).unwrap();
    let names = |nodes: Vec<_>| -> Vec<_> {
        nodes.into_iter().map(|node| topology.node(node).name.as_str()).collect()
    };
    let of_row = topology.cubes().skip(4).take(4).map(|cube| topology.endpoint_of(sip, cube));
    let [east, west] = ["sip1.io0.pcie_ep", "sip1.io1.pcie_ep"];
    assert_eq!(names(of_row.collect()), [west, west, east, east]);
    let switch = topology.find("fabric.switch0").unwrap();
    for cube in topology.cubes() {
        let route = topology.route(switch, topology.m_cpu(sip, cube)).unwrap();
        assert_eq!(topology.link(route[0]).to, topology.endpoint_of(sip, cube));
    }
}

#[test]
fn a_name_that_is_not_there_has_a_nearest_one() {
    let topology = Topology::embedded();
    let message = |name| topology.find(name).unwrap_err().to_string();
    expect!["there is no node sip0.cube16.pe2; the nearest is sip0.cube1.pe2"]
        .assert_eq(&message("sip0.cube16.pe2"));
    expect!["there is no node sip0.cube3.pe2.hmb; the nearest is sip0.cube3.pe2.hbm"]
        .assert_eq(&message("sip0.cube3.pe2.hmb"));
    expect!["there is no node ; the nearest is fabric.switch0"].assert_eq(&message(""));
    assert!(message(&"x".repeat(1_000_000)).len() < 200);
}

#[test]
fn addresses_lead_to_the_nodes_that_hold_them() {
    let topology = Topology::embedded();
    let (sip, cube) = (SipId::new(1).unwrap(), CubeId::new(3).unwrap());
    let name = |address: PhysAddr| topology.node(topology.resolve(address).unwrap()).name.clone();
    let pe = PeId::new(2).unwrap();
    let hbm = |offset| PhysAddr::cube_hbm(sip, cube, offset).unwrap();
    assert_eq!(name(hbm(Bytes::gib(12))), "sip1.cube3.hbm_ctrl.pe2");
    assert_eq!(name(hbm(Bytes::new((12 << 30) - 1))), "sip1.cube3.hbm_ctrl.pe1");
    assert_eq!(name(hbm(Bytes::new((48 << 30) - 1))), "sip1.cube3.hbm_ctrl.pe7");
    let tcm = |offset| PhysAddr::pe_tcm(sip, cube, pe, offset).unwrap();
    assert_eq!(name(tcm(Bytes::new(0))), "sip1.cube3.pe2.pe_dma");
    let registers = PhysAddr::pe_registers(sip, cube, pe, Bytes::new(8)).unwrap();
    assert_eq!(name(registers), "sip1.cube3.pe2.pe_cpu");
    let sram = |offset| PhysAddr::cube_sram(sip, cube, offset).unwrap();
    assert_eq!(name(sram(Bytes::new(0))), "sip1.cube3.sram");
    assert_eq!(name(PhysAddr::cube_m_cpu(sip, cube, Bytes::new(0)).unwrap()), "sip1.cube3.m_cpu");
    let io = |io| PhysAddr::io_chiplet(sip, IoChipletId::new(io).unwrap(), Bytes::new(0)).unwrap();
    assert_eq!(name(io(0)), "sip1.io0.io_cpu");

    let message = |address| topology.resolve(address).unwrap_err().to_string();
    expect!["sip1.cube3.hbm+0xc00000000 is outside the HBM, which is 51539607552 bytes long"]
        .assert_eq(&message(hbm(Bytes::gib(48))));
    expect!["sip1.cube3.pe2.tcm+0x1000000 is outside the TCM, which is 16777216 bytes long"]
        .assert_eq(&message(tcm(Bytes::mib(16))));
    expect!["sip1.cube3.sram+0x2000000 is outside the SRAM, which is 33554432 bytes long"]
        .assert_eq(&message(sram(Bytes::mib(32))));
    expect!["sip1.io1+0x0 is outside its SIP, which has 1 IO chiplets"].assert_eq(&message(io(1)));
    let far = PhysAddr::pe_tcm(sip, cube, PeId::new(8).unwrap(), Bytes::new(0)).unwrap();
    assert_eq!(topology.resolve(far), Err(ResolveError::NoPe { address: far, count: 8 }));
    let far = PhysAddr::cube_hbm(SipId::new(2).unwrap(), cube, Bytes::new(0)).unwrap();
    assert_eq!(topology.resolve(far), Err(ResolveError::NoSip { address: far, count: 2 }));
}

fn neighbours(text: &str, sip: u32) -> [Option<u32>; 4] {
    let topology = Topology::read("sips", text).unwrap();
    let sip = SipId::new(sip).unwrap();
    Side::ALL.map(|side| topology.sip_neighbour(sip, side).map(SipId::number))
}

#[test]
fn sips_have_the_neighbours_of_their_topology() {
    let ring = "sips: {count: 6}";
    assert_eq!(neighbours(ring, 0), [None, Some(1), None, Some(5)]);
    assert_eq!(neighbours("sips: {count: 1}", 0), [None; 4]);
    let torus = "sips: {count: 6, topology: torus_2d, w: 3, h: 2}";
    assert_eq!(neighbours(torus, 0), [Some(3), Some(1), Some(3), Some(2)]);
    assert_eq!(neighbours(torus, 5), [Some(2), Some(3), Some(2), Some(4)]);
    let mesh = "sips: {count: 4, topology: mesh_2d_no_wrap}";
    assert_eq!(neighbours(mesh, 0), [None, Some(1), Some(2), None]);
    assert_eq!(neighbours(mesh, 3), [Some(1), None, None, Some(2)]);
}

#[test]
fn the_largest_machine_is_built() {
    let topology = Topology::read("large", "sips: {count: 16}").unwrap();
    assert_eq!(topology.nodes().len(), 1 + 16 * 1211);
    assert_eq!(count(&topology, NodeKind::PeDma), 16 * 16 * 8);
}
