//! The event loop: takes the next event and executes it, until none is left.

mod order_hash;
mod present;

use std::future::Future;

use crate::arena::Arena;
use crate::component::{Component, Context, Order};
use crate::credit::BufferSpec;
use crate::fabric::Fabric;
use crate::id::{NodeId, TransferId};
use crate::interrupt::Pulse;
use crate::network::Network;
use crate::observer::{NullObserver, Observer};
use crate::queue::Wheel;
use crate::stop::{Stop, Waiter, Waiting};
use crate::task::{TaskHandle, Tasks, Wish};
use crate::transfer::{Delivery, TransferSpec};
use crate::{Span, Time};
use order_hash::OrderHash;
use present::{Event, Present};

/// Settings of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Whether the flits of a transfer move as a train where possible, with one event at its end. The results are the
    /// same.
    pub trains: bool,
    /// Finite buffers after links; they exclude trains. Without them, nodes have unlimited buffers, and links serve
    /// flits in the order of their requests.
    pub buffers: Option<BufferSpec>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { trains: true, buffers: None }
    }
}

/// Event loop of one machine. See the [crate](crate) for an example.
#[derive(Debug)]
pub struct Engine<C: Component, O = NullObserver> {
    fabric: Fabric<C::Message>,
    present: Present<C, O>,
    tasks: Tasks<C::Message>,
    alarms: Arena<(NodeId, u64)>,
    calls: Arena<(NodeId, C::Message)>,
    context: Context<C::Message>,
    /// Nodes whose components were called since they were last found not to wait.
    touched: Vec<NodeId>,
    is_touched: Vec<bool>,
    order: OrderHash,
}

impl<C: Component> Engine<C> {
    /// Creates an engine at time zero. Nodes without a component only forward.
    ///
    /// # Panics
    /// If a component is at a node that does not exist, or two are at one node.
    pub fn new(network: Network, components: impl IntoIterator<Item = (NodeId, C)>) -> Self {
        Self::observed(network, components, EngineConfig::default(), NullObserver)
    }
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Creates an engine at time zero with an observer.
    ///
    /// # Panics
    /// If a component is at a node that does not exist, or two are at one node.
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
        // Within an instant, tasks come first, then alarms by node, then flits.
        let flit_ranks = 1 + u32::try_from(nodes).expect("node numbers have 32 bits");
        let EngineConfig { trains, buffers } = config;
        Self {
            fabric: Fabric::new(network, trains, buffers, wants_flits, flit_ranks),
            present: Present {
                now: Time::ZERO,
                rank: 0,
                reached: 0,
                queue: Wheel::default(),
                components: seated,
                seats,
                observer,
            },
            tasks: Tasks::default(),
            alarms: Arena::default(),
            calls: Arena::default(),
            context: Context::new(),
            touched: Vec::new(),
            is_touched: vec![false; nodes],
            order: OrderHash::default(),
        }
    }

    /// Limits the memory of each train from now on to this number of times, of 8 bytes each; the default is 2²⁴. Longer
    /// trains move as single flits when they meet other transfers. No result depends on the limit.
    pub fn limit_trains(&mut self, times: u64) {
        self.fabric.limit_trains(times);
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.present.now
    }

    /// Returns the network of the engine.
    pub fn network(&self) -> &Network {
        self.fabric.network()
    }

    /// Returns the observer.
    pub fn observer(&self) -> &O {
        &self.present.observer
    }

    /// Returns the observer mutably, for example to take its records.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.present.observer
    }

    /// Returns the component at a node.
    pub fn component(&self, node: NodeId) -> Option<&C> {
        let seat = self.present.seats.get(node.index()).copied()??;
        Some(&self.present.components[seat as usize])
    }

    /// Returns the component at a node mutably, for changes between events.
    pub fn component_mut(&mut self, node: NodeId) -> Option<&mut C> {
        self.component(node)?;
        self.touch(node);
        Some(self.present.component(node))
    }

    /// Returns the time of the next event.
    pub fn next_time(&self) -> Option<Time> {
        self.present.queue.next_time()
    }

    /// Returns the total number of link crossings by flits.
    pub fn flit_hops(&self) -> u64 {
        self.fabric.flit_hops()
    }

    /// Returns the number of transfers in flight.
    pub fn under_way(&self) -> usize {
        self.fabric.under_way()
    }

    /// Returns a hash of the order of all deliveries, alarms, calls and resumed tasks so far. It is the same for the
    /// same input on every machine, with trains and without.
    pub fn order_hash(&self) -> u64 {
        self.order.0
    }

    /// Calls a component at the current time.
    ///
    /// # Panics
    /// If the node has no component.
    pub fn call(&mut self, node: NodeId, message: C::Message) {
        self.with_component(node, |component, context| component.call(message, context));
    }

    /// Calls a component at `time`, or now if `time` is in the past, before flits move in that instant. Calls to one
    /// node at one instant are made in the order in which they were scheduled.
    ///
    /// # Panics
    /// If the node has no component.
    pub fn call_at(&mut self, time: Time, node: NodeId, message: C::Message) {
        let call = self.calls.insert((node, message));
        self.present.queue.push(time.max(self.present.now), alarm_rank(node), Event::Call(call));
    }

    /// Runs until no event is left.
    pub fn run(&mut self) -> Stop {
        self.run_until(Time::NEVER)
    }

    /// Runs until no event is left, until `deadline`, until the end of simulated time, or until it is
    /// [interrupted](crate::interruptible).
    pub fn run_until(&mut self, deadline: Time) -> Stop {
        self.settle_tasks();
        let last = deadline.min(Time::HORIZON);
        let mut pulse = Pulse::default();
        while let Some(entry) = self.present.queue.pop_until(last) {
            let present = &mut self.present;
            let before = if entry.time == present.now { present.reached } else { 0 };
            present.now = entry.time;
            present.rank = entry.rank;
            present.reached = entry.rank.max(before);
            self.happen(entry.event);
            if pulse.beat() {
                return Stop::Interrupted;
            }
        }
        if self.next_time().is_some() {
            self.present.now = last;
            self.present.reached = u32::MAX;
            return if deadline > last { Stop::OutOfTime } else { Stop::Deadline };
        }
        let waiting = self.waiting();
        if waiting.is_empty() { Stop::Idle } else { Stop::Deadlock(waiting) }
    }

    #[inline]
    fn happen(&mut self, event: Event) {
        match event {
            Event::Fabric(event) => {
                if let Some((node, delivery)) = self.fabric.handle(&mut self.present, event) {
                    self.deliver(node, delivery);
                }
            }
            Event::Wake(alarm) => {
                let (node, token) = self.alarms.remove(alarm).expect("an alarm goes off once");
                self.note(token);
                self.with_component(node, |component, context| component.wake(token, context));
            }
            Event::Call(call) => {
                let (node, message) = self.calls.remove(call).expect("a call is made once");
                self.note(u64::from(call.index()));
                self.call(node, message);
            }
            Event::Task(task) => {
                self.note(u64::from(task.index()));
                self.tasks.resume(self.present.now, task);
                self.settle_tasks();
            }
        }
    }

    fn note(&mut self, what: u64) {
        self.order.note(self.present.now, self.present.rank, what);
    }

    fn deliver(&mut self, node: NodeId, delivery: Delivery<C::Message>) {
        self.note(delivery.transfer.get());
        self.present.observer.delivered(delivery.transfer, self.present.now);
        if self.present.seats[node.index()].is_some() {
            self.with_component(node, |component, context| component.receive(delivery, context));
        }
    }

    fn send(&mut self, id: TransferId, spec: TransferSpec<C::Message>) {
        let TransferSpec { route, bytes, message, .. } = &spec;
        self.present.observer.began(id, self.present.now, route, *bytes, message);
        self.fabric.send(&mut self.present, id, spec);
    }

    fn with_component(&mut self, node: NodeId, act: impl FnOnce(&mut C, &mut Context<C::Message>)) {
        self.context.now = self.present.now;
        self.context.node = node;
        self.touch(node);
        let before = self.context.orders.len();
        act(self.present.component(node), &mut self.context);
        self.carry_out(before);
    }

    /// Records that a component may have begun to wait.
    fn touch(&mut self, node: NodeId) {
        if !std::mem::replace(&mut self.is_touched[node.index()], true) {
            self.touched.push(node);
        }
    }

    /// Executes the orders of a component, starting at index `from`. The orders of a called component are executed
    /// before the orders that follow the call.
    fn carry_out(&mut self, from: usize) {
        self.context.orders[from..].reverse();
        while self.context.orders.len() > from
            && let Some(order) = self.context.orders.pop()
        {
            match order {
                Order::Send(id, spec) => self.send(id, spec),
                Order::Wake(node, at, token) => {
                    let alarm = self.alarms.insert((node, token));
                    self.present.queue.push(at, alarm_rank(node), Event::Wake(alarm));
                }
                Order::Raise(signal) => {
                    self.tasks.handle(self.present.now).raise(signal);
                    self.settle_tasks();
                }
                Order::Call(node, message) => self.call(node, message),
            }
        }
    }

    /// Lists the waiting tasks, components and buffers. Only components that were called since they last did not wait
    /// are asked.
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
        waiting.extend(self.fabric.blocked().into_iter().map(|(link, wanted)| Waiting {
            who: Waiter::Buffer(link),
            what: format!("a place in the buffer of link {wanted}"),
            owner: None,
        }));
        waiting
    }

    /// Returns the total busy time of each link, by link.
    pub fn busy(&mut self) -> Vec<Span> {
        self.fabric.busy(&mut self.present)
    }

    /// Starts a task at the current time. The task runs when the engine runs.
    pub fn spawn<F>(
        &mut self,
        name: impl Into<String>,
        task: impl FnOnce(TaskHandle<C::Message>) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        self.tasks.spawn(self.present.now, name, task);
        self.settle_tasks();
    }

    /// Returns the interface of tasks, for code that drives the engine.
    pub fn tasks(&self) -> TaskHandle<C::Message> {
        self.tasks.handle(self.present.now)
    }

    /// Executes the requests of tasks.
    fn settle_tasks(&mut self) {
        while let Some(wish) = self.tasks.next_wish() {
            let Present { now, queue, .. } = &mut self.present;
            match wish {
                Wish::Resume { task, at } => queue.push(at.max(*now), 0, Event::Task(task)),
                Wish::Call { node, message } => self.call(node, message),
            }
        }
    }
}

/// Returns the rank of alarms and calls of a node: after tasks, before flits.
fn alarm_rank(node: NodeId) -> u32 {
    1 + u32::try_from(node.index()).expect("node numbers have 32 bits")
}
