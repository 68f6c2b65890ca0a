//! What the operations of a PE's units were for, in the words of the kernel.

use cubeyard_device::pe::{Dma, OpRecord, OpUnit, Part, Work};

use super::Recording;
use crate::tl::{Effect, Order, place};

/// What an operation was for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The command: `load f16[64, 32]`.
    pub command: String,
    /// Which part of it, where there are several: `A[0:32, 64:128]`.
    pub part: Option<String>,
    /// The line of the kernel: `softmax.rs:41`.
    pub place: String,
    /// The access, if it is one.
    pub dma: Option<Dma>,
}

impl Operation {
    /// The command and the part.
    pub fn name(&self) -> String {
        match &self.part {
            Some(part) => format!("{}: {part}", self.command),
            None => self.command.clone(),
        }
    }
}

impl Recording {
    /// What an operation of its PE was for; none for a dispatch after the last command.
    pub fn operation(&self, record: &OpRecord) -> Option<Operation> {
        let tape = self.tape();
        if record.command as usize >= tape.commands() {
            return None;
        }
        let (order, work) = (tape.order(record.command), tape.work(record.command));
        let is_dispatch = record.unit == OpUnit::Cpu;
        Some(Operation {
            command: order.effect.brief(),
            part: if is_dispatch { None } else { part(order, &work, record.part) },
            place: place(order.place),
            dma: if is_dispatch { None } else { dma(&work, record.part) },
        })
    }
}

/// Which part of a command one is, if it has several.
fn part(order: &Order, work: &Work, part: Part) -> Option<String> {
    if let Effect::Composite(plan) = &order.effect {
        return Some(plan.part(part));
    }
    let Work::Pipeline(accesses) = work else { return None };
    let [loads, _, stores] = accesses.parts();
    match part {
        Part::Load(index) => Some(format!("access {} of {loads}", index + 1)),
        Part::Store(index) => Some(format!("access {} of {stores}", index + 1)),
        Part::Compute(_) => None,
    }
}

/// The access that a part is, if it is one.
fn dma(work: &Work, part: Part) -> Option<Dma> {
    match (work, part) {
        (Work::Dma(dma), Part::Load(_) | Part::Store(_)) => Some(*dma),
        (Work::Pipeline(pipeline), Part::Load(index)) => Some(pipeline.load(index)),
        (Work::Pipeline(pipeline), Part::Store(index)) => Some(pipeline.store(index)),
        _ => None,
    }
}
