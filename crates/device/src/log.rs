//! What happened: a record of each transfer, and of each flit where that is wanted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cubeyard_sim::{Crossing, Observer, Route, Time, TransferId, Wait};

use crate::message::{Message, RequestId};

/// A transfer, from its beginning to its delivery.
#[derive(Clone, Debug)]
pub struct TransferRecord {
    /// The request that it belongs to; a user's own component's may belong to none.
    pub request: Option<RequestId>,
    /// What it was.
    pub kind: TransferKind,
    /// The way it took.
    pub route: Route,
    /// What it carried.
    pub bytes: u64,
    /// When it began.
    pub begun: Time,
    /// When it was delivered, if it was.
    pub delivered: Option<Time>,
    /// The longest that a flit of it stood behind another transfer, and which.
    pub wait: Option<Wait>,
}

/// What a transfer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferKind {
    /// A read's command or a write's data, to a memory.
    Access,
    /// A read's data or a write's acknowledgement, from a memory.
    Answer,
    /// A message of a launch, or of mappings.
    Command,
    /// From a PE to another, or the credit for it.
    Message,
    /// Something of a user's own component.
    Custom,
}

impl TransferKind {
    fn of(message: &Message) -> Self {
        match message {
            Message::Issue(_) | Message::Access(_) => Self::Access,
            Message::Answer(_) => Self::Answer,
            Message::Packet(_) | Message::Credit(_) => Self::Message,
            Message::Custom(_) => Self::Custom,
            _ => Self::Command,
        }
    }
}

/// Keeps a log of a machine.
pub trait Watch: Observer<Message> {
    /// The log.
    fn log(&self) -> &Log;

    /// Every flit on every link, in the order in which links were given; none if they are not kept.
    fn crossings(&self) -> &[Crossing] {
        &[]
    }
}

/// One record for each transfer, or for each that no program of a PE has made.
#[derive(Clone, Debug, Default)]
pub struct Log {
    transfers: Vec<TransferRecord>,
    /// The number of the first that is kept.
    first: u64,
    /// The numbers of those that are kept, if those of programs are not.
    kept: Option<Vec<TransferId>>,
}

impl Log {
    /// A log without the loads, stores and messages of programs, so that it does not grow with what they
    /// move. Commands, from which [`Machine::stages`](crate::machine::Machine::stages) is told, and other requests are
    /// kept.
    pub fn without_programs() -> Self {
        Self { kept: Some(Vec::new()), ..Self::default() }
    }

    /// All transfers that are kept, in the order of their numbers.
    pub fn transfers(&self) -> &[TransferRecord] {
        &self.transfers
    }

    /// One transfer.
    ///
    /// # Panics
    /// If it is not kept.
    pub fn transfer(&self, transfer: TransferId) -> &TransferRecord {
        &self.transfers[self.index(transfer).expect("it is kept")]
    }

    /// Forgets all transfers so far, which must have been delivered.
    pub fn forget(&mut self) {
        self.first += self.transfers.len() as u64;
        self.transfers.clear();
        self.kept.iter_mut().for_each(Vec::clear);
    }

    #[inline]
    fn index(&self, transfer: TransferId) -> Option<usize> {
        match &self.kept {
            None => usize::try_from(transfer.get() - self.first).ok(),
            Some(kept) if kept.last() < Some(&transfer) => None,
            Some(kept) => kept.binary_search(&transfer).ok(),
        }
    }

    /// The transfers that have begun at `time` or later, in the order of their numbers.
    pub fn since(&self, time: Time) -> &[TransferRecord] {
        &self.transfers[self.transfers.partition_point(|record| record.begun < time)..]
    }

    /// The longest that a flit of each request stood behind another transfer, of the requests that had to wait.
    /// Goes through the log once, for all of them.
    pub fn longest_waits(&self) -> BTreeMap<RequestId, Wait> {
        let mut waits: BTreeMap<RequestId, Wait> = BTreeMap::new();
        let waited = |record: &TransferRecord| record.request.zip(record.wait);
        for (request, wait) in self.transfers.iter().filter_map(waited) {
            let longest = waits.entry(request).or_insert(wait);
            if wait.span >= longest.span {
                *longest = wait;
            }
        }
        waits
    }
}

impl Observer<Message> for Log {
    const FLITS: bool = false;

    fn began(&mut self, id: TransferId, now: Time, route: &Route, bytes: u64, message: &Message) {
        if let Some(kept) = &mut self.kept {
            if message.is_of_program() {
                return;
            }
            kept.push(id);
        }
        self.transfers.push(TransferRecord {
            request: message.request(),
            kind: TransferKind::of(message),
            route: route.clone(),
            bytes,
            begun: now,
            delivered: None,
            wait: None,
        });
    }

    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        let Some(place) = self.index(transfer) else { return };
        let longest = &mut self.transfers[place].wait;
        let key = |wait: Wait| (wait.span, Reverse((wait.link, wait.behind)));
        if longest.is_none_or(|longest| key(longest) < key(wait)) {
            *longest = Some(wait);
        }
    }

    fn delivered(&mut self, transfer: TransferId, now: Time) {
        if let Some(place) = self.index(transfer) {
            self.transfers[place].delivered = Some(now);
        }
    }
}

impl Watch for Log {
    fn log(&self) -> &Self {
        self
    }
}

/// A log with every flit on every link: what `explain` and traces are made of.
#[derive(Clone, Debug, Default)]
pub struct FlitLog {
    log: Log,
    crossings: Vec<Crossing>,
}

impl Observer<Message> for FlitLog {
    const FLITS: bool = true;

    fn began(&mut self, id: TransferId, now: Time, route: &Route, bytes: u64, message: &Message) {
        self.log.began(id, now, route, bytes, message);
    }

    fn crossed(&mut self, crossing: Crossing) {
        self.crossings.push(crossing);
    }

    fn waited(&mut self, transfer: TransferId, wait: Wait) {
        self.log.waited(transfer, wait);
    }

    fn delivered(&mut self, transfer: TransferId, now: Time) {
        self.log.delivered(transfer, now);
    }
}

impl Watch for FlitLog {
    fn log(&self) -> &Log {
        &self.log
    }

    fn crossings(&self) -> &[Crossing] {
        &self.crossings
    }
}
