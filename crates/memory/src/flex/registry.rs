//! Registry of the allocators of several devices.

use std::collections::BTreeMap;
use std::fmt;

use super::FlexAllocator;
use crate::stats::Stats;
use crate::sync::{Arc, Mutex, lock};

/// Number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceIndex(pub u32);

impl fmt::Display for DeviceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

/// A device with this number is already registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} already has an allocator")]
pub struct AlreadyRegistered(pub DeviceIndex);

/// The allocators of several devices, which share nothing.
///
/// ```
/// # use std::sync::Arc;
/// # use cubeyard_memory::{Bytes, device::{Card, CardSpec}, flex::{DeviceIndex, FlexAllocator, Registry}};
/// let registry = Registry::default();
/// for number in 0..2 {
///     let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
///     registry.register(DeviceIndex(number), FlexAllocator::new(card)).unwrap();
/// }
/// let block = registry.get(DeviceIndex(1)).unwrap().allocate(Bytes::mib(1)).unwrap();
/// assert_eq!(registry.stats()[&DeviceIndex(1)].allocated(), Bytes::mib(1));
/// assert_eq!(registry.stats()[&DeviceIndex(0)].allocated(), Bytes::ZERO);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    allocators: Arc<Mutex<BTreeMap<DeviceIndex, FlexAllocator>>>,
}

impl Registry {
    /// Adds the allocator of a device.
    pub fn register(
        &self,
        device: DeviceIndex,
        allocator: FlexAllocator,
    ) -> Result<(), AlreadyRegistered> {
        let mut allocators = lock(&self.allocators);
        if allocators.contains_key(&device) {
            return Err(AlreadyRegistered(device));
        }
        allocators.insert(device, allocator);
        Ok(())
    }

    /// Returns the allocator of a device.
    pub fn get(&self, device: DeviceIndex) -> Option<FlexAllocator> {
        lock(&self.allocators).get(&device).cloned()
    }

    /// Removes a device. Its blocks stay valid until they are dropped.
    pub fn remove(&self, device: DeviceIndex) -> Option<FlexAllocator> {
        lock(&self.allocators).remove(&device)
    }

    /// Returns the statistics of every device.
    pub fn stats(&self) -> BTreeMap<DeviceIndex, Stats> {
        let allocators = lock(&self.allocators).clone();
        allocators.into_iter().map(|(device, allocator)| (device, allocator.stats())).collect()
    }
}
