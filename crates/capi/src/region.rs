//! Regions and the segment table.

use std::ffi::c_int;

use cubeyard_memory::flex::{RegionReport, SegmentTable};

use crate::Front;
use crate::argument;
use crate::block::Address;
use crate::call::{Failure, Status, call};

/// A `cubeyard_region`.
#[repr(C)]
pub(crate) struct RegionOfCaller {
    region_id: u64,
    size: u64,
    free_bytes: u64,
    largest: u64,
    blocks: u64,
}

impl From<&RegionReport> for RegionOfCaller {
    fn from(region: &RegionReport) -> Self {
        Self {
            region_id: region.id.get(),
            size: region.size.get(),
            free_bytes: region.free.get(),
            largest: region.largest.get(),
            blocks: region.blocks as u64,
        }
    }
}

/// A `cubeyard_segment`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct SegmentOfCaller {
    used: u64,
    region_id: u64,
    base: u64,
    size: u64,
}

/// All entries of a table, used or not.
pub(crate) fn segments(table: &SegmentTable) -> Vec<SegmentOfCaller> {
    let used = |segment: &cubeyard_memory::flex::Segment| SegmentOfCaller {
        used: 1,
        region_id: segment.region_id.get(),
        base: segment.base,
        size: segment.size.get(),
    };
    let entries = table.entries().iter();
    entries.map(|entry| entry.as_ref().map(used).unwrap_or_default()).collect()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_regions(
    allocator: *const Front,
    regions: *mut RegionOfCaller,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let found: Vec<_> = front.allocator.regions().iter().map(Into::into).collect();
        // SAFETY: the header asks for room for `capacity` regions, and NULL or a place for the count.
        unsafe { argument::write_list((regions, capacity), count, &found, "regions") }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_regions_locked(
    allocator: *const Front,
    locked: *mut c_int,
) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let answer = c_int::from(front.allocator.regions_locked());
        // SAFETY: the header asks for a place to write to.
        unsafe { argument::write(locked, "locked", answer) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_segment_table(
    allocator: *const Front,
    entries: *mut SegmentOfCaller,
    capacity: usize,
    count: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let found = segments(&front.allocator.segment_table());
        // SAFETY: the header asks for room for `capacity` entries, and NULL or a place for the count.
        unsafe { argument::write_list((entries, capacity), count, &found, "entries") }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_physical_address(
    allocator: *const Front,
    address: Address,
    physical: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let place = address.place();
        if front.allocator.segment_table().find(place.region_id).is_none() {
            let message = format!("{place} is in no region of this allocator");
            return Err(Failure::new(Status::Foreign, message));
        }
        let unknown = || {
            let message = format!("the device does not know the physical address of {place}");
            Failure::new(Status::Unsupported, message)
        };
        let found = front.allocator.physical_address(place).ok_or_else(unknown)?;
        // SAFETY: the header asks for a place to write to.
        unsafe { argument::write(physical, "physical", found) }
    })
}
