//! Growth by mapping pages into one long address range per pool.

use super::blocks::{Block, BlockId, Blocks, State};
use super::device::Device;
use super::{Growth, LARGE_BUFFER, MIN_BLOCK, Pool, SMALL_BUFFER, round_up};
use cubeyard_units::Bytes;

/// Address range of a segment on an unlimited device: 16 TiB.
const UNLIMITED_SPAN: Bytes = Bytes::gib(16 << 10);

/// Segments whose pages are mapped only as needed.
///
/// Pages are counted from the start of their segment. An unmapped block starts and ends at a page boundary, so mapping
/// its low end never meets a mapped page.
#[derive(Debug)]
pub(super) struct Expandable;

impl Growth for Expandable {
    /// Returns the best fit. A block before unmapped addresses counts with the size to which it could grow, so that it
    /// is kept for requests that nothing else can hold. Blocks are ordered by current size, so the search skips such a
    /// block in favour of the next larger one.
    fn best_fit(&self, blocks: &Blocks, pool: Pool, size: Bytes) -> Option<BlockId> {
        let mut candidates = blocks.free_from(pool, size);
        let mut best = candidates.next()?;
        for candidate in candidates {
            if reach(blocks, candidate) >= reach(blocks, best) {
                break;
            }
            best = candidate;
        }
        Some(best)
    }

    fn splits(&self, _: Pool, _: Bytes, rest: Bytes) -> bool {
        rest >= MIN_BLOCK
    }

    fn grow(
        &self,
        blocks: &mut Blocks,
        device: &mut Device,
        pool: Pool,
        size: Bytes,
    ) -> Option<BlockId> {
        let mut block = match find_room(blocks, pool, size) {
            Some(block) => block,
            None => reserve_segment(blocks, device, pool, size)?,
        };
        if blocks[block].state == State::Unmapped {
            map(blocks, device, block, size.min(blocks[block].size))?;
        }
        while blocks[block].size < size {
            let missing = size - blocks[block].size;
            block = blocks[block].next.expect("the room that was found is unmapped up to its end");
            map(blocks, device, block, missing.min(blocks[block].size))?;
        }
        Some(block)
    }

    fn releasable(&self, blocks: &Blocks, id: BlockId) -> Bytes {
        whole_pages(&blocks[id]).map_or(Bytes::ZERO, |(_, pages)| pages)
    }

    fn release_cached(&self, blocks: &mut Blocks, device: &mut Device) {
        let free: Vec<_> = blocks.all_free().collect();
        for id in free {
            unmap(blocks, device, id);
        }
    }
}

/// Returns the size to which a free block could grow.
fn reach(blocks: &Blocks, id: BlockId) -> Bytes {
    let unmapped = |next: &BlockId| blocks[*next].state == State::Unmapped;
    let growth = blocks[id].next.filter(unmapped).map_or(Bytes::ZERO, |next| blocks[next].size);
    blocks[id].size + growth
}

fn page(pool: Pool) -> Bytes {
    if pool.large { LARGE_BUFFER } else { SMALL_BUFFER }
}

/// Returns the lowest unmapped block that, with the unused blocks around it, has addresses for `size` bytes; or the
/// free block before it, if growth starts there.
fn find_room(blocks: &Blocks, pool: Pool, size: Bytes) -> Option<BlockId> {
    let start = |id: BlockId| {
        let is_free = |previous: &BlockId| blocks[*previous].state == State::Free;
        blocks[id].previous.filter(is_free).unwrap_or(id)
    };
    blocks.unmapped(pool).map(start).find(|&id| has_room(blocks, id, size))
}

fn has_room(blocks: &Blocks, first: BlockId, size: Bytes) -> bool {
    let mut room = Bytes::ZERO;
    let mut cursor = Some(first);
    while let Some(id) = cursor.filter(|&id| room < size && blocks[id].state != State::Used) {
        room += blocks[id].size;
        cursor = blocks[id].next;
    }
    room >= size
}

/// Adds a segment with an eighth more addresses than the device has memory, so that holes between blocks seldom require
/// a second segment.
fn reserve_segment(
    blocks: &mut Blocks,
    device: &mut Device,
    pool: Pool,
    size: Bytes,
) -> Option<BlockId> {
    let with_slack = |capacity: Bytes| capacity.checked_add(Bytes::new(capacity.get() / 8));
    let span = device.capacity.and_then(with_slack).unwrap_or(UNLIMITED_SPAN);
    let span = round_up(span, page(pool)).filter(|&span| span >= size)?;
    let start = device.addresses.take(span)?;
    Some(blocks.add_segment(pool, start, span, State::Unmapped))
}

/// Maps the pages of the first `size` bytes of an unmapped block, which becomes free and joins its neighbours.
fn map(blocks: &mut Blocks, device: &mut Device, id: BlockId, size: Bytes) -> Option<()> {
    let pages = round_up(size, page(blocks[id].pool))?;
    device.map(pages)?;
    blocks.take(id);
    if pages < blocks[id].size {
        let rest = blocks.cut(id, pages);
        blocks.settle(rest, State::Unmapped);
    }
    blocks.settle(id, State::Free);
    Some(())
}

/// Unmaps the pages that lie entirely in a free block, and releases a segment without mapped pages.
fn unmap(blocks: &mut Blocks, device: &mut Device, id: BlockId) {
    let Some((before, pages)) = whole_pages(&blocks[id]) else { return };
    blocks.take(id);
    let middle = if before.is_zero() { id } else { blocks.cut(id, before) };
    if pages < blocks[middle].size {
        let after = blocks.cut(middle, pages);
        blocks.settle(after, State::Free);
    }
    if middle != id {
        blocks.settle(id, State::Free);
    }
    device.unmap(pages);
    blocks.settle(middle, State::Unmapped);
    release_segment_if_unmapped(blocks, device, middle);
}

/// Returns the offset of the first whole page in a block, and the total bytes of whole pages from there on.
fn whole_pages(block: &Block) -> Option<(Bytes, Bytes)> {
    let page = page(block.pool);
    let offset = block.address - block.segment;
    let before = round_up(offset, page)? - offset;
    let inside = block.size.saturating_sub(before).get();
    let pages = Bytes::new(inside - inside % page.get());
    (!pages.is_zero()).then_some((before, pages))
}

fn release_segment_if_unmapped(blocks: &mut Blocks, device: &mut Device, id: BlockId) {
    if blocks[id].is_whole_segment() {
        device.addresses.give_back(blocks[id].address, blocks[id].size);
        blocks.take(id);
        blocks.remove_segment(id);
    }
}
