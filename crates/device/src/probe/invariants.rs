//! Properties of the measurements that hold on any sound machine.

use serde::Serialize;

use super::{CaseReport, Category};
use crate::topology::Topology;

/// Result of checking one property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invariant {
    /// Property that must hold.
    pub claim: String,
    /// Latencies that were compared, as text.
    pub evidence: String,
    /// Whether the property holds.
    pub holds: bool,
}

/// Checks all properties at the reference size. Properties for which the machine has too few cases are omitted. So is
/// the closed form where it does not apply: with finite buffers, or with rows in the HBM.
pub fn invariants(topology: &Topology, reports: &[CaseReport]) -> Vec<Invariant> {
    let of = |category| reports.iter().filter(move |report| report.case.category == category);
    let mut found = Vec::new();
    for (category, claim) in [
        (Category::HostToDevice, "host writes take longer the farther they go"),
        (Category::DeviceToHost, "host reads take longer the farther they go"),
        (Category::PeDma, "DMA takes longer the farther it goes in a SIP"),
        (Category::PeWrite, "DMA writes take longer the farther they go in a SIP"),
    ] {
        let inside = |report: &&CaseReport| {
            report.case.from.is_none_or(|from| from.sip == report.case.to.sip)
        };
        let reports: Vec<_> = of(category).filter(inside).collect();
        if reports.len() > 1 {
            found.push(monotone(claim, &reports));
        }
    }
    found.extend(reads_after_writes(reports));
    found.extend(best_below_worst(reports));
    let spec = topology.spec();
    if spec.buffers.is_none() && spec.hbm.rows.is_none() {
        found.extend(formulas(reports));
    }
    found
}

fn monotone(claim: &str, reports: &[&CaseReport]) -> Invariant {
    let holds =
        reports.windows(2).all(|pair| pair[0].reference.latency <= pair[1].reference.latency);
    let steps: Vec<_> =
        reports.iter().map(|report| format!("{}", report.reference.latency)).collect();
    Invariant { claim: claim.to_owned(), evidence: steps.join(" ≤ "), holds }
}

/// Compares reads, which go to the memory and back, with posted writes, which only go to the memory.
fn reads_after_writes(reports: &[CaseReport]) -> Option<Invariant> {
    let of = |category| reports.iter().filter(move |report| report.case.category == category);
    let pairs: Vec<_> = of(Category::HostToDevice)
        .filter_map(|write| {
            let read = of(Category::DeviceToHost).find(|read| read.case.to == write.case.to)?;
            Some((read.reference.latency, write.reference.latency))
        })
        .collect();
    let evidence: Vec<_> = pairs.iter().map(|(read, write)| format!("{read} ≥ {write}")).collect();
    let holds = pairs.iter().all(|(read, write)| read >= write);
    let claim = "device to host is not below host to device".to_owned();
    (!pairs.is_empty()).then(|| Invariant { claim, evidence: evidence.join(", "), holds })
}

fn best_below_worst(reports: &[CaseReport]) -> Option<Invariant> {
    let find = |name: &str| reports.iter().find(|report| report.case.name.ends_with(name));
    let (near, far) = (find("cross-cube-near")?, find("cross-cube-far")?);
    let (best, worst) = (near.reference.latency, far.reference.latency);
    let claim = "the nearest other cube is below the farthest".to_owned();
    let holds = best < worst || near.case.to == far.case.to;
    Some(Invariant { claim, evidence: format!("{best} < {worst}"), holds })
}

/// Compares the cases with the closed form, which is exact because each case runs on an idle machine.
fn formulas(reports: &[CaseReport]) -> Option<Invariant> {
    let all = || reports.iter().flat_map(|report| report.sweep.iter().chain([&report.reference]));
    let off = all().filter(|case| case.latency != case.unloaded.total()).count();
    let claim = "each latency is what the closed form says".to_owned();
    let evidence = format!("{} of {} transfers differ", off, all().count());
    (all().count() > 0).then_some(Invariant { claim, evidence, holds: off == 0 })
}
