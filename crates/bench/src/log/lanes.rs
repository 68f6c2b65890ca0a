//! Timelines of the units of a few PEs.

use std::collections::BTreeMap;

use cubeyard_device::pe::{OpRecord, OpUnit};
use cubeyard_device::request::PeRef;
use cubeyard_sim::Time;

use super::super::path::{kind, what};
use super::RunLog;
use crate::report::{Lane, Slice};

/// Maximum number of PEs shown.
const PES: usize = 8;

impl RunLog {
    /// Returns the lanes of the PE that ended last, of the first PE, and of some PEs in between.
    pub(in super::super) fn lanes(&self) -> Vec<Lane> {
        let shown = self.shown();
        let mut slices: BTreeMap<(PeRef, OpUnit), Vec<Slice>> = BTreeMap::new();
        for record in self.ops.records() {
            let pe = self.pes.get(&record.pe).filter(|pe| shown.contains(pe));
            if let Some((&pe, slice)) = pe.zip(self.slice(record)) {
                slices.entry((pe, record.unit)).or_default().push(slice);
            }
        }
        let lane = |((pe, unit), mut slices): ((PeRef, OpUnit), Vec<Slice>)| {
            slices.sort_by_key(|slice| (slice.start, slice.end));
            Lane { name: format!("{pe} {}", unit.name()), slices }
        };
        slices.into_iter().map(lane).collect()
    }

    /// Returns the PEs to show.
    pub(super) fn shown(&self) -> Vec<PeRef> {
        let mut all: Vec<PeRef> = self.pes.values().copied().collect();
        all.sort_unstable();
        let last = self.cores().rev().max_by_key(|(_, core)| core.ended).map(|&(pe, _)| pe);
        let mut shown: Vec<_> = last.into_iter().chain(all.first().copied()).collect();
        let every = all.len().div_ceil(PES).max(1);
        shown.extend(all.iter().step_by(every));
        let mut unique = Vec::new();
        shown.into_iter().for_each(|pe| {
            if !unique.contains(&pe) {
                unique.push(pe);
            }
        });
        unique.truncate(PES);
        unique
    }

    fn slice(&self, record: &OpRecord) -> Option<Slice> {
        let started = self.phases.first()?.started();
        let since = |time: Time| time.since(started);
        let name = self.operation(record).map_or_else(String::new, |it| it.name());
        Some(Slice {
            start: since(record.start),
            end: since(record.end),
            busy: record.busy,
            kind: kind(record.unit),
            name: what(record.unit, &name),
        })
    }
}
