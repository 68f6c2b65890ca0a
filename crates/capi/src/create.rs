//! Creating and destroying allocators.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(unix)]
use cubeyard_memory::device::HostMemory;
use cubeyard_memory::device::{AddressMode, Card, CardSpec, DeviceMemory};
use cubeyard_memory::stats::{Pool, Quantity};
use cubeyard_memory::{Bytes, FlexAllocator};

use crate::argument;
use crate::call::call;
use crate::config::Config;
use crate::device::{CDevice, Device};
use crate::status::{Failure, Status};
use crate::{Front, fork};

/// The struct `cubeyard_card` of the header.
#[repr(C)]
pub(crate) struct CCard {
    mode: u32,
    table_entries: u32,
    bytes: u64,
}

impl CCard {
    fn spec(&self, config: &Config) -> Result<CardSpec, Failure> {
        let memory = Bytes::new(self.bytes);
        Ok(match config.mode_of(self.mode)? {
            AddressMode::Physical => CardSpec::physical(memory),
            AddressMode::Virtual => CardSpec::virtual_function(memory, self.table_entries as usize),
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_create_card(
    config: *const Config,
    card: *const CCard,
    allocator: *mut *mut Front,
) -> Status {
    // SAFETY: the header requires NULL or a configuration, and a writable pointer.
    unsafe {
        create(config, allocator, |config| {
            // SAFETY: the header requires a card.
            let card = argument::read(card, "card")?;
            Ok(Arc::new(Card::new(card.spec(config)?)))
        })
    }
}

#[cfg(unix)]
#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_create_host(
    config: *const Config,
    limit: u64,
    allocator: *mut *mut Front,
) -> Status {
    // SAFETY: the header requires NULL or a configuration, and a writable pointer.
    unsafe { create(config, allocator, |_| Ok(Arc::new(HostMemory::new(Bytes::new(limit))))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_create_device(
    config: *const Config,
    device: *const CDevice,
    allocator: *mut *mut Front,
) -> Status {
    // SAFETY: the header requires NULL or a configuration, and a writable pointer.
    unsafe {
        create(config, allocator, |config| {
            // SAFETY: the header requires a struct whose first field states its length.
            Ok(Arc::new(Device::new(device, config)?))
        })
    }
}

/// # Safety
/// Pointers that are neither null nor unaligned point to a configuration, and to writable memory.
unsafe fn create(
    config: *const Config,
    allocator: *mut *mut Front,
    device: impl FnOnce(&Config) -> Result<Arc<dyn DeviceMemory>, Failure>,
) -> Status {
    call(|| {
        argument::place(allocator, "allocator")?;
        let default = Config::default();
        let config = if config.is_null() {
            &default
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { argument::read(config, "config") }?
        };
        let front = build(device(config)?, config)?;
        // SAFETY: guaranteed by the caller.
        unsafe { argument::write(allocator, "allocator", Box::into_raw(Box::new(front))) }
    })
}

fn build(device: Arc<dyn DeviceMemory>, config: &Config) -> Result<Front, Failure> {
    let builder = FlexAllocator::builder(device).config(config.flex.clone()).clock(microseconds);
    let builder = match &config.events {
        Some(events) => builder.events(Arc::clone(events)),
        None => builder,
    };
    let forks = fork::watch()?;
    Ok(Front::new(builder.build()?, forks))
}

/// Returns the microseconds since 1970, as in PyTorch's histories.
#[expect(clippy::disallowed_methods, reason = "a front reads the clock for the layers below")]
pub fn microseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_destroy(allocator: *mut Front) -> Status {
    call(|| {
        if allocator.is_null() {
            return Ok(());
        }
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        refuse_use(front)?;
        refuse_live(front)?;
        // SAFETY: the header requires an allocator that is no longer in use; it was created by `Box::into_raw`.
        drop(unsafe { Box::from_raw(allocator) });
        Ok(())
    })
}

/// Refuses to destroy an allocator that is calling its device or a callback, or is in a registry.
fn refuse_use(front: &Front) -> Result<(), Failure> {
    front.refuse_reentrance()?;
    if front.allocator.is_calling_back() {
        let message = "the allocator is calling this callback for a request that is under way";
        return Err(Failure::new(Status::Reentrant, message));
    }
    let registries = front.registered.load(Ordering::Acquire);
    if registries == 0 {
        return Ok(());
    }
    let message = format!("the allocator is in {registries} registries; remove it first");
    Err(Failure::new(Status::InUse, message))
}

fn refuse_live(front: &Front) -> Result<(), Failure> {
    front.allocator.synchronize();
    let blocks = front.allocator.stats().get(Quantity::Active, Pool::All).current;
    let pins = front.pins.len() + front.exports.len();
    if blocks == 0 && pins == 0 {
        return Ok(());
    }
    let message = format!("{blocks} blocks and {pins} pins are live; free them, or abandon them");
    Err(Failure::new(Status::InUse, message))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_abandon(allocator: *mut Front) -> Status {
    call(|| {
        if allocator.is_null() {
            return Ok(());
        }
        // SAFETY: the header requires an allocator.
        refuse_use(unsafe { Front::of(allocator) }?)?;
        // SAFETY: the header requires an allocator that is no longer in use; it was created by `Box::into_raw`.
        let front = unsafe { Box::from_raw(allocator) };
        front.clear();
        // A block that waits for a stream would keep its region alive.
        front.allocator.synchronize();
        Ok(())
    })
}
