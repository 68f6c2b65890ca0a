//! Turns a probe pattern into a scenario of the slow reference: `export_scenario PATTERN [TOPOLOGY] > SCENARIO`.
//!
//! `testdata/reference/README.md` defines a scenario. This scenario holds the whole machine and, under `machine`, the
//! machine's own results for the pattern. So three can be compared: the machine, its graph on the bare engine, and the
//! reference.

use std::io::Write;

use cubeyard_device::machine::Machine;
use cubeyard_device::message::{Access, Direction};
use cubeyard_device::model::Part;
use cubeyard_device::probe::{Pattern, PatternReport};
use cubeyard_device::topology::{NodeKind, Topology};
use cubeyard_sim::{Arbiter, BufferSpec, Forwarding, NodeId, Span, Time};
use serde_json::{Value, json};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("export_scenario PATTERN [TOPOLOGY]");
    let read = |file: &str| std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let topology = arguments.next().map_or_else(Topology::embedded, |file| {
        Topology::read_bytes(&file, &read(&file)).unwrap_or_else(|error| panic!("{error}"))
    });
    let pattern = Pattern::read(&file, &read(&file), &topology);
    let pattern = pattern.unwrap_or_else(|error| panic!("{error}"));
    let mut machine = Machine::new(topology);
    let report = pattern.run(&mut machine).unwrap();
    writeln!(std::io::stdout(), "{}", scenario(&machine, &report)).expect("stdout");
}

fn scenario(machine: &Machine, report: &PatternReport) -> Value {
    let nodes = (0..machine.view().network().nodes().len()).map(|node| node_of(machine, node));
    let links = machine.topology().links().iter().map(|link| {
        json!({
            "from": link.from.index(),
            "to": link.to.index(),
            "bytes_per_second": link.bandwidth.bytes_per_second(),
            "propagation_ps": link.propagation.ps(),
            "reverse": link.reverse.index(),
        })
    });
    let requests = report.transfers.iter().map(|transfer| {
        let access = machine.view().access(transfer.request).expect("patterns go to memory");
        request(access, transfer.planned.at)
    });
    let latencies = report.transfers.iter().map(|transfer| transfer.measured.latency);
    json!({
        "flit_bytes": machine.view().network().flit_bytes(),
        "header_bytes": machine.view().network().header_bytes(),
        "buffers": machine.topology().spec().buffers.map(buffers),
        "nodes": nodes.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
        "requests": requests.collect::<Vec<_>>(),
        "machine": {
            "latency_ps": latencies.map(Span::ps).collect::<Vec<_>>(),
            "flit_hops": machine.view().engine().flit_hops(),
            "order_hash": format!("{:016x}", report.order_hash),
        },
    })
}

fn buffers(spec: BufferSpec) -> Value {
    let arbiter = match spec.arbiter {
        Arbiter::Fifo => "fifo",
        Arbiter::RoundRobin => "round_robin",
        Arbiter::OldestFirst => "oldest_first",
    };
    json!({ "flits": spec.flits, "arbiter": arbiter })
}

fn node_of(machine: &Machine, index: usize) -> Value {
    let node = machine.view().network().nodes()[index];
    let kind = machine.topology().nodes()[index].kind;
    let memory = match machine.view().engine().component(NodeId::new(index)) {
        Some(Part::Memory(memory)) => {
            let spec = memory.channels().spec();
            json!({
                "burst_bytes": spec.burst_bytes,
                "channels": spec.channels,
                "burst_ps": spec.burst.ps(),
                "turnaround_ps": spec.turn_around.ps(),
            })
        }
        _ => Value::Null,
    };
    let mode = match node.forwarding {
        Forwarding::StoreAndForward => "store",
        Forwarding::CutThrough if ends_routes(kind) => "end",
        Forwarding::CutThrough => "transit",
    };
    let (overhead, serial) = (node.overhead.ps(), node.is_serial);
    json!({ "overhead_ps": overhead, "mode": mode, "serial": serial, "memory": memory })
}

fn ends_routes(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Hbm | NodeKind::Sram | NodeKind::PeDma | NodeKind::MCpu)
}

fn request(access: &Access, at: Time) -> Value {
    let op = match (access.direction, &access.back) {
        (Direction::Read, _) => "read",
        (Direction::Write, Some(_)) => "write",
        (Direction::Write, None) => "posted_write",
    };
    json!({
        "op": op,
        "route": access.there.iter().map(|link| link.index()).collect::<Vec<_>>(),
        "bytes": access.bytes,
        "address": access.address,
        "at_ps": at.ps(),
    })
}
