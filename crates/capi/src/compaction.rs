//! Compaction plans: moves that make free memory contiguous.

use cubeyard_memory::flex::{Compaction, Move};
use cubeyard_memory::{Bytes, FlexAllocator};

use crate::Front;
use crate::argument;
use crate::block::CAddress;
use crate::call::call;
use crate::status::Status;

/// The struct `cubeyard_move` of the header.
#[repr(C)]
pub(crate) struct CMove {
    from: CAddress,
    to: CAddress,
    size: u64,
}

impl From<Move> for CMove {
    fn from(step: Move) -> Self {
        Self { from: step.from.into(), to: step.to.into(), size: step.size.get() }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_compact(
    allocator: *const Front,
    plan: *mut u64,
    moves: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, NULL or a writable pointer, and a writable pointer.
    unsafe { make(allocator, plan, moves, FlexAllocator::compact) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_compact_step(
    allocator: *const Front,
    budget: u64,
    plan: *mut u64,
    moves: *mut usize,
) -> Status {
    let step = |allocator: &FlexAllocator| allocator.compact_step(Bytes::new(budget));
    // SAFETY: the header requires an allocator, NULL or a writable pointer, and a writable pointer.
    unsafe { make(allocator, plan, moves, step) }
}

/// Makes a plan, and writes its number and the number of its moves.
///
/// # Safety
/// Pointers that are neither null nor unaligned point to an allocator and to writable memory.
unsafe fn make(
    allocator: *const Front,
    plan: *mut u64,
    moves: *mut usize,
    compact: impl FnOnce(&FlexAllocator) -> Compaction,
) -> Status {
    call(|| {
        // SAFETY: guaranteed by the caller.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(plan, "plan")?;
        argument::place_if(moves, "moves")?;
        let made = compact(&front.allocator);
        // SAFETY: guaranteed by the caller.
        unsafe {
            argument::write_if(moves, "moves", made.moves().count())?;
            argument::write(plan, "plan", front.plans.insert(made))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_plan_moves(
    allocator: *const Front,
    plan: u64,
    moves: *mut CMove,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` moves, and NULL or a count.
    unsafe {
        Front::fill(allocator, (moves, capacity), count, "moves", |front| {
            front.plans.with(plan, |plan| Ok(plan.moves().map(Into::into).collect()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_plan_commit(
    allocator: *const Front,
    plan: u64,
    moved: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place_if(moved, "moved")?;
        let done = front.plans.remove(plan)?.commit();
        // SAFETY: the header requires NULL or a writable pointer.
        unsafe { argument::write_if(moved, "moved", done) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_plan_drop(allocator: *const Front, plan: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.plans.remove(plan).map(drop)
    })
}
