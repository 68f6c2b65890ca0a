//! What is taken, and what was not given back.

use std::fmt;

use cubeyard_device::model::MmuCounts;
use cubeyard_device::request::PeRef;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::device::DeviceMemory;

use super::storage::{DeployedShard, Storage};
use super::{Context, Inner};
use crate::dtype::DType;
use crate::shape::Shape;

/// The memory of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeUsage {
    /// The PE.
    pub pe: PeRef,
    /// Bytes of its HBM that tensors have.
    pub used: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The largest free range.
    pub largest: u64,
}

/// The regions that were taken of a SIP's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionsUsage {
    /// The SIP.
    pub sip: SipId,
    /// How many regions there are.
    pub regions: usize,
    /// Bytes of HBM that they have, blocks and what is free between them.
    pub used: u64,
}

impl fmt::Display for RegionsUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sip, regions, used } = *self;
        let plural = if regions == 1 { "" } else { "s" };
        write!(f, "{regions} region{plural} of {sip}, {}", Bytes::new(used))
    }
}

/// What tensors, rings and regions of a context have taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Tensors that are on the device; views count as the tensor they are of.
    pub tensors: usize,
    /// Bytes of HBM, all copies and rounding counted, and all of each region.
    pub used: u64,
    /// Bytes of virtual addresses.
    pub virtual_used: u64,
    /// The PEs that were used, in order.
    pub pes: Vec<PeUsage>,
    /// The SIPs that regions were taken of, in order.
    pub regions: Vec<RegionsUsage>,
    /// What all MMUs have done.
    pub mmu: MmuCounts,
}

/// What lies where in the HBM of a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeSnapshot {
    /// The PE.
    pub pe: PeRef,
    /// The shards of tensors, by address.
    pub shards: Vec<ShardSnapshot>,
    /// The ranges that are free, by address: where they begin in the PE's slice, and how long they are.
    pub holes: Vec<(u64, u64)>,
}

/// A shard that lies in a PE's HBM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSnapshot {
    /// The tensor's number; views have that of their tensor.
    pub tensor: u64,
    /// Its shape.
    pub shape: Shape,
    /// What its elements are.
    pub dtype: DType,
    /// Where the shard is.
    pub shard: DeployedShard,
}

/// What a context had to give back itself when it was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeakReport {
    /// Tensors that were still alive, in words.
    pub tensors: Vec<String>,
    /// Regions that were not given back, in words. They belong to whoever has their blocks.
    pub regions: Vec<String>,
    /// What could not be given back.
    pub release_errors: Vec<String>,
}

impl LeakReport {
    /// Whether there is nothing to report.
    pub fn is_clean(&self) -> bool {
        self.tensors.is_empty() && self.regions.is_empty() && self.release_errors.is_empty()
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            return f.write_str("nothing was left");
        }
        let all = self.tensors.iter().chain(&self.regions).chain(&self.release_errors);
        f.write_str(&all.map(String::as_str).collect::<Vec<_>>().join("\n"))
    }
}

/// A tensor that was not dropped, in words.
pub(super) fn leak(storage: &Storage) -> String {
    let layout = &storage.layout;
    let (shape, dtype, pes) = (layout.shape(), layout.dtype(), storage.shards.len());
    format!("a tensor of {shape} {dtype} on {pes} PEs, {} bytes", layout.held_bytes())
}

impl Context {
    /// What tensors have taken.
    pub fn memory_stats(&self) -> MemoryStats {
        self.inner.memory_stats()
    }

    /// What lies where: the PEs that were used, in order.
    pub fn snapshot(&self) -> Vec<PeSnapshot> {
        let live = self.inner.live();
        let of = |pe: PeRef| {
            let shards = live.iter().flat_map(|storage| {
                let (tensor, layout) = (storage.number, &storage.layout);
                let (shape, dtype) = (layout.shape(), layout.dtype());
                let here = storage.shards.iter().filter(move |shard| shard.at == pe);
                here.map(move |&shard| ShardSnapshot { tensor, shape, dtype, shard })
            });
            let mut shards: Vec<_> = shards.collect();
            shards.sort_by_key(|shard| shard.shard.address);
            shards
        };
        let memory = self.inner.memory.borrow();
        let snapshot = |(&pe, memory): (&PeRef, &cubeyard_memory::pe::PeMemory)| PeSnapshot {
            pe,
            shards: of(pe),
            holes: memory.hbm().holes().map(|hole| (hole.offset.get(), hole.size.get())).collect(),
        };
        memory.iter().map(snapshot).collect()
    }

    /// Whether every allocator is as it was at the beginning.
    pub fn is_pristine(&self) -> bool {
        let stats = self.memory_stats();
        let whole = |pe: &PeUsage| pe.used == 0 && pe.largest == pe.free;
        let machine = self.inner.machine.borrow();
        let mapped = machine.view().mmus().any(|(_, mmu)| mmu.mappings() > 0);
        let space = self.inner.virtual_space.borrow();
        let whole_space = space.as_ref().is_none_or(|space| space.largest() == space.capacity());
        let srams = self.inner.srams.borrow();
        let used = srams.values().any(|sram| !sram.sram().used().is_zero());
        let wired = !self.inner.ports.borrow().is_empty();
        stats.tensors == 0
            && stats.regions.is_empty()
            && stats.pes.iter().all(whole)
            && whole_space
            && !(mapped || used || wired)
    }
}

impl Inner {
    fn memory_stats(&self) -> MemoryStats {
        let memory = self.memory.borrow();
        let usage = |(&pe, memory): (&PeRef, &cubeyard_memory::pe::PeMemory)| {
            let list = memory.hbm();
            let (used, free) = (list.used().get(), list.free_bytes().get());
            PeUsage { pe, used, free, largest: list.largest().get() }
        };
        let pes: Vec<_> = memory.iter().map(usage).collect();
        let machine = self.machine.borrow();
        let mut mmu = MmuCounts::default();
        for counts in machine.view().mmus().map(|(_, mmu)| mmu.counts()) {
            mmu.translations += counts.translations;
            mmu.faults += counts.faults;
            mmu.tlb_hits += counts.tlb_hits;
            mmu.tlb_misses += counts.tlb_misses;
        }
        let space = self.virtual_space.borrow();
        let regions = self.regions_usage();
        MemoryStats {
            tensors: self.live().len(),
            used: pes.iter().map(|pe| pe.used).chain(regions.iter().map(|of| of.used)).sum(),
            virtual_used: space.as_ref().map_or(0, |space| space.used().get()),
            pes,
            regions,
            mmu,
        }
    }

    /// The SIPs that regions were taken of, in order.
    pub(super) fn regions_usage(&self) -> Vec<RegionsUsage> {
        let regions = self.regions.borrow();
        let usage = |(&sip, memory): (&SipId, &std::sync::Weak<crate::sip_memory::SipMemory>)| {
            let memory = memory.upgrade()?;
            let (regions, info) = (memory.regions(), memory.info());
            (regions > 0).then(|| RegionsUsage {
                sip,
                regions,
                used: (info.total - info.free).get(),
            })
        };
        regions.iter().filter_map(usage).collect()
    }
}
