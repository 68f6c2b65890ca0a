//! Each rule of PyTorch's allocator in a case that can be computed by hand.

mod histories;

use super::*;
use crate::trace::TraceId;

const KIB: Bytes = Bytes::kib(1);
const MIB: Bytes = Bytes::mib(1);

fn try_allocate(target: &mut PyTorch, size: Bytes, stream: u32) -> Result<u64, String> {
    target.allocate(&Allocate { id: TraceId(0), size, stream, site: 0, time_us: 0 })
}

fn allocate(target: &mut PyTorch, size: Bytes) -> u64 {
    try_allocate(target, size, 0).expect("the device has room")
}

fn address(target: &PyTorch, token: u64) -> Bytes {
    target.blocks[BlockId::from_token(token).unwrap()].address
}

#[test]
fn a_request_takes_a_multiple_of_512_bytes() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        allocate(&mut target, Bytes::new(1));
        assert_eq!(target.allocated(), Bytes::new(512));
        allocate(&mut target, Bytes::new(512));
        assert_eq!(target.allocated(), Bytes::new(1024));
        allocate(&mut target, Bytes::new(513));
        assert_eq!(target.allocated(), Bytes::new(2048));
    }
}

#[test]
fn a_request_of_nothing_takes_nothing() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        let token = allocate(&mut target, Bytes::ZERO);
        target.free(token);
        assert_eq!((target.reserved(), target.peak_allocated()), (Bytes::ZERO, Bytes::ZERO));
    }
}

#[test]
fn one_mebibyte_is_small_and_one_byte_more_is_large() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        allocate(&mut target, MIB);
        assert_eq!(target.reserved(), Bytes::mib(2));
        allocate(&mut target, MIB + Bytes::new(1));
        assert_eq!(target.reserved(), Bytes::mib(22));
    }
}

#[test]
fn a_small_request_never_uses_a_large_block() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        let large = allocate(&mut target, Bytes::mib(2));
        target.free(large);
        allocate(&mut target, KIB);
        assert_eq!(target.reserved(), Bytes::mib(22));
    }
}

#[test]
fn from_10_mib_a_request_gets_a_segment_of_its_own() {
    let mut target = PyTorch::native(None);
    allocate(&mut target, Bytes::mib(10));
    assert_eq!((target.reserved(), target.segments()), (Bytes::mib(10), 1));
    allocate(&mut target, Bytes::mib(10) - KIB);
    assert_eq!((target.reserved(), target.segments()), (Bytes::mib(30), 2));
}

#[test]
fn a_large_rest_of_1_mib_stays_with_its_block_and_512_bytes_more_are_cut_off() {
    let mut target = PyTorch::native(None);
    let kept = allocate(&mut target, Bytes::mib(11));
    assert_eq!((target.allocated(), target.reserved()), (Bytes::mib(12), Bytes::mib(12)));
    target.free(kept);
    allocate(&mut target, Bytes::mib(11) - MIN_BLOCK);
    assert_eq!(target.allocated(), Bytes::mib(11) - MIN_BLOCK);
    assert_eq!(target.peak_allocated(), Bytes::mib(12));
}

#[test]
fn a_small_rest_of_512_bytes_is_cut_off() {
    let mut target = PyTorch::native(None);
    allocate(&mut target, MIB);
    allocate(&mut target, MIB - MIN_BLOCK);
    allocate(&mut target, MIN_BLOCK);
    assert_eq!((target.allocated(), target.reserved()), (Bytes::mib(2), Bytes::mib(2)));
}

#[test]
fn an_expandable_segment_cuts_off_even_512_bytes_of_a_large_block() {
    let mut target = PyTorch::expandable(None);
    allocate(&mut target, Bytes::mib(20) - MIN_BLOCK);
    assert_eq!(target.allocated(), Bytes::mib(20) - MIN_BLOCK);
}

#[test]
fn the_smallest_block_that_fits_is_taken() {
    let mut target = PyTorch::native(None);
    let tokens = [6, 1, 4, 1, 5].map(|kib| allocate(&mut target, Bytes::kib(kib)));
    let hole = address(&target, tokens[2]);
    for index in [0, 2, 4] {
        target.free(tokens[index]);
    }
    let token = allocate(&mut target, Bytes::kib(4));
    assert_eq!(address(&target, token), hole);
}

#[test]
fn of_equal_blocks_the_lowest_is_taken() {
    let mut target = PyTorch::native(None);
    let tokens = [4, 1, 4, 1].map(|kib| allocate(&mut target, Bytes::kib(kib)));
    let hole = address(&target, tokens[0]);
    target.free(tokens[2]);
    target.free(tokens[0]);
    let token = allocate(&mut target, Bytes::kib(4));
    assert_eq!(address(&target, token), hole);
}

#[test]
fn freeing_the_middle_joins_three_blocks() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        let tokens = [(); 4].map(|()| allocate(&mut target, Bytes::kib(512)));
        let start = address(&target, tokens[0]);
        for index in [0, 2, 1] {
            target.free(tokens[index]);
        }
        let token = allocate(&mut target, MIB);
        assert_eq!(address(&target, token), start);
        let rest = allocate(&mut target, Bytes::kib(512));
        assert_eq!(address(&target, rest), start + MIB);
        assert_eq!(target.reserved(), Bytes::mib(2));
    }
}

#[test]
fn blocks_of_two_segments_never_join() {
    let mut target = PyTorch::native(None);
    let tokens = [(); 2].map(|()| allocate(&mut target, Bytes::mib(32)));
    assert_eq!(address(&target, tokens[0]), address(&target, tokens[1]) + Bytes::mib(32));
    for token in tokens {
        target.free(token);
    }
    allocate(&mut target, Bytes::mib(64));
    assert_eq!((target.reserved(), target.segments()), (Bytes::mib(128), 3));
}

#[test]
fn streams_do_not_share_cached_blocks() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        let token = try_allocate(&mut target, KIB, 1).unwrap();
        target.free(token);
        try_allocate(&mut target, KIB, 2).unwrap();
        assert_eq!(target.reserved(), Bytes::mib(4));
        try_allocate(&mut target, KIB, 1).unwrap();
        assert_eq!(target.reserved(), Bytes::mib(4));
    }
}

#[test]
fn a_full_device_frees_cached_segments_of_all_pools_and_tries_again() {
    let mut target = PyTorch::native(Some(Bytes::mib(40)));
    let large = allocate(&mut target, Bytes::mib(30));
    let small = try_allocate(&mut target, KIB, 1).unwrap();
    target.free(large);
    target.free(small);
    allocate(&mut target, Bytes::mib(40));
    assert_eq!((target.reserved(), target.segments()), (Bytes::mib(40), 1));
}

#[test]
fn a_segment_with_a_live_block_is_not_freed() {
    let mut target = PyTorch::native(Some(Bytes::mib(40)));
    let tokens = [(); 2].map(|()| allocate(&mut target, Bytes::mib(9)));
    target.free(tokens[0]);
    let refusal = try_allocate(&mut target, Bytes::mib(22), 0).unwrap_err();
    let expected = "out of memory: asked for 22.00 MiB; 20.00 MiB reserved of 40.00 MiB, 9.00 MiB of it allocated";
    assert_eq!(refusal, expected);
    allocate(&mut target, Bytes::mib(20));
}

#[test]
fn a_size_that_no_rounding_can_hold_is_refused() {
    for mut target in [PyTorch::native(None), PyTorch::expandable(None)] {
        try_allocate(&mut target, Bytes::MAX, 0).unwrap_err();
        try_allocate(&mut target, Bytes::new(1 << 63), 0).unwrap_err();
        assert_eq!(target.reserved(), Bytes::ZERO);
    }
}

#[test]
fn an_expandable_segment_maps_only_the_pages_that_are_missing() {
    let mut target = PyTorch::expandable(None);
    let first = allocate(&mut target, Bytes::mib(15));
    let second = allocate(&mut target, Bytes::mib(25));
    assert_eq!(address(&target, second), address(&target, first) + Bytes::mib(15));
    assert_eq!(target.reserved(), Bytes::mib(40));
    allocate(&mut target, Bytes::mib(20) + MIN_BLOCK);
    assert_eq!((target.reserved(), target.segments()), (Bytes::mib(80), 0));
}

#[test]
fn the_growing_end_is_left_alone_while_another_block_fits() {
    let mut target = PyTorch::expandable(None);
    let tokens = [8, 2, 5].map(|mib| allocate(&mut target, Bytes::mib(mib)));
    target.free(tokens[0]);
    // The end has 5 MiB and is the tighter fit for 4 MiB, but it could grow.
    let token = allocate(&mut target, Bytes::mib(4));
    assert!(address(&target, token) < address(&target, tokens[1]));
}

#[test]
fn a_full_device_unmaps_whole_free_pages_only() {
    let mut target = PyTorch::expandable(Some(Bytes::mib(80)));
    let tokens = [10, 45, 10].map(|mib| allocate(&mut target, Bytes::mib(mib)));
    target.free(tokens[1]);
    assert_eq!(target.reserved(), Bytes::mib(80));
    // 10–55 MiB are free; the page at 20–40 MiB is all there is to give up for the small pool.
    try_allocate(&mut target, KIB, 0).unwrap();
    assert_eq!(target.reserved(), Bytes::mib(62));
}

#[test]
fn an_unmapped_hole_is_mapped_again_before_the_end() {
    let mut target = PyTorch::expandable(Some(Bytes::mib(80)));
    let tokens = [10, 45, 10].map(|mib| allocate(&mut target, Bytes::mib(mib)));
    target.free(tokens[1]);
    let small = allocate(&mut target, KIB);
    target.free(small);
    let token = allocate(&mut target, Bytes::mib(40));
    assert_eq!(address(&target, token), address(&target, tokens[0]) + Bytes::mib(10));
    assert_eq!(target.reserved(), Bytes::mib(80));
}

#[test]
fn a_failed_mapping_leaves_the_device_as_full_as_it_was() {
    let mut target = PyTorch::expandable(Some(Bytes::mib(50)));
    let token = allocate(&mut target, Bytes::mib(30));
    let refusal = try_allocate(&mut target, Bytes::mib(30), 0).unwrap_err();
    assert!(refusal.contains("40.00 MiB reserved of 50.00 MiB, 30.00 MiB"), "{refusal}");
    target.free(token);
    allocate(&mut target, Bytes::mib(40));
}
