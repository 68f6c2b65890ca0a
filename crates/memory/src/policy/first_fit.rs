//! First fit: the lowest free range that is long enough. The RFC's default.

use super::{BlockPolicy, BlockStrategy, Request};
use crate::index::{Block, Fit, FreeIndex};

/// First fit: the lowest free range that fits.
pub static FIRST_FIT: BlockPolicy = BlockPolicy {
    name: "first-fit",
    summary: "the lowest free range that fits; packs towards the start",
    make: || Box::new(FirstFit),
};

#[derive(Debug)]
struct FirstFit;

impl BlockStrategy for FirstFit {
    fn place(&mut self, region: &mut FreeIndex, request: &Request, tag: u32) -> Option<Block> {
        region.allocate_aligned(Fit::First, request.size, request.alignment, tag)
    }
}
