//! Compaction plans: moves that make free memory contiguous.

use cubeyard_memory::flex::Move;

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
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(plan, "plan")?;
        argument::place_if(moves, "moves")?;
        let made = front.allocator.compact();
        // SAFETY: the header requires NULL or a writable pointer, and a writable pointer.
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
