//! Launches: programs in device memory, the addresses they are given, and tiles.
//!
//! A [`Program`] is an allocation of its own kind that the binary is loaded into. A [`Launch`] takes
//! allocations as operands, pins them, so that they neither move nor go while it runs, and resolves
//! their addresses through the segment table. The addresses go into the program's memory in a
//! [`CorrectionBuffer`] before it runs. [`Tiles`] steps through an operand tile by tile, which moves
//! the offset and never the region.

use super::handle::{Allocation, Pin};
use super::segments::{SegmentId, SegmentTable};
use super::{AllocateError, FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::policy::{Kind, Request};

/// A program's memory on the device: its binary, and after that the room for its corrections.
#[derive(Debug)]
pub struct Program {
    memory: Allocation,
    binary: Bytes,
}

/// An operand of a launch: an address that a program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The entry of the segment table.
    pub segment: SegmentId,
    /// The offset in the region.
    pub offset: Bytes,
    /// The flat address that the two stand for.
    pub flat: u64,
    /// How long the operand is.
    pub size: Bytes,
}

/// Why a launch cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The operand's region is not in the segment table: it belongs to another allocator.
    #[error("operand {operand} at {address} is in no segment of this allocator")]
    UnknownSegment {
        /// Which operand.
        operand: usize,
        /// Its address.
        address: VirtualAddress,
    },
    /// The corrections do not fit the room that the program has for them. Load it with more.
    #[error("{needed} of corrections do not fit the {room} that the program has for them")]
    CorrectionsTooLong {
        /// What the operands need.
        needed: Bytes,
        /// What there is.
        room: Bytes,
    },
    /// A tile reaches beyond its operand, or the operand beyond 64 bits, or a step is zero.
    #[error("tiles of {tile} every {stride} do not fit an operand of {size}")]
    BadTile {
        /// How long a tile is.
        tile: Bytes,
        /// How far apart tiles begin.
        stride: Bytes,
        /// How long the operand is.
        size: Bytes,
    },
}

impl FlexAllocator {
    /// Room for a program of `binary` bytes and corrections for up to `operands` operands.
    pub fn load_program(&self, binary: Bytes, operands: usize) -> Result<Program, AllocateError> {
        let corrections =
            Bytes::new((operands as u64).saturating_mul(CorrectionBuffer::ENTRY.get()));
        let start = binary.align_up(self.config().alignment);
        let size = start.and_then(|start| start.checked_add(corrections)).unwrap_or(Bytes::MAX);
        let memory = self.allocate_for(&Request { kind: Kind::Program, ..Request::new(size) })?;
        Ok(Program { memory, binary })
    }

    /// Prepares a launch of `program` on `operands`: pins all of them and resolves their addresses.
    pub fn launch<'a>(
        &self,
        program: &Program,
        operands: impl IntoIterator<Item = &'a Allocation>,
    ) -> Result<Launch, LaunchError> {
        let program = program.pin(self.config().alignment);
        let pins: Vec<_> = operands.into_iter().map(Allocation::pin).collect();
        // The table is looked at when all blocks are in their places for good.
        let table = self.segment_table();
        let resolved = pins.iter().enumerate().map(|(operand, pin)| {
            let (address, size) = (pin.address(), pin.size());
            // Regions of two virtual functions have the same names.
            let ours = pin.belongs_to(self).then(|| resolve(&table, address, size)).flatten();
            ours.ok_or(LaunchError::UnknownSegment { operand, address })
        });
        let operands = resolved.collect::<Result<Vec<_>, _>>()?;
        let corrections = CorrectionBuffer::new(&operands);
        if corrections.size() > program.room {
            return Err(LaunchError::CorrectionsTooLong {
                needed: corrections.size(),
                room: program.room,
            });
        }
        Ok(Launch { program, pins, operands, corrections })
    }
}

fn resolve(table: &SegmentTable, address: VirtualAddress, size: Bytes) -> Option<Operand> {
    let (segment, entry) = table.find(address.region_id)?;
    Some(Operand { segment, offset: address.offset, flat: entry.base + address.offset.get(), size })
}

/// A program that is kept in its place.
#[derive(Debug)]
struct PinnedProgram {
    pin: Pin,
    corrections: Bytes,
    room: Bytes,
}

impl Program {
    /// Its memory; the binary goes to the start of it.
    pub fn memory(&self) -> &Allocation {
        &self.memory
    }

    /// How long the binary is.
    pub fn binary(&self) -> Bytes {
        self.binary
    }

    fn pin(&self, alignment: Bytes) -> PinnedProgram {
        let pin = self.memory.pin();
        let corrections =
            self.binary.align_up(alignment).expect("it was allocated with its rounded size");
        PinnedProgram { room: pin.size().saturating_sub(corrections), pin, corrections }
    }
}

/// A launch that is ready to run. While it lives, its program and operands stay where they are, even
/// if their owners drop them; drop it when the device is done.
#[derive(Debug)]
pub struct Launch {
    program: PinnedProgram,
    pins: Vec<Pin>,
    operands: Vec<Operand>,
    corrections: CorrectionBuffer,
}

impl Launch {
    /// Where the program is.
    pub fn program(&self) -> VirtualAddress {
        self.program.pin.address()
    }

    /// The resolved operands, in order.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// What is to be written into the program's memory before it runs, and where.
    pub fn corrections(&self) -> (VirtualAddress, &CorrectionBuffer) {
        let program = self.program.pin.address();
        let address =
            VirtualAddress { offset: program.offset + self.program.corrections, ..program };
        (address, &self.corrections)
    }

    /// Steps through operand `operand` in tiles of `tile` bytes that begin `stride` bytes apart.
    pub fn tiles(
        &self,
        operand: usize,
        tile: Bytes,
        stride: Bytes,
    ) -> Option<Result<Tiles, LaunchError>> {
        let pin = self.pins.get(operand)?;
        Some(Tiles::new(pin.address(), pin.size(), tile, stride))
    }
}

/// The addresses of a launch's operands, as the program finds them in its memory: for each operand
/// its flat address and its size, 8 bytes each, the low byte first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectionBuffer {
    bytes: Vec<u8>,
}

impl CorrectionBuffer {
    /// What one operand takes.
    pub const ENTRY: Bytes = Bytes::new(16);

    fn new(operands: &[Operand]) -> Self {
        let words = operands.iter().flat_map(|operand| [operand.flat, operand.size.get()]);
        Self { bytes: words.flat_map(u64::to_le_bytes).collect() }
    }

    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many they are.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.bytes.len() as u64)
    }
}

/// The tiles of an operand, one after the other: the region stays, the offset moves.
#[derive(Clone, Debug)]
pub struct Tiles {
    next: VirtualAddress,
    stride: Bytes,
    left: u64,
}

impl Tiles {
    /// Tiles of `tile` bytes, `stride` bytes apart, in the `size` bytes from `base` on.
    pub fn new(
        base: VirtualAddress,
        size: Bytes,
        tile: Bytes,
        stride: Bytes,
    ) -> Result<Self, LaunchError> {
        let ends = base.offset.checked_add(size).is_some();
        if tile.is_zero() || stride.is_zero() || tile > size || !ends {
            return Err(LaunchError::BadTile { tile, stride, size });
        }
        let left = 1 + (size - tile).get() / stride.get();
        Ok(Self { next: base, stride, left })
    }
}

impl Iterator for Tiles {
    type Item = VirtualAddress;

    fn next(&mut self) -> Option<VirtualAddress> {
        self.left = self.left.checked_sub(1)?;
        let tile = self.next;
        if self.left > 0 {
            self.next.offset += self.stride;
        }
        Some(tile)
    }
}
