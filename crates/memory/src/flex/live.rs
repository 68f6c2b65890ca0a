//! The blocks that have an owner now.

use super::slots::Slot;
use super::tag::Tag;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::index::Extent;

impl FlexAllocator {
    /// Returns the address and the requested size of every block that has an owner, region by region in address order.
    /// All regions are locked meanwhile, so the blocks are from one moment.
    pub fn live_blocks(&self) -> Vec<(VirtualAddress, Bytes)> {
        self.shared.collect_posts();
        let states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        let mut live = Vec::new();
        for region in states.iter().filter_map(|state| state.region.get()) {
            let owned = region.index.extents().into_iter().filter_map(|extent| match extent {
                Extent::Live(block) if Tag::from_bits(block.tag).is_owned() => Some(block),
                _ => None,
            });
            let address = |offset| VirtualAddress { region_id: region.handle.id, offset };
            live.extend(owned.map(|block| (address(block.offset), block.requested)));
        }
        live
    }
}
