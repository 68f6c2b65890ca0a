//! Replicas: allocators over a simulated device, built to try a remedy.

use std::collections::BTreeMap;

use super::streams::ReplayedStreams;

use crate::Bytes;
use crate::device::{AddressMode, Card, CardSpec};
use crate::flex::config::{Acquire, FlexConfig, Growth};
use crate::flex::error::RegionLimit;
use crate::flex::pools::PoolState;
use crate::flex::still::{Event, Still, StillBlock, StillPool, StillRegion};
use crate::flex::{Allocation, Builder, FlexAllocator, StreamEvents};
use crate::sync::Arc;

/// Figures of a replica in which the request was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) reserved: Bytes,
    pub(crate) largest: Bytes,
}

/// A replica after a history, and the blocks by number; `None` for a freed block.
type Replayed = (FlexAllocator, Vec<Option<Allocation>>);

impl Still {
    /// Tries the request on a replica in which the blocks that `stays` accepts lie where they lie now. `act` changes
    /// the replica before the request.
    pub(crate) fn on_layout(
        &self,
        config: FlexConfig,
        stays: impl Fn(&StillRegion, &StillBlock) -> bool,
        act: impl FnOnce(&FlexAllocator),
    ) -> Option<Figures> {
        self.on_layout_of(self.device.entries, config, stays, act)
    }

    /// Does the same on a device whose tables hold `entries` regions.
    pub(crate) fn on_layout_of(
        &self,
        entries: usize,
        mut config: FlexConfig,
        stays: impl Fn(&StillRegion, &StillBlock) -> bool,
        act: impl FnOnce(&FlexAllocator),
    ) -> Option<Figures> {
        if let Acquire::Eager(_) = config.acquire {
            config.acquire = Acquire::Lazy;
        }
        let replica = self.builder(entries, config).build().ok()?;
        self.enter_pools(&replica);
        self.regions.iter().try_for_each(|region| replica.restore(region, &stays))?;
        act(&replica);
        self.place_request(&replica)
    }

    /// Tries the request on a replica in which the history is replayed, or else the live blocks are placed anew: those
    /// of the oldest region first, in the order of their allocation. If freed blocks waited for streams, the history is
    /// also replayed with streams that pass only when they are waited for: under other settings the allocator may have
    /// no reason to wait.
    pub(crate) fn placed_anew(&self, config: &FlexConfig) -> Option<Figures> {
        let live = self.history.is_none().then(|| self.by_age());
        let events = self.history.as_ref().or(live.as_ref())?;
        if is_delayed(events) {
            let (replica, _blocks) = self.replayed(config, events, false)?;
            self.place_request(&replica)?;
        }
        let (replica, _blocks) = self.replayed(config, events, true)?;
        self.place_request(&replica)
    }

    /// Returns whether the history, replayed under the present settings, leads to the blocks where they lie. If not,
    /// something that mattered was not recorded.
    pub(crate) fn is_reproduced(&self) -> bool {
        let Some(events) = &self.history else { return false };
        let replayed = self.replayed(&self.config, events, true);
        let still = replayed.as_ref().and_then(|(replica, _)| {
            replica.still(&self.request, RegionLimit::Open, replica.shared.device.info())
        });
        still.is_some_and(|still| still.layout().eq(self.layout()))
    }

    /// Returns the live blocks of each region that has any.
    fn layout(&self) -> impl Iterator<Item = Vec<(Bytes, Bytes)>> + '_ {
        let regions = self.regions.iter().map(|region| {
            let live = region.blocks.iter().filter(|block| block.is_live());
            live.map(|block| (block.offset, block.request.size)).collect::<Vec<_>>()
        });
        regions.filter(|blocks| !blocks.is_empty())
    }

    fn replayed(&self, config: &FlexConfig, events: &[Event], on_time: bool) -> Option<Replayed> {
        let streams = is_delayed(events).then(|| Arc::new(ReplayedStreams::default()));
        let builder = self.builder(self.device.entries, config.clone());
        let builder = match &streams {
            Some(streams) => builder.events(Arc::clone(streams) as Arc<dyn StreamEvents>),
            None => builder,
        };
        let replica = builder.build().ok()?;
        self.enter_pools(&replica);
        let blocks = replay(&replica, events, streams.as_deref(), on_time)?;
        Some((replica, blocks))
    }

    fn builder(&self, entries: usize, config: FlexConfig) -> Builder {
        let card = Card::new(CardSpec {
            memory: self.device.memory,
            mode: AddressMode::Virtual,
            table: entries,
            granule: self.device.granule.unwrap_or(Bytes::mib(2)),
        });
        FlexAllocator::builder(Arc::new(card)).config(config)
    }

    /// Enters the pools with their limits. No handle closes them.
    fn enter_pools(&self, replica: &FlexAllocator) {
        for StillPool { id, name, limit } in &self.pools {
            replica.shared.pools.enter(PoolState::new(*id, name.clone(), *limit));
        }
    }

    fn by_age(&self) -> Vec<Event> {
        let regions = self.regions.iter().flat_map(|region| {
            let mut blocks: Vec<_> = region.blocks.iter().filter(|block| block.is_live()).collect();
            blocks.sort_by_key(|block| block.serial);
            blocks.into_iter().map(|block| Event::Allocate(block.request))
        });
        regions.collect()
    }

    fn place_request(&self, replica: &FlexAllocator) -> Option<Figures> {
        let _placed = replica.allocate_for(&self.request).ok()?;
        let regions = replica.regions();
        let largest = regions.iter().map(|region| region.largest).max().unwrap_or(Bytes::ZERO);
        Some(Figures { reserved: replica.stats().reserved(), largest })
    }
}

/// Returns whether a freed block waited for a stream.
fn is_delayed(events: &[Event]) -> bool {
    let at_once = |pair: &[Event]| match pair {
        [Event::FreeRequested(block), next] => {
            matches!(next, Event::FreeCompleted(passed) if passed == block)
        }
        _ => true,
    };
    !events.windows(2).all(at_once)
}

/// Replays a history, and returns the blocks that are live at its end. Returns `None` if a request finds no room. Unless
/// `on_time`, streams do not pass by themselves.
fn replay(
    replica: &FlexAllocator,
    events: &[Event],
    streams: Option<&ReplayedStreams>,
    on_time: bool,
) -> Option<Vec<Option<Allocation>>> {
    let mut blocks = Vec::new();
    let mut freed = BTreeMap::new();
    let mut owners = Vec::new();
    for event in events {
        match *event {
            Event::Allocate(request) => {
                blocks.push(Some(replica.allocate_for(&request).ok()?));
                owners.push(request.stream);
            }
            Event::FreeRequested(block) => {
                blocks[block] = None;
                freed.insert(block, streams.map_or(0, ReplayedStreams::recorded));
            }
            Event::FreeCompleted(block) => {
                let end = freed.remove(&block)?;
                streams.filter(|_| on_time).inspect(|streams| streams.pass(owners[block], end));
            }
            Event::Trim => _ = replica.trim(),
        }
    }
    Some(blocks)
}

impl FlexAllocator {
    /// Restores a region of a still, with the blocks that `stays` accepts.
    fn restore(
        &self,
        region: &StillRegion,
        stays: impl Fn(&StillRegion, &StillBlock) -> bool,
    ) -> Option<()> {
        let device = &self.shared.device;
        let handle = match self.config().growth {
            Growth::Fixed => device.try_acquire(region.size)?,
            Growth::Growable(size) | Growth::Recycle(size) => {
                device.try_reserve(size.max(region.size).align_up(self.shared.granule)?)?
            }
        };
        let slot = self.slots.get(region.slot)?;
        let age = self.enter_segment(&handle)?;
        let pool = self.shared.pools.get(region.pool);
        slot.settle_in(handle.duplicate(), (region.domain, pool.clone()), age, None);
        let blocks = region.blocks.iter().filter(|block| stays(region, block));
        let committed = slot.restore(&region.committed, blocks)?;
        let commit = |&(offset, size): &(Bytes, Bytes)| device.commit(&handle, offset, size);
        committed.iter().all(commit).then_some(())?;
        let memory = slot.report().map_or(Bytes::ZERO, |region| region.size);
        pool.inspect(|pool| pool.hold(memory));
        Some(())
    }
}
