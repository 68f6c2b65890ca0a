//! Perfetto trace of a run: a track for each unit of each PE, with the host's launches above them.
//!
//! A slice of a unit has the command's name, and as arguments the part, the line of the kernel, the bytes and
//! the command's number. Arrows follow the critical path of each phase, starting at the host's launches.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use cubeyard_device::pe::{OpRecord, OpUnit};
use cubeyard_device::request::PeRef;
use cubeyard_perfetto::{Arg, Lanes, TraceError, TraceEvent, TraceFlow, TraceWriter, TrackId};

use super::super::path::what;
use super::RunLog;

impl RunLog {
    /// Writes the trace for Perfetto.
    pub fn write_trace<W: Write>(&self, out: W) -> Result<W, TraceError> {
        let mut trace = TraceWriter::new(out);
        self.write_launches(&mut trace)?;
        let mut groups = BTreeMap::new();
        let critical = self.critical();
        for ((pe, unit), mut records) in self.by_unit() {
            records.sort_by_key(|&index| {
                let record = self.record(index);
                (record.start, record.end)
            });
            let parent = group(&pe.to_string(), &mut groups, &mut trace)?;
            let mut lanes = Lanes::new(&mut trace, unit.name(), Some(parent))?;
            for index in records {
                let flow = critical.get(&index).copied();
                self.write_operation(self.record(index), flow, &mut lanes, &mut trace)?;
            }
        }
        trace.finish()
    }

    fn record(&self, index: u32) -> &OpRecord {
        &self.ops.records()[index as usize]
    }

    /// Returns the operations of each unit.
    fn by_unit(&self) -> BTreeMap<(PeRef, OpUnit), Vec<u32>> {
        let mut units: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (index, record) in (0..).zip(self.ops.records()) {
            if let Some(&pe) = self.pes.get(&record.pe) {
                units.entry((pe, record.unit)).or_default().push(index);
            }
        }
        units
    }

    /// Returns the operations on critical paths with their phase, counted from 1.
    fn critical(&self) -> BTreeMap<u32, u64> {
        let phases = (1..).zip(&self.phases);
        let records = phases.flat_map(|(number, phase)| {
            let records: BTreeSet<u32> = phase.legs.iter().filter_map(|leg| leg.record).collect();
            records.into_iter().map(move |record| (record, number))
        });
        records.collect()
    }

    fn write_launches<W: Write>(&self, trace: &mut TraceWriter<W>) -> Result<(), TraceError> {
        let mut lanes = Lanes::new(trace, "host", None)?;
        let numbered = (1_u64..).zip(&self.phases);
        let launches = numbered.flat_map(|(number, phase)| {
            phase.launches.iter().map(move |(kernel, report)| (number, kernel, report))
        });
        for (number, kernel, report) in launches {
            let lane = lanes.lane(trace, report.made, report.done)?;
            let args = [("PEs", (report.pes.len() as u64).into())];
            let flows = [TraceFlow::Step(number)];
            let event = TraceEvent::new(kernel).args(&args).flows(&flows);
            trace.slice(lane, report.made, report.done, event)?;
            let end = report.started + report.max();
            trace.slice(lane, report.started, end, "all PEs")?;
        }
        Ok(())
    }

    fn write_operation<W: Write>(
        &self,
        record: &OpRecord,
        flow: Option<u64>,
        lanes: &mut Lanes,
        trace: &mut TraceWriter<W>,
    ) -> Result<(), TraceError> {
        let lane = lanes.lane(trace, record.start, record.end)?;
        let operation = self.operation(record);
        let name = what(record.unit, operation.as_ref().map_or("", |it| &it.command));
        let mut args: Vec<(&str, Arg<'_>)> = vec![("command", u64::from(record.command).into())];
        if let Some(it) = &operation {
            args.push(("place", it.place.as_str().into()));
            args.extend(it.part.as_deref().map(|part| ("part", part.into())));
            args.extend(it.dma.map(|dma| ("bytes", dma.bytes.into())));
        }
        let flows: Vec<_> = flow.map(TraceFlow::Step).into_iter().collect();
        let event = TraceEvent::new(&name).args(&args).flows(&flows);
        trace.slice(lane, record.start, record.end, event)
    }
}

/// Returns the track of a PE, below the tracks of its SIP and cube.
fn group<W: Write>(
    name: &str,
    groups: &mut BTreeMap<String, TrackId>,
    trace: &mut TraceWriter<W>,
) -> Result<TrackId, TraceError> {
    if let Some(&known) = groups.get(name) {
        return Ok(known);
    }
    let parent = match name.rsplit_once('.') {
        Some((above, _)) => Some(group(above, groups, trace)?),
        None => None,
    };
    let id = trace.track(name, parent)?;
    groups.insert(name.to_owned(), id);
    Ok(id)
}
