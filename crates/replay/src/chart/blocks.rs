//! Figure of block maps for the page: every block, packed for the script that draws it.
//!
//! A map is packed as lines of text for names and colours, and as LEB128 integers (seven bits per byte) for the blocks.
//! The integers are stored column by column, because similar numbers compress well together.

use super::map;
use crate::{BlockMap, MappedBlock};
use cubeyard_draw::pack::{element, plain, put, put_difference};

/// Draws maps side by side. `colour` chooses the colour of a block by its name.
pub(super) fn figure(maps: &[BlockMap], colour: &dyn Fn(&str) -> &'static str) -> String {
    let events = maps.iter().map(|map| map.events).max().unwrap_or(0);
    let height = maps.iter().map(|map| map.height).max().unwrap_or_default();
    let still = map::draw(maps, colour);
    let maps: String = maps.iter().map(|map| packed(map, colour)).collect();
    format!(
        "<figure class=\"blocks\" aria-label=\"Blocks by address over the events of the trace\" data-events=\"{events}\" \
         data-height=\"{}\">\n<div class=\"still wide\">\n{still}</div>\n<div class=\"maps\">\n{maps}</div>\n</figure>\n",
        height.get()
    )
}

fn packed(map: &BlockMap, colour: &dyn Fn(&str) -> &'static str) -> String {
    let (policy, count) = (map.policy, map.blocks.len());
    let remark = cubeyard_draw::remark(&map::remark(map, count));
    let name = |name: &String| format!("{}\t{}", colour(name), plain(name));
    let names: Vec<_> = map.names.iter().map(name).collect();
    format!(
        "<div class=\"map\" data-policy=\"{policy}\" data-count=\"{count}\">\n<h4>{policy}</h4>\n\
         {remark}{}{}</div>\n",
        element("names", names.join("\n").as_bytes()),
        element("columns", &columns(&map.blocks))
    )
}

/// Returns the columns: event number relative to the previous block, lifetime in events, address relative to the
/// previous block, size, and name.
fn columns(blocks: &[MappedBlock]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 * blocks.len());
    let (mut event, mut start) = (0, 0);
    for block in blocks {
        put(&mut bytes, (block.from - event) as u64);
        event = block.from;
    }
    blocks.iter().for_each(|block| put(&mut bytes, (block.to - block.from) as u64));
    for block in blocks {
        put_difference(&mut bytes, start, block.start.get());
        start = block.start.get();
    }
    blocks.iter().for_each(|block| put(&mut bytes, block.size.get()));
    blocks.iter().for_each(|block| put(&mut bytes, block.name as u64));
    bytes
}

#[cfg(test)]
mod tests;
