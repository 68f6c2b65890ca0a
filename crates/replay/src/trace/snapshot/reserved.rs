//! Reserved bytes of the recorded allocator.

use cubeyard_units::Bytes;

/// Change of the reserved bytes; negative if memory was returned to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change(pub(super) i128);

/// Returns the peak of the reserved bytes, walking back through the changes from the bytes reserved at the end.
///
/// `None` if the device's memory is unknown, or if the walk leads below zero.
pub(super) fn peak(in_the_end: Option<u64>, changes: &[Change]) -> Option<Bytes> {
    if in_the_end.is_none() && changes.is_empty() {
        return None;
    }
    // A sum of fewer than 2³² changes of 64 bits fits into 128 bits.
    let mut reserved = i128::from(in_the_end.unwrap_or(0));
    let mut peak = reserved;
    for Change(change) in changes.iter().rev() {
        reserved -= change;
        if reserved < 0 {
            return None;
        }
        peak = peak.max(reserved);
    }
    u64::try_from(peak).ok().map(Bytes::new)
}

/// Returns the bytes reserved before `changes`, given the bytes reserved at the end; `None` if negative.
pub(super) fn before(in_the_end: Option<u64>, changes: &[Change]) -> Option<Bytes> {
    let sum: i128 = changes.iter().map(|Change(change)| change).sum();
    u64::try_from(i128::from(in_the_end.unwrap_or(0)) - sum).ok().map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_can_lie_anywhere_in_the_history() {
        let changes = [Change(5), Change(-9), Change(2)];
        // 7, 12, 3 and in the end 5.
        assert_eq!(peak(Some(5), &changes), Some(Bytes::new(12)));
        assert_eq!(peak(Some(20), &[Change(1)]), Some(Bytes::new(20)));
        assert_eq!(peak(None, &[Change(-3)]), Some(Bytes::new(3)));
        assert_eq!(peak(None, &[]), None);
    }

    #[test]
    fn a_history_that_cannot_be_has_no_peak() {
        assert_eq!(peak(Some(5), &[Change(6)]), None);
        assert_eq!(peak(Some(u64::MAX), &[Change(-1)]), None);
    }
}
