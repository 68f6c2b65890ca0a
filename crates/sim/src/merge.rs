//! Runs of flits that meet nobody move as one event.
//!
//! A leg whose links (and whose end, if it takes flit by flit) no other transfer uses can be worked out at
//! once: link after link, flit after flit, in a loop without a queue. The engine then waits for one event,
//! the last flit's. If another transfer begins meanwhile that wants one of these links, the run is
//! *broken up*: the loop is done once more up to the present, and every flit goes on by itself from where
//! it is. So the result is the same as without runs, to the picosecond, which a property test holds.

use crate::Time;
use crate::component::{Asks, Component};
use crate::engine::{Engine, Event};
use crate::fabric::LinkState;
use crate::network::Network;
use crate::observer::Observer;
use crate::plan::Planned;
use crate::queue::EventQueue;
use crate::transfer::{Hop, LegEnd, Run, SlotId};

/// Which links, and which ends that take flits, are in use.
#[derive(Debug)]
pub(crate) struct Uses {
    pub(crate) links: Vec<Use>,
    pub(crate) ends: Vec<Use>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// How many transfers use it, without those that are planned on a link.
    pub(crate) transfers: u32,
    pub(crate) run: Option<SlotId>,
    pub(crate) planned: Planned,
}

impl Uses {
    pub(crate) fn new(network: &Network) -> Self {
        let unused = |count| vec![Use::default(); count];
        Self { links: unused(network.links().len()), ends: unused(network.nodes().len()) }
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Applies `change` to each thing that a leg uses.
    fn each_use(&mut self, slot: SlotId, mut change: impl FnMut(&mut Use)) {
        let transfer = self.transfers.get(slot);
        transfer.leg_hops().iter().for_each(|hop| change(&mut self.uses.links[hop.link.index()]));
        if transfer.leg.end == LegEnd::Flits {
            let end = self.links[transfer.last_link().index()].to;
            change(&mut self.uses.ends[end.index()]);
        }
    }

    /// Notes the use of a leg, breaks up the runs in its way, and says whether it is alone.
    pub(crate) fn take_leg(&mut self, slot: SlotId) -> bool {
        self.scatter_around(slot);
        let mut alone = true;
        let mut in_the_way = None;
        self.each_use(slot, |used| {
            alone &= used.transfers == 0;
            used.transfers += 1;
            in_the_way = in_the_way.or(used.run);
        });
        while let Some(run) = in_the_way.take() {
            self.break_up(run);
            self.each_use(slot, |used| in_the_way = in_the_way.or(used.run));
        }
        alone
    }

    /// The leg is done.
    pub(crate) fn release_leg(&mut self, slot: SlotId) {
        self.each_use(slot, |used| used.transfers -= 1);
    }

    /// Whether legs may move as one event.
    pub(crate) fn merges(&self) -> bool {
        self.config.merge && self.buffers.is_none() && !O::FLITS
    }

    /// Whether a leg that is alone can move as one event.
    pub(crate) fn can_run(&self, asks: &Asks) -> bool {
        let in_order = match asks {
            Asks::At(_) => true,
            Asks::Each(times) => times.is_sorted(),
        };
        self.merges() && in_order
    }

    /// Works a leg out and waits for its last flit.
    pub(crate) fn run_leg(&mut self, slot: SlotId, asks: Asks) {
        self.each_use(slot, |used| used.run = Some(slot));
        let transfer = self.transfers.get(slot);
        let mut times = std::mem::take(&mut self.scratch);
        fill(&mut times, &asks, transfer.flits);
        let last = transfer.flit_bytes(transfer.flits - 1, self.network.flit_bytes());
        let (from, to) = (usize::from(transfer.leg.from), usize::from(transfer.leg.to));
        let stores = transfer.leg.end == LegEnd::Store;
        for (hop, at) in transfer.hops.iter_mut().enumerate().take(to).skip(from) {
            let link = &self.links[at.link.index()];
            let charged = if stores && hop + 1 == to { 0 } else { link.overhead };
            let mut pass = Pass::new(link, charged, link.span(last, at.link, &self.network));
            pass.cross(&mut times, true);
            // Nobody looks at the header while the run lasts: its place keeps when the link is free.
            at.header = pass.free;
        }
        let done = times[times.len() - 1];
        let end = &self.links[transfer.hops[to - 1].link.index()];
        let event = Event::RunDone { transfer: slot, number: transfer.short_number() };
        self.queue.push(Time::from_ps(done), self.flit_ranks + end.rank, event);
        let wanted = transfer.leg.end == LegEnd::Flits;
        let delivered = if wanted { std::mem::take(&mut times) } else { Vec::new() };
        transfer.run = Some(Run { asks, delivered });
        self.scratch = times;
    }

    /// The last flit of a run is there, unless the run was broken up.
    pub(crate) fn run_done(&mut self, slot: SlotId, number: u32) {
        let transfer = self.transfers.get(slot);
        let same = transfer.short_number() == number;
        let Some(run) = transfer.run.take_if(|_| same) else { return };
        let flits = u64::from(transfer.flits);
        let last = transfer.flit_bytes(transfer.flits - 1, self.network.flit_bytes());
        let (from, to) = (usize::from(transfer.leg.from), usize::from(transfer.leg.to));
        for at in &mut transfer.hops[from..to] {
            let link = &mut self.links[at.link.index()];
            link.free = at.header;
            link.busy += (flits - 1) * link.flit + link.span(last, at.link, &self.network);
            link.last = transfer.id;
            self.flit_hops += flits;
        }
        if !run.delivered.is_empty() {
            self.hand_over(slot, 0, &run.delivered);
        }
        self.each_use(slot, |used| used.run = None);
        self.leg_done(slot);
    }

    /// Makes every flit of a run go on by itself, from where it is at this very event.
    fn break_up(&mut self, slot: SlotId) {
        self.each_use(slot, |used| used.run = None);
        let mut rank = self.start_rank(slot);
        let transfer = self.transfers.get(slot);
        let run = transfer.run.take().expect("a run is broken up once");
        let mut times = std::mem::take(&mut self.scratch);
        fill(&mut times, &run.asks, transfer.flits);
        let last_bytes = transfer.flit_bytes(transfer.flits - 1, self.network.flit_bytes());
        let id = transfer.id;
        let leg = transfer.leg;
        let mut reached = times.len();
        for hop in leg.from..leg.to {
            let at = &mut self.transfers.get(slot).hops[usize::from(hop)];
            let link = &mut self.links[at.link.index()];
            let here = (self.now.ps(), self.reached);
            let crossed = times[..reached].partition_point(|&time| (time, rank) < here);
            for (flit, &time) in (0_u32..).zip(&times[..reached]).skip(crossed) {
                let event = Event::Ask { transfer: slot, flit, hop };
                self.queue.push(Time::from_ps(time), rank, event);
            }
            let stores = leg.end == LegEnd::Store && hop + 1 == leg.to;
            let charged = if stores { 0 } else { link.overhead };
            let mut pass = Pass::new(link, charged, link.span(last_bytes, at.link, &self.network));
            let all = crossed == times.len();
            pass.cross(&mut times[..crossed], all);
            at.header = pass.header;
            if crossed > 0 {
                (link.free, link.last) = (pass.free, id);
                link.busy += pass.busy;
                self.flit_hops += crossed as u64;
            }
            rank = self.flit_ranks + link.rank;
            reached = crossed;
        }
        self.arrive_broken_up(slot, &times[..reached], rank);
        self.scratch = times;
    }

    /// What becomes of the flits of a broken run that have crossed its last link.
    fn arrive_broken_up(&mut self, slot: SlotId, times: &[u64], rank: u32) {
        let here = (self.now.ps(), self.reached);
        let transfer = self.transfers.get(slot);
        let delivered = if transfer.leg.end == LegEnd::Flits {
            let delivered = times.partition_point(|&time| (time, rank) < here);
            for (flit, &time) in (0_u32..).zip(times).skip(delivered) {
                let event = Event::Flit { transfer: slot, flit };
                self.queue.push(Time::from_ps(time), rank, event);
            }
            delivered
        } else {
            if times.len() == transfer.flits as usize {
                let done = Time::from_ps(times[times.len() - 1]);
                self.queue.push(done, rank, Event::LegDone { transfer: slot });
            }
            times.len()
        };
        transfer.arrived = u32::try_from(delivered).expect("no more than all");
        if transfer.leg.end == LegEnd::Flits {
            self.hand_over(slot, 0, &times[..delivered]);
        }
    }

    /// Breaks up all runs, so that every account is up to the present.
    pub(crate) fn break_up_all(&mut self) {
        self.scatter();
        for link in 0..self.uses.links.len() {
            if let Some(run) = self.uses.links[link].run {
                self.break_up(run);
            }
        }
    }
}

/// When the flits of a leg ask for its first link.
fn fill(times: &mut Vec<u64>, asks: &Asks, flits: u32) {
    times.clear();
    match asks {
        Asks::At(time) => times.resize(flits as usize, time.ps()),
        Asks::Each(each) => times.extend(each.iter().map(|time| time.ps())),
    }
}

/// A run on one link.
struct Pass {
    free: u64,
    flit: u64,
    last: u64,
    propagation: u64,
    overhead: u64,
    header: u64,
    busy: u64,
}

impl Pass {
    fn new(link: &LinkState, overhead: u64, last: u64) -> Self {
        let LinkState { free, flit, propagation, .. } = *link;
        Self { free, flit, last, propagation, overhead, header: Hop::OPEN, busy: 0 }
    }

    /// Turns the times at which flits ask into those at which they leave the next node.
    fn cross(&mut self, times: &mut [u64], to_the_last: bool) {
        let full = times.len() - usize::from(to_the_last && !times.is_empty());
        let (full, last) = times.split_at_mut(full);
        if let Some((first, rest)) = full.split_first_mut() {
            self.step(first, self.flit);
            let (mut free, flit, propagation) = (self.free, self.flit, self.propagation);
            let header = self.header;
            for time in rest {
                free = free.max(*time) + flit;
                *time = (free + propagation).max(header);
            }
            self.busy += flit * (full.len() as u64 - 1);
            self.free = free;
        }
        last.iter_mut().for_each(|time| self.step(time, self.last));
    }

    fn step(&mut self, time: &mut u64, span: u64) {
        let start = self.free.max(*time);
        self.free = start + span;
        self.busy += span;
        let arrived = (self.free + self.propagation).max(start + 1);
        if self.header == Hop::OPEN {
            self.header = arrived + self.overhead;
        }
        *time = arrived.max(self.header);
    }
}
