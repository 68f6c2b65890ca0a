//! Tags: bytes by purpose, with budgets.

use std::ffi::c_char;

use cubeyard_memory::flex::{Budget, TagReport};

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::pool::{limit, limit_number};
use crate::status::Status;

/// The struct `cubeyard_tag_figures` of the header.
#[repr(C)]
pub(crate) struct CTagFigures {
    allocated: u64,
    peak: u64,
    blocks: u64,
    soft: u64,
    hard: u64,
}

impl From<TagReport> for CTagFigures {
    fn from(report: TagReport) -> Self {
        Self {
            allocated: report.allocated.get(),
            peak: report.peak.get(),
            blocks: report.blocks,
            soft: limit_number(report.budget.soft),
            hard: limit_number(report.budget.hard),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_tag(
    allocator: *const Front,
    name: *const c_char,
    tag: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a string.
        let (front, name) = unsafe { (Front::of(allocator)?, argument::text(name, "name")?) };
        argument::place(tag, "tag")?;
        let number = front.allocator.tag(name)?.get();
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(tag, "tag", number.into()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_tag_budget(
    allocator: *const Front,
    tag: u32,
    soft: u64,
    hard: u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let budget = Budget { soft: limit(soft), hard: limit(hard) };
        Ok(front.allocator.set_budget(argument::tag(tag)?, budget)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_tag_report(
    allocator: *const Front,
    tag: u32,
    figures: *mut CTagFigures,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let report =
            front.allocator.tag_report(argument::tag(tag)?).ok_or_else(|| argument::no_tag(tag))?;
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(figures, "figures", report.into()) }
    })
}
