//! Tags and their budgets.

use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{
    Action, AllocateError, Allocation, Budget, BudgetExceeded, FlexAllocator, TagError, TagId,
};
use cubeyard_memory::policy::Request;

use super::{allocator, card};

const SMALL: &str = "fallback_sizes:[64MiB],block:best-fit";

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

fn tagged(tag: TagId, size: Bytes) -> Request {
    Request { tag, ..Request::new(size) }
}

fn hard(limit: Bytes) -> Budget {
    Budget { hard: Some(limit), ..Budget::default() }
}

fn soft(limit: Bytes) -> Budget {
    Budget { soft: Some(limit), ..Budget::default() }
}

fn refusal(outcome: Result<Allocation, AllocateError>) -> BudgetExceeded {
    match outcome {
        Err(AllocateError::Budget(exceeded)) => *exceeded,
        other => panic!("{other:?}"),
    }
}

fn built() -> (FlexAllocator, TagId) {
    let allocator = allocator(card(mib(64)), SMALL);
    let tag = allocator.tag("cache").unwrap();
    (allocator, tag)
}

#[test]
fn a_name_has_one_number() {
    let (allocator, tag) = built();
    assert_eq!(allocator.tag("cache"), Ok(tag));
    assert_ne!(allocator.tag("weights"), Ok(tag));
    assert_eq!(
        allocator.set_budget(TagId::NONE, hard(mib(1))),
        Err(TagError::Unknown(TagId::NONE))
    );
}

#[test]
fn the_bytes_of_a_tag_are_counted_until_the_owner_frees_them() {
    let (allocator, tag) = built();
    let first = allocator.allocate_for(&tagged(tag, Bytes::new(1000))).unwrap();
    let second = allocator.allocate_for(&tagged(tag, mib(1))).unwrap();
    let untagged = allocator.allocate(mib(1)).unwrap();
    let pin = second.pin();
    drop(second);
    let report = allocator.tag_report(tag).unwrap();
    assert_eq!((report.blocks, report.allocated), (2, Bytes::new(1024) + mib(1)), "pinned");
    drop((pin, first, untagged));
    let report = allocator.tag_report(tag).unwrap();
    assert_eq!(
        (report.blocks, report.allocated, report.peak),
        (0, Bytes::ZERO, Bytes::new(1024) + mib(1))
    );
    allocator.reset_peak_stats();
    assert_eq!(allocator.tags()[0].peak, Bytes::ZERO);
}

#[test]
fn a_hard_budget_refuses_the_first_byte_above_it_and_nothing_changes() {
    let (allocator, tag) = built();
    allocator.set_budget(tag, hard(mib(2))).unwrap();
    let block = allocator.allocate_for(&tagged(tag, mib(1))).unwrap();
    let (stats, tags) = (allocator.stats(), allocator.tags());
    let exceeded = refusal(allocator.allocate_for(&tagged(tag, mib(1) + Bytes::new(1))));
    assert_eq!((stats, tags), (allocator.stats(), allocator.tags()));
    assert_eq!((exceeded.needed(), exceeded.excess()), (mib(2) + Bytes::new(128), Bytes::new(128)));
    assert!(
        exceeded.to_string().starts_with("tag `cache` is over its hard budget of 2.00 MiB"),
        "{exceeded}"
    );
    let _exact = allocator.allocate_for(&tagged(tag, mib(1))).unwrap();
    drop(block);
}

#[test]
fn callbacks_may_free_blocks_of_the_tag_before_it_is_refused() {
    let (allocator, tag) = built();
    allocator.set_budget(tag, hard(mib(2))).unwrap();
    let cache = Arc::new(Mutex::new(vec![allocator.allocate_for(&tagged(tag, mib(2))).unwrap()]));
    let (held, reports) = (cache.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = reports.clone();
    allocator.on_pressure(move |report| {
        seen.lock().unwrap().push(report.budget.clone().unwrap());
        held.lock().unwrap().clear();
    });
    let block = allocator.allocate_for(&tagged(tag, mib(1))).expect("the callback made room");
    assert!(allocator.allocate_for(&tagged(tag, mib(2))).is_err(), "nothing is left to free");
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 2, "once for each refused request");
    assert_eq!((reports[0].allocated, reports[0].is_hard), (mib(2), true));
    drop(block);
}

#[test]
fn a_soft_budget_notifies_once_for_each_crossing() {
    let (allocator, tag) = built();
    let (events, calls) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let seen = events.clone();
    let _subscription = allocator.subscribe(move |event| {
        *seen.lock().unwrap() += u32::from(event.action == Action::BudgetExceeded);
    });
    let called = calls.clone();
    allocator.on_pressure(move |report| {
        let budget = report.budget.as_ref().unwrap();
        assert!(!budget.is_hard && budget.needed() > budget.budget);
        *called.lock().unwrap() += 1;
    });
    let count = || (*events.lock().unwrap(), *calls.lock().unwrap());
    allocator.set_budget(tag, soft(mib(2))).unwrap();
    let allocate = || allocator.allocate_for(&tagged(tag, mib(1))).unwrap();
    let mut blocks = vec![allocate(), allocate()];
    assert_eq!(count(), (0, 0), "at the budget");
    blocks.push(allocate());
    assert_eq!(count(), (1, 1), "above it");
    blocks.push(allocate());
    blocks.pop();
    assert_eq!(count(), (1, 1), "still above");
    blocks.pop();
    blocks.push(allocate());
    assert_eq!(count(), (2, 2), "above it again");
    allocator.set_budget(tag, soft(mib(1))).unwrap();
    blocks.push(allocate());
    assert_eq!(count(), (2, 2), "it was set below the present bytes");
}

#[test]
fn a_request_that_finds_no_room_is_not_charged() {
    let (allocator, tag) = built();
    allocator.set_budget(tag, hard(mib(100))).unwrap();
    assert!(matches!(
        allocator.allocate_for(&tagged(tag, mib(65))),
        Err(AllocateError::OutOfMemory(_))
    ));
    assert!(matches!(
        allocator.allocate_for(&tagged(tag, Bytes::MAX)),
        Err(AllocateError::Budget(_))
    ));
    allocator.set_budget(tag, Budget::default()).unwrap();
    assert!(matches!(
        allocator.allocate_for(&tagged(tag, Bytes::MAX)),
        Err(AllocateError::OutOfMemory(_))
    ));
    allocator.set_budget(tag, hard(mib(64))).unwrap();
    allocator.allocate_for(&tagged(tag, mib(64))).expect("nothing is charged");
}

/// A thread passes on the blocks that it frees in another thread's region later; a budget does not wait for that.
#[test]
fn blocks_in_mailboxes_do_not_count_for_a_budget() {
    let config = "fallback_sizes:[8MiB],region:thread-home";
    let allocator = allocator(card(mib(64)), config);
    let tag = allocator.tag("cache").unwrap();
    allocator.set_budget(tag, hard(mib(2))).unwrap();
    let block = allocator.allocate_for(&tagged(tag, mib(2))).unwrap();
    std::thread::scope(|scope| scope.spawn(move || drop(block)).join().unwrap());
    allocator.allocate_for(&tagged(tag, mib(2))).expect("its owner has freed the first block");
}

#[test]
fn a_moved_block_keeps_its_tag() {
    let (allocator, tag) = built();
    let low = allocator.allocate(mib(1)).unwrap();
    let high = allocator.allocate_for(&tagged(tag, mib(1))).unwrap();
    drop(low);
    assert_eq!(allocator.compact().commit(), 1);
    assert_eq!(high.tag(), tag);
    assert_eq!(allocator.tag_report(tag).unwrap().allocated, mib(1));
    drop(high);
    assert_eq!(allocator.tag_report(tag).unwrap().allocated, Bytes::ZERO);
}
