//! Models of PyTorch's caching allocator, which compute the bytes that it reserves for a trace without a GPU.
//!
//! Both models follow torch 2.11. Sizes are rounded up to 512 bytes. The small pool of a stream serves requests of up
//! to 1 MiB, its large pool all others. A pool takes the smallest free block that is large enough, splits off the rest,
//! and joins a freed block with free neighbours. Memory is returned to the driver only when the device is full. The
//! models differ in the growth of pools ([`PyTorch::native`], [`PyTorch::expandable`]).
//!
//! ```
//! use cubeyard_memory::Bytes;
//! use cubeyard_replay::{Target, pytorch::PyTorch};
//! use cubeyard_replay::trace::{Allocate, TraceId};
//!
//! let request = Allocate { id: TraceId(0), size: Bytes::mib(3), stream: 0, site: 0, time_us: 0 };
//! let mut pytorch = PyTorch::native(None);
//! let token = pytorch.allocate(&request)?;
//! assert_eq!(pytorch.reserved(), Bytes::mib(20));
//! pytorch.free(token);
//! assert_eq!(pytorch.reserved(), Bytes::mib(20)); // cached, not returned
//! # Ok::<(), String>(())
//! ```
//!
//! PyTorch delays the free of a block that another stream still uses (`record_stream`). In a trace whose work completes
//! as recorded, such a block is freed when that was completed. Under a stated lag it is freed when that was requested,
//! and held back until the work of the other streams is complete ([`PyTorch::of`]).

mod blocks;
mod device;
mod expandable;
mod native;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::Target;
use crate::trace::{Allocate, Trace};
use crate::work::HeldBack;
use blocks::{BlockId, Blocks, State};
use cubeyard_units::Bytes;
use device::Device;
use expandable::Expandable;
use native::Native;

/// Granule of all blocks.
const MIN_BLOCK: Bytes = Bytes::new(512);
/// Largest request served by the small pool.
const SMALL_REQUEST: Bytes = Bytes::mib(1);
/// Growth step of small pools.
const SMALL_BUFFER: Bytes = Bytes::mib(2);
/// Growth step of large pools, except for large requests with the default settings.
const LARGE_BUFFER: Bytes = Bytes::mib(20);

/// Token of an allocation of zero bytes, which has no block.
const NOTHING: u64 = u64::MAX;

/// Model of PyTorch's caching allocator on one device.
#[derive(Debug)]
pub struct PyTorch {
    growth: Box<dyn Growth>,
    blocks: Blocks,
    device: Device,
    allocated: Bytes,
    peak_allocated: Bytes,
    retries: u64,
    /// Limit on the reserved bytes, set by the user.
    limit: Option<Bytes>,
    /// Freed blocks that other streams may still use; `None` if there never are any.
    held_back: Option<HeldBack>,
}

/// Unused memory beside blocks in use, which cannot be released to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Length of the gap.
    pub size: Bytes,
    /// Tokens of the blocks in use before and after the gap.
    pub beside: Vec<u64>,
}

impl PyTorch {
    /// Creates a model with PyTorch's default settings: pools grow by segments of 2 MiB, of 20 MiB, or of the size
    /// of the request, and blocks of different segments never join.
    ///
    /// `capacity` is the memory of the device; `None` means unlimited.
    pub fn native(capacity: Option<Bytes>) -> Self {
        Self::new(Box::new(Native { max_split: None }), capacity)
    }

    /// Creates a model with `max_split_size_mb`. Blocks of at least `max_split` bytes are not split, serve only
    /// requests of nearly their size, and are released first when the device is full.
    pub fn splitting_below(max_split: Bytes, capacity: Option<Bytes>) -> Self {
        Self::new(Box::new(Native { max_split: Some(max_split) }), capacity)
    }

    /// Creates a model with `expandable_segments:True`: each pool has one long address range, whose pages of 2 MiB
    /// (small pool) or 20 MiB (large pool) are mapped as needed.
    ///
    /// `capacity` is the memory of the device; `None` means unlimited.
    pub fn expandable(capacity: Option<Bytes>) -> Self {
        Self::new(Box::new(Expandable), capacity)
    }

    fn new(growth: Box<dyn Growth>, capacity: Option<Bytes>) -> Self {
        let (blocks, device) = (Blocks::default(), Device::new(capacity));
        let (allocated, peak_allocated) = (Bytes::ZERO, Bytes::ZERO);
        let (retries, limit, held_back) = (0, None, None);
        Self { growth, blocks, device, allocated, peak_allocated, retries, limit, held_back }
    }

    /// Sets the trace whose events will be replayed, all from the first on. Its shared blocks are held back.
    #[must_use]
    pub fn of(self, trace: &Trace) -> Self {
        Self { held_back: HeldBack::of(trace), ..self }
    }

    /// Sets a limit like `torch.cuda.set_per_process_memory_fraction`; `None` means no limit.
    ///
    /// Before PyTorch asks the driver for memory, it adds the size of a segment for the request to the reserved bytes.
    /// An expandable segment may then need less, because its end is free, or more, because it maps whole pages.
    #[must_use]
    pub fn limited(self, limit: Option<Bytes>) -> Self {
        Self { limit, ..self }
    }

    /// Returns the bytes of the blocks in use: requested sizes, with rounding and with remainders too small to split
    /// off.
    pub fn allocated(&self) -> Bytes {
        self.allocated
    }

    /// Returns the maximum of [`allocated`](Self::allocated) so far.
    pub fn peak_allocated(&self) -> Bytes {
        self.peak_allocated
    }

    /// Returns the number of segments held. Expandable segments are not counted, as in PyTorch's own statistics.
    pub fn segments(&self) -> usize {
        self.device.segments
    }

    /// Returns the unused memory that cannot be released to the device, in best-fit order.
    pub fn gaps(&self) -> Vec<Gap> {
        let blocks = &self.blocks;
        let used = |id: &BlockId| blocks[*id].state == State::Used;
        let gap = |id: BlockId| Gap {
            size: blocks[id].size - self.growth.releasable(blocks, id),
            beside: [blocks[id].previous, blocks[id].next]
                .into_iter()
                .flatten()
                .filter(used)
                .map(BlockId::token)
                .collect(),
        };
        blocks.all_free().map(gap).filter(|gap| !gap.size.is_zero()).collect()
    }

    /// Returns a free block of at least `size` bytes: from the cache, from the driver, or from the driver after
    /// releasing the cache. Blocks that were too large to split are released first, then all unused memory.
    fn find(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        if let Some(block) = self.growth.best_fit(&self.blocks, pool, size) {
            return Some(block);
        }
        if let Some(block) = self.grow(pool, size) {
            return Some(block);
        }
        let Self { growth, blocks, device, .. } = self;
        if growth.release_unsplit(blocks, device, pool, size)
            && let Some(block) = self.grow(pool, size)
        {
            return Some(block);
        }
        self.retries += 1;
        for token in self.held_back.as_mut().map(HeldBack::wait).unwrap_or_default() {
            self.settle(token);
        }
        self.growth.release_cached(&mut self.blocks, &mut self.device);
        self.grow(pool, size)
    }

    /// Gets memory from the driver, within the limit.
    fn grow(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        let Self { growth, blocks, device, limit, .. } = self;
        let after = device.reserved.checked_add(native::segment_size(pool, size)?)?;
        if limit.is_some_and(|limit| after > limit) {
            return None;
        }
        growth.grow(blocks, device, pool, size)
    }

    /// Takes `size` bytes of a free block, or all of it if the remainder is too small to split off.
    fn occupy(&mut self, block: BlockId, size: Bytes) {
        self.blocks.take(block);
        let rest = self.blocks[block].size - size;
        if self.growth.splits(self.blocks[block].pool, size, rest) {
            let rest = self.blocks.cut(block, size);
            self.blocks.settle(rest, State::Free);
        }
        self.allocated += self.blocks[block].size;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
    }

    /// Makes a freed block available to its stream.
    fn settle(&mut self, token: u64) {
        let block = BlockId::from_token(token).expect("a token comes from `allocate`");
        self.allocated -= self.blocks[block].size;
        self.blocks.settle(block, State::Free);
    }

    fn out_of_memory(&self, asked: Bytes) -> String {
        let capacity = self.device.capacity.map_or("no limit".to_owned(), |it| it.to_string());
        let (reserved, allocated) = (self.device.reserved, self.allocated);
        format!(
            "out of memory: asked for {asked}; {reserved} reserved of {capacity}, {allocated} of it allocated"
        )
    }
}

impl Target for PyTorch {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        if request.size.is_zero() {
            return Ok(NOTHING);
        }
        for token in self.held_back.as_mut().map(HeldBack::begin).unwrap_or_default() {
            self.settle(token);
        }
        let found = round_up(request.size, MIN_BLOCK)
            .and_then(|size| Some((self.find(Pool::of(request.stream, size), size)?, size)));
        let (block, size) = found.ok_or_else(|| self.out_of_memory(request.size))?;
        self.occupy(block, size);
        if let Some(held_back) = &mut self.held_back {
            held_back.placed(request, block.token());
        }
        Ok(block.token())
    }

    fn free(&mut self, token: u64) {
        let is_held = |held_back: &mut HeldBack| held_back.free(token);
        if token != NOTHING && !self.held_back.as_mut().is_some_and(is_held) {
            self.settle(token);
        }
    }

    fn reserved(&self) -> Bytes {
        self.device.reserved
    }

    fn address(&self, token: u64) -> Option<u64> {
        let block = BlockId::from_token(token).filter(|_| token != NOTHING)?;
        Some(self.blocks[block].address.get())
    }

    /// Returns the count that PyTorch's statistics call `num_alloc_retries`.
    fn retries(&self) -> u64 {
        self.retries
    }

    fn waits(&self) -> u64 {
        self.held_back.as_ref().map_or(0, HeldBack::waits)
    }
}

/// Growth strategy of pools, in which the two models differ.
trait Growth: fmt::Debug + Send + Sync {
    /// Returns the cached block that serves `size` bytes.
    fn best_fit(&self, blocks: &Blocks, pool: Pool, size: Bytes) -> Option<BlockId>;

    /// Returns whether a remainder of `rest` bytes is split off for a request of `size` bytes; never if it is zero.
    fn splits(&self, pool: Pool, size: Bytes, rest: Bytes) -> bool;

    /// Gets memory so that one free block of `pool` holds `size` bytes, and returns that block.
    ///
    /// If the device cannot provide enough, the memory obtained so far may stay in the pool.
    fn grow(
        &self,
        blocks: &mut Blocks,
        device: &mut Device,
        pool: Pool,
        size: Bytes,
    ) -> Option<BlockId>;

    /// Returns the bytes of a free block that [`release_cached`](Self::release_cached) would release.
    fn releasable(&self, blocks: &Blocks, id: BlockId) -> Bytes;

    /// Releases blocks to the device that were too large to split, and returns whether that frees enough for `size`
    /// bytes.
    fn release_unsplit(
        &self,
        _blocks: &mut Blocks,
        _device: &mut Device,
        _pool: Pool,
        _size: Bytes,
    ) -> bool {
        false
    }

    /// Releases memory without live blocks to the device.
    fn release_cached(&self, blocks: &mut Blocks, device: &mut Device);
}

/// Key of the blocks that serve the same requests: the blocks of one stream and size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pool {
    stream: u32,
    large: bool,
}

impl Pool {
    fn of(stream: u32, rounded_size: Bytes) -> Self {
        Self { stream, large: rounded_size > SMALL_REQUEST }
    }
}

/// Rounds up to a multiple of `step`, which need not be a power of two; `None` beyond 64 bits.
fn round_up(size: Bytes, step: Bytes) -> Option<Bytes> {
    size.get().checked_next_multiple_of(step.get()).map(Bytes::new)
}
