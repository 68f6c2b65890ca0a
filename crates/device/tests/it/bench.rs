//! Shorthands for requests to the default machine.

use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Direction, RequestId};
use cubeyard_device::request::{MemoryRange, Request};
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Span, Stop};

pub(crate) const KIB: u64 = 1 << 10;

pub(crate) fn default_machine() -> Machine {
    MachineBuilder::new(Topology::embedded()).build()
}

/// Returns a DMA request of one PE to the HBM of another, at offset zero.
pub(crate) fn dma(
    machine: &Machine,
    from: &str,
    to: &str,
    direction: Direction,
    bytes: u64,
) -> Request {
    let from = machine.view().pe(from).unwrap();
    let address = machine.view().hbm_address(machine.view().pe(to).unwrap(), 0).unwrap();
    Request::PeDma { from, direction, address, bytes }
}

/// Returns the range of a PE's HBM at offset zero.
pub(crate) fn shard(machine: &Machine, at: &str, bytes: u64) -> MemoryRange {
    let at = machine.view().pe(at).unwrap();
    MemoryRange { at, address: machine.view().hbm_address(at, 0).unwrap(), bytes }
}

/// Returns the latency of each request on a fresh machine, all submitted at the same time.
pub(crate) fn latencies(requests: impl FnOnce(&Machine) -> Vec<Request>) -> Vec<Span> {
    let mut machine = default_machine();
    let requests = requests(&machine);
    let ids: Vec<RequestId> =
        requests.into_iter().map(|request| machine.submit(request).unwrap()).collect();
    assert_eq!(machine.run(), Stop::Idle);
    ids.into_iter().map(|id| machine.completion(id).unwrap().latency()).collect()
}

/// Returns the time until the last request is done, in nanoseconds.
pub(crate) fn makespan_ns(requests: impl FnOnce(&Machine) -> Vec<Request>) -> f64 {
    latencies(requests).into_iter().max().unwrap().ns()
}
