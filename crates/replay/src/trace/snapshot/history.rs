//! History of one device: matches frees with allocations.

mod emptied;
mod finish;

use std::collections::BTreeMap;

use self::emptied::Emptying;
use super::reserved::Change;
use super::{Cursor, Sites, SnapshotError};
use crate::trace::recorder::Clock;
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

const IDLE: [&str; 4] = ["snapshot", "annotate", "workspace_snapshot", "user_defined"];
const ACTIONS: &str = "an action of PyTorch 2.15 or earlier";

/// Provisional allocation id; renumbered once the allocations live at the start are counted.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// Live at the start, by index in `at_start`.
    AtStart(usize),
    /// Allocated in the history, by the number of allocations before it.
    Since(u32),
}

#[derive(Clone, Copy, Debug)]
struct Request {
    size: Bytes,
    stream: i128,
    site: u32,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate {
        request: Request,
        time_us: u64,
    },
    Free {
        owner: Owner,
        time_us: u64,
    },
    /// Failed request, by index in `refused`.
    OutOfMemory(usize),
    /// Request of a free that is completed later, or never.
    FreeRequested {
        owner: Owner,
        time_us: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    request: Request,
    device_free: Option<u64>,
    /// Number of changes of the reserved bytes before the request.
    changes: usize,
}

/// State of an address that occurs in the history.
#[derive(Clone, Copy, Debug)]
enum State {
    Live(Owner),
    /// Free requested but not completed, with the index of the free in `steps`.
    Freeing(Owner, usize),
    Free,
}

#[derive(Debug, Default)]
pub(super) struct History {
    clock: Clock,
    at_start: Vec<(u64, Request)>,
    steps: Vec<Step>,
    allocations: u32,
    addresses: BTreeMap<u64, State>,
    changes: Vec<Change>,
    emptying: Emptying,
    refused: Vec<Refused>,
    /// Whether completions of frees are recorded.
    completions: bool,
}

/// Entry of the history, apart from its action.
struct Entry<'e> {
    cursor: &'e Cursor<'e, 'e>,
    address: u64,
    request: Request,
    time_us: u64,
}

impl History {
    pub(super) fn step<'d>(
        &mut self,
        entry: &Cursor<'d, '_>,
        sites: &mut Sites<'d>,
        budget: &mut Budget,
    ) -> Result<(), SnapshotError> {
        let time = entry.optional("time_us")?.map(|time| time.unsigned()).transpose()?;
        let time_us = time.map_or(self.clock.latest(), |time| self.clock.advance(time));
        let action = entry.field("action")?;
        self.emptying.step(action.text()?, entry)?;
        match action.text()? {
            "alloc" => {
                let site = sites.site(entry, budget)?;
                self.allocate(&Entry::read(entry, site, time_us)?, budget)
            }
            "free_requested" => self.free(&Entry::read(entry, 0, time_us)?, false, budget),
            "free_completed" => self.free(&Entry::read(entry, 0, time_us)?, true, budget),
            "segment_alloc" | "segment_map" => self.reserve(entry, 1, budget),
            "segment_free" | "segment_unmap" => self.reserve(entry, -1, budget),
            "oom" => {
                let site = sites.site(entry, budget)?;
                self.refuse(entry, site, budget)
            }
            other if IDLE.contains(&other) => Ok(()),
            _ => Err(action.wrong(ACTIONS)),
        }
    }

    fn reserve(
        &mut self,
        entry: &Cursor<'_, '_>,
        sign: i128,
        budget: &mut Budget,
    ) -> Result<(), SnapshotError> {
        let size = entry.field("size")?.unsigned()?;
        Ok(budget.push(&mut self.changes, Change(sign * i128::from(size)))?)
    }

    fn refuse(
        &mut self,
        entry: &Cursor<'_, '_>,
        site: u32,
        budget: &mut Budget,
    ) -> Result<(), SnapshotError> {
        let Some(wanted) = entry.optional("size")? else { return Ok(()) };
        let device_free = entry.optional("device_free")?;
        let stream = entry.optional("stream")?;
        let request = Request {
            size: Bytes::new(wanted.unsigned()?),
            stream: stream.map_or(Ok(0), |stream| stream.integer())?,
            site,
        };
        let refused = Refused {
            request,
            device_free: device_free.map(|free| free.unsigned()).transpose()?,
            changes: self.changes.len(),
        };
        budget.push(&mut self.steps, Step::OutOfMemory(self.refused.len()))?;
        Ok(budget.push(&mut self.refused, refused)?)
    }

    fn allocate(&mut self, entry: &Entry<'_>, budget: &mut Budget) -> Result<(), SnapshotError> {
        if let Some(State::Live(_)) = self.addresses.get(&entry.address) {
            let (part, address) = (entry.cursor.part(), entry.address);
            return Err(SnapshotError::AlreadyLive { part, address });
        }
        let owner = Owner::Since(self.allocations);
        self.allocations = self.allocations.checked_add(1).ok_or(SnapshotError::TooMany)?;
        let step = Step::Allocate { request: entry.request, time_us: entry.time_us };
        budget.push(&mut self.steps, step)?;
        Ok(self.note(entry.address, State::Live(owner), budget)?)
    }

    fn note(&mut self, address: u64, state: State, budget: &mut Budget) -> Result<(), MemoryLimit> {
        if self.addresses.insert(address, state).is_none() {
            budget.charge(map_entry::<u64, State>())?;
        }
        Ok(())
    }

    /// Frees a block when the free is requested, and again when it is completed. The completion time counts.
    fn free(
        &mut self,
        entry: &Entry<'_>,
        completed: bool,
        budget: &mut Budget,
    ) -> Result<(), SnapshotError> {
        let owner = match self.addresses.get(&entry.address) {
            None => self.add_at_start(entry.address, entry.request, budget)?,
            Some(&State::Live(owner)) => owner,
            Some(&State::Freeing(owner, place)) if completed => {
                if place + 1 == self.steps.len() {
                    self.steps.pop();
                } else {
                    self.defer(place);
                }
                owner
            }
            Some(State::Freeing(..) | State::Free) => return Err(entry.not_live()),
        };
        self.completions |= completed;
        let freeing = State::Freeing(owner, self.steps.len());
        self.note(entry.address, if completed { State::Free } else { freeing }, budget)?;
        Ok(budget.push(&mut self.steps, Step::Free { owner, time_us: entry.time_us })?)
    }

    /// Turns a free into its request: it is completed later, or never.
    fn defer(&mut self, place: usize) {
        if let Step::Free { owner, time_us } = self.steps[place] {
            self.steps[place] = Step::FreeRequested { owner, time_us };
        }
    }

    fn add_at_start(
        &mut self,
        address: u64,
        request: Request,
        budget: &mut Budget,
    ) -> Result<Owner, MemoryLimit> {
        budget.push(&mut self.at_start, (address, request))?;
        Ok(Owner::AtStart(self.at_start.len() - 1))
    }
}

impl<'e> Entry<'e> {
    fn read(cursor: &'e Cursor<'e, 'e>, site: u32, time_us: u64) -> Result<Self, SnapshotError> {
        let address = cursor.field("addr")?.unsigned()?;
        let request = Request {
            size: Bytes::new(cursor.field("size")?.unsigned()?),
            stream: cursor.field("stream")?.integer()?,
            site,
        };
        Ok(Self { cursor, address, request, time_us })
    }

    fn not_live(&self) -> SnapshotError {
        SnapshotError::NotLive { part: self.cursor.part(), address: self.address }
    }
}
