//! What PEs did, operation by operation, and why each began when it did.

use cubeyard_sim::{NodeId, Time};

use super::{CommandId, Part};
use crate::message::RequestId;

/// A unit of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpUnit {
    /// The processor that dispatches.
    Cpu,
    /// DMA reads, into the TCM.
    Load,
    /// DMA writes, out of the TCM.
    Store,
    /// From the TCM to the compute engine.
    Fetch,
    /// The matrix unit.
    Gemm,
    /// The vector unit.
    Math,
    /// From the compute engine to the TCM.
    Keep,
    /// Messages to other PEs.
    Send,
    /// Messages from other PEs.
    Receive,
}

impl OpUnit {
    /// How many there are.
    pub const COUNT: usize = 9;

    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Cpu,
        Self::Load,
        Self::Store,
        Self::Fetch,
        Self::Gemm,
        Self::Math,
        Self::Keep,
        Self::Send,
        Self::Receive,
    ];

    /// As in `DMA read`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "PE_CPU",
            Self::Load => "DMA read",
            Self::Store => "DMA write",
            Self::Fetch => "TCM read",
            Self::Gemm => "GEMM",
            Self::Math => "MATH",
            Self::Keep => "TCM write",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Why an operation did not begin earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The launch had not started.
    Start,
    /// `PE_CPU` had not dispatched it, or the scheduler had not passed it on.
    Dispatch,
    /// The unit was busy with the operation before.
    Unit,
    /// It came after another command.
    After,
    /// The stage before it, or a part of its own command.
    Part,
    /// The window of commands under way was full, or the kernel waited.
    Window,
    /// A message had not come, or no slot for one was free.
    Message,
}

/// An operation of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// The launch.
    pub request: RequestId,
    /// The `PE_CPU` of the PE.
    pub pe: NodeId,
    /// The command.
    pub command: CommandId,
    /// Which part of it.
    pub part: Part,
    /// The unit.
    pub unit: OpUnit,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// From when on its end was up to the unit itself: until then, to the record `before`.
    pub from: Time,
    /// What it waited for last.
    pub cause: Cause,
    /// The record of that, if there is one: it ended when `from` is, or some overhead before.
    pub before: Option<u32>,
}

/// The operations of a machine's PEs, if they are kept.
#[derive(Clone, Debug, Default)]
pub struct OpLog {
    records: Option<Vec<OpRecord>>,
}

impl OpLog {
    /// Keeps records from now on.
    pub fn keep(&mut self) {
        self.records.get_or_insert_default();
    }

    /// Whether records are kept.
    pub fn is_kept(&self) -> bool {
        self.records.is_some()
    }

    /// What was kept.
    pub fn records(&self) -> &[OpRecord] {
        self.records.as_deref().unwrap_or_default()
    }

    /// Forgets all records so far.
    pub fn clear(&mut self) {
        if let Some(records) = &mut self.records {
            records.clear();
        }
    }

    pub(super) fn push(&mut self, record: OpRecord) -> Option<u32> {
        let records = self.records.as_mut()?;
        records.push(record);
        Some(u32::try_from(records.len() - 1).expect("fewer than 2³² operations"))
    }

    /// The operations that led to the end of one, from the last to the first: each began when, or some
    /// overhead after, the one before it ended.
    pub fn path(&self, last: u32) -> impl Iterator<Item = (u32, &OpRecord)> {
        let mut next = Some(last);
        std::iter::from_fn(move || {
            let index = next?;
            let record = &self.records()[index as usize];
            next = record.before;
            Some((index, record))
        })
    }
}
