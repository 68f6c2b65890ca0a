//! What PEs did, operation by operation, and why each began when it did.

use cubeyard_sim::{NodeId, Span, Time};

use super::{CommandId, CommandPart};
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpCause {
    /// The launch had not started.
    #[default]
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
    pub part: CommandPart,
    /// The unit.
    pub unit: OpUnit,
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// How long the unit worked in that time: a stage of the compute engine waits between strips for slower ones.
    pub busy: Span,
    /// Why it did not begin earlier.
    pub began: Reason,
    /// From when on its end was up to the unit itself.
    pub from: Time,
    /// What its end was up to until then: what its beginning was up to, or the stage before it, which kept
    /// it waiting to the last strip.
    pub ended: Reason,
}

/// What an operation waited for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What.
    pub cause: OpCause,
    /// The record of that, if there is one. It ended at that instant, or some overhead before; or it is the
    /// stage before, whose first strip was done.
    pub before: Option<u32>,
}

/// A stretch of the time that led to the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
    /// The operation that took it.
    pub record: u32,
    /// Why the operation was not earlier, or what passed before it.
    pub reason: Reason,
    /// Whether the operation was under way; or else overhead passed before it, or after the last.
    pub at_work: bool,
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

    /// The time that led to an instant, at which an operation had ended, from the last stretch to the first:
    /// each begins where the next one in the list ends, and the last begins when the launch started.
    pub fn path(&self, last: u32, until: Time) -> impl Iterator<Item = Stretch> {
        let end = self.records()[last as usize].end;
        let reason = Reason { cause: OpCause::Dispatch, before: Some(last) };
        let after = overhead(last, reason, end, until);
        let mut at = Some((last, until.min(end)));
        let work = std::iter::from_fn(move || {
            let (index, until) = at?;
            let record = &self.records()[index as usize];
            let (start, reason) = record.led_to(until);
            let before = reason.before.map(|before| (before, &self.records()[before as usize]));
            let passed = before.map_or(start, |(_, record)| record.end.min(start));
            at = before.map(|(index, _)| (index, passed));
            let work = Stretch { start, end: until, record: index, reason, at_work: true };
            Some([Some(work), overhead(index, reason, passed, start)])
        });
        after
            .into_iter()
            .chain(work.flatten().flatten())
            .filter(|stretch| stretch.start < stretch.end)
    }

    /// The last of some operations to end; the first of equals.
    pub fn last(&self, mut of: impl FnMut(&OpRecord) -> bool) -> Option<u32> {
        let records = self.records().iter().enumerate().rev();
        let last = records.filter(|(_, record)| of(record)).max_by_key(|(_, record)| record.end);
        last.map(|(index, _)| u32::try_from(index).expect("fewer than 2³² operations"))
    }
}

impl OpRecord {
    /// From when on an instant of it was up to the unit itself, and what it was up to until then. Before its
    /// end somebody waited for no more than its first strip.
    fn led_to(&self, until: Time) -> (Time, Reason) {
        if until == self.end { (self.from, self.ended) } else { (self.start, self.began) }
    }
}

/// What passed before an operation, if anything did.
fn overhead(record: u32, reason: Reason, start: Time, end: Time) -> Option<Stretch> {
    (start < end).then_some(Stretch { start, end, record, reason, at_work: false })
}
