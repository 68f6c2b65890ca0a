//! Devices and streams that call the allocator while it calls them, on the same thread. Each of these cases deadlocked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, MemoryInfo, RegionHandle,
};
use cubeyard_memory::flex::{AllocateError, Allocation, EventId, FlexAllocator, StreamEvents};
use cubeyard_memory::policy::Request;

use super::{allocator, card, with_streams};

fn mib(count: u64) -> Bytes {
    Bytes::mib(count)
}

/// A device that allocates and trims whenever it is called.
struct Calling {
    card: Card,
    allocator: OnceLock<FlexAllocator>,
    kept: Mutex<Vec<Allocation>>,
    refusals: Mutex<Vec<AllocateError>>,
    trimmed: Mutex<Vec<Bytes>>,
    only_trims: AtomicBool,
}

impl Calling {
    fn new(memory: Bytes) -> Arc<Self> {
        Arc::new(Self {
            card: Card::new(CardSpec::physical(memory)),
            allocator: OnceLock::new(),
            kept: Mutex::default(),
            refusals: Mutex::default(),
            trimmed: Mutex::default(),
            only_trims: AtomicBool::new(false),
        })
    }

    fn call(&self) {
        let Some(allocator) = self.allocator.get() else { return };
        if !self.only_trims.load(Ordering::Relaxed) {
            match allocator.allocate(mib(1)) {
                Ok(block) => self.kept.lock().unwrap().push(block),
                Err(error) => self.refusals.lock().unwrap().push(error),
            }
        }
        assert!(allocator.is_calling_out());
        let trimmed = allocator.trim();
        self.trimmed.lock().unwrap().push(trimmed);
    }
}

impl DeviceMemory for Calling {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.call();
        self.card.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.call();
        self.card.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.card.info()
    }
    fn granule(&self) -> Option<Bytes> {
        self.card.granule()
    }
    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.card.try_reserve(size)
    }
    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.call();
        self.card.commit(region, offset, size)
    }
    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.card.decommit(region, offset, size);
    }
}

#[test]
fn a_device_that_allocates_in_acquire_gets_what_is_there_or_a_refusal() {
    let device = Calling::new(mib(256));
    let allocator = allocator(device.clone(), "fallback_sizes:[64MiB]");
    device.allocator.set(allocator.clone()).unwrap();
    let first = allocator.allocate(mib(40)).unwrap();
    assert_eq!(*device.refusals.lock().unwrap(), [AllocateError::Reentrant], "there was no region");
    let second = allocator.allocate(mib(40)).unwrap();
    assert_eq!(device.kept.lock().unwrap().len(), 1, "there was room in the first region");
    assert_eq!(*device.trimmed.lock().unwrap(), [Bytes::ZERO; 2], "a trim is put off");
    assert!(!allocator.is_calling_out());
    drop((first, second));
    let kept = std::mem::take(&mut *device.kept.lock().unwrap());
    drop(kept);
    allocator.trim();
    let again = std::mem::take(&mut *device.kept.lock().unwrap());
    drop(again);
}

/// A trim requested during a call to the device is performed after the call returns.
#[test]
fn a_trim_in_a_call_of_the_device_is_done_after_it() {
    let device = Calling::new(mib(256));
    let allocator = allocator(device.clone(), "fallback_sizes:[64MiB],own_regions:[program]");
    drop(allocator.allocate(mib(1)).unwrap());
    device.only_trims.store(true, Ordering::Relaxed);
    device.allocator.set(allocator.clone()).unwrap();
    let program = allocator.load_program(mib(1), 0).unwrap();
    let regions: Vec<_> = allocator.regions().iter().map(|region| region.id).collect();
    assert_eq!(regions, [program.memory().address().region_id], "the idle one has gone");
}

#[test]
fn a_device_that_allocates_in_commit_gets_what_is_there_or_a_refusal() {
    let device = Calling::new(mib(64));
    let allocator = allocator(device.clone(), "growth:growable(64MiB)");
    device.allocator.set(allocator.clone()).unwrap();
    let block = allocator.allocate(mib(5)).unwrap();
    assert_eq!(block.address().offset, Bytes::ZERO);
    assert_eq!(*device.refusals.lock().unwrap(), [AllocateError::Reentrant]);
    let kept = std::mem::take(&mut *device.kept.lock().unwrap());
    drop((block, kept));
}

/// Streams that allocate while they are waited for.
#[derive(Default)]
struct CallingStreams {
    allocator: OnceLock<FlexAllocator>,
    answers: Mutex<Vec<Result<(), AllocateError>>>,
}

impl StreamEvents for CallingStreams {
    fn record(&self, stream: u32) -> EventId {
        EventId(u64::from(stream))
    }
    fn is_complete(&self, _: EventId) -> bool {
        false
    }
    fn wait(&self, _: EventId) {
        let Some(allocator) = self.allocator.get() else { return };
        for stream in [0, 1] {
            let request = Request { stream, ..Request::new(mib(64)) };
            let answer = allocator.allocate_for(&request).map(drop);
            self.answers.lock().unwrap().push(answer);
        }
    }
}

#[test]
fn streams_that_allocate_while_they_are_waited_for_are_refused() {
    let streams = Arc::new(CallingStreams::default());
    let allocator = with_streams(card(mib(64)), "fallback_sizes:[64MiB]", streams.clone());
    streams.allocator.set(allocator.clone()).unwrap();
    let block = allocator.allocate(mib(1)).unwrap();
    let second = Request { stream: 1, ..Request::new(mib(1)) };
    let other = allocator.allocate_for(&second).unwrap();
    let reentrant = Err(AllocateError::Reentrant);
    assert_eq!(*streams.answers.lock().unwrap(), [reentrant.clone(), reentrant]);
    drop((block, other));
}

/// A callback that allocated and found no room called the callbacks again, until the stack overflowed.
#[test]
fn a_callback_that_allocates_is_not_called_for_that() {
    let allocator = allocator(card(mib(64)), "fallback_sizes:[64MiB]");
    let block = allocator.allocate(mib(64)).unwrap();
    let (inside, calls) = (allocator.clone(), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&calls);
    allocator.on_pressure(move |_| {
        *counted.lock().unwrap() += 1;
        assert!(inside.allocate(mib(1)).is_err());
        inside.trim();
    });
    assert!(allocator.allocate(mib(1)).is_err());
    assert!(allocator.allocate(mib(1)).is_err());
    assert_eq!(*calls.lock().unwrap(), 2, "once for each request of the caller's");
    drop(block);
}
