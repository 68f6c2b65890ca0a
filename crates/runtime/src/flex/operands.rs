//! Blocks as the operands of a launch.

use std::fmt;
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

/// A block, or a part of it, as an array of elements, row by row.
#[derive(Clone, Copy, Debug)]
pub struct FlexArray<'a> {
    /// The block.
    pub block: &'a Allocation,
    /// Where the array begins in it, in bytes.
    pub offset: u64,
    /// Its dimensions.
    pub shape: Shape,
    /// The type of its elements.
    pub dtype: DType,
}

impl<'a> FlexArray<'a> {
    /// An array at the beginning of a block.
    pub fn new(
        block: &'a Allocation,
        dimensions: &[u64],
        dtype: DType,
    ) -> Result<Self, RuntimeError> {
        Ok(Self { block, offset: 0, shape: Shape::new(dimensions)?, dtype })
    }

    /// The array that begins so many bytes into the block.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// The operand that it is, if the block has so much.
    fn argument(&self) -> Result<BlockArgument<'a>, RuntimeError> {
        let bytes = self.shape.nbytes(self.dtype)?;
        place(self.block, self.offset, bytes)?;
        Ok(BlockArgument::from(self.block).part(Bytes::new(self.offset), Bytes::new(bytes)))
    }
}

/// The operands of one launch of a program: pinned, resolved through the segment table, and their addresses in a
/// block of device memory that is this launch's own.
///
/// They stay in their places until this is dropped and the launches are done that were given
/// [`arguments`](Self::arguments) of it.
#[derive(Clone, Debug)]
pub struct FlexOperands {
    prepared: Rc<Prepared>,
}

/// What a launch on blocks keeps until it is done.
pub(crate) struct Prepared {
    context: Rc<Inner>,
    sip: SipId,
    launch: PreparedLaunch,
    arrays: Vec<(Shape, DType)>,
    _windows: Rc<Windows>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sip, launch, arrays, .. } = self;
        let mut text = f.debug_struct("Prepared");
        text.field("sip", sip).field("launch", launch).field("arrays", arrays);
        text.finish_non_exhaustive()
    }
}

/// An operand of a launch, to be given to a kernel as an argument.
#[derive(Clone, Debug)]
pub struct FlexOperand {
    prepared: Rc<Prepared>,
    index: usize,
}

impl FlexDevice {
    /// Prepares a launch of a program on an array for each of its parameters: pins their blocks, resolves them
    /// through the segment table, has the PEs map the segments, and writes the addresses into a block of this launch's
    /// own. All of that goes over the fabric and takes its time.
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

    /// The operands as the segment table resolves them, in order.
    pub fn resolved(&self) -> &[Operand] {
        self.prepared.launch.operands()
    }

    /// Where the addresses of the operands are on the device: for each its flat address and its size, 8 bytes each, the
    /// low byte first.
    pub fn corrections(&self) -> VirtualAddress {
        self.prepared.launch.corrections().0
    }
}

impl FlexOperand {
    /// What a launch on a SIP of a context keeps of it.
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

    /// Its flat addresses.
    pub(crate) fn range(&self) -> Range<u64> {
        let operand = &self.prepared.launch.operands()[self.index];
        operand.flat..operand.flat + operand.size.get()
    }

    /// Shape and element type of its array.
    pub(crate) fn array(&self) -> (Shape, DType) {
        self.prepared.arrays[self.index]
    }
}
