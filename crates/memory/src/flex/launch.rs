//! Launches: programs in device memory, the operand addresses passed to them, and tiles.
//!
//! A [`Program`] is an allocation of a separate kind that holds the binary, with its number of parameters. A [`Launch`]
//! takes one operand per parameter and pins the operands, so that they are neither moved nor freed while it runs. It
//! resolves their addresses through the segment table and carries a copy of the table. The addresses go to the device
//! in a [`CorrectionBuffer`]. Every launch has a separate block for it, so two launches of one program do not disturb
//! each other. [`Tiles`] steps through an operand tile by tile; the offset advances, the region never changes.

mod tiles;

pub use tiles::Tiles;

use super::error::{AllocateError, FreeError};
use super::handle::{Allocation, Pin};
use super::segments::{SegmentId, SegmentTable};
use super::slots::Shared;
use super::token::AllocationToken;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::policy::{Kind, Request};
use crate::sync::{Arc, lock};

/// A program in device memory.
#[derive(Debug)]
pub struct Program {
    memory: Allocation,
    binary: Bytes,
    parameters: usize,
}

impl Program {
    /// Returns the memory of the binary.
    pub fn memory(&self) -> &Allocation {
        &self.memory
    }

    /// Returns the length of the binary.
    pub fn binary(&self) -> Bytes {
        self.binary
    }

    /// Returns the number of operands that a launch takes.
    pub fn parameters(&self) -> usize {
        self.parameters
    }
}

/// A block for a launch, or a part of a block, given by an [`Allocation`] or a token.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    block: Named<'a>,
    part: Option<(Bytes, Bytes)>,
}

#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    Handle(&'a Allocation),
    Token(AllocationToken),
}

impl<'a> From<&'a Allocation> for Argument<'a> {
    fn from(block: &'a Allocation) -> Self {
        Self { block: Named::Handle(block), part: None }
    }
}

impl From<AllocationToken> for Argument<'_> {
    fn from(token: AllocationToken) -> Self {
        Self { block: Named::Token(token), part: None }
    }
}

impl Argument<'_> {
    /// Restricts the argument to `size` bytes of the block, starting at `offset`.
    #[must_use]
    pub fn part(mut self, offset: Bytes, size: Bytes) -> Self {
        self.part = Some((offset, size));
        self
    }
}

/// An operand of a launch, as an address that a program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operand {
    /// Entry of the segment table.
    pub segment: SegmentId,
    /// Offset in the region.
    pub offset: Bytes,
    /// Flat address of the segment and offset.
    pub flat: u64,
    /// Length in bytes.
    pub size: Bytes,
}

/// A refused launch. Nothing is pinned or allocated for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The number of operands differs from the program's number of parameters. Correct the call.
    #[error(
        "the program takes {expected} operands, and {found} {} given",
        if *.found == 1 { "was" } else { "were" }
    )]
    OperandCount {
        /// Number of parameters of the program.
        expected: usize,
        /// Number of operands given.
        found: usize,
    },
    /// The program was loaded by another allocator. Launch it with that allocator.
    #[error("the program at {address} belongs to another allocator")]
    ForeignProgram {
        /// Address of the program.
        address: VirtualAddress,
    },
    /// The program is paused, so its memory is not there. Resume it and load the binary again.
    #[error("the program at {address} is paused")]
    PausedProgram {
        /// Address of the program.
        address: VirtualAddress,
    },
    /// The operand is paused, so its memory is not there. Resume it and write its contents again.
    #[error("operand {operand} at {address} is paused")]
    PausedOperand {
        /// Number of the operand.
        operand: usize,
        /// Address of the operand.
        address: VirtualAddress,
    },
    /// The operand's region is not in the segment table, because it belongs to another allocator.
    #[error("operand {operand} at {address} is in no segment of this allocator")]
    UnknownSegment {
        /// Number of the operand.
        operand: usize,
        /// Address of the operand.
        address: VirtualAddress,
    },
    /// The operand's token names no live block of this allocator. Correct the call.
    #[error("operand {operand}: {source}")]
    BadToken {
        /// Number of the operand.
        operand: usize,
        /// Reason why the token was refused.
        source: FreeError,
    },
    /// The operand is a part that extends beyond its block or is empty. Correct the call.
    #[error("operand {operand}: {size} from offset {offset} is not a part of a block of {block}")]
    BadPart {
        /// Number of the operand.
        operand: usize,
        /// Start of the part in the block.
        offset: Bytes,
        /// Length of the part.
        size: Bytes,
        /// Length of the block.
        block: Bytes,
    },
    /// There is no room for the operand addresses. Free some memory and try again.
    #[error("no block for the corrections of a launch: {0}")]
    Corrections(#[source] AllocateError),
    /// A tile extends beyond its operand, the operand exceeds 64 bits, or a step is zero.
    #[error("tiles of {tile} every {stride} do not fit an operand of {size}")]
    BadTile {
        /// Length of a tile.
        tile: Bytes,
        /// Distance between the starts of consecutive tiles.
        stride: Bytes,
        /// Length of the operand.
        size: Bytes,
    },
}

impl FlexAllocator {
    /// Allocates memory for a program of `binary` bytes that has `parameters` parameters.
    pub fn load_program(&self, binary: Bytes, parameters: usize) -> Result<Program, AllocateError> {
        let memory = self.allocate_for(&Request { kind: Kind::Program, ..Request::new(binary) })?;
        Ok(Program { memory, binary, parameters })
    }

    /// Prepares a launch of `program` with one operand per parameter: pins all operands, allocates a block for their
    /// addresses, and resolves the addresses through the segment table.
    pub fn launch<'a, A: Into<Argument<'a>>>(
        &self,
        program: &Program,
        operands: impl IntoIterator<Item = A>,
    ) -> Result<Launch, LaunchError> {
        let arguments: Vec<Argument<'a>> = operands.into_iter().map(Into::into).collect();
        let (expected, found) = (program.parameters, arguments.len());
        if expected != found {
            return Err(LaunchError::OperandCount { expected, found });
        }
        let program = program.memory.pin();
        if !program.belongs_to(self) {
            return Err(LaunchError::ForeignProgram { address: program.address() });
        }
        if program.was_paused() {
            return Err(LaunchError::PausedProgram { address: program.address() });
        }
        let numbered = arguments.iter().enumerate();
        let pinned = numbered.map(|(number, argument)| self.pin_operand(number, argument));
        let pinned = pinned.collect::<Result<Vec<_>, _>>()?;
        let corrections = self.correction_block(pinned.len()).map_err(LaunchError::Corrections)?;
        // The table is read only after all blocks are pinned.
        let table = HeldTable::new(&self.shared);
        let operands: Vec<_> = pinned.iter().map(|part| part.resolve(&table.table)).collect();
        let buffer = CorrectionBuffer::new(&operands);
        let pins = pinned.into_iter().map(|part| part.pin).collect();
        Ok(Launch { program, corrections, pins, operands, buffer, table })
    }

    /// Returns the physical address of an address in a region of this allocator. Returns `None` for a region of another
    /// allocator, and if the device does not know the physical address.
    pub fn physical_address(&self, address: VirtualAddress) -> Option<u64> {
        self.segment_table().get(address.region_id)?;
        let start = self.shared.device.physical_address(address.region_id)?;
        start.checked_add(address.offset.get())
    }

    fn pin_operand(&self, operand: usize, argument: &Argument<'_>) -> Result<Pinned, LaunchError> {
        let pin = match argument.block {
            Named::Handle(block) => block.pin(),
            Named::Token(token) => {
                self.pin_token(token).map_err(|source| LaunchError::BadToken { operand, source })?
            }
        };
        // Regions of two virtual functions can have the same names.
        if !pin.belongs_to(self) {
            return Err(LaunchError::UnknownSegment { operand, address: pin.address() });
        }
        if pin.was_paused() {
            return Err(LaunchError::PausedOperand { operand, address: pin.address() });
        }
        let block = pin.size();
        let (offset, size) = argument.part.unwrap_or((Bytes::ZERO, block));
        if size.is_zero() || offset.checked_add(size).is_none_or(|end| end > block) {
            return Err(LaunchError::BadPart { operand, offset, size, block });
        }
        Ok(Pinned { pin, offset, size })
    }

    /// Allocates a block for the operand addresses, which lives as long as its pin. A launch without operands also gets
    /// one.
    fn correction_block(&self, operands: usize) -> Result<Pin, AllocateError> {
        let size = Bytes::new(CorrectionBuffer::ENTRY.get() * operands.max(1) as u64);
        let block = self.allocate_for(&Request { kind: Kind::Program, ..Request::new(size) })?;
        Ok(block.pin())
    }
}

struct Pinned {
    pin: Pin,
    offset: Bytes,
    size: Bytes,
}

impl Pinned {
    fn resolve(&self, table: &SegmentTable) -> Operand {
        let VirtualAddress { region_id, offset } = self.pin.address();
        let found = table.get(region_id);
        let (segment, entry) = found.expect("the region of a pinned block has an entry");
        let offset = offset + self.offset;
        Operand { segment, offset, flat: entry.base + offset.get(), size: self.size }
    }
}

/// A launch that is ready to run. As long as it lives, its program, operands and corrections stay in place, even if
/// their owners drop them, and no entry of its segment table is reused. Drop it when the device is done.
#[derive(Debug)]
pub struct Launch {
    program: Pin,
    corrections: Pin,
    pins: Vec<Pin>,
    operands: Vec<Operand>,
    buffer: CorrectionBuffer,
    table: HeldTable,
}

impl Launch {
    /// Returns the address of the program.
    pub fn program(&self) -> VirtualAddress {
        self.program.address()
    }

    /// Returns the resolved operands, in order.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// Returns this launch's block for the operand addresses, and the bytes to write there before the program runs.
    pub fn corrections(&self) -> (VirtualAddress, &CorrectionBuffer) {
        (self.corrections.address(), &self.buffer)
    }

    /// Returns the segment table of the operands, for the device's control block.
    pub fn segment_table(&self) -> &SegmentTable {
        &self.table.table
    }

    /// Returns the tiles of an operand: `tile` bytes each, starting `stride` bytes apart.
    pub fn tiles(
        &self,
        operand: usize,
        tile: Bytes,
        stride: Bytes,
    ) -> Option<Result<Tiles, LaunchError>> {
        let (pin, operand) = (self.pins.get(operand)?, self.operands.get(operand)?);
        let start = VirtualAddress { offset: operand.offset, ..pin.address() };
        Some(Tiles::new(start, operand.size, tile, stride))
    }
}

/// The segment table of a launch, which holds its entries.
struct HeldTable {
    shared: Arc<Shared>,
    table: SegmentTable,
}

impl std::fmt::Debug for HeldTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.table.fmt(f)
    }
}

impl HeldTable {
    fn new(shared: &Arc<Shared>) -> Self {
        let table = lock(&shared.regions).segments.learn();
        Self { shared: Arc::clone(shared), table }
    }
}

impl Drop for HeldTable {
    fn drop(&mut self) {
        let freed = lock(&self.shared.regions).segments.forget(&self.table);
        if freed {
            self.shared.note_change();
        }
    }
}

/// Operand addresses of a launch, as laid out in memory: for each operand its flat address and its size, 8 bytes each,
/// little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectionBuffer {
    bytes: Vec<u8>,
}

impl CorrectionBuffer {
    /// Size of the entry of one operand.
    pub const ENTRY: Bytes = Bytes::new(16);

    fn new(operands: &[Operand]) -> Self {
        let words = operands.iter().flat_map(|operand| [operand.flat, operand.size.get()]);
        Self { bytes: words.flat_map(u64::to_le_bytes).collect() }
    }

    /// Returns the bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the size of the buffer in bytes.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.bytes.len() as u64)
    }
}
