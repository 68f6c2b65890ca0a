//! The slow ledger of a history: the ranges of blocks, and the ranges that work of streams may still access.

use std::collections::BTreeMap;

use cubeyard_memory::device::RegionId;
use cubeyard_memory::flex::PoolId;
use cubeyard_memory::policy::Kind;

use crate::flex::lagging::LaggingState;

/// Region and offset of a range.
pub(super) type Place = (RegionId, u64);

/// Pool of a region, and the kind of its blocks if that kind has separate regions.
pub(super) type Domain = (PoolId, Option<Kind>);

/// Work that may still access a range: the number of the last work of each stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses(Vec<(u32, u64)>);

impl Uses {
    pub(super) fn add(&mut self, stream: u32, work: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == stream) {
            Some((_, last)) => *last = work.max(*last),
            None => self.0.push((stream, work)),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|&(stream, work)| self.add(stream, work));
    }

    fn forget_done(&mut self, streams: &LaggingState) {
        self.0.retain(|&(stream, work)| !streams.is_done(stream, work));
    }
}

/// Ranges of a device by region and offset.
#[derive(Debug, Default)]
pub(super) struct Ground {
    /// Ends of the ranges of blocks, and of the room that a plan has reserved.
    held: BTreeMap<Place, u64>,
    /// Ends and uses of freed ranges.
    freed: BTreeMap<Place, (u64, Uses)>,
    /// Starts and ends of paused blocks, which have no memory.
    paused: BTreeMap<Place, u64>,
    domains: BTreeMap<RegionId, Domain>,
    first: Option<u32>,
    /// Whether requests came from more than one stream.
    several: bool,
}

impl Ground {
    /// Notes the stream of a request.
    pub(super) fn see(&mut self, stream: u32) {
        let first = *self.first.get_or_insert(stream);
        self.several |= first != stream;
    }

    /// Checks that a region has blocks of one pool and one kind only.
    pub(super) fn is_of(&mut self, region: RegionId, domain: Domain) {
        let known = *self.domains.entry(region).or_insert(domain);
        assert_eq!(known, domain, "region {region} has blocks of another pool or kind");
    }

    /// Returns whether a region has held blocks of this pool and kind, and has no paused block.
    pub(super) fn is_open(&self, region: RegionId, domain: Domain) -> bool {
        let mut paused = self.paused.range((region, 0)..);
        let rests = paused.next().is_some_and(|(place, _)| place.0 == region);
        self.domains.get(&region) == Some(&domain) && !rests
    }

    /// Enters the range of a new block of stream `by`, or of reserved room. Checks that it overlaps no other, and that no
    /// other stream may access it. Returns the work that the range inherits.
    pub(super) fn take(
        &mut self,
        place: Place,
        end: u64,
        by: Option<u32>,
        streams: &LaggingState,
    ) -> Uses {
        let below = overlapping(&self.held, place, end).or(overlapping(&self.paused, place, end));
        assert!(below.is_none(), "{place:?} to {end:#x} overlaps {below:?}");
        self.held.insert(place, end);
        let mut uses = self.cut(place, end);
        uses.forget_done(streams);
        let by = by.or(self.first.filter(|_| !self.several));
        for &(stream, work) in &uses.0 {
            assert_eq!(Some(stream), by, "work {work} of stream {stream} accesses {place:?}");
        }
        uses
    }

    /// Ends a block or reserved room.
    pub(super) fn let_go(&mut self, place: Place, uses: Uses) {
        let end = self.held.remove(&place).expect("it was taken");
        if !uses.0.is_empty() {
            self.freed.insert(place, (end, uses));
        }
    }

    /// Moves the end of a block down. The range that it gives up may still be accessed.
    pub(super) fn shrink(&mut self, place: Place, end: u64, uses: Uses) {
        let top = self.held.insert(place, end).expect("it was taken");
        if end < top && !uses.0.is_empty() {
            self.freed.insert((place.0, end), (top, uses));
        }
    }

    /// Moves the end of a block of stream `by` up. Returns the work that the block inherits.
    pub(super) fn grow(&mut self, place: Place, end: u64, by: u32, streams: &LaggingState) -> Uses {
        let old = (place.0, self.held[&place]);
        if end == old.1 {
            return Uses::default();
        }
        let uses = self.take(old, end, Some(by), streams);
        self.held.remove(&old);
        self.held.insert(place, end);
        uses
    }

    /// Checks that a part of a region can be taken from it: no block lies there, and no stream accesses it. As long as
    /// there is one stream, the device orders the call after the stream's work.
    pub(super) fn take_away(&mut self, place: Place, end: u64, streams: &LaggingState) {
        let below = overlapping(&self.held, place, end);
        assert!(below.is_none(), "memory of {below:?} is taken away");
        let mut uses = self.cut(place, end);
        uses.forget_done(streams);
        uses.0.retain(|&(stream, _)| self.several || self.first != Some(stream));
        assert!(uses.0.is_empty(), "{uses:?} access {place:?}, which is taken away");
    }

    /// Pauses a block: its memory may be taken away when the work that may access it is done.
    pub(super) fn pause(&mut self, place: Place, uses: Uses) {
        let end = self.held.remove(&place).expect("it was taken");
        self.paused.insert(place, end);
        if !uses.0.is_empty() {
            self.freed.insert(place, (end, uses));
        }
    }

    /// Checks that no work may access a paused block, unless there is one stream.
    pub(super) fn rests(&mut self, place: Place, streams: &LaggingState) {
        let end = self.paused[&place];
        let mut uses = self.cut(place, end);
        uses.forget_done(streams);
        uses.0.retain(|&(stream, _)| self.several || self.first != Some(stream));
        assert!(uses.0.is_empty(), "{uses:?} access {place:?}, which is paused");
    }

    /// Resumes a block.
    pub(super) fn resume(&mut self, place: Place) {
        let end = self.paused.remove(&place).expect("it was paused");
        self.held.insert(place, end);
    }

    /// Ends a paused block.
    pub(super) fn let_go_paused(&mut self, place: Place) {
        self.paused.remove(&place).expect("it was paused");
    }

    pub(super) fn forget_region(&mut self, region: RegionId) {
        self.domains.remove(&region);
    }

    /// Forgets freed ranges whose work is done.
    pub(super) fn forget_done(&mut self, streams: &LaggingState) {
        self.freed.retain(|_, (_, uses)| {
            uses.forget_done(streams);
            !uses.0.is_empty()
        });
    }

    /// Returns the number of blocks and of reserved rooms.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.paused.len()
    }

    /// Removes a range from the freed ranges, and returns the work that may access it.
    fn cut(&mut self, (region, start): Place, end: u64) -> Uses {
        let mut uses = Uses::default();
        loop {
            let last = self.freed.range(..(region, end)).next_back();
            let Some((&place, &(top, _))) = last else { return uses };
            if place.0 != region || top <= start {
                return uses;
            }
            let (_, part) = self.freed.remove(&place).expect("it was found");
            uses.merge(&part);
            if top > end {
                self.freed.insert((region, end), (top, part.clone()));
            }
            if place.1 < start {
                self.freed.insert(place, (start, part));
            }
        }
    }
}

/// Returns a range that overlaps `place` to `end`.
fn overlapping(ranges: &BTreeMap<Place, u64>, place: Place, end: u64) -> Option<(Place, u64)> {
    let (&below, &top) = ranges.range(..(place.0, end)).next_back()?;
    (below.0 == place.0 && top > place.1).then_some((below, top))
}
