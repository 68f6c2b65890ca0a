//! Division of a buffer into parts for ranks, and of a part into messages.

use std::ops::Range;

use cubeyard_tl::kernel::Args;
use cubeyard_tl::{Ref, Tile, Tl};

/// A buffer as a flat sequence of elements.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    /// The memory of the buffer; `None` if this PE holds nothing. Then nothing is loaded, stored or received.
    reference: Option<Ref>,
    pub(super) elements: u64,
}

impl Flat {
    /// Returns input and output of a collective's kernel.
    #[track_caller]
    pub(super) fn buffers(args: &Args) -> [Self; 2] {
        [0, 1].map(|place| Self::new(args.tensor(place).local_if_any().as_ref()))
    }

    fn new(reference: Option<&Ref>) -> Self {
        let elements = reference.map_or(0, |reference| reference.ty().elements());
        Self { reference: reference.map(|reference| reference.at(0, &[elements])), elements }
    }

    /// Returns the memory of a buffer that is not empty.
    fn reference(&self) -> &Ref {
        self.reference.as_ref().expect("no range of a buffer without elements")
    }

    /// Returns the range of part `index` of `count`; parts differ by at most one element.
    pub(super) fn part(&self, index: usize, count: usize) -> Range<u64> {
        part(self.elements, index, count)
    }

    #[track_caller]
    pub(super) fn load(&self, tl: &Tl, range: &Range<u64>) -> Tile {
        tl.load(&self.at(range))
    }

    #[track_caller]
    pub(super) fn store(&self, tl: &Tl, range: &Range<u64>, tile: &Tile) {
        tl.store(&self.at(range), tile);
    }

    #[track_caller]
    pub(super) fn receive(&self, tl: &Tl, port: cubeyard_tl::Port, range: &Range<u64>) -> Tile {
        tl.recv_async(port, &[range.end - range.start], self.reference().ty().dtype)
    }

    /// Returns the number of rounds into which a collective is split so that its data fits in the TCM.
    ///
    /// `held` is the number of elements that it holds at once, and `piece` the number of elements per message.
    pub(super) fn rounds(&self, tl: &Tl, held: u64, piece: u64) -> usize {
        let Some(reference) = &self.reference else { return 1 };
        let tile = (piece * reference.ty().dtype.size()).next_multiple_of(LINE);
        let rounds = rounds(held.div_ceil(piece) * tile, tl.scratch_bytes());
        usize::try_from(rounds).expect("fewer rounds than elements")
    }

    fn at(&self, range: &Range<u64>) -> Ref {
        self.reference().at(range.start, &[range.end - range.start])
    }
}

/// Size of a line of the TCM in bytes; tiles occupy whole lines.
const LINE: u64 = 64;

/// Returns the number of rounds for `held` bytes of tiles, which may take a quarter of the TCM per round.
///
/// Each held tile exists twice, incoming and outgoing, beside the tiles being loaded and stored.
fn rounds(held: u64, tcm: u64) -> u64 {
    held.div_ceil((tcm / 4).max(1)).max(1)
}

/// One of several rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) index: usize,
    /// Number of rounds.
    pub(super) count: usize,
}

/// Returns the share of a range in a round.
pub(super) fn in_round(range: &Range<u64>, round: Round) -> Range<u64> {
    shifted(&part(range.end - range.start, round.index, round.count), 0, range.start)
}

/// Returns the range moved so that its position `from` becomes `to`.
pub(super) fn shifted(range: &Range<u64>, from: u64, to: u64) -> Range<u64> {
    range.start - from + to..range.end - from + to
}

/// Returns the range of part `index` of `count`; parts differ by at most one element.
pub(crate) fn part(elements: u64, index: usize, count: usize) -> Range<u64> {
    let place = |index: usize| {
        let place = u128::from(elements) * index as u128 / count as u128;
        u64::try_from(place).expect("at most the elements")
    };
    place(index)..place(index + 1)
}

/// Splits a range into pieces of at most `most` elements, each a message.
pub(super) fn pieces(range: &Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    let count = (end - start).div_ceil(most);
    (0..count).map(move |index| {
        let from = start + index * most;
        from..(from + most).min(end)
    })
}

/// Alternates between sending and receiving. If all ranks sent first, they would deadlock once the slots are full.
pub fn by_turns<A, B>(
    mut leaving: impl Iterator<Item = A>,
    mut coming: impl Iterator<Item = B>,
    mut send: impl FnMut(A),
    mut receive: impl FnMut(B),
) {
    loop {
        let (out, back) = (leaving.next(), coming.next());
        if out.is_none() && back.is_none() {
            return;
        }
        out.into_iter().for_each(&mut send);
        back.into_iter().for_each(&mut receive);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once_and_evenly() {
        for elements in [0, 1, 7, 64, 100] {
            for count in 1..9 {
                let parts: Vec<_> = (0..count).map(|index| part(elements, index, count)).collect();
                assert_eq!(parts[0].start, 0);
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                assert_eq!(parts[count - 1].end, elements);
                let lengths = || parts.iter().map(|part| part.end - part.start);
                assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
            }
        }
        assert_eq!(pieces(&(3..10), 3).collect::<Vec<_>>(), [3..6, 6..9, 9..10]);
        assert_eq!(pieces(&(3..3), 3).count(), 0);
    }

    #[test]
    fn rounds_hold_a_quarter_of_the_tcm_and_cover_everything_once() {
        assert_eq!([0, 1, 256, 257, 1024].map(|held| rounds(held, 1024)), [1, 1, 1, 2, 4]);
        let share = |index| in_round(&(10..17), Round { index, count: 3 });
        let all: Vec<_> = (0..3).map(share).collect();
        assert_eq!(all, [10..12, 12..14, 14..17]);
    }
}
