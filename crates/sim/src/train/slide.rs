//! Effects of a changed train on the links behind.
//!
//! Where the train stays between the same others it slides, link by link. Where it does not, the link is computed
//! again.

use super::weave::Lane;
use super::{Passage, Trains};
use crate::Time;
use crate::environment::Environment;
use crate::event::Place;
use crate::id::{LinkId, SlotId};

impl<M> Trains<M> {
    /// Updates the links behind one where the flits of a lane leave at other times or in another order.
    pub(super) fn pass_on(&mut self, env: &mut impl Environment<M>, lane: &Lane) {
        let mut moved = lane.moved;
        for hop in lane.hop + 1.. {
            let transfer = &self.traffic[lane.slot];
            if transfer.train.entered == hop {
                return self.enter(env, lane.slot);
            }
            let Some((flit, from)) = moved else { return };
            if hop == transfer.leg.to {
                return self.expect_end(env, lane.slot);
            }
            let link = transfer.hops[usize::from(hop)].link;
            let Some(slid) = self.slide(env, lane.slot, link) else {
                self.note_dirty(env, from, link);
                return self.note_change(link, lane.slot, flit);
            };
            moved = slid;
        }
    }

    /// Notes that the flits of a train from `flit` on ask for a link at other times or in another order.
    fn note_change(&mut self, link: LinkId, slot: SlotId, flit: usize) {
        let passages = &mut self.uses[link.index()].trains;
        let passage = passages.iter_mut().find(|passage| passage.slot == slot);
        let changed = &mut passage.expect("it has been entered there").changed;
        *changed = (*changed).min(u32::try_from(flit).expect("fewer than 2³² flits"));
    }

    /// Computes a train on a link that it has not begun to cross, if it stays between the same others. Returns the
    /// first flit that leaves differently, if one does.
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
        let times = &mut self.traffic[slot].train.times;
        let free = lane.cross(times, passage.before, Place::NONE);
        let used = &mut self.uses[id.index()];
        used.trains[at] = passage;
        match used.trains.get_mut(at + 1) {
            None => (used.free, used.last) = (free, passage.last),
            Some(next) if next.starts_alike(free) => next.before = free,
            Some(next) => {
                let from = next.first.at;
                self.note_dirty(env, from, id);
            }
        }
        Some(lane.moved)
    }

    /// The entry of a train as its flits ask now, if it has not begun to cross and stays between the same others.
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
