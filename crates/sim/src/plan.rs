//! Transfers of one flit are planned ahead, also where they share links.
//!
//! Each link keeps the crossings that are planned on it, in the order in which they will ask. A leg of one
//! flit that begins finds its place on each of its links: behind all others, as messages of one sender
//! are, or in a gap before one that does not wait, where it delays nobody. Then all its crossings are known
//! at once, and the engine waits for one event, its end. Where it would hold another up, or meets
//! flits that go by themselves, it goes by itself as well, and every planned leg that shares a link with it,
//! directly or through others, is *scattered*: each goes on by itself from where it is at this very event.
//!
//! Why the order is the same as without plans. A planned leg keeps its links until it is done, so on no link
//! are there both planned legs and others. Of two planned legs that leave a node by one link and at one
//! instant, the one that began first has crossed that link first: whoever is put into a gap must leave before
//! the one behind it. So ties go by the number of the leg, and those that are scattered go on in this order.

use std::collections::VecDeque;

use crate::component::{Asks, Component, TransferId};
use crate::engine::{Engine, Event};
use crate::fabric::LinkState;
use crate::network::LinkId;
use crate::observer::{Observer, Wait};
use crate::queue::EventQueue;
use crate::transfer::{LegEnd, SlotId};
use crate::{Span, Time};

/// A crossing that is worked out ahead.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    asked: u64,
    rank: u32,
    hop: u16,
    /// Whether its leg is done; it stays for as long as one before it is not.
    done: bool,
    start: u64,
    end: u64,
    slot: SlotId,
    transfer: TransferId,
    leg: u64,
}

/// The crossings that are planned on a link, in the order in which they ask.
#[derive(Debug, Default)]
pub(crate) struct Planned(VecDeque<Crossing>);

/// An event, among the planned crossings.
#[derive(Clone, Copy)]
struct Here {
    now: u64,
    rank: u32,
    /// The planned leg whose end it is, or was last: ties with any other event do not occur.
    leg: u64,
}

impl Here {
    fn is_behind(self, crossing: &Crossing) -> bool {
        (crossing.asked, crossing.rank, crossing.leg) < (self.now, self.rank, self.leg)
    }
}

/// What a transfer keeps of the plan of its leg.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Legs are numbered as they are planned.
    leg: u64,
    is_on: bool,
    /// Where the flit goes on if the leg is scattered now, and when: its end, or an earlier hop.
    next: u16,
    at: u64,
    /// How long it waits for others, and at which hop.
    waits: Vec<(u16, Wait)>,
}

impl Planned {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a crossing in, if it holds up nobody: when it arrives, and whom it has to wait for.
    fn take(&mut self, mut new: Crossing, span: u64, link: &LinkState, here: Here) -> Option<Fit> {
        let later = |other: &&Crossing| {
            (other.asked, other.rank) > (new.asked, new.rank) && !here.is_behind(other)
        };
        let place = self.0.len() - self.0.iter().rev().take_while(later).count();
        let before = place.checked_sub(1).map(|before| &self.0[before]);
        let (free, last) =
            before.map_or((link.free, link.last), |before| (before.end, before.transfer));
        new.start = new.asked.max(free);
        new.end = new.start + span;
        let arrived = link.arrival(new.start, new.end);
        if let Some(next) = self.0.get(place) {
            let waits = next.start > next.asked || new.end > next.asked;
            if waits || arrived >= link.arrival(next.start, next.end) {
                return None;
            }
            self.0.insert(place, new);
        } else {
            self.0.push_back(new);
        }
        let behind = (new.start > new.asked && last != new.transfer).then_some(last);
        Some(Fit { arrived, waited: new.start - new.asked, behind })
    }

    /// The leg is done: crossings go into the account of the link, in their order.
    fn finish(&mut self, leg: u64, link: &mut LinkState) {
        for crossing in self.0.iter_mut().filter(|crossing| crossing.leg == leg) {
            crossing.done = true;
        }
        while let Some(crossing) = self.0.pop_front_if(|first| first.done) {
            crossing.happen(link);
        }
    }

    /// Takes back what a leg has planned.
    fn cancel(&mut self, leg: u64) {
        self.0.retain(|crossing| crossing.leg != leg);
    }
}

/// What a planned crossing comes to.
struct Fit {
    arrived: u64,
    waited: u64,
    behind: Option<TransferId>,
}

impl Crossing {
    fn happen(&self, link: &mut LinkState) {
        link.free = self.end;
        link.last = self.transfer;
        link.busy += self.end - self.start;
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    fn here(&self) -> Here {
        Here { now: self.now.ps(), rank: self.reached, leg: self.uses.done }
    }

    /// Plans a leg of one flit, if it meets only planned ones and holds up none of them.
    pub(crate) fn plan_leg(&mut self, slot: SlotId, asks: &Asks) -> bool {
        let at = match asks {
            Asks::At(time) => *time,
            Asks::Each(times) => times[0],
        };
        assert!(at >= self.now, "a transfer asks before the present");
        self.meets_only_planned(slot) && self.plan_hops(slot, at)
    }

    fn meets_only_planned(&mut self, slot: SlotId) -> bool {
        let transfer = self.transfers.get(slot);
        let links = &self.uses.links;
        let end = self.links[transfer.last_link().index()].to;
        transfer.leg_hops().iter().all(|hop| links[hop.link.index()].transfers == 0)
            && (transfer.leg.end != LegEnd::Flits || self.uses.ends[end.index()].run.is_none())
    }

    fn plan_hops(&mut self, slot: SlotId, at: Time) -> bool {
        let (here, mut rank) = (self.here(), self.start_rank(slot));
        self.uses.planned += 1;
        let transfer = self.transfers.get(slot);
        let (leg, number) = (transfer.leg, self.uses.planned);
        let mut asked = at.ps();
        for hop in leg.from..leg.to {
            let id = transfer.hops[usize::from(hop)].link;
            let link = &self.links[id.index()];
            let (start, end, done) = (0, 0, false);
            let (transfer_id, bytes) = (transfer.id, transfer.bytes);
            let crossing = Crossing {
                asked,
                rank,
                hop,
                done,
                start,
                end,
                slot,
                transfer: transfer_id,
                leg: number,
            };
            let span = link.span(bytes, id, &self.network);
            let planned = &mut self.uses.links[id.index()].planned;
            let Some(fit) = planned.take(crossing, span, link, here) else {
                self.cancel_plan(slot, hop);
                return false;
            };
            if let Some(behind) = fit.behind {
                let span = Span::from_ps(fit.waited);
                transfer.plan.waits.push((hop, Wait { link: id, behind, span }));
            }
            let stores = leg.end == LegEnd::Store && hop + 1 == leg.to;
            asked = fit.arrived + if stores { 0 } else { link.overhead };
            rank = self.flit_ranks + link.rank;
        }
        let plan = &mut transfer.plan;
        (plan.leg, plan.is_on, plan.next, plan.at) = (number, true, leg.to, asked);
        let event = Event::PlanDone { transfer: slot, leg: low_half(number) };
        self.queue.push(Time::from_ps(asked), rank, event);
        if leg.end == LegEnd::Flits {
            let end = self.links[transfer.last_link().index()].to;
            self.uses.ends[end.index()].transfers += 1;
        }
        true
    }

    /// Takes back what was planned before hop `until`, where there was no place.
    fn cancel_plan(&mut self, slot: SlotId, until: u16) {
        let transfer = self.transfers.get(slot);
        for hop in &transfer.hops[usize::from(transfer.leg.from)..usize::from(until)] {
            self.uses.links[hop.link.index()].planned.cancel(self.uses.planned);
        }
        transfer.plan.waits.clear();
    }

    /// A planned leg is done, unless it was scattered.
    pub(crate) fn plan_done(&mut self, slot: SlotId, leg: u32) {
        let transfer = self.transfers.get(slot);
        let number = transfer.plan.leg;
        if low_half(number) != leg || !std::mem::take(&mut transfer.plan.is_on) {
            return;
        }
        for hop in transfer.leg_hops() {
            let planned = &mut self.uses.links[hop.link.index()].planned;
            planned.finish(number, &mut self.links[hop.link.index()]);
        }
        self.flit_hops += u64::from(transfer.leg.to - transfer.leg.from);
        for (_, wait) in transfer.plan.waits.drain(..) {
            self.observer.waited(transfer.id, wait);
        }
        self.uses.done = number;
        if transfer.leg.end == LegEnd::Flits {
            let end = self.links[transfer.last_link().index()].to;
            self.uses.ends[end.index()].transfers -= 1;
            self.hand_over(slot, 0, &[self.now.ps()]);
        }
        self.leg_over(slot);
    }

    /// Scatters the planned legs that share links with this one, directly or through others.
    pub(crate) fn scatter_around(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        let uses = &self.uses.links;
        if transfer.leg_hops().iter().all(|hop| uses[hop.link.index()].planned.is_empty()) {
            return;
        }
        let mut met = Vec::new();
        self.clear_leg(slot, &mut met);
        self.scatter(met);
    }

    /// Scatters all planned legs.
    pub(crate) fn scatter_all(&mut self) {
        let mut met = Vec::new();
        for link in 0..self.links.len() {
            self.clear(LinkId::new(link), &mut met);
        }
        self.scatter(met);
    }

    /// Scatters these and all that share links with them. In the order of their numbers, which decides ties.
    fn scatter(&mut self, mut met: Vec<(u64, SlotId)>) {
        let mut looked_at = 0;
        while let Some(&(_, slot)) = met.get(looked_at) {
            self.clear_leg(slot, &mut met);
            looked_at += 1;
        }
        met.sort_unstable();
        met.into_iter().for_each(|(_, slot)| self.go_on(slot));
    }

    fn clear_leg(&mut self, slot: SlotId, met: &mut Vec<(u64, SlotId)>) {
        let leg = self.transfers.get(slot).leg;
        for hop in leg.from..leg.to {
            let link = self.transfers.get(slot).hops[usize::from(hop)].link;
            self.clear(link, met);
        }
    }

    /// Lets the planned crossings of a link happen that are past, drops the others, and notes whose they were.
    fn clear(&mut self, link: LinkId, met: &mut Vec<(u64, SlotId)>) {
        let here = self.here();
        for crossing in self.uses.links[link.index()].planned.0.drain(..) {
            let past = here.is_behind(&crossing);
            if past {
                crossing.happen(&mut self.links[link.index()]);
            }
            if crossing.done {
                continue;
            }
            let plan = &mut self.transfers.get(crossing.slot).plan;
            if std::mem::take(&mut plan.is_on) {
                met.push((crossing.leg, crossing.slot));
            }
            if !past && crossing.hop < plan.next {
                (plan.next, plan.at) = (crossing.hop, crossing.asked);
            }
        }
    }

    /// Lets the flit of a scattered leg go on by itself.
    fn go_on(&mut self, slot: SlotId) {
        let start_rank = self.start_rank(slot);
        let transfer = self.transfers.get(slot);
        let (leg, next, at) = (transfer.leg, transfer.plan.next, transfer.plan.at);
        self.flit_hops += u64::from(next - leg.from);
        for (hop, wait) in transfer.plan.waits.drain(..) {
            if hop < next {
                self.observer.waited(transfer.id, wait);
            }
        }
        for hop in transfer.leg_hops() {
            self.uses.links[hop.link.index()].transfers += 1;
        }
        let rank = if next == leg.from {
            start_rank
        } else {
            let last = transfer.hops[usize::from(next) - 1].link;
            self.flit_ranks + self.links[last.index()].rank
        };
        let event = match leg.end {
            _ if next < leg.to => Event::Ask { transfer: slot, flit: 0, hop: next },
            LegEnd::Flits => Event::Flit { transfer: slot, flit: 0 },
            LegEnd::Store | LegEnd::Whole => Event::LegDone { transfer: slot },
        };
        self.queue.push(Time::from_ps(at), rank, event);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low_half(number: u64) -> u32 {
    number as u32
}
