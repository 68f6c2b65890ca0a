//! Execution of a kernel on a PE: commands, and the engines that carry them out.
//!
//! `PE_CPU` runs the kernel. Each call costs one dispatch and becomes a [`Command`] of the scheduler, which passes it
//! to an engine: DMA reads, DMA writes, or the compute engine. The compute engine streams strips from the TCM through
//! the matrix or vector unit and back; the topology may give each unit a separate engine. An engine serves commands in
//! the order of dispatch, and begins a command when its [dependencies](Command::after) are done. So loads run ahead of
//! their uses, as far as the window of commands in flight allows.
//!
//! The [`Program`] defines the meaning of a command and, in data mode, its result: the device moves bytes and spends
//! time. Only DMA competes with other traffic. The rest is arithmetic on times, so a sequence of commands without DMA
//! costs no event.

mod chunks;
mod core;
mod dependencies;
mod instruction;
mod ipcq;
mod log;
mod packed;
mod progress;
mod strips;

pub use chunks::Chunks;
pub(crate) use core::{Core, Shared, command_of};
pub use dependencies::Dependencies;
pub use instruction::{
    AnyOf, Command, HeldSlot, Instruction, MemoryOrder, Pipeline, PortMessage, SlotUse, Work,
};
pub use ipcq::{PortError, PortSpec, SlotMemory, WaitMode};
pub use log::{OpCause, OpLog, OpRecord, OpUnit, Reason, Stretch};
pub use packed::Instructions;
pub use strips::Strips;

use std::fmt;
use std::rc::Rc;

use cubeyard_sim::Time;

pub use crate::access::Dma;
pub use crate::ids::{CommandId, FormatId, PortId};

/// Token of the core's alarm among the alarms of its `PE_CPU`.
pub(crate) const ALARM: u64 = u64::MAX;

/// Part of a command; loads, computations and stores are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPart {
    /// Load of this index.
    Load(u32),
    /// Computation of this index.
    Compute(u32),
    /// Store of this index.
    Store(u32),
}

/// Program of a PE.
///
/// The core asks a program for one instruction at a time. In data mode, it passes loaded bytes to the program and asks
/// for the bytes to store, in an order that respects the dependencies.
pub trait Program: fmt::Debug {
    /// Returns the next instruction, `None` at the end, or an error message. It is not called again after the end or an
    /// error.
    fn next(&mut self) -> Result<Option<Instruction>, String>;
    /// Returns all instructions, if they are known in advance and the program needs no bytes. Then [`next`](Self::next)
    /// is not called.
    fn instructions(&self) -> Option<Rc<Instructions>> {
        None
    }
    /// Returns the first command of each part that has no order with the other parts, as far as its author knows. A PE runs
    /// the parts one after the other, but another schedule would not: accesses of different parts can race.
    fn parts(&self) -> Vec<CommandId> {
        Vec::new()
    }
    /// Returns whether the program needs the bytes of its loads and stores.
    fn has_data(&self) -> bool {
        false
    }
    /// Receives loaded bytes; `unwritten` is their first address that was never written.
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
    /// Receives the index of the port that a command received from, if it could choose among
    /// [several](Work::ReceiveAny). It is called before [`loaded`](Self::loaded).
    fn chosen(&mut self, command: CommandId, place: usize) -> Result<(), String> {
        let _ = (command, place);
        Ok(())
    }
    /// Performs a computation that is done in simulated time.
    fn computed(&mut self, command: CommandId, part: u32) -> Result<(), String> {
        let _ = (command, part);
        Ok(())
    }
    /// Returns the bytes to store.
    fn payload(&mut self, command: CommandId, store: u32) -> Result<Vec<u8>, String> {
        let _ = (command, store);
        Ok(Vec::new())
    }
    /// Describes a command with its place in the kernel, for reports.
    fn describe(&self, command: CommandId) -> String {
        format!("command {command}")
    }
    /// Returns the name of a format that another program sent, for reports.
    fn format_name(&self, format: FormatId) -> String {
        format!("format {}", format.0)
    }
}

/// Report of a program on a PE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreReport {
    /// Start of the program.
    pub started: Time,
    /// End of the program's last command.
    pub ended: Time,
    /// Number of commands dispatched.
    pub commands: u64,
    /// Number of bytes that DMA moved into the PE, and out of it.
    pub moved: [u64; 2],
    /// Time for which each unit was busy, by [`OpUnit`].
    pub busy: [cubeyard_sim::Span; OpUnit::COUNT],
}
