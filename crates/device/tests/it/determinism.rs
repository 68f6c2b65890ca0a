//! The order of events: the same in every way to run a machine.

use cubeyard_device::log::Watch;
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::probe::Pattern;
use cubeyard_device::topology::Topology;
use cubeyard_sim::EngineConfig;

const BUSY: &[u8] = include_bytes!("../../../../testdata/patterns/busy.yaml");

/// Of [`BUSY`]; `python/tests/test_reference.py` holds the release build to the same number. It changes with
/// the default topology and with the rules of time, and with nothing else.
const ORDER_HASH: u64 = 0xeffe_299c_1a30_0897;

/// The hash, the latencies and the flit-hops.
fn ran<W: Watch>(mut machine: Machine<W>) -> (u64, Vec<u64>, u64) {
    let pattern = Pattern::read("busy.yaml", BUSY, machine.topology()).unwrap();
    let report = pattern.run(&mut machine).unwrap();
    assert_eq!(report.transfers.len(), 201);
    let latencies = report.transfers.iter().map(|transfer| transfer.measured.latency.ps());
    (report.order_hash, latencies.collect(), machine.engine().flit_hops())
}

fn builder(merge: bool) -> MachineBuilder {
    MachineBuilder::new(Topology::embedded())
        .config(EngineConfig { merge, ..EngineConfig::default() })
}

#[test]
fn the_order_of_events_is_pinned_and_the_same_in_every_mode() {
    let merged = ran(builder(true).build());
    assert_eq!(merged.0, ORDER_HASH, "{:#018x}", merged.0);
    assert_eq!(ran(builder(false).build()), merged);
    assert_eq!(ran(builder(true).build_with_flits()), merged);
    assert_eq!(ran(builder(false).build_with_flits()), merged);
}

#[test]
fn a_machine_does_not_notice_another_one_on_a_second_thread() {
    let alone = ran(builder(true).build());
    let both = std::thread::scope(|scope| {
        let other = |merge| scope.spawn(move || ran(builder(merge).build()));
        let threads = [other(true), other(false)];
        threads.map(|thread| thread.join().expect("it does not panic"))
    });
    assert_eq!(both, [alone.clone(), alone]);
}

#[test]
fn another_order_of_requests_is_another_hash() {
    let text = std::str::from_utf8(BUSY).unwrap();
    let later = text.replacen("at_ns: ", "at_ns: 1", 1);
    assert_ne!(text, later);
    let mut machine = builder(true).build();
    let pattern = Pattern::read("later.yaml", later.as_bytes(), machine.topology()).unwrap();
    assert_ne!(pattern.run(&mut machine).unwrap().order_hash, ORDER_HASH);
}
