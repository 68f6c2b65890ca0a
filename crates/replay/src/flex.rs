//! The Flex allocator as a target: growable regions on a device of practically unlimited memory.

use std::collections::BTreeMap;

use super::Target;
use crate::trace::{Allocate, Trace};
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{Allocation, FlexAllocator, FlexConfig, Growth};
use cubeyard_memory::policy::{BlockPolicy, Request};
use cubeyard_units::Bytes;
use std::sync::Arc;

/// Size of the device and of a region: 64 TiB, more than any accelerator has.
const SPACE: Bytes = Bytes::new(1 << 46);
/// Size of the address space that all regions share, in bytes.
const ADDRESSES: u64 = 1 << 62;

/// Flex allocators on one device, one for each stream of the trace.
///
/// Pending work of a stream may still use a block after it is freed, so its memory serves only requests of the same
/// stream. When the device is full, idle memory of all streams is released, as in PyTorch.
#[derive(Debug)]
pub(super) struct Flex {
    config: FlexConfig,
    card: Arc<Card>,
    /// Allocator of each stream, with the start address of its region.
    streams: BTreeMap<u32, (u64, FlexAllocator)>,
    /// Live blocks with the start addresses of their regions, indexed by token: the number of the allocation.
    live: Vec<Option<(u64, Allocation)>>,
    space: Bytes,
    retries: u64,
}

impl Flex {
    /// Creates regions that grow in granules of 2 MiB, with the block strategy `block`. The device has `memory` bytes;
    /// `None` means practically unlimited.
    pub(super) fn new(
        block: &'static BlockPolicy,
        growth: fn(Bytes) -> Growth,
        trace: &Trace,
        memory: Option<Bytes>,
    ) -> Self {
        let card = Arc::new(Card::new(CardSpec::physical(memory.unwrap_or(SPACE))));
        let each = Bytes::new(ADDRESSES / trace.streams().len().max(1) as u64);
        let space = SPACE.min(each.align_down(Bytes::mib(2)));
        let mut config = FlexConfig::default();
        (config.block, config.growth, config.max_regions) = (block, growth(space), 1);
        let live = (0..trace.allocations).map(|_| None).collect();
        Self { config, card, streams: BTreeMap::new(), live, space, retries: 0 }
    }

    /// Allocates from the region of the request's stream.
    fn place(&mut self, request: &Request) -> Result<(u64, Allocation), String> {
        let first = self.space.get() * self.streams.len() as u64;
        let (start, allocator) = self.streams.entry(request.stream).or_insert_with(|| {
            let builder = FlexAllocator::builder(Arc::clone(&self.card) as Arc<dyn DeviceMemory>);
            let allocator = builder.config(self.config.clone()).build();
            (first, allocator.expect("the card can commit in granules"))
        });
        let block = allocator.allocate_for(request).map_err(|error| error.to_string())?;
        Ok((*start, block))
    }

    /// Releases the idle memory of all streams to the device, and returns whether there was any.
    fn give_back(&mut self) -> bool {
        if self.streams.len() < 2 {
            return false;
        }
        let given: Bytes = self.streams.values().map(|(_, allocator)| allocator.trim()).sum();
        self.retries += u64::from(!given.is_zero());
        !given.is_zero()
    }
}

impl Target for Flex {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let Allocate { id, size, stream, site, .. } = *request;
        let request = Request { stream, site, ..Request::new(size) };
        let placed = self.place(&request);
        let placed = match placed {
            Err(_) if self.give_back() => self.place(&request),
            placed => placed,
        };
        self.live[id.index()] = Some(placed?);
        Ok(u64::from(id.0))
    }

    fn free(&mut self, token: u64) {
        let place = usize::try_from(token).expect("a token comes from `allocate`");
        self.live[place] = None;
    }

    fn address(&self, token: u64) -> Option<u64> {
        let place = usize::try_from(token).ok()?;
        let (start, block) = self.live.get(place)?.as_ref()?;
        Some(start + block.address().offset.get())
    }

    fn reserved(&self) -> Bytes {
        let info = self.card.info();
        info.total - info.free
    }

    fn retries(&self) -> u64 {
        self.retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::trace::script::Script;
    use Growth::{Growable, Recycle};
    use cubeyard_memory::policy::{BEST_FIT, FIRST_FIT};

    fn reserved(growth: fn(Bytes) -> Growth, script: &str) -> Bytes {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let mut target = Flex::new(&FIRST_FIT, growth, &trace, None);
        assert_eq!(run(&trace, &mut target, &mut |_| {}).failed, None);
        target.reserved()
    }

    #[test]
    fn a_granule_is_committed_once_a_block_has_touched_it() {
        assert_eq!(reserved(Growable, "alloc a 1\nalloc b 2097024\n"), Bytes::mib(2));
        assert_eq!(reserved(Growable, "alloc a 1\nalloc b 2097025\n"), Bytes::mib(4));
        assert_eq!(reserved(Growable, "alloc a 5 MiB\nfree a\nalloc b 4 MiB\n"), Bytes::mib(6));
    }

    #[test]
    fn what_lies_idle_is_used_elsewhere_only_where_memory_is_recycled() {
        let script = "alloc a 4 MiB\nalloc b 2 MiB\nfree a\nalloc c 6 MiB\n";
        assert_eq!(reserved(Growable, script), Bytes::mib(12));
        assert_eq!(reserved(Recycle, script), Bytes::mib(8));
    }

    /// The work that used a freed block may not have run yet, so another stream would overwrite what it reads.
    #[test]
    fn memory_of_one_stream_does_not_serve_another() {
        let script = "alloc a 4 MiB\nfree a\nalloc b 4 MiB stream 1\nfree b\nalloc c 4 MiB\n";
        assert_eq!(reserved(Growable, script), Bytes::mib(8));
        assert_eq!(reserved(Recycle, script), Bytes::mib(8));
    }

    #[test]
    fn where_the_device_is_full_idle_memory_of_other_streams_is_given_back() {
        let script = "alloc a 4 MiB\nfree a\nalloc b 4 MiB stream 1\nfree b\nalloc c 6 MiB\n";
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        for (limit, retries) in [(14, 0), (6, 2)] {
            let mut target = Flex::new(&BEST_FIT, Growable, &trace, Some(Bytes::mib(limit)));
            assert_eq!(run(&trace, &mut target, &mut |_| {}).failed, None);
            assert_eq!(target.retries(), retries, "{limit} MiB");
        }
    }

    #[test]
    fn a_block_longer_than_the_space_is_refused_with_the_figures() {
        let trace = Script::parse("alloc a 70368744177665\n").unwrap().to_trace("test").unwrap();
        let outcome = run(&trace, &mut Flex::new(&BEST_FIT, Growable, &trace, None), &mut |_| {});
        let message = outcome.failed.unwrap().message;
        assert!(message.contains("the longest block is 64.00 TiB"), "{message}");
    }
}
