//! Strategies: the choice of a region for a block, and of a position in the region.
//!
//! A strategy is one file here and one line in the table of its kind ([`BLOCK`] or [`REGION`]); no other module of
//! this crate knows them by name. The mechanism lies below: [`FreeIndex`] finds and stores ranges, and the allocator acquires
//! regions.

mod best_fit;
mod fill_first;
mod first_fit;
mod labels;
mod lifetime;
mod load_balancing;
mod quick_fit;
mod thread_home;

use std::fmt;

pub use best_fit::BEST_FIT;
pub use first_fit::FIRST_FIT;
pub use labels::{PoolId, TagId};
pub use lifetime::LIFETIME;
pub use quick_fit::QUICK_FIT;

use crate::Bytes;
use crate::index::{Block, FreeIndex};
use crate::sync::{AtomicU64, Ordering};

/// Purpose of an allocation. A kind can have separate regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data of the user.
    #[default]
    Tensor,
    /// The binary of a program, loaded before it can be launched.
    Program,
    /// A buffer for transfers to or from the host.
    Staging,
}

impl Kind {
    /// All kinds of blocks.
    pub const ALL: [Self; 3] = [Self::Tensor, Self::Program, Self::Staging];

    /// Returns the name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Program => "program",
            Self::Staging => "staging",
        }
    }
}

/// A request for an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of bytes requested.
    pub size: Bytes,
    /// Alignment of the block's start, a power of two. Alignments up to the granule cost nothing.
    pub alignment: Bytes,
    /// Purpose of the allocation.
    pub kind: Kind,
    /// Stream that will use the block.
    pub stream: u32,
    /// Number of the call site in the program; 0 if unknown.
    pub site: u32,
    /// Pool whose regions may hold the block.
    pub pool: PoolId,
    /// Tag that the block's bytes count for.
    pub tag: TagId,
}

impl Request {
    /// Creates a request for a tensor of `size` bytes on stream 0 from the default pool, with no site, tag or alignment.
    pub const fn new(size: Bytes) -> Self {
        let (alignment, kind) = (Bytes::new(1), Kind::Tensor);
        let (pool, tag) = (PoolId::DEFAULT, TagId::NONE);
        Self { size, alignment, kind, stream: 0, site: 0, pool, tag }
    }
}

/// Chooses the position of a block in a region. One instance serves one region and is called under the region's lock:
/// it must not call out, and should be fast.
pub trait BlockStrategy: Send + fmt::Debug {
    /// Places a request in a region; leaves the region unchanged if the request does not fit. `tag` is passed on to the
    /// index.
    fn place(&mut self, region: &mut FreeIndex, request: &Request, tag: u32) -> Option<Block>;

    /// Frees a live block of the region.
    fn free(&mut self, region: &mut FreeIndex, block: &Block) {
        region.free_block(block);
    }

    /// Learns of a block that its owner has freed and whose range only its own stream may take for now. The range is
    /// freed later, without [`free`](Self::free).
    fn forget(&mut self, _block: &Block) {}

    /// Learns of a block that was placed in such a range, without [`place`](Self::place).
    fn adopt(&mut self, _request: &Request, _block: &Block) {}
}

/// A block strategy that can be chosen by name.
#[derive(Debug)]
pub struct BlockPolicy {
    /// Name in configurations and reports.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Creates an instance for one region.
    pub make: fn() -> Box<dyn BlockStrategy>,
}

/// A region, as a region strategy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// Number of the region's slot.
    pub slot: usize,
    /// Number of free bytes.
    pub free: Bytes,
}

/// A region strategy that can be chosen by name: the order in which regions are tried.
#[derive(Debug)]
pub struct RegionPolicy {
    /// Name in configurations and reports.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Moves the regions worth trying for `size` bytes to the front, in order, and returns their number. The regions
    /// are passed oldest first; ties stay in that order.
    pub order: fn(regions: &mut [RegionView], size: Bytes) -> usize,
    /// Returns the first region of that order, from the free bytes of all slots in whole groups of [`GROUP`]; a slot
    /// without a region has none. It is called for most requests, without the work of sorting.
    pub(crate) first: fn(free: &[AtomicU64], size: Bytes) -> First,
    /// Whether each thread has its own region, tried before the others. A block that a thread frees in another thread's
    /// region is then freed by the other thread.
    pub thread_home: bool,
}

/// First region of an order, by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// No region is worth trying.
    None,
    /// This region comes first.
    Slot(usize),
    /// This region and others have the same rank, and therefore the same free bytes; the oldest comes first.
    Tie(usize),
}

/// Number of slots that are compared at a time. The free bytes of all slots are stored for whole groups.
pub(crate) const GROUP: usize = 8;

/// Rank of a region that is not worth trying.
const LAST: u64 = u64::MAX;

/// Order of regions by their free bytes.
trait Rank {
    /// Returns the rank of a region with `free` bytes for a request of `size` bytes, the lowest first, or [`LAST`].
    fn rank(free: u64, size: u64) -> u64;

    fn order(regions: &mut [RegionView], size: Bytes) -> usize {
        let rank = |region: &RegionView| Self::rank(region.free.get(), size.get());
        regions.sort_by_key(rank);
        regions.iter().take_while(|region| rank(region) != LAST).count()
    }

    fn first(free: &[AtomicU64], size: Bytes) -> First {
        let rank = |free: &AtomicU64| Self::rank(free.load(Ordering::Relaxed), size.get());
        let (groups, _) = free.as_chunks::<GROUP>();
        let (mut group, mut lowest, mut ties) = (0, LAST, false);
        for (number, free) in groups.iter().enumerate() {
            let rank = free.iter().map(rank).fold(LAST, u64::min);
            if rank <= lowest {
                ties = rank == lowest;
                (group, lowest) = (number, rank);
            }
        }
        let ranks = groups[group].iter().map(rank).enumerate();
        let mut slots = ranks.filter(|&(_, rank)| rank == lowest && rank != LAST);
        match (slots.next(), slots.next()) {
            // Another thread may have changed the free bytes in the meantime.
            (None, _) => First::None,
            (Some((slot, _)), None) if !ties => First::Slot(group * GROUP + slot),
            (Some((slot, _)), _) => First::Tie(group * GROUP + slot),
        }
    }
}

/// All block strategies.
pub static BLOCK: [&BlockPolicy; 4] = [&FIRST_FIT, &BEST_FIT, &QUICK_FIT, &LIFETIME];

/// All region strategies.
pub static REGION: [&RegionPolicy; 3] =
    [&load_balancing::LOAD_BALANCING, &fill_first::FILL_FIRST, &thread_home::THREAD_HOME];

/// The RFC's default: first fit.
pub const DEFAULT_BLOCK: &BlockPolicy = &FIRST_FIT;
/// The RFC's default: load balancing.
pub const DEFAULT_REGION: &RegionPolicy = &load_balancing::LOAD_BALANCING;
