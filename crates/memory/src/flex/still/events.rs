//! The recorded history of an allocator as events that can be replayed.

use std::collections::BTreeMap;

use super::{MAX_EVENTS, StillBlock, StillRegion, StillState};
use crate::flex::config::{FlexConfig, Release};
use crate::flex::history::{Action, HistoryEntry};
use crate::policy::Request;

/// One event of a history. Blocks are numbered in the order of their allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next block is allocated.
    Allocate(Request),
    /// The owner frees a block.
    FreeRequested(usize),
    /// The streams have passed a freed block.
    FreeCompleted(usize),
    /// Idle memory is returned to the device.
    Trim,
}

/// Returns the events of a history that leads from no blocks to the blocks of `regions`. Returns `None` if the history
/// is not whole or too long, and if it does not determine the regions: kinds of blocks are not recorded, nor is the end of
/// a pool. `pooled` states whether the allocator has had other pools than the default one.
pub(crate) fn replayable(
    entries: &[HistoryEntry],
    regions: &[StillRegion],
    config: &FlexConfig,
    pooled: bool,
) -> Option<Vec<Event>> {
    if entries.len() > MAX_EVENTS || pooled || !config.own_regions.is_empty() {
        return None;
    }
    let mut reading = Reading::default();
    entries.iter().try_for_each(|entry| reading.read(entry, config))?;
    let owned = |block: &&StillBlock| block.state != StillState::Pending;
    let live = regions.iter().flat_map(|region| {
        let owned = region.blocks.iter().filter(owned);
        owned.map(|block| (region.base + block.offset.get(), block.request))
    });
    reading.end(&live.collect())
}

/// A history while it is read.
#[derive(Default)]
struct Reading {
    events: Vec<Event>,
    /// Index of each block's allocation in `events`.
    births: Vec<usize>,
    /// Blocks with an owner, and freed blocks that wait for streams, by flat address.
    owned: BTreeMap<u64, usize>,
    freed: BTreeMap<u64, Vec<usize>>,
}

impl Reading {
    fn read(&mut self, entry: &HistoryEntry, config: &FlexConfig) -> Option<()> {
        let address = entry.address;
        match entry.action {
            Action::Alloc => {
                let (stream, site) = (entry.stream, entry.site);
                let request = Request { stream, site, ..Request::new(entry.size) };
                self.owned.insert(address, self.births.len());
                self.births.push(self.events.len());
                self.events.push(Event::Allocate(request));
            }
            Action::FreeRequested => {
                let block = self.owned.remove(&address)?;
                self.freed.entry(address).or_default().push(block);
                self.events.push(Event::FreeRequested(block));
            }
            Action::FreeCompleted => {
                let block = self.freed.get_mut(&address)?.pop()?;
                self.events.push(Event::FreeCompleted(block));
            }
            // Only a trim releases regions of such an allocator.
            Action::SegmentFree if config.release == Release::Never => {
                self.events.push(Event::Trim);
            }
            _ => {}
        }
        Some(())
    }

    /// Returns the events if they end with the `live` blocks, whose requests are known exactly.
    fn end(mut self, live: &BTreeMap<u64, Request>) -> Option<Vec<Event>> {
        if !self.owned.keys().eq(live.keys()) {
            return None;
        }
        for (block, known) in self.owned.values().zip(live.values()) {
            let Event::Allocate(request) = &mut self.events[self.births[*block]] else {
                return None;
            };
            if request.size != known.size {
                return None;
            }
            *request = Request { site: request.site, ..*known };
        }
        Some(self.events)
    }
}
