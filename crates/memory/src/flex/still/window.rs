//! The blocks that must be freed to make room for a request.

use super::{Still, StillBlock, StillRegion};
use crate::Bytes;
use crate::flex::config::Growth;

/// Adjacent blocks of one region whose range, once they are freed, holds the request.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a> {
    pub(crate) region: &'a StillRegion,
    pub(crate) blocks: &'a [StillBlock],
    pub(crate) bytes: Bytes,
}

impl Still {
    /// Returns, for each region that the request may use, the adjacent blocks with the fewest bytes that make room for
    /// it; fewest bytes first. In a growable region that is an estimate.
    pub(crate) fn windows(&self) -> Vec<Window<'_>> {
        let regions = self.regions.iter().filter(|region| self.accepts(region));
        let mut windows: Vec<_> = regions.filter_map(|region| self.window(region)).collect();
        windows.sort_by_key(|window| window.bytes);
        windows
    }

    fn window<'a>(&self, region: &'a StillRegion) -> Option<Window<'a>> {
        let granule = self.config.alignment;
        let size = |block: &StillBlock| block.request.size.align_up(granule).unwrap_or(Bytes::MAX);
        let mut best: Option<Window<'a>> = None;
        let (mut last, mut bytes) = (0, Bytes::ZERO);
        for first in 0..region.blocks.len() {
            let below = first.checked_sub(1).map(|below| &region.blocks[below]);
            let start = below.map_or(Bytes::ZERO, |block| block.offset + size(block));
            while last < region.blocks.len() && self.lacks(region, start, last, bytes)? {
                bytes += size(&region.blocks[last]);
                last += 1;
            }
            if self.lacks(region, start, last, bytes)? {
                break;
            }
            let blocks = &region.blocks[first..last];
            let better = best.as_ref().is_none_or(|best| bytes < best.bytes);
            if better && !blocks.is_empty() && blocks.iter().all(StillBlock::is_live) {
                best = Some(Window { region, blocks, bytes });
            }
            if last == first {
                return best;
            }
            bytes -= size(&region.blocks[first]);
        }
        best
    }

    /// Returns whether the range from `start` to the block `last` is too short for the request. In a growable region,
    /// addresses are plentiful, and the `bytes` of the blocks between them must suffice, with a granule at either end.
    fn lacks(&self, region: &StillRegion, start: Bytes, last: usize, bytes: Bytes) -> Option<bool> {
        let length = self.request.size.align_up(self.config.alignment)?;
        if self.config.growth != Growth::Fixed {
            let granule = self.device.granule.unwrap_or(Bytes::ZERO);
            return Some(bytes < length.checked_add(granule + granule)?);
        }
        let alignment = self.request.alignment.max(self.config.alignment);
        let end = region.blocks.get(last).map_or(region.size, |block| block.offset);
        Some(start.align_up(alignment)?.checked_add(length)? > end)
    }
}
