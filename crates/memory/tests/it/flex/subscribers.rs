//! The rules of subscribers and of pressure callbacks that are taken back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Action, Allocation, Event, FlexAllocator, Subscription};
use cubeyard_memory::policy::Request;

use super::{ManualStreams, allocator, card, with_streams};

fn small(config: &str) -> FlexAllocator {
    allocator(card(Bytes::mib(16)), &format!("fallback_sizes:[16MiB;8MiB],{config}"))
}

/// Collects the events of an allocator.
fn collect(allocator: &FlexAllocator) -> (Arc<Mutex<Vec<Event>>>, Subscription) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&events);
    let subscription = allocator.subscribe(move |event| inside.lock().unwrap().push(*event));
    (events, subscription)
}

fn names(events: &Mutex<Vec<Event>>) -> Vec<&'static str> {
    events.lock().unwrap().iter().map(|event| event.action.name()).collect()
}

#[test]
fn an_event_has_the_figures_of_its_block() {
    let allocator = small("");
    let (events, subscription) = collect(&allocator);
    let request = Request { stream: 3, site: 7, ..Request::new(Bytes::new(1000)) };
    let block = allocator.allocate_for(&request).unwrap();
    let event = events.lock().unwrap()[1];
    assert_eq!((event.action, event.address), (Action::Alloc, Some(block.address())));
    assert_eq!((event.size, event.requested), (Bytes::new(1024), Bytes::new(1000)));
    assert_eq!((event.stream, event.site, event.number, event.time_us), (3, 7, 1, 1));
    drop(block);
    let sites: Vec<_> = events.lock().unwrap()[1..].iter().map(|event| event.site).collect();
    assert_eq!(sites, [7, 7, 7]);
    drop(subscription);
    drop(allocator.allocate(Bytes::new(1)));
    assert_eq!(events.lock().unwrap().len(), 4, "it was taken back");
}

#[test]
fn a_subscriber_may_use_the_allocator() {
    let allocator = small("");
    let (events, _first) = collect(&allocator);
    let (owner, kept) = (allocator.clone(), Mutex::new(Vec::<Allocation>::new()));
    let inside = Arc::clone(&events);
    let second = allocator.subscribe(move |event| {
        assert_eq!(owner.stats().allocated() > Bytes::ZERO, event.action != Action::FreeCompleted);
        if event.action == Action::Alloc && event.requested == Bytes::new(1) {
            kept.lock().unwrap().push(owner.allocate(Bytes::new(2)).unwrap());
            assert_eq!(names(&inside).last(), Some(&"alloc"), "its own event comes later");
        }
    });
    let block = allocator.allocate(Bytes::new(1)).unwrap();
    let sizes: Vec<_> = events.lock().unwrap().iter().map(|event| event.requested.get()).collect();
    assert_eq!(sizes, [16 << 20, 1, 2], "delivered when the call returns");
    assert!(second.is_active());
    drop((second, block));
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO, "the subscriber and its block are gone");
}

#[test]
fn a_subscriber_that_panics_is_not_called_again() {
    let allocator = small("");
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let first = allocator.subscribe(move |event| {
        counted.fetch_add(1, Ordering::Relaxed);
        assert_eq!(event.action, Action::SegmentAlloc, "the test wants this panic");
    });
    let (events, second) = collect(&allocator);
    let block = allocator.allocate(Bytes::new(1000)).unwrap();
    drop(block);
    assert_eq!((calls.load(Ordering::Relaxed), first.is_active()), (2, false));
    assert_eq!(names(&events), ["segment_alloc", "alloc", "free_requested", "free_completed"]);
    assert!(second.is_active());
    assert_eq!(allocator.stats().allocated(), Bytes::ZERO);
}

#[test]
fn a_subscriber_may_take_itself_back() {
    let allocator = small("");
    let own: Arc<OnceLock<Mutex<Option<Subscription>>>> = Arc::default();
    let (inside, calls) = (Arc::clone(&own), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    let subscription = allocator.subscribe(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        drop(inside.get().unwrap().lock().unwrap().take());
    });
    own.set(Mutex::new(Some(subscription))).unwrap();
    drop(allocator.allocate(Bytes::new(1)));
    assert_eq!(calls.load(Ordering::Relaxed), 1, "the other events of the call are not for it");
    assert_eq!(Arc::strong_count(&calls), 1, "it was dropped");
}

#[test]
fn taking_a_subscriber_back_waits_for_its_call() {
    let allocator = small("");
    let (entered, wait) = mpsc::channel();
    let running = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&running);
    let subscription = allocator.subscribe(move |_| {
        inside.store(true, Ordering::SeqCst);
        let _ = entered.send(());
        thread::sleep(Duration::from_millis(20));
        inside.store(false, Ordering::SeqCst);
    });
    thread::scope(|scope| {
        scope.spawn(|| drop(allocator.allocate(Bytes::new(1))));
        wait.recv().unwrap();
        drop(subscription);
        assert!(!running.load(Ordering::SeqCst));
        assert_eq!(Arc::strong_count(&running), 1, "it was dropped");
    });
}

#[test]
fn a_move_names_both_places() {
    let allocator = small("");
    let hole = allocator.allocate(Bytes::new(1024)).unwrap();
    let block = allocator.allocate(Bytes::new(512)).unwrap();
    drop(hole);
    let (events, _subscription) = collect(&allocator);
    let before = block.address();
    drop(allocator.compact());
    assert_eq!(allocator.compact().commit(), 1);
    let abandoned = ["room_reserved", "room_released", "free_completed"];
    let moved = ["room_reserved", "move", "free_completed"];
    assert_eq!(names(&events), [abandoned, moved].concat());
    let event = events.lock().unwrap()[4];
    assert_eq!((event.address, event.target), (Some(before), Some(block.address())));
    assert_eq!(event.flat, event.target_flat + 1024);
}

#[test]
fn waits_and_failed_requests_are_events() {
    let streams = Arc::new(ManualStreams::default());
    let allocator = with_streams(card(Bytes::mib(16)), "fallback_sizes:[16MiB]", streams);
    let (events, _subscription) = collect(&allocator);
    let on = |stream| Request { stream, ..Request::new(Bytes::mib(9)) };
    let (first, second) = (allocator.allocate_for(&on(0)), allocator.allocate_for(&on(1)));
    assert!(first.is_ok() && second.is_err());
    drop(first);
    drop(allocator.allocate_for(&on(1)).unwrap());
    let names = names(&events);
    assert!(names.contains(&"stream_wait"), "{names:?}");
    let failed = events.lock().unwrap().iter().find(|e| e.action == Action::OutOfMemory).copied();
    let failed = failed.expect("a request failed");
    assert_eq!((failed.requested, failed.stream), (Bytes::mib(9), 1));
    assert_eq!((failed.device_free, failed.address), (Bytes::ZERO, None));
}

#[test]
fn a_subscriber_from_the_start_sees_every_region() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let inside = Arc::clone(&events);
    let config = "fallback_sizes:[4MiB],acquire:eager(2)".parse().unwrap();
    let builder = FlexAllocator::builder(card(Bytes::mib(16))).config(config);
    let allocator =
        builder.subscriber(move |event| inside.lock().unwrap().push(*event)).build().unwrap();
    let block = allocator.allocate(Bytes::new(1)).unwrap();
    drop(allocator);
    drop(block);
    let names = names(&events);
    assert_eq!(names[..3], ["segment_alloc", "segment_alloc", "alloc"]);
    assert_eq!(names.iter().filter(|&&name| name == "segment_free").count(), 2, "{names:?}");
    assert_eq!(Arc::strong_count(&events), 1, "nothing keeps the subscriber");
}

#[test]
fn a_removed_pressure_callback_is_not_called() {
    let allocator = small("");
    let calls = Arc::new(AtomicU64::new(0));
    let callbacks = [1, 100].map(|step| {
        let calls = Arc::clone(&calls);
        allocator.on_pressure(move |_| {
            calls.fetch_add(step, Ordering::Relaxed);
        })
    });
    assert!(allocator.allocate(Bytes::mib(17)).is_err());
    let [first, _second] = callbacks;
    assert!(first.remove());
    assert!(allocator.allocate(Bytes::mib(17)).is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 201);
    assert_eq!(Arc::strong_count(&calls), 2, "the first was dropped");
}

#[test]
fn removing_a_pressure_callback_waits_for_its_call() {
    let allocator = small("");
    let (entered, wait) = mpsc::channel();
    let running = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&running);
    let callback = allocator.on_pressure(move |_| {
        inside.store(true, Ordering::SeqCst);
        let _ = entered.send(());
        thread::sleep(Duration::from_millis(20));
        inside.store(false, Ordering::SeqCst);
    });
    thread::scope(|scope| {
        scope.spawn(|| drop(allocator.allocate(Bytes::mib(17))));
        wait.recv().unwrap();
        assert!(callback.remove());
        assert!(!running.load(Ordering::SeqCst));
    });
}
