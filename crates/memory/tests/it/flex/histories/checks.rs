//! Comparison of an allocator with the ledger of its history.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::DeviceMemory as _;
use cubeyard_memory::flex::BlockState;
use cubeyard_memory::stats::{Pool, Quantity};

use super::history::History;
use crate::flex::ledger::Ledger;
use crate::flex::properties::{currents_are_the_snapshots, parts_are_whole};

/// Lowest number of a stream that snapshots do not tell from higher ones.
const FAR_STREAM: u32 = u32::MAX >> 8;

impl History {
    /// Compares the statistics with the sums of the ledger.
    pub(super) fn check_statistics(&mut self) {
        let stats = self.allocator.stats();
        let info = self.device.info();
        assert_eq!(stats.reserved(), info.total - info.free, "the device agrees");
        for (pool, (count, bytes)) in [Pool::Small, Pool::Large].into_iter().zip(self.sums) {
            assert_eq!(stats.get(Quantity::Allocation, pool).current, count, "{pool:?}");
            assert_eq!(stats.get(Quantity::AllocatedBytes, pool).current, bytes, "{pool:?}");
        }
        let all = |quantity| stats.get(quantity, Pool::All);
        let (count, bytes) = (all(Quantity::Allocation), all(Quantity::AllocatedBytes));
        assert_eq!((count.current, bytes.current), (self.count(), self.bytes()));
        assert!(all(Quantity::Active).current >= count.current);
        assert!(all(Quantity::ActiveBytes).current >= bytes.current);
        assert!(all(Quantity::ActiveBytes).current <= stats.reserved().get());
        // A thread passes on what it frees in another thread's region, and it counts until then.
        if self.allocator.config().region.thread_home {
            assert!(count.peak >= self.peaks.0 && bytes.peak >= self.peaks.1);
        } else {
            assert_eq!((count.peak, bytes.peak), self.peaks, "peaks");
        }
        for quantity in Quantity::ALL {
            let [all, small, large] = Pool::ALL.map(|pool| stats.get(quantity, pool));
            assert_eq!(all.current, small.current + large.current, "{quantity:?}");
            assert!(all.peak >= all.current, "{quantity:?}");
        }
    }

    /// Compares everything: handles, statistics, snapshot, events.
    pub(super) fn check_all(&mut self) {
        self.seen.checks += 1;
        self.blocks.iter().for_each(|block| block.is_as_known(&self.allocator));
        self.check_statistics();
        let table = self.allocator.segment_table();
        let (snapshot, stats) = (self.allocator.snapshot(), self.allocator.stats());
        let parts = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        let owned = parts.filter(|block| block.state == BlockState::Allocated);
        let owned = owned.map(|block| (block.address, (block.size, block.requested, block.stream)));
        let owned: BTreeMap<_, _> = owned.collect();
        let known = self.blocks.iter().filter(|block| !block.paused).map(|block| {
            let (region, start) = block.place;
            let (_, entry) = table.get(region).expect("a region with a block stays");
            let stream = block.request.stream.min(FAR_STREAM);
            (entry.base + start, (Bytes::new(block.size), block.request.size, stream))
        });
        assert_eq!(owned, known.collect());
        parts_are_whole(&snapshot, self.setup.lag.is_none());
        currents_are_the_snapshots(&stats, &snapshot, self.count());
        self.check_labels(&stats);
        if let Some(ledger) = &self.ledger {
            Ledger::check(ledger, &self.allocator);
        }
        self.device.ground().forget_done(&self.device.streams.state());
    }
}
