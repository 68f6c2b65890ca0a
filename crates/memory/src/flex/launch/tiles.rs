//! Tiles: stepping through an operand piece by piece.

use super::LaunchError;
use crate::Bytes;
use crate::flex::VirtualAddress;

/// Iterator over the tiles of an operand: the region stays the same, the offset advances.
#[derive(Clone, Debug)]
pub struct Tiles {
    next: VirtualAddress,
    stride: Bytes,
    left: u64,
}

impl Tiles {
    /// Creates tiles of `tile` bytes, `stride` bytes apart, in the `size` bytes from `base`.
    pub fn new(
        base: VirtualAddress,
        size: Bytes,
        tile: Bytes,
        stride: Bytes,
    ) -> Result<Self, LaunchError> {
        let ends = base.offset.checked_add(size).is_some();
        if tile.is_zero() || stride.is_zero() || tile > size || !ends {
            return Err(LaunchError::BadTile { tile, stride, size });
        }
        let left = 1 + (size - tile).get() / stride.get();
        Ok(Self { next: base, stride, left })
    }
}

impl Iterator for Tiles {
    type Item = VirtualAddress;

    fn next(&mut self) -> Option<VirtualAddress> {
        self.left = self.left.checked_sub(1)?;
        let tile = self.next;
        if self.left > 0 {
            self.next.offset += self.stride;
        }
        Some(tile)
    }
}
