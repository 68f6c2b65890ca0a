//! The Flex allocator as a target.

use super::Target;
use crate::trace::{Allocate, Trace, TraceId};
use crate::work::{Users, Work};
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{
    Allocation, BuildError, FlexAllocator, FlexConfig, Growth, StreamEvents,
};
use cubeyard_memory::policy::{BlockPolicy, Request};
use cubeyard_units::Bytes;
use std::sync::Arc;

/// Size of the device and of a region: 64 TiB, more than any accelerator has.
const SPACE: Bytes = Bytes::new(1 << 46);

/// Flex allocator over the streams of a trace, whose work completes by the rule of the trace.
#[derive(Debug)]
pub struct Flex {
    allocator: FlexAllocator,
    card: Arc<Card>,
    /// Work of the streams; `None` for one stream, whose work and allocations are in one order.
    work: Option<Arc<Work>>,
    users: Users,
    /// Live blocks and their streams, indexed by token: the number of the allocation.
    live: Vec<Option<(u32, Allocation)>>,
}

impl Flex {
    /// Creates an allocator with a configuration. The device has `memory` bytes; `None` means practically unlimited.
    /// It commits memory in granules of 2 MiB.
    pub fn new(
        config: FlexConfig,
        trace: &Trace,
        memory: Option<Bytes>,
    ) -> Result<Self, BuildError> {
        let card = Arc::new(Card::new(CardSpec::physical(memory.unwrap_or(SPACE))));
        let work = (trace.streams().len() > 1).then(|| Work::of(trace));
        let builder = FlexAllocator::builder(Arc::clone(&card) as Arc<dyn DeviceMemory>);
        let mut builder = builder.config(config);
        if let Some(work) = &work {
            builder = builder.events(Arc::clone(work) as Arc<dyn StreamEvents>);
        }
        let (allocator, users) = (builder.build()?, Users::of(trace));
        let live = (0..trace.allocations).map(|_| None).collect();
        Ok(Self { allocator, card, work, users, live })
    }

    /// Creates one region that grows in granules of 2 MiB, with the block strategy `block`.
    pub(super) fn growing(
        block: &'static BlockPolicy,
        growth: fn(Bytes) -> Growth,
        trace: &Trace,
        memory: Option<Bytes>,
    ) -> Self {
        let mut config = FlexConfig::default();
        (config.block, config.growth, config.max_regions) = (block, growth(SPACE), 1);
        Self::new(config, trace, memory).expect("the card can commit in granules")
    }
}

impl Target for Flex {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let Allocate { id, size, stream, site, .. } = *request;
        self.work.iter().for_each(|work| work.begin());
        let request = Request { stream, site, ..Request::new(size) };
        let block = self.allocator.allocate_for(&request).map_err(|error| error.to_string())?;
        self.work.iter().for_each(|work| work.launch(stream));
        self.live[id.index()] = Some((stream, block));
        Ok(u64::from(id.0))
    }

    fn free(&mut self, token: u64) {
        let id = u32::try_from(token).map(TraceId).expect("a token comes from `allocate`");
        if let Some((own, block)) = self.live[id.index()].take() {
            self.users.others(id, own).for_each(|stream| block.record_stream(stream));
        }
    }

    fn address(&self, token: u64) -> Option<u64> {
        let (_, block) = self.live.get(usize::try_from(token).ok()?)?.as_ref()?;
        let address = block.address();
        Some(address.region_id.get() + address.offset.get())
    }

    fn reserved(&self) -> Bytes {
        let info = self.card.info();
        info.total - info.free
    }

    /// Returns the number of requests that the allocator tried again; 0 for one stream, whose idle memory is used at
    /// the first attempt.
    fn retries(&self) -> u64 {
        self.work.as_ref().map_or(0, |_| self.allocator.stats().counters.alloc_retries)
    }

    fn waits(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.waits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::trace::Lag;
    use crate::trace::script::Script;
    use Growth::{Growable, Recycle};
    use cubeyard_memory::policy::{BEST_FIT, FIRST_FIT};

    fn replayed(growth: fn(Bytes) -> Growth, script: &str, lag: u64, limit: Option<u64>) -> Flex {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let trace = trace.with_lag(Lag::Launches(lag));
        let mut target = Flex::growing(&FIRST_FIT, growth, &trace, limit.map(Bytes::mib));
        assert_eq!(run(&trace, &mut target, &mut |_| {}).failed, None);
        target
    }

    fn reserved(growth: fn(Bytes) -> Growth, script: &str) -> Bytes {
        replayed(growth, script, 0, None).reserved()
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
    fn memory_of_one_stream_serves_another_once_its_work_is_complete() {
        let script = "alloc a 4 MiB\nfree a\nalloc b 4 MiB stream 1\nfree b\nalloc c 4 MiB\n";
        for growth in [Growable, Recycle] {
            assert_eq!(replayed(growth, script, 0, None).reserved(), Bytes::mib(4));
            for lag in [1, 50] {
                assert_eq!(replayed(growth, script, lag, None).reserved(), Bytes::mib(8));
            }
        }
    }

    #[test]
    fn where_the_device_is_full_streams_are_waited_for() {
        let script = "alloc a 4 MiB\nfree a\nalloc b 4 MiB stream 1\nfree b\nalloc c 6 MiB\n";
        for growth in [Growable, Recycle] {
            let target = replayed(growth, script, 1, Some(6));
            assert!(target.waits() > 0 && target.reserved() == Bytes::mib(6));
            assert_eq!(replayed(growth, script, 0, Some(6)).waits(), 0);
        }
    }

    #[test]
    fn a_block_longer_than_the_space_is_refused_with_the_figures() {
        let trace = Script::parse("alloc a 70368744177665\n").unwrap().to_trace("test").unwrap();
        let outcome =
            run(&trace, &mut Flex::growing(&BEST_FIT, Growable, &trace, None), &mut |_| {});
        let message = outcome.failed.unwrap().message;
        assert!(message.contains("the longest block is 64.00 TiB"), "{message}");
    }
}
