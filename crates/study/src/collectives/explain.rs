//! Critical path and utilisation of one collective.

use std::collections::BTreeMap;

use cubeyard_collectives::distributed::CollectiveReport;
use cubeyard_device::pe::{OpCause, OpLog, OpUnit, Stretch};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::Context;
use cubeyard_sim::{Span, Time};

/// Name of the part in which a message, or the credit for a slot, is in flight.
const MESSAGE: &str = "message";

/// Critical path of a collective by the unit at work, and the utilisation of the units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explained {
    /// Time of each part of the critical path. The parts add up to the time from the start of the first
    /// PE to the end of the last.
    pub path: Vec<(String, Span)>,
    /// Mean utilisation of each kind of unit over that time, from 0 to 1.
    pub utilisation: Vec<(String, f64)>,
}

impl Explained {
    /// Explains a collective whose operations were recorded.
    pub(super) fn of(context: &Context, report: &CollectiveReport) -> Self {
        let log = context.take_ops();
        let path = context.machine(|machine| path(machine.topology(), &log, report));
        Self { path: path.unwrap_or_default(), utilisation: utilisation(report) }
    }
}

/// Returns the path to the end of the PE that ended last; the first PE if several ended at the same time.
fn path(
    topology: &Topology,
    log: &OpLog,
    report: &CollectiveReport,
) -> Option<Vec<(String, Span)>> {
    let cores = || {
        let launches = report.launches.iter();
        launches.flat_map(|launch| launch.cores.iter().map(|core| (launch.request, core)))
    };
    let cores: Vec<_> = cores().collect();
    let started = cores.iter().map(|(_, (_, core))| core.started).min()?;
    let (request, (pe, core)) = cores.into_iter().rev().max_by_key(|(_, (_, core))| core.ended)?;
    let node = topology.pe_cpu(*pe);
    let last = log.last(|record| record.request == request && record.pe == node)?;
    let stretches = log.path(last, core.ended).take_while(|stretch| stretch.end > started);
    Some(parts(log, stretches, started))
}

fn parts(
    log: &OpLog,
    stretches: impl Iterator<Item = Stretch>,
    started: Time,
) -> Vec<(String, Span)> {
    let mut parts: BTreeMap<&str, Span> = BTreeMap::new();
    let mut first = None;
    for stretch in stretches {
        let start = stretch.start.max(started);
        *parts.entry(name(log, &stretch)).or_insert(Span::ZERO) += stretch.end - start;
        first = Some(start);
    }
    // The first PE on the path started later than another PE.
    if let Some(first) = first.filter(|first| *first > started) {
        *parts.entry("wait").or_insert(Span::ZERO) += first - started;
    }
    parts.into_iter().map(|(name, span)| (name.to_owned(), span)).collect()
}

/// Returns the name of a part, as in the critical path of a run.
fn name(log: &OpLog, stretch: &Stretch) -> &'static str {
    let unit = log.records()[stretch.record as usize].unit;
    match unit {
        _ if !stretch.at_work && stretch.reason.cause == OpCause::Message => MESSAGE,
        _ if !stretch.at_work => "PE_CPU",
        OpUnit::Cpu => "PE_CPU",
        OpUnit::Load => "DMA read",
        OpUnit::Store => "DMA write",
        OpUnit::Fetch | OpUnit::MathFetch => "TCM read",
        OpUnit::Gemm => "GEMM",
        OpUnit::Math => "MATH",
        OpUnit::Keep | OpUnit::MathKeep => "TCM write",
        OpUnit::Send | OpUnit::Receive => MESSAGE,
    }
}

fn utilisation(report: &CollectiveReport) -> Vec<(String, f64)> {
    let cores: Vec<_> = report.launches.iter().flat_map(|launch| &launch.cores).collect();
    let whole = report.kernel.ps().max(1) as f64 * cores.len().max(1) as f64;
    let busy = |unit: OpUnit| {
        let busy: Span = cores.iter().map(|(_, core)| core.busy[unit as usize]).sum();
        (busy > Span::ZERO).then(|| (unit.name().to_owned(), busy.ps() as f64 / whole))
    };
    OpUnit::ALL.into_iter().filter_map(busy).collect()
}
