//! Log of the operations of PEs, with the reason for each start.

use cubeyard_sim::{NodeId, Span, Time};

use super::{CommandId, CommandPart};
use crate::message::RequestId;

/// Unit of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpUnit {
    /// Dispatching processor, `PE_CPU`.
    Cpu,
    /// DMA engines for reads, into the TCM.
    Load,
    /// DMA engines for writes, out of the TCM.
    Store,
    /// Path from the TCM to the compute engine; if MATH has a separate engine, to the engine of GEMM.
    Fetch,
    /// Matrix unit of the compute engine.
    Gemm,
    /// Vector unit of the compute engine.
    Math,
    /// Path from the compute engine to the TCM; if MATH has a separate engine, from the engine of GEMM.
    Keep,
    /// Path from the TCM to a separate engine of MATH.
    MathFetch,
    /// Path from a separate engine of MATH to the TCM.
    MathKeep,
    /// Messages to other PEs.
    Send,
    /// Messages from other PEs.
    Receive,
}

impl OpUnit {
    /// Number of units.
    pub const COUNT: usize = 11;

    /// All units, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Cpu,
        Self::Load,
        Self::Store,
        Self::Fetch,
        Self::Gemm,
        Self::Math,
        Self::Keep,
        Self::MathFetch,
        Self::MathKeep,
        Self::Send,
        Self::Receive,
    ];

    /// Returns the name of the unit, as in `DMA read`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "PE_CPU",
            Self::Load => "DMA read",
            Self::Store => "DMA write",
            Self::Fetch => "TCM read",
            Self::Gemm => "GEMM",
            Self::Math => "MATH",
            Self::Keep => "TCM write",
            Self::MathFetch => "TCM read of MATH",
            Self::MathKeep => "TCM write of MATH",
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Cause that kept an operation from beginning earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpCause {
    /// The launch had not started.
    #[default]
    Start,
    /// `PE_CPU` had not dispatched it, or the scheduler had not passed it on.
    Dispatch,
    /// The unit was busy with the previous operation.
    Unit,
    /// Another command that the operation depends on was pending.
    After,
    /// The previous stage, or another part of the same command, was pending.
    Part,
    /// The window of commands in flight was full, or the kernel waited.
    Window,
    /// A message had not arrived, or no slot for one was free.
    Message,
}

/// Operation of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpRecord {
    /// Launch of the program.
    pub request: RequestId,
    /// `PE_CPU` of the PE.
    pub pe: NodeId,
    /// Command of the operation.
    pub command: CommandId,
    /// Part of the command.
    pub part: CommandPart,
    /// Unit that performed the operation.
    pub unit: OpUnit,
    /// Start of the operation.
    pub start: Time,
    /// End of the operation.
    pub end: Time,
    /// Busy time of the unit. A stage of the compute engine also waits between strips for slower stages.
    pub busy: Span,
    /// Reason why the operation did not begin earlier.
    pub began: Reason,
    /// Time from which the end depended on the unit alone.
    pub from: Time,
    /// Reason why that time was not earlier: the reason of the start, or the previous stage, which delayed this one up
    /// to the last strip.
    pub ended: Reason,
}

/// Last event that an operation waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Kind of the event.
    pub cause: OpCause,
    /// Index of the event's record, if there is one. The recorded operation ended at that instant, or earlier by some
    /// overhead; or it is the previous stage, whose first strip was done.
    pub before: Option<u32>,
}

/// Interval of the critical path to the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start of the interval.
    pub start: Time,
    /// End of the interval.
    pub end: Time,
    /// Index of the operation's record.
    pub record: u32,
    /// Reason why the operation was not earlier, or reason for the overhead before it.
    pub reason: Reason,
    /// Whether the operation was in progress; otherwise the interval is overhead before it, or after the last
    /// operation.
    pub at_work: bool,
}

/// Operations of a machine's PEs, if recording is on.
#[derive(Clone, Debug, Default)]
pub struct OpLog {
    records: Option<Vec<OpRecord>>,
}

impl OpLog {
    /// Starts recording; later operations are kept.
    pub fn keep(&mut self) {
        self.records.get_or_insert_default();
    }

    /// Returns whether recording is on.
    pub fn is_kept(&self) -> bool {
        self.records.is_some()
    }

    /// Returns all records, none if recording is off.
    pub fn records(&self) -> &[OpRecord] {
        self.records.as_deref().unwrap_or_default()
    }

    /// Removes all records so far.
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

    /// Returns the critical path to `until`, which is not before the end of operation `last`, as stretches from last to
    /// first. Each stretch begins where the next one in the list ends; the final one begins when the launch started.
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

    /// Returns the selected operation that ends last; the first one if several end together.
    pub fn last(&self, mut of: impl FnMut(&OpRecord) -> bool) -> Option<u32> {
        let records = self.records().iter().enumerate().rev();
        let last = records.filter(|(_, record)| of(record)).max_by_key(|(_, record)| record.end);
        last.map(|(index, _)| u32::try_from(index).expect("fewer than 2³² operations"))
    }
}

impl OpRecord {
    /// Returns the time from which the operation worked towards `until`, and the reason before that. A wait that ends
    /// before the operation's end was for its first strip only.
    fn led_to(&self, until: Time) -> (Time, Reason) {
        if until == self.end { (self.from, self.ended) } else { (self.start, self.began) }
    }
}

fn overhead(record: u32, reason: Reason, start: Time, end: Time) -> Option<Stretch> {
    (start < end).then_some(Stretch { start, end, record, reason, at_work: false })
}
