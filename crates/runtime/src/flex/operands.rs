//! Blocks of regions as operands of a launch.

use std::ops::Range;
use std::rc::Rc;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::flex::{
    Allocation, Argument as BlockArgument, Launch as PreparedLaunch, Operand, Program,
    VirtualAddress,
};

use super::FlexDevice;
use super::transfer::place;
use super::windows::Windows;
use crate::context::Inner;
use crate::dtype::DType;
use crate::error::RuntimeError;
use crate::shape::Shape;

/// A row-major array of elements in a block.
#[derive(Clone, Copy, Debug)]
pub struct FlexArray<'a> {
    /// Block that holds the array.
    pub block: &'a Allocation,
    /// Offset of the array in the block.
    pub offset: Bytes,
    /// Dimensions of the array.
    pub shape: Shape,
    /// Element type of the array.
    pub dtype: DType,
}

impl<'a> FlexArray<'a> {
    /// Creates an array at the beginning of a block.
    pub fn new(
        block: &'a Allocation,
        dimensions: &[u64],
        dtype: DType,
    ) -> Result<Self, RuntimeError> {
        Ok(Self { block, offset: Bytes::ZERO, shape: Shape::new(dimensions)?, dtype })
    }

    /// Returns the array at another offset of the block.
    #[must_use]
    pub fn at(self, offset: Bytes) -> Self {
        Self { offset, ..self }
    }

    fn argument(&self) -> Result<BlockArgument<'a>, RuntimeError> {
        let bytes = Bytes::new(self.shape.nbytes(self.dtype)?);
        place(self.block, self.offset, bytes)?;
        Ok(BlockArgument::from(self.block).part(self.offset, bytes))
    }
}

/// Operands of one launch of a program: pinned, resolved through the segment table, with their addresses in a separate
/// block.
///
/// The operands stay pinned until this value is dropped and all launches with its [`arguments`](Self::arguments) are
/// done.
#[derive(Clone, Debug)]
pub struct FlexOperands {
    prepared: Rc<Prepared>,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    context: Rc<Inner>,
    sip: SipId,
    launch: PreparedLaunch,
    arrays: Vec<(Shape, DType)>,
    _windows: Rc<Windows>,
}

/// An operand of a launch, passed to a kernel as an argument.
#[derive(Clone, Debug)]
pub struct FlexOperand {
    prepared: Rc<Prepared>,
    index: usize,
}

impl FlexDevice {
    /// Prepares a launch of a program with one array per parameter: pins the blocks, resolves them through the segment
    /// table, maps the segments in the PEs, and writes the addresses into a block. Mapping and writing take simulated
    /// time.
    pub fn operands(
        &self,
        program: &Program,
        arrays: &[FlexArray<'_>],
    ) -> Result<FlexOperands, RuntimeError> {
        self.context.check_open()?;
        let arguments = arrays.iter().map(FlexArray::argument).collect::<Result<Vec<_>, _>>()?;
        let launch = self.allocator.launch(program, arguments)?;
        self.windows.follow(launch.segment_table())?;
        let (address, corrections) = launch.corrections();
        if !corrections.bytes().is_empty() {
            self.write_at(address, corrections.bytes())?;
        }
        let prepared = Prepared {
            context: Rc::clone(&self.context),
            sip: self.sip,
            launch,
            arrays: arrays.iter().map(|array| (array.shape, array.dtype)).collect(),
            _windows: Rc::clone(&self.windows),
        };
        Ok(FlexOperands { prepared: Rc::new(prepared) })
    }
}

impl FlexOperands {
    /// Returns the operands as arguments of a launch, in order.
    pub fn arguments(&self) -> impl Iterator<Item = FlexOperand> {
        let operand = |index| FlexOperand { prepared: Rc::clone(&self.prepared), index };
        (0..self.resolved().len()).map(operand)
    }

    /// Returns the operands as resolved by the segment table, in order.
    pub fn resolved(&self) -> &[Operand] {
        self.prepared.launch.operands()
    }

    /// Returns the device address of the operands' table: flat address and size of each, 8 bytes each, little-endian.
    pub fn corrections(&self) -> VirtualAddress {
        self.prepared.launch.corrections().0
    }
}

impl FlexOperand {
    /// Returns the memory that a launch on a SIP of a context keeps until it is done.
    pub(crate) fn uses(
        &self,
        context: &Rc<Inner>,
        sip: SipId,
    ) -> Result<Rc<Prepared>, RuntimeError> {
        if !Rc::ptr_eq(&self.prepared.context, context) {
            return Err(RuntimeError::Foreign);
        }
        if self.prepared.sip != sip {
            return Err(RuntimeError::OtherSip { operand: self.prepared.sip, launch: sip });
        }
        Ok(Rc::clone(&self.prepared))
    }

    /// Returns the operand's flat addresses.
    pub(crate) fn range(&self) -> Range<u64> {
        let operand = &self.prepared.launch.operands()[self.index];
        operand.flat..operand.flat + operand.size.get()
    }

    /// Returns shape and element type of the operand's array.
    pub(crate) fn array(&self) -> (Shape, DType) {
        self.prepared.arrays[self.index]
    }
}
