//! Events of an allocator, as recorded for its history and its subscribers.

use super::VirtualAddress;
use super::region::Region;
use crate::Bytes;
use crate::policy::{PoolId, TagId};

/// Kind of an event. The first seven, and the last two, are in PyTorch's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// A block was freed by its owner.
    FreeRequested,
    /// A freed range can be allocated again: its streams have passed, or it was reserved room.
    FreeCompleted,
    /// A region was acquired. (A reserved region counts only the memory mapped into it.)
    SegmentAlloc,
    /// A region was released.
    SegmentFree,
    /// Memory was committed to a part of a region.
    SegmentMap,
    /// Memory was decommitted from a part of a region.
    SegmentUnmap,
    /// Compaction reserved room for a block that may move there. Histories show it as an allocation.
    RoomReserved,
    /// Compaction released reserved room that no block has moved to. Histories show it as a free.
    RoomReleased,
    /// A block moved to its reserved room. Its old place is free when `FreeCompleted` follows. Histories show the move
    /// as a free of the old place.
    Move,
    /// The allocator waited for streams. Histories do not show it.
    StreamWait,
    /// An allocation took the bytes of its tag above the soft budget. The size is the bytes of the tag. Histories do not
    /// show it.
    BudgetExceeded,
    /// A request failed. The address field of a history entry holds the device's free memory in bytes.
    OutOfMemory,
    /// A snapshot was taken.
    Snapshot,
}

impl Action {
    /// Returns the name of the action in snapshots and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::RoomReserved => "room_reserved",
            Self::RoomReleased => "room_released",
            Self::Move => "move",
            Self::StreamWait => "stream_wait",
            Self::BudgetExceeded => "budget_exceeded",
            Self::OutOfMemory => "oom",
            Self::Snapshot => "snapshot",
        }
    }

    /// Returns the action in histories, which use PyTorch's actions only.
    pub(super) const fn in_history(self) -> Option<Self> {
        match self {
            Self::RoomReserved => Some(Self::Alloc),
            Self::RoomReleased | Self::Move => Some(Self::FreeRequested),
            Self::StreamWait | Self::BudgetExceeded => None,
            other => Some(other),
        }
    }
}

/// One event of an allocator, as subscribers receive it. See [`FlexAllocator::subscribe`](super::FlexAllocator::subscribe).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Number in the order of all events. Consecutive events have consecutive numbers as long as there is a subscriber.
    pub number: u64,
    /// Kind of the event.
    pub action: Action,
    /// Address of the block or of the part of a region; `None` for events without one.
    pub address: Option<VirtualAddress>,
    /// The same address in the flat address space of snapshots; 0 for events without an address.
    pub flat: u64,
    /// New address of a block that has moved; `None` for other events.
    pub target: Option<VirtualAddress>,
    /// The new address in the flat address space; 0 for other events.
    pub target_flat: u64,
    /// Length of the block, rounded up to the granule, or of the part of a region.
    pub size: Bytes,
    /// Number of bytes requested for the block; equal to `size` for parts of regions.
    pub requested: Bytes,
    /// Free memory of the device, for [`Action::OutOfMemory`]; zero for other events.
    pub device_free: Bytes,
    /// Stream of the block; 0 for events about regions.
    pub stream: u32,
    /// Call site of the block's allocation; 0 if unknown.
    pub site: u32,
    /// Pool of the region or the request.
    pub pool: PoolId,
    /// Tag of the block or the request; none in events after the owner's free.
    pub tag: TagId,
    /// Number of the thread whose call caused the event. Threads are numbered in the order of their first call.
    pub thread: usize,
    /// Time of the event in microseconds, from the allocator's clock; without a clock, the event's number.
    pub time_us: u64,
}

impl Event {
    /// Creates an event without an address.
    pub(crate) fn new(action: Action, size: Bytes, stream: u32) -> Self {
        Self {
            number: 0,
            action,
            address: None,
            flat: 0,
            target: None,
            target_flat: 0,
            size,
            requested: size,
            device_free: Bytes::ZERO,
            stream,
            site: 0,
            pool: PoolId::DEFAULT,
            tag: TagId::NONE,
            thread: 0,
            time_us: 0,
        }
    }

    /// Creates an event about a part of a region.
    pub(crate) fn about(action: Action, region: &Region, (offset, size): (Bytes, Bytes)) -> Self {
        let (address, flat) = (Some(region.address(offset)), region.base + offset.get());
        Self { address, flat, pool: region.pool, ..Self::new(action, size, 0) }
    }
}
