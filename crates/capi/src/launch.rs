//! Programs and launches.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Argument, Launch, Operand, TokenBlock};

use crate::Front;
use crate::argument;
use crate::block::{CAddress, CBlock, CBlockInfo};
use crate::call::call;
use crate::region::{CSegment, segments};
use crate::status::{Failure, Status};

/// The struct `cubeyard_argument` of the header.
#[repr(C)]
pub(crate) struct CArgument {
    block: CBlock,
    offset: u64,
    size: u64,
}

/// The struct `cubeyard_operand` of the header.
#[repr(C)]
pub(crate) struct COperand {
    flat: u64,
    offset: u64,
    size: u64,
    segment: u64,
}

/// The struct `cubeyard_launch_info` of the header.
#[repr(C)]
pub(crate) struct CLaunchInfo {
    program: CAddress,
    corrections: CAddress,
    corrections_bytes: u64,
}

impl From<&Operand> for COperand {
    fn from(operand: &Operand) -> Self {
        Self {
            flat: operand.flat,
            offset: operand.offset.get(),
            size: operand.size.get(),
            segment: operand.segment.0 as u64,
        }
    }
}

impl Front {
    /// Returns an operand for the library: a whole block, or a part of it.
    fn argument(&self, argument: &CArgument) -> Result<Argument<'static>, Failure> {
        let token = argument.block.token();
        let whole = Argument::from(token);
        if argument.offset == 0 && argument.size == 0 {
            return Ok(whole);
        }
        let offset = Bytes::new(argument.offset);
        // A stale block is refused here in the same way as by the launch.
        let rest = self.allocator.block_of(token)?.size.saturating_sub(offset);
        let size = if argument.size == 0 { rest } else { Bytes::new(argument.size) };
        Ok(whole.part(offset, size))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_program_load(
    allocator: *const Front,
    binary_bytes: u64,
    parameters: u32,
    program: *mut u64,
    address: *mut CAddress,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(program, "program")?;
        argument::place_if(address, "address")?;
        let binary = Bytes::new(binary_bytes);
        let loaded = front.allocator.load_program(binary, parameters as usize)?;
        let place = loaded.memory().address();
        // SAFETY: the header requires writable pointers.
        unsafe {
            argument::write_if(address, "address", place.into())?;
            argument::write(program, "program", front.programs.insert(Arc::new(loaded)))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_program_resolve(
    allocator: *const Front,
    program: u64,
    info: *mut CBlockInfo,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let loaded = front.programs.with(program, |program| Ok(Arc::clone(program)))?;
        let memory = loaded.memory();
        let found = front.describe(TokenBlock {
            address: memory.address(),
            size: memory.size(),
            requested: memory.requested(),
            kind: memory.kind(),
        })?;
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(info, "info", found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_program_unload(allocator: *const Front, program: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.programs.remove(program).map(drop)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_launch_begin(
    allocator: *const Front,
    program: u64,
    arguments: *const CArgument,
    count: usize,
    launch: *mut u64,
    info: *mut CLaunchInfo,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a list of `count` arguments.
        let (front, arguments) =
            unsafe { (Front::of(allocator)?, argument::list(arguments, count, "arguments")?) };
        argument::place(launch, "launch")?;
        argument::place_if(info, "info")?;
        let loaded = front.programs.with(program, |program| Ok(Arc::clone(program)))?;
        let arguments = arguments.iter().map(|argument| front.argument(argument));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let begun = front.allocator.launch(&loaded, arguments)?;
        let (place, corrections) = begun.corrections();
        let found = CLaunchInfo {
            program: begun.program().into(),
            corrections: place.into(),
            corrections_bytes: corrections.size().get(),
        };
        // SAFETY: the header requires writable pointers.
        unsafe {
            argument::write_if(info, "info", found)?;
            argument::write(launch, "launch", front.launches.insert(begun))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_launch_operands(
    allocator: *const Front,
    launch: u64,
    operands: *mut COperand,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` operands, and NULL or a count.
    unsafe {
        Front::fill(allocator, (operands, capacity), count, "operands", |front| {
            let list = |launch: &Launch| Ok(launch.operands().iter().map(Into::into).collect());
            front.launches.with(launch, list)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_launch_corrections(
    allocator: *const Front,
    launch: u64,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` bytes, and NULL or a length.
    unsafe {
        Front::fill(allocator, (buffer, capacity), length, "buffer", |front| {
            front.launches.with(launch, |launch| Ok(launch.corrections().1.bytes().to_vec()))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_launch_segment_table(
    allocator: *const Front,
    launch: u64,
    entries: *mut CSegment,
    capacity: usize,
    count: *mut usize,
) -> Status {
    // SAFETY: the header requires an allocator, room for `capacity` entries, and NULL or a count.
    unsafe {
        Front::fill(allocator, (entries, capacity), count, "entries", |front| {
            front.launches.with(launch, |launch| Ok(segments(launch.segment_table())))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_launch_end(allocator: *const Front, launch: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.launches.remove(launch).map(drop)
    })
}
