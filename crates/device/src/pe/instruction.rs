//! Instructions of programs: commands for the engines, and the waits of `PE_CPU` between them.

use std::fmt;
use std::rc::Rc;

use super::{Dependencies, Strips};
use crate::access::Dma;
use crate::ids::{CommandId, FormatId, PortId};

/// An instruction of a program.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Issues a command to an engine.
    Command(Command),
    /// `PE_CPU` waits until a command is done.
    Wait(CommandId),
    /// `PE_CPU` waits until all commands are done.
    Fence,
    /// `PE_CPU` is busy for this many dispatches.
    Dispatch(u32),
}

impl Instruction {
    /// Returns the command, if it is one.
    pub fn command(&self) -> Option<&Command> {
        match self {
            Self::Command(command) => Some(command),
            Self::Wait(_) | Self::Fence | Self::Dispatch(_) => None,
        }
    }
}

/// A command for an engine.
#[derive(Clone, Debug)]
pub struct Command {
    /// Work of the engine.
    pub work: Work,
    /// Commands that must be done before any part of this one begins.
    pub after: Dependencies,
    computes_after: Dependencies,
}

impl Command {
    /// Creates a command, all of which begins after others are done.
    pub fn new(work: Work, after: Dependencies) -> Self {
        Self { work, after, computes_after: Dependencies::default() }
    }

    /// Creates a pipeline, all of which begins after the commands of `after` are done, and whose computations and stores also
    /// wait for those of `computes_after`.
    pub fn pipeline(
        pipeline: Rc<dyn Pipeline>,
        after: Dependencies,
        computes_after: Dependencies,
    ) -> Self {
        Self { work: Work::Pipeline(pipeline), after, computes_after }
    }

    /// Returns the further commands that the computations and stores of a pipeline wait for; other work has none.
    pub fn computes_after(&self) -> &Dependencies {
        &self.computes_after
    }

    /// Returns all commands that must be done before the last part of this one begins, each once and in order.
    pub fn before(&self) -> Dependencies {
        if self.computes_after.is_empty() {
            return self.after.clone();
        }
        let mut all: Vec<_> = self.after.iter().chain(&*self.computes_after).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.as_slice().into()
    }
}

/// Work of a command.
#[derive(Clone, Debug)]
pub enum Work {
    /// Moves data into the TCM, or out of it.
    Dma(Dma),
    /// Computes from the TCM to the TCM, in the matrix or vector unit.
    Compute(Strips),
    /// Sends a message to another PE.
    Send(PortMessage),
    /// Receives a message from another PE.
    Receive(PortMessage),
    /// Receives a message from whichever of several PEs has sent one.
    ReceiveAny(Rc<AnyOf>),
    /// Receives a message that stays in its slot.
    ReceiveInSlot(PortMessage, SlotUse),
    /// Frees the slot that a command [holds](SlotUse::Hold).
    Release(HeldSlot),
    /// Many loads, computations and stores that overlap.
    Pipeline(Rc<dyn Pipeline>),
}

/// A message that may come to one of several ports: the first that comes, and in turns if several have
/// come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyOf {
    /// Ports that the message may come to.
    pub ports: Vec<PortId>,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Format of its elements.
    pub format: FormatId,
}

/// Use of a message that stays in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotUse {
    /// The next receive of the port gets the same message. It is not read from a slot in the TCM.
    Look,
    /// The message is used where it is, in the TCM, until its slot is [released](Work::Release).
    Hold,
}

/// A slot that holds a message of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// Port of the message.
    pub port: PortId,
    /// Command that received it.
    pub by: CommandId,
}

/// A message between PEs, at one end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMessage {
    /// Port that it leaves or comes to.
    pub port: PortId,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Format of its elements.
    pub format: FormatId,
}

/// A tiled operation: loads, computations and stores, each kind in order, and their dependencies.
///
/// Load `i` waits until [`load_after`](Self::load_after)`(i)` computations have fetched their operands, because
/// it takes their place in the TCM; computation `i` waits for loads and stores; store `i` for computations.
/// Each of these numbers must not fall as `i` grows.
pub trait Pipeline: fmt::Debug {
    /// Returns the numbers of loads, computations and stores.
    fn parts(&self) -> [u32; 3];
    /// Returns a load.
    fn load(&self, index: u32) -> Dma;
    /// Returns the number of computations that must have fetched their operands before a load.
    fn load_after(&self, index: u32) -> u32;
    /// Returns a computation.
    fn compute(&self, index: u32) -> Strips;
    /// Returns the numbers of loads and stores that must be done before a computation.
    fn compute_after(&self, index: u32) -> [u32; 2];
    /// Returns the number of computations that must be done before one that needs results of the other compute
    /// engine; 0 if it needs none. Asked only of pipelines that use both engines, where GEMM and MATH are
    /// [two](crate::topology::ComputeEngines::Separate). It must not fall as `i` grows within one engine.
    fn compute_after_other(&self, index: u32) -> u32;
    /// Returns a store.
    fn store(&self, index: u32) -> Dma;
    /// Returns the number of computations that must be done before a store.
    fn store_after(&self, index: u32) -> u32;
}
