//! Runs requests on a fresh machine and measures their latency.

use cubeyard_sim::{Span, Stop};

use cubeyard_device::machine::Machine;
use cubeyard_device::message::{Direction, RequestId};
use cubeyard_device::request::{MemoryRange, PeRef, Request};
use cubeyard_device::topology::Topology;

pub(super) const KIB: u64 = 1024;

/// Returns a PE by name; the machine must have it.
pub(super) fn pe(machine: &Machine, name: &str) -> PeRef {
    machine.view().pe(name).expect("a check names PEs that its machine has")
}

/// Returns a PE's DMA from or to the start of a PE's HBM.
pub(super) fn dma(
    machine: &Machine,
    from: &str,
    to: &str,
    direction: Direction,
    bytes: u64,
) -> Request {
    dma_at(machine, from, to, direction, 0, bytes)
}

/// Returns a PE's DMA from or to an offset of a PE's HBM.
pub(super) fn dma_at(
    machine: &Machine,
    from: &str,
    to: &str,
    direction: Direction,
    offset: u64,
    bytes: u64,
) -> Request {
    let address =
        machine.view().hbm_address(pe(machine, to), offset).expect("a check stays in the slice");
    Request::PeDma { from: pe(machine, from), direction, address, bytes }
}

/// Returns an access by the host to the start of a PE's HBM.
pub(super) fn host(machine: &Machine, to: &str, direction: Direction, bytes: u64) -> Request {
    let at = pe(machine, to);
    let address = machine.view().hbm_address(at, 0).expect("a slice has a start");
    let shard = MemoryRange { at, address, bytes };
    match direction {
        Direction::Read => Request::MemoryRead(shard),
        Direction::Write => Request::MemoryWrite(shard),
    }
}

/// Returns the largest latency of these requests, all submitted at once on a fresh machine.
pub(super) fn makespan(
    topology: &Topology,
    requests: impl FnOnce(&Machine) -> Vec<Request>,
) -> Span {
    let mut machine = Machine::new(topology.clone());
    let requests = requests(&machine);
    let submit = |request| machine.submit(request).expect("a check makes sound requests");
    let ids: Vec<RequestId> = requests.into_iter().map(submit).collect();
    assert_eq!(machine.run(), Stop::Idle, "requests to memory end");
    let latency = |id| machine.completion(id).expect("idle means done").latency();
    ids.into_iter().map(latency).max().unwrap_or_default()
}
