//! Builder of a configured allocator.

use super::acquire::Acquired;
use super::config::{Acquire, FlexConfig, Growth, MAX_REGIONS, MIN_ALIGNMENT};
use super::event::Event;
use super::journal::{Clock, Watch};
use super::slots::{Shared, Slots};
use super::{FlexAllocator, StreamEvents};
use crate::Bytes;
use crate::device::DeviceMemory;
use crate::sync::Arc;

/// Builds a [`FlexAllocator`]; see [`FlexAllocator::builder`].
#[must_use = "a builder makes nothing until `build` is called"]
pub struct Builder {
    device: Arc<dyn DeviceMemory>,
    config: FlexConfig,
    events: Option<Arc<dyn StreamEvents>>,
    clock: Option<Clock>,
    subscribers: Vec<Watch>,
}

/// An invalid configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Growable regions need a device that can commit memory in granules. Use `growth:fixed`.
    #[error("`growth` asks for growable regions, but the device cannot commit memory in granules")]
    NotGrowable,
    /// `max_regions` is outside 1 to [`MAX_REGIONS`]. Correct it.
    #[error("`max_regions` is {0}, but must be from 1 to {MAX_REGIONS}")]
    MaxRegions(usize),
    /// `alignment` is not a power of two, or less than the device requires. Correct it.
    #[error(
        "`alignment` is {}, but must be a power of two and at least {}", .0.get(), MIN_ALIGNMENT.get()
    )]
    Alignment(Bytes),
    /// `fallback_sizes` is empty or contains zero. Correct it.
    #[error("`fallback_sizes` must have at least one size, and no size may be zero")]
    NoSize,
    /// The alignment does not divide the device's granule. Use a smaller alignment.
    #[error("`alignment` {alignment} does not divide the device's granule {granule}")]
    AlignmentAboveGranule {
        /// Alignment of the allocator.
        alignment: Bytes,
        /// Granule of the device.
        granule: Bytes,
    },
}

impl Builder {
    pub(super) fn new(device: Arc<dyn DeviceMemory>) -> Self {
        let (config, subscribers) = (FlexConfig::default(), Vec::new());
        Self { device, config, events: None, clock: None, subscribers }
    }

    /// Sets the configuration.
    pub fn config(mut self, config: FlexConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the streams of the device; without any, all frees are immediate.
    pub fn events(mut self, events: Arc<dyn StreamEvents>) -> Self {
        self.events = Some(events);
        self
    }

    /// Sets the clock of the events, in microseconds; without a clock, events are numbered.
    pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Adds a subscriber that stays as long as the allocator, and that receives the events of eager regions as well;
    /// see [`FlexAllocator::subscribe`].
    pub fn subscriber(mut self, function: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.subscribers.push(Box::new(function));
        self
    }

    /// Builds the allocator and acquires the eager regions, or as many of them as the device can provide.
    pub fn build(self) -> Result<FlexAllocator, BuildError> {
        let Self { device, config, events, clock, subscribers } = self;
        check(&config, device.granule())?;
        let acquire = config.acquire;
        let shared = Arc::new(Shared::new(config, device, events, clock));
        for function in subscribers {
            shared.journal.subscribe(function);
        }
        let slots = Slots::new(&shared);
        let allocator = FlexAllocator { shared, slots };
        if let Acquire::Eager(count) = acquire {
            let turn = allocator.shared.take_turn();
            let acquired = |_: &usize| allocator.acquire(turn.as_ref(), None, None, None);
            (0..count).take_while(|n| matches!(acquired(n), Acquired::Region)).for_each(drop);
        }
        allocator.shared.deliver();
        Ok(allocator)
    }
}

/// Checks the values of a configuration that was built in code; the text form is checked when it is parsed.
fn check(config: &FlexConfig, granule: Option<Bytes>) -> Result<(), BuildError> {
    let alignment = config.alignment;
    if !(1..=MAX_REGIONS).contains(&config.max_regions) {
        return Err(BuildError::MaxRegions(config.max_regions));
    }
    if !alignment.get().is_power_of_two() || alignment < MIN_ALIGNMENT {
        return Err(BuildError::Alignment(alignment));
    }
    let none = config.fallback_sizes.is_empty();
    if none || config.fallback_sizes.iter().any(|size| size.is_zero()) {
        return Err(BuildError::NoSize);
    }
    if config.growth == Growth::Fixed {
        return Ok(());
    }
    match granule {
        None => Err(BuildError::NotGrowable),
        Some(granule) if alignment > granule => {
            Err(BuildError::AlignmentAboveGranule { alignment, granule })
        }
        Some(_) => Ok(()),
    }
}
