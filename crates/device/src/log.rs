//! Records of transfers, and optionally of their flits.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use cubeyard_sim::{Crossing, Observer, Route, Time, TransferId, Wait};

use crate::message::{Message, PeDmaMessage, RequestId, RequesterMessage};

/// Record of a transfer.
#[derive(Clone, Debug)]
pub struct TransferRecord {
    /// Request that the transfer belongs to; a custom component's transfer may have none.
    pub request: Option<RequestId>,
    /// Kind of the transfer.
    pub kind: TransferKind,
    /// Links on the route of the transfer.
    pub route: Route,
    /// Size of the payload, in bytes.
    pub bytes: u64,
    /// Start time of the transfer.
    pub begun: Time,
    /// Time of delivery; `None` while the transfer is in flight.
    pub delivered: Option<Time>,
    /// Longest wait of a flit behind another transfer.
    pub wait: Option<Wait>,
}

/// Kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferKind {
    /// Command of a read or data of a write, on the way to a memory.
    Access,
    /// Data of a read or acknowledgement of a write, on the way from a memory.
    Answer,
    /// Message of a launch, or of a change of mappings.
    Command,
    /// Message between PEs, or the credit for one.
    Message,
    /// Message of a custom component.
    Custom,
}

impl TransferKind {
    fn of(message: &Message) -> Self {
        match message {
            Message::Memory(_) | Message::Requester(RequesterMessage::Issue(_)) => Self::Access,
            Message::Requester(RequesterMessage::Answer(_)) => Self::Answer,
            Message::PeDma(PeDmaMessage::Packet(_) | PeDmaMessage::Credit(_)) => Self::Message,
            Message::Custom(_) => Self::Custom,
            _ => Self::Command,
        }
    }
}

/// Observer that keeps a log of a machine.
pub trait Watch: Observer<Message> {
    /// Returns the records of transfers.
    fn log(&self) -> &Log;

    /// Returns every crossing of a link by a flit, in the order in which the links were granted; empty if crossings are
    /// not recorded.
    fn crossings(&self) -> &[Crossing] {
        &[]
    }
}

/// Records of all transfers, optionally without the transfers of programs on PEs.
#[derive(Clone, Debug, Default)]
pub struct Log {
    transfers: Vec<TransferRecord>,
    /// Number of the first transfer in the log.
    first: u64,
    /// Numbers of the recorded transfers, if transfers of programs are not recorded.
    kept: Option<Vec<TransferId>>,
}

impl Log {
    /// Returns a log without the loads, stores and messages of programs, so that its size does not grow with the data
    /// they move. It still records other requests and commands;
    /// [`MachineView::stages`](crate::machine::MachineView::stages) is computed from the commands.
    pub fn without_programs() -> Self {
        Self { kept: Some(Vec::new()), ..Self::default() }
    }

    /// Returns the recorded transfers, in the order of their numbers.
    pub fn transfers(&self) -> &[TransferRecord] {
        &self.transfers
    }

    /// Returns one transfer.
    ///
    /// # Panics
    /// If the transfer is not in the log.
    pub fn transfer(&self, transfer: TransferId) -> &TransferRecord {
        &self.transfers[self.index(transfer).expect("it is kept")]
    }

    /// Removes all transfers so far; all of them must have been delivered.
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

    /// Returns the transfers that began at `time` or later, in the order of their numbers.
    pub fn since(&self, time: Time) -> &[TransferRecord] {
        &self.transfers[self.transfers.partition_point(|record| record.begun < time)..]
    }

    /// Returns, for each request that had to wait, the longest wait of one of its flits behind another
    /// transfer. Reads the log once.
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

/// Log that also records every crossing of a link by a flit, as explanations and traces need.
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
