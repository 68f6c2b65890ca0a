//! Finite buffers after links, with credits and queues.
//!
//! Without this module, a link is a reservation and nodes have unlimited buffers. With it, a flit is granted a link
//! only if the link and an entry in the buffer after it are free. Until then the flit waits in the queue of its input,
//! and only the head of a queue requests a link. The rules are in `docs/machine-rules.md`.
//!
//! Within an instant, flits join queues and credits return first. Then each link that can be granted is served, by
//! number, one flit at a time; the next head of that queue requests its link in the same instant.

use std::collections::VecDeque;
use std::num::NonZero;

use crate::arbiter::{Arbiter, Head, Input};
use crate::environment::Environment;
use crate::event::FabricEvent;
use crate::id::{LinkId, SlotId};
use crate::network::Network;
use crate::traffic::Traffic;
use crate::{Span, Time};

/// Buffer size, and arbitration among waiting flits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// Capacity of a link's buffer in flits. The buffer is at the node where the link ends.
    pub flits: NonZero<u32>,
    /// Rule by which a link chooses among several flits.
    pub arbiter: Arbiter,
}

/// The buffers of a network.
#[derive(Debug)]
pub(crate) struct Buffers {
    arbiter: Arbiter,
    /// Rank of serving link 0: after all flits of the instant.
    rank: u32,
    links: Vec<Buffer>,
}

/// State of a link at its upstream node, and the queue at its downstream node.
#[derive(Clone, Debug)]
struct Buffer {
    /// Number of free buffer entries, as known at the start of the link.
    places: u32,
    /// Time of the next [`FabricEvent::Serve`]; [`Time::NEVER`] if none is scheduled.
    due: Time,
    /// Input that was served last.
    last: Input,
    /// Heads that request the link: at most one per input.
    heads: Vec<Head>,
    /// Flits that start at the link's upstream node and take the link.
    source: VecDeque<Standing>,
    /// Flits that arrived over the link and may continue.
    behind: VecDeque<Standing>,
}

/// A flit in a queue, waiting for the link of its `hop`.
#[derive(Clone, Copy, Debug)]
struct Standing {
    slot: SlotId,
    flit: u32,
    hop: u16,
    asked: Time,
}

impl Buffers {
    pub(crate) fn new(spec: BufferSpec, network: &Network, flit_ranks: u32) -> Self {
        let count = network.links().len() + network.nodes().len();
        let buffer = Buffer {
            places: spec.flits.get(),
            due: Time::NEVER,
            last: Input::NONE,
            heads: Vec::new(),
            source: VecDeque::new(),
            behind: VecDeque::new(),
        };
        Self {
            arbiter: spec.arbiter,
            rank: flit_ranks + u32::try_from(count).expect("link and node numbers have 32 bits"),
            links: vec![buffer; network.links().len()],
        }
    }

    fn link(&mut self, link: LinkId) -> &mut Buffer {
        &mut self.links[link.index()]
    }

    fn rank_of(&self, link: LinkId) -> u32 {
        self.rank + u32::try_from(link.index()).expect("link numbers have 32 bits")
    }

    /// Returns the queue of an input of the node where `link` begins.
    fn queue(&mut self, link: LinkId, input: Input) -> &mut VecDeque<Standing> {
        match input.link() {
            Some(came_by) => &mut self.link(came_by).behind,
            None => &mut self.link(link).source,
        }
    }

    /// Returns, for each link, the link that the head of its buffer requests.
    fn waits(&self) -> Vec<Option<LinkId>> {
        let mut waits = vec![None; self.links.len()];
        for (link, buffer) in self.links.iter().enumerate() {
            for came_by in buffer.heads.iter().filter_map(|head| head.input.link()) {
                waits[came_by.index()] = Some(LinkId::new(link));
            }
        }
        waits
    }

    /// Puts a flit into the queue of its input.
    #[cold]
    pub(crate) fn stand<M>(
        &mut self,
        traffic: &Traffic<M>,
        env: &mut impl Environment<M>,
        slot: SlotId,
        flit: u32,
        hop: u16,
    ) {
        let transfer = &traffic.transfers[slot];
        let link = transfer.hops[usize::from(hop)].link;
        let input = if hop == transfer.leg.from {
            Input::SOURCE
        } else {
            Input::behind(transfer.hops[usize::from(hop) - 1].link)
        };
        let queue = self.queue(link, input);
        queue.push_back(Standing { slot, flit, hop, asked: env.now() });
        if queue.len() == 1 {
            self.step_up(traffic, env, link, input);
        }
    }

    /// Makes the head of a queue, if any, request its link.
    fn step_up<M>(
        &mut self,
        traffic: &Traffic<M>,
        env: &mut impl Environment<M>,
        at: LinkId,
        input: Input,
    ) {
        let Some(&standing) = self.queue(at, input).front() else { return };
        let transfer = &traffic.transfers[standing.slot];
        let link = transfer.hops[usize::from(standing.hop)].link;
        let head = Head { input, asked: standing.asked, begun: transfer.begun };
        self.link(link).heads.push(head);
        self.settle(traffic, env, link);
    }

    /// Schedules the next service of a link, if a flit requests it and a buffer entry is free.
    fn settle<M>(&mut self, traffic: &Traffic<M>, env: &mut impl Environment<M>, link: LinkId) {
        let at = env.now().max(Time::from_ps(traffic.links[link.index()].free));
        let rank = self.rank_of(link);
        let buffer = self.link(link);
        if buffer.places > 0 && !buffer.heads.is_empty() && at < buffer.due {
            buffer.due = at;
            env.schedule(at, rank, FabricEvent::Serve { link });
        }
    }

    /// Counts a buffer entry of a link that has become free.
    #[cold]
    pub(crate) fn credit<M>(
        &mut self,
        traffic: &Traffic<M>,
        env: &mut impl Environment<M>,
        link: LinkId,
    ) {
        self.link(link).places += 1;
        self.settle(traffic, env, link);
    }

    /// Grants a free link, with a free buffer entry, to a head.
    #[cold]
    pub(crate) fn serve<M>(
        &mut self,
        traffic: &mut Traffic<M>,
        env: &mut impl Environment<M>,
        link: LinkId,
    ) {
        let arbiter = self.arbiter;
        let buffer = self.link(link);
        buffer.due = Time::NEVER;
        let place = arbiter.choose(&buffer.heads, buffer.last);
        let head = buffer.heads.swap_remove(place.expect("it is settled only if somebody asks"));
        buffer.last = head.input;
        buffer.places -= 1;
        let standing = self.queue(link, head.input).pop_front();
        let Standing { slot, flit, hop, asked } = standing.expect("a head heads a queue");
        if let Some(came_by) = head.input.link() {
            let latency = Span::from_ps(traffic.links[came_by.index()].credit_latency());
            let event = FabricEvent::Credit { link: came_by };
            env.schedule(env.now() + latency, traffic.flit_ranks, event);
        }
        traffic.cross::<true, _>(env, slot, flit, hop, asked);
        self.step_up(traffic, env, link, head.input);
        self.settle(traffic, env, link);
    }

    /// Returns the rings of buffers in which each waits for the next. If flits wait in queues and no event is pending,
    /// there is at least one ring: each head waits for a full buffer, which also has a head.
    pub(crate) fn blocked(&self) -> Vec<(LinkId, LinkId)> {
        rings(&self.waits())
    }
}

/// Returns the links on rings, each with the next one. Every link waits for at most one other.
fn rings(waits: &[Option<LinkId>]) -> Vec<(LinkId, LinkId)> {
    let mut walk_of = vec![0; waits.len()];
    let mut found = Vec::new();
    for walk in 1..=waits.len() {
        let mut at = LinkId::new(walk - 1);
        while let (0, Some(next)) = (walk_of[at.index()], waits[at.index()]) {
            walk_of[at.index()] = walk;
            at = next;
        }
        // A walk that meets its own path has found a ring.
        let first = at;
        while let (true, Some(next)) = (walk_of[at.index()] == walk, waits[at.index()]) {
            found.push((at, next));
            at = next;
            if at == first {
                break;
            }
        }
    }
    found
}
