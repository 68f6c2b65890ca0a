//! Optional parts of a topology in whole machines: finite buffers and rows of the HBM.

use std::num::NonZero;

use cubeyard_device::machine::MachineBuilder;
use cubeyard_device::message::Direction;
use cubeyard_device::model::{RefreshSpec, RowsSpec};
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Arbiter, BufferSpec, Span, Stop, Waiter, Waiting};

use crate::bench::{KIB, dma};

const ROWS: &str = "hbm: {rows: {banks: 16, row_bytes: 1 KiB, activate_ns: 14, precharge_ns: 14";

fn read(text: &str) -> Topology {
    Topology::read("mine.yaml", text).unwrap()
}

/// Returns the latencies of requests in picoseconds, all submitted at the same time.
fn latencies_ps(text: &str, requests: &[(&str, &str, Direction, u64)]) -> Vec<u64> {
    let mut machine = MachineBuilder::new(read(text)).build();
    let submit = |&(from, to, direction, bytes): &(&str, &str, Direction, u64)| {
        let request = dma(&machine, from, to, direction, bytes);
        machine.submit(request).unwrap()
    };
    let ids: Vec<_> = requests.iter().map(submit).collect();
    assert_eq!(machine.run(), Stop::Idle);
    ids.into_iter().map(|id| machine.completion(id).unwrap().latency().ps()).collect()
}

#[test]
fn the_keys_are_read_and_off_by_default() {
    for text in ["", "buffers: none\nhbm: {rows: none}\n"] {
        let spec = read(text).spec().clone();
        assert_eq!((spec.buffers, spec.hbm.rows), (None, None));
    }
    let flits = NonZero::new(16).unwrap();
    let buffers = |text: &str| read(text).spec().buffers;
    let expected = |arbiter| Some(BufferSpec { flits, arbiter });
    assert_eq!(buffers("buffers: {flits: 16}"), expected(Arbiter::Fifo));
    let oldest = "buffers: {flits: 16, arbiter: oldest_first}";
    assert_eq!(buffers(oldest), expected(Arbiter::OldestFirst));
    let ns = |ns: u64| Span::from_ps(ns * 1000);
    let refresh = RefreshSpec { interval: ns(3900), takes: ns(260) };
    let rows = RowsSpec {
        banks: 16,
        row_bytes: KIB,
        activate: ns(14),
        precharge: ns(14),
        refresh: Some(refresh),
    };
    let text = format!("{ROWS}, refresh: {{interval_ns: 3900, takes_ns: 260}}}}}}");
    assert_eq!(read(&text).spec().hbm.rows, Some(rows));
    let never = Some(RowsSpec { refresh: None, ..rows });
    assert_eq!(read(&format!("{ROWS}}}}}")).spec().hbm.rows, never);
    assert_eq!(read(&format!("{ROWS}, refresh: none}}}}")).spec().hbm.rows, never);
}

#[test]
fn what_cannot_be_is_refused_with_its_key() {
    let refused = |text: &str| Topology::read("mine.yaml", text).unwrap_err().to_string();
    let cases = [
        (
            "buffers: {flits: 0}",
            "buffers.flits: expected a whole number from 1 to 1048576, found 0",
        ),
        ("buffers: {arbiter: fifo}", "buffers: expected the key `flits` in it, found none"),
        (
            "buffers: {flits: 1, arbiter: round_robbin}",
            "buffers.arbiter: expected one of fifo, round_robin, oldest_first, found round_robbin; the \
             nearest is `round_robin`",
        ),
        (
            "buffers: {flits: 1, flit: 1}",
            "buffers: expected a known key, found `flit`; the nearest is `flits`",
        ),
        ("hbm: {rows: 3}", "hbm.rows: expected a mapping, found 3"),
        ("hbm: {rows: {row_bytes: 1 KiB}}", "hbm.rows: expected the key `banks` in it, found none"),
        (
            "hbm: {rows: {banks: 1, row_bytes: 300, activate_ns: 1, precharge_ns: 1}}",
            "hbm.rows.row_bytes: expected a multiple of hbm.burst_bytes, 256, found 300",
        ),
        (
            &format!("{ROWS}, refresh: {{interval_ns: 296, takes_ns: 260}}}}}}"),
            "hbm.rows.refresh.interval_ns: expected at least 296.001 ns, or refreshes leave no \
             time for a burst, found 296",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), format!("mine.yaml:1: {expected}"));
    }
}

#[test]
fn deep_buffers_change_no_lone_request() {
    let far = [
        ("sip0.cube0.pe0", "sip0.cube0.pe0", Direction::Read, 16 * KIB),
        ("sip0.cube0.pe0", "sip0.cube15.pe7", Direction::Write, 16 * KIB),
        ("sip0.cube0.pe0", "sip1.cube0.pe0", Direction::Read, 16 * KIB),
    ];
    for request in far {
        let unlimited = latencies_ps("", &[request]);
        assert_eq!(latencies_ps("buffers: {flits: 1024}", &[request]), unlimited);
        // A flit of 1 ns waits 8 ns at a port, once: shallow buffers stop those behind it.
        let shallow = latencies_ps("buffers: {flits: 1}", &[request]);
        assert!(shallow > unlimited, "{shallow:?} after {unlimited:?}");
    }
}

#[test]
fn a_read_finds_its_rows_closed_and_pays_once() {
    // 16 KiB are 64 bursts, 8 on each channel: two rows of four, in two banks, opened at the same time.
    let local = [("sip0.cube0.pe0", "sip0.cube0.pe0", Direction::Read, 16 * KIB)];
    let plain = latencies_ps("", &local)[0];
    assert_eq!(latencies_ps(&format!("{ROWS}}}}}"), &local), [plain + 14_000]);
    // With one bank the second row is opened when the first is done with: closed, opened. Meanwhile the
    // link catches up on the 2 ns for which the router looked at the first flit.
    let one = ROWS.replace("banks: 16", "banks: 1");
    assert_eq!(latencies_ps(&format!("{one}}}}}"), &local), [plain + 14_000 + 28_000 - 2000]);
}

#[test]
fn crossing_ways_with_few_places_block_each_other_and_the_ring_is_named() {
    // Requests turn from row to column and answers from column to row, and cubes pass on for each other.
    let crowd = |text: &str| {
        let mut machine = MachineBuilder::new(read(text)).build();
        for pe in 0..128 {
            let name = |pe: u32| format!("sip0.cube{}.pe{}", pe / 8, pe % 8);
            let request =
                dma(&machine, &name(pe), &name((pe * 53 + 9) % 128), Direction::Write, 16 * KIB);
            machine.submit(request).unwrap();
        }
        machine.run()
    };
    assert_eq!(crowd("buffers: {flits: 256}"), Stop::Idle);
    let Stop::Deadlock(waiting) = crowd("buffers: {flits: 1}") else {
        panic!("too many for one place")
    };
    let buffer = |waiting: &Waiting| matches!(waiting.who, Waiter::Buffer(_));
    assert!(waiting.iter().filter(|waiting| buffer(waiting)).count() >= 4);
}
