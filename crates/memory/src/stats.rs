//! Statistics: PyTorch's `memory_stats`, key by key.
//!
//! Each quantity is counted for all allocations, and separately for small (below 1 MiB) and large ones. Each count has
//! four figures: its current value, its peak, and the sums of its increases and decreases.

mod tally;

use std::fmt::Write as _;

use crate::Bytes;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use tally::Share;
pub(crate) use tally::Tally;

/// Size from which allocations are large, in the sense of PyTorch's statistics.
const LARGE: Bytes = Bytes::mib(1);

/// A counted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Allocations that their owners have not freed.
    Allocation,
    /// Regions acquired from the device.
    Segment,
    /// Blocks in use: allocations, and freed blocks that a stream may still access.
    Active,
    /// Free ranges in regions that are partly in use and so cannot be released.
    InactiveSplit,
    /// Bytes of allocations, rounded up to the granule.
    AllocatedBytes,
    /// Bytes of regions, or of the memory committed to them.
    ReservedBytes,
    /// Bytes of active blocks.
    ActiveBytes,
    /// Bytes of inactive splits.
    InactiveSplitBytes,
    /// Bytes of allocations as requested.
    RequestedBytes,
}

impl Quantity {
    /// All quantities, in PyTorch's order.
    pub const ALL: [Self; 9] = [
        Self::Allocation,
        Self::Segment,
        Self::Active,
        Self::InactiveSplit,
        Self::AllocatedBytes,
        Self::ReservedBytes,
        Self::ActiveBytes,
        Self::InactiveSplitBytes,
        Self::RequestedBytes,
    ];

    /// Returns the first part of the quantity's keys.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Allocation => "allocation",
            Self::Segment => "segment",
            Self::Active => "active",
            Self::InactiveSplit => "inactive_split",
            Self::AllocatedBytes => "allocated_bytes",
            Self::ReservedBytes => "reserved_bytes",
            Self::ActiveBytes => "active_bytes",
            Self::InactiveSplitBytes => "inactive_split_bytes",
            Self::RequestedBytes => "requested_bytes",
        }
    }
}

/// Allocations that a figure covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Small and large allocations.
    All,
    /// Allocations below 1 MiB.
    Small,
    /// The other allocations. Regions, and free ranges in them, count as large.
    Large,
}

impl Pool {
    /// All three pools.
    pub const ALL: [Self; 3] = [Self::All, Self::Small, Self::Large];

    /// Returns the second part of the pool's keys.
    pub const fn key(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Small => "small_pool",
            Self::Large => "large_pool",
        }
    }

    /// Returns the pool, other than `All`, of an allocation of `size`.
    pub const fn of(size: Bytes) -> Self {
        if size.get() < LARGE.get() { Self::Small } else { Self::Large }
    }
}

/// The four figures of one count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Current value of the count.
    pub current: u64,
    /// Highest value since the last reset.
    pub peak: u64,
    /// Sum of all increases since the last reset.
    pub allocated: u64,
    /// Sum of all decreases since the last reset.
    pub freed: u64,
}

impl Stat {
    /// Returns the figures with the last part of their keys.
    const fn figures(self) -> [(&'static str, u64); 4] {
        [
            ("current", self.current),
            ("peak", self.peak),
            ("allocated", self.allocated),
            ("freed", self.freed),
        ]
    }
}

/// First parts of the keys about oversize blocks, of which there are none.
const OVERSIZE: [&str; 2] = ["oversize_allocations", "oversize_segments"];

/// Number of separate counts: five quantities of blocks in three pools each, and four of regions, which have one pool.
const COUNTS: usize = 5 * Pool::ALL.len() + 4;

impl Quantity {
    /// Returns whether the quantity counts regions or ranges of them, which are all large.
    const fn is_of_regions(self) -> bool {
        matches!(
            self,
            Self::Segment | Self::InactiveSplit | Self::ReservedBytes | Self::InactiveSplitBytes
        )
    }
}

const fn place(quantity: Quantity, pool: Pool) -> usize {
    match quantity {
        Quantity::Allocation => pool as usize,
        Quantity::AllocatedBytes => 3 + pool as usize,
        Quantity::Active => 6 + pool as usize,
        Quantity::ActiveBytes => 9 + pool as usize,
        Quantity::RequestedBytes => 12 + pool as usize,
        Quantity::Segment => 15,
        Quantity::InactiveSplit => 16,
        Quantity::ReservedBytes => 17,
        Quantity::InactiveSplitBytes => 18,
    }
}

/// A set of counts, as a bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u32);

impl Places {
    pub(crate) const ALL: Self = Self((1 << COUNTS) - 1);

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        let next = |left: &u32| Some(left & (left - 1)).filter(|&left| left != 0);
        let places = std::iter::successors(Some(self.0).filter(|&left| left != 0), next);
        places.map(|left| left.trailing_zeros() as usize)
    }
}

/// One count of one region.
#[derive(Clone, Copy, Debug)]
struct Count {
    current: u64,
    /// Sum of all increases since the last reset.
    allocated: u64,
    /// Value at the last reset of the sums. The decreases since then follow from it.
    at_reset: u64,
    peak: u64,
    /// Ceiling of the count: as long as no region's count exceeds its ceiling, the sum over the regions does not exceed
    /// its peak.
    ceiling: u64,
    /// The lower of peak and ceiling: most changes are compared with this alone.
    limit: u64,
    /// Value that the sum over the regions contains, if the regions report their changes.
    reported: u64,
}

impl Count {
    const NEW: Self = Self {
        current: 0,
        allocated: 0,
        at_reset: 0,
        peak: 0,
        ceiling: u64::MAX,
        limit: 0,
        reported: 0,
    };

    fn freed(&self) -> u64 {
        self.at_reset + self.allocated - self.current
    }

    fn set_ceiling(&mut self, ceiling: u64) {
        self.ceiling = ceiling;
        self.limit = ceiling.min(self.peak);
    }
}

/// The counts of one region.
#[derive(Debug)]
pub(crate) struct Counts {
    by_place: [Count; COUNTS],
    /// Counts that have passed their ceilings since the last [`settle`].
    above: Places,
    /// Whether the region reports its changes instead of staying below ceilings.
    reports: bool,
    /// Bytes of paused blocks, which count as nothing else.
    pub(crate) paused: u64,
    /// Share of the region in the counts of its pool; `None` in the default pool.
    share: Option<Box<Share>>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let above = Places::default();
        let by_place = [Count::NEW; COUNTS];
        Self { by_place, above, reports: false, paused: 0, share: None }
    }

    /// Sets all ceilings to zero until the next [`settle`], because a region has been added to the sum.
    pub(crate) fn hold(&mut self) {
        self.reports = false;
        self.by_place.iter_mut().for_each(|count| count.set_ceiling(0));
    }

    #[inline]
    pub(crate) fn add(&mut self, quantity: Quantity, pool: Pool, amount: u64) {
        self.raise(place(quantity, Pool::All), amount);
        if !quantity.is_of_regions() {
            self.raise(place(quantity, pool), amount);
        }
    }

    #[inline]
    fn raise(&mut self, place: usize, amount: u64) {
        let count = &mut self.by_place[place];
        count.current += amount;
        count.allocated += amount;
        if count.current > count.limit {
            self.exceed(place);
        }
    }

    #[cold]
    fn exceed(&mut self, place: usize) {
        let count = &mut self.by_place[place];
        count.peak = count.peak.max(count.current);
        let above = count.current > count.ceiling;
        count.set_ceiling(count.ceiling);
        if above {
            self.above.insert(place);
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, quantity: Quantity, pool: Pool, amount: u64) {
        self.by_place[place(quantity, Pool::All)].current -= amount;
        if !quantity.is_of_regions() {
            self.by_place[place(quantity, pool)].current -= amount;
        }
    }

    /// Changes a count of regions to `value`.
    #[inline]
    pub(crate) fn set(&mut self, quantity: Quantity, value: u64) {
        let place = place(quantity, Pool::All);
        let current = self.by_place[place].current;
        if value > current {
            self.raise(place, value - current);
        } else {
            self.by_place[place].current = value;
        }
    }

    pub(crate) fn current(&self, quantity: Quantity) -> u64 {
        self.by_place[place(quantity, Pool::All)].current
    }

    /// Returns whether a sum may have passed its peak since the last [`settle`].
    #[inline]
    pub(crate) fn may_be_above(&mut self, slack: &Slack) -> bool {
        match &slack.sums {
            Some(sums) if self.reports => self.report(&mut lock(sums)),
            _ => !self.above.is_empty(),
        }
    }

    /// Adds the changes since the last report to the sums, and returns whether one is then above its peak. `left` has the
    /// differences between the peaks and the sums.
    #[inline(never)]
    fn report(&mut self, left: &mut [i64; COUNTS]) -> bool {
        let mut signs = 0;
        for (count, left) in self.by_place.iter_mut().zip(left) {
            *left -= count.current.wrapping_sub(count.reported).cast_signed();
            count.reported = count.current;
            signs |= *left;
        }
        signs < 0
    }

    /// Raises the exceeded ceilings by taking slack. If there was not enough slack, the caller has to [`settle`] the
    /// returned counts.
    pub(crate) fn raise_ceilings(&mut self, slack: &Slack) -> Places {
        if self.reports {
            return Places::ALL;
        }
        let mut lacking = Places::default();
        for place in std::mem::take(&mut self.above).iter() {
            let count = &mut self.by_place[place];
            let Some(more) = count.current.checked_sub(count.ceiling) else { continue };
            match slack.take(place, more) {
                Some(taken) => count.set_ceiling(count.ceiling + taken),
                None => lacking.insert(place),
            }
        }
        lacking
    }

    pub(crate) fn reset_peaks(&mut self) {
        for count in &mut self.by_place {
            count.peak = count.current;
            count.set_ceiling(count.ceiling);
        }
    }

    pub(crate) fn reset_accumulated(&mut self) {
        self.update_share();
        for count in &mut self.by_place {
            (count.allocated, count.at_reset) = (0, count.current);
        }
        if let Some(share) = &mut self.share {
            share.start_from(&self.by_place);
        }
    }

    /// Adds all changes from now on to the counts of a pool, or of none.
    pub(crate) fn join(&mut self, pool: Option<Arc<Tally>>) {
        self.update_share();
        self.share = pool.map(|tally| Box::new(Share::new(tally, &self.by_place)));
    }

    /// Returns whether the counts have a share in the counts of a pool.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    /// Adds the changes since the last call to the counts of the pool.
    #[cold]
    pub(crate) fn update_share(&mut self) {
        if let Some(share) = &mut self.share {
            share.update(&self.by_place, self.paused);
        }
    }
}

/// Difference between the peak of each sum and the ceilings of the regions. A region whose count reaches its ceiling
/// takes some of it, so that the other regions need not be locked. (On separate cache lines: it is written often, and
/// its neighbours are read by every call.)
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slack {
    left: [AtomicU64; COUNTS],
    /// Differences between the peaks and the sums, if regions report every change; `None` if threads have regions of
    /// their own, which would contend for it.
    sums: Option<Mutex<[i64; COUNTS]>>,
}

impl Slack {
    /// Creates the slack of regions that report every change, or stay below ceilings.
    pub(crate) fn new(reports: bool) -> Self {
        let sums = reports.then(|| Mutex::new([0; COUNTS]));
        Self { left: std::array::from_fn(|_| AtomicU64::new(0)), sums }
    }

    /// Takes `needed` if there is enough slack, and half of the rest: a region that needs slack will soon need more.
    fn take(&self, place: usize, needed: u64) -> Option<u64> {
        let taken = |left: u64| Some(needed + left.checked_sub(needed)? / 2);
        let less = |left: u64| taken(left).map(|taken| left - taken);
        let before = self.left[place].fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        before.ok().and_then(taken)
    }
}

/// Peaks of the sums over all regions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peaks([u64; COUNTS]);

impl Peaks {
    /// Sets the peaks to the current sums.
    pub(crate) fn reset(&mut self, regions: &[&mut Counts]) {
        for (place, peak) in self.0.iter_mut().enumerate() {
            *peak = sum(regions, place);
        }
    }
}

fn sum(regions: &[&mut Counts], place: usize) -> u64 {
    regions.iter().map(|counts| counts.by_place[place].current).sum()
}

/// Updates the peaks of some counts from the sums over the regions, and distributes the difference to the peaks as new
/// ceilings and slack. All regions are locked during the call.
///
/// A single region needs no ceilings: its own peaks are the peaks of the sum.
pub(crate) fn settle(
    regions: &mut [&mut Counts],
    peaks: &mut Peaks,
    slack: &Slack,
    places: Places,
) {
    let regions_len = regions.len() as u64;
    if let Some(sums) = slack.sums.as_ref().filter(|_| regions_len > 1) {
        return settle_sums(regions, peaks, &mut lock(sums));
    }
    for place in places.iter() {
        let total = sum(regions, place);
        let own = regions.iter().map(|counts| counts.by_place[place].peak).max().unwrap_or(0);
        let peak = peaks.0[place].max(total).max(own);
        peaks.0[place] = peak;
        // A quarter is distributed at once, the rest is slack. If one region has a share that it does not use, another
        // region may have to lock all of them.
        let share = (peak - total) / (4 * regions_len.max(1));
        for counts in regions.iter_mut() {
            let count = &mut counts.by_place[place];
            let ceiling = count.current + share;
            count.set_ceiling(if regions_len == 1 { u64::MAX } else { ceiling });
        }
        slack.left[place].store(peak - total - share * regions_len, Ordering::Release);
    }
    if places == Places::ALL {
        regions.iter_mut().for_each(|counts| counts.above = Places::default());
    }
}

/// Updates all peaks from the sums over regions that report their changes from now on.
fn settle_sums(regions: &mut [&mut Counts], peaks: &mut Peaks, left: &mut [i64; COUNTS]) {
    for (place, left) in left.iter_mut().enumerate() {
        let total = sum(regions, place);
        let own = regions.iter().map(|counts| counts.by_place[place].peak).max().unwrap_or(0);
        let peak = &mut peaks.0[place];
        *peak = total.max(own).max(*peak);
        *left = (*peak - total).cast_signed();
    }
    for counts in regions {
        (counts.above, counts.reports) = (Places::default(), true);
        for count in &mut counts.by_place {
            count.set_ceiling(u64::MAX);
            count.reported = count.current;
        }
    }
}

/// Events that are counted for the allocator as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Requests that failed at first and were retried after making room.
    pub alloc_retries: u64,
    /// Requests that failed.
    pub ooms: u64,
    /// Waits for streams.
    pub sync_all_streams: u64,
    /// Device calls that acquired a region or committed granules; refused calls do not count.
    pub device_allocs: u64,
    /// Device calls that released a region or decommitted granules.
    pub device_frees: u64,
}

/// Statistics of one device at one moment.
///
/// ```
/// # use cubeyard_memory::{Bytes, device::{Card, CardSpec}, flex::FlexAllocator};
/// # use std::sync::Arc;
/// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
/// let block = allocator.allocate(Bytes::new(1000)).unwrap();
/// let stats = allocator.stats();
/// assert_eq!(stats.key("allocated_bytes.all.current"), Some(1024));
/// assert_eq!(stats.key("requested_bytes.small_pool.peak"), Some(1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "they are the statistics, and the others are not")]
pub struct Stats {
    stats: [Stat; COUNTS],
    paused: u64,
    /// Events since the last reset.
    pub counters: Counters,
}

impl Stats {
    pub(crate) fn collect(regions: &[&mut Counts], peaks: &Peaks, counters: Counters) -> Self {
        let mut stats = [Stat::default(); COUNTS];
        for (place, stat) in stats.iter_mut().enumerate() {
            for counts in regions {
                let own = &counts.by_place[place];
                stat.current += own.current;
                stat.allocated += own.allocated;
                stat.freed += own.freed();
            }
            stat.peak = peaks.0[place];
        }
        let paused = regions.iter().map(|counts| counts.paused).sum();
        Self { stats, paused, counters }
    }

    /// Returns the figures of one quantity in one pool.
    pub fn get(&self, quantity: Quantity, pool: Pool) -> Stat {
        if quantity.is_of_regions() && pool == Pool::Small {
            return Stat::default();
        }
        self.stats[place(quantity, pool)]
    }

    /// Returns the bytes of live allocations, rounded up to the granule.
    pub fn allocated(&self) -> Bytes {
        Bytes::new(self.get(Quantity::AllocatedBytes, Pool::All).current)
    }

    /// Returns the bytes obtained from the device.
    pub fn reserved(&self) -> Bytes {
        Bytes::new(self.get(Quantity::ReservedBytes, Pool::All).current)
    }

    /// Returns the bytes of paused blocks, rounded up to the granule. They have no memory, and count neither as allocated
    /// nor as active.
    pub fn paused(&self) -> Bytes {
        Bytes::new(self.paused)
    }

    /// Returns every key of `torch.accelerator.memory_stats` with its value, in PyTorch's order. The
    /// keys about oversize blocks are always 0 and the split limit is -1, since there is no such limit.
    pub fn entries(&self) -> Vec<(String, i64)> {
        let mut entries = Vec::with_capacity(122);
        for quantity in Quantity::ALL {
            for pool in Pool::ALL {
                push(
                    &mut entries,
                    &format!("{}.{}", quantity.key(), pool.key()),
                    self.get(quantity, pool),
                );
            }
        }
        OVERSIZE.iter().for_each(|prefix| push(&mut entries, prefix, Stat::default()));
        entries.extend(self.singles().map(|(key, value)| (key.to_owned(), value)));
        entries
    }

    /// Returns the value of one of PyTorch's keys, without building the others.
    pub fn key(&self, key: &str) -> Option<i64> {
        let Some((prefix, figure)) = key.rsplit_once('.') else {
            return self
                .singles()
                .into_iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value);
        };
        let stat = match prefix.split_once('.') {
            None => OVERSIZE.contains(&prefix).then(Stat::default)?,
            Some((quantity, pool)) => self.get(
                Quantity::ALL.into_iter().find(|known| known.key() == quantity)?,
                Pool::ALL.into_iter().find(|known| known.key() == pool)?,
            ),
        };
        stat.figures().into_iter().find(|(name, _)| *name == figure).map(|(_, value)| signed(value))
    }

    /// Returns the keys without a pool, with their values.
    fn singles(&self) -> [(&'static str, i64); 6] {
        [
            ("num_alloc_retries", signed(self.counters.alloc_retries)),
            ("num_ooms", signed(self.counters.ooms)),
            ("num_sync_all_streams", signed(self.counters.sync_all_streams)),
            ("num_device_alloc", signed(self.counters.device_allocs)),
            ("num_device_free", signed(self.counters.device_frees)),
            ("max_split_size", -1),
        ]
    }

    /// Returns the entries as a JSON object, in order.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (place, (key, value)) in self.entries().into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(json, "{comma}\n  \"{key}\": {value}").expect("a string takes everything");
        }
        json.push_str("\n}");
        json
    }
}

/// Byte counts are below 2^63: no device has more memory.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn push(entries: &mut Vec<(String, i64)>, prefix: &str, stat: Stat) {
    let entry = |(figure, value)| (format!("{prefix}.{figure}"), signed(value));
    entries.extend(stat.figures().map(entry));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics whose 122 figures differ, as far as they are not constant.
    fn distinct() -> Stats {
        let numbers = |place: usize| place as u64 * 4;
        let stat = |place| Stat {
            current: numbers(place) + 1,
            peak: numbers(place) + 2,
            allocated: numbers(place) + 3,
            freed: numbers(place) + 4,
        };
        let counters = Counters {
            alloc_retries: 1001,
            ooms: 1002,
            sync_all_streams: 1003,
            device_allocs: 1004,
            device_frees: 1005,
        };
        Stats { stats: std::array::from_fn(stat), paused: 0, counters }
    }

    #[test]
    fn a_key_has_the_value_of_its_entry() {
        let stats = distinct();
        let entries = stats.entries();
        assert_eq!(entries.len(), 122);
        for (key, value) in &entries {
            assert_eq!(stats.key(key), Some(*value), "{key}");
        }
    }

    #[test]
    fn a_text_that_is_no_entry_is_no_key() {
        let stats = distinct();
        let known = stats.entries();
        for (key, _) in &known {
            for end in 0..key.len() {
                for text in
                    [&key[..end], &key[end + 1..], &format!("{}.{}", &key[..end], &key[end..])]
                {
                    let listed = known.iter().any(|(known, _)| known == text);
                    assert_eq!(stats.key(text).is_some(), listed, "{text}");
                }
            }
        }
    }
}
