//! Tokens: allocations as two numbers, for callers that cannot hold a Rust value.
//!
//! The compiler does not check the ownership of a token, so every call here does. A token whose block was freed is
//! *stale*, even while pins or streams keep the block, and even after its place was reused.

use super::config::MAX_REGIONS;
use super::error::FreeError;
use super::handle::{Allocation, Pin};
use super::slots::{self, Slot};
use super::tag::Tag;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::index::BlockKey;
use crate::policy::{Kind, PoolId, TagId};
use crate::sync::Arc;

/// A name of an allocation that does not own it; see [`Allocation::into_token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllocationToken {
    /// Number of the allocator, unique in the process and never 0.
    pub(super) allocator: u64,
    pub(super) slot: usize,
    pub(super) key: BlockKey,
}

/// The block of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBlock {
    /// Current address. Pin the block to keep it there.
    pub address: VirtualAddress,
    /// Length, rounded up to the granule.
    pub size: Bytes,
    /// Number of bytes requested.
    pub requested: Bytes,
    /// Purpose of the block.
    pub kind: Kind,
}

impl AllocationToken {
    /// Returns the token as two numbers: the first, never zero, names the allocator and the slot of the region, the
    /// second the block.
    pub fn to_parts(self) -> (u64, u64) {
        let place = self.allocator << SLOT_BITS | self.slot as u64;
        (place, self.key.to_bits() ^ mask(place))
    }

    /// Creates a token from two numbers. Any numbers are accepted, since a token is checked when it is used.
    pub fn from_parts(place: u64, key: u64) -> Self {
        let slot = place % (1 << SLOT_BITS);
        Self {
            allocator: place >> SLOT_BITS,
            slot: usize::try_from(slot).expect("ten bits fit"),
            key: BlockKey::from_bits(key ^ mask(place)),
        }
    }
}

/// Returns the bits by which a token's second number differs from the block's key. The keys of all slots start with the
/// same numbers, so without the mask a token with a wrong slot would name another block. (The mixing function is
/// `SplitMix64`'s.)
fn mask(place: u64) -> u64 {
    let mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Number of bits of a token's first number that hold the slot; the others hold the allocator.
const SLOT_BITS: u32 = 10;
const _: () = assert!(MAX_REGIONS <= 1 << SLOT_BITS, "every slot has a number");

impl Allocation {
    /// Gives up ownership without freeing. The block is then freed with this token ([`FlexAllocator::free_token`]) or
    /// owned again ([`FlexAllocator::adopt`]).
    pub fn into_token(self) -> AllocationToken {
        let (slot, key) = self.release();
        AllocationToken { allocator: slot.shared.id, slot: slot.number, key }
    }
}

impl FlexAllocator {
    /// Frees the block of a token. A stale token or a token of another allocator is refused.
    pub fn free_token(&self, token: AllocationToken) -> Result<(), FreeError> {
        self.adopt(token).map(drop)
    }

    /// Makes a token's block owned again.
    pub fn adopt(&self, token: AllocationToken) -> Result<Allocation, FreeError> {
        self.follow(token, |slot, key| slot.with(|region| region.set_leaked(key, false)))?;
        Ok(Allocation::new((Arc::clone(&self.slots[token.slot]), token.key)))
    }

    /// Returns the address of a token's block.
    pub fn address_of(&self, token: AllocationToken) -> Result<VirtualAddress, FreeError> {
        self.block_of(token).map(|block| block.address)
    }

    /// Returns the block of a token.
    pub fn block_of(&self, token: AllocationToken) -> Result<TokenBlock, FreeError> {
        let (address, block) = self.follow(token, |slot, key| {
            let found = slot.find(key)?;
            if Tag::from_bits(found.1.tag).is_leaked() { Ok(found) } else { Err(FreeError::Stale) }
        })?;
        let kind = Tag::from_bits(block.tag).kind();
        Ok(TokenBlock { address, size: block.size, requested: block.requested, kind })
    }

    /// Returns the pool and the tag of a token's block.
    pub fn labels_of(&self, token: AllocationToken) -> Result<(PoolId, TagId), FreeError> {
        self.block_of(token)?;
        self.follow(token, |slot, key| slot.with(|region| region.labels(key)))
    }

    /// Pins the block of a token, as [`Allocation::pin`] does.
    pub fn pin_token(&self, token: AllocationToken) -> Result<Pin, FreeError> {
        self.follow(token, |slot, key| Pin::new(slot, key, Tag::is_leaked))
    }

    /// Records a further stream, as [`Allocation::record_stream`] does.
    pub fn record_stream_token(
        &self,
        token: AllocationToken,
        stream: u32,
    ) -> Result<(), FreeError> {
        self.follow(token, |slot, key| {
            slot.with(|region| region.record_stream(key, Tag::is_leaked, stream))
        })
    }

    pub(super) fn follow<T>(
        &self,
        token: AllocationToken,
        act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>,
    ) -> Result<T, FreeError> {
        match token.allocator {
            // No allocator has this number, so the token names no block: it was never made, or is two zeros.
            0 => return Err(FreeError::Stale),
            owner if owner != self.shared.id => return Err(FreeError::Foreign),
            _ => {}
        }
        let slot = self.slots.get(token.slot).ok_or(FreeError::Stale)?;
        slots::follow(slot, token.key, act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Card, CardSpec};

    fn allocator() -> FlexAllocator {
        FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(12)))))
    }

    #[test]
    fn a_token_freed_under_a_pin_is_stale_although_its_block_stays() {
        let allocator = allocator();
        let token = allocator.allocate(Bytes::new(1000)).unwrap().into_token();
        let pin = allocator.pin_token(token).unwrap();
        allocator.free_token(token).unwrap();
        assert_eq!(allocator.stats().allocated(), Bytes::new(1024), "the pin keeps it");
        assert_eq!(allocator.pin_token(token).unwrap_err(), FreeError::Stale);
        assert_eq!(allocator.record_stream_token(token, 1), Err(FreeError::Stale));
        assert_eq!(allocator.block_of(token), Err(FreeError::Stale));
        drop(pin);
        assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
    }

    /// Keys of all allocators start with the same numbers, so a token of one freed a live block of another.
    #[test]
    fn a_token_of_another_allocator_is_refused() {
        let (ours, theirs) = (allocator(), allocator());
        let own = ours.allocate(Bytes::new(1000)).unwrap().into_token();
        let foreign = theirs.allocate(Bytes::new(1000)).unwrap().into_token();
        assert_eq!(ours.free_token(foreign), Err(FreeError::Foreign));
        assert_eq!(ours.block_of(foreign), Err(FreeError::Foreign));
        assert_eq!(ours.stats().allocated(), Bytes::new(1024), "no block was freed");
        ours.free_token(own).unwrap();
        theirs.free_token(foreign).unwrap();
    }

    /// A token whose allocator's number was 0 skipped the check of its owner.
    #[test]
    fn a_token_without_an_allocator_is_refused() {
        let allocator = allocator();
        let token = allocator.allocate(Bytes::new(1000)).unwrap().into_token();
        let nobody = AllocationToken { allocator: 0, ..token };
        assert_eq!(allocator.free_token(nobody), Err(FreeError::Stale));
        assert_eq!(allocator.pin_token(nobody).unwrap_err(), FreeError::Stale);
        assert_eq!(allocator.record_stream_token(nobody, 1), Err(FreeError::Stale));
        allocator.free_token(token).unwrap();
    }

    #[test]
    fn no_token_is_two_zeros() {
        let allocator = allocator();
        let first = allocator.allocate(Bytes::new(1)).unwrap().into_token();
        assert_ne!(first.to_parts(), (0, 0));
        assert_eq!(allocator.block_of(AllocationToken::from_parts(0, 0)), Err(FreeError::Stale));
    }
}
