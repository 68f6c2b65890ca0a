//! The links that a planned leg is given, one after the other.

use super::{Ask, Plan, Planned};
use crate::fabric::LinkState;
use crate::merge::Use;
use crate::network::LinkId;
use crate::observer::Wait;
use crate::transfer::{Leg, LegEnd, Transfer};
use crate::{Bandwidth, Span};

/// What a leg needs that is to be planned.
pub(super) struct Way<'a> {
    pub(super) here: Ask,
    /// When its flit asks for the first link.
    pub(super) first: Ask,
    pub(super) flit_ranks: u32,
    pub(super) uses: &'a mut [Use],
    pub(super) links: &'a mut [LinkState],
}

impl Way<'_> {
    /// Gives links to a flit that takes as long on each as `span` says: when it is at the end of the last, or
    /// how many it was given until it would have come before another one.
    pub(super) fn give<M>(
        self,
        transfer: &mut Transfer<M>,
        mut span: impl FnMut(&LinkState, LinkId) -> u64,
    ) -> Result<Ask, usize> {
        let Self { here, first: mut ask, flit_ranks, uses, links } = self;
        let (id, Leg { from, to, end }) = (transfer.id, transfer.leg);
        let Plan { before, waits, .. } = &mut transfer.plan;
        let hops = &transfer.hops[usize::from(from)..usize::from(to)];
        let mut overhead = 0;
        if before.len() < hops.len() {
            before.resize(hops.len(), (0, id));
        }
        for (hop, (at, before_it)) in hops.iter().zip(before.iter_mut()).enumerate() {
            ask.at += overhead;
            let used = &mut uses[at.link.index()];
            let Planned { legs, last } = used.planned;
            if used.transfers > 0 || legs > 0 && here <= last && ask < last {
                return Err(hop);
            }
            used.planned = Planned { legs: legs + 1, last: ask };
            let link = &mut links[at.link.index()];
            let start = ask.at.max(link.free);
            if start > ask.at && link.last != id {
                let span = Span::from_ps(start - ask.at);
                waits.push((hop, Wait { link: at.link, behind: link.last, span }));
            }
            let span = span(link, at.link);
            *before_it = (link.free, link.last);
            (link.free, link.last) = (start + span, id);
            link.busy += span;
            overhead = link.overhead;
            ask.at = link.arrival(start, start + span);
            ask.rank = flit_ranks + link.rank;
        }
        ask.at += if end == LegEnd::Store { 0 } else { overhead };
        Ok(ask)
    }
}

/// How long a flit of so many bytes takes at the bandwidths along its way, most of which are as the one before.
pub(super) struct Paces {
    pub(super) bytes: u64,
    pub(super) last: Option<(Bandwidth, u64)>,
}

impl Paces {
    #[inline]
    pub(super) fn span(&mut self, bandwidth: Bandwidth) -> u64 {
        match self.last {
            Some((last, span)) if last == bandwidth => span,
            _ => {
                let span = bandwidth.span(self.bytes).ps();
                self.last = Some((bandwidth, span));
                span
            }
        }
    }
}
