//! Addresses of device memory, and the host's view of them.
//!
//! The memory of all devices is mapped twice. Pointers of tensors lie in the first mapping, which has no access rights:
//! a stray access faults. The host reads and writes through the second mapping, at a fixed distance.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::ptr;

use cubeyard_memory::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

/// Maximum number of addresses of a device.
const SPAN: u64 = 1 << 40;
/// Maximum number of addresses of all devices.
const ALL: u64 = 1 << 45;

/// The two mappings. They exist as long as the process.
#[derive(Debug)]
pub struct Space {
    base: u64,
    view: u64,
    span: u64,
    devices: u32,
    /// Memory behind the host's view, for other processes to map.
    file: File,
}

impl Space {
    /// Reserves addresses for `devices` devices.
    pub fn reserve(devices: u32) -> io::Result<Self> {
        let span = SPAN.min(ALL / u64::from(devices.next_power_of_two()));
        let file = memfd_create(c"cubeyard", MemfdFlags::CLOEXEC)?;
        let (file, length) = (File::from(file), span * u64::from(devices));
        file.set_len(length)?;
        let size = usize::try_from(length).map_err(io::Error::other)?;
        // SAFETY: new mappings at addresses chosen by the system do not affect existing ones.
        let (base, view) = unsafe {
            let base = mmap_anonymous(
                ptr::null_mut(),
                size,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let view = mmap(
                ptr::null_mut(),
                size,
                access,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file.as_fd(),
                0,
            )?;
            // A child has no view, so it can neither read nor change the data of its parent.
            madvise(view, size, Advice::LinuxDontFork)?;
            (base as u64, view as u64)
        };
        Ok(Self { base, view, span, devices, file })
    }

    /// Returns the first address of device 0; the addresses of device `d` begin `d` spans later.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns the number of addresses of a device.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Returns the number of devices.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// Returns the distance from a pointer to the same byte in the host's view, to be added with wrap-around.
    pub fn distance(&self) -> u64 {
        self.view.wrapping_sub(self.base)
    }

    /// Returns the memory behind the host's view, for other processes to map.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the pointer to a physical address of a device.
    pub fn pointer(&self, device: u32, address: u64) -> u64 {
        self.base + u64::from(device) * self.span + address
    }

    /// Writes bytes to a physical address of a device.
    ///
    /// # Panics
    /// If the bytes extend beyond the addresses of the device.
    pub(crate) fn write(&self, device: u32, address: u64, bytes: &[u8]) {
        self.check(device, address, bytes.len());
        // SAFETY: the host's view covers all addresses of the device, readable and writable, and the caller's bytes are
        // not among them.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.host(device, address), bytes.len()) }
    }

    /// Reads bytes at a physical address of a device.
    ///
    /// # Panics
    /// If the bytes extend beyond the addresses of the device.
    pub(crate) fn read(&self, device: u32, address: u64, into: &mut [u8]) {
        self.check(device, address, into.len());
        // SAFETY: as for `write`.
        unsafe {
            ptr::copy_nonoverlapping(self.host(device, address), into.as_mut_ptr(), into.len());
        }
    }

    fn check(&self, device: u32, address: u64, bytes: usize) {
        let end = address.checked_add(bytes as u64);
        assert!(
            device < self.devices && end.is_some_and(|end| end <= self.span),
            "the place is on the device"
        );
    }

    /// Returns the pages of a range to the system; they read as zeros afterwards.
    pub(crate) fn forget(&self, device: u32, address: u64, size: Bytes) {
        let Ok(size) = usize::try_from(size.get()) else { return };
        // SAFETY: the range is in the host's view and contains no live block.
        let forgotten = unsafe {
            madvise(self.host(device, address).cast::<c_void>(), size, Advice::LinuxRemove)
        };
        debug_assert!(forgotten.is_ok(), "pages of a file in memory can be removed");
    }

    fn host(&self, device: u32, address: u64) -> *mut u8 {
        ptr::with_exposed_provenance_mut(
            usize::try_from(self.view + u64::from(device) * self.span + address)
                .unwrap_or(usize::MAX),
        )
    }
}
