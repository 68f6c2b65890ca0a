//! What a region remembers of a live block in the 32 bits that the index keeps for it.

use crate::policy::Kind;

const KIND: u32 = 0b11;
const PENDING: u32 = 1 << 2;
const NOTED: u32 = 1 << 3;
const LEAKED: u32 = 1 << 4;
const STREAM: u32 = 5;

/// The tag of a block. Streams beyond 2²⁷ share the last number, which costs at most a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    pub(crate) fn new(kind: Kind, stream: u32) -> Self {
        Self(kind as u32 | stream.min(u32::MAX >> STREAM) << STREAM)
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

    /// Whether its owner has let it go, but a stream may still touch it.
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    pub(crate) const fn pending(self) -> Self {
        Self(self.0 | PENDING)
    }

    /// Whether no handle owns it, so that it may be freed by its address or token.
    pub(crate) const fn is_leaked(self) -> bool {
        self.0 & LEAKED != 0
    }

    pub(crate) const fn leaked(self, leaked: bool) -> Self {
        Self(if leaked { self.0 | LEAKED } else { self.0 & !LEAKED })
    }

    /// Whether there is a note about it: pins, or further streams.
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
