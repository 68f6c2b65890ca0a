//! Regions and the segment table.

use std::ffi::c_int;

use cubeyard_memory::flex::{RegionReport, SegmentTable};

use crate::Front;
use crate::argument;
use crate::block::CAddress;
use crate::call::call;
use crate::status::{Failure, Status};

/// The struct `cubeyard_region` of the header.
#[repr(C)]
pub(crate) struct CRegion {
    region_id: u64,
    size: u64,
    free_bytes: u64,
    largest: u64,
    blocks: u64,
}

impl From<&RegionReport> for CRegion {
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

/// The struct `cubeyard_segment` of the header.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CSegment {
    used: u64,
    region_id: u64,
    base: u64,
    size: u64,
}

/// Returns all entries of a table, used or not.
pub(crate) fn segments(table: &SegmentTable) -> Vec<CSegment> {
    let used = |segment: &cubeyard_memory::flex::Segment| CSegment {
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
    regions: *mut CRegion,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` regions, and NULL or a count.
    unsafe {
        Front::fill(allocator, (regions, capacity), count, "regions", |front| {
            Ok(front.allocator.regions().iter().map(Into::into).collect())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_regions_locked(
    allocator: *const Front,
    locked: *mut c_int,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let answer = c_int::from(front.allocator.regions_locked());
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(locked, "locked", answer) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_segment_table(
    allocator: *const Front,
    entries: *mut CSegment,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` entries, and NULL or a count.
    unsafe {
        Front::fill(allocator, (entries, capacity), count, "entries", |front| {
            Ok(segments(&front.allocator.segment_table()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_physical_address(
    allocator: *const Front,
    address: CAddress,
    physical: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let place = address.place();
        if front.allocator.segment_table().get(place.region_id).is_none() {
            let message = format!("{place} is in no region of this allocator");
            return Err(Failure::new(Status::Foreign, message));
        }
        let unknown = || {
            let message = format!("the device does not know the physical address of {place}");
            Failure::new(Status::Unsupported, message)
        };
        let found = front.allocator.physical_address(place).ok_or_else(unknown)?;
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(physical, "physical", found) }
    })
}
