//! Runs the transfers that a file lists:
//!
//! ```yaml
//! transfers:
//!   - {op: read, from: sip0.cube0.pe1, to: sip0.cube0.pe0.hbm, bytes: 16384, at_ns: 0}
//!   - {op: write, from: host, to: sip0.cube3.pe2.hbm, bytes: 1 MiB, offset: 4 KiB}
//! ```
//!
//! `from` is `host`, a PE or an `M_CPU`; `to` is the HBM of a PE or the SRAM of a cube. Without `offset`, a transfer
//! begins at the first burst after the previous transfer to the same memory; the first transfer begins at 0.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Span, Stop, Time, Wait};
use cubeyard_yaml::{Document, Field, InputError, InputProblem, Map, nearest, text_up_to};
use serde::Serialize;

use super::{Hop, Measured, NamedStep, RunError, measured, route};
use crate::log::Watch;
use crate::machine::Machine;
use crate::message::{Direction, RequestId};
use crate::request::{MemoryRange, PeRef, Request};
use crate::serial::{at_ns, hex, ns, text};
use crate::topology::{Node, NodeId, NodeKind, Topology};

/// Largest accepted file, in bytes: some hundred thousand transfers.
const LONGEST: usize = 32 << 20;

/// Largest number of flit crossings and bursts kept for an explanation or a trace: 0.8 GB.
const MOST_RECORDS: u64 = 8 << 20;

/// Transfers to run, checked against a topology.
#[derive(Clone, Debug)]
pub struct Pattern {
    transfers: Vec<Planned>,
}

/// Transfer of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Initiator, as written in the file.
    pub from: String,
    /// Memory, as written in the file.
    pub to: String,
    /// Direction of the transfer.
    #[serde(rename = "op", serialize_with = "text")]
    pub direction: Direction,
    /// Number of bytes to move.
    #[serde(skip)]
    pub bytes: u64,
    /// Offset in the memory, in bytes.
    pub offset: u64,
    /// Time at which the request is made.
    #[serde(rename = "at_ns", serialize_with = "at_ns")]
    pub at: Time,
    #[serde(skip)]
    request: Request,
}

/// Report of `cubeyard probe --pattern`.
#[derive(Clone, Debug, Serialize)]
pub struct PatternReport {
    /// Time from the first request to the last completion.
    #[serde(rename = "makespan_ns", serialize_with = "ns")]
    pub makespan: Span,
    /// Results of each transfer, in the order of the file.
    pub transfers: Vec<TransferReport>,
    /// Busy times of the links that were used, the longest first.
    pub links: Vec<LinkUse>,
    /// Hash of the engine's order of events; equal for equal input.
    #[serde(serialize_with = "hex")]
    pub order_hash: u64,
}

/// Results of one transfer.
#[derive(Clone, Debug, Serialize)]
pub struct TransferReport {
    /// Transfer as planned.
    #[serde(flatten)]
    pub planned: Planned,
    /// Request of the transfer, for [`explain`](crate::explain::explain).
    #[serde(skip)]
    pub request: RequestId,
    /// Latency and bandwidth.
    #[serde(flatten)]
    pub measured: Measured,
    /// Route of the data.
    pub route: Vec<Hop>,
    /// Longest wait of a flit behind another transfer.
    pub held_up: Option<HeldUp>,
    /// Critical path, if requested.
    #[serde(rename = "explain", skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<NamedStep>>,
}

/// Wait for a link behind another transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldUp {
    /// Name of the link, as in `sip0.cube0.r0c0 → sip0.cube0.r0c1`.
    pub link: String,
    /// Request that caused the wait.
    pub behind: Option<RequestId>,
    /// Duration of the wait.
    #[serde(rename = "ns", serialize_with = "ns")]
    pub span: Span,
}

/// Busy time of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkUse {
    /// Name of the link, as in `sip0.cube0.r0c0 → sip0.cube0.r0c1`.
    pub link: String,
    /// Time for which the link carried flits.
    #[serde(rename = "busy_ns", serialize_with = "ns")]
    pub busy: Span,
}

impl Pattern {
    /// Reads a pattern for a machine. Errors refer to the file as `name`.
    pub fn read(name: &str, bytes: &[u8], topology: &Topology) -> Result<Self, InputError> {
        let text = text_up_to(name, bytes, LONGEST)?;
        let document = Document::parse(name, text, LONGEST)?;
        let mut root = document.root().map()?;
        root.only(&["transfers"])?;
        let list = root.required("transfers")?.list("transfers")?;
        let mut reader = Reader { topology, next: BTreeMap::new() };
        let transfers: Result<Vec<_>, _> =
            list.iter().map(|field| reader.transfer(field.map()?)).collect();
        Ok(Self { transfers: transfers? })
    }

    /// Returns the transfers in the order of the file.
    pub fn transfers(&self) -> &[Planned] {
        &self.transfers
    }

    /// Runs the pattern on a machine of the topology that it was read for.
    ///
    /// Fails if transfers deadlock, which finite buffers permit, or if simulated time runs out. On a machine that keeps
    /// every flit, a pattern may have at most 8 Mi flit crossings and bursts.
    ///
    /// # Panics
    /// If the machine has another topology.
    pub fn run<W: Watch>(&self, machine: &mut Machine<W>) -> Result<PatternReport, RunError> {
        let ids: Vec<_> = self
            .transfers
            .iter()
            .map(|planned| machine.submit_with(planned.request.clone().at(planned.at)))
            .map(|id| id.expect("it was checked when it was read"))
            .collect();
        let records: u64 = ids.iter().map(|&id| records(machine, id)).sum();
        if W::FLITS && records > MOST_RECORDS {
            return Err(RunError::TooManyRecords { records, most: MOST_RECORDS });
        }
        match machine.run() {
            Stop::Idle => {}
            Stop::Deadlock(waiting) => return Err(RunError::stalled(machine, &waiting)),
            Stop::Interrupted => return Err(RunError::Interrupted),
            Stop::OutOfTime | Stop::Deadline => return Err(RunError::OutOfTime),
        }
        let done = |&id: &RequestId| machine.completion(id).expect("idle means done").done;
        let last = ids.iter().map(done).max().unwrap_or_default();
        let first = self.transfers.iter().map(|planned| planned.at).min().unwrap_or_default();
        let waits = machine.view().log().longest_waits();
        let report = |(planned, id)| report(machine, planned, id, waits.get(&id));
        let transfers = self.transfers.iter().zip(ids).map(report).collect();
        let (links, order_hash) = (links(machine), machine.view().engine().order_hash());
        Ok(PatternReport { makespan: last.since(first), transfers, links, order_hash })
    }
}

fn report<W: Watch>(
    machine: &Machine<W>,
    planned: &Planned,
    request: RequestId,
    wait: Option<&Wait>,
) -> TransferReport {
    let held_up = wait.map(|wait| HeldUp {
        link: machine.topology().link_name(wait.link),
        behind: machine.view().log().transfer(wait.behind).request,
        span: wait.span,
    });
    TransferReport {
        planned: planned.clone(),
        request,
        measured: measured(machine, request, planned.bytes),
        route: route(machine, request),
        held_up,
        steps: None,
    }
}

/// Returns the number of flit crossings and bursts that a memory request adds to a flit log.
fn records<W: Watch>(machine: &Machine<W>, request: RequestId) -> u64 {
    let access = machine.view().access(request).expect("a request to memory");
    let flits = machine.view().network().flits(access.bytes);
    let bursts = access.bytes.div_ceil(machine.topology().spec().hbm.burst.get());
    let [there, back] = [Some(&access.there), access.back.as_ref()]
        .map(|route| route.map_or(0, |route| route.len() as u64));
    match access.direction {
        Direction::Read => there + flits * back + bursts,
        Direction::Write => flits * there + back + bursts,
    }
}

fn links<W: Watch>(machine: &mut Machine<W>) -> Vec<LinkUse> {
    let busy = machine.busy().into_iter().enumerate();
    let mut used: Vec<_> = busy.filter(|(_, busy)| *busy > Span::ZERO).collect();
    used.sort_by_key(|&(link, busy)| (std::cmp::Reverse(busy), link));
    let name = |link| machine.topology().link_name(cubeyard_sim::LinkId::new(link));
    used.into_iter().map(|(link, busy)| LinkUse { link: name(link), busy }).collect()
}

struct Reader<'t> {
    topology: &'t Topology,
    /// End of the previous transfer in each memory, rounded up to a burst.
    next: BTreeMap<NodeId, u64>,
}

impl Reader<'_> {
    fn transfer(&mut self, mut map: Map<'_>) -> Result<Planned, InputError> {
        map.only(&["op", "from", "to", "bytes", "at_ns", "offset"])?;
        let op = map.required("op")?;
        let direction = op.choice(&[("read", Direction::Read), ("write", Direction::Write)])?;
        let (from, to) = (map.required("from")?, map.required("to")?);
        let bytes = map.required("bytes")?.bytes()?.get();
        let at = map.optional("at_ns").map_or(Ok(Span::ZERO), |field| field.ns())?;
        let offset = map.optional("offset");
        let memory = self.node(&to, Role::Memory)?;
        let burst = self.topology.spec().hbm.burst.get();
        let start = match &offset {
            Some(field) => field.count("a number of bytes")?,
            None => self.next.get(&memory).copied().unwrap_or_default(),
        };
        let room = self.capacity(memory);
        if start.checked_add(bytes).is_none_or(|end| end > room) {
            let place = offset.as_ref().unwrap_or(&to);
            let expected = format!("a range within the {room} bytes of the memory");
            let found = format!("{bytes} bytes at offset {start}");
            return Err(place.error(InputProblem::Value { expected, found }));
        }
        self.next.insert(memory, (start + bytes).next_multiple_of(burst));
        let request = self.request(&from, memory, direction, start, bytes)?;
        let name = |field: &Field<'_>| field.text("a name").map(str::to_owned);
        let (from, to) = (name(&from)?, name(&to)?);
        Ok(Planned { from, to, direction, bytes, offset: start, at: Time::ZERO + at, request })
    }

    /// Finds a node by name. An error suggests the nearest name with the required role.
    fn node(&self, field: &Field<'_>, role: Role) -> Result<NodeId, InputError> {
        let name = field.text("the name of a node")?;
        let wrong = |expected: &str| {
            let found = format!("{name}; the nearest is `{}`", self.nearest(name, role));
            field.error(InputProblem::Value { expected: expected.to_owned(), found })
        };
        let node = self.topology.find(name).map_err(|_| wrong("a node of the machine"))?;
        if role.suits(self.topology.node(node).kind) { Ok(node) } else { Err(wrong(role.words())) }
    }

    fn nearest(&self, name: &str, role: Role) -> String {
        let of = |kind| self.topology.nodes().iter().filter(move |node| node.kind == kind);
        let pe = |node: &Node| node.name.strip_suffix(".pe_dma").unwrap_or(&node.name).to_owned();
        let pes = of(NodeKind::PeDma).map(pe);
        // Of two names at the same distance, the first one is taken.
        let names: Vec<String> = match role {
            Role::Memory => {
                let hbm = pes.map(|pe| format!("{pe}.hbm"));
                hbm.chain(of(NodeKind::Sram).map(|node| node.name.clone())).collect()
            }
            Role::Initiator => {
                let m_cpus = of(NodeKind::MCpu).map(|node| node.name.clone());
                std::iter::once("host".to_owned()).chain(pes).chain(m_cpus).collect()
            }
        };
        nearest(name, names.iter().map(String::as_str)).unwrap_or_default().to_owned()
    }

    fn capacity(&self, memory: NodeId) -> u64 {
        let spec = self.topology.spec();
        match self.topology.node(memory).kind {
            NodeKind::Sram => spec.sram.capacity.get(),
            _ => spec.hbm.slice.get(),
        }
    }

    fn request(
        &self,
        from: &Field<'_>,
        memory: NodeId,
        direction: Direction,
        offset: u64,
        bytes: u64,
    ) -> Result<Request, InputError> {
        let place = self.topology.node(memory).place;
        let (Some(sip), Some(cube)) = (place.sip, place.cube) else {
            unreachable!("memories are in cubes")
        };
        let first = self.topology.pes().next().expect("a cube has PEs");
        let at = PeRef { sip, cube, pe: place.pe.unwrap_or(first) };
        let offset = Bytes::new(offset);
        let address = match place.pe {
            Some(pe) => PhysAddr::pe_hbm(sip, cube, pe, offset, self.topology.spec().hbm.slice),
            None => PhysAddr::cube_sram(sip, cube, offset),
        };
        let address = address.expect("within its memory, which the topology checked");
        if from.text("a name")? == "host" {
            let range = MemoryRange { at, address, bytes };
            return Ok(match direction {
                Direction::Read => Request::MemoryRead(range),
                Direction::Write => Request::MemoryWrite(range),
            });
        }
        let node = self.topology.node(self.node(from, Role::Initiator)?);
        Ok(match (node.place.pe_ref(), node.place.sip, node.place.cube) {
            (Some(from), ..) => Request::PeDma { from, direction, address, bytes },
            (None, Some(sip), Some(cube)) => {
                Request::MCpuDma { sip, cube, direction, address, bytes }
            }
            _ => unreachable!("those who ask are in cubes"),
        })
    }
}

/// Role of a node in a transfer.
#[derive(Clone, Copy)]
enum Role {
    Memory,
    Initiator,
}

impl Role {
    const fn suits(self, kind: NodeKind) -> bool {
        match self {
            Self::Memory => matches!(kind, NodeKind::Hbm | NodeKind::Sram),
            Self::Initiator => matches!(kind, NodeKind::PeDma | NodeKind::MCpu),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Memory => "a memory: the HBM of a PE or the SRAM of a cube",
            Self::Initiator => "an initiator: host, a PE or an m_cpu",
        }
    }
}
