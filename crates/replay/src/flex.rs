//! The Flex allocator as a target: one growable region on a device of practically unlimited memory.

use super::Target;
use crate::trace::{Allocate, Trace};
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{Allocation, FlexAllocator};
use cubeyard_memory::policy::Request;
use cubeyard_units::Bytes;
use std::sync::Arc;

/// Size of the device and of the region: 64 TiB, more than any accelerator has.
const SPACE: Bytes = Bytes::new(1 << 46);

#[derive(Debug)]
pub(super) struct Flex {
    allocator: FlexAllocator,
    card: Arc<Card>,
    /// Live blocks, indexed by token: the number of the allocation.
    live: Vec<Option<Allocation>>,
}

impl Flex {
    /// Creates a region that grows in granules of 2 MiB, with the block strategy `block`. Idle memory is remapped
    /// if it `recycles`. The device has `memory`, or practically no limit.
    pub(super) fn new(block: &str, recycles: bool, trace: &Trace, memory: Option<Bytes>) -> Self {
        let card = Arc::new(Card::new(CardSpec::physical(memory.unwrap_or(SPACE))));
        let growth = if recycles { "recycle" } else { "growable" };
        let config = format!("block:{block},growth:{growth}({}),max_regions:1", SPACE.get());
        let builder = FlexAllocator::builder(Arc::clone(&card) as Arc<dyn DeviceMemory>);
        let allocator =
            builder.config(config.parse().expect("the names are those of the table")).build();
        let live = (0..trace.allocations).map(|_| None).collect();
        Self { allocator: allocator.expect("the card can commit in granules"), card, live }
    }
}

impl Target for Flex {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let Allocate { id, size, stream, site, .. } = *request;
        let request = Request { stream, site, ..Request::new(size) };
        let block = self.allocator.allocate_for(&request).map_err(|error| error.to_string())?;
        self.live[id.index()] = Some(block);
        Ok(u64::from(id.0))
    }

    fn free(&mut self, token: u64) {
        let place = usize::try_from(token).expect("a token comes from `allocate`");
        self.live[place] = None;
    }

    fn address(&self, token: u64) -> Option<u64> {
        let place = usize::try_from(token).ok()?;
        self.live.get(place)?.as_ref().map(|block| block.address().offset.get())
    }

    fn reserved(&self) -> Bytes {
        let info = self.card.info();
        info.total - info.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::trace::script::Script;

    fn reserved(recycles: bool, script: &str) -> Bytes {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let mut target = Flex::new("first-fit", recycles, &trace, None);
        assert_eq!(run(&trace, &mut target, &mut |_| {}).failed, None);
        target.reserved()
    }

    #[test]
    fn a_granule_is_committed_once_a_block_has_touched_it() {
        assert_eq!(reserved(false, "alloc a 1\nalloc b 2097024\n"), Bytes::mib(2));
        assert_eq!(reserved(false, "alloc a 1\nalloc b 2097025\n"), Bytes::mib(4));
        assert_eq!(reserved(false, "alloc a 5 MiB\nfree a\nalloc b 4 MiB\n"), Bytes::mib(6));
    }

    #[test]
    fn what_lies_idle_is_used_elsewhere_only_where_memory_is_recycled() {
        let script = "alloc a 4 MiB\nalloc b 2 MiB\nfree a\nalloc c 6 MiB\n";
        assert_eq!(reserved(false, script), Bytes::mib(12));
        assert_eq!(reserved(true, script), Bytes::mib(8));
    }

    #[test]
    fn a_block_longer_than_the_space_is_refused_with_the_figures() {
        let trace = Script::parse("alloc a 70368744177665\n").unwrap().to_trace("test").unwrap();
        let outcome = run(&trace, &mut Flex::new("best-fit", false, &trace, None), &mut |_| {});
        let message = outcome.failed.unwrap().message;
        assert!(message.contains("the longest block is 64.00 TiB"), "{message}");
    }
}
