//! The devices of this process.

use std::sync::{Arc, OnceLock};

use cubeyard_capi::{Failure, Front, Status};
use cubeyard_device::topology::Summary;
use cubeyard_memory::device::AddressMode;
use cubeyard_memory::flex::StreamEvents;
use cubeyard_memory::{Bytes, FlexAllocator, FlexConfig};

use crate::memory::SipMemory;
use crate::placements::Placements;
use crate::settings::{self, Settings};
use crate::space::Space;
use crate::streams::{self, Streams};

/// Region sizes that are tried after the RFC's, so that the remaining memory of a small device can be used.
const SMALL: [Bytes; 2] = [Bytes::gib(1), Bytes::mib(256)];

/// Returns the region sizes for a device: the whole device if it is smaller than the RFC's largest size, then the RFC's
/// sizes, then the small ones.
fn fallback_sizes(capacity: Bytes) -> Vec<Bytes> {
    let published = FlexConfig::default().fallback_sizes;
    let whole = Some(capacity).filter(|whole| Some(whole) < published.iter().max());
    whole.into_iter().chain(published).chain(SMALL).collect()
}

/// The devices of a process, created on first use.
#[derive(Debug)]
pub struct Devices {
    /// Settings from the environment.
    pub settings: Settings,
    /// Counts and bandwidths of the machine.
    pub summary: Summary,
    space: OnceLock<Result<Reserved, String>>,
    config: FlexConfig,
    mode: AddressMode,
    made: Vec<OnceLock<Result<Device, String>>>,
}

/// Reserved address range, and the fork count when it was reserved.
#[derive(Debug)]
struct Reserved {
    space: Arc<Space>,
    forks: u64,
}

/// A device: a SIP of the machine.
#[derive(Debug)]
pub struct Device {
    /// Memory behind the device's regions.
    pub memory: Arc<SipMemory>,
    /// Streams in simulated time.
    pub streams: Arc<Streams>,
    /// Allocator of the device's blocks.
    pub allocator: FlexAllocator,
    pub(crate) placements: Placements,
    front: Pointer,
}

/// Pointer to the allocator for C.
#[derive(Debug)]
struct Pointer(*mut Front);

// SAFETY: functions of the header may be called for it on any thread.
unsafe impl Send for Pointer {}
// SAFETY: likewise, also on several threads at the same time.
unsafe impl Sync for Pointer {}

impl Device {
    /// Returns the allocator for functions of the C header.
    pub fn front(&self) -> *mut Front {
        self.front.0
    }
}

impl Devices {
    /// Returns the number of devices.
    pub fn count(&self) -> u32 {
        self.summary.sips
    }

    /// Returns the addresses of the devices' memory, which are reserved on the first call. A forked child does not
    /// inherit its parent's addresses.
    pub fn space(&self) -> Result<&Arc<Space>, Failure> {
        let reserved =
            self.space.get_or_init(|| reserve(self.count()).map_err(|failure| failure.to_string()));
        let reserved =
            reserved.as_ref().map_err(|problem| Failure::new(Status::Io, problem.clone()))?;
        cubeyard_capi::check_forks(reserved.forks, "the memory of the devices")?;
        Ok(&reserved.space)
    }

    /// Returns a device, which is created on the first call.
    pub fn device(&self, number: u32) -> Result<&Device, Failure> {
        let place = usize::try_from(number).ok().and_then(|number| self.made.get(number));
        let none = || {
            let message = format!(
                "device {number}: expected a number below {}, the number of devices",
                self.count()
            );
            Failure::new(Status::UnknownKey, message)
        };
        let place = place.ok_or_else(none)?;
        self.space()?;
        let made = place.get_or_init(|| self.make(number).map_err(|failure| failure.to_string()));
        made.as_ref().map_err(|problem| Failure::new(Status::Config, problem.clone()))
    }

    /// Returns the device if it was created before.
    pub fn made(&self, number: u32) -> Option<&Device> {
        let place = usize::try_from(number).ok().and_then(|number| self.made.get(number))?;
        place.get()?.as_ref().ok()
    }

    fn make(&self, number: u32) -> Result<Device, Failure> {
        let Settings { capacity, bound, .. } = &self.settings;
        let space = Arc::clone(self.space()?);
        let memory = SipMemory::new(space, number, self.mode, *capacity, bound.clone());
        let (memory, streams) = (Arc::new(memory), Arc::new(Streams::default()));
        let events: Arc<dyn StreamEvents> = Arc::clone(&streams) as _;
        let allocator = FlexAllocator::builder(Arc::clone(&memory) as _)
            .config(self.config.clone())
            .clock(cubeyard_capi::microseconds)
            .events(events)
            .build()?;
        let front = Pointer(Front::hand_out(allocator.clone())?);
        let placements = Placements::default();
        Ok(Device { memory, streams, allocator, placements, front })
    }
}

/// Returns the devices of this process, which are created on the first call.
pub fn devices() -> Result<&'static Devices, Failure> {
    static DEVICES: OnceLock<Result<Devices, String>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| make().map_err(|failure| failure.to_string()));
    devices.as_ref().map_err(|problem| Failure::new(Status::Config, problem.clone()))
}

fn make() -> Result<Devices, Failure> {
    let settings =
        settings::read().map_err(|error| Failure::new(Status::Config, error.to_string()))?;
    let mut config = FlexConfig::default();
    config.fallback_sizes = fallback_sizes(settings.capacity);
    let (config, mode) = cubeyard_capi::read_environment(config)?;
    let summary = settings.topology.summary();
    let places = (0..summary.sips).map(|_| OnceLock::new()).collect();
    Ok(Devices { settings, summary, space: OnceLock::new(), config, mode, made: places })
}

fn reserve(devices: u32) -> Result<Reserved, Failure> {
    let cannot = |error| {
        Failure::new(
            Status::Io,
            format!("addresses for {devices} devices cannot be mapped: {error}"),
        )
    };
    let space = Arc::new(Space::reserve(devices).map_err(cannot)?);
    Ok(Reserved { space, forks: cubeyard_capi::watch_forks()? })
}

/// Returns a device, which is created on the first call.
pub fn device(number: u32) -> Result<&'static Device, Failure> {
    devices()?.device(number)
}

/// Returns a device if it was created before.
pub(crate) fn made(number: u32) -> Option<&'static Device> {
    devices().ok()?.made(number)
}

/// Returns the time at which a stream will have finished its work; for an unused device, the host's time.
pub fn stream_time(device: u32, stream: u32) -> u64 {
    made(device).map_or_else(streams::now, |device| device.streams.end(stream))
}

/// Delays later work on a stream until at least `time`.
pub fn stream_wait(device: u32, stream: u32, time: u64) {
    if let Some(device) = made(device) {
        device.streams.hold(stream, time);
    }
}
