//! Moves transfers over links: as trains, flit by flit, or through finite buffers.

use crate::Span;
use crate::credit::{BufferSpec, Buffers};
use crate::environment::Environment;
use crate::event::FabricEvent;
use crate::id::{LinkId, NodeId, SlotId, TransferId};
use crate::network::Network;
use crate::traffic::Traffic;
use crate::train::Trains;
use crate::transfer::{Asks, Delivery, Leg, LegEnd, TransferSpec};

/// Links of a network and the transfers on them.
///
/// The fabric owns neither the time nor the event queue: it acts on the [`Environment`] passed to it.
#[derive(Debug)]
pub(crate) struct Fabric<M> {
    trains: Trains<M>,
    /// Queues of finite buffers; they exclude trains.
    buffers: Option<Box<Buffers>>,
    /// Whether the component at each node receives single flits.
    wants_flits: Vec<bool>,
    uses_trains: bool,
}

impl<M> Fabric<M> {
    /// Creates a fabric without transfers. The ranks of its events begin at `flit_ranks`.
    pub(crate) fn new(
        network: Network,
        trains: bool,
        buffers: Option<BufferSpec>,
        wants_flits: Vec<bool>,
        flit_ranks: u32,
    ) -> Self {
        let buffers = buffers.map(|spec| Box::new(Buffers::new(spec, &network, flit_ranks)));
        let trains_fit = trains && buffers.is_none();
        let trains = Trains::new(Traffic::new(network, flit_ranks));
        // A train passes a node without an event, but a serial node needs an event to decide which transfer comes
        // first.
        let is_serial = trains.traffic.links.iter().any(|link| link.is_serial);
        let uses_trains = trains_fit && !is_serial && trains.keep_pace();
        Self { trains, buffers, wants_flits, uses_trains }
    }

    /// Sets the number of times that a train keeps in memory, unless it is alone on its links.
    pub(crate) fn limit_trains(&mut self, times: u64) {
        self.trains.limit(times);
    }

    pub(crate) fn network(&self) -> &Network {
        &self.trains.traffic.network
    }

    /// Returns the total number of link crossings by flits.
    pub(crate) fn flit_hops(&self) -> u64 {
        self.trains.traffic.flit_hops
    }

    /// Returns the number of transfers that have begun and not arrived.
    pub(crate) fn under_way(&self) -> usize {
        self.trains.traffic.transfers.under_way()
    }

    /// Returns the total busy time of each link, by link.
    pub(crate) fn busy(&mut self, env: &mut impl Environment<M>) -> Vec<Span> {
        self.trains.book_all(env);
        self.trains.traffic.links.iter().map(|link| Span::from_ps(link.busy)).collect()
    }

    /// Returns rings of full buffers, as pairs of a link and the link that the head of its buffer waits for.
    pub(crate) fn blocked(&self) -> Vec<(LinkId, LinkId)> {
        self.buffers.as_ref().map_or(Vec::new(), |buffers| buffers.blocked())
    }

    /// Begins a transfer.
    ///
    /// # Panics
    /// If it has more than 2³² flits or 2¹⁶ hops, or requests a link before the current time.
    pub(crate) fn send(
        &mut self,
        env: &mut impl Environment<M>,
        id: TransferId,
        spec: TransferSpec<M>,
    ) {
        let TransferSpec { route, bytes, asks, message } = spec;
        let Traffic { network, transfers, .. } = &mut self.trains.traffic;
        let flits = u32::try_from(network.flits(bytes)).expect("fewer than 2³² flits");
        let slot = transfers.insert(id, &route, bytes, flits, env.now(), message);
        self.start_leg(env, slot, 0, &asks);
    }

    /// Executes an event. Returns the transfer that arrives with it, and the transfer's destination.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        env: &mut impl Environment<M>,
        event: FabricEvent,
    ) -> Option<(NodeId, Delivery<M>)> {
        let arrived = match event {
            FabricEvent::Ask { slot, flit, hop } => {
                let now = env.now();
                self.trains.traffic.cross::<false, _>(env, slot, flit, hop, now);
                None
            }
            FabricEvent::Reach { slot, flit, hop } => {
                let traffic = &mut self.trains.traffic;
                if self.buffers.is_some() {
                    traffic.reach::<true>(env, slot, flit, hop);
                } else {
                    traffic.reach::<false>(env, slot, flit, hop);
                }
                None
            }
            FabricEvent::TrainDone { slot, number } => self.trains.arrive(env, slot, number),
            FabricEvent::LegDone { slot } => Some(self.trains.release_leg(slot)),
            FabricEvent::Flit { slot, flit } => {
                let is_last = self.trains.traffic.arrive(env, slot, flit);
                is_last.then(|| self.trains.release_leg(slot))
            }
            FabricEvent::Begin { slot } => {
                self.begin(env, slot);
                None
            }
            FabricEvent::Stand { slot, flit, hop } => {
                let (buffers, traffic) = self.queues();
                buffers.stand(traffic, env, slot, flit, hop);
                None
            }
            FabricEvent::Credit { link } => {
                let (buffers, traffic) = self.queues();
                buffers.credit(traffic, env, link);
                None
            }
            FabricEvent::Serve { link } => {
                let (buffers, traffic) = self.queues();
                buffers.serve(traffic, env, link);
                None
            }
        };
        self.end_leg(env, arrived?)
    }

    fn queues(&mut self) -> (&mut Buffers, &mut Traffic<M>) {
        let buffers = self.buffers.as_deref_mut().expect("only finite buffers have queues");
        (buffers, &mut self.trains.traffic)
    }

    /// Starts a leg at hop `from`: as a train if possible.
    fn start_leg<E: Environment<M>>(&mut self, env: &mut E, slot: SlotId, from: u16, asks: &Asks) {
        let leg = self.leg_from(slot, from);
        let transfer = &mut self.trains.traffic.transfers[slot];
        (transfer.leg, transfer.arrived) = (leg, 0);
        if self.uses_trains && !E::REPORTS_FLITS && self.trains.set_out(env, slot, asks) {
            return;
        }
        self.trains.take_leg(env, slot);
        self.trains.traffic.walk(env, slot, asks, self.buffers.is_some());
    }

    /// Returns the part of a route from hop `from` to the next store-and-forward node, or to the destination.
    fn leg_from(&self, slot: SlotId, from: u16) -> Leg {
        let Traffic { links, transfers, .. } = &self.trains.traffic;
        let hops = &transfers[slot].hops;
        let mut to = usize::from(from);
        loop {
            let link = &links[hops[to].link.index()];
            to += 1;
            let end = if to == hops.len() {
                let flits = self.wants_flits[link.to.index()];
                if flits { LegEnd::Flits } else { LegEnd::Whole }
            } else if link.stores {
                LegEnd::Store
            } else {
                continue;
            };
            let to = u16::try_from(to).expect("a route has fewer than 2¹⁶ hops");
            return Leg { from, to, end };
        }
    }

    /// Makes all flits of a leg request its first link, or join the queue before it.
    fn begin(&mut self, env: &mut impl Environment<M>, slot: SlotId) {
        let traffic = &mut self.trains.traffic;
        let transfer = &traffic.transfers[slot];
        let (flits, hop, now) = (transfer.flits, transfer.leg.from, env.now());
        for flit in 0..flits {
            match self.buffers.as_deref_mut() {
                Some(buffers) => buffers.stand(traffic, env, slot, flit, hop),
                None => traffic.cross::<false, _>(env, slot, flit, hop, now),
            }
        }
    }

    /// Starts the next leg of a transfer whose flits have all arrived, or delivers it.
    fn end_leg(
        &mut self,
        env: &mut impl Environment<M>,
        slot: SlotId,
    ) -> Option<(NodeId, Delivery<M>)> {
        let traffic = &mut self.trains.traffic;
        let transfer = &traffic.transfers[slot];
        if transfer.leg.end != LegEnd::Store {
            return Some(traffic.deliver(slot));
        }
        let (from, link) = (transfer.leg.to, transfer.end_link());
        let at = traffic.charge_stored(link, env.now());
        self.start_leg(env, slot, from, &Asks::At(at));
        None
    }
}
