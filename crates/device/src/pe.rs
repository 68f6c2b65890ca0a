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
pub use instruction::{AnyOf, Command, Dma, Instruction, Pipeline, PortMessage, Work};
pub use ipcq::{PortError, PortSpec, SlotMemory, WaitMode};
pub use log::{OpCause, OpLog, OpRecord, OpUnit, Reason, Stretch};
pub use packed::Instructions;
pub use strips::Strips;

use std::fmt;
use std::rc::Rc;

use cubeyard_sim::Time;

pub use crate::ids::{CommandId, Format, PortId};

/// The alarm of a core, among those of the processor that it belongs to.
pub(crate) const ALARM: u64 = u64::MAX;

/// A part of a command: loads, computations and stores are counted each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandPart {
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
    /// Returns the next instruction, none at the end, or an error in words. It is not called again after
    /// the end or an error.
    fn next(&mut self) -> Result<Option<Instruction>, String>;
    /// Returns all instructions, if they are known from the beginning and the program wants no bytes: then
    /// [`next`](Self::next) is not called.
    fn instructions(&self) -> Option<Rc<Instructions>> {
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
