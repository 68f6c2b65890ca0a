//! Memory usage of a context, and leaks when it is closed.

use std::fmt;

use cubeyard_device::model::MmuCounts;
use cubeyard_device::request::PeRef;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::device::DeviceMemory;
use cubeyard_memory::virtual_space::VirtualAllocator;

use super::storage::{DeployedShard, Storage, TensorId};
use super::{Context, Inner};
use crate::dtype::DType;
use crate::shape::Shape;

/// HBM usage of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeUsage {
    /// PE that owns the HBM slice.
    pub pe: PeRef,
    /// Size of all allocations.
    pub used: Bytes,
    /// Size of all free ranges.
    pub free: Bytes,
    /// Size of the largest free range.
    pub largest: Bytes,
}

/// HBM usage of the regions of a SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionsUsage {
    /// SIP whose memory is managed in regions.
    pub sip: SipId,
    /// Number of regions of the SIP.
    pub regions: usize,
    /// Size of the regions, including free ranges in them.
    pub used: Bytes,
}

impl fmt::Display for RegionsUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sip, regions, used } = *self;
        let plural = if regions == 1 { "" } else { "s" };
        write!(f, "{regions} region{plural} of {sip}, {used}")
    }
}

/// Memory usage of the tensors, rings and regions of a context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Number of tensors on the device; a tensor and its views count once.
    pub tensors: usize,
    /// Allocated HBM, including all copies, padding and whole regions.
    pub used: Bytes,
    /// Size of the allocated virtual address ranges.
    pub virtual_used: Bytes,
    /// PEs that were used, in order.
    pub pes: Vec<PeUsage>,
    /// SIPs with regions, in order.
    pub regions: Vec<RegionsUsage>,
    /// Translations and faults, summed over all MMUs.
    pub mmu: MmuCounts,
}

/// Contents of the HBM of a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeSnapshot {
    /// PE that owns the HBM slice.
    pub pe: PeRef,
    /// Shards of tensors, by address.
    pub shards: Vec<ShardSnapshot>,
    /// Free ranges by address: offset in the slice and size.
    pub holes: Vec<(Bytes, Bytes)>,
}

/// A shard in the HBM of a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// Id of the tensor; its clones and views have the same id.
    pub tensor: TensorId,
    /// Shape of the tensor.
    pub shape: Shape,
    /// Element type of the tensor.
    pub dtype: DType,
    /// Address and size of the shard.
    pub shard: DeployedShard,
}

/// Memory that was still allocated when a context was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeakReport {
    /// Descriptions of the tensors that were still alive; they have been freed.
    pub tensors: Vec<String>,
    /// Descriptions of regions that are still allocated; they belong to the holders of their blocks.
    pub regions: Vec<String>,
    /// Errors of failed releases, in order.
    pub release_errors: Vec<String>,
}

impl LeakReport {
    /// Returns whether nothing was left and no release failed.
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

pub(super) fn leak(storage: &Storage) -> String {
    let layout = &storage.layout;
    let (shape, dtype, pes) = (layout.shape(), layout.dtype(), storage.shards.len());
    format!("a tensor of {shape} {dtype} on {pes} PEs, {} bytes", layout.held_bytes())
}

impl Context {
    /// Returns the memory usage.
    pub fn memory_stats(&self) -> MemoryStats {
        self.inner.memory_stats()
    }

    /// Returns the contents of the HBM of each PE that was used, in order.
    pub fn snapshot(&self) -> Vec<PeSnapshot> {
        let live = self.inner.live();
        let of = |pe: PeRef| {
            let shards = live.iter().flat_map(|storage| {
                let (tensor, layout) = (storage.id, &storage.layout);
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
            holes: memory.hbm().holes().map(|hole| (hole.offset, hole.size)).collect(),
        };
        memory.iter().map(snapshot).collect()
    }

    /// Returns whether nothing is allocated, mapped or connected.
    pub fn is_pristine(&self) -> bool {
        let stats = self.memory_stats();
        let whole = |pe: &PeUsage| pe.used.is_zero() && pe.largest == pe.free;
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
            PeUsage { pe, used: list.used(), free: list.free_bytes(), largest: list.largest() }
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
            virtual_used: space.as_ref().map_or(Bytes::ZERO, VirtualAllocator::used),
            pes,
            regions,
            mmu,
        }
    }

    pub(super) fn regions_usage(&self) -> Vec<RegionsUsage> {
        let regions = self.regions.borrow();
        let usage = |(&sip, memory): (&SipId, &std::sync::Weak<crate::sip_memory::SipMemory>)| {
            let memory = memory.upgrade()?;
            let (regions, info) = (memory.regions(), memory.info());
            (regions > 0).then(|| RegionsUsage { sip, regions, used: info.total - info.free })
        };
        regions.iter().filter_map(usage).collect()
    }
}
