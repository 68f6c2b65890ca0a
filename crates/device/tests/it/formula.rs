//! The closed form of a lone request against the engine, to the picosecond.

use cubeyard_device::machine::{Machine, MachineBuilder};
use cubeyard_device::message::Direction;
use cubeyard_device::request::{MemoryRange, Request};
use cubeyard_device::topology::Topology;
use cubeyard_sim::EngineConfig;
use proptest::prelude::*;

fn topologies() -> impl Strategy<Value = Topology> {
    let overhead = prop_oneof![Just(0_u32), Just(2), 0..30_u32];
    let speed = prop_oneof![Just(256_u32), 20..600_u32];
    (
        (1..3_u32, 1..4_u32, 1..3_u32),
        (speed.clone(), speed.clone(), speed),
        (overhead.clone(), overhead.clone(), overhead),
        (0..4_u32, 0..3_u32, prop_oneof![Just(32_u32), 1..80_u32]),
        // Nodes that process one overhead at a time make no difference to a lone request.
        (prop_oneof![Just(0_u32), 1..70_u32], prop_oneof![Just("none"), Just("ends"), Just("all")]),
    )
        .prop_map(
            |(
                (sips, w, h),
                (mesh, ucie, hbm),
                (router, port, dma),
                (channels, flit, channel),
                (header, serial),
            )| {
                let text = format!(
                    "flit_bytes: {}\nflit_header_bytes: {header}\nserial_nodes: {serial}\nsips: {{count: {sips}}}\ncubes: {{w: {w}, h: {h}}}\n\
                 routers: {{overhead_ns: {router}, link: {{bandwidth_gbs: {mesh}}}}}\n\
                 pe: {{dma_overhead_ns: {dma}}}\n\
                 ucie: {{port_overhead_ns: {port}, router_link: {{bandwidth_gbs: {ucie}}}}}\n\
                 hbm: {{channels_per_pe: {}, channel_bandwidth_gbs: {channel}, overhead_ns: {dma},\
                  link: {{bandwidth_gbs: {hbm}}}}}\n",
                    256 << flit,
                    1 << channels,
                );
                Topology::read("random.yaml", &text).unwrap()
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_lone_request_takes_what_the_formula_says(
        topology in topologies(),
        places in any::<[prop::sample::Index; 6]>(),
        bytes in prop_oneof![1..600_u64, 1..40_000_u64, (1..200_u64).prop_map(|flits| flits * 256)],
        (kind, trains) in (0..4_u8, any::<bool>()),
    ) {
        let mut machine = MachineBuilder::new(topology).config(EngineConfig { trains, buffers: None }).build();
        let pe = |machine: &Machine, at: &[prop::sample::Index]| {
            let spec = machine.topology().spec();
            let name = format!(
                "sip{}.cube{}.pe{}",
                at[0].index(spec.sips.count as usize),
                at[1].index(spec.cube_count() as usize),
                at[2].index(spec.pe_count() as usize),
            );
            machine.view().pe(&name).unwrap()
        };
        let (from, at) = (pe(&machine, &places[..3]), pe(&machine, &places[3..]));
        let address = machine.view().hbm_address(at, 1 << 20).unwrap();
        let shard = MemoryRange { at, address, bytes };
        let request = match kind {
            0 => Request::MemoryWrite(shard),
            1 => Request::MemoryRead(shard),
            2 => Request::PeDma { from, direction: Direction::Read, address, bytes },
            _ => Request::PeDma { from, direction: Direction::Write, address, bytes },
        };
        let id = machine.submit(request).unwrap();
        machine.run();
        let parts = machine.view().unloaded_latency(id).unwrap();
        let latency = machine.completion(id).unwrap().latency();
        prop_assert_eq!(parts.total(), latency, "{:?}", parts);
    }
}

/// The formula of one transfer in DESIGN, for a path whose last link is the bottleneck: arrival of the first flit, the
/// others at the rate of the bottleneck, the last burst, and the overheads of the command.
#[test]
fn the_parts_of_a_local_read_are_those_worked_out_by_hand() {
    let mut machine = crate::bench::default_machine();
    let read =
        crate::bench::dma(&machine, "sip0.cube0.pe0", "sip0.cube0.pe0", Direction::Read, 16 << 10);
    let id = machine.submit(read).unwrap();
    let parts = machine.view().unloaded_latency(id).unwrap();
    let ps = cubeyard_sim::Span::from_ps;
    // The router looks at the command and at the data; two wires of 5 ps there and two back; 64 flits of
    // 1 ns on the last link after one on the link before; one burst.
    assert_eq!(parts.overhead, ps(4000));
    assert_eq!(parts.wire, ps(20));
    assert_eq!(parts.serialisation, ps(65_000));
    assert_eq!(parts.service, ps(8000));
}

/// Data of 32 KiB on two links of 256 GB/s behind a router of 2 ns, the last burst of 8 ns, and the
/// acknowledgement on the wires and through the router again.
#[test]
fn a_local_write_takes_what_was_worked_out_by_hand() {
    let mut machine = crate::bench::default_machine();
    let write =
        crate::bench::dma(&machine, "sip0.cube0.pe0", "sip0.cube0.pe0", Direction::Write, 32 << 10);
    let id = machine.submit(write).unwrap();
    machine.run();
    let (data, burst, back) = (1000 + 5 + 2000 + 128_000 + 5, 8000, 5 + 2000 + 5);
    let expected = cubeyard_sim::Span::from_ps(data + burst + back);
    assert_eq!(machine.completion(id).unwrap().latency(), expected);
    assert_eq!(machine.view().unloaded_latency(id).unwrap().total(), expected);
}
