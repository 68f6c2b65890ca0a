//! Any bytes as a topology file: refused, or a machine with routes and pictures.

#![no_main]

use cubeyard_device::topology::{NodeId, Topology};
use cubeyard_diagrams::{View, machine};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let topology = match Topology::read_bytes("fuzz", bytes) {
        Ok(topology) => topology,
        Err(error) => {
            assert!(error.to_string().len() < 10_000, "a message is short");
            return;
        }
    };
    View::ALL.into_iter().for_each(|view| drop(machine(&topology, view)));
    let _ = topology.summary();
    let last = topology.nodes().len() - 1;
    for node in (0..=last).step_by(97).map(NodeId::new) {
        for (from, to) in [(node, NodeId::new(last)), (NodeId::new(0), node)] {
            let Ok(route) = topology.route(from, to) else { continue };
            let end = route.iter().fold(from, |at, &link| {
                assert_eq!(topology.link(link).from, at);
                topology.link(link).to
            });
            assert_eq!(end, to);
        }
    }
});
