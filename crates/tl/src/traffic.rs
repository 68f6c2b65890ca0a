//! Memory accesses of the recent commands of a kernel.

use std::collections::VecDeque;

use cubeyard_device::message::{Direction, Rows};
use cubeyard_device::pe::{CommandId, Dma};

use super::order::After;

/// Accesses of the commands that may be in flight.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    recent: VecDeque<(CommandId, Dma)>,
}

impl Traffic {
    /// Records the accesses of a command and returns the earlier commands in the window with which they conflict.
    pub(super) fn meet(&mut self, id: CommandId, window: u32, accesses: &[Dma]) -> After {
        while self.recent.front().is_some_and(|(old, _)| old + window <= id) {
            self.recent.pop_front();
        }
        let meets = |old: &Dma| accesses.iter().any(|new| conflict(old, new));
        let earlier = self.recent.iter().filter(|(old, dma)| *old < id && meets(dma));
        let after = earlier.map(|(old, _)| *old).collect();
        self.recent.extend(accesses.iter().map(|dma| (id, *dma)));
        after
    }
}

/// Returns whether two accesses touch the same bytes and at least one writes. Assumes a conflict if an exact answer
/// would be expensive.
fn conflict(one: &Dma, other: &Dma) -> bool {
    let writes = [one, other].iter().any(|dma| dma.direction == Direction::Write);
    writes && overlap(one, other)
}

fn overlap(one: &Dma, other: &Dma) -> bool {
    let end = |dma: &Dma| dma.address + dma.extent();
    if end(one) <= other.address || end(other) <= one.address {
        return false;
    }
    match (one.rows, other.rows) {
        (Some(a), Some(b)) if a.pitch == b.pitch => columns(one.address, a, other.address, b.bytes),
        (Some(rows), None) => columns(one.address, rows, other.address, other.bytes),
        (None, Some(rows)) => columns(other.address, rows, one.address, one.bytes),
        _ => true,
    }
}

/// Returns whether two infinite patterns of the same pitch overlap.
fn columns(address: u64, rows: Rows, other: u64, bytes: u64) -> bool {
    let pitch = i128::from(rows.pitch);
    let offset = (i128::from(other) - i128::from(address)).rem_euclid(pitch);
    offset < i128::from(rows.bytes) || offset + i128::from(bytes) > pitch
}

/// Returns whether two accesses touch the same byte, in time proportional to the rows of one of them.
pub(super) fn touch_same(one: &Dma, other: &Dma) -> bool {
    let [one, other] = if count(one) > count(other) { [other, one] } else { [one, other] };
    overlap(one, other)
        && rows_of(one).segments(0, one.bytes).any(|(at, bytes)| {
            let from = one.address + at;
            touches(other, from, from + bytes)
        })
}

/// Returns whether an access touches a range of addresses.
fn touches(dma: &Dma, from: u64, to: u64) -> bool {
    let (rows, Some(last)) = (rows_of(dma), (to - 1).checked_sub(dma.address)) else {
        return false;
    };
    // Among the rows that begin before the end of the range, the last row ends last.
    let row = (last / rows.pitch.max(1)).min(count(dma) - 1);
    dma.address + row * rows.pitch + rows.bytes > from
}

/// Returns the rows of an access; contiguous bytes are one row.
fn rows_of(dma: &Dma) -> Rows {
    dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: dma.bytes })
}

fn count(dma: &Dma) -> u64 {
    dma.bytes / rows_of(dma).bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dma(address: u64, bytes: u64, rows: Option<(u64, u64)>) -> Dma {
        let rows = rows.map(|(bytes, pitch)| Rows { bytes, pitch });
        Dma { direction: Direction::Write, address, bytes, rows }
    }

    #[test]
    fn tiles_of_a_matrix_side_by_side_do_not_meet() {
        // The first and the second 16 bytes of rows of 64.
        let (left, right) = (dma(0, 64, Some((16, 64))), dma(16, 64, Some((16, 64))));
        assert!(!overlap(&left, &right));
        assert!(overlap(&left, &left));
        assert!(!overlap(&left, &dma(16, 48, None)));
        assert!(overlap(&left, &dma(16, 49, None)));
        let read = Dma { direction: Direction::Read, ..left };
        assert!(!conflict(&read, &read));
        assert!(conflict(&read, &left));
    }

    fn access() -> impl Strategy<Value = Dma> {
        (0..100_u64, 1..8_u64, 1..5_u64, 8..12_u64, any::<bool>()).prop_map(
            |(address, bytes, count, pitch, strided)| {
                let rows = (strided && count > 1).then_some((bytes, pitch));
                dma(address, if rows.is_some() { bytes * count } else { bytes }, rows)
            },
        )
    }

    fn bytes(dma: &Dma) -> Vec<u64> {
        let rows = dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: 0 });
        let segments = rows.segments(0, dma.bytes);
        segments.flat_map(|(at, length)| dma.address + at..dma.address + at + length).collect()
    }

    proptest! {
        #[test]
        fn whatever_meets_is_found(one in access(), other in access()) {
            let touched = bytes(&other);
            let meets = bytes(&one).iter().any(|at| touched.contains(at));
            prop_assert!(!meets || overlap(&one, &other));
            prop_assert_eq!(touch_same(&one, &other), meets);
        }
    }
}
