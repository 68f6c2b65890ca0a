//! Registries of several devices, each with an allocator.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::call;
use crate::status::{Failure, Status};
use crate::{Front, argument, fork};

/// Target of a `cubeyard_registry *`.
pub(crate) struct CRegistry {
    /// Fork count when the registry was created.
    forks: u64,
    allocators: Mutex<BTreeMap<u32, Registered>>,
}

/// An allocator in a registry; it is not destroyed as long as it is registered.
struct Registered(*const Front);

// SAFETY: according to the header, allocators may be used on any thread.
unsafe impl Send for Registered {}

impl Registered {
    fn new(allocator: *mut Front, front: &Front) -> Self {
        front.registered.fetch_add(1, Ordering::AcqRel);
        Self(allocator)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: an allocator is not destroyed before this count is zero, and this registration is part of the count.
        unsafe { &*self.0 }.registered.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CRegistry {
    fn allocators(&self) -> MutexGuard<'_, BTreeMap<u32, Registered>> {
        self.allocators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// If the pointer is neither null nor unaligned, it points to a registry that stays valid as long as the reference
    /// is used.
    unsafe fn of<'a>(registry: *const Self) -> Result<&'a Self, Failure> {
        // SAFETY: the caller guarantees the same.
        let registry = unsafe { argument::read(registry, "registry") }?;
        fork::check(registry.forks, "the registry")?;
        Ok(registry)
    }
}

fn unknown(device: u32) -> Failure {
    Failure::new(Status::UnknownKey, format!("device {device} is not in the registry"))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_new(registry: *mut *mut CRegistry) -> Status {
    call(|| {
        argument::place(registry, "registry")?;
        let made = CRegistry { forks: fork::watch()?, allocators: Mutex::default() };
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(registry, "registry", Box::into_raw(Box::new(made))) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_free(registry: *mut CRegistry) -> Status {
    call(|| {
        if registry.is_null() {
            return Ok(());
        }
        // SAFETY: the header requires a registry.
        unsafe { CRegistry::of(registry) }?;
        // SAFETY: the header requires a registry that is no longer in use; it was created by `Box::into_raw`.
        drop(unsafe { Box::from_raw(registry) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_add(
    registry: *const CRegistry,
    device: u32,
    allocator: *mut Front,
) -> Status {
    call(|| {
        // SAFETY: the header requires a registry and an allocator.
        let (registry, front) = unsafe { (CRegistry::of(registry)?, Front::of(allocator)?) };
        let mut allocators = registry.allocators();
        if allocators.contains_key(&device) {
            let message = format!("device {device} already has an allocator");
            return Err(Failure::new(Status::InUse, message));
        }
        allocators.insert(device, Registered::new(allocator, front));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_get(
    registry: *const CRegistry,
    device: u32,
    allocator: *mut *mut Front,
) -> Status {
    call(|| {
        // SAFETY: the header requires a registry.
        let registry = unsafe { CRegistry::of(registry) }?;
        let found = registry.allocators().get(&device).map(|registered| registered.0);
        let found = found.ok_or_else(|| unknown(device))?.cast_mut();
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(allocator, "allocator", found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_remove(registry: *const CRegistry, device: u32) -> Status {
    call(|| {
        // SAFETY: the header requires a registry.
        let registry = unsafe { CRegistry::of(registry) }?;
        let removed = registry.allocators().remove(&device);
        removed.map(drop).ok_or_else(|| unknown(device))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_registry_devices(
    registry: *const CRegistry,
    devices: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the header requires a registry.
        let registry = unsafe { CRegistry::of(registry) }?;
        let found: Vec<_> = registry.allocators().keys().copied().collect();
        // SAFETY: the header requires room for `capacity` numbers, and NULL or a writable count.
        unsafe { argument::write_list((devices, capacity), count, &found, "devices") }
    })
}
