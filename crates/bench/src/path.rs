//! Critical path of launches that ran at the same time: the gapless chain of causes that led
//! to the end of the last PE.
//!
//! Where that PE waited for a message, the path continues at the sender; where the sender waited for a slot, it
//! continues at the receiver that freed the slot. Time counts from the first start, whichever PE is on the path.

use cubeyard_device::machine::{Machine, Rehearsal};
use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{CoreReport, Dma, OpCause, OpLog, OpRecord, OpUnit, Stretch};
use cubeyard_device::request::PeRef;
use cubeyard_runtime::LaunchReport;
use cubeyard_sim::{NodeId, Span, Time};

use crate::report::{AccessTime, SliceKind, Step};
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::program::OpDescription;

/// Step of the path, with its command.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// Step as reported; its times count from the start of the phase.
    pub(super) step: Step,
    /// Command to which the step belongs, e.g. `load f16[64, 32]`.
    pub(super) command: String,
    /// Index of the operation, if one was in progress.
    pub(super) record: Option<u32>,
}

/// Returns the path of launches that have just ended, while their tensors are still mapped; `started` is the
/// start of the first launch.
pub(super) fn path(
    launcher: &Launcher,
    reports: &[(String, LaunchReport)],
    started: Time,
) -> Vec<Leg> {
    let Some((request, pe, core)) = last(reports) else { return Vec::new() };
    launcher.context().machine(|machine| {
        let (topology, log) = (machine.topology(), machine.view().ops());
        let node = topology.pe_cpu(pe);
        let last = log.last(|record| record.request == request && record.pe == node);
        let Some(last) = last else { return Vec::new() };
        let mut walk = Walk { machine, log: &log, launcher, node, started, rehearsal: None };
        let stretches = log.path(last, core.ended);
        // Earlier launches are not part of this time.
        let stretches = stretches.take_while(|stretch| stretch.end > started);
        let mut legs: Vec<_> = stretches.map(|stretch| walk.leg(stretch)).collect();
        legs.extend(before(legs.last()));
        legs.reverse();
        legs
    })
}

/// Returns the PE that ended last, with its launch; the first PE if several ended at the same time.
fn last(launches: &[(String, LaunchReport)]) -> Option<(RequestId, PeRef, CoreReport)> {
    let cores = launches
        .iter()
        .flat_map(|(_, launch)| launch.cores.iter().map(|&(pe, core)| (launch.request, pe, core)));
    let cores: Vec<_> = cores.collect();
    cores.into_iter().rev().max_by_key(|(_, _, core)| core.ended)
}

/// Context for naming the stretches of a path.
struct Walk<'a> {
    machine: &'a Machine,
    log: &'a OpLog,
    launcher: &'a Launcher,
    /// `PE_CPU` of the PE that ended last.
    node: NodeId,
    started: Time,
    /// Machine for measuring single accesses, created when first needed.
    rehearsal: Option<Rehearsal>,
}

impl Walk<'_> {
    fn leg(&mut self, stretch: Stretch) -> Leg {
        let record = self.log.records()[stretch.record as usize];
        let operation = self.operation(&record);
        let (kind, what) = self.named(&stretch, &record, operation.as_ref());
        let start = stretch.start.max(self.started);
        let whole = operation.as_ref().filter(|_| stretch.at_work && start == stretch.start);
        let step = Step {
            start: start - self.started,
            end: stretch.end - self.started,
            what,
            kind,
            place: operation.as_ref().map(|it| it.place.clone()).unwrap_or_default(),
            why: self.why(&stretch, &record),
            access: whole.and_then(|it| self.access(&record, it, stretch.end - start)),
        };
        let command = operation.map(|it| it.command).unwrap_or_default();
        Leg { step, command, record: stretch.at_work.then_some(stretch.record) }
    }

    fn pe(&self, record: &OpRecord) -> PeRef {
        self.machine.topology().pe_of(record.pe).expect("records are of PEs")
    }

    /// Describes an operation in terms of the kernel of its PE.
    fn operation(&self, record: &OpRecord) -> Option<OpDescription> {
        self.launcher.ran(record.request, self.pe(record))?.operation(record)
    }

    /// Returns the kind and description of a stretch; names the PE unless it is the PE that ended last.
    fn named(
        &self,
        stretch: &Stretch,
        record: &OpRecord,
        operation: Option<&OpDescription>,
    ) -> (SliceKind, String) {
        let name = operation.map_or_else(String::new, OpDescription::name);
        if !stretch.at_work && stretch.reason.cause == OpCause::Message {
            let (it, to) = (carried(record.unit), self.pe(record));
            return (SliceKind::Message, format!("{it} on its way to {to}"));
        }
        let (kind, what) = if stretch.at_work {
            (kind(record.unit), what(record.unit, &name))
        } else {
            (SliceKind::Cpu, format!("the scheduler passes on {name}").trim_end().to_owned())
        };
        let other = (record.pe != self.node).then(|| format!(" on {}", self.pe(record)));
        (kind, what + &other.unwrap_or_default())
    }

    /// Splits the time of an access: its duration on an idle machine, and the rest.
    fn access(
        &mut self,
        record: &OpRecord,
        operation: &OpDescription,
        took: Span,
    ) -> Option<AccessTime> {
        let (dma, pe) = (operation.dma?, self.pe(record));
        let in_one_piece = self.machine.view().unloaded_dma_latency(pe, &dma)?;
        let alone = match dma.rows {
            Some(_) => self.rehearsed(pe, &dma)?,
            None => in_one_piece.total(),
        };
        Some(AccessTime {
            overhead: in_one_piece.overhead + in_one_piece.wire,
            serialisation: in_one_piece.serialisation,
            service: in_one_piece.service,
            rows: Span::from_ps(alone.ps().checked_sub(in_one_piece.total().ps())?),
            waiting: Span::from_ps(took.ps().checked_sub(alone.ps())?),
        })
    }

    /// Measures the duration of a strided access on an idle machine.
    fn rehearsed(&mut self, pe: PeRef, dma: &Dma) -> Option<Span> {
        let extent = dma.extent();
        let address = self.machine.view().physical(pe, dma.address, extent)?.to_bits();
        let topology = self.machine.topology();
        let rehearsal = self.rehearsal.get_or_insert_with(|| Rehearsal::new(topology));
        rehearsal.span(pe, &Dma { address, ..*dma })
    }

    fn why(&self, stretch: &Stretch, record: &OpRecord) -> String {
        if !stretch.at_work && stretch.reason.cause != OpCause::Message {
            return "its overhead for each command".to_owned();
        }
        let before = stretch.reason.before.map(|before| &self.log.records()[before as usize]);
        let Some(before) = before else { return LAUNCHED.to_owned() };
        let name = self.operation(before).map_or_else(String::new, |it| it.name());
        let pe = (before.pe != record.pe).then(|| self.pe(before));
        let its = named_on(before.unit, &name, pe);
        if !stretch.at_work {
            return format!("after {its}");
        }
        cause(record, stretch.reason.cause, before, &its)
    }
}

/// Reason for the first operations of a launch.
pub(super) const LAUNCHED: &str = "the launch began";

/// Describes a unit's role in an operation; `pe` is the operation's PE if it is another one than the reader expects.
pub(super) fn named_on(unit: OpUnit, name: &str, pe: Option<PeRef>) -> String {
    what(unit, name) + &pe.map(|pe| format!(" on {pe}")).unwrap_or_default()
}

/// Describes the cause that kept an operation from beginning before the end of another, which `its` describes.
pub(super) fn cause(record: &OpRecord, cause: OpCause, before: &OpRecord, its: &str) -> String {
    match cause {
        OpCause::Start => LAUNCHED.to_owned(),
        OpCause::Dispatch if record.unit == OpUnit::Cpu => "one call after the other".to_owned(),
        OpCause::Dispatch => "it was dispatched then".to_owned(),
        // Units of one engine take turns: the busy unit may be another unit than the operation's own.
        OpCause::Unit => format!("{} was busy: {its}", before.unit.name()),
        // A load has no operands: it waits for its memory in the TCM.
        OpCause::After if record.unit == OpUnit::Load => {
            format!("its place in the TCM was free after {its}")
        }
        OpCause::After => format!("it comes after {its}"),
        OpCause::Part => format!("after {}: {its}", before.unit.name()),
        OpCause::Window => format!("PE_CPU waited for {its}"),
        OpCause::Message if record.unit == OpUnit::Send => format!("a slot was free after {its}"),
        OpCause::Message => format!("it came after {its}"),
    }
}

/// Returns the time before the first leg, if its PE started later than the first PE.
fn before(first: Option<&Leg>) -> Option<Leg> {
    let end = first.map(|leg| leg.step.start).filter(|start| *start > Span::ZERO)?;
    let step = Step {
        start: Span::ZERO,
        end,
        what: "the launch is on its way to another PE".to_owned(),
        kind: SliceKind::Wait,
        place: String::new(),
        why: "the first of the path started later than others".to_owned(),
        access: None,
    };
    Some(Leg { step, command: String::new(), record: None })
}

/// Names the thing that an operation of a unit waits for from another PE.
fn carried(unit: OpUnit) -> &'static str {
    if unit == OpUnit::Send { "the credit for a slot" } else { "the message" }
}

/// Describes a unit's role in an operation.
pub(super) fn what(unit: OpUnit, name: &str) -> String {
    let text = match unit {
        OpUnit::Cpu => format!("dispatch of {name}"),
        OpUnit::Fetch | OpUnit::MathFetch => format!("operands of {name}"),
        OpUnit::Keep | OpUnit::MathKeep => format!("results of {name}"),
        OpUnit::Load
        | OpUnit::Store
        | OpUnit::Gemm
        | OpUnit::Math
        | OpUnit::Send
        | OpUnit::Receive => name.to_owned(),
    };
    text.trim_end_matches(" of ").to_owned()
}

/// Returns the kind of work that a unit does.
pub(super) fn kind(unit: OpUnit) -> SliceKind {
    match unit {
        OpUnit::Cpu => SliceKind::Cpu,
        OpUnit::Load => SliceKind::DmaRead,
        OpUnit::Store => SliceKind::DmaWrite,
        OpUnit::Fetch | OpUnit::MathFetch => SliceKind::Fetch,
        OpUnit::Gemm => SliceKind::Gemm,
        OpUnit::Math => SliceKind::Math,
        OpUnit::Keep | OpUnit::MathKeep => SliceKind::Store,
        OpUnit::Send | OpUnit::Receive => SliceKind::Message,
    }
}
