//! Default growth: one segment from the driver after another.

use super::blocks::{BlockId, Blocks, State};
use super::device::Device;
use super::{Growth, LARGE_BUFFER, MIN_BLOCK, Pool, SMALL_BUFFER, SMALL_REQUEST, round_up};
use cubeyard_units::Bytes;

/// Smallest request that gets a separate segment.
const OWN_SEGMENT: Bytes = Bytes::mib(10);

/// Segments of fixed address and size, returned to the driver only when wholly free.
#[derive(Debug)]
pub(super) struct Native {
    /// Minimum size of blocks that are not split; `None` if all blocks are split.
    pub(super) max_split: Option<Bytes>,
}

impl Growth for Native {
    fn best_fit(&self, blocks: &Blocks, pool: Pool, size: Bytes) -> Option<BlockId> {
        let best = blocks.free_from(pool, size).next()?;
        let refused = self.max_split.is_some_and(|most| {
            let found = blocks[best].size;
            if size < most { found >= most } else { found >= size + LARGE_BUFFER }
        });
        (!refused).then_some(best)
    }

    /// Returns whether to split off the rest. A large block keeps a remainder of up to 1 MiB: it could serve only
    /// requests of the small pool, which never search here.
    fn splits(&self, pool: Pool, size: Bytes, rest: Bytes) -> bool {
        let small_enough = self.max_split.is_none_or(|most| size < most);
        if pool.large { small_enough && rest > SMALL_REQUEST } else { rest >= MIN_BLOCK }
    }

    fn grow(
        &self,
        blocks: &mut Blocks,
        device: &mut Device,
        pool: Pool,
        size: Bytes,
    ) -> Option<BlockId> {
        let segment = segment_size(pool, size)?;
        let address = device.allocate_segment(segment)?;
        Some(blocks.add_segment(pool, address, segment, State::Free))
    }

    fn releasable(&self, blocks: &Blocks, id: BlockId) -> Bytes {
        if blocks[id].is_whole_segment() { blocks[id].size } else { Bytes::ZERO }
    }

    /// Releases the smallest unsplit block that is large enough; if there is none, the largest blocks until their sum
    /// reaches the request.
    fn release_unsplit(
        &self,
        blocks: &mut Blocks,
        device: &mut Device,
        pool: Pool,
        size: Bytes,
    ) -> bool {
        let Some(most) = self.max_split else { return false };
        let wanted = size.max(most);
        let unsplit = blocks.free_from(pool, most).filter(|&id| blocks[id].is_whole_segment());
        let mut unsplit: Vec<_> = unsplit.collect();
        if let Some(&one) = unsplit.iter().find(|&&id| blocks[id].size >= wanted) {
            release(blocks, device, one);
            return true;
        }
        let mut released = Bytes::ZERO;
        while released < wanted
            && let Some(id) = unsplit.pop()
        {
            released += blocks[id].size;
            release(blocks, device, id);
        }
        released >= wanted
    }

    fn release_cached(&self, blocks: &mut Blocks, device: &mut Device) {
        let whole: Vec<_> = blocks.all_free().filter(|&id| blocks[id].is_whole_segment()).collect();
        for id in whole {
            release(blocks, device, id);
        }
    }
}

/// Releases a segment that consists of one free block to the device.
fn release(blocks: &mut Blocks, device: &mut Device, id: BlockId) {
    device.free_segment(blocks[id].address, blocks[id].size);
    blocks.take(id);
    blocks.remove_segment(id);
}

/// Returns the size of the segment to allocate when no block of the pool can hold `size`.
pub(super) fn segment_size(pool: Pool, size: Bytes) -> Option<Bytes> {
    match pool.large {
        false => Some(SMALL_BUFFER),
        true if size < OWN_SEGMENT => Some(LARGE_BUFFER),
        true => round_up(size, Bytes::mib(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_2_or_20_mib_or_the_size_rounded_to_2_mib() {
        let (small, large) = (Pool { stream: 0, large: false }, Pool { stream: 0, large: true });
        assert_eq!(segment_size(small, Bytes::mib(1)), Some(Bytes::mib(2)));
        assert_eq!(segment_size(large, Bytes::mib(10) - MIN_BLOCK), Some(Bytes::mib(20)));
        assert_eq!(segment_size(large, Bytes::mib(10)), Some(Bytes::mib(10)));
        assert_eq!(segment_size(large, Bytes::mib(10) + MIN_BLOCK), Some(Bytes::mib(12)));
        assert_eq!(segment_size(large, Bytes::MAX), None);
    }
}
