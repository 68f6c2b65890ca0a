//! What a PE does with a kernel: commands, and the engines that carry them out.
//!
//! `PE_CPU` runs the kernel: each call costs it a dispatch and becomes a [`Command`] of the scheduler, which
//! hands it to an engine. There are three of these: DMA reads, DMA writes, and the compute engine, which
//! streams strips from the TCM through the matrix or vector unit and back. An engine serves commands in the
//! order in which they were dispatched, and begins one when the commands that it comes
//! [after](Command::after) are done. So loads run ahead of what uses them, as far as the window of commands
//! under way allows.
//!
//! What a command means, and in data mode what it computes, is the [`Program`]'s business: the device moves
//! bytes and spends time.
//!
//! Only DMA meets other traffic. All else is arithmetic on times, so a run of commands without DMA costs no
//! event.

mod brief;
mod chunks;
mod core;
mod dependencies;
mod ipcq;
mod log;
mod progress;
mod step;
mod strips;

pub use chunks::Chunks;
pub(crate) use core::{Core, Shared, command_of};
pub use dependencies::Dependencies;
pub use ipcq::{PortError, PortSpec, SlotMemory, Waiting};
pub use log::{Cause, OpLog, OpRecord, OpUnit, Reason, Stretch};
pub use step::{Step, Steps};
pub use strips::Strips;

use std::fmt;
use std::rc::Rc;

use cubeyard_sim::Time;

pub use crate::ids::{CommandId, Format, PortId};

use crate::access::{Direction, Rows};

/// The alarm of a core, among those of the processor that it belongs to.
pub(crate) const ALARM: u64 = u64::MAX;

/// Something for an engine to do.
#[derive(Clone, Debug)]
pub struct Command {
    /// What.
    pub work: Work,
    /// The commands that must be done before.
    pub after: Dependencies,
    /// The commands that must be done before a [pipeline](Work::Pipeline) loads; it does not wait for
    /// those of `after` to begin with that.
    pub loads_after: Dependencies,
}

/// What a command is.
#[derive(Clone, Debug)]
pub enum Work {
    /// Into the TCM, or out of it.
    Dma(Dma),
    /// From the TCM through the matrix or vector unit and back.
    Compute(Strips),
    /// To another PE, which receives it.
    Send(Message),
    /// From another PE.
    Receive(Message),
    /// From whichever of several other PEs has sent something.
    ReceiveAny(Rc<AnyOf>),
    /// Many loads, computations and stores that overlap.
    Pipeline(Rc<dyn Pipeline>),
}

/// A message that may come from one of several ports: the first that comes, and by turns where several are
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyOf {
    /// The ports.
    pub ports: Vec<PortId>,
    /// How long it is.
    pub bytes: u64,
    /// Format of its elements.
    pub format: Format,
}

/// A message between PEs, at one end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The port.
    pub port: PortId,
    /// How long it is.
    pub bytes: u64,
    /// Format of its elements.
    pub format: Format,
}

/// An access of a DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Read or write, as the memory sees it.
    pub direction: Direction,
    /// A virtual address, or a physical one where nothing is mapped.
    pub address: u64,
    /// How much.
    pub bytes: u64,
    /// How it lies there, if not in one piece.
    pub rows: Option<Rows>,
}

/// A tiled operation: loads, computations and stores in their orders, and how far each must wait for others.
///
/// Load `i` waits until [`load_after`](Self::load_after)`(i)` computations have fetched their operands, because
/// it takes the place of those; computation `i` waits for loads and stores; store `i` for computations.
/// Each of these must not fall as `i` grows.
pub trait Pipeline: fmt::Debug {
    /// How many loads, computations and stores there are.
    fn parts(&self) -> [u32; 3];
    /// A load.
    fn load(&self, index: u32) -> Dma;
    /// How many computations a load waits for, until they have fetched their operands.
    fn load_after(&self, index: u32) -> u32;
    /// A computation.
    fn compute(&self, index: u32) -> Strips;
    /// How many loads and stores a computation waits for.
    fn compute_after(&self, index: u32) -> [u32; 2];
    /// A store.
    fn store(&self, index: u32) -> Dma;
    /// How many computations a store waits for.
    fn store_after(&self, index: u32) -> u32;
}

/// What comes next in a program.
#[derive(Debug)]
pub enum Next {
    /// A command.
    Command(Command),
    /// `PE_CPU` waits until a command is done.
    Wait(CommandId),
    /// `PE_CPU` waits until all commands are done.
    Fence,
    /// `PE_CPU` does something else for so many dispatches.
    Dispatch(u32),
    /// Nothing: it has ended.
    End,
    /// It went wrong, in words.
    Failed(String),
}

/// A part of a command: loads, computations and stores are counted each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A load.
    Load(u32),
    /// A computation.
    Compute(u32),
    /// A store.
    Store(u32),
}

/// What a PE runs.
///
/// A program is asked for commands one at a time, and in data mode is told what was loaded and asked what is
/// to be stored. It is asked in an order in which whatever a part needs has come before.
pub trait Program: fmt::Debug {
    /// The next command. It is not asked again after the end or a failure.
    fn next(&mut self) -> Next;
    /// All its steps, if they are known from the beginning and it wants no bytes: then it is not asked for the
    /// [next](Self::next).
    fn steps(&self) -> Option<Rc<Steps>> {
        None
    }
    /// Whether it wants the bytes.
    fn has_data(&self) -> bool {
        false
    }
    /// Bytes have been loaded, all of which somebody wrote but for the address given.
    fn loaded(
        &mut self,
        command: CommandId,
        load: u32,
        bytes: Vec<u8>,
        unwritten: Option<u64>,
    ) -> Result<(), String> {
        let _ = (command, load, bytes, unwritten);
        Ok(())
    }
    /// A command that receives from [one of several](Work::ReceiveAny) ports has one: its place among them. This
    /// is told before what is received.
    fn chosen(&mut self, command: CommandId, place: usize) -> Result<(), String> {
        let _ = (command, place);
        Ok(())
    }
    /// A computation is done.
    fn computed(&mut self, command: CommandId, part: u32) -> Result<(), String> {
        let _ = (command, part);
        Ok(())
    }
    /// The bytes of a store.
    fn payload(&mut self, command: CommandId, store: u32) -> Result<Vec<u8>, String> {
        let _ = (command, store);
        Ok(Vec::new())
    }
    /// A command in words, with the place in the kernel, for reports.
    fn describe(&self, command: CommandId) -> String {
        format!("command {command}")
    }
    /// The name of a format that another program sent, for reports.
    fn format_name(&self, format: Format) -> String {
        format!("format {}", format.0)
    }
}

/// What came of a program on a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreReport {
    /// When it started.
    pub started: Time,
    /// When its last command was done.
    pub ended: Time,
    /// Commands dispatched.
    pub commands: u64,
    /// Bytes that DMA moved into the PE, and out of it.
    pub moved: [u64; 2],
    /// How long each unit was busy, by [`OpUnit`].
    pub busy: [cubeyard_sim::Span; OpUnit::COUNT],
}
