//! The loop: takes the next event, lets it happen, until nothing is left.

use crate::component::{Component, Context, Order};
use crate::credit::{BufferSpec, Buffers};
use crate::id::{LinkId, NodeId};
use crate::link::LinkState;
use crate::network::Network;
use crate::observer::{Blind, Observer};
use crate::queue::{EventQueue, Wheel};
use crate::stop::{Stop, Waiter, Waiting};
use crate::task::Tasks;
use crate::train::{Trains, Uses};
use crate::transfer::{Delivery, Flit, LegEnd, SlotId, Transfers};
use crate::{Span, Time};

/// What is due. Twelve bytes, because queues are made of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// All flits of a leg ask for its first link.
    Begin { transfer: SlotId },
    /// A flit asks for a link.
    Ask { transfer: SlotId, flit: u32, hop: u16 },
    /// A flit is delivered to a component that wants each.
    Flit { transfer: SlotId, flit: u32 },
    /// A leg is done.
    LegDone { transfer: SlotId },
    /// A train is at its end, unless it was worked out anew since: then the number no longer fits.
    TrainDone { transfer: SlotId, number: u32 },
    /// An alarm of a component.
    Wake { alarm: u32 },
    /// A call of a component, from outside.
    Call { call: u32 },
    /// A task goes on.
    Task { task: u32 },
    /// With finite buffers: a flit stands in a queue, and asks for a link when it is the head.
    Stand { transfer: SlotId, flit: u32, hop: u16 },
    /// With finite buffers: a place behind a link is free again.
    Credit { link: LinkId },
    /// With finite buffers: a link is given to one who asks.
    Serve { link: LinkId },
}

/// How an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Whether flits of a transfer move together, as a train with one event at its end, where they can;
    /// the results are the same.
    pub merge: bool,
    /// How much room there is behind each link. Without it nodes have room for everything, and links
    /// serve in the order of asking. With it there are no trains.
    pub buffers: Option<BufferSpec>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { merge: true, buffers: None }
    }
}

/// Advances the time of one machine. See the [crate](crate) for an example.
#[derive(Debug)]
pub struct Engine<C: Component, O = Blind> {
    pub(crate) now: Time,
    /// The rank of the present event.
    pub(crate) rank: u32,
    /// The highest rank so far of this instant, so that trains can be met exactly here: an event
    /// may bring about one of a lower rank, and what lies between has happened.
    pub(crate) reached: u32,
    pub(crate) config: EngineConfig,
    pub(crate) network: Network,
    pub(crate) links: Vec<LinkState>,
    pub(crate) uses: Uses,
    pub(crate) trains: Trains,
    /// Queues, if buffers are finite.
    pub(crate) buffers: Option<Box<Buffers>>,
    pub(crate) transfers: Transfers<C::Message>,
    pub(crate) queue: Wheel<Event>,
    pub(crate) components: Vec<C>,
    /// The component of each node.
    pub(crate) seats: Vec<Option<u32>>,
    pub(crate) wants_flits: Vec<bool>,
    pub(crate) flit_ranks: u32,
    pub(crate) tasks: Tasks<C::Message>,
    pub(crate) observer: O,
    alarms: Waitlist<(NodeId, u64)>,
    calls: Waitlist<(NodeId, Option<C::Message>)>,
    context: Context<C::Message>,
    /// The nodes whose components something happened to since they were last asked what they wait for.
    touched: Vec<NodeId>,
    is_touched: Vec<bool>,
    order: OrderHash,
    pub(crate) flit_hops: u64,
}

impl<C: Component> Engine<C> {
    /// An engine at time zero. Nodes without a component only pass on.
    ///
    /// # Panics
    /// If a component sits at a node that is not there, or two sit at one.
    pub fn new(network: Network, components: impl IntoIterator<Item = (NodeId, C)>) -> Self {
        Self::observed(network, components, EngineConfig::default(), Blind)
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// An engine with somebody looking on.
    ///
    /// # Panics
    /// If a component sits at a node that is not there, or two sit at one.
    pub fn observed(
        network: Network,
        components: impl IntoIterator<Item = (NodeId, C)>,
        config: EngineConfig,
        observer: O,
    ) -> Self {
        let nodes = network.nodes().len();
        let (mut seats, mut wants_flits) = (vec![None; nodes], vec![false; nodes]);
        let mut seated = Vec::new();
        for (node, component) in components {
            let seat = &mut seats[node.index()];
            assert!(seat.is_none(), "two components at node {node}");
            *seat = Some(u32::try_from(seated.len()).expect("fewer components than nodes"));
            wants_flits[node.index()] = component.wants_flits();
            seated.push(component);
        }
        // Tasks come first in an instant, then alarms by node, then flits.
        let flit_ranks = 1 + u32::try_from(nodes).expect("node numbers have 32 bits");
        let buffers = config.buffers.map(|spec| Buffers::new(spec, &network, flit_ranks));
        let links = LinkState::all(&network);
        let merge = config.merge && links.iter().all(LinkState::keeps_pace);
        Self {
            now: Time::ZERO,
            rank: 0,
            reached: 0,
            config: EngineConfig { merge, ..config },
            links,
            uses: Uses::new(&network),
            trains: Trains::default(),
            buffers: buffers.map(Box::new),
            transfers: Transfers::new(),
            queue: Wheel::default(),
            components: seated,
            seats,
            wants_flits,
            flit_ranks,
            tasks: Tasks::default(),
            observer,
            alarms: Waitlist::default(),
            calls: Waitlist::default(),
            context: Context::new(),
            touched: Vec::new(),
            is_touched: vec![false; nodes],
            order: OrderHash::default(),
            flit_hops: 0,
            network,
        }
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What the engine was made of.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Who looks on.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// Who looks on, to be read out.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// The component at a node.
    pub fn component(&self, node: NodeId) -> Option<&C> {
        let seat = (*self.seats.get(node.index())?)?;
        Some(&self.components[seat as usize])
    }

    /// The component at a node, to be changed between events.
    pub fn component_mut(&mut self, node: NodeId) -> Option<&mut C> {
        let seat = (*self.seats.get(node.index())?)?;
        self.touch(node);
        Some(&mut self.components[seat as usize])
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<Time> {
        self.queue.next_time()
    }

    /// How many times a flit has crossed a link.
    pub fn flit_hops(&self) -> u64 {
        self.flit_hops
    }

    /// How many transfers are on their way.
    pub fn under_way(&self) -> usize {
        self.transfers.under_way()
    }

    /// A hash of the order in which everything was delivered, woken and resumed so far. The same for the
    /// same input, on every machine, whether flits moved as trains or by themselves.
    pub fn order_hash(&self) -> u64 {
        self.order.0
    }

    /// Calls a component now.
    ///
    /// # Panics
    /// If no component sits there.
    pub fn call(&mut self, node: NodeId, message: C::Message) {
        self.with_component(node, |component, context| component.call(message, context));
    }

    /// Calls a component at a time that is not past, before flits move in that instant. Calls of one
    /// node and one instant come in the order in which they were ordered.
    ///
    /// # Panics
    /// If no component sits there.
    pub fn call_at(&mut self, time: Time, node: NodeId, message: C::Message) {
        let call = self.calls.put((node, Some(message)));
        self.queue.push(time.max(self.now), alarm_rank(node), Event::Call { call });
    }

    /// Goes on until nothing is left to happen.
    pub fn run(&mut self) -> Stop {
        self.run_until(Time::NEVER)
    }

    /// Goes on until nothing is left to happen, or until `deadline` or simulated time is over.
    pub fn run_until(&mut self, deadline: Time) -> Stop {
        self.settle_tasks();
        let last = deadline.min(Time::HORIZON);
        while let Some(entry) = self.queue.pop_until(last) {
            let before = if entry.time == self.now { self.reached } else { 0 };
            self.now = entry.time;
            self.rank = entry.rank;
            self.reached = entry.rank.max(before);
            self.happen(entry.event);
        }
        if self.queue.next_time().is_some() {
            self.now = last;
            self.reached = u32::MAX;
            return if deadline > last { Stop::OutOfTime } else { Stop::Deadline };
        }
        let waiting = self.waiting();
        if waiting.is_empty() { Stop::Idle } else { Stop::Deadlock(waiting) }
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask { transfer, flit, hop } => self.ask(transfer, flit, hop),
            Event::Begin { transfer } => self.begin(transfer),
            Event::Flit { transfer, flit } => self.flit(transfer, flit),
            Event::LegDone { transfer } => self.leg_done(transfer),
            Event::TrainDone { transfer, number } => self.train_done(transfer, number),
            Event::Wake { alarm } => self.wake(alarm),
            Event::Call { call } => {
                let (node, message) = self.calls.take(call);
                let (node, message) = (*node, message.take().expect("a call is made once"));
                self.order.note(self.now, self.rank, u64::from(call));
                self.call(node, message);
            }
            Event::Task { task } => {
                self.order.note(self.now, 0, u64::from(task));
                self.resume(task);
            }
            Event::Stand { transfer, flit, hop } => self.stand(transfer, flit, hop),
            Event::Credit { link } => self.credit(link),
            Event::Serve { link } => self.serve(link),
        }
    }

    /// A flit is at the end of its route.
    fn flit(&mut self, slot: SlotId, flit: u32) {
        self.hand_over(slot, flit, &[self.now.ps()]);
        let transfer = self.transfers.get(slot);
        transfer.arrived += 1;
        if transfer.arrived == transfer.flits {
            self.leg_done(slot);
        }
    }

    /// Gives flits from `first` on, delivered at these times, to the component at the end of their route.
    pub(crate) fn hand_over(&mut self, slot: SlotId, first: u32, times: &[u64]) {
        let transfer = self.transfers.get(slot);
        let seat = self.seats[self.links[transfer.last_link().index()].to.index()];
        let component = &mut self.components[seat.expect("only components want flits") as usize];
        let message = transfer.message.as_ref().expect("it is under way");
        for (index, &at) in (first..transfer.flits).zip(times) {
            let bytes = transfer.flit_bytes(index, self.network.flit_bytes());
            let flit = Flit { index: u64::from(index), bytes, at: Time::from_ps(at) };
            component.flit(flit, message);
        }
    }

    /// All flits of a leg are at its end.
    pub(crate) fn leg_done(&mut self, slot: SlotId) {
        self.release_leg(slot);
        self.leg_over(slot);
    }

    /// All flits of a leg are at its end, and its links are no longer kept.
    pub(crate) fn leg_over(&mut self, slot: SlotId) {
        let transfer = self.transfers.get(slot);
        if transfer.leg.end == LegEnd::Store {
            return self.next_leg(slot);
        }
        let node = self.links[transfer.last_link().index()].to;
        let message = transfer.message.take().expect("it is under way");
        let delivery = Delivery {
            transfer: transfer.id,
            bytes: transfer.bytes,
            begun: transfer.begun,
            message,
        };
        self.transfers.remove(slot);
        self.order.note(self.now, self.rank, delivery.transfer.get());
        self.observer.delivered(delivery.transfer, self.now);
        if self.seats[node.index()].is_some() {
            self.with_component(node, |component, context| component.receive(delivery, context));
        }
    }

    fn wake(&mut self, alarm: u32) {
        let (node, token) = *self.alarms.take(alarm);
        self.order.note(self.now, self.rank, token);
        self.with_component(node, |component, context| component.wake(token, context));
    }

    fn with_component(&mut self, node: NodeId, act: impl FnOnce(&mut C, &mut Context<C::Message>)) {
        let seat = self.seats[node.index()].expect("a component sits there") as usize;
        self.context.now = self.now;
        self.context.node = node;
        self.touch(node);
        let before = self.context.orders.len();
        act(&mut self.components[seat], &mut self.context);
        self.carry_out(before);
    }

    /// Notes that a component may have begun to wait.
    fn touch(&mut self, node: NodeId) {
        if !std::mem::replace(&mut self.is_touched[node.index()], true) {
            self.touched.push(node);
        }
    }

    /// Carries out what a component has ordered, the first of which is at `from`. What a call orders comes
    /// before what was ordered after the call.
    fn carry_out(&mut self, from: usize) {
        self.context.orders[from..].reverse();
        while self.context.orders.len() > from
            && let Some(order) = self.context.orders.pop()
        {
            match order {
                Order::Send(id, send) => self.send(id, send),
                Order::Wake(node, at, token) => {
                    let alarm = self.alarms.put((node, token));
                    self.queue.push(at, alarm_rank(node), Event::Wake { alarm });
                }
                Order::Raise(signal) => self.raise(signal),
                Order::Call(node, message) => self.call(node, message),
            }
        }
    }

    /// Who waits. Of the components, only those are asked that something happened to since they did not.
    fn waiting(&mut self) -> Vec<Waiting> {
        let mut waiting = self.tasks.waiting();
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.retain(|&node| {
            let what = self.component(node).and_then(Component::waits_for);
            let waits = what.is_some();
            let who = Waiter::Component(node);
            waiting.extend(what.map(|what| Waiting { who, what, owner: None }));
            self.is_touched[node.index()] = waits;
            waits
        });
        self.touched = touched;
        waiting.extend(self.stuck());
        waiting
    }

    /// How long each link has been in use, by link.
    pub fn busy(&mut self) -> Vec<Span> {
        self.book_all();
        self.links.iter().map(|link| Span::from_ps(link.busy)).collect()
    }
}

/// The place of a node's alarms in the order of ties: after tasks, before flits.
fn alarm_rank(node: NodeId) -> u32 {
    1 + u32::try_from(node.index()).expect("node numbers have 32 bits")
}

/// What events refer to by number, because it does not fit into them.
#[derive(Debug)]
struct Waitlist<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Waitlist<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Waitlist<T> {
    fn put(&mut self, item: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = item;
            return slot;
        }
        self.slots.push(item);
        u32::try_from(self.slots.len() - 1).expect("fewer than 2³² at once")
    }

    /// The item, whose place may be used again.
    fn take(&mut self, slot: u32) -> &mut T {
        self.free.push(slot);
        &mut self.slots[slot as usize]
    }
}

/// A hash that depends on the order of what it is fed.
#[derive(Debug)]
struct OrderHash(u64);

impl Default for OrderHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl OrderHash {
    fn note(&mut self, time: Time, rank: u32, what: u64) {
        for word in [time.ps(), u64::from(rank), what] {
            let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
            self.0 = mixed ^ (mixed >> 32);
        }
    }
}
