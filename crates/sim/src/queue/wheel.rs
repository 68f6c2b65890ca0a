//! A hierarchical timing wheel: constant time for an event, whatever is pending.
//!
//! Time is written in digits: 4 bits, then six times 10 bits. An event lies on the level of the highest
//! digit in which it differs from the present slot, in the slot that this digit names. So a slot of level 0
//! holds what is due within 16 ps, and a slot of level `n` what is due within 2^(4 + 10 n) ps. When level 0
//! has run dry, the next slot of the lowest level that has one is spread over the levels below it. A
//! bit for each slot says whether it holds anything.
//!
//! The 16 ps are a compromise: machines with clocks put many events into one instant, and the few of one
//! slot are quickly sorted, while single picoseconds would need a further level.

use super::{Entry, EventQueue};
use crate::Time;

/// Bits of time within a slot of level 0.
const FINE: u32 = 4;
/// Bits of a digit.
const DIGIT: u32 = 10;
/// Slots of a level.
const SLOTS: usize = 1 << DIGIT;
/// Levels, enough for 64 bits.
const LEVELS: usize = (64 - FINE).div_ceil(DIGIT) as usize;

/// A queue as a hierarchy of wheels: constant time for an event, whatever is pending.
#[derive(Debug)]
pub struct Wheel<E> {
    levels: Box<[Level<E>]>,
    /// The entries of the present slot, sorted; those before `next` are done with.
    present: Vec<Entry<E>>,
    next: usize,
    /// The start of the present slot.
    base: u64,
}

#[derive(Debug)]
struct Level<E> {
    slots: Box<[Vec<Entry<E>>]>,
    filled: Filled,
}

impl<E: Copy> Default for Wheel<E> {
    fn default() -> Self {
        let levels = (0..LEVELS).map(|_| Level::default()).collect();
        Self { levels, present: Vec::new(), next: 0, base: 0 }
    }
}

impl<E> Default for Level<E> {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| Vec::new()).collect(), filled: Filled::default() }
    }
}

impl<E: Copy> EventQueue<E> for Wheel<E> {
    #[inline]
    fn push(&mut self, time: Time, rank: u32, event: E) {
        let entry = Entry { time, rank, event };
        debug_assert!(time.ps() >= self.base, "an event before the present");
        let apart = (time.ps() ^ self.base) >> FINE;
        if apart == 0 {
            self.insert_now(entry);
        } else {
            self.insert(entry, apart);
        }
    }

    #[inline]
    fn pop_until(&mut self, deadline: Time) -> Option<Entry<E>> {
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

    fn next_time(&self) -> Option<Time> {
        if let Some(entry) = self.present.get(self.next) {
            return Some(entry.time);
        }
        let (level, slot) = self.first_filled()?;
        self.levels[level].slots[slot].iter().map(|entry| entry.time).min()
    }
}

impl<E: Copy> Wheel<E> {
    /// Into the rest of the present slot, behind its equals.
    #[cold]
    fn insert_now(&mut self, entry: Entry<E>) {
        let rest = &self.present[self.next..];
        let place = self.next + rest.partition_point(|other| other.key() <= entry.key());
        self.present.insert(place, entry);
    }

    /// Into a later slot, where `apart` are the digits in which it differs from the present.
    #[inline]
    fn insert(&mut self, entry: Entry<E>, apart: u64) {
        let level = (apart.ilog2() / DIGIT) as usize;
        let slot = digit(entry.time.ps(), level);
        let level = &mut self.levels[level];
        level.slots[slot].push(entry);
        level.filled.set(slot);
    }

    /// Makes the next slot that holds anything the present one, unless it starts after `deadline`.
    ///
    /// It never goes beyond the deadline, because what is put in afterwards may be due before the next event.
    fn advance(&mut self, deadline: Time) -> bool {
        loop {
            let Some((level, slot)) = self.first_filled() else { return false };
            let start = start_of(self.base, level, slot);
            if start > deadline.ps() {
                return false;
            }
            self.base = start;
            self.levels[level].filled.clear(slot);
            if level == 0 {
                self.present.clear();
                self.next = 0;
                std::mem::swap(&mut self.present, &mut self.levels[0].slots[slot]);
                self.present.sort_by_key(Entry::key);
                return true;
            }
            self.spread(level, slot);
            if self.next < self.present.len() {
                return true;
            }
        }
    }

    /// The filled slot that comes first: any of a lower level comes before those of a higher one.
    fn first_filled(&self) -> Option<(usize, usize)> {
        let filled = self.levels.iter().map(|level| level.filled.first());
        filled.enumerate().find_map(|(level, slot)| Some((level, slot?)))
    }

    /// Spreads a slot over the levels below, in the order in which it was filled.
    fn spread(&mut self, level: usize, slot: usize) {
        self.present.clear();
        self.next = 0;
        let mut entries = std::mem::take(&mut self.levels[level].slots[slot]);
        for entry in entries.drain(..) {
            match (entry.time.ps() ^ self.base) >> FINE {
                0 => self.present.push(entry),
                apart => self.insert(entry, apart),
            }
        }
        self.levels[level].slots[slot] = entries;
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

/// The start of a slot, in the turn of its wheel that `base` is in.
fn start_of(base: u64, level: usize, slot: usize) -> u64 {
    let low = FINE + DIGIT * level_bits(level);
    let above = u64::MAX.checked_shl(low + DIGIT).unwrap_or(0);
    base & above | (slot as u64) << low
}

/// Which slots of a level hold anything: a bit for each, and a bit for each word of bits.
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

    /// The first filled slot. All of them lie ahead, since time only goes forward.
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
mod tests {
    use super::*;

    #[test]
    fn the_last_instant_of_all_can_be_reached() {
        let mut wheel = Wheel::default();
        wheel.push(Time::NEVER, 0, 'z');
        wheel.push(Time::ZERO, 0, 'a');
        assert_eq!(wheel.pop().map(|entry| entry.event), Some('a'));
        assert_eq!(wheel.next_time(), Some(Time::NEVER));
        assert_eq!(wheel.pop().map(|entry| entry.event), Some('z'));
        assert_eq!(wheel.pop(), None);
    }

    #[test]
    fn an_event_of_this_instant_with_a_lower_rank_comes_next() {
        let mut wheel = Wheel::default();
        for rank in [1, 5, 9] {
            wheel.push(Time::from_ps(3), rank, rank);
        }
        assert_eq!(wheel.pop().map(|entry| entry.event), Some(1));
        assert_eq!(wheel.pop().map(|entry| entry.event), Some(5));
        wheel.push(Time::from_ps(3), 2, 2);
        let rest: Vec<_> = std::iter::from_fn(|| wheel.pop()).map(|entry| entry.event).collect();
        assert_eq!(rest, [2, 9]);
    }
}
