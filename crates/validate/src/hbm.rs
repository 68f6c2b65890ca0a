//! Bandwidth and latency of HBM channels, worked out by hand for the default machine: 8 channels per PE, each
//! with bursts of 256 bytes in 8 ns.

use cubeyard_sim::{Stop, Time};

use super::traffic::{KIB, dma, dma_at, makespan};
use super::{Check, CheckKind, Expected};
use cubeyard_device::machine::Machine;
use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::message::RequestId;
use cubeyard_device::topology::Topology;

const PE: &str = "sip0.cube0.pe0";
const CHANNEL: &str = "Ramulator 2.1, HBM2-2000: peak of a channel (sources.md#ramulator)";
const ROWS: &str = "on a machine with hbm.rows, which the default machine has not: banks, rows and refresh \
                    of the preset";
const BY_HAND: &str = "by hand: 256 B in 8 ns on a channel";

pub(super) fn checks(topology: &Topology) -> Vec<Check<'_>> {
    let checks = [bandwidth(topology), latency(topology), channels(topology)];
    checks.into_iter().flatten().map(Check::on_default).collect()
}

/// Returns the marginal bandwidth of a second MiB by each of `pes` PEs from or to its own HBM, in GB/s.
fn stream(topology: &Topology, pes: u32, direction: Direction) -> f64 {
    let ns = |mib: u64| {
        let one = |machine: &Machine, pe| {
            let pe = format!("sip0.cube0.pe{pe}");
            dma(machine, &pe, &pe, direction, mib * 1024 * KIB)
        };
        makespan(topology, |machine| (0..pes).map(|pe| one(machine, pe)).collect()).ns()
    };
    f64::from(pes) * 1024.0 * 1024.0 / (ns(2) - ns(1))
}

fn bandwidth(topology: &Topology) -> Vec<Check<'_>> {
    let exact = |name, gbs, source, (pes, direction)| {
        let ours = move || stream(topology, pes, direction);
        Check::new(CheckKind::Exact, name, Expected::equal(gbs, "GB/s"), source, ours).own()
    };
    let eight = "8 channels x 32 GB/s";
    let cube = "8 PEs x 256 GB/s";
    let channel = move || 64.0 * 256.0 / (one_channel(topology, 128) - one_channel(topology, 64));
    vec![
        exact("a PE reads a stream", 256.0, eight, (1, Read)),
        exact("a PE writes a stream", 256.0, eight, (1, Write)),
        exact("8 PEs read streams", 2048.0, cube, (8, Read)),
        Check::new(
            CheckKind::Exact,
            "one channel, a stream",
            Expected::equal(32.0, "GB/s"),
            CHANNEL,
            channel,
        ),
        Check::new(
            CheckKind::Predicted,
            "one channel, a stream, with refresh",
            Expected::equal(30.4, "GB/s"),
            "Ramulator 2.1, HBM2-2000 (sources.md#ramulator)",
            refreshed,
        )
        .because(ROWS),
    ]
}

fn latency(topology: &Topology) -> Vec<Check<'_>> {
    let burst = move |direction| {
        makespan(topology, |machine| vec![dma(machine, PE, PE, direction, 256)]).ns()
    };
    // One router twice, four wires of 5 ps, two links of 1 ns one way, a burst of 8 ns.
    let by_hand = Expected::ns(14.02);
    let parts = "by hand: routers 4 + wires 0.02 + links 2 + burst 8";
    vec![
        Check::new(CheckKind::Exact, "read of a burst", by_hand, parts, move || burst(Read)).own(),
        Check::new(CheckKind::Exact, "write of a burst", by_hand, parts, move || burst(Write))
            .own(),
        Check::new(
            CheckKind::Calibrated,
            "read of a burst that finds another row open, beside the way and the burst",
            Expected::ns(42.0),
            "Ramulator 2.1, HBM2-2000: nRP + nRCD + nCL (sources.md#ramulator)",
            move || other_row() - burst(Read),
        )
        .because(ROWS),
    ]
}

/// Returns a machine whose HBM has the banks, rows and refresh of Ramulator's preset: nRCD = nRP = nCL = 14
/// and nRFC = 160 cycles of 1 ns, nREFI = 3900. The column latency is the controller's overhead.
fn with_rows() -> Topology {
    let rows = "{banks: 16, row_bytes: 1 KiB, activate_ns: 14, precharge_ns: 14, \
                refresh: {interval_ns: 3900, takes_ns: 160}}";
    let text = format!("hbm: {{overhead_ns: 14, rows: {rows}}}\n");
    Topology::read("rows", &text).expect("a topology of ours")
}

/// Returns the bandwidth of one refreshed channel over ten refresh intervals, in GB/s.
fn refreshed() -> f64 {
    let (topology, few, many) = (with_rows(), 512, 512 + 10 * 464);
    let took = one_channel(&topology, many) - one_channel(&topology, few);
    ((many - few) * 256) as f64 / took
}

/// Returns the latency of a burst whose bank has another row open, in nanoseconds.
fn other_row() -> f64 {
    let mut machine = Machine::new(with_rows());
    let mut read = |row: u64| {
        // The next row of the first bank follows the 16 banks of 8 channels.
        let offset = row * 16 * 8 * KIB;
        let request = dma_at(&machine, PE, PE, Read, offset, 256);
        let id = machine.submit(request).expect("a check makes sound requests");
        assert_eq!(machine.run(), Stop::Idle, "requests to memory end");
        machine.completion(id).expect("idle means done").latency().ns()
    };
    read(0);
    read(1)
}

/// Returns the time until `reads` reads of the same channel are done, in nanoseconds.
fn one_channel(topology: &Topology, reads: u64) -> f64 {
    let read = |machine: &Machine, number| dma_at(machine, PE, PE, Read, number * 8 * 256, 256);
    makespan(topology, |machine| (0..reads).map(|number| read(machine, number)).collect()).ns()
}

/// Returns the time until `bursts` bursts of one channel are done, in nanoseconds: reads and writes alternate, one
/// every 4 ns, with a turn-around of 5 ns.
fn ping_pong(bursts: u64) -> f64 {
    let text = "hbm: {turn_around_ns: 5}\n";
    let topology = Topology::read("turn-around", text).expect("a topology of ours");
    let mut machine = Machine::new(topology);
    let submit = |number: u64| -> RequestId {
        let direction = if number.is_multiple_of(2) { Read } else { Write };
        let request = dma_at(&machine, PE, PE, direction, number * 8 * 256, 256);
        let at = Time::from_ps(number * 4000);
        machine.submit_with(request.at(at)).expect("a check makes sound requests")
    };
    let ids: Vec<_> = (0..bursts).map(submit).collect();
    assert_eq!(machine.run(), Stop::Idle, "requests to memory end");
    let done = |id| machine.completion(id).expect("idle means done").done;
    ids.into_iter().map(done).max().unwrap_or_default().ns()
}

fn channels(topology: &Topology) -> Vec<Check<'_>> {
    vec![
        Check::new(
            CheckKind::Exact,
            "64 more bursts on a hot channel",
            Expected::ns(64.0 * 8.0),
            BY_HAND,
            move || one_channel(topology, 128) - one_channel(topology, 64),
        )
        .own(),
        Check::new(
            CheckKind::Exact,
            "64 more, reads and writes in turn, 5 ns to turn around",
            Expected::ns(64.0 * (8.0 + 5.0)),
            BY_HAND,
            || ping_pong(128) - ping_pong(64),
        )
        .own(),
    ]
}
