//! Mappings that are installed and removed while a PE's DMA uses them.

use std::sync::Arc;

use cubeyard_device::machine::Machine;
use cubeyard_device::message::{Direction, Mapping};
use cubeyard_device::request::Request;
use cubeyard_sim::{Span, Stop};

use crate::bench::{KIB, default_machine, dma, latencies};

/// Virtual address of the first mapping.
const FROM: u64 = 0x10_0000;

fn done(machine: &mut Machine, request: Request) -> Span {
    let id = machine.submit(request).unwrap();
    assert_eq!(machine.run(), Stop::Idle);
    machine.completion(id).unwrap().latency()
}

/// Returns a mapping of virtual addresses to the HBM of a PE, beginning with its first byte.
fn mapping(machine: &Machine, number: u64, to: &str) -> Mapping {
    let to = machine.view().hbm_address(machine.view().pe(to).unwrap(), 0).unwrap();
    Mapping { from: FROM + number * 64 * KIB, bytes: 64 * KIB, to }
}

fn change(machine: &mut Machine, mappings: &[Mapping], takes_in: bool) {
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    let mappings = Arc::from(mappings);
    let request = Request::Mappings { on: pe.into(), mappings, remove: !takes_in };
    done(machine, request);
}

/// Returns the latency of a read through mapping `number`.
fn read(machine: &mut Machine, number: u64) -> Span {
    let from = machine.view().pe("sip0.cube0.pe0").unwrap();
    let (direction, address) = (Direction::Read, FROM + number * 64 * KIB + 8 * KIB);
    done(machine, Request::VirtualDma { from, direction, address, bytes: 4 * KIB })
}

/// Returns the latency of a read of a PE's HBM by its physical address.
fn physical(to: &str) -> Span {
    latencies(|machine| vec![dma(machine, "sip0.cube0.pe0", to, Direction::Read, 4 * KIB)])[0]
}

#[test]
fn an_access_goes_where_its_address_is_mapped_now() {
    let (near, far) = ("sip0.cube0.pe0", "sip0.cube5.pe3");
    assert_ne!(physical(near), physical(far));
    let mut machine = default_machine();
    for to in [near, far, near] {
        let mapping = mapping(&machine, 0, to);
        change(&mut machine, &[mapping], true);
        for _ in 0..2 {
            assert_eq!(read(&mut machine, 0), physical(to), "{to}");
        }
        change(&mut machine, &[mapping], false);
    }
}

#[test]
fn accesses_through_many_mappings_by_turns_all_go_where_they_should() {
    let to: Vec<String> = (0..6).map(|cube| format!("sip0.cube{cube}.pe1")).collect();
    let mut machine = default_machine();
    let mappings: Vec<_> =
        (0..).zip(&to).map(|(number, to)| mapping(&machine, number, to)).collect();
    change(&mut machine, &mappings, true);
    for (number, to) in (0..).zip(&to).chain((0..).zip(&to)) {
        assert_eq!(read(&mut machine, number), physical(to), "{to}");
    }
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    assert_eq!(machine.view().mmu(pe).unwrap().counts().translations, 12);
}
