//! Points of ADR-0008, ADR-0011 and ADR-0048 that other tests do not cover. The tables are in
//! `docs/runtime-decisions.md`.

use std::ops::Range;

use cubeyard_device::log::TransferKind;
use cubeyard_device::machine::Machine;
use cubeyard_device::message::Direction;
use cubeyard_device::model::MmuCounts;
use cubeyard_device::request::{MemoryRange, PeRef, Request};
use cubeyard_device::topology::{NodeKind, Topology};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::virtual_space::{DeviceVa, VirtualAllocator, VirtualSpec};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Addressing, Context, ContextConfig, Launch, RuntimeError, Tensor};
use cubeyard_sim::Span;

use crate::programs::busy;
use crate::tensors::with_data;

fn sharded() -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() }
}

fn on_two_sips() -> Placement {
    let sips = [0, 1].map(|sip| SipId::new(sip).unwrap()).to_vec();
    Placement { sip: Split::Replicate, sips, ..sharded() }
}

fn context_of(text: &str, addressing: Addressing) -> Context {
    let topology = Topology::read("test.yaml", text).unwrap();
    Context::new(ContextConfig { topology, data: true, addressing, ..ContextConfig::default() })
}

fn pe(context: &Context, name: &str) -> PeRef {
    context.machine(|machine| machine.view().pe(name)).unwrap()
}

fn mappings(context: &Context, name: &str) -> usize {
    context
        .machine(|machine| machine.view().mmu(machine.view().pe(name).unwrap()).unwrap().mappings())
}

fn bytes() -> Vec<u8> {
    (0..=255).cycle().take(8192).collect()
}

fn part(range: Range<u64>) -> Vec<u8> {
    let place = |at| usize::try_from(at).unwrap();
    bytes()[place(range.start)..place(range.end)].to_vec()
}

fn deployed(context: &Context, placement: &Placement) -> Tensor {
    context.from_slice(&[128, 64], &bytes()).unwrap().to(placement).unwrap()
}

// ADR-0008 D1, D2

#[test]
fn a_deployed_tensor_has_its_shape_its_type_and_where_each_shard_is() {
    let context = with_data();
    let tensor = deployed(&context, &sharded());
    assert_eq!((tensor.shape().to_string(), tensor.dtype()), ("128x64".to_owned(), DType::U8));
    for shard in tensor.shards().unwrap() {
        assert_eq!(shard.address.sip(), shard.at.sip);
        let slice = context.machine(|machine| machine.view().hbm_address(shard.at, 0)).unwrap();
        assert_eq!(shard.address, slice, "the first of the PE's own slice");
        assert_eq!(shard.nbytes, Bytes::new(64));
    }
}

#[test]
fn the_same_program_gets_the_same_addresses() {
    let program = || {
        let context = with_data();
        let first = deployed(&context, &sharded());
        let second = deployed(&context, &on_two_sips());
        drop(first);
        let third = deployed(&context, &sharded());
        let places = |tensor: &Tensor| {
            (tensor.va_base().unwrap(), tensor.shards().unwrap().to_vec(), context.now())
        };
        [places(&second), places(&third)]
    };
    assert_eq!(program(), program());
}

// ADR-0008 D3

/// While a launch is in flight, the log of transfers is kept and shows what was sent.
#[test]
fn data_comes_and_goes_by_host_writes_and_reads_alone() {
    let context = with_data();
    let sip = SipId::new(0).unwrap();
    let launch = Launch::new(sip);
    let handle = busy(&context.stream(), &launch, 1 << 20).unwrap();
    let tensor = deployed(&context, &sharded());
    assert_eq!(tensor.read_bytes().unwrap(), bytes());
    context.machine(|machine| {
        let carried = |kind| -> (u64, usize) {
            let of_kind =
                machine.view().log().transfers().iter().filter(|record| record.kind == kind);
            of_kind.fold((0, 0), |(bytes, count), record| (bytes + record.bytes, count + 1))
        };
        // 128 writes with the data and 128 read commands; 128 answers with the data. A posted write has none.
        assert_eq!(carried(TransferKind::Access), (8192, 256));
        assert_eq!(carried(TransferKind::Answer), (8192, 128));
        assert_eq!(carried(TransferKind::Custom), (0, 0));
        for record in machine.view().log().transfers() {
            let first = machine.view().network().link(record.route[0]).from;
            let by_host = machine.topology().node(first).kind == NodeKind::PcieEndpoint;
            assert!(by_host || record.kind != TransferKind::Access);
        }
    });
    handle.wait().unwrap();
}

#[test]
fn a_write_whose_tag_is_not_of_its_address_is_refused() {
    let mut machine = Machine::new(Topology::embedded());
    let at = machine.view().pe("sip0.cube0.pe0").unwrap();
    let address = machine.view().hbm_address(at, 0).unwrap();
    let other = machine.view().pe("sip0.cube0.pe1").unwrap();
    let error = machine.submit(Request::MemoryWrite(MemoryRange { at: other, address, bytes: 64 }));
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("but the request names sip0.cube0.pe1"), "{error}");
}

#[test]
fn without_data_nothing_is_stored_and_time_is_the_same() {
    let with = with_data();
    let without = Context::new(ContextConfig::default());
    for context in [&with, &without] {
        drop(deployed(context, &sharded()));
    }
    assert_eq!(with.now(), without.now());
    let tensor = deployed(&without, &sharded());
    let address = tensor.shards().unwrap()[0].address;
    let stored =
        |machine: &Machine| machine.view().memory_at(address).unwrap().contents().is_some();
    assert!(!without.machine(stored));
    assert!(with.machine(stored));
    let read = tensor.read_from(pe(&without, "sip0.cube3.pe0"), 0..64).unwrap();
    assert_eq!(read.bytes, None);
    assert!(read.latency > Span::ZERO);
}

// ADR-0011 D1, consequences: PA-only

#[test]
fn with_physical_addresses_nothing_is_mapped_and_dma_still_finds_every_shard() {
    let context = context_of("", Addressing::Physical);
    let tensor = deployed(&context, &sharded());
    assert_eq!(tensor.va_base().unwrap(), None);
    assert_eq!(tensor.mapping_latency().unwrap(), Span::ZERO);
    assert_eq!(mappings(&context, "sip0.cube0.pe0"), 0);
    let far = pe(&context, "sip0.cube9.pe2");
    for range in [0..64, 100..101, 30..300, 0..8192] {
        let read = tensor.read_from(far, range.clone()).unwrap();
        assert_eq!(read.bytes, Some(part(range)));
    }
    let stats = context.memory_stats();
    assert_eq!((stats.virtual_used, stats.mmu.translations), (Bytes::ZERO, 0));
}

/// A serial program of transfers by host and PEs. Returns its data, its duration, the part spent on installing
/// mappings, and the number of translations.
fn serial(addressing: Addressing, tlb_ns: u64) -> (Vec<Vec<u8>>, Span, Span, u64) {
    let text = format!("pe: {{mmu: {{tlb_overhead_ns: {tlb_ns}}}}}\n");
    let context = context_of(&text, addressing);
    let start = context.now();
    let tensor = deployed(&context, &sharded());
    let mut data = vec![tensor.read_bytes().unwrap().known().unwrap()];
    for (name, range) in [
        ("sip0.cube0.pe0", 0..64),
        ("sip0.cube0.pe0", 64..128),
        ("sip0.cube15.pe7", 0..64),
        ("sip0.cube7.pe1", 4000..4032),
    ] {
        data.push(tensor.read_from(pe(&context, name), range).unwrap().bytes.unwrap());
    }
    let translations = context.memory_stats().mmu.translations;
    (data, context.now() - start, tensor.mapping_latency().unwrap(), translations)
}

#[test]
fn a_serial_program_differs_between_the_modes_by_mapping_and_translation_exactly() {
    for tlb_ns in [0, 7] {
        let (physical, without, _, none) = serial(Addressing::Physical, tlb_ns);
        let (mapped, with, mapping, translations) = serial(Addressing::Virtual, tlb_ns);
        assert_eq!(physical, mapped);
        assert_eq!((none, translations), (0, 4));
        assert_eq!(with, without + mapping + Span::from_ps(tlb_ns * 1000) * translations);
    }
}

// ADR-0011 D3.1

#[test]
fn a_shards_virtual_address_is_the_base_and_its_offset() {
    let context = with_data();
    let tensor = deployed(&context, &sharded());
    let base = tensor.va_base().unwrap().unwrap();
    let reader = pe(&context, "sip0.cube11.pe6");
    for shard in tensor.shards().unwrap() {
        let [offset, nbytes] = [shard.offset_bytes, shard.nbytes].map(Bytes::get);
        let from = offset..offset + nbytes;
        let read = tensor.read_from(reader, from.clone()).unwrap().bytes.unwrap();
        assert_eq!(read, part(from));
        context.machine(|machine| {
            let mut mmu = machine.view().mmu(reader).unwrap().clone();
            let piece = mmu.translate(base.to_bits() + offset, nbytes).unwrap().pieces;
            assert_eq!(piece, [(shard.address, nbytes)]);
        });
    }
}

#[test]
fn a_dma_over_several_shards_reads_them_as_one_range() {
    let context = with_data();
    let tensor = deployed(&context, &sharded());
    let reader = pe(&context, "sip0.cube2.pe2");
    let read = tensor.read_from(reader, 10..1000).unwrap();
    assert_eq!(read.bytes.unwrap(), bytes()[10..1000]);
    let view = tensor.rows(4..8).unwrap();
    assert_eq!(view.read_from(reader, 1..256).unwrap().bytes.unwrap(), bytes()[257..512]);
    for (start, end) in [(0, 0), (8, 4), (200, 257)] {
        let error = view.read_from(reader, start..end).unwrap_err();
        assert!(matches!(error, RuntimeError::Range { nbytes: 256, .. }), "{error}");
    }
}

// ADR-0011 D3.2

#[test]
fn a_tlb_with_room_for_two_pages_counts_and_charges_its_misses() {
    let mmu = "pe: {mmu: {page_bytes: 4 KiB, tlb_entries: 2, tlb_miss_ns: 50}}\n";
    let context = context_of(mmu, Addressing::Virtual);
    let place = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    let tensor = context.zeros(&[3 * 4096], DType::U8).unwrap().to(&place).unwrap();
    let reader = pe(&context, "sip0.cube0.pe0");
    let counts = || {
        let counts = context.memory_stats().mmu;
        (counts.tlb_hits, counts.tlb_misses)
    };
    let read = |at: u64| tensor.read_from(reader, at..at + 64).unwrap().latency;
    let page = 4096;
    let (missed, held) = (read(0), read(0));
    assert_eq!(missed, held + Span::from_ps(50_000));
    assert_eq!(counts(), (1, 1));
    // Pages 1 and 2 evict page 0.
    read(page);
    read(2 * page);
    assert_eq!(counts(), (1, 3));
    assert_eq!(read(2 * page), held);
    assert_eq!(read(0), missed);
    assert_eq!(counts(), (2, 4));
    // A range over two pages looks up both: one is cached.
    tensor.read_from(reader, page - 32..page + 32).unwrap();
    assert_eq!(counts(), (3, 5));
}

#[test]
fn a_page_that_was_unmapped_is_no_longer_in_the_tlb() {
    let mmu = "pe: {mmu: {tlb_entries: 8, tlb_miss_ns: 50}}\n";
    let context = context_of(mmu, Addressing::Virtual);
    let place = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    let reader = pe(&context, "sip0.cube0.pe0");
    for round in 1..4 {
        let tensor = context.zeros(&[64], DType::U8).unwrap().to(&place).unwrap();
        tensor.read_from(reader, 0..64).unwrap();
        let counts = context.memory_stats().mmu;
        assert_eq!((counts.tlb_hits, counts.tlb_misses), (0, round), "the same page each time");
    }
}

#[test]
fn a_page_fault_is_counted_in_the_contexts_statistics() {
    // By default a virtual address is never a physical one; from 4 GiB on, as in ADR-0048, it may be.
    let above = ContextConfig::default().virtual_base;
    for (strict, virtual_base) in
        [(false, VirtualSpec::CONTEXT_BASE), (true, VirtualSpec::CONTEXT_BASE), (false, above)]
    {
        let text = format!("pe: {{mmu: {{strict: {strict}}}}}\n");
        let topology = Topology::read("test.yaml", &text).unwrap();
        let config = ContextConfig { topology, data: true, virtual_base, ..Default::default() };
        let context = Context::new(config);
        let tensor = deployed(&context, &Placement { cubes: Some(1), ..sharded() });
        // A cube that the tensor is not placed on has no mapping. If not strict, an address that is also a physical one
        // refers to another memory: the read succeeds, and is counted.
        let stranger = pe(&context, "sip0.cube1.pe0");
        let read = tensor.read_from(stranger, 0..64);
        assert_eq!(read.is_err(), strict || virtual_base == above, "{read:?}");
        assert_eq!(context.memory_stats().mmu.faults, 1);
        tensor.read_from(pe(&context, "sip0.cube0.pe7"), 0..64).unwrap();
        assert_eq!(context.memory_stats().mmu.faults, 1);
    }
}

// ADR-0011 D3.3

#[test]
fn a_tensor_replicated_on_two_sips_is_mapped_on_each_to_its_own_copy() {
    let context = with_data();
    let tensor = deployed(&context, &on_two_sips());
    let base = tensor.va_base().unwrap().unwrap();
    assert_eq!(tensor.shards().unwrap().len(), 256);
    for name in ["sip0.cube3.pe1", "sip1.cube3.pe1"] {
        let reader = pe(&context, name);
        context.machine(|machine| {
            let mut mmu = machine.view().mmu(reader).unwrap().clone();
            assert_eq!(mmu.mappings(), 128);
            let pieces = mmu.translate(base.to_bits(), 8192).unwrap().pieces;
            assert_eq!(pieces.len(), 128);
            assert!(pieces.iter().all(|(address, _)| address.sip() == reader.sip));
        });
        let read = tensor.read_from(reader, 0..8192).unwrap();
        assert_eq!(read.bytes.unwrap(), bytes());
    }
    drop(tensor);
    assert!(context.is_pristine());
}

// ADR-0011 D3.4, ADR-0048 D5

#[test]
fn dropping_takes_time_on_the_fabric_and_gives_addresses_and_memory_back() {
    let context = with_data();
    let tensor = deployed(&context, &sharded());
    let (base, shards) = (tensor.va_base().unwrap(), tensor.shards().unwrap().to_vec());
    let before = context.now();
    let mapping = tensor.mapping_latency().unwrap();
    drop(tensor);
    assert_eq!(context.now() - before, mapping, "the same way, and as many mappings");
    assert!(context.is_pristine());
    let again = deployed(&context, &sharded());
    assert_eq!((again.va_base().unwrap(), again.shards().unwrap()), (base, &shards[..]));
}

#[test]
fn a_closed_context_gives_back_what_is_alive_and_the_next_one_starts_afresh() {
    let places = || {
        let context = with_data();
        assert_eq!(context.memory_stats().pes, [], "allocators are made when they are needed");
        let tensor = deployed(&context, &sharded());
        assert_eq!(context.memory_stats().pes.len(), 128);
        let places = (tensor.va_base().unwrap(), tensor.shards().unwrap().to_vec());
        let report = context.close();
        assert_eq!((report.tensors.len(), report.release_errors.len()), (1, 0), "{report}");
        places
    };
    assert_eq!(places(), places());
}

#[test]
fn a_second_deployment_uses_the_allocators_of_the_first() {
    let context = with_data();
    let first = deployed(&context, &sharded());
    let second = deployed(&context, &sharded());
    let (base, next) = (first.va_base().unwrap().unwrap(), second.va_base().unwrap().unwrap());
    assert_eq!(Some(next), base.checked_add(Bytes::new(8192)));
    assert_ne!(first.shards().unwrap()[0].address, second.shards().unwrap()[0].address);
    assert_eq!(context.memory_stats().tensors, 2);
}

// ADR-0011 D3.5, ADR-0048 D4

#[test]
fn a_page_has_two_defaults_and_the_topology_has_the_last_word() {
    let alone = VirtualAllocator::new(DeviceVa::new(1 << 32), Bytes::gib(64)).unwrap();
    assert_eq!(alone.page(), Bytes::mib(2));
    let of_a_context = VirtualAllocator::for_context(Bytes::gib(64), None).unwrap();
    assert_eq!(of_a_context.page(), Bytes::kib(4));
    for (text, page) in [("", 4096), ("pe: {mmu: {page_bytes: 64 KiB}}\n", 65_536)] {
        let context = context_of(text, Addressing::Virtual);
        let place = Placement::one(SipId::new(0).unwrap());
        let small = || context.zeros(&[1], DType::U8).unwrap().to(&place).unwrap();
        let (first, second) = (small(), small());
        let base = |tensor: &Tensor| tensor.va_base().unwrap().unwrap().to_bits();
        assert_eq!(base(&second) - base(&first), page);
        assert_eq!(context.memory_stats().virtual_used, Bytes::new(2 * page));
    }
}

/// Mappings are stored as ranges: two mappings that share a page are both kept.
#[test]
fn shards_on_one_page_are_each_found_where_they_are() {
    let context = context_of("pe: {mmu: {page_bytes: 2 MiB}}\n", Addressing::Virtual);
    let tensor = deployed(&context, &sharded());
    let reader = pe(&context, "sip0.cube0.pe0");
    assert_eq!(mappings(&context, "sip0.cube0.pe0"), 128);
    assert_eq!(tensor.read_from(reader, 0..8192).unwrap().bytes.unwrap(), bytes());
}

// ADR-0011, consequences

#[test]
fn a_dma_by_physical_address_does_not_ask_the_mmu() {
    let mut machine = Machine::new(Topology::embedded());
    let from = machine.view().pe("sip0.cube0.pe0").unwrap();
    let address = machine.view().hbm_address(from, 0).unwrap();
    let (direction, bytes) = (Direction::Read, 64);
    machine.submit(Request::PeDma { from, direction, address, bytes }).unwrap();
    machine.run();
    assert_eq!(machine.view().mmu(from).unwrap().counts(), MmuCounts::default());
    let address = address.to_bits();
    machine.submit(Request::VirtualDma { from, direction, address, bytes }).unwrap();
    machine.run();
    assert_eq!(machine.view().mmu(from).unwrap().counts().translations, 1);
}

#[test]
fn every_test_that_docs_runtime_decisions_md_names_is_there() {
    let page = include_str!("../../../../docs/runtime-decisions.md");
    let sources = [
        include_str!("decisions.rs"),
        include_str!("deploy.rs"),
        include_str!("failures.rs"),
        include_str!("flex.rs"),
        include_str!("host.rs"),
        include_str!("launch.rs"),
        include_str!("tensors.rs"),
        include_str!("../../src/placement/tests.rs"),
        include_str!("../../../memory/tests/it/pe_memory/histories.rs"),
        include_str!("../../../tl/tests/it/strays.rs"),
    ];
    let quoted = page.split('`').skip(1).step_by(2);
    let names: Vec<&str> = quoted.filter(|name| name.matches('_').count() > 4).collect();
    assert!(names.len() > 35, "{}", names.len());
    for name in names {
        let there = sources.iter().any(|source| source.contains(&format!("fn {name}(")));
        assert!(there, "there is no test {name}");
    }
}
