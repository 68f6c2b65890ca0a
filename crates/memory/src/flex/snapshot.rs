//! Snapshots: all regions, blocks and recent events at one moment, in the format of PyTorch's memory viewer.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::FlexAllocator;
use super::event::Event;
use super::history::{Action, HistoryEntry};
use super::region::RegionState;
use super::slots::Slot;
use super::tag::Tag;
use crate::Bytes;
use crate::index::{Extent, Hole};
use crate::policy::{PoolId, TagId};
use crate::stats::Pool;
use cubeyard_pickle::{self as pickle, DictWriter, Slot as Place};

/// The state of an allocator at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Regions in address order.
    pub segments: Vec<SnapshotSegment>,
    /// Most recent events; the configuration's `history` limits their number.
    pub history: Vec<HistoryEntry>,
    /// Configuration as keys and values.
    pub settings: Vec<(String, String)>,
    /// Names of the pools besides the default one.
    pub pools: Vec<(PoolId, String)>,
    /// Names of the tags; the first name is of the tag with number 1.
    pub tags: Vec<String>,
}

/// A region in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotSegment {
    /// Start in the flat address space. Regions of one allocator do not overlap.
    pub address: u64,
    /// Acquired or committed memory in bytes. The blocks fill it exactly.
    pub total_size: Bytes,
    /// Whether the region is growable.
    pub is_expandable: bool,
    /// Pool of the region.
    pub pool: PoolId,
    /// Blocks and free ranges, in order.
    pub blocks: Vec<SnapshotBlock>,
}

/// A block or free range in a [`Snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotBlock {
    /// Start in the flat address space.
    pub address: u64,
    /// Length in bytes.
    pub size: Bytes,
    /// Number of bytes requested; zero for a free range.
    pub requested: Bytes,
    /// Stream of the block.
    pub stream: u32,
    /// State of the block.
    pub state: BlockState,
    /// Call site of the block's allocation if recorded, otherwise 0.
    pub site: u32,
    /// Tag of an allocated block.
    pub tag: TagId,
}

/// A stack frame of a call site, as stored in snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the source file.
    pub filename: String,
    /// Line number in the source file.
    pub line: u32,
    /// Name of the function.
    pub name: String,
}

/// State of a block or free range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// The block has an owner.
    Allocated,
    /// The block was freed, but a stream may still access it.
    PendingFree,
    /// The range is free.
    Inactive,
}

impl BlockState {
    /// Returns the name in PyTorch's viewer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}

impl FlexAllocator {
    /// Takes a snapshot. All regions are locked during it, so that its events match its blocks: the viewer undoes the
    /// events one by one and fails on a mismatch.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.journal.tick();
        self.shared.collect_posts();
        let mut states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        for region in states.iter_mut().filter_map(|state| state.region.get_mut()) {
            region.index.join_quick();
        }
        let mut segments: Vec<_> =
            states.iter().flat_map(|state| segments_of(&state.region)).collect();
        let (history, sites) = self.shared.journal.entries();
        drop(states);
        for block in segments.iter_mut().flat_map(|segment| &mut segment.blocks) {
            block.site = sites.get(&block.address).copied().unwrap_or(0);
        }
        segments.sort_by_key(|segment| segment.address);
        self.shared.journal.record(Event::new(Action::Snapshot, Bytes::ZERO, 0));
        self.shared.deliver();
        let pools = self.shared.pools.all();
        let pools = pools.iter().map(|pool| (pool.id, pool.name.clone())).collect();
        let (settings, tags) = (self.settings(), self.shared.tags.names());
        Snapshot { segments, history, settings, pools, tags }
    }

    fn settings(&self) -> Vec<(String, String)> {
        let config = self.config();
        let growth = format!("{:?}", config.growth);
        let pairs = [
            ("max_regions", config.max_regions.to_string()),
            ("alignment", config.alignment.get().to_string()),
            ("region", config.region.name.to_owned()),
            ("block", config.block.name.to_owned()),
            ("growth", growth),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

/// Returns a region as segments: a single one, or one per run of committed granules.
fn segments_of(state: &RegionState) -> Vec<SnapshotSegment> {
    let Some(region) = state.get() else { return Vec::new() };
    let tagged = |part: Extent| match part {
        Extent::Live(live) => SnapshotBlock { tag: state.tag(&live), ..block(region.base, part) },
        Extent::Free(_) => block(region.base, part),
    };
    let blocks: Vec<_> = state.extents().into_iter().map(tagged).collect();
    let runs = region.backed().into_iter();
    runs.map(|(offset, size)| {
        let address = region.base + offset.get();
        let blocks = blocks.iter().filter_map(|block| clip(*block, address, size)).collect();
        let (is_expandable, pool) = (region.is_growable(), region.pool);
        SnapshotSegment { address, total_size: size, is_expandable, pool, blocks }
    })
    .collect()
}

fn block(base: u64, extent: Extent) -> SnapshotBlock {
    match extent {
        Extent::Free(hole) => SnapshotBlock {
            address: base + hole.offset.get(),
            size: hole.size,
            requested: Bytes::ZERO,
            stream: 0,
            state: BlockState::Inactive,
            site: 0,
            tag: TagId::NONE,
        },
        Extent::Live(block) => {
            let tag = Tag::from_bits(block.tag);
            if tag.is_shelved() {
                let hole = Hole { offset: block.offset, size: block.size };
                let free = self::block(base, Extent::Free(hole));
                return SnapshotBlock { stream: tag.stream(), ..free };
            }
            SnapshotBlock {
                address: base + block.offset.get(),
                size: block.size,
                requested: block.requested,
                stream: tag.stream(),
                state: if tag.is_pending() || tag.is_coming() {
                    BlockState::PendingFree
                } else {
                    BlockState::Allocated
                },
                site: 0,
                tag: TagId::NONE,
            }
        }
    }
}

/// Returns the part of a block that lies in a run; a live block lies entirely in one run.
fn clip(block: SnapshotBlock, address: u64, size: Bytes) -> Option<SnapshotBlock> {
    let start = block.address.max(address);
    let end = (block.address + block.size.get()).min(address + size.get());
    let size = end.checked_sub(start).filter(|&size| size > 0)?;
    Some(SnapshotBlock { address: start, size: Bytes::new(size), ..block })
}

impl Snapshot {
    /// Writes the snapshot of `device` as a pickle (protocol 4 or lower) that `torch/cuda/_memory_viz.py` and the
    /// browser viewer read.
    pub fn write_pickle(&self, device: u32, sink: impl Write) -> io::Result<()> {
        self.write_pickle_with(device, sink, &|_| Vec::new())
    }

    /// Writes the snapshot like [`write_pickle`](Self::write_pickle), with the stack of each call site, innermost frame
    /// first.
    pub fn write_pickle_with(
        &self,
        device: u32,
        sink: impl Write,
        stack: &dyn Fn(u32) -> Vec<Frame>,
    ) -> io::Result<()> {
        pickle::write_dict(sink, |snapshot| {
            snapshot.entry("segments").list(|list| {
                self.segments
                    .iter()
                    .try_for_each(|segment| write_segment(list.item(), device, segment, stack))
            })?;
            snapshot.entry("device_traces").list(|traces| {
                // The viewer looks up a device's trace by the device's number, so the traces before it are empty.
                (0..device).try_for_each(|_| traces.item().list(|_| Ok(())))?;
                traces.item().list(|list| {
                    let mut entries = pieces(&self.history).into_iter();
                    entries.try_for_each(|entry| self.write_entry(list.item(), &entry, stack))
                })
            })?;
            snapshot.entry("allocator_settings").dict(|settings| {
                self.settings.iter().try_for_each(|(key, value)| settings.entry(key).text(value))
            })
        })
        .map(drop)
    }

    /// Returns the name of a tag; `None` for no tag.
    pub fn tag_name(&self, tag: TagId) -> Option<&str> {
        let at = usize::from(tag.get()).checked_sub(1)?;
        self.tags.get(at).map(String::as_str)
    }

    fn write_entry<W: Write>(
        &self,
        place: Place<'_, W>,
        entry: &HistoryEntry,
        stack: &dyn Fn(u32) -> Vec<Frame>,
    ) -> io::Result<()> {
        place.dict(|dict| {
            dict.entry("action").text(entry.action.name())?;
            if entry.action == Action::OutOfMemory {
                // A request may be of any size, and the viewer fails on numbers that a double cannot represent.
                number(dict, "device_free", entry.address.min(EXACT))?;
                number(dict, "size", entry.size.get().min(EXACT))?;
            } else {
                number(dict, "addr", entry.address)?;
                number(dict, "size", entry.size.get())?;
            }
            number(dict, "stream", entry.stream)?;
            number(dict, "time_us", entry.time_us)?;
            if let Some(name) = self.tag_name(entry.tag) {
                dict.entry("user_metadata").text(name)?;
            }
            write_frames(dict, entry.site, stack)
        })
    }
}

/// Returns the events. Events about granules are split at every boundary of another such event.
///
/// The viewer undoes a `segment_unmap` by adding a segment, which it does not merge with its neighbours unless there
/// are several streams. It undoes a `segment_map` by looking for one segment that contains it. Pieces that never
/// straddle a boundary are always found.
fn pieces(history: &[HistoryEntry]) -> Vec<HistoryEntry> {
    let maps =
        |entry: &HistoryEntry| matches!(entry.action, Action::SegmentMap | Action::SegmentUnmap);
    let mut cuts = BTreeSet::new();
    for entry in history.iter().filter(|entry| maps(entry)) {
        cuts.extend([entry.address, entry.address + entry.size.get()]);
    }
    let mut pieces = Vec::with_capacity(history.len());
    for entry in history {
        let mut rest = *entry;
        if maps(entry) {
            let end = entry.address + entry.size.get();
            for &cut in cuts.range(entry.address + 1..end) {
                let size = Bytes::new(cut - rest.address);
                pieces.push(HistoryEntry { size, ..rest });
                rest = HistoryEntry { address: cut, size: rest.size - size, ..rest };
            }
        }
        pieces.push(rest);
    }
    pieces
}

fn write_segment<W: Write>(
    place: Place<'_, W>,
    device: u32,
    segment: &SnapshotSegment,
    stack: &dyn Fn(u32) -> Vec<Frame>,
) -> io::Result<()> {
    let active = segment.blocks.iter().filter(|block| block.state != BlockState::Inactive);
    let allocated = segment.blocks.iter().filter(|block| block.state == BlockState::Allocated);
    let requested: Bytes = active.clone().map(|block| block.requested).sum();
    place.dict(|dict| {
        number(dict, "device", device)?;
        number(dict, "address", segment.address)?;
        number(dict, "total_size", segment.total_size.get())?;
        number(dict, "allocated_size", allocated.map(|block| block.size).sum::<Bytes>().get())?;
        number(dict, "active_size", active.map(|block| block.size).sum::<Bytes>().get())?;
        number(dict, "requested_size", requested.get())?;
        number(dict, "stream", 0_u32)?;
        dict.entry("segment_type").text(if Pool::of(segment.total_size) == Pool::Small {
            "small"
        } else {
            "large"
        })?;
        // PyTorch's first number is of pools of captured graphs, its second of pools that a user has made.
        dict.entry("segment_pool_id").tuple(|pool| {
            [0, segment.pool.get()].into_iter().try_for_each(|id| pool.item().integer(id))
        })?;
        dict.entry("is_expandable").boolean(segment.is_expandable)?;
        dict.entry("frames").list(|_| Ok(()))?;
        dict.entry("blocks").list(|list| {
            segment.blocks.iter().try_for_each(|block| write_block(list.item(), block, stack))
        })
    })
}

fn write_block<W: Write>(
    place: Place<'_, W>,
    block: &SnapshotBlock,
    stack: &dyn Fn(u32) -> Vec<Frame>,
) -> io::Result<()> {
    place.dict(|dict| {
        number(dict, "address", block.address)?;
        number(dict, "size", block.size.get())?;
        number(dict, "requested_size", block.requested.get())?;
        dict.entry("state").text(block.state.name())?;
        write_frames(dict, block.site, stack)
    })
}

fn write_frames<W: Write>(
    dict: &mut DictWriter<'_, W>,
    site: u32,
    stack: &dyn Fn(u32) -> Vec<Frame>,
) -> io::Result<()> {
    let frames = if site == 0 { Vec::new() } else { stack(site) };
    dict.entry("frames").list(|list| {
        frames.iter().try_for_each(|frame| {
            list.item().dict(|dict| {
                dict.entry("filename").text(&frame.filename)?;
                number(dict, "line", frame.line)?;
                dict.entry("name").text(&frame.name)
            })
        })
    })
}

/// Largest integer up to which all integers are exact as doubles.
const EXACT: u64 = (1 << 53) - 1;

/// Writes a number. The viewer's numbers are exact below 2^53. Addresses come from the segment table in steps of 16
/// GiB, and would reach the limit with the 524,288th region.
fn number<W: Write>(
    dict: &mut DictWriter<'_, W>,
    key: &str,
    value: impl Into<i128>,
) -> io::Result<()> {
    dict.entry(key).integer(value)
}

#[cfg(test)]
mod tests;
