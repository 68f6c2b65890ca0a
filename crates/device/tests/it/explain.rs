//! Critical paths add up, and name the cause of each wait.

use cubeyard_device::explain::{Cause, explain, sum};
use cubeyard_device::log::FlitLog;
use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::Direction::{self, Read, Write};
use cubeyard_device::request::{MemoryRange, Request};
use cubeyard_device::topology::Topology;
use cubeyard_sim::{Span, Stop, Time};
use proptest::prelude::*;

fn machine(text: &str) -> Machine<FlitLog> {
    MachineBuilder::new(Topology::read("test.yaml", text).unwrap()).build_with_flits()
}

#[derive(Clone, Debug)]
struct Planned {
    at: u64,
    host: bool,
    direction: Direction,
    from: (u8, u8, u8),
    to: (u8, u8, u8),
    offset: u64,
    bytes: u64,
}

fn planned() -> impl Strategy<Value = Planned> {
    let pe = || (0..2_u8, 0..4_u8, 0..8_u8);
    (
        prop_oneof![Just(0_u64), 0..300_000_u64],
        prop::bool::weighted(0.3),
        prop_oneof![Just(Read), Just(Write)],
        pe(),
        prop_oneof![pe(), Just((0, 1, 0))],
        (0..64_u64).prop_map(|burst| burst * 256),
        prop_oneof![1..2000_u64, Just(16_384), 1..30_000_u64],
    )
        .prop_map(|(at, host, direction, from, to, offset, bytes)| Planned {
            at,
            host,
            direction,
            from,
            to,
            offset,
            bytes,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn steps_join_from_the_request_to_its_completion(
        traffic in proptest::collection::vec(planned(), 1..14),
        turn in 0..5_u32,
        (has_rows, places) in (any::<bool>(), prop_oneof![2 => Just(0_u32), 1 => 1000..4000_u32]),
        serial in prop_oneof![2 => Just("none"), 1 => Just("ends"), 1 => Just("all")],
        header in prop_oneof![2 => Just(0_u32), 1 => 1..50_u32],
    ) {
        // Places for all that can be under way: with fewer, crossing ways may block each other for good.
        let buffers = if places == 0 { "none".into() } else { format!("{{flits: {places}}}") };
        let rows = if has_rows {
            "{banks: 2, row_bytes: 512, activate_ns: 3, precharge_ns: 5, refresh: {interval_ns: 90, takes_ns: 20}}"
        } else {
            "none"
        };
        let mut machine = machine(&format!(
            "cubes: {{w: 2, h: 2}}\nhbm: {{turn_around_ns: {turn}, rows: {rows}}}\nbuffers: {buffers}\n\
             serial_nodes: {serial}\nflit_header_bytes: {header}\npe: {{dma_overhead_ns: 3}}\n"
        ));
        let mut ids = Vec::new();
        for plan in traffic {
            let pe = |(sip, cube, pe)| machine.view().pe(&format!("sip{sip}.cube{cube}.pe{pe}")).unwrap();
            let (from, at) = (pe(plan.from), pe(plan.to));
            let address = machine.view().hbm_address(at, plan.offset).unwrap();
            let (direction, bytes) = (plan.direction, plan.bytes);
            let shard = MemoryRange { at, address, bytes };
            let request = match (plan.host, direction) {
                (true, Write) => Request::MemoryWrite(shard),
                (true, Read) => Request::MemoryRead(shard),
                (false, _) => Request::PeDma { from, direction, address, bytes },
            };
            ids.push(machine.submit_with(request.at(Time::from_ps(plan.at))).unwrap());
        }
        prop_assert_eq!(machine.run(), Stop::Idle);
        for id in ids {
            let steps = explain(&machine, id).unwrap();
            let completion = machine.completion(id).unwrap();
            prop_assert_eq!(steps[0].start, completion.made);
            prop_assert_eq!(steps[steps.len() - 1].end, completion.done);
            for pair in steps.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
            }
            let waits = sum(&steps, |cause| {
                matches!(cause, Cause::LinkWait(..) | Cause::ChannelWait(..) | Cause::NodeWait(_))
            });
            let extra = completion.latency() - machine.view().unloaded_latency(id).unwrap().total();
            // The closed form knows neither turning around nor rows.
            let known = turn == 0 && !has_rows;
            prop_assert!(!known || extra == Span::ZERO || waits > Span::ZERO, "late for no reason");
        }
    }
}

#[test]
fn a_read_behind_another_names_it() {
    let mut machine = machine("");
    let request = |machine: &Machine<FlitLog>, from: &str| {
        let from = machine.view().pe(from).unwrap();
        let at = machine.view().pe("sip0.cube0.pe0").unwrap();
        let address = machine.view().hbm_address(at, 0).unwrap();
        Request::PeDma { from, direction: Read, address, bytes: 16 << 10 }
    };
    let first = machine.submit(request(&machine, "sip0.cube0.pe1")).unwrap();
    let second = machine.submit(request(&machine, "sip0.cube0.pe2")).unwrap();
    machine.run();
    let steps = explain(&machine, second).unwrap();
    let behind: Vec<_> = steps
        .iter()
        .filter_map(|step| match step.cause {
            Cause::LinkWait(_, behind) => behind,
            Cause::ChannelWait(_, behind) => Some(behind),
            _ => None,
        })
        .collect();
    assert!(!behind.is_empty() && behind.iter().all(|&request| request == first), "{steps:?}");
    assert!(
        explain(&machine, first)
            .unwrap()
            .iter()
            .all(|step| !matches!(step.cause, Cause::LinkWait(..) | Cause::ChannelWait(..)))
    );
}

#[test]
fn a_lone_request_has_the_parts_that_the_formula_says() {
    let mut machine = machine("");
    let from = machine.view().pe("sip0.cube0.pe0").unwrap();
    let at = machine.view().pe("sip1.cube6.pe5").unwrap();
    let address = machine.view().hbm_address(at, 0).unwrap();
    let request = Request::PeDma { from, direction: Write, address, bytes: 20_000 };
    let id = machine.submit(request).unwrap();
    machine.run();
    let steps = explain(&machine, id).unwrap();
    let parts = machine.view().unloaded_latency(id).unwrap();
    assert_eq!(sum(&steps, |cause| matches!(cause, Cause::Overhead(_))), parts.overhead);
    assert_eq!(sum(&steps, |cause| matches!(cause, Cause::Wire(_))), parts.wire);
    assert_eq!(sum(&steps, |cause| matches!(cause, Cause::Serialisation(_))), parts.serialisation);
    assert_eq!(sum(&steps, |cause| matches!(cause, Cause::Service(_))), parts.service);
}
