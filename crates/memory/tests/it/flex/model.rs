//! A reference model of the RFC's allocator, as simple as possible: lists with linear search, and accounts that are
//! recomputed after every step.

use cubeyard_memory::Bytes;
use cubeyard_memory::conformance::Naive;
use cubeyard_memory::flex::{Acquire, FlexConfig, Shortage};
use cubeyard_memory::index::Fit;
use cubeyard_memory::stats::{Counters, Pool, Quantity, Stat};

/// Sums at one moment: for every quantity, the figures of the small and the large pool.
type Sums = [[u64; 2]; 9];

/// One region: its size in bytes, its free list in granules, and its blocks.
pub(super) struct Region {
    /// Number of the acquisition that created the region.
    pub(super) number: usize,
    size: u64,
    naive: Naive,
    /// Offset, rounded and requested size in bytes.
    blocks: Vec<(u64, u64, u64)>,
}

/// Position of a block in the model: the number of its region's acquisition, and the offset.
pub(super) type Place = (usize, u64);

pub(super) struct Model {
    config: FlexConfig,
    fit: Fit,
    memory: u64,
    pub(super) regions: Vec<Region>,
    acquired: usize,
    /// Whether the device has refused all sizes.
    pub(super) refused: bool,
    pub(super) counters: Counters,
    /// Statistics as `[small, large, all]`.
    stats: [[Stat; 3]; 9],
}

/// The model's report for a refused request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) shortage: Shortage,
    pub(super) free: u64,
    pub(super) largest: u64,
    pub(super) locked: bool,
}

impl Model {
    pub(super) fn new(config: FlexConfig, memory: u64) -> Self {
        let fit = if config.block.name == "best-fit" { Fit::Best } else { Fit::First };
        let mut model = Self {
            config,
            fit,
            memory,
            regions: Vec::new(),
            acquired: 0,
            refused: false,
            counters: Counters::default(),
            stats: [[Stat::default(); 3]; 9],
        };
        if let Acquire::Eager(count) = model.config.acquire {
            for _ in 0..count {
                if !model.acquire(128) {
                    break;
                }
            }
        }
        model
    }

    pub(super) fn allocate(&mut self, size: u64, alignment: u64) -> Result<Place, Refusal> {
        let rounded = size.next_multiple_of(128);
        let request = (rounded, size, alignment);
        if self.config.acquire == Acquire::First && self.acquire(rounded) {
            let last = self.regions.len() - 1;
            return Ok(self
                .place(last, request)
                .expect("a new region holds what it was wanted for"));
        }
        if let Some(place) = self.search_or_acquire(request) {
            return Ok(place);
        }
        self.counters.alloc_retries += 1;
        self.counters.ooms += 1;
        let free = self.regions.iter().map(|region| region.naive.free_bytes().get() * 128).sum();
        let largest = self.regions.iter().map(|region| region.naive.largest() * 128).max();
        let shortage = match () {
            () if rounded > self.longest() => Shortage::TooLarge,
            () if free >= rounded => Shortage::Fragmented,
            () => Shortage::Full,
        };
        Err(Refusal { shortage, free, largest: largest.unwrap_or(0), locked: self.locked() })
    }

    /// Returns whether no more regions are acquired.
    pub(super) fn locked(&self) -> bool {
        self.refused || self.regions.len() == self.config.max_regions
    }

    /// Returns the position of a block: the index of its region among the existing ones, oldest first, and the offset.
    pub(super) fn position(&self, (number, offset): Place) -> (usize, u64) {
        let place = self.regions.iter().position(|region| region.number == number);
        (place.expect("a region with a block stays"), offset)
    }

    fn longest(&self) -> u64 {
        let sizes = self.config.fallback_sizes.iter().map(|size| size.get());
        sizes.filter(|&size| size <= self.memory).max().unwrap_or(0) / 128 * 128
    }

    fn search_or_acquire(&mut self, request: (u64, u64, u64)) -> Option<Place> {
        let mut order: Vec<_> = (0..self.regions.len()).collect();
        let free = |&place: &usize| self.regions[place].naive.free_bytes().get() * 128;
        if self.config.region.name == "fill-first" {
            order.retain(|place| free(place) >= request.1);
            order.sort_by_key(free);
        } else {
            order.sort_by_key(|place| u64::MAX - free(place));
        }
        for place in order {
            if let Some(found) = self.place(place, request) {
                return Some(found);
            }
        }
        self.acquire(request.0).then(|| {
            let last = self.regions.len() - 1;
            self.place(last, request).expect("a new region holds what it was wanted for")
        })
    }

    fn place(
        &mut self,
        place: usize,
        (rounded, size, alignment): (u64, u64, u64),
    ) -> Option<Place> {
        let fit = self.fit;
        let before = self.sums_of_all();
        let region = &mut self.regions[place];
        let at = region.naive.allocate(fit, rounded / 128, (alignment / 128).max(1))? * 128;
        region.blocks.push((at, rounded, size));
        let number = region.number;
        self.account(&before);
        Some((number, at))
    }

    fn acquire(&mut self, least: u64) -> bool {
        if self.locked() {
            return false;
        }
        let used: u64 = self.regions.iter().map(|region| region.size).sum();
        let sizes: Vec<_> = self.config.fallback_sizes.iter().map(|size| size.get()).collect();
        let mut tried = 0;
        for size in sizes.iter().map(|size| size / 128 * 128).filter(|&size| size >= least) {
            tried += 1;
            if used + size <= self.memory {
                let before = self.sums_of_all();
                let naive = Naive::new(size / 128);
                let number = self.acquired;
                self.regions.push(Region { number, size, naive, blocks: Vec::new() });
                self.acquired += 1;
                self.counters.device_allocs += 1;
                self.account(&before);
                return true;
            }
        }
        self.refused = tried == sizes.len();
        false
    }

    pub(super) fn free(&mut self, place: Place) {
        let before = self.sums_of_all();
        let region = self.regions.iter_mut().find(|region| region.number == place.0).unwrap();
        let index = region.blocks.iter().position(|block| block.0 == place.1).unwrap();
        let (at, rounded, _) = region.blocks.remove(index);
        region.naive.free(at / 128, rounded / 128);
        self.account(&before);
    }

    /// Returns idle regions to the device.
    pub(super) fn trim(&mut self) {
        self.refused = false;
        while let Some(index) = self.regions.iter().position(|region| region.blocks.is_empty()) {
            let before = self.sums_of_all();
            self.regions.remove(index);
            self.counters.device_frees += 1;
            self.account(&before);
        }
    }

    pub(super) fn reset_peaks(&mut self) {
        self.stats.iter_mut().flatten().for_each(|stat| stat.peak = stat.current);
    }

    pub(super) fn reset_accumulated(&mut self) {
        self.counters = Counters::default();
        for stat in self.stats.iter_mut().flatten() {
            (stat.allocated, stat.freed) = (0, 0);
        }
    }

    /// Computes each region's quantities from its blocks alone.
    fn sums_of_all(&self) -> Vec<(usize, Sums)> {
        self.regions.iter().map(|region| (region.number, sums(region))).collect()
    }

    /// Accounts for the changes since `before`, region by region.
    fn account(&mut self, before: &[(usize, Sums)]) {
        let now = self.sums_of_all();
        let none = [[0; 2]; 9];
        let of = |list: &[(usize, Sums)], number| {
            list.iter().find(|(other, _)| *other == number).map_or(none, |(_, sums)| *sums)
        };
        let numbers = before.iter().chain(&now).map(|(number, _)| *number).max();
        for number in 0..=numbers.unwrap_or(0) {
            let (old, new) = (of(before, number), of(&now, number));
            for quantity in 0..9 {
                for pool in 0..2 {
                    let (old, new) = (old[quantity][pool], new[quantity][pool]);
                    for pool in [pool, 2] {
                        let stat = &mut self.stats[quantity][pool];
                        stat.allocated += new.saturating_sub(old);
                        stat.freed += old.saturating_sub(new);
                        stat.current = stat.current + new - old;
                    }
                }
            }
        }
        self.stats.iter_mut().flatten().for_each(|stat| stat.peak = stat.peak.max(stat.current));
    }

    /// Returns all 122 keys with their values.
    pub(super) fn entries(&self) -> Vec<(String, i64)> {
        let mut entries = Vec::new();
        let mut push = |prefix: String, stat: Stat| {
            let figures = [stat.current, stat.peak, stat.allocated, stat.freed];
            for (figure, value) in ["current", "peak", "allocated", "freed"].iter().zip(figures) {
                entries.push((format!("{prefix}.{figure}"), i64::try_from(value).unwrap()));
            }
        };
        for quantity in Quantity::ALL {
            for (pool, place) in [(Pool::All, 2), (Pool::Small, 0), (Pool::Large, 1)] {
                let stat = self.stats[quantity as usize][place];
                push(format!("{}.{}", quantity.key(), pool.key()), stat);
            }
        }
        push("oversize_allocations".to_owned(), Stat::default());
        push("oversize_segments".to_owned(), Stat::default());
        let Counters { alloc_retries, ooms, sync_all_streams, device_allocs, device_frees, .. } =
            self.counters;
        for (key, value) in [
            ("num_alloc_retries", alloc_retries),
            ("num_ooms", ooms),
            ("num_sync_all_streams", sync_all_streams),
            ("num_device_alloc", device_allocs),
            ("num_device_free", device_frees),
        ] {
            entries.push((key.to_owned(), i64::try_from(value).unwrap()));
        }
        entries.push(("max_split_size".to_owned(), -1));
        entries
    }

    /// Returns the free ranges of every region, oldest region first.
    pub(super) fn holes(&self) -> Vec<Vec<(u64, u64)>> {
        let ranges = |region: &Region| {
            let ranges = region.naive.ranges().into_iter();
            ranges.map(|(start, size)| (start * 128, size * 128)).collect()
        };
        self.regions.iter().map(ranges).collect()
    }
}

fn sums(region: &Region) -> Sums {
    let mut sums = [[0; 2]; 9];
    let mut used = 0;
    for &(_, rounded, requested) in &region.blocks {
        let pool = usize::from(rounded >= Bytes::mib(1).get());
        used += rounded;
        for quantity in [Quantity::Allocation, Quantity::Active] {
            sums[quantity as usize][pool] += 1;
        }
        for quantity in [Quantity::AllocatedBytes, Quantity::ActiveBytes] {
            sums[quantity as usize][pool] += rounded;
        }
        sums[Quantity::RequestedBytes as usize][pool] += requested;
    }
    sums[Quantity::Segment as usize][1] = 1;
    sums[Quantity::ReservedBytes as usize][1] = region.size;
    if !region.blocks.is_empty() {
        sums[Quantity::InactiveSplit as usize][1] = region.naive.ranges().len() as u64;
        sums[Quantity::InactiveSplitBytes as usize][1] = region.size - used;
    }
    sums
}
