//! Virtual addresses, mappings, and their costs (ADR-0008, ADR-0011).

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_device::machine::MachineBuilder;
use cubeyard_device::message::{Direction, Mapping};
use cubeyard_device::model::MmuCounts;
use cubeyard_device::request::{Outcome, Request, Submission};
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Addressing, Context, ContextConfig};
use cubeyard_sim::Span;

use crate::tensors::with_data;

fn sharded() -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() }
}

#[test]
fn addresses_follow_each_other_over_all_shards() {
    let context = Context::new(ContextConfig::default());
    let tensor = context.empty(&[128, 64], DType::F16).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.va_base().unwrap(), Some(DeviceVa::new(1 << 51)));
    let mut next = Bytes::ZERO;
    for shard in tensor.shards().unwrap() {
        assert_eq!(shard.offset_bytes, next);
        next += shard.nbytes;
    }
    assert_eq!(next, tensor.nbytes());
}

#[test]
fn sharded_tensors_are_mapped_everywhere_and_replicated_ones_at_home() {
    let context = Context::new(ContextConfig::default());
    let mappings = |context: &Context| {
        context.machine(|machine| {
            let pe = machine.view().pe("sip0.cube3.pe2").unwrap();
            let other = machine.view().pe("sip1.cube3.pe2").unwrap();
            (
                machine.view().mmu(pe).unwrap().mappings(),
                machine.view().mmu(other).unwrap().mappings(),
            )
        })
    };
    let tensor = context.empty(&[128, 64], DType::F16).unwrap().to(&sharded()).unwrap();
    assert_eq!(mappings(&context), (128, 0), "every shard, but not on the other SIP");
    drop(tensor);
    let replicated = Placement { cube: Split::Replicate, ..sharded() };
    let tensor = context.empty(&[128, 64], DType::F16).unwrap().to(&replicated).unwrap();
    assert_eq!(mappings(&context), (8, 0), "the shards of the own cube");
    drop(tensor);
    assert_eq!(mappings(&context), (0, 0));
}

/// The route of `MmuMap`, added up by hand for PE 0 of cube 0.
#[test]
fn installing_a_mapping_takes_the_way_through_the_fabric() {
    let context = Context::new(ContextConfig::default());
    let pe0 = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    let tensor = context.empty(&[64], DType::F16).unwrap().to(&pe0).unwrap();
    let stages: Vec<u64> =
        tensor.mapping_stages().unwrap().iter().map(|(_, span)| span.ps()).collect();
    // A message of 24 bytes takes 47 ps at 512 GB/s, 94 at 256 and 188 at 128 (each rounded up), and wires take 5 ps,
    // or 10 between routers. The endpoint charges 2.5 ns, the NOC 2, IO_CPU 10.
    let to_io_cpu = 2500 + (47 + 5 + 2000) + (47 + 5 + 10_000);
    // NOC, connection, ports with 8 ns each, connection, router r0c0 with 2 ns, then r0c1, r1c1, r2c1, M_CPU.
    let to_cube = (47 + 5 + 2000)
        + (188 + 5)
        + 2 * (47 + 5 + 8000)
        + (47 + 5)
        + (188 + 5 + 2000)
        + 3 * (94 + 10 + 2000)
        + (94 + 5 + 5000);
    assert_eq!(stages[..2], [to_io_cpu, to_cube]);
    let latency: u64 = stages.iter().sum();
    assert_eq!(tensor.mapping_latency().unwrap().ps(), latency);
}

/// Outcome of a program of host writes and DMA reads through addresses of one kind.
struct Ran {
    read: Vec<Vec<u8>>,
    took: Span,
    mapping: Span,
    mmu: MmuCounts,
}

fn program(addressing: Addressing, tlb_ns: u32) -> Ran {
    let text = format!("pe: {{mmu: {{tlb_overhead_ns: {tlb_ns}}}}}\n");
    let topology = Topology::read("test.yaml", &text).unwrap();
    let context = Context::new(ContextConfig {
        topology,
        data: true,
        addressing,
        ..ContextConfig::default()
    });
    let values: Vec<u8> = (0..=255).collect();
    let start = context.now();
    let tensor = context.from_slice(&[8, 32], &values).unwrap().to(&sharded()).unwrap();
    let mapping = tensor.mapping_latency().unwrap();
    tensor.write(&values.iter().rev().copied().collect::<Vec<_>>()).unwrap();
    // Shard by shard, each through the DMA of a PE that does not hold it.
    let reader = context.machine(|machine| machine.view().pe("sip0.cube5.pe3")).unwrap();
    let read = |row: u64| tensor.read_from(reader, 32 * row..32 * (row + 1)).unwrap();
    let read = (0..8).map(|row| read(row).bytes.unwrap()).collect();
    Ran { read, took: context.now() - start, mapping, mmu: context.memory_stats().mmu }
}

#[test]
fn physical_and_virtual_addressing_give_the_same_data_and_differ_by_what_is_reported() {
    for tlb_ns in [0, 3] {
        let physical = program(Addressing::Physical, tlb_ns);
        let mapped = program(Addressing::Virtual, tlb_ns);
        let expected: Vec<u8> = (0..=255).rev().collect();
        assert_eq!(physical.read.concat(), expected);
        assert_eq!(mapped.read.concat(), expected);
        assert_eq!(physical.mmu, MmuCounts::default(), "no MMU is asked");
        assert_eq!(
            (mapped.mmu.translations, mapped.mmu.faults),
            (8, 0),
            "the MMU is asked each time"
        );
        assert_eq!(physical.mapping, Span::ZERO);
        let translating = Span::from_ps(u64::from(tlb_ns) * 1000) * 8;
        assert_eq!(mapped.took, physical.took + mapped.mapping + translating);
    }
}

#[test]
fn a_pe_reads_another_ones_shard_through_its_virtual_address() {
    for tlb in [0_u32, 3] {
        let text = format!("pe: {{mmu: {{tlb_overhead_ns: {tlb}}}}}\n");
        let topology = Topology::read("test.yaml", &text).unwrap();
        let mut machine = MachineBuilder::new(topology).data(true).build();
        let (pe, holder) = (
            machine.view().pe("sip0.cube0.pe0").unwrap(),
            machine.view().pe("sip0.cube1.pe3").unwrap(),
        );
        let address = machine.view().hbm_address(holder, 4096).unwrap();
        let mapping = Mapping { from: 1 << 32, bytes: 1000, to: address };
        let mappings = vec![mapping].into();
        let map = Request::Mappings { on: pe.into(), mappings, remove: false };
        machine.submit(map).unwrap();
        machine.run();
        let buffer = |bytes| Rc::new(RefCell::new(bytes));
        let data: Vec<u8> = (0..1000_u32).map(|byte| byte.to_le_bytes()[0]).collect();
        let write = Request::VirtualDma {
            from: pe,
            direction: Direction::Write,
            address: 1 << 32,
            bytes: 1000,
        };
        let source = buffer(data.clone());
        machine.submit_with(Submission { buffer: Some(&source), ..write.into() }).unwrap();
        machine.run();
        let into = buffer(vec![0; 600]);
        let read = Request::VirtualDma {
            from: pe,
            direction: Direction::Read,
            address: (1 << 32) + 300,
            bytes: 600,
        };
        let read = machine.submit_with(Submission { buffer: Some(&into), ..read.into() }).unwrap();
        machine.run();
        assert_eq!(*into.borrow(), data[300..900]);
        let latency = machine.completion(read).unwrap().latency();
        let plain = Request::PeDma {
            from: pe,
            direction: Direction::Read,
            address: machine.view().hbm_address(holder, 4096 + 300).unwrap(),
            bytes: 600,
        };
        let plain = machine.submit(plain).unwrap();
        machine.run();
        let difference = latency - machine.completion(plain).unwrap().latency();
        assert_eq!(difference, Span::from_ps(u64::from(tlb) * 1000), "exactly the TLB's overhead");
    }
}

#[test]
fn an_address_that_is_not_mapped_is_physical_or_an_error() {
    for strict in [false, true] {
        let text = format!("pe: {{mmu: {{strict: {strict}}}}}\n");
        let mut machine = MachineBuilder::new(Topology::read("test.yaml", &text).unwrap()).build();
        let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
        let address = machine.view().hbm_address(pe, 0).unwrap().to_bits();
        let read =
            Request::VirtualDma { from: pe, direction: Direction::Read, address, bytes: 256 };
        let id = machine.submit(read).unwrap();
        machine.run();
        let outcome = machine.completion(id).unwrap().outcome;
        if strict {
            let what = format!("virtual address {address:#x} is not mapped");
            assert_eq!(outcome, Outcome::Failed { origin: "sip0.cube0.pe0.pe_dma".into(), what });
        } else {
            assert_eq!(outcome, Outcome::Moved { bytes: 256 });
        }
        assert_eq!(machine.view().mmu(pe).unwrap().counts().faults, 1);
    }
}

/// Shards smaller than a page once overwrote each other's mappings, and DMA went to the wrong cube.
#[test]
fn shards_smaller_than_a_page_keep_their_own_mappings() {
    let context = with_data();
    let values: Vec<u8> = (0..128).collect();
    let tensor = context.from_slice(&[128], &values).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.shards().unwrap().len(), 128);
    assert!(tensor.shards().unwrap().iter().all(|shard| shard.nbytes == Bytes::new(1)));
    for name in ["sip0.cube0.pe0", "sip0.cube15.pe7"] {
        let reader = context.machine(|machine| machine.view().pe(name)).unwrap();
        let mapped = context.machine(|machine| machine.view().mmu(reader).unwrap().mappings());
        assert_eq!(mapped, 128, "all on one page, each for itself");
        for (at, value) in (0..).zip(&values) {
            let read = tensor.read_from(reader, at..at + 1).unwrap();
            assert_eq!(read.bytes.unwrap(), [*value], "byte {at} on {name}");
        }
    }
    let counts = context.memory_stats().mmu;
    assert_eq!((counts.translations, counts.faults), (256, 0));
}

/// Mappings once replaced each other where they overlapped.
#[test]
fn a_mapping_that_overlaps_another_is_refused_with_all_that_came_with_it() {
    let mut machine = MachineBuilder::new(Topology::embedded()).data(true).build();
    let pe = machine.view().pe("sip0.cube0.pe0").unwrap();
    let base = 1 << 32;
    let places: Vec<_> =
        (0..3).map(|place| machine.view().hbm_address(pe, place << 20).unwrap()).collect();
    let mapping = |from, place: usize| Mapping { from, bytes: 4096, to: places[place] };
    let mut map = |mappings: Vec<Mapping>| {
        let mappings = mappings.into();
        let request = Request::Mappings { on: pe.into(), mappings, remove: false };
        let id = machine.submit(request).unwrap();
        machine.run();
        let mut mmu = machine.view().mmu(pe).unwrap().clone();
        let found = [base, base + 4096, base + (1 << 20)]
            .map(|address| mmu.translate(address, 1).ok().map(|found| found.pieces[0].0));
        (machine.completion(id).unwrap().outcome, found)
    };
    let (outcome, found) = map(vec![mapping(base, 0)]);
    assert_eq!(outcome, Outcome::Mapped { mappings: 1 });
    assert_eq!(found, [Some(places[0]), None, None]);
    // One byte too many at either end, after a mapping that would fit: neither is installed.
    for overlapping in [base + 4095, base - 4095] {
        let (outcome, found) = map(vec![mapping(base + (1 << 20), 2), mapping(overlapping, 1)]);
        let Outcome::Failed { origin, what } = outcome else { panic!("{outcome:?}") };
        assert_eq!(origin, "sip0.cube0.pe0.pe_dma");
        assert!(what.contains("overlap"), "{what}");
        assert_eq!(found, [Some(places[0]), None, None]);
    }
    // Directly after it there is room.
    let (outcome, found) = map(vec![mapping(base + 4096, 1)]);
    assert_eq!(outcome, Outcome::Mapped { mappings: 1 });
    assert_eq!(found, [Some(places[0]), Some(places[1]), None]);
}

#[test]
fn a_tensor_of_64_gib_needs_little_memory_of_the_host() {
    let context = Context::new(ContextConfig::default());
    let tensor = context.empty(&[1 << 18, 1 << 17], DType::F16).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.nbytes(), Bytes::gib(64));
    assert_eq!(tensor.shards().unwrap().len(), 128);
    drop(tensor);
    assert!(context.is_pristine());
}
