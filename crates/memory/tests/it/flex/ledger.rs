//! A subscriber that rebuilds the live blocks from events alone, and refuses an event that does not follow.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Action, BlockState, Event, FlexAllocator};
use cubeyard_memory::stats::{Pool, Quantity};

/// Blocks and memory according to the events so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Ranges in use by address: size and requested bytes.
    pub(crate) ranges: BTreeMap<u64, (u64, u64)>,
    /// Blocks with an owner by address: size and call site.
    pub(crate) owned: BTreeMap<u64, (u64, u32)>,
    pub(crate) reserved: u64,
    /// Number of events by the name of their action.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    next: Option<u64>,
}

impl Ledger {
    /// Returns the number of events of a kind.
    pub(crate) fn count(&self, action: Action) -> u64 {
        self.counts.get(action.name()).copied().unwrap_or(0)
    }

    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &Event) {
        assert!(
            self.next.is_none_or(|next| next == event.number),
            "{event:?}, not {:?}",
            self.next
        );
        self.next = Some(event.number + 1);
        *self.counts.entry(event.action.name()).or_default() += 1;
        let Event { flat, site, .. } = *event;
        let size = event.size.get();
        match event.action {
            Action::Alloc => {
                self.take(event);
                assert!(self.owned.insert(flat, (size, site)).is_none(), "{event:?}");
            }
            Action::RoomReserved => self.take(event),
            Action::RoomReleased => assert!(!self.owned.contains_key(&flat), "{event:?}"),
            Action::FreeRequested => {
                assert_eq!(self.owned.remove(&flat), Some((size, site)), "{event:?}");
            }
            Action::Move => {
                assert_eq!(self.owned.remove(&flat), Some((size, site)), "{event:?}");
                assert!(self.ranges.contains_key(&event.target_flat), "{event:?}");
                assert!(self.owned.insert(event.target_flat, (size, site)).is_none());
            }
            Action::FreeCompleted => {
                let range = (size, event.requested.get());
                assert_eq!(self.ranges.remove(&flat), Some(range), "{event:?}");
                assert!(!self.owned.contains_key(&flat), "{event:?}");
            }
            Action::SegmentAlloc | Action::SegmentMap => self.reserved += size,
            Action::SegmentFree | Action::SegmentUnmap => self.reserved -= size,
            _ => assert_eq!((flat, event.address), (0, None), "{event:?}"),
        }
    }

    fn take(&mut self, event: &Event) {
        let (start, end) = (event.flat, event.flat + event.size.get());
        let below = self.ranges.range(..end).next_back();
        let apart = below.is_none_or(|(at, (size, _))| at + size <= start);
        assert!(apart, "{event:?} overlaps {below:?}");
        self.ranges.insert(start, (event.size.get(), event.requested.get()));
    }

    /// Checks a ledger against a snapshot and the statistics of the allocator, which no other thread uses.
    pub(crate) fn check(ledger: &Mutex<Self>, allocator: &FlexAllocator) {
        let (snapshot, stats) = (allocator.snapshot(), allocator.stats());
        let ledger = ledger.lock().expect("the ledger accepts every event");
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let used = blocks.clone().filter(|block| block.state != BlockState::Inactive);
        let used = used.map(|block| (block.address, (block.size.get(), block.requested.get())));
        assert_eq!(ledger.ranges, used.collect());
        let owned = blocks.filter(|block| block.state == BlockState::Allocated);
        let owned = owned.map(|block| (block.address, (block.size.get(), block.site)));
        assert_eq!(ledger.owned, owned.collect());
        assert_eq!(Bytes::new(ledger.reserved), stats.reserved());
        let current = |quantity| stats.get(quantity, Pool::All).current;
        assert_eq!(current(Quantity::Allocation), ledger.owned.len() as u64);
        assert_eq!(current(Quantity::Active), ledger.ranges.len() as u64);
    }
}
