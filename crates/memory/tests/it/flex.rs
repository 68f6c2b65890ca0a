//! The Flex family as a whole: devices, streams and configurations for its tests.

mod advice;
mod budgets;
mod faults;
mod handles;
mod histories;
mod lagging;
mod ledger;
mod limits;
mod model;
mod moving;
mod order;
mod pool_histories;
mod pools;
mod properties;
mod reentrant;
mod refusals;
mod regressions;
mod resting;
mod segments;
mod sizes;
mod streams;
mod strict;
mod subscribers;
mod threads;
mod watch;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{EventId, FlexAllocator, FlexConfig, StreamEvents};

pub(crate) use strict::Strict;

/// Returns a physical card with `memory` bytes.
pub(crate) fn card(memory: Bytes) -> Arc<Card> {
    Arc::new(Card::new(CardSpec::physical(memory)))
}

/// Returns an allocator over a device, configured by a text.
pub(crate) fn allocator(device: Arc<dyn DeviceMemory>, config: &str) -> FlexAllocator {
    let config: FlexConfig = config.parse().expect("the test's configuration is right");
    FlexAllocator::builder(device).config(config).build().expect("the device can do that")
}

/// Returns an allocator with streams.
pub(crate) fn with_streams(
    device: Arc<dyn DeviceMemory>,
    config: &str,
    events: Arc<dyn StreamEvents>,
) -> FlexAllocator {
    let config: FlexConfig = config.parse().expect("the test's configuration is right");
    let builder = FlexAllocator::builder(device).config(config).events(events);
    builder.build().expect("the device can do that")
}

/// Streams that advance when the test says so, or when a thread waits for them.
#[derive(Debug, Default)]
pub(crate) struct ManualStreams {
    state: Mutex<StreamState>,
    moved: Condvar,
    waits: AtomicU64,
}

#[derive(Debug, Default)]
struct StreamState {
    /// Stream of every event, by event number.
    recorded: Vec<u32>,
    /// Number of events that each stream has passed.
    passed: BTreeMap<u32, u64>,
}

impl ManualStreams {
    /// Makes a stream pass everything recorded so far.
    pub(crate) fn finish(&self, stream: u32) {
        let mut state = self.state.lock().unwrap();
        let end = state.recorded.len() as u64;
        state.passed.insert(stream, end);
        self.moved.notify_all();
    }

    /// Returns the streams of the events recorded so far, in order.
    pub(crate) fn recorded(&self) -> Vec<u32> {
        self.state.lock().unwrap().recorded.clone()
    }

    /// Returns the number of waits.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

impl StreamEvents for ManualStreams {
    fn record(&self, stream: u32) -> EventId {
        let mut state = self.state.lock().unwrap();
        state.recorded.push(stream);
        EventId(state.recorded.len() as u64 - 1)
    }

    fn is_complete(&self, event: EventId) -> bool {
        let state = self.state.lock().unwrap();
        let stream = state.recorded[event.0 as usize];
        state.passed.get(&stream).is_some_and(|&end| event.0 < end)
    }

    /// Waiting makes the stream advance, since the test has one thread.
    fn wait(&self, event: EventId) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let stream = self.state.lock().unwrap().recorded[event.0 as usize];
        self.finish(stream);
    }
}
