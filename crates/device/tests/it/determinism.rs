//! The order of events is the same in every mode of a machine.

use cubeyard_device::log::{TransferRecord, Watch};
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::{Direction, Mapping};
use cubeyard_device::probe::Pattern;
use cubeyard_device::request::{PeGrid, Request};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, SipId};
use cubeyard_sim::{EngineConfig, Span, Stop, Time, Wait};

const BUSY: &[u8] = include_bytes!("../../../../testdata/patterns/busy.yaml");

/// Hash of the order of events of [`BUSY`]. `python/tests/test_reference.py` checks the release build against the same
/// number. Only the default topology and the rules of time may change it.
const ORDER_HASH: u64 = 0xeffe_299c_1a30_0897;

/// Returns the hash of the order, the latencies and the number of flit-hops.
fn ran<W: Watch>(mut machine: Machine<W>) -> (u64, Vec<u64>, u64) {
    let pattern = Pattern::read("busy.yaml", BUSY, machine.topology()).unwrap();
    let report = pattern.run(&mut machine).unwrap();
    assert_eq!(report.transfers.len(), 201);
    let latencies = report.transfers.iter().map(|transfer| transfer.measured.latency.ps());
    (report.order_hash, latencies.collect(), machine.view().engine().flit_hops())
}

fn builder(trains: bool) -> MachineBuilder {
    MachineBuilder::new(Topology::embedded())
        .config(EngineConfig { trains, ..EngineConfig::default() })
}

#[test]
fn the_order_of_events_is_pinned_and_the_same_in_every_mode() {
    let as_trains = ran(builder(true).build());
    assert_eq!(as_trains.0, ORDER_HASH, "{:#018x}", as_trains.0);
    assert_eq!(ran(builder(false).build()), as_trains);
    assert_eq!(ran(builder(true).build_with_flits()), as_trains);
    assert_eq!(ran(builder(false).build_with_flits()), as_trains);
}

#[test]
fn a_machine_does_not_notice_another_one_on_a_second_thread() {
    let alone = ran(builder(true).build());
    let both = std::thread::scope(|scope| {
        let other = |trains| scope.spawn(move || ran(builder(trains).build()));
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

/// Sends commands to all PEs of some cubes, in turn and at the same time, amid traffic; returns the log.
fn commanded<W: Watch>(mut machine: Machine<W>) -> (u64, u64, Vec<Time>, Vec<Line>) {
    let sip = SipId::new(0).unwrap();
    let cubes = |count| machine.topology().cubes().take(count).collect::<Vec<_>>();
    let (one, four) = (cubes(1), cubes(4));
    let pes: Vec<_> = machine.topology().pes().collect();
    let first = machine.view().pe("sip0.cube0.pe0").unwrap();
    let far = machine.view().hbm_address(machine.view().pe("sip0.cube1.pe3").unwrap(), 0).unwrap();
    let mapping = |from| [Mapping { from, bytes: 4096, to: far }].into();
    let map = |cubes: &[CubeId], from| {
        let on = PeGrid { sip, cubes: cubes.to_vec(), pes: pes.clone() };
        Request::Mappings { on, mappings: mapping(from), remove: false }
    };
    let read = |bytes| {
        let direction = Direction::Read;
        Request::PeDma { from: first, direction, address: far, bytes }
    };
    let launch = {
        let on = PeGrid { sip, cubes: four.clone(), pes: pes.clone() };
        Request::KernelLaunch { kernel: "work".to_owned(), on, work: Span::from_ps(5000) }
    };
    let requests = [
        (0, map(&one, 0x10_0000)),
        (1_000_000, map(&four, 0x20_0000)),
        (1_000_000, map(&one, 0x30_0000)),
        (2_000_000, read(64)),
        (2_000_000, map(&four, 0x40_0000)),
        (2_100_000, read(16 << 10)),
        (2_150_000, launch),
    ];
    let submit =
        |(at, request): (u64, Request)| machine.submit_with(request.at(Time::from_ps(at))).unwrap();
    let ids: Vec<_> = requests.into_iter().map(submit).collect();
    assert_eq!(machine.run(), Stop::Idle);
    let done = ids.iter().map(|&id| machine.completion(id).unwrap().done).collect();
    let line = |record: &TransferRecord| (record.begun, record.delivered, record.wait);
    let lines = machine.view().log().transfers().iter().map(line).collect();
    (machine.view().engine().order_hash(), machine.view().engine().flit_hops(), done, lines)
}

/// Start and delivery of a transfer, and its longest wait.
type Line = (Time, Option<Time>, Option<Wait>);

#[test]
fn commands_to_many_pes_are_the_same_in_every_mode() {
    let as_trains = commanded(builder(true).build());
    let waits = as_trains.3.iter().filter(|line| line.2.is_some()).count();
    assert!(waits > 20, "messages to PEs wait for each other: {waits}");
    assert_eq!(commanded(builder(false).build()), as_trains);
    assert_eq!(commanded(builder(true).build_with_flits()), as_trains);
}
