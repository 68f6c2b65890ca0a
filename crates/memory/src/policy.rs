//! Strategies: in which region a block goes, and where in it.
//!
//! A strategy is one file here and one line in the table of its kind ([`BLOCK`] or [`REGION`]);
//! nothing else knows them by name. The mechanism is below them: [`FreeIndex`] finds and keeps
//! ranges, the allocator acquires regions.

mod best_fit;
mod fill_first;
mod first_fit;
mod lifetime;
mod load_balancing;
mod quick_fit;
mod thread_home;

use std::fmt;

use crate::Bytes;
use crate::index::{Block, BlockKey, FreeIndex, StaleBlock};

/// What an allocation is for. A kind can be given regions of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data of the user's.
    #[default]
    Tensor,
    /// The binary of a program, loaded before it can be launched.
    Program,
    /// A buffer on the way to or from the host.
    Staging,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tensor, Self::Program, Self::Staging];

    /// Its name in configurations and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Program => "program",
            Self::Staging => "staging",
        }
    }
}

/// What a strategy knows of an allocation that is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The bytes asked for.
    pub size: Bytes,
    /// What the block's start must be a multiple of; anything up to the granule costs nothing.
    pub alignment: Bytes,
    /// What it is for.
    pub kind: Kind,
    /// The stream that it will be used on.
    pub stream: u32,
    /// Where in the program it is asked for: equal for equal places, 0 where unknown.
    pub site: u32,
}

impl Request {
    /// A tensor of `size` bytes on stream 0, from anywhere, with no alignment of its own.
    pub const fn new(size: Bytes) -> Self {
        Self { size, alignment: Bytes::new(1), kind: Kind::Tensor, stream: 0, site: 0 }
    }
}

/// Chooses where in a region a block goes. One instance serves one region, and is called under that
/// region's lock: it must not call out, and should not take long.
pub trait BlockStrategy: Send + fmt::Debug {
    /// Places a request in a region, or leaves the region as it was where it does not fit. `tag` is
    /// passed on to the index.
    fn place(&mut self, region: &mut FreeIndex, request: &Request, tag: u32) -> Option<Block>;

    /// Gives a block back to the region.
    fn free(&mut self, region: &mut FreeIndex, key: BlockKey) -> Result<Block, StaleBlock> {
        region.free(key)
    }
}

/// A block strategy that can be chosen by name.
#[derive(Debug)]
pub struct BlockPolicy {
    /// Its name in configurations and reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// The names of policies that leave less memory in pieces, for whoever runs out of it.
    pub fragments_less: &'static [&'static str],
    /// Makes an instance for one region.
    pub make: fn() -> Box<dyn BlockStrategy>,
}

/// What a region strategy knows of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// Its place among the allocator's regions, the oldest first.
    pub slot: usize,
    /// How much of it is free.
    pub free: Bytes,
}

/// Chooses in which order regions are tried.
#[derive(Debug)]
pub struct RegionPolicy {
    /// Its name in configurations and reports.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Puts the regions that are worth trying for `size` bytes to the front, in order, and says how
    /// many they are. They arrive the oldest first, and ties must be left in that order.
    pub order: fn(regions: &mut [RegionView], size: Bytes) -> usize,
    /// Whether each thread has a region of its own, tried before the others. A thread then leaves
    /// what it frees in others' regions to their owners, so that no two threads touch one region.
    pub thread_home: bool,
}

/// All block strategies.
pub static BLOCK: [&BlockPolicy; 4] =
    [&first_fit::FIRST_FIT, &best_fit::BEST_FIT, &quick_fit::QUICK_FIT, &lifetime::LIFETIME];

/// All region strategies.
pub static REGION: [&RegionPolicy; 3] =
    [&load_balancing::LOAD_BALANCING, &fill_first::FILL_FIRST, &thread_home::THREAD_HOME];

/// The RFC's default: first fit.
pub const DEFAULT_BLOCK: &BlockPolicy = &first_fit::FIRST_FIT;
/// The RFC's default: load balancing.
pub const DEFAULT_REGION: &RegionPolicy = &load_balancing::LOAD_BALANCING;
