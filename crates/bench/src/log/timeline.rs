//! Every operation of a run, for the timeline of its page.

use std::collections::BTreeMap;

use cubeyard_device::message::RequestId;
use cubeyard_device::pe::{OpRecord, OpUnit};
use cubeyard_device::request::PeRef;
use cubeyard_runtime::LaunchReport;
use cubeyard_sim::{Span, Time};

use super::super::path::{LAUNCHED, cause, kind, named_on, what};
use super::RunLog;
use crate::report::{Operation, Timeline};

impl RunLog {
    /// Returns every operation of every PE, with its name and its launch.
    pub fn timeline(&self) -> Timeline {
        let (numbers, launches) = self.launches();
        let shown = self.shown().iter().map(ToString::to_string).collect();
        let mut timeline = Timeline::new(launches, shown);
        let mut lanes: BTreeMap<(PeRef, OpUnit), Vec<Operation>> = BTreeMap::new();
        for record in self.ops.records() {
            let Some(&pe) = self.pes.get(&record.pe) else { continue };
            let described = self.operation(record);
            let (name, place) = described.map_or_else(Default::default, |it| (it.name(), it.place));
            let texts = [what(record.unit, &name), place, self.why(record)];
            let texts = texts.map(|text| timeline.name(text));
            let launch = numbers.get(&record.request).copied().unwrap_or_default();
            lanes.entry((pe, record.unit)).or_default().push(self.timed(record, texts, launch));
        }
        for ((pe, unit), operations) in lanes {
            timeline.push(pe.to_string(), unit.name(), operations);
        }
        timeline
    }

    /// Returns the launches, numbered from 1, and their names, starts and ends.
    #[expect(clippy::type_complexity, reason = "a pair of lists")]
    fn launches(&self) -> (BTreeMap<RequestId, u32>, Vec<(String, Span, Span)>) {
        let all = || self.phases.iter().flat_map(|phase| &phase.launches);
        let numbers = (1..).zip(all()).map(|(number, (_, launch))| (launch.request, number));
        let timed = |(name, launch): &(String, LaunchReport)| {
            let start = self.since_start(launch.started);
            (name.clone(), start, start + launch.max())
        };
        (numbers.collect(), all().map(timed).collect())
    }

    fn timed(&self, record: &OpRecord, [name, line, why]: [u32; 3], launch: u32) -> Operation {
        let (start, end) = (self.since_start(record.start), self.since_start(record.end));
        let (busy, kind) = (record.busy, kind(record.unit));
        Operation { start, end, busy, kind, name, launch, line, why }
    }

    /// Returns the reason why an operation did not begin earlier.
    fn why(&self, record: &OpRecord) -> String {
        let before = record.began.before.map(|before| &self.ops.records()[before as usize]);
        let Some(before) = before else { return LAUNCHED.to_owned() };
        let name = self.operation(before).map_or_else(String::new, |it| it.name());
        let pe = self.pe(before).filter(|_| before.pe != record.pe);
        cause(record, record.began.cause, before, &named_on(before.unit, &name, pe))
    }

    /// Returns the time since the start of the first launch.
    fn since_start(&self, time: Time) -> Span {
        self.phases.first().map_or(Span::ZERO, |first| time.since(first.started()))
    }
}
