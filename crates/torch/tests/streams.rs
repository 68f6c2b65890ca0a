//! Simulated time: streams are busy, and the host's clock advances when the host waits.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::StreamEvents;
use cubeyard_memory::policy::Request;
use cubeyard_memory::{Bytes, FlexAllocator};
use cubeyard_torch::streams::{self, Streams};

/// A single test, because the clock belongs to the process.
#[test]
fn streams_work_in_order_and_the_host_waits_for_them() {
    let device = Arc::new(Streams::default());
    let side = device.create().unwrap();
    assert_eq!((side, streams::now()), (1, 0));
    assert_eq!(device.work(0, 0, 1000), 1000);
    assert_eq!(device.work(0, 0, 500), 1500);
    assert_eq!((device.end(0), device.end(side), device.idle()), (1500, 0, 1500));

    let event = device.record(0);
    assert!(!device.is_complete(event));
    device.hold(side, event.0);
    assert_eq!(device.work(side, 0, 10), 1510);
    assert_eq!(device.work(side, 5000, 10), 5010);
    streams::wait(1400);
    assert!(!device.is_complete(event));
    device.wait(event);
    assert!(device.is_complete(event));
    streams::wait(10);
    assert_eq!(streams::now(), 1500);
    // Work on an idle stream begins when the host submits it.
    assert_eq!(device.work(0, 0, 1), 1501);

    // A block that a busy stream uses is free when the host has seen the stream pass.
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::mib(64))));
    let config = "fallback_sizes:[64MiB]".parse().unwrap();
    let events: Arc<dyn StreamEvents> = Arc::clone(&device) as _;
    let allocator = FlexAllocator::builder(card).config(config).events(events).build().unwrap();
    let block = allocator.allocate_for(&Request::new(Bytes::mib(40))).unwrap();
    let end = device.work(side, 0, 1_000_000);
    block.record_stream(side);
    drop(block);
    assert_eq!(allocator.stats().key("active_bytes.all.current"), Some(40 << 20));
    assert_eq!(allocator.stats().key("allocated_bytes.all.current"), Some(0));
    let again = allocator.allocate(Bytes::mib(40)).unwrap();
    assert!(streams::now() >= end, "the allocator waited for the stream");
    drop(again);
}
