//! Models of PyTorch's caching allocator: what it would have reserved for a trace, without a GPU.
//!
//! Both models follow torch 2.11. Sizes are rounded up to 512 bytes. A request of up to 1 MiB is
//! served by the small pool of its stream, any other by the large pool. A pool gives the smallest
//! free block that is large enough, cuts off what is not needed, and joins a freed block with free
//! neighbours; memory goes back to the driver only when the device is full. The models differ in how
//! a pool grows ([`PyTorch::native`], [`PyTorch::expandable`]).
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
//! A replay frees at once. PyTorch holds back a block that another stream still uses
//! (`record_stream`), which traces do not tell.

mod blocks;
mod device;
mod expandable;
mod native;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::Target;
use crate::trace::Allocate;
use blocks::{BlockId, Blocks, State};
use cubeyard_units::Bytes;
use device::Device;
use expandable::Expandable;
use native::Native;

/// Every block is a multiple of this.
const MIN_BLOCK: Bytes = Bytes::new(512);
/// The largest request for the small pool.
const SMALL_REQUEST: Bytes = Bytes::mib(1);
/// The unit in which small pools grow.
const SMALL_BUFFER: Bytes = Bytes::mib(2);
/// The unit in which large pools grow, but for large requests with the default settings.
const LARGE_BUFFER: Bytes = Bytes::mib(20);

/// The token of an allocation of no bytes, which has no block.
const NOTHING: u64 = u64::MAX;

/// A model of PyTorch's caching allocator on one device.
#[derive(Debug)]
pub struct PyTorch {
    growth: Box<dyn Growth>,
    blocks: Blocks,
    device: Device,
    allocated: Bytes,
    peak_allocated: Bytes,
}

impl PyTorch {
    /// PyTorch with its default settings: pools grow by segments of 2 MiB, of 20 MiB, or of the
    /// size of the request, and blocks of different segments never join.
    ///
    /// `capacity` is what the device can give; `None` stands for a device without end.
    pub fn native(capacity: Option<Bytes>) -> Self {
        Self::new(Box::new(Native), capacity)
    }

    /// PyTorch with `expandable_segments:True`: each pool has one long range of addresses, of which
    /// pages of 2 MiB (small pool) or 20 MiB (large pool) get memory as they are needed.
    ///
    /// `capacity` is what the device can give; `None` stands for a device without end.
    pub fn expandable(capacity: Option<Bytes>) -> Self {
        Self::new(Box::new(Expandable), capacity)
    }

    fn new(growth: Box<dyn Growth>, capacity: Option<Bytes>) -> Self {
        let (blocks, device) = (Blocks::default(), Device::new(capacity));
        Self { growth, blocks, device, allocated: Bytes::ZERO, peak_allocated: Bytes::ZERO }
    }

    /// The bytes of the blocks in use: what was requested, with rounding and with rests that were
    /// too small to cut off.
    pub fn allocated(&self) -> Bytes {
        self.allocated
    }

    /// The most that [`allocated`](Self::allocated) has been.
    pub fn peak_allocated(&self) -> Bytes {
        self.peak_allocated
    }

    /// How many segments it holds. Like PyTorch's own statistics, this leaves out expandable ones.
    pub fn segments(&self) -> usize {
        self.device.segments()
    }

    /// A free block of at least `size` bytes, from the cache or else from the driver.
    fn find(&mut self, pool: Pool, size: Bytes) -> Option<BlockId> {
        let Self { growth, blocks, device, .. } = self;
        if let Some(block) = growth.best_fit(blocks, pool, size) {
            return Some(block);
        }
        growth.grow(blocks, device, pool, size).or_else(|| {
            growth.release_cached(blocks, device);
            growth.grow(blocks, device, pool, size)
        })
    }

    /// Takes `size` bytes of a free block, or all of it where the rest is not worth cutting off.
    fn occupy(&mut self, block: BlockId, size: Bytes) {
        self.blocks.take(block);
        let rest = self.blocks[block].size - size;
        if self.growth.splits(self.blocks[block].pool, rest) {
            let rest = self.blocks.cut(block, size);
            self.blocks.settle(rest, State::Free);
        }
        self.allocated += self.blocks[block].size;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
    }

    fn out_of_memory(&self, asked: Bytes) -> String {
        let capacity = self.device.capacity().map_or("no limit".to_owned(), |it| it.to_string());
        let (reserved, allocated) = (self.device.reserved(), self.allocated);
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
        let found = round_up(request.size, MIN_BLOCK)
            .and_then(|size| Some((self.find(Pool::of(request.stream, size), size)?, size)));
        let (block, size) = found.ok_or_else(|| self.out_of_memory(request.size))?;
        self.occupy(block, size);
        Ok(block.token())
    }

    fn free(&mut self, token: u64) {
        if token == NOTHING {
            return;
        }
        let block = BlockId::from_token(token).expect("a token comes from `allocate`");
        self.allocated -= self.blocks[block].size;
        self.blocks.settle(block, State::Free);
    }

    fn reserved(&self) -> Bytes {
        self.device.reserved()
    }
}

/// How pools get their memory: where the two models differ.
trait Growth: fmt::Debug + Send + Sync {
    /// The cached block to serve `size` bytes from.
    fn best_fit(&self, blocks: &Blocks, pool: Pool, size: Bytes) -> Option<BlockId>;

    /// Whether a rest of `rest` bytes is cut off from a block; never where it is zero.
    fn splits(&self, pool: Pool, rest: Bytes) -> bool;

    /// Gets memory so that one free block of `pool` holds `size` bytes, and returns that block.
    ///
    /// Where the device cannot give enough, what it gave until then may stay in the pool.
    fn grow(
        &self,
        blocks: &mut Blocks,
        device: &mut Device,
        pool: Pool,
        size: Bytes,
    ) -> Option<BlockId>;

    /// Gives the device back what no live block needs.
    fn release_cached(&self, blocks: &mut Blocks, device: &mut Device);
}

/// Blocks that may serve the same requests: those of one stream and of one kind of size.
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

/// The next multiple of `step`, which need not be a power of two, unless it exceeds 64 bits.
fn round_up(size: Bytes, step: Bytes) -> Option<Bytes> {
    size.get().checked_next_multiple_of(step.get()).map(Bytes::new)
}
