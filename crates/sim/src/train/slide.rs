//! What becomes of a train on the links behind one where it was worked out again.
//!
//! Where it stays between the same others it slides there, link by link. Where it does not, the link is worked
//! out again.

use super::Passage;
use super::Trains;
use super::weave::Lane;
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId};

impl<M> Trains<M> {
    /// Tells the links behind that flits leave in another way than before.
    pub(crate) fn pass_on(&mut self, env: &mut impl Environment<M>, lane: &Lane) {
        let mut moved = lane.moved;
        for hop in lane.hop + 1.. {
            let transfer = self.traffic.transfers.get(lane.slot);
            if transfer.train.entered == hop {
                return self.enter(env, lane.slot);
            }
            let Some((flit, from)) = moved else { return };
            if hop == transfer.leg.to {
                return self.expect_end(env, lane.slot);
            }
            let link = transfer.hops[usize::from(hop)].link;
            let Some(slid) = self.slide(env, lane.slot, link) else {
                return self.pass_on_to(env, link, lane.slot, flit, from);
            };
            moved = slid;
        }
    }

    /// Tells a link that a train's flits from one on come in another way than before, at a time or later.
    fn pass_on_to(
        &mut self,
        env: &mut impl Environment<M>,
        link: LinkId,
        slot: SlotId,
        flit: usize,
        from: u64,
    ) {
        self.note_dirty(env, from, link);
        let passages = &mut self.uses[link.index()].trains;
        let passage = passages.iter_mut().find(|passage| passage.slot == slot);
        let changed = &mut passage.expect("it has been entered there").changed;
        *changed = (*changed).min(u32::try_from(flit).expect("fewer than 2³² flits"));
    }

    /// Lets a train whose flits come in another way than before cross a link, if it has not begun to and stays
    /// between the same others: how that changes when its flits leave.
    #[expect(clippy::option_option, reason = "it may not be, and it may change nothing")]
    fn slide(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
        id: LinkId,
    ) -> Option<Option<(usize, u64)>> {
        let trains = &self.uses[id.index()].trains;
        let at = trains.iter().position(|passage| passage.slot == slot)?;
        let passage = self.in_same_gap(env.now(), id, at)?;
        let mut lane = self.lane(id, &passage);
        // Its order among others stays, so nothing changes behind the link where times do not.
        lane.stale = usize::MAX;
        self.charge(&[lane]);
        let times = &mut self.traffic.transfers.get(slot).train.times;
        let free = lane.cross(times, passage.before, Place::NONE);
        let used = &mut self.uses[id.index()];
        used.trains[at] = passage;
        let Some(next) = used.trains.get_mut(at + 1) else {
            (used.free, used.last) = (free, passage.last);
            return Some(lane.moved);
        };
        if next.starts_alike(free) {
            next.before = free;
        } else {
            let from = next.first.at;
            self.note_dirty(env, from, id);
        }
        Some(lane.moved)
    }

    /// A train on a link as its flits come now, if it has not begun to cross that and stays between the same others.
    fn in_same_gap(&self, now: Time, id: LinkId, at: usize) -> Option<Passage> {
        let used = &self.uses[id.index()];
        let before = used.trains[at];
        let after = self.placed(&before);
        let mut others = used.trains.get(used.booked as usize..at)?.iter();
        let stays = others.all(|other| other.last < after.first)
            && used.trains.get(at + 1).is_none_or(|next| next.is_apart && after.last < next.first);
        let is_ahead = before.first.at.min(after.first.at) > now.ps();
        let is_clean = self.dirty.iter().all(|(_, other)| *other != id);
        (before.is_apart && is_ahead && stays && is_clean).then_some(after)
    }
}
