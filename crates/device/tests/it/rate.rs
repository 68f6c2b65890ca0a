//! Message rate: many short messages into one end, with nodes that process one overhead at a time, and with headers.

use cubeyard_device::explain::{Cause, explain, sum};
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::request::Request;
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Span, Time};

const MESSAGES: u64 = 1920;
const OVERHEAD: u64 = 5;

fn topology(keys: &str) -> Topology {
    let text = format!("hbm: {{overhead_ns: {OVERHEAD}}}\n{keys}");
    Topology::read("test.yaml", &text).unwrap()
}

/// Returns an access to a burst of one PE's HBM. Bursts are on eight channels and take 8 ns each.
fn access(machine: &Machine, from: &str, burst: u64, direction: Direction, bytes: u64) -> Request {
    let pe = |name| machine.view().pe(name).unwrap();
    let address = machine.view().hbm_address(pe("sip0.cube5.pe0"), burst * 256).unwrap();
    Request::PeDma { from: pe(from), direction, address, bytes }
}

/// Returns the time of 1,920 simultaneous writes of two bytes by the PEs of eight cubes into the HBM of one PE.
fn crowd(keys: &str) -> Time {
    let mut machine = MachineBuilder::new(topology(keys)).build();
    let pes: Vec<_> =
        (0..8).flat_map(|cube| (0..8).map(move |pe| format!("sip0.cube{cube}.pe{pe}"))).collect();
    let requests: Vec<_> = (0..MESSAGES).zip(pes.iter().cycle()).collect();
    let ids: Vec<_> = requests
        .iter()
        .map(|(burst, pe)| machine.submit(access(&machine, pe, *burst, Write, 2)).unwrap())
        .collect();
    machine.run();
    ids.into_iter().map(|id| machine.completion(id).unwrap().done).max().unwrap()
}

/// Returns the time of one such write on an idle machine, from the farthest PE.
fn alone(keys: &str) -> Span {
    let mut machine = MachineBuilder::new(topology(keys)).build();
    let id = machine.submit(access(&machine, "sip0.cube3.pe7", 0, Write, 2)).unwrap();
    machine.run();
    machine.completion(id).unwrap().latency()
}

#[test]
fn many_short_messages_into_one_serial_end_take_an_overhead_each() {
    let each = Span::from_ps(OVERHEAD * 1000);
    let (free, ends) = (crowd(""), crowd("serial_nodes: ends\n"));
    assert!(ends >= Time::ZERO + each * MESSAGES);
    // The memory is never idle for longer than the flight of one message.
    assert!(ends <= Time::ZERO + each * MESSAGES + alone(""));
    assert!(free < Time::ZERO + each * MESSAGES, "an overhead that only delays is hidden");
}

/// Two bytes and a header of 62 take as long as 64 bytes, and the command or acknowledgement has its header, too.
#[test]
fn a_header_takes_as_long_as_so_many_bytes() {
    let time = |keys: &str, direction, bytes| {
        let mut machine = MachineBuilder::new(topology(keys)).build();
        let id = machine.submit(access(&machine, "sip1.cube5.pe0", 0, direction, bytes)).unwrap();
        machine.run();
        machine.completion(id).unwrap().latency()
    };
    let header = "flit_header_bytes: 62\n";
    assert!(time(header, Write, 2) > time("", Write, 64));
    assert!(time(header, Read, 2) > time("", Read, 64));
    assert_eq!(time("flit_header_bytes: 0\n", Write, 2), time("", Write, 2));
}

#[test]
fn a_wait_for_a_serial_node_is_named() {
    let topology = topology("serial_nodes: ends\n");
    let mut machine = MachineBuilder::new(topology).build_with_flits();
    let pe = |name: &str| machine.view().pe(name).unwrap();
    let address = machine.view().hbm_address(pe("sip0.cube0.pe0"), 0).unwrap();
    let request = |from| Request::PeDma { from, direction: Write, address, bytes: 2 };
    let requests = ["sip0.cube0.pe0", "sip0.cube0.pe0"].map(|from| request(pe(from)));
    let [first, second] = requests.map(|request| machine.submit(request).unwrap());
    machine.run();
    let waits = |request| {
        let steps = explain(&machine, request).unwrap();
        sum(&steps, |cause| matches!(cause, Cause::NodeWait(_)))
    };
    // The second follows after the 8 ps that two bytes take on a link, and waits for the rest of the first's 5 ns.
    let link = Span::from_ps(8);
    assert_eq!(waits(first), Span::ZERO);
    assert_eq!(waits(second) + link, Span::from_ps(OVERHEAD * 1000));
}
