//! Data races: two accesses to the same bytes, at least one of them a write, with no order between them.
//!
//! Only messages and atomic operations order the PEs of one launch. Messages, events or the host order launches of different streams. The
//! language orders the commands of one program, unless its parts have no order ([`Program::parts`](crate::pe::Program::parts)). Accesses of the host come after launches whose end it has seen, and
//! before launches that it makes later. Accesses are recorded after translation, so races through two virtual addresses
//! of the same memory are found too.

mod book;
mod knowledge;
mod order;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use cubeyard_sim::NodeId;

use crate::ids::CommandId;
use crate::message::{Direction, RequestId, Rows};
use book::Book;
use knowledge::Knowledge;
use order::LaunchOrder;

/// Largest number of races kept.
const MOST: usize = 1000;

/// Access of a program, or of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agent {
    /// Launch of the program; for the host, a separate request.
    pub launch: RequestId,
    /// `PE_CPU` of the PE; `None` for the host.
    pub pe: Option<NodeId>,
    /// Command that makes the access.
    pub command: CommandId,
    /// Direction of the data.
    pub direction: Direction,
    /// Whether the access belongs to an atomic operation.
    pub is_atomic: bool,
    /// Part of the PE's program that makes the access; see [`Program::parts`](crate::pe::Program::parts).
    pub part: u32,
}

/// Two accesses to the same bytes without an order between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// Memory of the bytes.
    pub memory: NodeId,
    /// Range that both accesses touch, in addresses of the memory.
    pub range: Range<u64>,
    /// Access that came first in this run.
    pub earlier: Agent,
    /// Access that came second in this run.
    pub later: Agent,
}

/// Accesses of programs, and the order that is guaranteed between them.
#[derive(Debug, Default)]
pub struct Races {
    order: LaunchOrder,
    /// Order established by messages between PEs, and by atomic operations.
    pub(crate) knowledge: Knowledge,
    books: BTreeMap<NodeId, Book>,
    /// First commands of the parts of programs.
    parts: BTreeMap<(RequestId, NodeId), Vec<CommandId>>,
    /// Memory and range of each race, by the two accesses.
    found: BTreeMap<(Agent, Agent), (NodeId, Range<u64>)>,
}

impl Races {
    /// Adds a launch that is ordered after the launches of `after`.
    pub fn launched(&mut self, launch: RequestId, after: &[RequestId]) {
        self.order.launched(launch, after);
    }

    /// Records that the host has seen the end of a launch.
    pub fn waited(&mut self, launch: RequestId) {
        self.order.waited(launch);
        self.tidy();
    }

    /// Records that the host has seen the end of all launches.
    pub fn synchronized(&mut self) {
        self.order = LaunchOrder::default();
        self.tidy();
    }

    /// Forgets all accesses once the host has seen the end of all launches: later accesses come after them.
    fn tidy(&mut self) {
        if self.order.is_quiet() {
            self.books.clear();
            self.parts.clear();
            self.knowledge.clear();
        }
    }

    /// Returns whether the host has seen the end of all launches.
    pub fn is_quiet(&self) -> bool {
        self.order.is_quiet()
    }

    pub(crate) fn access(
        &mut self,
        memory: NodeId,
        address: u64,
        bytes: u64,
        rows: Option<Rows>,
        by: Agent,
    ) {
        let order = self.knowledge.atomic(by);
        let by = Agent { is_atomic: order.is_some(), part: self.part(by), ..by };
        let rows = rows.unwrap_or(Rows { bytes, pitch: 0 });
        let book = self.books.entry(memory).or_default();
        for (offset, length) in rows.segments(0, bytes) {
            let from = address + offset;
            let (launches, knowledge) = (&self.order, &mut self.knowledge);
            let found = &mut self.found;
            book.access(from..from + length, by, &mut |range, earlier| {
                let atomics = earlier.is_atomic && by.is_atomic;
                if !atomics && !launches.orders(earlier, by) && !knowledge.orders(earlier, by) {
                    note(found, memory, range, earlier, by);
                }
            });
            if let Some(order) = order {
                self.knowledge.synchronized(order, by, memory, from..from + length);
            }
        }
    }

    /// Sets the first commands of the parts of a program.
    pub(crate) fn parted(&mut self, program: (RequestId, NodeId), parts: Vec<CommandId>) {
        if parts.len() > 1 {
            self.parts.insert(program, parts);
        }
    }

    /// Returns the part of a program that makes an access.
    fn part(&self, by: Agent) -> u32 {
        let parts = by.pe.and_then(|pe| self.parts.get(&(by.launch, pe)));
        let before = parts.map_or(0, |parts| parts.partition_point(|&first| first <= by.command));
        u32::try_from(before).unwrap_or(u32::MAX)
    }

    /// Adds an access of the host, which waits for its end. Without launches in flight it cannot race.
    pub(crate) fn host_access(
        &mut self,
        memory: NodeId,
        address: u64,
        bytes: u64,
        direction: Direction,
        request: RequestId,
    ) {
        if self.order.is_quiet() {
            return;
        }
        let launch = self.order.host(request);
        let by = Agent { launch, pe: None, command: 0, direction, is_atomic: false, part: 0 };
        self.access(memory, address, bytes, None, by);
    }

    pub(crate) fn forget(&mut self, memory: NodeId, range: Range<u64>) {
        if let Some(book) = self.books.get_mut(&memory) {
            book.forget(range);
        }
    }

    /// Takes the races found so far.
    pub fn take(&mut self) -> Vec<Race> {
        let race = |((earlier, later), (memory, range))| Race { memory, range, earlier, later };
        std::mem::take(&mut self.found).into_iter().map(race).collect()
    }
}

/// Race detector of a machine; `None` without data mode.
#[derive(Debug)]
pub(crate) struct RaceDetector(Option<RefCell<Races>>);

impl RaceDetector {
    pub(crate) fn new(is_on: bool) -> Self {
        Self(is_on.then(RefCell::default))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Races) -> T) -> Option<T> {
        self.0.as_ref().map(|races| act(&mut races.borrow_mut()))
    }
}

fn note(
    found: &mut BTreeMap<(Agent, Agent), (NodeId, Range<u64>)>,
    memory: NodeId,
    range: Range<u64>,
    earlier: Agent,
    later: Agent,
) {
    if found.len() >= MOST && !found.contains_key(&(earlier, later)) {
        return;
    }
    let (_, known) = found.entry((earlier, later)).or_insert((memory, range.clone()));
    *known = known.start.min(range.start)..known.end.max(range.end);
}
