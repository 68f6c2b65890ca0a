//! The component of `examples/own_component.rs` in place of a built-in one, with times computed by hand.
//!
//! The route between PE 1 and PE 0's slice has two routers of 2 ns and wires of 5, 10 and 5 ps. A command takes 4.02 ns.
//! The first flit of 64 takes 1 ns more for each of the three links. Then a flit arrives every nanosecond.

use cubeyard_device::explain::explain;
use cubeyard_device::machine::MachineBuilder;
use cubeyard_device::message::Direction;
use cubeyard_device::request::Request;
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Span, Stop};
use expect_test::expect;

use crate::bench::{KIB, dma, shard};

#[path = "../../examples/own_component.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

use example::{OnePort, latencies, read, with_one_port};

const COMMAND: u64 = 4_020;
const PORT: u64 = 100_000;
const FIRST_FLIT: u64 = COMMAND + 3 * 1_000;
const OTHER_FLITS: u64 = 63 * 1_000;

#[test]
fn a_read_is_a_command_the_port_and_the_flits() {
    let found = latencies(with_one_port().unwrap(), &["sip0.cube0.pe1"]).unwrap();
    assert_eq!(found, [Span::from_ps(COMMAND + PORT + FIRST_FLIT + OTHER_FLITS)]);
}

#[test]
fn a_write_is_the_flits_the_port_and_the_acknowledgement() {
    let mut machine = with_one_port().unwrap();
    let write = dma(&machine, "sip0.cube0.pe1", "sip0.cube0.pe0", Direction::Write, 16 * KIB);
    let id = machine.submit(write).unwrap();
    assert_eq!(machine.run(), Stop::Idle);
    let found = machine.completion(id).unwrap().latency();
    assert_eq!(found, Span::from_ps(FIRST_FLIT + OTHER_FLITS + PORT + COMMAND));
}

/// PE 2's command passes six routers and wires of 60 ps in all; the port is taken until 104.02 ns.
#[test]
fn the_second_reader_waits_for_the_port() {
    let readers = ["sip0.cube0.pe1", "sip0.cube0.pe2"];
    let found = latencies(with_one_port().unwrap(), &readers).unwrap();
    let first = COMMAND + PORT + FIRST_FLIT + OTHER_FLITS;
    let way_back = 6 * 2_000 + 60 + 7 * 1_000 + OTHER_FLITS;
    assert_eq!(found, [first, COMMAND + 2 * PORT + way_back].map(Span::from_ps));
}

/// The last link of 128 GB/s is the one to router r0c0: the first flit asks for it at 24.525 ns, the last is
/// through 256 ns later, and the link to the memory takes 1 ns more.
#[test]
fn a_posted_write_ends_at_the_port() {
    let mut machine = with_one_port().unwrap();
    let write = Request::MemoryWrite(shard(&machine, "sip0.cube0.pe0", 32 * KIB));
    let id = machine.submit(write).unwrap();
    assert_eq!(machine.run(), Stop::Idle);
    let delivered = 24_525 + 128 * 2_000 + 5 + 1_000 + 5;
    assert_eq!(machine.completion(id).unwrap().latency(), Span::from_ps(delivered + PORT));
}

#[test]
fn what_only_our_memory_can_tell_is_not_made_up() {
    let memory = OnePort::new(Span::from_ps(PORT));
    let builder = MachineBuilder::new(Topology::embedded());
    let builder = builder.replace("sip0.cube0.hbm_ctrl.pe0", memory).unwrap();
    let mut machine = builder.build_with_flits();
    let address =
        machine.view().hbm_address(machine.view().pe("sip0.cube0.pe0").unwrap(), 0).unwrap();
    let from = machine.view().pe("sip0.cube0.pe1").unwrap();
    let request = Request::PeDma { from, direction: Direction::Read, address, bytes: 256 };
    let id = machine.submit(request).unwrap();
    machine.run();
    assert!(machine.completion(id).is_some());
    assert!(
        machine.view().unloaded_latency(id).is_none()
            && machine.view().memory_bandwidth(id).is_none()
    );
    assert!(explain(&machine, id).is_none());
}

#[test]
fn a_name_that_is_not_there_is_refused() {
    let builder = MachineBuilder::new(Topology::embedded());
    let error = builder.replace("sip0.cube0.hbm_ctrl.pe8", OnePort::new(Span::ZERO)).unwrap_err();
    assert!(error.to_string().contains("sip0.cube0.hbm_ctrl.pe8"), "{error}");
    let machine = with_one_port().unwrap();
    assert!(read(&machine, "sip0.cube0.pe8").is_err());
}

#[test]
fn the_example_prints_what_docs_machine_md_shows() {
    let mut text = Vec::new();
    example::run(&mut text).unwrap();
    expect![[r#"
        readers of 16 KiB from sip0.cube0.pe0.hbm       ours    one port
        1 at once
          sip0.cube0.pe1                            82.04 ns   174.04 ns
        2 at once
          sip0.cube0.pe1                            82.04 ns   174.04 ns
          sip0.cube0.pe2                           158.08 ns   286.08 ns
    "#]]
    .assert_eq(&String::from_utf8(text).unwrap());
}
