//! Operations of a PE's units, described in terms of the kernel.

use cubeyard_device::pe::{CommandPart, Dma, OpRecord, OpUnit, Work};

use super::Recording;
use crate::{Effect, Order};

/// The command, part and line of a unit's operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpDescription {
    /// The command, e.g. `load f16[64, 32]`.
    pub command: String,
    /// The part of the command if it has several, e.g. `A[0:32, 64:128]`.
    pub part: Option<String>,
    /// The line of the kernel, e.g. `softmax.rs:41`.
    pub place: String,
    /// The memory access, if the operation is one.
    pub dma: Option<Dma>,
}

impl OpDescription {
    /// Returns the command with its part.
    pub fn name(&self) -> String {
        match &self.part {
            Some(part) => format!("{}: {part}", self.command),
            None => self.command.clone(),
        }
    }
}

impl Recording {
    /// Describes an operation of the PE; `None` for a dispatch after the last command.
    pub fn operation(&self, record: &OpRecord) -> Option<OpDescription> {
        let tape = self.tape();
        if record.command as usize >= tape.commands() {
            return None;
        }
        let (order, work) = (tape.order(record.command), tape.work(record.command));
        let is_dispatch = record.unit == OpUnit::Cpu;
        Some(OpDescription {
            command: order.effect.brief(),
            part: if is_dispatch { None } else { part(order, &work, record.part) },
            place: tape.place(record.command).to_string(),
            dma: if is_dispatch { None } else { dma(&work, record.part) },
        })
    }
}

/// Names a part of a command that has several.
fn part(order: &Order, work: &Work, part: CommandPart) -> Option<String> {
    if let Effect::Composite(plan) = &order.effect {
        return Some(plan.part(part));
    }
    let Work::Pipeline(accesses) = work else { return None };
    let [loads, _, stores] = accesses.parts();
    match part {
        CommandPart::Load(index) => Some(format!("access {} of {loads}", index + 1)),
        CommandPart::Store(index) => Some(format!("access {} of {stores}", index + 1)),
        CommandPart::Compute(_) => None,
    }
}

/// Returns the access of a part, if the part is one.
fn dma(work: &Work, part: CommandPart) -> Option<Dma> {
    match (work, part) {
        (Work::Dma(dma), CommandPart::Load(_) | CommandPart::Store(_)) => Some(*dma),
        (Work::Pipeline(pipeline), CommandPart::Load(index)) => Some(pipeline.load(index)),
        (Work::Pipeline(pipeline), CommandPart::Store(index)) => Some(pipeline.store(index)),
        _ => None,
    }
}
