//! Handles, tokens and addresses: the frees that are allowed, and those that are refused.

use std::sync::Arc;
use std::thread;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{DeviceMemory, RegionId};
use cubeyard_memory::flex::{
    AllocateError, AllocationToken, FlexAllocator, FreeError, VirtualAddress,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::Stats;
use proptest::prelude::*;

use super::{allocator, card};

const CONFIG: &str = "fallback_sizes:[64MiB]";

fn small() -> FlexAllocator {
    allocator(card(Bytes::gib(1)), CONFIG)
}

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

/// Runs an action that must change nothing.
fn unchanged<T>(allocator: &FlexAllocator, act: impl FnOnce() -> T) -> T {
    let before: (Stats, _) = (allocator.stats(), allocator.snapshot().segments);
    let answer = act();
    assert_eq!((allocator.stats(), allocator.snapshot().segments), before, "nothing has changed");
    answer
}

#[test]
fn a_handle_frees_its_block_from_another_thread() {
    let allocator = small();
    let block = allocator.allocate(mib(3)).unwrap();
    thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
    assert_eq!(allocator.regions()[0].largest, mib(64));
}

#[test]
fn a_handle_outlives_the_allocator_and_then_gives_the_region_back() {
    let card = card(Bytes::gib(1));
    let allocator = allocator(card.clone(), CONFIG);
    let block = allocator.allocate(mib(3)).unwrap();
    let address = block.address();
    drop(allocator);
    assert_eq!((block.address(), block.size()), (address, mib(3)), "the handle is good");
    assert_eq!(card.regions(), 1);
    thread::spawn(move || drop(block)).join().unwrap();
    assert_eq!((card.regions(), card.info().free), (0, Bytes::gib(1)));
}

#[test]
fn a_leaked_block_is_freed_by_its_address_once() {
    let allocator = small();
    let address = allocator.allocate(mib(1)).unwrap().leak();
    assert_eq!(allocator.stats().allocated(), mib(1));
    allocator.deallocate(address).unwrap();
    let refused = unchanged(&allocator, || allocator.deallocate(address));
    assert_eq!(refused, Err(FreeError::NotLive { address }));
}

#[test]
fn a_block_with_a_handle_is_not_freed_by_its_address() {
    let allocator = small();
    let block = allocator.allocate(mib(1)).unwrap();
    let refused = unchanged(&allocator, || allocator.deallocate(block.address()));
    assert_eq!(refused, Err(FreeError::Owned));
}

#[test]
fn a_second_free_by_token_is_refused_even_when_the_place_is_used_again() {
    let allocator = small();
    let token = allocator.allocate(mib(1)).unwrap().into_token();
    let place = allocator.address_of(token).unwrap();
    allocator.free_token(token).unwrap();
    let again = allocator.allocate(mib(1)).unwrap();
    assert_eq!(again.address(), place, "another block is in the same place");
    let refused = unchanged(&allocator, || allocator.free_token(token));
    assert_eq!(refused, Err(FreeError::Stale));
    assert_eq!(allocator.address_of(token), Err(FreeError::Stale));
    assert_eq!(allocator.adopt(token).map(drop), Err(FreeError::Stale));
    let other = again.into_token();
    assert_eq!(allocator.free_token(token), Err(FreeError::Stale));
    allocator.free_token(other).unwrap();
}

#[test]
fn a_token_is_stale_after_its_region_was_given_back_and_the_slot_used_again() {
    let allocator = allocator(card(mib(64)), "fallback_sizes:[64MiB],max_regions:1");
    let token = allocator.allocate(mib(1)).unwrap().into_token();
    allocator.free_token(token).unwrap();
    assert_eq!(allocator.trim(), mib(64));
    assert_eq!(allocator.free_token(token), Err(FreeError::Stale), "the slot is vacant");
    let other = allocator.allocate(mib(1)).unwrap();
    let refused = unchanged(&allocator, || allocator.free_token(token));
    assert_eq!(refused, Err(FreeError::Stale), "another region is in the slot");
    drop(other);
}

#[test]
fn made_up_tokens_are_refused() {
    let allocator = small();
    let block = allocator.allocate(mib(1)).unwrap();
    for (slot, key) in [(0, 0), (0, u64::MAX), (11, 1), (12, 1), (u64::MAX, u64::MAX)] {
        let token = AllocationToken::from_parts(slot, key);
        let refused = unchanged(&allocator, || allocator.free_token(token));
        let expected = if slot == u64::MAX { FreeError::Foreign } else { FreeError::Stale };
        assert_eq!(refused, Err(expected));
    }
    let token = block.into_token();
    let (slot, key) = token.to_parts();
    assert_eq!(AllocationToken::from_parts(slot, key), token, "a true one survives its numbers");
    drop(allocator.adopt(token).unwrap());
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

#[test]
fn a_token_whose_block_is_owned_again_frees_nothing() {
    let allocator = small();
    let token = allocator.allocate(mib(1)).unwrap().into_token();
    let block = allocator.adopt(token).unwrap();
    assert_eq!(unchanged(&allocator, || allocator.free_token(token)), Err(FreeError::Owned));
    drop(block);
    assert_eq!(allocator.free_token(token), Err(FreeError::Stale));
}

#[test]
fn foreign_addresses_are_refused() {
    let (ours, theirs) = (small(), small());
    let block = ours.allocate(mib(1)).unwrap();
    drop(theirs.allocate(mib(1)).unwrap());
    let unknown = VirtualAddress { region_id: RegionId::new(77), offset: Bytes::ZERO };
    let refused = unchanged(&ours, || ours.deallocate(unknown));
    assert_eq!(refused, Err(FreeError::UnknownRegion { address: unknown }));
    let address = block.leak();
    assert_eq!(
        theirs.deallocate(address),
        Err(FreeError::NotLive { address }),
        "same name, no block"
    );
    ours.deallocate(address).unwrap();
}

#[test]
fn an_address_inside_a_block_is_refused() {
    let allocator = small();
    let start = allocator.allocate(mib(1)).unwrap().leak();
    for by in [1, 64, 128, (1 << 20) - 1, 1 << 20, 1 << 40, u64::MAX - 64] {
        let address = VirtualAddress { offset: Bytes::new(by), ..start };
        let refused = unchanged(&allocator, || allocator.deallocate(address));
        assert_eq!(refused, Err(FreeError::NotLive { address }));
    }
    allocator.deallocate(start).unwrap();
}

#[test]
fn a_handle_follows_its_block_through_two_compactions() {
    let allocator = small();
    let first = allocator.allocate(mib(1)).unwrap();
    let second = allocator.allocate(mib(1)).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    let old = block.address();
    drop(second);
    assert_eq!(allocator.compact().commit(), 1);
    assert_eq!(block.address().offset, mib(1));
    drop(first);
    assert_eq!(allocator.compact().commit(), 1);
    assert_eq!((block.address().offset, block.size()), (Bytes::ZERO, mib(1)));
    let token = block.into_token();
    assert_eq!(allocator.address_of(token).unwrap().offset, Bytes::ZERO, "and so does its token");
    assert_eq!(allocator.deallocate(old), Err(FreeError::NotLive { address: old }));
    let block = allocator.adopt(token).unwrap();
    block.record_stream(1);
    drop(block.pin());
    drop(block);
    assert_eq!(allocator.regions()[0].largest, mib(64));
    assert_eq!(allocator.free_token(token), Err(FreeError::Stale));
}

#[test]
fn a_pinned_block_stays_until_its_last_launch_ends() {
    let allocator = small();
    let program = allocator.load_program(Bytes::kib(10), 2).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    let first = allocator.launch(&program, [&block, &block]).unwrap();
    let second = allocator.launch(&program, [&block, &block]).unwrap();
    let place = block.address();
    drop((block, program));
    assert!(allocator.compact().is_empty(), "nothing of a launch moves");
    drop(first);
    let other = allocator.allocate(mib(1)).unwrap();
    assert_ne!(other.address(), place, "the second launch still uses it");
    drop(second);
    assert_eq!(allocator.stats().allocated(), mib(1), "the launch's memory is back");
    assert_eq!(allocator.allocate(Bytes::kib(10)).unwrap().address().offset, Bytes::ZERO);
}

#[test]
fn senseless_requests_are_refused_and_change_nothing() {
    let allocator = small();
    let _block = allocator.allocate(mib(1)).unwrap();
    let request = |size, alignment| {
        let alignment = Bytes::new(alignment);
        let request = Request { alignment, ..Request::new(Bytes::new(size)) };
        let before = (allocator.stats().allocated(), allocator.snapshot().segments);
        let refused = allocator.allocate_for(&request).unwrap_err();
        assert_eq!((allocator.stats().allocated(), allocator.snapshot().segments), before);
        refused
    };
    assert_eq!(request(0, 1), AllocateError::ZeroBytes);
    assert_eq!(request(1, 0), AllocateError::BadAlignment(Bytes::ZERO));
    assert_eq!(request(1, 96), AllocateError::BadAlignment(Bytes::new(96)));
    assert_eq!(request(1, u64::MAX), AllocateError::BadAlignment(Bytes::MAX));
    for size in [u64::MAX, u64::MAX - 127, u64::MAX - 128, 1 << 63, (64 << 20) + 1] {
        let AllocateError::OutOfMemory(report) = request(size, 1) else { panic!("{size}") };
        assert_eq!(report.requested, Bytes::new(size));
        assert!(report.to_string().contains("no region can ever hold it"), "{report}");
    }
    let far = Request { alignment: Bytes::new(1 << 63), ..Request::new(Bytes::new(1)) };
    let block = allocator.allocate_for(&far).unwrap();
    assert_eq!(
        block.address().offset,
        Bytes::ZERO,
        "the start of another region is aligned to all"
    );
    assert!(allocator.load_program(Bytes::MAX, usize::MAX).is_err());
    assert!(allocator.load_program(Bytes::ZERO, 0).is_err());
}

#[test]
fn handles_can_be_sent_and_shared() {
    fn check<T: Send + Sync>() {}
    check::<cubeyard_memory::flex::Allocation>();
    check::<cubeyard_memory::flex::Pin>();
    check::<FlexAllocator>();
    check::<Arc<FlexAllocator>>();
}

/// Six blocks of two allocators, each in a region of its own, as tokens.
fn tokens_of_two() -> (FlexAllocator, FlexAllocator, Vec<(u64, u64)>) {
    let make = || allocator(card(Bytes::gib(1)), CONFIG);
    let (ours, theirs) = (make(), make());
    let token = |owner: &FlexAllocator| owner.allocate(mib(64)).unwrap().into_token().to_parts();
    let tokens = [&ours, &theirs, &ours, &theirs, &ours, &theirs].map(token).to_vec();
    (ours, theirs, tokens)
}

/// Uses two numbers as a token in every way that could change a block.
fn is_refused(allocator: &FlexAllocator, (place, key): (u64, u64)) -> bool {
    let token = AllocationToken::from_parts(place, key);
    unchanged(allocator, || {
        allocator.pin_token(token).is_err()
            && allocator.record_stream_token(token, 1).is_err()
            && allocator.block_of(token).is_err()
            && allocator.free_token(token).is_err()
    })
}

/// Every single wrong bit is noticed. (Keys of all slots and allocators start with the same numbers.)
#[test]
fn a_token_with_one_wrong_bit_is_refused() {
    let (ours, theirs, tokens) = tokens_of_two();
    for (place, key) in tokens {
        for bit in 0..64 {
            for wrong in [(place ^ 1 << bit, key), (place, key ^ 1 << bit)] {
                assert!(is_refused(&ours, wrong) && is_refused(&theirs, wrong), "{wrong:x?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Bits that nobody made a token of, small numbers, and parts of two different tokens.
    #[test]
    fn random_bits_are_no_token(
        place in prop_oneof![any::<u64>(), 0..4096_u64],
        key in prop_oneof![any::<u64>(), 0..4096_u64, (0..4096_u64).prop_map(|key| key << 32)],
        (first, second) in (0..6_usize, 0..6_usize),
    ) {
        let (ours, theirs, tokens) = tokens_of_two();
        let mut made = vec![(place, key), (tokens[first].0, key), (place, tokens[first].1)];
        if first != second {
            made.push((tokens[first].0, tokens[second].1));
        }
        for made in made {
            prop_assert!(is_refused(&ours, made) && is_refused(&theirs, made), "{made:x?}");
        }
    }
}
