//! Instructions of programs: commands for the engines, and waits of `PE_CPU`.

use std::fmt;
use std::rc::Rc;

use super::{Dependencies, Strips};
use crate::access::Dma;
use crate::ids::{CommandId, FormatId, PortId};

/// Instruction of a program.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Issues a command to an engine.
    Command(Command),
    /// `PE_CPU` waits until a command is done.
    Wait(CommandId),
    /// `PE_CPU` waits until all commands are done.
    Fence,
    /// `PE_CPU` is busy for the duration of this many dispatches.
    Dispatch(u32),
}

impl Instruction {
    /// Returns the command, if the instruction is one.
    pub fn command(&self) -> Option<&Command> {
        match self {
            Self::Command(command) => Some(command),
            Self::Wait(_) | Self::Fence | Self::Dispatch(_) => None,
        }
    }
}

/// Command for an engine.
#[derive(Clone, Debug)]
pub struct Command {
    /// Work of the engine.
    pub work: Work,
    /// Commands that must be done before any part of this one begins.
    pub after: Dependencies,
    computes_after: Dependencies,
    /// Order that the accesses of an atomic operation establish; `None` for other commands.
    pub atomic: Option<MemoryOrder>,
}

/// Order that an access of an atomic operation establishes between PEs, for the race detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOrder {
    /// No order: the access only never races with other atomic accesses.
    Relaxed,
    /// A read that learns of all that was done before the last release of its address.
    Acquire,
    /// A write that tells of all commands that are done before it.
    Release,
}

impl MemoryOrder {
    /// All orders with their names in kernels.
    pub const NAMES: [(&'static str, Self); 3] =
        [("relaxed", Self::Relaxed), ("acquire", Self::Acquire), ("release", Self::Release)];
}

impl Command {
    /// Creates a command that begins after the commands of `after` are done.
    pub fn new(work: Work, after: Dependencies) -> Self {
        Self { work, after, computes_after: Dependencies::default(), atomic: None }
    }

    /// Creates a pipeline that begins after the commands of `after` are done. Its computations and stores also wait for
    /// the commands of `computes_after`.
    pub fn pipeline(
        pipeline: Rc<dyn Pipeline>,
        after: Dependencies,
        computes_after: Dependencies,
    ) -> Self {
        Self { work: Work::Pipeline(pipeline), after, computes_after, atomic: None }
    }

    /// Returns the further commands that a pipeline's computations and stores wait for; empty for other work.
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
    /// Overlapping loads, computations and stores.
    Pipeline(Rc<dyn Pipeline>),
}

/// Message that may come to one of several ports. The first to arrive is received; if several have arrived, the ports
/// take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyOf {
    /// Ports that the message may come to.
    pub ports: Vec<PortId>,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Format of the message's elements.
    pub format: FormatId,
}

/// Use of a message that stays in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotUse {
    /// The next receive of the port gets the same message. A message in the TCM is not read.
    Look,
    /// The message is used in place, in the TCM, until its slot is [released](Work::Release).
    Hold,
}

/// Slot that holds a message of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// Port of the message.
    pub port: PortId,
    /// Command that received the message.
    pub by: CommandId,
}

/// Message between PEs, at one end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMessage {
    /// Port at which the message leaves or arrives.
    pub port: PortId,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Format of the message's elements.
    pub format: FormatId,
}

/// Tiled operation: loads, computations and stores, each kind in order, and their dependencies.
///
/// Load `i` waits until [`load_after`](Self::load_after)`(i)` computations have fetched their operands, because it
/// takes their place in the TCM. Computation `i` waits for loads and stores; store `i` waits for computations. None of
/// these numbers may decrease as `i` grows.
pub trait Pipeline: fmt::Debug {
    /// Returns the numbers of loads, computations and stores.
    fn parts(&self) -> [u32; 3];
    /// Returns load `index`, which is below the number of loads.
    fn load(&self, index: u32) -> Dma;
    /// Returns the number of computations that must have fetched their operands before a load.
    fn load_after(&self, index: u32) -> u32;
    /// Returns computation `index`, which is below the number of computations.
    fn compute(&self, index: u32) -> Strips;
    /// Returns the numbers of loads and stores that must be done before a computation.
    fn compute_after(&self, index: u32) -> [u32; 2];
    /// Returns the number of computations that must be done before a computation that needs results of the other
    /// compute engine; 0 if it needs none. It is only called for pipelines that use both engines, where GEMM and MATH
    /// are [separate](crate::topology::ComputeEngines::Separate). It must not decrease as `index` grows within one
    /// engine.
    fn compute_after_other(&self, index: u32) -> u32;
    /// Returns store `index`, which is below the number of stores.
    fn store(&self, index: u32) -> Dma;
    /// Returns the number of computations that must be done before a store.
    fn store_after(&self, index: u32) -> u32;
}
