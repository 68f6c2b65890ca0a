//! Virtual addresses, mappings, and what they cost (ADR-0008, ADR-0011).

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_device::machine::MachineBuilder;
use cubeyard_device::message::Direction;
use cubeyard_device::request::{Outcome, Request};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Addressing, Context, ContextConfig};
use cubeyard_sim::{Span, Time};

use crate::tensors::with_data;

fn sharded() -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() }
}

#[test]
fn addresses_follow_each_other_over_all_shards() {
    let context = Context::new(ContextConfig::default());
    let tensor = context.empty(&[128, 64], DType::F16).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.va_base().unwrap(), Some(4 << 30));
    let mut next = 0;
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
            let pe = machine.pe("sip0.cube3.pe2").unwrap();
            let other = machine.pe("sip1.cube3.pe2").unwrap();
            (machine.mmu(pe).unwrap().mappings(), machine.mmu(other).unwrap().mappings())
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

/// The way of `MmuMap`, added up by hand for PE 0 of cube 0.
#[test]
fn installing_a_mapping_takes_the_way_through_the_fabric() {
    let context = Context::new(ContextConfig::default());
    let pe0 = Placement { cubes: Some(1), pes: Some(1), ..Placement::default() };
    let tensor = context.empty(&[64], DType::F16).unwrap().to(&pe0).unwrap();
    let stages: Vec<u64> =
        tensor.mapping_stages().unwrap().iter().map(|(_, span)| span.ps()).collect();
    // A message of 24 bytes takes 47 ps at 512 GB/s, 94 at 256 and 188 at 128 (rounded up each time), and
    // wires 5 ps, or 10 between routers. The endpoint charges 2.5 ns, the NOC 2, IO_CPU 10.
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

/// A program of reads and writes through addresses of either kind.
fn program(addressing: Addressing, tlb_ns: u32) -> (Vec<u8>, Span, Span) {
    let text = format!("pe: {{mmu: {{tlb_overhead_ns: {tlb_ns}}}}}\n");
    let topology = Topology::read("test.yaml", &text).unwrap();
    let context = Context::new(ContextConfig { topology, data: true, addressing });
    let values: Vec<u8> = (0..=255).collect();
    let start = context.now();
    let tensor = context.from_slice(&[8, 32], &values).unwrap().to(&sharded()).unwrap();
    let mapping = tensor.mapping_latency().unwrap();
    tensor.write(&values.iter().rev().copied().collect::<Vec<_>>()).unwrap();
    let read = tensor.read::<u8>().unwrap().known().unwrap();
    (read, context.now() - start, mapping)
}

#[test]
fn physical_and_virtual_addressing_give_the_same_data_and_differ_by_what_is_reported() {
    let (physical, without, none) = program(Addressing::Physical, 0);
    let (mapped, with, mapping) = program(Addressing::Virtual, 0);
    assert_eq!(physical, mapped);
    assert_eq!(none, Span::ZERO);
    assert_eq!(with, without + mapping);
}

#[test]
fn a_pe_reads_another_ones_shard_through_its_virtual_address() {
    for tlb in [0_u32, 3] {
        let text = format!("pe: {{mmu: {{tlb_overhead_ns: {tlb}}}}}\n");
        let topology = Topology::read("test.yaml", &text).unwrap();
        let mut machine = MachineBuilder::new(topology).data(true).build();
        let (pe, holder) =
            (machine.pe("sip0.cube0.pe0").unwrap(), machine.pe("sip0.cube1.pe3").unwrap());
        let address = machine.hbm_address(holder, 4096).unwrap();
        let mapping = cubeyard_device::message::Mapping { from: 1 << 32, bytes: 1000, to: address };
        let map = Request::MmuMap {
            sip: pe.sip,
            cubes: vec![pe.cube],
            pes: vec![pe.pe],
            mappings: vec![mapping].into(),
        };
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
        machine.submit_with(Time::ZERO, 0, write, Some(&buffer(data.clone()))).unwrap();
        machine.run();
        let into = buffer(vec![0; 600]);
        let read = Request::VirtualDma {
            from: pe,
            direction: Direction::Read,
            address: (1 << 32) + 300,
            bytes: 600,
        };
        let read = machine.submit_with(machine.now(), 0, read, Some(&into)).unwrap();
        machine.run();
        assert_eq!(*into.borrow(), data[300..900]);
        let latency = machine.completion(read).unwrap().latency();
        let plain = Request::PeDma {
            from: pe,
            direction: Direction::Read,
            address: machine.hbm_address(holder, 4096 + 300).unwrap(),
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
        let pe = machine.pe("sip0.cube0.pe0").unwrap();
        let address = machine.hbm_address(pe, 0).unwrap().to_bits();
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
        assert_eq!(machine.mmu(pe).unwrap().counts().faults, 1);
    }
}

/// Shards smaller than a page once overwrote each other's mappings, and DMA went to the wrong cube.
#[test]
fn shards_smaller_than_a_page_keep_their_own_mappings() {
    let context = with_data();
    let values: Vec<u8> = (0..128).collect();
    let tensor = context.from_slice(&[128], &values).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.shards().unwrap().len(), 128);
    assert!(tensor.shards().unwrap().iter().all(|shard| shard.nbytes == 1));
    assert_eq!(tensor.read::<u8>().unwrap(), values);
}

#[test]
fn a_tensor_of_64_gib_needs_little_memory_of_the_host() {
    let context = Context::new(ContextConfig::default());
    let tensor = context.empty(&[1 << 18, 1 << 17], DType::F16).unwrap().to(&sharded()).unwrap();
    assert_eq!(tensor.nbytes(), 64 << 30);
    assert_eq!(tensor.shards().unwrap().len(), 128);
    drop(tensor);
    assert!(context.is_pristine());
}
