//! A device implemented by functions of the caller.

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::sync::atomic::{AtomicUsize, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, DeviceMemory, ExportHandle, MemoryInfo, RegionHandle, RegionId, TableInfo,
};

use crate::argument;
use crate::config::Config;
use crate::status::Failure;

type AcquireFn = unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int;
type ReleaseFn = unsafe extern "C" fn(*mut c_void, u64, u64);
type InfoFn = unsafe extern "C" fn(*mut c_void, *mut u64, *mut u64);
type CommitFn = unsafe extern "C" fn(*mut c_void, u64, u64, u64) -> c_int;
type DecommitFn = unsafe extern "C" fn(*mut c_void, u64, u64, u64);
type ExportFn =
    unsafe extern "C" fn(*mut c_void, u64, u64, u64, *mut u8, usize, *mut usize, *mut u64) -> c_int;
type PhysicalFn = unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> c_int;

/// The struct `cubeyard_device` of the header.
#[repr(C)]
pub(crate) struct CDevice {
    struct_size: usize,
    mode: u32,
    granule: u64,
    user: *mut c_void,
    acquire: Option<AcquireFn>,
    release: Option<ReleaseFn>,
    info: Option<InfoFn>,
    reserve: Option<AcquireFn>,
    commit: Option<CommitFn>,
    decommit: Option<DecommitFn>,
    table_entries: u64,
    physical: Option<PhysicalFn>,
    export: Option<ExportFn>,
}

/// Maximum length of an export handle, the header's `CUBEYARD_EXPORT_MAX`.
const EXPORT_MAX: usize = 256;

/// Length of the struct in version 1.0 of the header, which ends before the table.
const FIRST_SIZE: usize = offset_of!(CDevice, table_entries);

impl CDevice {
    /// Copies the struct; fields missing in the caller's version are set to zero.
    ///
    /// # Safety
    /// If the pointer is neither null nor unaligned, `device` points to a struct at least as long as its first field
    /// states.
    unsafe fn copied(device: *const Self) -> Result<Self, Failure> {
        // SAFETY: the first field is present.
        let size = *unsafe { argument::read(device.cast::<usize>(), "device") }?;
        argument::struct_size(size, FIRST_SIZE, "device")?;
        let mut copy = MaybeUninit::<Self>::zeroed();
        let length = size.min(size_of::<Self>());
        // SAFETY: `size` bytes are present and fit; all zeros is a device without functions.
        unsafe {
            copy.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(device.cast(), length);
            Ok(copy.assume_init())
        }
    }
}

/// A validated device of the caller.
pub(crate) struct Device {
    mode: AddressMode,
    user: *mut c_void,
    acquire: AcquireFn,
    release: ReleaseFn,
    info: InfoFn,
    granules: Option<GranuleFns>,
    /// Number of entries of the firmware's table, if the device has one.
    table: Option<usize>,
    regions: AtomicUsize,
    physical: Option<PhysicalFn>,
    export: Option<ExportFn>,
}

/// Functions of a device that can commit memory.
struct GranuleFns {
    granule: Bytes,
    reserve: AcquireFn,
    commit: CommitFn,
    decommit: DecommitFn,
}

// SAFETY: according to the header, callbacks may be called on any thread, with the given `user`.
unsafe impl Send for Device {}
// SAFETY: likewise, also on several threads at the same time.
unsafe impl Sync for Device {}

impl Device {
    /// # Safety
    /// If the pointer is neither null nor unaligned, `device` points to a struct at least as long as its first field
    /// states.
    pub(crate) unsafe fn new(device: *const CDevice, config: &Config) -> Result<Self, Failure> {
        // SAFETY: the caller guarantees the same.
        let device = &unsafe { CDevice::copied(device) }?;
        let entries = usize::try_from(device.table_entries).unwrap_or(usize::MAX);
        Ok(Self {
            mode: config.mode_of(device.mode)?,
            user: device.user,
            acquire: argument::function(device.acquire, "device.acquire")?,
            release: argument::function(device.release, "device.release")?,
            info: argument::function(device.info, "device.info")?,
            granules: (device.granule > 0).then(|| GranuleFns::new(device)).transpose()?,
            table: (entries > 0).then_some(entries),
            regions: AtomicUsize::new(0),
            physical: device.physical,
            export: device.export,
        })
    }

    fn region(&self, acquire: AcquireFn, size: Bytes) -> Option<RegionHandle> {
        let mut id = 0;
        // SAFETY: the caller passed this function for this purpose, with this pointer.
        let given = unsafe { acquire(self.user, size.get(), &raw mut id) } != 0;
        if given {
            self.regions.fetch_add(1, Ordering::Relaxed);
        }
        given.then(|| RegionHandle { id: RegionId::new(id), size })
    }
}

impl GranuleFns {
    fn new(device: &CDevice) -> Result<Self, Failure> {
        if !device.granule.is_power_of_two() {
            return Err(argument::wrong("device.granule", "is not a power of two"));
        }
        Ok(Self {
            granule: Bytes::new(device.granule),
            reserve: argument::function(device.reserve, "device.reserve")?,
            commit: argument::function(device.commit, "device.commit")?,
            decommit: argument::function(device.decommit, "device.decommit")?,
        })
    }
}

impl DeviceMemory for Device {
    fn mode(&self) -> AddressMode {
        self.mode
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.region(self.acquire, size)
    }

    fn release(&self, region: RegionHandle) {
        self.regions.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller passed this function for this purpose, with this pointer.
        unsafe { (self.release)(self.user, region.id.get(), region.size.get()) }
    }

    fn info(&self) -> MemoryInfo {
        let (mut free, mut total) = (0, 0);
        // SAFETY: as above.
        unsafe { (self.info)(self.user, &raw mut free, &raw mut total) };
        MemoryInfo { free: Bytes::new(free), total: Bytes::new(total) }
    }

    fn table(&self) -> Option<TableInfo> {
        let entries = self.table?;
        let free = entries.saturating_sub(self.regions.load(Ordering::Relaxed));
        Some(TableInfo { entries, free })
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        let Some(physical) = self.physical else {
            return (self.mode == AddressMode::Physical).then(|| region.get());
        };
        let mut address = 0;
        // SAFETY: as above.
        let known = unsafe { physical(self.user, region.get(), &raw mut address) } != 0;
        known.then_some(address)
    }

    fn granule(&self) -> Option<Bytes> {
        self.granules.as_ref().map(|granules| granules.granule)
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.region(self.granules.as_ref()?.reserve, size)
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        let Some(granules) = &self.granules else { return false };
        // SAFETY: as above.
        unsafe { (granules.commit)(self.user, region.id.get(), offset.get(), size.get()) != 0 }
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        if let Some(granules) = &self.granules {
            // SAFETY: as above.
            unsafe { (granules.decommit)(self.user, region.id.get(), offset.get(), size.get()) }
        }
    }

    fn export(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> Option<ExportHandle> {
        let export = self.export?;
        let (mut bytes, mut length, mut start) = ([0; EXPORT_MAX], 0, 0);
        // SAFETY: as above; the buffer has room for the stated number of bytes.
        let given = unsafe {
            export(
                self.user,
                region.id.get(),
                offset.get(),
                size.get(),
                bytes.as_mut_ptr(),
                EXPORT_MAX,
                &raw mut length,
                &raw mut start,
            )
        };
        let bytes = bytes.get(..length).filter(|_| given != 0)?.to_vec();
        Some(ExportHandle { bytes, offset: Bytes::new(start) })
    }
}
