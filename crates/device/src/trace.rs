//! Writes the run of a machine as a trace for Perfetto, with a track for each component that carried traffic.

use std::collections::BTreeMap;
use std::io::Write;

use cubeyard_perfetto::{Lanes, TraceError, TraceEvent, TraceFlow, TraceWriter, TrackId};
use cubeyard_sim::{NodeId, Time};

use crate::log::{FlitLog, TransferKind, Watch};
use crate::machine::Machine;
use crate::message::{Direction, RequestId};
use crate::model::Part;
use crate::request::Request;

/// Writes the log of a machine as a trace.
///
/// The track `requests` has a slice for each request. Components are grouped by SIP, and within a SIP by cube and IO
/// chiplet. Each component has a slice for every transfer that passed it, from the arrival of the first flit until the
/// last has left. A memory also has a slice for the bursts of each request. Arrows connect the slices of a request.
pub fn write<W: Write>(machine: &Machine<FlitLog>, out: W) -> Result<W, TraceError> {
    let mut trace = TraceWriter::new(out);
    requests(machine, &mut trace)?;
    let mut groups = BTreeMap::new();
    for ((node, row), mut slices) in slices(machine) {
        slices.sort_by_key(|slice| (slice.start, slice.end));
        let name = &machine.topology().nodes()[node.index()].name;
        let parent = group(name, &mut groups, &mut trace)?;
        let title = match row {
            Row::Transfers => name.clone(),
            Row::Bursts => format!("{name} bursts"),
        };
        let mut lanes = Lanes::new(&mut trace, &title, parent)?;
        for slice in slices {
            slice.write(&mut lanes, &mut trace)?;
        }
    }
    trace.finish()
}

/// Content of a component's track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Transfers,
    Bursts,
}

struct TraceSlice {
    start: Time,
    end: Time,
    name: &'static str,
    request: Option<RequestId>,
    bytes: u64,
}

impl TraceSlice {
    fn write<W: Write>(
        &self,
        lanes: &mut Lanes,
        trace: &mut TraceWriter<W>,
    ) -> Result<(), TraceError> {
        let lane = lanes.lane(trace, self.start, self.end)?;
        let number = self.request.map_or(0, |request| request.index() as u64);
        let args = [("request", number.into()), ("bytes", self.bytes.into())];
        let flows = [TraceFlow::Step(number + 1)];
        let event = TraceEvent::new(self.name).args(&args);
        let event = if self.request.is_some() { event.flows(&flows) } else { event };
        trace.slice(lane, self.start, self.end, event)
    }
}

/// Returns the track of a component's cube or IO chiplet, below the track of its SIP.
fn group<W: Write>(
    name: &str,
    groups: &mut BTreeMap<String, TrackId>,
    trace: &mut TraceWriter<W>,
) -> Result<Option<TrackId>, TraceError> {
    let mut parent = None;
    for (dot, _) in name.match_indices('.').take(2) {
        let group = &name[..dot];
        let id = match groups.get(group) {
            Some(&known) => known,
            None => trace.track(group, parent)?,
        };
        groups.insert(group.to_owned(), id);
        parent = Some(id);
    }
    Ok(parent)
}

fn requests<W: Write>(
    machine: &Machine<FlitLog>,
    trace: &mut TraceWriter<W>,
) -> Result<(), TraceError> {
    let mut lanes = Lanes::new(trace, "requests", None)?;
    let mut done: Vec<_> = machine
        .view()
        .envelopes()
        .filter_map(|envelope| machine.completion(envelope.request))
        .collect();
    done.sort_by_key(|completion| (completion.made, completion.request));
    for completion in done {
        let (name, bytes) = match &machine.view().envelope(completion.request).body {
            Request::MemoryWrite(range) => ("MemoryWrite", range.bytes),
            Request::MemoryRead(range) => ("MemoryRead", range.bytes),
            Request::PeDma { direction, bytes, .. }
            | Request::VirtualDma { direction, bytes, .. }
            | Request::MCpuDma { direction, bytes, .. } => (dma_name(*direction), *bytes),
            Request::Mappings { remove: false, .. } => ("MmuMap", 0),
            Request::Mappings { remove: true, .. } => ("MmuUnmap", 0),
            Request::Connect { .. } => ("Connect", 0),
            Request::KernelLaunch { .. } => ("KernelLaunch", 0),
        };
        let request = Some(completion.request);
        let slice =
            TraceSlice { start: completion.made, end: completion.done, name, request, bytes };
        slice.write(&mut lanes, trace)?;
    }
    Ok(())
}

const fn dma_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "DMA read",
        Direction::Write => "DMA write",
    }
}

/// Returns all slices by component.
fn slices(machine: &Machine<FlitLog>) -> BTreeMap<(NodeId, Row), Vec<TraceSlice>> {
    let mut slices: BTreeMap<_, Vec<TraceSlice>> = BTreeMap::new();
    for (transfer, visits) in visits(machine) {
        let record =
            &machine.view().log().transfers()[usize::try_from(transfer).expect("in memory")];
        let name = match (record.kind, record.bytes) {
            (TransferKind::Access, 0) => "command",
            (TransferKind::Access, _) => "write data",
            (TransferKind::Answer, 0) => "acknowledgement",
            (TransferKind::Answer, _) => "read data",
            (TransferKind::Command | TransferKind::Message, _) => "message",
            (TransferKind::Custom, _) => "custom",
        };
        for (node, (start, end)) in visits {
            let slice =
                TraceSlice { start, end, name, request: record.request, bytes: record.bytes };
            slices.entry((node, Row::Transfers)).or_default().push(slice);
        }
    }
    for node in (0..machine.topology().nodes().len()).map(NodeId::new) {
        let bursts = bursts(machine, node);
        if !bursts.is_empty() {
            slices.insert((node, Row::Bursts), bursts);
        }
    }
    slices
}

/// Returns the interval that each transfer spent at each node of its route, by transfer number.
fn visits(machine: &Machine<FlitLog>) -> BTreeMap<u64, BTreeMap<NodeId, (Time, Time)>> {
    let mut visits: BTreeMap<u64, BTreeMap<NodeId, (Time, Time)>> = BTreeMap::new();
    for crossing in machine.view().engine().observer().crossings() {
        let link = machine.view().network().link(crossing.link);
        let nodes = visits.entry(crossing.transfer.get()).or_default();
        let mut stay = |node, from: Time, until: Time| {
            let (first, last) = nodes.entry(node).or_insert((from, until));
            (*first, *last) = ((*first).min(from), (*last).max(until));
        };
        stay(link.from, crossing.asked, crossing.end);
        stay(link.to, crossing.arrived, crossing.arrived);
    }
    for (&transfer, nodes) in &mut visits {
        let record =
            &machine.view().log().transfers()[usize::try_from(transfer).expect("in memory")];
        let end = record.route.last().map(|&link| machine.view().network().link(link).to);
        if let (Some(node), Some(delivered)) = (end, record.delivered) {
            nodes.entry(node).and_modify(|(_, last)| *last = (*last).max(delivered));
        }
    }
    visits
}

/// Returns a slice for each request from its first to its last burst at a memory.
fn bursts(machine: &Machine<FlitLog>, node: NodeId) -> Vec<TraceSlice> {
    let Some(Part::Memory(memory)) = machine.view().engine().component(node) else {
        return Vec::new();
    };
    let mut requests: BTreeMap<RequestId, TraceSlice> = BTreeMap::new();
    for burst in memory.bursts() {
        let name = match burst.direction {
            Direction::Read => "read bursts",
            Direction::Write => "write bursts",
        };
        let slice = requests.entry(burst.request).or_insert(TraceSlice {
            start: burst.start,
            end: burst.end,
            name,
            request: Some(burst.request),
            bytes: 0,
        });
        (slice.start, slice.end) = (slice.start.min(burst.start), slice.end.max(burst.end));
        slice.bytes += memory.channels().spec().burst_bytes;
    }
    requests.into_values().collect()
}
