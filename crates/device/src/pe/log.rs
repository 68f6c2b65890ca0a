//! Log of the operations of PEs, with the reason for each start.

use cubeyard_sim::{NodeId, Span, Time};

use super::{CommandId, CommandPart};
use crate::message::RequestId;

/// A unit of a PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpUnit {
    /// `PE_CPU`, which dispatches.
    Cpu,
    /// DMA engines that read, into the TCM.
    Load,
    /// DMA engines that write, out of the TCM.
    Store,
    /// Path from the TCM to the compute engine; to that of GEMM if MATH has its own.
    Fetch,
    /// Matrix unit of the compute engine.
    Gemm,
    /// Vector unit of the compute engine.
    Math,
    /// Path from the compute engine to the TCM; from that of GEMM if MATH has its own.
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

    /// Returns the name, as in `DMA read`.
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

/// Cause for which an operation did not begin earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpCause {
    /// The launch had not started.
    #[default]
    Start,
    /// `PE_CPU` had not dispatched it, or the scheduler had not passed it on.
    Dispatch,
    /// The unit was busy with the operation before.
    Unit,
    /// Another command that it depends on was not done.
    After,
    /// The stage before it, or a part of its own command, was not done.
    Part,
    /// The window of commands under way was full, or the kernel waited.
    Window,
    /// A message had not come, or no slot for one was free.
    Message,
}

/// An operation of a unit.
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
    /// Unit that worked.
    pub unit: OpUnit,
    /// Start of the operation.
    pub start: Time,
    /// End of the operation.
    pub end: Time,
    /// Working time of the unit: a stage of the compute engine also waits for slower ones between strips.
    pub busy: Span,
    /// Reason for not beginning earlier.
    pub began: Reason,
    /// Time from which on the end depended on the unit alone.
    pub from: Time,
    /// Reason for not ending earlier before that time: that of its start, or the stage before, which kept it
    /// waiting up to the last strip.
    pub ended: Reason,
}

/// Last event that an operation waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Kind of the event.
    pub cause: OpCause,
    /// Index of the event's record, if there is one. It ended at that instant, or some overhead before; or it
    /// is the stage before, whose first strip was done.
    pub before: Option<u32>,
}

/// A stretch of the critical path to the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start of the stretch.
    pub start: Time,
    /// End of the stretch.
    pub end: Time,
    /// Index of the operation's record.
    pub record: u32,
    /// Reason for the operation not being earlier, or for the overhead before it.
    pub reason: Reason,
    /// Whether the operation was under way; otherwise overhead passed before it, or after the last.
    pub at_work: bool,
}

/// Operations of a machine's PEs, if they are kept.
#[derive(Clone, Debug, Default)]
pub struct OpLog {
    records: Option<Vec<OpRecord>>,
}

impl OpLog {
    /// Keeps records from now on.
    pub fn keep(&mut self) {
        self.records.get_or_insert_default();
    }

    /// Returns whether records are kept.
    pub fn is_kept(&self) -> bool {
        self.records.is_some()
    }

    /// Returns all records.
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

    /// Returns the critical path to `until`, not before the end of operation `last`, from the last stretch to the
    /// first: each begins where the next in the list ends, and the last begins when the launch started.
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

    /// Returns the selected operation that ends last; the first of equals.
    pub fn last(&self, mut of: impl FnMut(&OpRecord) -> bool) -> Option<u32> {
        let records = self.records().iter().enumerate().rev();
        let last = records.filter(|(_, record)| of(record)).max_by_key(|(_, record)| record.end);
        last.map(|(index, _)| u32::try_from(index).expect("fewer than 2³² operations"))
    }
}

impl OpRecord {
    /// Returns the time from which on it worked towards `until`, and the reason before that. A wait that ends
    /// before the operation was for its first strip only.
    fn led_to(&self, until: Time) -> (Time, Reason) {
        if until == self.end { (self.from, self.ended) } else { (self.start, self.began) }
    }
}

fn overhead(record: u32, reason: Reason, start: Time, end: Time) -> Option<Stretch> {
    (start < end).then_some(Stretch { start, end, record, reason, at_work: false })
}
