//! Kernels on memory that the machine shares with its owner.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use cubeyard_device::shared_memory::{SharedBlock, SharedMemory};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Argument, Context, ContextConfig, Launch, RuntimeError};
use cubeyard_tl::Ref;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;
use proptest::prelude::*;

use crate::lab::kernel;

const FIRST: u64 = 0x7000_0000_0000;

/// Memory with bytes in a map.
#[derive(Debug)]
struct Owner {
    bytes: Mutex<BTreeMap<u64, u8>>,
    blocks: Vec<Range<u64>>,
}

impl SharedMemory for Owner {
    fn read(&self, address: u64, into: &mut [u8]) {
        let bytes = self.bytes.lock().unwrap();
        for (at, byte) in (address..).zip(into) {
            *byte = bytes.get(&at).copied().unwrap_or(0);
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        self.bytes.lock().unwrap().extend((address..).zip(bytes.iter().copied()));
    }

    fn blocks(&self) -> Vec<SharedBlock> {
        let block =
            |addresses: &Range<u64>| SharedBlock { addresses: addresses.clone(), parts: None };
        self.blocks.iter().map(block).collect()
    }
}

impl Owner {
    fn floats(&self, address: u64, count: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * count];
        self.read(address, &mut bytes);
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }
}

fn sip() -> SipId {
    SipId::new(1).unwrap()
}

fn machine(page: u64, order: &str) -> Context {
    let text = format!("hbm: {{page_bytes: {page}, deal: {order}}}");
    let topology = Topology::read("test", &text).unwrap();
    Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() })
}

/// A kernel in which program *n* doubles a matrix of `shape` at each of two addresses, with rows at a distance.
fn doubled(shape: [u64; 2], pitch: u64) -> Kernel {
    kernel("doubled", move |tl, args| {
        let [from, to] = [0, 1].map(|position| args.tensor(position).whole().address());
        let program = tl.program_id(0) + 8 * tl.program_id(1);
        let at = program * shape[0] * pitch * 4;
        let there = |start: u64| Ref::new(start + at, &shape, DType::F32).strided(&[pitch, 1]);
        let tile = tl.load(&there(from));
        tl.store(&there(to), &(&tile + &tile));
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Bytes of the owner are the machine's, whatever the page, the order of PEs, and the alignment.
    #[test]
    fn a_kernel_uses_the_owners_bytes(
        page in 8_u32..22,
        cubes in any::<bool>(),
        start in 0_u64..3000,
        rows in 1_u64..5,
        columns in 1_u64..70,
        gap in 0_u64..40,
    ) {
        let pitch = columns + gap;
        let count = usize::try_from(128 * rows * pitch).unwrap();
        let (from, to) = (FIRST + 4 * start, FIRST + (1 << 30));
        let size = 4 * count as u64;
        let blocks = vec![from..from + size, to..to + size];
        let owner = Owner { bytes: Mutex::default(), blocks };
        let values: Vec<f32> = (0_u16..).take(count).map(f32::from).collect();
        owner.write(from, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
        let owner = Arc::new(owner);
        let context = machine(1 << page, if cubes { "cubes" } else { "pes" });
        context.share(sip(), Arc::clone(&owner) as _).unwrap();
        let launch = Launch::new(sip()).arguments([Argument::Address(from), Argument::Address(to)]);
        Launcher::new(&context).run(&doubled([rows, columns], pitch), &launch).unwrap();
        let is_inside = |at: usize| at as u64 % pitch < columns;
        let wanted: Vec<_> = values.iter().enumerate()
            .map(|(at, value)| if is_inside(at) { 2.0 * value } else { 0.0 }).collect();
        prop_assert_eq!(owner.floats(to, count), wanted);
        prop_assert_eq!(owner.floats(from, count), values);
    }
}

fn plain(blocks: Vec<Range<u64>>) -> Arc<Owner> {
    Arc::new(Owner { bytes: Mutex::default(), blocks })
}

#[test]
fn only_blocks_may_be_accessed() {
    let context = machine(4096, "pes");
    context
        .share(
            sip(),
            plain(vec![
                FIRST..FIRST + 128 * 256,
                FIRST + (1 << 20)..FIRST + (1 << 20) + 128 * 256 - 4,
            ]) as _,
        )
        .unwrap();
    let launch =
        |to| Launch::new(sip()).arguments([Argument::Address(FIRST), Argument::Address(to)]);
    let launcher = Launcher::new(&context);
    let error = launcher.run(&doubled([1, 64], 64), &launch(FIRST + (1 << 20))).unwrap_err();
    assert!(error.to_string().contains("outside"), "{error}");
    launcher.run(&doubled([1, 64], 64), &launch(FIRST)).unwrap();
}

#[test]
fn shared_memory_has_one_owner() {
    let context = machine(4096, "pes");
    let other = SipId::new(0).unwrap();
    let there = |sip| Placement { sips: vec![sip], ..Placement::default() };
    let kept = context.zeros(&[4], DType::F32).unwrap().to(&there(sip())).unwrap();
    let share = || context.share(sip(), plain(Vec::new()) as _);
    assert!(matches!(share(), Err(RuntimeError::TakenBySlices(_))));
    drop(kept);
    share().unwrap();
    let tensor = context.zeros(&[4], DType::F32).unwrap();
    assert!(matches!(tensor.to(&there(sip())), Err(RuntimeError::TakenByOwner(_))));
    let none = SipId::new(9).unwrap();
    assert!(matches!(context.share(none, plain(Vec::new()) as _), Err(RuntimeError::NoSuchSip(_))));
    tensor.to(&there(other)).unwrap();
}
