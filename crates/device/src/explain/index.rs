//! Index of the flits and bursts in a machine's log.

use std::collections::BTreeMap;

use cubeyard_sim::NodeId;

use crate::log::{FlitLog, TransferKind, Watch};
use crate::machine::Machine;
use crate::message::RequestId;
use crate::model::Burst;

/// Marks the absence of an index.
const NONE: u32 = u32::MAX;

/// Indices of flits and bursts in the log, built once for all requests that are explained.
pub(super) struct Index {
    /// First transfer of each kind, by request.
    transfers: BTreeMap<(RequestId, TransferKind), usize>,
    /// For each transfer the number of its flits, and the start of its entries in `places`.
    first: Vec<(usize, usize)>,
    /// Indices of all crossings, by transfer, hop and flit.
    places: Vec<u32>,
    /// Previous crossing of the same link, for each crossing.
    before: Vec<u32>,
    bursts: BTreeMap<NodeId, BurstIndex>,
}

/// Index of the bursts of one memory.
#[derive(Default)]
struct BurstIndex {
    of: BTreeMap<RequestId, Vec<u32>>,
    /// Previous burst on the same channel, for each burst.
    before: Vec<u32>,
}

impl Index {
    pub(super) fn new(machine: &Machine<FlitLog>) -> Self {
        let (mut transfers, mut first, mut count) = (BTreeMap::new(), Vec::new(), 0);
        for (number, record) in machine.view().log().transfers().iter().enumerate() {
            if let Some(request) = record.request {
                transfers.entry((request, record.kind)).or_insert(number);
            }
            let flits =
                usize::try_from(machine.view().network().flits(record.bytes)).expect("in memory");
            first.push((flits, count));
            count += flits * record.route.len();
        }
        let bursts = BTreeMap::new();
        let mut this =
            Self { transfers, first, places: vec![NONE; count], before: Vec::new(), bursts };
        this.read_crossings(machine);
        this
    }

    fn read_crossings(&mut self, machine: &Machine<FlitLog>) {
        let crossings = machine.view().engine().observer().crossings();
        let mut last = vec![NONE; machine.view().network().links().len()];
        self.before.reserve(crossings.len());
        for (place, crossing) in crossings.iter().enumerate() {
            let place = number(place);
            let transfer = usize::try_from(crossing.transfer.get()).expect("in memory");
            let (flits, first) = self.first[transfer];
            let flit = usize::try_from(crossing.flit).expect("in memory");
            self.places[first + crossing.hop * flits + flit] = place;
            let before = std::mem::replace(&mut last[crossing.link.index()], place);
            self.before.push(before);
        }
    }

    /// Returns the first transfer of a kind that belongs to a request.
    pub(super) fn transfer(&self, request: RequestId, kind: TransferKind) -> Option<usize> {
        self.transfers.get(&(request, kind)).copied()
    }

    /// Returns the crossing of the first flit of a transfer at a hop.
    pub(super) fn first(&self, transfer: usize, hop: usize) -> usize {
        self.find(transfer, hop, 0)
    }

    /// Returns the crossing of the last flit of a transfer at a hop.
    pub(super) fn last(&self, transfer: usize, hop: usize) -> usize {
        self.find(transfer, hop, self.first[transfer].0 as u64 - 1)
    }

    /// Returns the crossing of a flit of a transfer at a hop.
    ///
    /// # Panics
    /// If the flit has not crossed that link.
    pub(super) fn find(&self, transfer: usize, hop: usize, flit: u64) -> usize {
        let (flits, first) = self.first[transfer];
        let flit = usize::try_from(flit).expect("in memory");
        place(self.places[first + hop * flits + flit]).expect("a transfer that is done has crossed")
    }

    /// Returns the previous crossing of the same link.
    pub(super) fn before(&self, crossing: usize) -> Option<usize> {
        place(self.before[crossing])
    }

    /// Returns the last burst of a request at a memory that satisfies a condition.
    pub(super) fn last_burst(
        &mut self,
        (node, bursts): (NodeId, &[Burst]),
        request: RequestId,
        is_right: impl Fn(&Burst) -> bool,
    ) -> Option<usize> {
        let index = self.bursts.entry(node).or_insert_with(|| BurstIndex::new(bursts));
        let places = index.of.get(&request)?.iter().rev().map(|&place| place as usize);
        places.into_iter().find(|&place| is_right(&bursts[place]))
    }

    /// Returns the previous burst on the same channel of a memory that `last_burst` has indexed.
    pub(super) fn burst_before(&self, node: NodeId, burst: usize) -> Option<usize> {
        place(self.bursts[&node].before[burst])
    }
}

impl BurstIndex {
    fn new(bursts: &[Burst]) -> Self {
        let mut this = Self::default();
        let mut last: BTreeMap<u64, u32> = BTreeMap::new();
        for (place, burst) in bursts.iter().enumerate() {
            let place = number(place);
            this.of.entry(burst.request).or_default().push(place);
            this.before.push(last.insert(burst.channel, place).unwrap_or(NONE));
        }
        this
    }
}

fn number(place: usize) -> u32 {
    u32::try_from(place).ok().filter(|&place| place != NONE).expect("fewer than 2³² are kept")
}

fn place(number: u32) -> Option<usize> {
    (number != NONE).then_some(number as usize)
}
