//! Races: two accesses to the same bytes, at least one a write, with no order between them.
//!
//! PEs of one launch are ordered by messages alone, and launches of different streams by those,
//! an event or the host. What a PE does with one program is ordered: its language sees to that. What the host
//! reads and writes itself is ordered with launches whose end it has seen, and with those that it makes later.
//! Accesses are noted where their addresses are translated, so two virtual addresses of the same memory are no
//! way around.

mod book;
mod knowledge;
mod order;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_sim::NodeId;

use crate::message::{Direction, RequestId, Rows};
use crate::pe::{Command, CommandId, PortId};
use book::Book;
use knowledge::Knowledge;
use order::LaunchOrder;

/// The most races that are kept.
const MOST: usize = 1000;

/// An access of a program, or of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agent {
    /// The launch; for the host, a request of its own.
    pub launch: RequestId,
    /// The `PE_CPU` of the PE; none for the host.
    pub pe: Option<NodeId>,
    /// The command.
    pub command: CommandId,
    /// Read or write.
    pub direction: Direction,
}

/// Two accesses to the same bytes that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The memory.
    pub memory: NodeId,
    /// From the first byte that both touch to the last, as the memory counts.
    pub range: Range<u64>,
    /// Who came first, this time.
    pub earlier: Agent,
    /// Who came second.
    pub later: Agent,
}

/// What is known of the accesses of programs.
#[derive(Debug, Default)]
pub struct Races {
    order: LaunchOrder,
    knowledge: Knowledge,
    books: BTreeMap<NodeId, Book>,
    /// By the two accesses.
    found: BTreeMap<(Agent, Agent), (NodeId, Range<u64>)>,
}

impl Races {
    /// A launch is made, after some others.
    pub fn launched(&mut self, launch: RequestId, after: &[RequestId]) {
        self.order.launched(launch, after);
    }

    /// The host has seen the end of a launch.
    pub fn waited(&mut self, launch: RequestId) {
        self.order.waited(launch);
        self.tidy();
    }

    /// The host has seen the end of all launches.
    pub fn synchronized(&mut self) {
        self.order = LaunchOrder::default();
        self.tidy();
    }

    /// Once the host has seen the end of all launches, whatever comes is after all that was.
    fn tidy(&mut self) {
        if self.order.is_quiet() {
            self.books.clear();
            self.knowledge.clear();
        }
    }

    /// Whether the host has seen the end of all launches.
    pub fn is_quiet(&self) -> bool {
        self.order.is_quiet()
    }

    /// Notes an access.
    pub fn access(
        &mut self,
        memory: NodeId,
        address: u64,
        bytes: u64,
        rows: Option<Rows>,
        by: Agent,
    ) {
        let rows = rows.unwrap_or(Rows { bytes, pitch: 0 });
        let book = self.books.entry(memory).or_default();
        for (offset, length) in rows.segments(0, bytes) {
            let from = address + offset;
            let (order, knowledge) = (&self.order, &mut self.knowledge);
            let found = &mut self.found;
            book.access(from..from + length, by, &mut |range, earlier| {
                if !order.orders(earlier, by) && !knowledge.orders(earlier, by) {
                    note(found, memory, range, earlier, by);
                }
            });
        }
    }

    /// Notes an access of the host, which waits for its end before it does anything else. With no launch under way
    /// there is nothing that it could race with.
    pub fn host_access(
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
        let by = Agent { launch, pe: None, command: 0, direction };
        self.access(memory, address, bytes, None, by);
    }

    /// A program has issued a command. It has so many under way at most.
    pub fn issued(
        &mut self,
        launch: RequestId,
        pe: NodeId,
        id: CommandId,
        command: &Command,
        window: u32,
    ) {
        self.knowledge.issued((launch, pe), id, command, window);
    }

    /// A program has seen the end of a command.
    pub fn waited_for(&mut self, launch: RequestId, pe: NodeId, command: CommandId) {
        self.knowledge.waited((launch, pe), command);
    }

    /// A program has seen the end of all that it issued.
    pub fn fenced(&mut self, launch: RequestId, pe: NodeId) {
        self.knowledge.fenced((launch, pe));
    }

    /// A port of a PE, by its DMA engine, is there from now on.
    pub fn installed(&mut self, port: (NodeId, PortId)) {
        self.knowledge.installed(port);
    }

    /// A command sends a message to a port.
    pub fn sent(
        &mut self,
        launch: RequestId,
        pe: NodeId,
        command: CommandId,
        to: (NodeId, PortId),
    ) {
        self.knowledge.sent((launch, pe), command, to);
    }

    /// A command has received the next message at a port.
    pub fn received(
        &mut self,
        launch: RequestId,
        pe: NodeId,
        command: CommandId,
        at: (NodeId, PortId),
    ) {
        self.knowledge.received((launch, pe), command, at);
    }

    /// Forgets a range, as when its memory is freed.
    pub fn forget(&mut self, memory: NodeId, range: Range<u64>) {
        if let Some(book) = self.books.get_mut(&memory) {
            book.forget(range);
        }
    }

    /// The races so far, which are forgotten.
    pub fn take(&mut self) -> Vec<Race> {
        let race = |((earlier, later), (memory, range))| Race { memory, range, earlier, later };
        std::mem::take(&mut self.found).into_iter().map(race).collect()
    }
}

/// Shared handle to the races of a machine; none are looked for without data.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaceDetector(Option<Rc<RefCell<Races>>>);

impl RaceDetector {
    pub(crate) fn new(is_on: bool) -> Self {
        Self(is_on.then(Rc::default))
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Calls a function with the races, if they are looked for.
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
