//! Resizing a block in place: its address stays, and nothing is copied.

pub(crate) mod error;

pub use error::{Obstacle, ResizeError};

use super::FlexAllocator;
use super::handle::Allocation;
use super::tag::Tag;
use super::token::AllocationToken;
use crate::Bytes;

impl Allocation {
    /// Changes the requested size of the block in place. Its address and the contents of the remaining bytes stay.
    ///
    /// A block grows into the range directly behind it: free ranges, and ranges of its own stream that wait for the
    /// stream. In a growable region, memory is committed there. The end of a block that becomes shorter is freed as a
    /// block would be: it waits for the block's streams. Statistics, histories and subscribers see a free and an
    /// allocation at the same address. A pin keeps the size that it was made with.
    ///
    /// ```
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}, flex::{Obstacle, ResizeError}};
    /// # use std::sync::Arc;
    /// # let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    /// let cache = allocator.allocate(Bytes::mib(1)).unwrap();
    /// cache.resize(Bytes::mib(3)).unwrap();
    /// let next = allocator.allocate(Bytes::mib(1)).unwrap();
    /// let refused = cache.resize(Bytes::mib(4)).unwrap_err();
    /// let (needed, available) = (Bytes::mib(1), Bytes::ZERO);
    /// assert_eq!(refused, ResizeError::NoRoom { needed, available, obstacle: Obstacle::Block });
    /// assert_eq!(next.address().offset, Bytes::mib(3));
    /// ```
    pub fn resize(&self, size: Bytes) -> Result<(), ResizeError> {
        self.follow(|slot, key| slot.resize(key, |_| true, size))
    }
}

impl FlexAllocator {
    /// Resizes the block of a token, as [`Allocation::resize`] does.
    pub fn resize_token(&self, token: AllocationToken, size: Bytes) -> Result<(), ResizeError> {
        self.follow(token, |slot, key| slot.resize(key, Tag::is_leaked, size))?
    }
}
