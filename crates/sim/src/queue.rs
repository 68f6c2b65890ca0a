//! Pending events, taken out in the order of time: a hierarchical timing wheel, with constant time for an event.
//!
//! Events of one instant come out by their *rank*, and events of one instant and one rank in the order in which they
//! were added.
//!
//! Time is written in digits: 4 bits, then six times 10 bits. An event lies on the level of the highest
//! digit in which it differs from the present slot, in the slot that this digit names. So a slot of level 0
//! holds events of 16 ps, and a slot of level `n` events of 2^(4 + 10 n) ps. When level 0 is empty, the next
//! filled slot of the lowest level that has one is spread over the levels below it. A bit for each slot says whether
//! it is filled.
//!
//! As long as only a few events are pending, as on a machine that executes one command, they are kept in one sorted
//! list without levels, which is faster.
//!
//! Slots of 16 ps are a compromise: machines with clocks put many events into one instant, and the few of one
//! slot are quickly sorted, while single picoseconds would need a further level.

use crate::Time;

/// Bits of time within a slot of level 0.
const FINE: u32 = 4;
/// Bits of a digit.
const DIGIT: u32 = 10;
/// Slots of a level.
const SLOTS: usize = 1 << DIGIT;
/// Levels, enough for 64 bits.
const LEVELS: usize = (64 - FINE).div_ceil(DIGIT) as usize;
/// Most entries that are kept sorted, without levels.
const FEW: usize = 16;

/// An event with its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<E> {
    pub(crate) time: Time,
    /// Place among the events of one instant.
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
    /// Memory of lists that have become empty, the last one used first, so that pending events lie close together in
    /// memory.
    spare: Vec<Vec<Entry<E>>>,
    /// Entries that are due by `until`, sorted; those before `next` have been taken out.
    present: Vec<Entry<E>>,
    next: usize,
    /// Start of the present slot.
    base: u64,
    /// End of the present slot, or of all time while there are no levels.
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
    /// [`pop_until`](Self::pop_until) found nothing. An event of the present instant may have a lower rank, and then
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

    /// Takes the next event out, if it is due by `deadline`.
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

    /// Time of the next event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        if let Some(entry) = self.present.get(self.next) {
            return Some(entry.time);
        }
        let (level, slot) = self.first_filled()?;
        self.levels[level].slots[slot].iter().map(|entry| entry.time).min()
    }

    /// Inserts an entry that is due by `until` behind its equals.
    #[inline(never)]
    fn insert_now(&mut self, entry: Entry<E>) {
        if self.until == u64::MAX && self.present.len() - self.next >= FEW {
            self.use_levels();
            if entry.time.ps() > self.until {
                return self.insert_later(entry);
            }
        }
        // So that the list does not grow for ever: no more are moved than were taken out. The last of those stays.
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

    /// Inserts an entry into a slot after the present one.
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

    /// Time of the event that was taken out last, or the start of its slot.
    fn now(&self) -> u64 {
        self.present[..self.next].last().map_or(self.base, |last| last.time.ps())
    }

    /// Entries are no longer few: all that are not due in the slot of the present go to the levels. A later
    /// slot would not do, since all that comes before its end would be kept sorted, however much that is.
    #[cold]
    fn use_levels(&mut self) {
        self.go_to(self.now());
        let stay = self.present.partition_point(|entry| entry.time.ps() <= self.until);
        (stay..self.present.len()).for_each(|late| self.insert_later(self.present[late]));
        self.present.truncate(stay);
    }

    /// Makes the slot of this time the present one.
    fn go_to(&mut self, time: u64) {
        let within = (1 << FINE) - 1;
        (self.base, self.until) = (time & !within, time | within);
    }

    /// Makes the next filled slot the present one, unless it starts after `deadline`: an event that is added later may
    /// be due before it.
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

    /// The first filled slot: those of a lower level come before those of a higher one.
    fn first_filled(&self) -> Option<(usize, usize)> {
        let filled = self.levels.iter().map(|level| level.filled.first());
        filled.enumerate().find_map(|(level, slot)| Some((level, slot?)))
    }

    /// Spreads a slot over the present and the levels below, in the order in which it was filled.
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

/// The digit of `time` on a level.
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

/// Start of a slot, in the turn of its wheel that `base` is in.
fn start_of(base: u64, level: usize, slot: usize) -> u64 {
    let low = FINE + DIGIT * level_bits(level);
    let above = u64::MAX.checked_shl(low + DIGIT).unwrap_or(0);
    base & above | (slot as u64) << low
}

/// Filled slots of a level: a bit for each slot, and a bit for each word of bits.
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

    /// The first filled slot. All of them lie ahead, because time only goes forward.
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
