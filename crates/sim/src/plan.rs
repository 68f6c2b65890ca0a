//! Transfers of one flit are planned ahead, also where they share links.
//!
//! A leg of one flit that begins, and that asks for each of its links after all that are planned there, as
//! messages of one sender do, holds up nobody: all its crossings are worked out at once, its links are given
//! to it ahead of time, and the engine waits for one event, its end. When a leg begins that would come
//! before a planned one, or of more flits than one, all planned legs are *scattered*: links are taken back from
//! those that have not yet asked, and each flit goes on by itself from where it is at this very event.
//!
//! Why the order is the same as without plans. A planned leg keeps its links until it is done, so on no link
//! are there both planned legs and others. On each link planned legs cross in the order of their numbers, so
//! ties go by number, and those that are scattered go on in this order.

mod way;

use crate::Time;
use crate::component::{Asks, Component, TransferId};
use crate::engine::{Engine, Event};
use crate::network::{LinkSpec, Network};
use crate::observer::{Observer, Wait};
use crate::queue::EventQueue;
use crate::transfer::{LegEnd, SlotId};
use way::{Paces, Way};

/// What is planned on a link: how many legs, and when the last of them asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Planned {
    pub(crate) legs: u32,
    last: Ask,
}

/// A place in the order of events: that of a planned flit that asks, or of the present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Ask {
    at: u64,
    rank: u32,
    /// Of the present, the planned leg that was done last: only its end ties with those who ask.
    leg: u64,
}

/// All planned legs.
#[derive(Debug)]
pub(crate) struct Plans {
    /// Those that are not done, in no order.
    slots: Vec<SlotId>,
    /// How many there were, and the number of the one that was done last.
    made: u64,
    done: u64,
    /// The rank of flits that begin with a link, by link.
    first_ranks: Vec<u32>,
}

impl Plans {
    pub(crate) fn new(network: &Network, flit_ranks: u32) -> Self {
        let rank = |link: &LinkSpec| flit_ranks + network.rank_of_start(link.from);
        let first_ranks = network.links().iter().map(rank).collect();
        Self { slots: Vec::new(), made: 0, done: 0, first_ranks }
    }
}

/// What a transfer keeps of the plan of its leg.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Legs are numbered as they are planned.
    leg: u64,
    is_on: bool,
    /// Its place in the list of all.
    place: u32,
    /// When it asks for its first link.
    asks: u64,
    /// When each link was free before it, and who had used it last; and what is left of a longer leg.
    before: Vec<(u64, TransferId)>,
    /// How long it waits for others, and at which hop of the leg.
    waits: Vec<(usize, Wait)>,
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// The present, among those who ask.
    fn here(&self) -> Ask {
        Ask { at: self.now.ps(), rank: self.reached, leg: self.plans.done }
    }

    /// Plans a leg of one flit, if it meets only planned ones and comes after all of them.
    ///
    /// # Panics
    /// If it asks before the present.
    pub(crate) fn plan_leg(&mut self, slot: SlotId, asks: &Asks) -> bool {
        let asks = match asks {
            Asks::At(time) => *time,
            Asks::Each(times) => times[0],
        };
        assert!(asks >= self.now, "a transfer asks before the present");
        let transfer = self.transfers.get(slot);
        let wants_flits = transfer.leg.end == LegEnd::Flits;
        let end = self.links[transfer.last_link().index()].to.index();
        if wants_flits && self.uses.ends[end].run.is_some() {
            return false;
        }
        let done = match self.plan_hops(slot, asks.ps()) {
            Ok(done) => done,
            Err(given) => {
                self.cancel_plan(slot, given);
                return false;
            }
        };
        self.uses.ends[end].transfers += u32::from(wants_flits);
        let place =
            u32::try_from(self.plans.slots.len()).expect("fewer than 2³² transfers at once");
        self.plans.slots.push(slot);
        let plan = &mut self.transfers.get(slot).plan;
        (plan.leg, plan.is_on, plan.place, plan.asks) = (self.plans.made, true, place, asks.ps());
        let event = Event::PlanDone { transfer: slot, leg: low_half(self.plans.made) };
        self.queue.push(Time::from_ps(done.at), done.rank, event);
        true
    }

    /// Gives a flit the links of its leg, ahead of time: when it is at the end of the last. Not, if it would
    /// come before another one: then how many it was given, which it is to give back before those planned are
    /// scattered.
    fn plan_hops(&mut self, slot: SlotId, asks: u64) -> Result<Ask, usize> {
        self.plans.made += 1;
        let here = self.here();
        let (network, transfer) = (&self.network, self.transfers.get(slot));
        let rank = self.plans.first_ranks[transfer.leg_hops()[0].link.index()];
        let first = Ask { at: asks, rank, leg: self.plans.made };
        let (uses, links) = (&mut self.uses.links[..], &mut self.links[..]);
        let way = Way { here, first, flit_ranks: self.flit_ranks, uses, links };
        match transfer.bytes {
            0 => way.give(transfer, |_, _| 0),
            bytes if bytes == network.flit_bytes() => way.give(transfer, |link, _| link.flit),
            bytes => {
                let mut paces = Paces { bytes, last: None };
                way.give(transfer, |_, id| paces.span(network.link(id).bandwidth))
            }
        }
    }

    /// Takes the links back that a leg was given before it met somebody.
    #[cold]
    fn cancel_plan(&mut self, slot: SlotId, given: usize) {
        let transfer = self.transfers.get(slot);
        transfer.plan.waits.clear();
        for hop in &transfer.leg_hops()[..given] {
            self.uses.links[hop.link.index()].planned.legs -= 1;
        }
        (0..given).rev().for_each(|hop| self.take_back(slot, hop));
    }

    /// Makes the link at a hop of a leg what it was before it was given to it.
    fn take_back(&mut self, slot: SlotId, hop: usize) {
        let transfer = self.transfers.get(slot);
        let id = transfer.leg_hops()[hop].link;
        let link = &mut self.links[id.index()];
        (link.free, link.last) = transfer.plan.before[hop];
        link.busy -= link.span(transfer.bytes, id, &self.network);
    }

    /// A planned leg is done, unless it was scattered.
    pub(crate) fn plan_done(&mut self, slot: SlotId, leg: u32) {
        let transfer = self.transfers.get(slot);
        if low_half(transfer.plan.leg) != leg || !std::mem::take(&mut transfer.plan.is_on) {
            return;
        }
        let uses = &mut self.uses.links[..];
        for hop in transfer.leg_hops() {
            uses[hop.link.index()].planned.legs -= 1;
        }
        self.flit_hops += u64::from(transfer.leg.to - transfer.leg.from);
        for (_, wait) in transfer.plan.waits.drain(..) {
            self.observer.waited(transfer.id, wait);
        }
        self.plans.done = transfer.plan.leg;
        let place = transfer.plan.place;
        let wants_flits = transfer.leg.end == LegEnd::Flits;
        let end = self.links[transfer.last_link().index()].to.index();
        self.plans.slots.swap_remove(place as usize);
        if let Some(&moved) = self.plans.slots.get(place as usize) {
            self.transfers.get(moved).plan.place = place;
        }
        if wants_flits {
            self.uses.ends[end].transfers -= 1;
            self.hand_over(slot, 0, &[self.now.ps()]);
        }
        self.leg_over(slot);
    }

    /// Scatters all planned legs, if this one shares links with any.
    pub(crate) fn scatter_around(&mut self, slot: SlotId) {
        let hops = self.transfers.get(slot).leg_hops();
        if hops.iter().any(|hop| self.uses.links[hop.link.index()].planned.legs > 0) {
            self.scatter();
        }
    }

    /// Scatters all planned legs: all at once, so that each is scattered only once however they meet.
    pub(crate) fn scatter(&mut self) {
        let mut slots = std::mem::take(&mut self.plans.slots);
        slots.sort_unstable_by_key(|&slot| self.transfers.get(slot).plan.leg);
        let here = self.here();
        let next: Vec<_> = slots.iter().map(|&slot| self.go_on(slot, here)).collect();
        for (&slot, next) in slots.iter().zip(next).rev() {
            let hops = self.transfers.get(slot).leg_hops().len();
            (next..hops).rev().for_each(|hop| self.take_back(slot, hop));
        }
        slots.clear();
        self.plans.slots = slots;
    }

    /// Lets the flit of a planned leg go on by itself: how many of its links it has asked for.
    fn go_on(&mut self, slot: SlotId, here: Ask) -> usize {
        let rank = self.start_rank(slot);
        let transfer = self.transfers.get(slot);
        transfer.plan.is_on = false;
        let leg = transfer.leg;
        let mut ask = Ask { at: transfer.plan.asks, rank, leg: transfer.plan.leg };
        let mut next = leg.from;
        for (at, &(free, _)) in transfer.leg_hops().iter().zip(&transfer.plan.before) {
            let used = &mut self.uses.links[at.link.index()];
            used.transfers += 1;
            used.planned.legs -= 1;
            if ask < here {
                let link = &self.links[at.link.index()];
                let start = ask.at.max(free);
                let end = start + link.span(transfer.bytes, at.link, &self.network);
                next += 1;
                let stores = next == leg.to && leg.end == LegEnd::Store;
                ask.at = link.arrival(start, end) + if stores { 0 } else { link.overhead };
                ask.rank = self.flit_ranks + link.rank;
            }
        }
        self.flit_hops += u64::from(next - leg.from);
        for (hop, wait) in transfer.plan.waits.drain(..) {
            if hop < usize::from(next - leg.from) {
                self.observer.waited(transfer.id, wait);
            }
        }
        let event = match leg.end {
            _ if next < leg.to => Event::Ask { transfer: slot, flit: 0, hop: next },
            LegEnd::Flits => Event::Flit { transfer: slot, flit: 0 },
            LegEnd::Store | LegEnd::Whole => Event::LegDone { transfer: slot },
        };
        self.queue.push(Time::from_ps(ask.at), ask.rank, event);
        usize::from(next - leg.from)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low_half(number: u64) -> u32 {
    number as u32
}
