//! Tags: the state of a live block in the 32 bits that the index stores for it.

use crate::policy::Kind;

const KIND: u32 = 0b11;
const PENDING: u32 = 1 << 2;
const NOTED: u32 = 1 << 3;
const LEAKED: u32 = 1 << 4;
const COMING: u32 = 1 << 5;
const FIXED: u32 = 1 << 6;
const SHELVED: u32 = 1 << 7;
const STREAM: u32 = 8;

/// Lowest stream number that does not fit into a tag and is kept in a note.
pub(crate) const FAR_STREAM: u32 = u32::MAX >> STREAM;

/// Tag of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    pub(crate) fn new(kind: Kind, stream: u32) -> Self {
        Self(kind as u32 | stream.min(FAR_STREAM) << STREAM)
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn kind(self) -> Kind {
        Kind::ALL[(self.0 & KIND) as usize]
    }

    pub(crate) const fn stream(self) -> u32 {
        self.0 >> STREAM
    }

    /// Returns whether the owner has freed the block, but a stream may still access it.
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    pub(crate) const fn pending(self) -> Self {
        Self(self.0 | PENDING)
    }

    /// Returns whether the block is no block but a freed range that only its own stream may take.
    pub(crate) const fn is_shelved(self) -> bool {
        self.0 & SHELVED != 0
    }

    pub(crate) const fn shelved(self) -> Self {
        Self(self.0 | SHELVED)
    }

    /// Returns whether memory is being committed for the block, or the block is room that a compaction plan has
    /// reserved. Such a block can be neither freed nor moved.
    pub(crate) const fn is_coming(self) -> bool {
        self.0 & COMING != 0
    }

    pub(crate) const fn coming(self, coming: bool) -> Self {
        Self(if coming { self.0 | COMING } else { self.0 & !COMING })
    }

    /// Returns whether the block has an owner: it is complete and was not freed.
    pub(crate) const fn is_owned(self) -> bool {
        self.0 & (PENDING | COMING | SHELVED) == 0
    }

    /// Returns whether no handle owns the block, so that it may be freed by its address or token.
    pub(crate) const fn is_leaked(self) -> bool {
        self.0 & LEAKED != 0
    }

    pub(crate) const fn leaked(self, leaked: bool) -> Self {
        Self(if leaked { self.0 | LEAKED } else { self.0 & !LEAKED })
    }

    /// Returns whether the block is known by its address alone, and so cannot move.
    pub(crate) const fn is_fixed(self) -> bool {
        self.0 & FIXED != 0
    }

    pub(crate) const fn fixed(self) -> Self {
        Self(self.0 | FIXED)
    }

    /// Returns whether the block has a note.
    pub(crate) const fn is_noted(self) -> bool {
        self.0 & NOTED != 0
    }

    pub(crate) const fn noted(self) -> Self {
        Self(self.0 | NOTED)
    }

    pub(crate) const fn without_note(self) -> Self {
        Self(self.0 & !NOTED)
    }
}
