//! One device's history: which free belongs to which allocation.

mod finish;

use std::collections::BTreeMap;

use super::reserved::Change;
use super::{Cursor, Sites, SnapshotError};
use crate::Bytes;
use crate::trace::recorder::Clock;

/// The actions that change nothing.
const IDLE: [&str; 5] = ["oom", "snapshot", "annotate", "workspace_snapshot", "user_defined"];
const ACTIONS: &str = "an action of PyTorch 2.15 or earlier";

/// An allocation, before it is known how many were live at the start and so come first.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// It was live at the start; its place in `at_start`.
    AtStart(usize),
    /// It was allocated in the history; how many were before it.
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
    /// A free that turned out to have come later.
    Withdrawn,
}

/// What is known of an address that the history has mentioned.
#[derive(Clone, Copy, Debug)]
enum State {
    Live(Owner),
    /// A free was requested, and stands at this place of the steps until it is completed.
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
}

/// What an entry of the history says, apart from its action.
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
    ) -> Result<(), SnapshotError> {
        let time = entry.optional("time_us")?.map(|time| time.unsigned()).transpose()?;
        let time_us = time.map_or(self.clock.latest(), |time| self.clock.advance(time));
        let action = entry.field("action")?;
        match action.text()? {
            "alloc" => {
                let site = sites.site(entry)?;
                self.allocate(&Entry::read(entry, site, time_us)?)
            }
            "free_requested" => self.request_free(&Entry::read(entry, 0, time_us)?),
            "free_completed" => self.complete_free(&Entry::read(entry, 0, time_us)?),
            "segment_alloc" | "segment_map" => self.reserve(entry, 1),
            "segment_free" | "segment_unmap" => self.reserve(entry, -1),
            other if IDLE.contains(&other) => Ok(()),
            _ => Err(action.wrong(ACTIONS)),
        }
    }

    fn reserve(&mut self, entry: &Cursor<'_, '_>, sign: i128) -> Result<(), SnapshotError> {
        let size = entry.field("size")?.unsigned()?;
        self.changes.push(Change(sign * i128::from(size)));
        Ok(())
    }

    fn allocate(&mut self, entry: &Entry<'_>) -> Result<(), SnapshotError> {
        if let Some(State::Live(_)) = self.addresses.get(&entry.address) {
            let (part, address) = (entry.cursor.part(), entry.address);
            return Err(SnapshotError::AlreadyLive { part, address });
        }
        let owner = Owner::Since(self.allocations);
        self.allocations = self.allocations.checked_add(1).ok_or(SnapshotError::TooMany)?;
        self.steps.push(Step::Allocate { request: entry.request, time_us: entry.time_us });
        self.addresses.insert(entry.address, State::Live(owner));
        Ok(())
    }

    fn request_free(&mut self, entry: &Entry<'_>) -> Result<(), SnapshotError> {
        let owner = match self.addresses.get(&entry.address) {
            None => self.add_at_start(entry.address, entry.request),
            Some(&State::Live(owner)) => owner,
            Some(State::Freeing(..) | State::Free) => return Err(entry.not_live()),
        };
        self.addresses.insert(entry.address, State::Freeing(owner, self.steps.len()));
        self.steps.push(Step::Free { owner, time_us: entry.time_us });
        Ok(())
    }

    fn complete_free(&mut self, entry: &Entry<'_>) -> Result<(), SnapshotError> {
        let owner = match self.addresses.get(&entry.address) {
            None => self.add_at_start(entry.address, entry.request),
            Some(&State::Live(owner)) => owner,
            Some(&State::Freeing(owner, place)) => {
                self.withdraw(place);
                owner
            }
            Some(State::Free) => return Err(entry.not_live()),
        };
        self.addresses.insert(entry.address, State::Free);
        self.steps.push(Step::Free { owner, time_us: entry.time_us });
        Ok(())
    }

    /// Takes back a free that came later, or not at all.
    fn withdraw(&mut self, place: usize) {
        if place + 1 == self.steps.len() {
            self.steps.pop();
        } else {
            self.steps[place] = Step::Withdrawn;
        }
    }

    fn add_at_start(&mut self, address: u64, request: Request) -> Owner {
        self.at_start.push((address, request));
        Owner::AtStart(self.at_start.len() - 1)
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
