//! Quick fit: the most recently freed block of this size, otherwise best fit.

use super::{BlockPolicy, BlockStrategy, Request};
use crate::index::{Block, FreeIndex};

/// Quick fit: the block of the same size that was freed last, or else best fit.
pub static QUICK_FIT: BlockPolicy = BlockPolicy {
    name: "quick-fit",
    summary: "the block of just this size that was freed last, else best fit; the fastest",
    make: || Box::new(QuickFit),
};

#[derive(Debug)]
struct QuickFit;

impl BlockStrategy for QuickFit {
    fn place(&mut self, region: &mut FreeIndex, request: &Request, tag: u32) -> Option<Block> {
        if request.alignment <= region.granule() {
            return region.allocate_quick(request.size, tag);
        }
        region.join_quick();
        region.allocate_aligned(crate::index::Fit::Best, request.size, request.alignment, tag)
    }

    fn free(&mut self, region: &mut FreeIndex, block: &Block) {
        region.free_block_quick(block);
    }
}
