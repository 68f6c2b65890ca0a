//! Best fit: the smallest free range that is long enough.

use super::{BlockPolicy, BlockStrategy, Request};
use crate::index::{Block, Fit, FreeIndex};

/// Best fit: the smallest free range that fits.
pub static BEST_FIT: BlockPolicy = BlockPolicy {
    name: "best-fit",
    summary: "the smallest free range that fits; keeps large ranges whole",
    make: || Box::new(BestFit),
};

#[derive(Debug)]
struct BestFit;

impl BlockStrategy for BestFit {
    fn place(&mut self, region: &mut FreeIndex, request: &Request, tag: u32) -> Option<Block> {
        region.allocate_aligned(Fit::Best, request.size, request.alignment, tag)
    }
}
