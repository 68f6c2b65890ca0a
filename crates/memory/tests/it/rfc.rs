//! The RFC, point by point. Its sizes are in GiB; the cards are simulated, so these sizes cost nothing.
//!
//! | The RFC | Test |
//! |---|---|
//! | Workflow 1, step 1: sizes are rounded to 128 bytes | `workflow_1_step_1_sizes_are_rounded_up` |
//! | Workflow 1, step 2: there are no regions, and they are not locked | `workflow_1_step_2_there_is_no_region_yet` |
//! | Workflow 1, step 3: 12, 8, then 4 GiB are tried | `workflow_1_step_3_sizes_are_tried_in_order` |
//! | Workflow 1, step 4: a new region is one free block | `workflow_1_step_4_a_new_region_is_one_free_block` |
//! | Workflow 1, step 5: the block is split | `workflow_1_step_5_the_block_is_split` |
//! | Workflow 1, steps 6 to 8: an address in an owned handle | `workflow_1_steps_6_to_8_an_address_in_an_owned_handle` |
//! | Workflow 2, steps 1 and 2: existing regions in the strategy's order | `workflow_2_steps_1_and_2_regions_in_the_strategys_order` |
//! | Workflow 2, step 3: the next region if the block strategy finds nothing | `workflow_2_step_3_the_next_region_is_tried` |
//! | Workflow 2, steps 4 and 5: same region, another offset | `workflow_2_steps_4_and_5_only_the_offset_differs` |
//! | Workflow 3, steps 1 and 2: the last reference goes | `workflow_3_steps_1_and_2_the_last_owner_frees` |
//! | Workflow 3, step 3: joins with predecessor and successor | `workflow_3_step_3_neighbours_are_joined` |
//! | Workflow 3, step 4: figures are updated, mappings removed | `workflow_3_step_4_figures_and_mappings` |
//! | Workflow 4: all sizes fail | `workflow_4_all_sizes_fail_and_regions_are_locked` |
//! | Workflow 4: as many regions as may be | `workflow_4_max_regions_locks_too` |
//! | Testing: block allocation and splitting | `blocks_are_split_to_size_and_aligned` |
//! | Testing: deallocation and coalescing | `no_two_adjacent_blocks_are_free` |
//! | Testing: region acquisition and fallback | `the_fallback_sequence_locks_when_it_ends` and workflow 4 |
//! | Testing: strategies | `load_balancing_prefers_the_emptiest`, `fill_first_prefers_the_fullest_that_fits`, `first_fit_prefers_the_lowest`, `best_fit_prefers_the_tightest` |
//! | Testing: fragmentation | `coalescing_recovers_what_fragmentation_took` |
//! | Testing: thread safety | `threads_share_an_allocator`, and `flex::threads` and `tests/shuttle.rs` |
//! | Testing: allocation edge cases | `a_block_spans_most_of_a_region`, `very_many_small_blocks`, `all_regions_can_be_exhausted` |
//! | Testing: program loading | `programs_are_loaded_beside_tensors_and_segments_are_known` |
//! | Testing: out of memory | `out_of_memory_is_graceful_and_says_why` |
//! | Summary: PF and VF | `region_ids_are_addresses_in_pf_and_indices_in_vf` |
//! | Phase 1 against "acquired lazily" | `searching_first_is_the_default_and_phase_1_a_switch` |
//! | Debugging | `every_step_can_be_followed_in_the_log`, in `tests/log.rs` |
//! | Integration: launch, correction, tiles | `launches_resolve_correct_and_tile` |
//! | Question 1: region release | `question_1_trim_and_when_idle` |
//! | Question 2: a lock for each region | `question_2_no_lock_is_held_while_calling_out` |
//! | Question 3: sizes from the configuration | `question_3_sizes_counts_and_alignment_are_settings` |
//! | Question 4: pressure | `question_4_callbacks_run_in_order_and_may_free` |
//! | Question 5: compaction | `question_5_compaction_moves_real_data_and_leaves_pinned_blocks` |
//! | Question 6: several devices | `question_6_one_allocator_for_each_device` |
//! | Question 7: programs | `question_7_kinds_can_have_regions_of_their_own` |
//! | Question 8: no exceptions | `question_8_refusals_are_values` |
//! | Question 9: `region_id` is a small value | `question_9_an_address_keeps_nothing_alive` |
//! | Question 10: eager pool | `question_10_an_eager_pool` |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, HostMemory, MemoryInfo, RegionHandle,
};
use cubeyard_memory::flex::{
    AllocateError, Allocation, BlockState, DeviceIndex, FlexAllocator, LaunchError, OutOfMemory,
    Registry, Shortage, Snapshot, VirtualAddress,
};
use cubeyard_memory::policy::{Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity};

use crate::flex::card;

/// Returns an allocator with the RFC's configuration, changed by a text.
fn allocator(device: Arc<dyn DeviceMemory>, config: &str) -> FlexAllocator {
    crate::flex::allocator(device, &format!("preset:rfc,{config}"))
}

fn gib(count: u64) -> Bytes {
    Bytes::gib(count)
}

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

/// A card that records the sizes it is asked for.
struct Asked {
    card: Card,
    sizes: Mutex<Vec<u64>>,
}

impl Asked {
    fn new(memory: Bytes) -> Arc<Self> {
        let card = Card::new(CardSpec::physical(memory));
        Arc::new(Self { card, sizes: Mutex::default() })
    }

    /// Returns the sizes in GiB since the last call.
    fn sizes(&self) -> Vec<u64> {
        std::mem::take(&mut self.sizes.lock().unwrap())
    }
}

impl DeviceMemory for Asked {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.sizes.lock().unwrap().push(size.get() >> 30);
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.card.info()
    }
}

/// Returns the blocks of a region as sizes in MiB; free ranges are negative.
fn parts(snapshot: &Snapshot, segment: usize) -> Vec<i64> {
    let blocks = snapshot.segments[segment].blocks.iter();
    let signed = |size: Bytes| i64::try_from(size.get() >> 20).unwrap();
    blocks
        .map(|block| match block.state {
            BlockState::Inactive => -signed(block.size),
            _ => signed(block.size),
        })
        .collect()
}

fn refused(result: Result<Allocation, AllocateError>) -> OutOfMemory {
    match result {
        Err(AllocateError::OutOfMemory(report)) => *report,
        other => panic!("out of memory was expected, not {other:?}"),
    }
}

#[test]
fn workflow_1_step_1_sizes_are_rounded_up() {
    let allocator = allocator(card(gib(12)), "");
    for (asked, size) in [(1, 128), (127, 128), (128, 128), (129, 256), (1000, 1024)] {
        let block = allocator.allocate(Bytes::new(asked)).unwrap();
        assert_eq!((block.requested(), block.size()), (Bytes::new(asked), Bytes::new(size)));
        assert!(block.address().offset.is_aligned(Bytes::new(128)));
    }
}

#[test]
fn workflow_1_step_2_there_is_no_region_yet() {
    let device = Asked::new(gib(32));
    let allocator = allocator(device.clone(), "");
    assert!(!allocator.regions_locked() && allocator.regions().is_empty());
    assert_eq!(device.sizes(), [0; 0], "nothing is acquired before it is needed");
}

#[test]
fn workflow_1_step_3_sizes_are_tried_in_order() {
    for (memory, tried, got) in [(32, vec![12], 12), (10, vec![12, 8], 8), (5, vec![12, 8, 4], 4)] {
        let device = Asked::new(gib(memory));
        let allocator = allocator(device.clone(), "");
        allocator.allocate(mib(1)).unwrap();
        assert_eq!(device.sizes(), tried, "{memory} GiB");
        assert_eq!(allocator.regions()[0].size, gib(got));
        assert!(!allocator.regions_locked());
    }
}

#[test]
fn workflow_1_step_4_a_new_region_is_one_free_block() {
    let allocator = allocator(card(gib(12)), "acquire:eager(1)");
    assert_eq!(parts(&allocator.snapshot(), 0), [-12 * 1024]);
    let region = allocator.regions()[0];
    assert_eq!((region.free, region.largest, region.blocks), (gib(12), gib(12), 0));
}

#[test]
fn workflow_1_step_5_the_block_is_split() {
    let allocator = allocator(card(gib(12)), "");
    let block = allocator.allocate(mib(24)).unwrap();
    assert_eq!(parts(&allocator.snapshot(), 0), [24, 24 - 12 * 1024]);
    assert_eq!(block.address().offset, Bytes::ZERO, "the first bytes are occupied");
}

#[test]
fn workflow_1_steps_6_to_8_an_address_in_an_owned_handle() {
    let allocator = allocator(card(gib(12)), "");
    let block: Allocation = allocator.allocate(mib(1)).unwrap();
    let address: VirtualAddress = block.address();
    assert_eq!(address.region_id, allocator.regions()[0].id);
    assert_eq!(address.offset, Bytes::ZERO);
}

#[test]
fn workflow_2_steps_1_and_2_regions_in_the_strategys_order() {
    let device = Asked::new(gib(36));
    let allocator = allocator(device.clone(), "acquire:eager(3)");
    device.sizes();
    let ids: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    let blocks: Vec<_> = (0..4).map(|_| allocator.allocate(gib(1)).unwrap()).collect();
    let used: Vec<_> = blocks.iter().map(|block| block.address().region_id).collect();
    assert_eq!(used, [ids[0], ids[1], ids[2], ids[0]], "the emptiest, of equals the oldest");
    assert_eq!(device.sizes(), [0; 0], "nothing is acquired while there is room");
}

#[test]
fn workflow_2_step_3_the_next_region_is_tried() {
    let allocator = allocator(card(gib(24)), "acquire:eager(2)");
    let ids: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    // Region 0 has more free bytes, but in two ranges; region 1 has fewer, but contiguous.
    let low = allocator.allocate(gib(4)).unwrap();
    let other = allocator.allocate(gib(7)).unwrap();
    let middle = allocator.allocate(gib(4)).unwrap();
    assert_eq!(middle.address().region_id, ids[0]);
    assert_eq!(other.address().region_id, ids[1]);
    drop(low);
    let block = allocator.allocate(Bytes::new(gib(4).get() + 1)).unwrap();
    assert_eq!(block.address().region_id, ids[1], "8 GiB are free in region 0, but 4 in a piece");
}

#[test]
fn workflow_2_steps_4_and_5_only_the_offset_differs() {
    let allocator = allocator(card(gib(12)), "");
    let blocks = [100, 200, 300].map(|size| allocator.allocate(mib(size)).unwrap());
    let places = blocks.each_ref().map(Allocation::address);
    assert!(places.iter().all(|place| place.region_id == places[0].region_id));
    assert_eq!(places.map(|place| place.offset), [mib(0), mib(100), mib(300)]);
    assert_eq!(parts(&allocator.snapshot(), 0), [100, 200, 300, 600 - 12 * 1024]);
}

#[test]
fn workflow_3_steps_1_and_2_the_last_owner_frees() {
    let allocator = allocator(card(gib(12)), "");
    let block = Arc::new(allocator.allocate(mib(1)).unwrap());
    let second = Arc::clone(&block);
    drop(block);
    assert_eq!(allocator.stats().allocated(), mib(1), "there is another reference");
    thread::spawn(move || drop(second)).join().unwrap();
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

#[test]
fn workflow_3_step_3_neighbours_are_joined() {
    let allocator = allocator(card(gib(4)), "");
    let mut blocks: Vec<_> = (0..4).map(|_| Some(allocator.allocate(gib(1)).unwrap())).collect();
    let parts = || parts(&allocator.snapshot(), 0);
    blocks[0] = None;
    assert_eq!(parts(), [-1024, 1024, 1024, 1024]);
    blocks[1] = None;
    assert_eq!(parts(), [-2048, 1024, 1024], "with the predecessor");
    blocks[3] = None;
    assert_eq!(parts(), [-2048, 1024, -1024]);
    blocks[2] = None;
    assert_eq!(parts(), [-4096], "with both");
}

#[test]
fn workflow_3_step_4_figures_and_mappings() {
    let allocator = allocator(card(gib(12)), "");
    let kept = allocator.allocate(mib(1)).unwrap();
    let token = allocator.allocate(mib(3)).unwrap().into_token();
    let address = allocator.address_of(token).unwrap();
    assert_eq!(allocator.regions()[0].free, gib(12) - mib(4));
    allocator.free_token(token).unwrap();
    let region = allocator.regions()[0];
    assert_eq!((region.free, region.largest), (gib(12) - mib(1), gib(12) - mib(1)));
    assert!(allocator.address_of(token).is_err() && allocator.deallocate(address).is_err());
    drop(kept);
}

#[test]
fn workflow_4_all_sizes_fail_and_regions_are_locked() {
    let device = Asked::new(gib(14));
    let allocator = allocator(device.clone(), "");
    let _big = allocator.allocate(gib(11)).unwrap();
    assert_eq!(device.sizes(), [12]);
    let report = refused(allocator.allocate(gib(2)));
    assert_eq!(device.sizes(), [12, 8, 4], "all are tried");
    assert!(report.regions_locked && allocator.regions_locked());
    let small = allocator.allocate(mib(512)).unwrap();
    assert!(allocator.allocate(gib(3)).is_err());
    assert_eq!(device.sizes(), [0; 0], "no further region is attempted");
    drop(small);
}

#[test]
fn workflow_4_max_regions_locks_too() {
    let device = Asked::new(gib(1000));
    let allocator = allocator(device.clone(), "");
    let mut blocks: Vec<_> = (0..11).map(|_| allocator.allocate(gib(12)).unwrap()).collect();
    assert!(!allocator.regions_locked(), "there may be one more");
    blocks.push(allocator.allocate(gib(12)).unwrap());
    assert!(allocator.regions_locked(), "regions.size() == MAX_REGIONS");
    assert!(allocator.allocate(mib(1)).is_err());
    assert_eq!(device.sizes(), [12; 12]);
    drop(blocks);
    allocator.allocate(gib(12)).unwrap();
}

#[test]
fn blocks_are_split_to_size_and_aligned() {
    let allocator = allocator(card(gib(12)), "");
    let mut end = Bytes::ZERO;
    let mut blocks = Vec::new();
    for size in [1_u64, 128, 129, 5000, 1 << 20, (1 << 30) + 7] {
        let block = allocator.allocate(Bytes::new(size)).unwrap();
        assert_eq!(block.address().offset, end, "each takes the front of the remainder");
        end += block.size();
        blocks.push(block);
    }
    let region = allocator.regions()[0];
    assert_eq!((region.blocks, region.free), (6, gib(12) - end));
}

#[test]
fn no_two_adjacent_blocks_are_free() {
    let allocator = allocator(card(gib(12)), "");
    let mut blocks: Vec<_> = (0..200).map(|_| allocator.allocate(mib(1)).ok()).collect();
    for step in 0..200 {
        // 7 and 200 are coprime, so every block gets its turn.
        blocks[step * 7 % 200] = None;
        let parts = parts(&allocator.snapshot(), 0);
        assert!(parts.windows(2).all(|pair| pair[0] > 0 || pair[1] > 0), "{parts:?}");
        assert_eq!(parts.iter().map(|size| size.abs()).sum::<i64>(), 12 * 1024);
    }
    assert_eq!(allocator.regions()[0].largest, gib(12));
}

#[test]
fn the_fallback_sequence_locks_when_it_ends() {
    let device = Asked::new(gib(24));
    let allocator = allocator(device.clone(), "");
    let mut sizes = Vec::new();
    let mut blocks = Vec::new();
    while let Ok(block) = allocator.allocate(gib(4)) {
        sizes.extend(device.sizes());
        blocks.push(block);
    }
    sizes.extend(device.sizes());
    assert_eq!(sizes, [12, 12, 12, 8, 4]);
    assert_eq!(blocks.len(), 6);
    assert!(allocator.regions_locked());
    // A request that the smaller sizes could not hold does not try them, and does not lock the regions.
    let device = Asked::new(gib(8));
    let allocator = self::allocator(device.clone(), "");
    assert!(allocator.allocate(gib(9)).is_err());
    assert_eq!((device.sizes(), allocator.regions_locked()), (vec![12], false));
}

#[test]
fn load_balancing_prefers_the_emptiest() {
    let allocator = allocator(card(gib(24)), "acquire:eager(2)");
    let ids: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    let first = allocator.allocate(gib(2)).unwrap();
    let second = allocator.allocate(gib(1)).unwrap();
    let third = allocator.allocate(gib(5)).unwrap();
    let used = [&first, &second, &third].map(|block| block.address().region_id);
    assert_eq!(used, [ids[0], ids[1], ids[1]]);
    assert_eq!(allocator.allocate(gib(1)).unwrap().address().region_id, ids[0]);
}

#[test]
fn fill_first_prefers_the_fullest_that_fits() {
    let allocator = allocator(card(gib(24)), "region:fill-first,acquire:eager(2)");
    let ids: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    let first = allocator.allocate(gib(10)).unwrap();
    let second = allocator.allocate(gib(3)).unwrap();
    let third = allocator.allocate(gib(2)).unwrap();
    let fourth = allocator.allocate(gib(1)).unwrap();
    let used = [&first, &second, &third, &fourth].map(|block| block.address().region_id);
    assert_eq!(used, [ids[0], ids[1], ids[0], ids[1]], "3 GiB do not fit the fuller one, 2 do");
}

#[test]
fn first_fit_prefers_the_lowest() {
    let allocator = allocator(card(gib(4)), "block:first-fit");
    let blocks = [3, 1, 2, 1].map(|size| Some(allocator.allocate(mib(size)).unwrap()));
    let [wide, _low, narrow, _high] = blocks;
    drop((wide, narrow));
    assert_eq!(allocator.allocate(mib(2)).unwrap().address().offset, Bytes::ZERO);
}

#[test]
fn best_fit_prefers_the_tightest() {
    let allocator = allocator(card(gib(4)), "block:best-fit");
    let blocks = [3, 1, 2, 1].map(|size| Some(allocator.allocate(mib(size)).unwrap()));
    let [wide, _low, narrow, _high] = blocks;
    drop((wide, narrow));
    assert_eq!(allocator.allocate(mib(2)).unwrap().address().offset, mib(4));
}

#[test]
fn coalescing_recovers_what_fragmentation_took() {
    let allocator = allocator(card(gib(4)), "");
    let mut blocks: Vec<_> = (0..64).map(|_| allocator.allocate(mib(64)).ok()).collect();
    assert!(blocks.iter().all(Option::is_some));
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let report = refused(allocator.allocate(mib(65)));
    assert_eq!(
        (report.shortage, report.free, report.largest),
        (Shortage::Fragmented, gib(2), mib(64))
    );
    blocks[1] = None;
    assert_eq!(allocator.allocate(mib(192)).unwrap().address().offset, Bytes::ZERO);
    blocks.clear();
    allocator.allocate(gib(4)).unwrap();
}

#[test]
fn threads_share_an_allocator() {
    let allocator = allocator(card(gib(24)), "");
    thread::scope(|scope| {
        for who in 0..4_u64 {
            let allocator = &allocator;
            scope.spawn(move || {
                let mut blocks = Vec::new();
                for step in 0..500 {
                    blocks.push(
                        allocator.allocate(Bytes::new(1 + (step * 7919 + who) % 100_000)).unwrap(),
                    );
                    if step % 3 == 0 {
                        blocks.swap_remove(0);
                    }
                }
            });
        }
    });
    let stats = allocator.stats();
    let allocations = stats.get(Quantity::Allocation, Pool::All);
    assert_eq!((allocations.current, allocations.allocated, allocations.freed), (0, 2000, 2000));
    assert!(allocator.regions().iter().all(|region| region.largest == region.size));
}

#[test]
fn a_block_spans_most_of_a_region() {
    let allocator = allocator(card(gib(12)), "");
    let most = gib(12) - Bytes::new(128);
    let big = allocator.allocate(most).unwrap();
    let last = allocator.allocate(Bytes::new(128)).unwrap();
    assert_eq!(last.address().offset, most);
    assert!(allocator.allocate(Bytes::new(1)).is_err());
    drop((big, last));
    allocator.allocate(gib(12)).unwrap();
}

#[test]
fn very_many_small_blocks() {
    let allocator = allocator(card(gib(12)), "");
    let mut blocks: Vec<_> =
        (0..20_000).map(|_| allocator.allocate(Bytes::new(1)).unwrap()).collect();
    assert_eq!(allocator.stats().allocated(), Bytes::new(20_000 * 128));
    let mut place = 0;
    blocks.retain(|_| {
        place += 1;
        place % 2 == 0
    });
    assert_eq!(allocator.stats().get(Quantity::InactiveSplit, Pool::All).current, 10_001);
    blocks.clear();
    assert_eq!(allocator.regions()[0].largest, gib(12));
}

#[test]
fn all_regions_can_be_exhausted() {
    let allocator = allocator(card(gib(40)), "max_regions:3");
    let mut blocks = Vec::new();
    while let Ok(block) = allocator.allocate(gib(1)) {
        blocks.push(block);
    }
    assert_eq!((blocks.len(), allocator.regions().len()), (36, 3));
    assert!(allocator.regions_locked());
    let freed = blocks.remove(17).address();
    assert_eq!(allocator.allocate(gib(1)).unwrap().address(), freed, "the only room there is");
}

#[test]
fn programs_are_loaded_beside_tensors_and_segments_are_known() {
    let allocator = allocator(Arc::new(Card::new(CardSpec::virtual_function(gib(24), 8))), "");
    let tensor = allocator.allocate(gib(1)).unwrap();
    let program = allocator.load_program(mib(3), 8).unwrap();
    let second = allocator.allocate(gib(12)).unwrap();
    assert_eq!(program.memory().kind(), Kind::Program);
    assert_eq!(program.memory().address().region_id, tensor.address().region_id);
    let table = allocator.segment_table();
    let entries: Vec<_> = table.entries().iter().flatten().collect();
    let ids: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    assert_eq!(entries.iter().map(|entry| entry.region_id).collect::<Vec<_>>(), ids);
    assert!(entries[0].base > 0 && entries[0].base + gib(12).get() <= entries[1].base);
    assert_eq!(table.entries().len(), 8, "as many as the firmware has");
    // The entry of a released region is reused only when no launch holds it.
    let operands = [&tensor; 8];
    let launch = allocator.launch(&program, operands).unwrap();
    drop(second);
    allocator.trim();
    let third = allocator.allocate(gib(12)).unwrap();
    let place =
        |block: &Allocation| allocator.segment_table().get(block.address().region_id).unwrap().0.0;
    assert_eq!((place(&tensor), place(&third)), (0, 2), "the launch knows entry 1");
    drop((launch, third));
    allocator.trim();
    let fourth = allocator.allocate(gib(12)).unwrap();
    assert_eq!(place(&fourth), 1, "nobody knows it any more");
}

#[test]
fn out_of_memory_is_graceful_and_says_why() {
    let allocator = allocator(card(gib(12)), "");
    let report = refused(allocator.allocate(gib(13)));
    assert_eq!(report.shortage, Shortage::TooLarge);
    let mut blocks: Vec<_> = (0..12).map(|_| allocator.allocate(gib(1)).ok()).collect();
    let report = refused(allocator.allocate(gib(2)));
    assert_eq!((report.shortage, report.free, report.largest), (Shortage::Full, gib(0), gib(0)));
    assert!(report.advice().contains("free at least 2.00 GiB"), "{}", report.advice());
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let report = refused(allocator.allocate(gib(2)));
    assert_eq!(
        (report.shortage, report.free, report.largest),
        (Shortage::Fragmented, gib(6), gib(1))
    );
    assert!(report.to_string().contains("no more regions are acquired"), "{report}");
    assert_eq!(allocator.stats().counters.ooms, 3);
    assert_eq!(blocks.iter().flatten().count(), 6, "everything that was there still is");
    allocator.allocate(gib(1)).unwrap();
}

#[test]
fn region_ids_are_addresses_in_pf_and_indices_in_vf() {
    let pf = allocator(card(gib(24)), "acquire:eager(2)");
    let ids: Vec<_> = pf.regions().iter().map(|region| region.id.get()).collect();
    assert_eq!(pf.device().mode(), AddressMode::Physical);
    assert_eq!(ids[1] - ids[0], gib(12).get(), "physical addresses");
    let vf = allocator(
        Arc::new(Card::new(CardSpec::virtual_function(gib(1000), 8))),
        "acquire:eager(12)",
    );
    let ids: Vec<_> = vf.regions().iter().map(|region| region.id.get()).collect();
    assert_eq!(vf.device().mode(), AddressMode::Virtual);
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7], "the table has no more entries");
    assert!(vf.regions_locked());
    let block = |allocator: &FlexAllocator| allocator.allocate(mib(1)).unwrap().address().offset;
    assert_eq!(block(&pf), block(&vf), "all else is the same");
}

#[test]
fn searching_first_is_the_default_and_phase_1_a_switch() {
    let lazy = Asked::new(gib(30));
    let searching = allocator(lazy.clone(), "");
    let blocks: Vec<_> = (0..3).map(|_| searching.allocate(gib(1)).unwrap()).collect();
    assert_eq!((lazy.sizes(), searching.regions().len()), (vec![12], 1));
    drop(blocks);
    let first = Asked::new(gib(30));
    let acquiring = allocator(first.clone(), "acquire:first");
    let blocks: Vec<_> = (0..5).map(|_| acquiring.allocate(gib(1)).unwrap()).collect();
    let regions: Vec<_> = acquiring.regions().iter().map(|region| region.blocks).collect();
    assert_eq!(first.sizes(), [12, 12, 12, 8, 4, 12, 8, 4], "until no more is to be had");
    assert_eq!(regions, [2, 2, 1], "spread over all of them");
    assert!(acquiring.regions_locked());
    drop(blocks);
}

#[test]
fn launches_resolve_correct_and_tile() {
    let allocator = allocator(card(gib(24)), "");
    let program = allocator.load_program(Bytes::new(1000), 2).unwrap();
    let (a, b) = (allocator.allocate(mib(4)).unwrap(), allocator.allocate(mib(2)).unwrap());
    let launch = allocator.launch(&program, [&a, &b]).unwrap();
    let table = allocator.segment_table();
    for (operand, block) in launch.operands().iter().zip([&a, &b]) {
        let (segment, entry) = table.get(block.address().region_id).unwrap();
        assert_eq!(operand.segment, segment);
        assert_eq!(operand.flat, entry.base + block.address().offset.get());
        assert_eq!(operand.size, block.size());
    }
    let (place, corrections) = launch.corrections();
    let second = allocator.launch(&program, [&a, &b]).unwrap();
    assert_ne!(place, second.corrections().0, "each launch has a block for them");
    let words: Vec<_> = corrections.bytes().chunks(8).collect();
    assert_eq!(words[0], launch.operands()[0].flat.to_le_bytes());
    assert_eq!(words[3], mib(2).get().to_le_bytes());
    let tiles: Vec<_> = launch.tiles(0, mib(1), mib(1)).unwrap().unwrap().collect();
    assert_eq!(tiles.len(), 4);
    assert!(tiles.iter().all(|tile| tile.region_id == a.address().region_id), "never the region");
    assert_eq!(tiles[3].offset, a.address().offset + mib(3));
    assert!(matches!(launch.tiles(0, mib(5), mib(1)), Some(Err(LaunchError::BadTile { .. }))));
    assert!(launch.tiles(2, mib(1), mib(1)).is_none());
    let many = [&a; 99];
    let error = allocator.launch(&program, many).unwrap_err();
    assert_eq!(error, LaunchError::OperandCount { expected: 2, found: 99 });
}

#[test]
fn question_1_trim_and_when_idle() {
    let device = card(gib(24));
    let never = allocator(device.clone(), "");
    let blocks: Vec<_> = (0..2).map(|_| never.allocate(gib(12)).unwrap()).collect();
    assert!(never.allocate(gib(1)).is_err() && never.regions_locked());
    drop(blocks);
    assert_eq!(device.info().free, Bytes::ZERO, "regions are kept");
    assert_eq!(never.trim(), gib(24));
    assert!(!never.regions_locked(), "there is room again");
    never.allocate(gib(1)).unwrap();
    never.trim();
    let idle = allocator(device.clone(), "release:when_idle(12GiB)");
    let blocks: Vec<_> = (0..2).map(|_| idle.allocate(gib(12)).unwrap()).collect();
    let mut blocks = blocks.into_iter();
    drop(blocks.next());
    assert_eq!(device.info().free, Bytes::ZERO, "12 GiB are not more than 12 GiB");
    drop(blocks.next());
    assert_eq!(device.info().free, gib(24), "24 are");
}

/// A device that queries the allocator from another thread whenever it is called.
struct Looking {
    card: Card,
    allocator: Mutex<Option<FlexAllocator>>,
    looked: AtomicUsize,
}

impl Looking {
    fn look(&self) {
        let allocator = self.allocator.lock().unwrap().clone();
        if let Some(allocator) = allocator {
            let look = move || {
                let _ = (allocator.stats(), allocator.snapshot(), allocator.regions());
                let _ = (allocator.regions_locked(), allocator.segment_table());
            };
            thread::spawn(look).join().expect("nobody waits for the device");
            self.looked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl DeviceMemory for Looking {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.look();
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.look();
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.look();
        self.card.info()
    }
    fn granule(&self) -> Option<Bytes> {
        self.card.granule()
    }
    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.look();
        self.card.try_reserve(size)
    }
    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.look();
        self.card.commit(region, offset, size)
    }
    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.look();
        self.card.decommit(region, offset, size);
    }
}

#[test]
fn question_2_no_lock_is_held_while_calling_out() {
    for config in ["fallback_sizes:[64MiB]", "growth:growable(64MiB)", "growth:recycle(64MiB)"] {
        let device = Arc::new(Looking {
            card: Card::new(CardSpec::physical(mib(128))),
            allocator: Mutex::default(),
            looked: AtomicUsize::new(0),
        });
        let allocator = allocator(device.clone(), config);
        *device.allocator.lock().unwrap() = Some(allocator.clone());
        let seen = allocator.clone();
        allocator.on_pressure(move |_| {
            let seen = seen.clone();
            thread::spawn(move || drop(seen.snapshot())).join().unwrap();
        });
        let first = allocator.allocate(mib(40)).unwrap();
        let second = allocator.allocate(mib(40)).unwrap();
        drop(first);
        let third = allocator.allocate(mib(50)).unwrap();
        assert!(allocator.allocate(gib(1)).is_err());
        drop((second, third));
        allocator.trim();
        assert!(device.looked.load(Ordering::Relaxed) > 5);
        *device.allocator.lock().unwrap() = None;
    }
}

#[test]
fn question_3_sizes_counts_and_alignment_are_settings() {
    let allocator =
        allocator(card(gib(64)), "fallback_sizes:[3GiB;1GiB],max_regions:2,alignment:512");
    let first = allocator.allocate(gib(3)).unwrap();
    let second = allocator.allocate(Bytes::new(1)).unwrap();
    assert_eq!(second.size(), Bytes::new(512));
    assert!(refused(allocator.allocate(gib(3))).regions_locked);
    drop((first, second));
}

#[test]
fn question_4_callbacks_run_in_order_and_may_free() {
    let allocator = allocator(card(gib(12)), "");
    let cache = Arc::new(Mutex::new(vec![allocator.allocate(gib(6)).unwrap()]));
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    allocator.on_pressure(move |report| noted.lock().unwrap().push(("looks", report.free)));
    let (noted, emptied) = (Arc::clone(&order), Arc::clone(&cache));
    allocator.on_pressure(move |report| {
        noted.lock().unwrap().push(("frees elsewhere", report.largest));
        let blocks = std::mem::take(&mut *emptied.lock().unwrap());
        thread::spawn(move || drop(blocks)).join().unwrap();
    });
    let block = allocator.allocate(gib(10)).expect("the cache made room");
    assert_eq!(*order.lock().unwrap(), [("looks", gib(6)), ("frees elsewhere", gib(6))]);
    assert_eq!(allocator.stats().counters.ooms, 0);
    order.lock().unwrap().clear();
    assert!(allocator.allocate(gib(10)).is_err(), "the cache is empty: one retry, then the error");
    assert_eq!(order.lock().unwrap().len(), 2, "each was called once");
    drop(block);
}

#[test]
fn question_5_compaction_moves_real_data_and_leaves_pinned_blocks() {
    let host = Arc::new(HostMemory::new(mib(64)));
    let allocator = allocator(host.clone(), "fallback_sizes:[16MiB]");
    let mut blocks: Vec<_> = (0..16).map(|_| Some(allocator.allocate(mib(1)).unwrap())).collect();
    for (number, block) in blocks.iter().flatten().enumerate() {
        let address = block.address();
        host.write(address.region_id, address.offset, &vec![number as u8; 1 << 20]).unwrap();
    }
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    let pinned = blocks[15].as_ref().unwrap().pin();
    assert!(allocator.regions()[0].largest < mib(7));
    let plan = allocator.compact();
    for step in plan.moves() {
        let size = usize::try_from(step.size.get()).unwrap();
        let data = host.read(step.from.region_id, step.from.offset, size).unwrap();
        host.write(step.to.region_id, step.to.offset, &data).unwrap();
    }
    assert!(plan.commit() >= 3);
    for (number, block) in blocks.iter().enumerate() {
        let Some(block) = block else { continue };
        let address = block.address();
        let data = host.read(address.region_id, address.offset, 1 << 20).unwrap();
        assert!(data.iter().all(|&byte| byte == number as u8), "block {number} kept its data");
    }
    assert_eq!(pinned.address(), blocks[15].as_ref().unwrap().address());
    assert_eq!(pinned.address().offset, mib(15), "the pinned block stayed");
    assert!(allocator.regions()[0].largest >= mib(7), "free memory came together");
}

#[test]
fn question_6_one_allocator_for_each_device() {
    let registry = Registry::default();
    for number in 0..3 {
        registry.register(DeviceIndex(number), allocator(card(gib(12)), "")).unwrap();
    }
    assert!(registry.register(DeviceIndex(1), allocator(card(gib(12)), "")).is_err());
    let block = registry.get(DeviceIndex(1)).unwrap().allocate(gib(5)).unwrap();
    let stats = registry.stats();
    let allocated: Vec<_> = stats.values().map(cubeyard_memory::stats::Stats::allocated).collect();
    assert_eq!(allocated, [gib(0), gib(5), gib(0)]);
    let removed = registry.remove(DeviceIndex(1)).unwrap();
    assert!(registry.get(DeviceIndex(1)).is_none());
    drop(block);
    assert_eq!(removed.stats().allocated(), Bytes::ZERO);
}

#[test]
fn question_7_kinds_can_have_regions_of_their_own() {
    let allocator = allocator(card(gib(64)), "own_regions:[program]");
    let tensor = allocator.allocate(mib(1)).unwrap();
    let program = allocator.load_program(mib(1), 1).unwrap();
    let staging = Request { kind: Kind::Staging, ..Request::new(mib(1)) };
    let staging = allocator.allocate_for(&staging).unwrap();
    let region = |block: &Allocation| block.address().region_id;
    assert_ne!(region(program.memory()), region(&tensor));
    assert_eq!(region(&staging), region(&tensor), "only programs are apart");
    let second = allocator.load_program(mib(1), 1).unwrap();
    assert_eq!(region(second.memory()), region(program.memory()));
    assert_eq!(allocator.regions().len(), 2);
    let filling = allocator.allocate(gib(12) - mib(2)).unwrap();
    assert_eq!(region(&filling), region(&tensor));
    let third = allocator.allocate(gib(1)).unwrap();
    assert_ne!(region(&third), region(program.memory()), "rather a new region than theirs");
}

#[test]
fn question_8_refusals_are_values() {
    let allocator = allocator(card(gib(1)), "");
    let report = refused(allocator.allocate(mib(1)));
    assert_eq!((report.device_free, report.device_total), (gib(1), gib(1)));
    assert_eq!(report.shortage, Shortage::TooLarge, "no fallback size fits the card");
    assert_eq!(allocator.allocate(Bytes::ZERO).unwrap_err(), AllocateError::ZeroBytes);
}

#[test]
fn question_9_an_address_keeps_nothing_alive() {
    fn is_small_and_copied<T: Copy>() -> usize {
        size_of::<T>()
    }
    assert_eq!(is_small_and_copied::<VirtualAddress>(), 16);
    let device = card(gib(12));
    let allocator = allocator(device.clone(), "");
    let block = allocator.allocate(mib(1)).unwrap();
    let address = block.address();
    drop(block);
    allocator.trim();
    assert_eq!(device.info().free, gib(12), "though somebody knows the address");
    assert!(allocator.deallocate(address).is_err());
}

#[test]
fn question_10_an_eager_pool() {
    let device = Asked::new(gib(40));
    let allocator = allocator(device.clone(), "acquire:eager(3)");
    assert_eq!((device.sizes(), allocator.regions().len()), (vec![12, 12, 12], 3));
    let blocks: Vec<_> = (0..3).map(|_| allocator.allocate(gib(12)).unwrap()).collect();
    assert_eq!(device.sizes(), [0; 0], "nothing is acquired while there is room");
    let more = allocator.allocate(gib(1)).unwrap();
    assert_eq!(device.sizes(), [12, 8, 4], "more when they are full");
    drop((blocks, more));
    let short = Asked::new(gib(14));
    let fewer = self::allocator(short.clone(), "acquire:eager(3)");
    assert_eq!(fewer.regions().len(), 1, "as many as the device has");
}
