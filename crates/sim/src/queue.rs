//! Pending events, taken out in time order: a hierarchical timing wheel, with constant time per event.
//!
//! Events of one instant are ordered by *rank*, and events of one instant and rank by the order in which they were
//! added.
//!
//! Time is split into digits: 4 bits, then six times 10 bits. An event lies on the level of the highest digit in which
//! it differs from the current slot, in the slot with the number of this digit. So a slot of level 0 covers 16 ps, and
//! a slot of level `n` covers 2^(4 + 10 n) ps. When level 0 is empty, the next nonempty slot of the lowest nonempty
//! level is distributed over the levels below it. A bitmap marks the nonempty slots.
//!
//! As long as only a few events are pending, as on a machine that executes one command, they are kept in one sorted
//! list without levels, which is faster.
//!
//! Slots of 16 ps are a compromise. Machines with clocks put many events into one instant, and the few events of one
//! slot are sorted quickly; slots of 1 ps would need another level.

use crate::Time;

/// Number of time bits within a slot of level 0.
const FINE: u32 = 4;
/// Number of bits in a digit.
const DIGIT: u32 = 10;
/// Number of slots in a level.
const SLOTS: usize = 1 << DIGIT;
/// Number of levels, enough for 64 bits.
const LEVELS: usize = (64 - FINE).div_ceil(DIGIT) as usize;
/// Maximum number of entries in the sorted list without levels.
const FEW: usize = 16;

/// An event with its position in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<E> {
    pub(crate) time: Time,
    /// Rank among the events of one instant.
    pub(crate) rank: u32,
    pub(crate) event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u32) {
        (self.time, self.rank)
    }
}

/// Pending events, as a hierarchy of wheels.
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    levels: Box<[Level<E>]>,
    /// Buffers of lists that have become empty, most recently used first, so that pending events lie close together in
    /// memory.
    spare: Vec<Vec<Entry<E>>>,
    /// Entries due by `until`, sorted; entries before index `next` have been taken out.
    present: Vec<Entry<E>>,
    next: usize,
    /// Start of the current slot.
    base: u64,
    /// End of the current slot, or `u64::MAX` while there are no levels.
    until: u64,
}

#[derive(Debug)]
struct Level<E> {
    slots: Box<[Vec<Entry<E>>]>,
    filled: Filled,
}

impl<E: Copy> Default for Wheel<E> {
    fn default() -> Self {
        let levels = (0..LEVELS).map(|_| Level::default()).collect();
        Self { levels, spare: Vec::new(), present: Vec::new(), next: 0, base: 0, until: u64::MAX }
    }
}

impl<E> Default for Level<E> {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Vec::new()).collect(), filled: Filled::default() }
    }
}

impl<E: Copy> Wheel<E> {
    /// Adds an event. It must not lie before the event taken out last, nor before a deadline up to which
    /// [`pop_until`](Self::pop_until) found nothing. An event of the current instant may have a lower rank, and then
    /// comes next.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, rank: u32, event: E) {
        let entry = Entry { time, rank, event };
        if time.ps() > self.until {
            self.insert_later(entry);
        } else {
            self.insert_now(entry);
        }
    }

    /// Takes out the next event, if it is due by `deadline`.
    #[inline]
    pub(crate) fn pop_until(&mut self, deadline: Time) -> Option<Entry<E>> {
        if self.next == self.present.len() && !self.advance(deadline) {
            return None;
        }
        let entry = self.present[self.next];
        if entry.time > deadline {
            return None;
        }
        self.next += 1;
        Some(entry)
    }

    /// Returns the time of the next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        if let Some(entry) = self.present.get(self.next) {
            return Some(entry.time);
        }
        let (level, slot) = self.first_filled()?;
        self.levels[level].slots[slot].iter().map(|entry| entry.time).min()
    }

    /// Inserts an entry due by `until`, after equal entries.
    #[inline(never)]
    fn insert_now(&mut self, entry: Entry<E>) {
        if self.until == u64::MAX && self.present.len() - self.next >= FEW {
            self.use_levels();
            if entry.time.ps() > self.until {
                return self.insert_later(entry);
            }
        }
        // Prevents unbounded growth of the list: at most as many entries are moved as were taken out. The last entry
        // taken out stays.
        if self.next > self.present.len() / 2 + 1 {
            self.present.drain(..self.next - 1);
            self.next = 1;
        }
        debug_assert!(self.now() <= entry.time.ps(), "an event before the present");
        let rest = &self.present[self.next..];
        if rest.last().is_none_or(|last| last.key() <= entry.key()) {
            return self.present.push(entry);
        }
        let place = self.next + rest.partition_point(|other| other.key() <= entry.key());
        self.present.insert(place, entry);
    }

    /// Inserts an entry into a slot after the current one.
    #[inline]
    fn insert_later(&mut self, entry: Entry<E>) {
        let apart = (entry.time.ps() ^ self.base) >> FINE;
        let level = (apart.ilog2() / DIGIT) as usize;
        let slot = digit(entry.time.ps(), level);
        let level = &mut self.levels[level];
        let list = &mut level.slots[slot];
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_default();
        }
        list.push(entry);
        level.filled.set(slot);
    }

    /// Returns the time of the event that was taken out last, or the start of its slot.
    fn now(&self) -> u64 {
        self.present[..self.next].last().map_or(self.base, |last| last.time.ps())
    }

    /// Switches to levels, since the entries are no longer few: all entries not due in the current slot go to the
    /// levels. A later slot would not do, since everything before its end would be kept sorted, however many entries
    /// that is.
    #[cold]
    fn use_levels(&mut self) {
        self.go_to(self.now());
        let stay = self.present.partition_point(|entry| entry.time.ps() <= self.until);
        (stay..self.present.len()).for_each(|late| self.insert_later(self.present[late]));
        self.present.truncate(stay);
    }

    /// Makes the slot of this time the current one.
    fn go_to(&mut self, time: u64) {
        let within = (1 << FINE) - 1;
        (self.base, self.until) = (time & !within, time | within);
    }

    /// Makes the next nonempty slot the current one, unless it starts after `deadline`: an event that is added later
    /// may be due before it.
    fn advance(&mut self, deadline: Time) -> bool {
        loop {
            let Some((level, slot)) = self.first_filled() else {
                self.until = u64::MAX;
                return false;
            };
            let start = start_of(self.base, level, slot);
            if start > deadline.ps() {
                return false;
            }
            self.go_to(start);
            self.spread(level, slot);
            if self.next < self.present.len() {
                return true;
            }
        }
    }

    /// Returns the first nonempty slot: slots of a lower level come before slots of a higher one.
    fn first_filled(&self) -> Option<(usize, usize)> {
        let filled = self.levels.iter().map(|level| level.filled.first());
        filled.enumerate().find_map(|(level, slot)| Some((level, slot?)))
    }

    /// Distributes a slot over the current slot and the levels below, in the order in which it was filled.
    fn spread(&mut self, level: usize, slot: usize) {
        self.levels[level].filled.clear(slot);
        let list = std::mem::take(&mut self.levels[level].slots[slot]);
        let mut spare = std::mem::replace(&mut self.present, list);
        spare.clear();
        self.spare.push(spare);
        self.next = 0;
        if level > 0 {
            let mut present = std::mem::take(&mut self.present);
            present.retain(|&entry| {
                let is_due = entry.time.ps() <= self.until;
                if !is_due {
                    self.insert_later(entry);
                }
                is_due
            });
            self.present = present;
        }
        self.present.sort_by_key(Entry::key);
    }
}

/// Returns the digit of `time` on a level.
#[inline]
fn digit(time: u64, level: usize) -> usize {
    let shifted = time >> (FINE + DIGIT * level_bits(level));
    #[expect(clippy::cast_possible_truncation, reason = "ten bits are left")]
    let digit = (shifted & (SLOTS as u64 - 1)) as usize;
    digit
}

#[inline]
fn level_bits(level: usize) -> u32 {
    u32::try_from(level).expect("a handful of levels")
}

/// Returns the start of a slot, in the wheel rotation of `base`.
fn start_of(base: u64, level: usize, slot: usize) -> u64 {
    let low = FINE + DIGIT * level_bits(level);
    let above = u64::MAX.checked_shl(low + DIGIT).unwrap_or(0);
    base & above | (slot as u64) << low
}

/// Bitmap of the nonempty slots of a level: a bit per slot, and a bit per word of these bits.
#[derive(Debug, Default)]
struct Filled {
    words: [u64; SLOTS / 64],
    summary: u64,
}

impl Filled {
    #[inline]
    fn set(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    fn clear(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        if self.words[slot / 64] == 0 {
            self.summary &= !(1 << (slot / 64));
        }
    }

    /// Returns the first nonempty slot. All of them lie ahead, because time only moves forward.
    #[inline]
    fn first(&self) -> Option<usize> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests;
