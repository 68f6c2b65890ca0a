//! A deterministic event engine whose network moves transfers flit by flit. It contains no hardware models.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A machine is a [`Network`] of nodes and directed links, with a [`Component`] at each node that does more than
//! forward. The fabric moves transfers along their routes. A component is called when a transfer has arrived, and gives
//! orders. Here a memory answers every question of a reader after 8 ns with 1 KiB:
//!
//! ```
//! use cubeyard_sim::{
//!     Asks, Bandwidth, Component, Context, Delivery, Engine, LinkId, LinkSpec, Network, NodeId,
//!     NodeSpec, Route, SignalId, Span, Stop, Time, TransferSpec,
//! };
//!
//! const NS: u64 = 1000; // time is counted in picoseconds
//!
//! /// Content of transfers. The type is yours; the engine does not look at it.
//! enum Message {
//!     Ask { there: Route, back: Route, done: SignalId },
//!     Question { back: Route, done: SignalId },
//!     Answer { done: SignalId },
//! }
//!
//! /// One type for all nodes here; a machine with many kinds of parts has an enum.
//! struct Part;
//!
//! impl Component for Part {
//!     type Message = Message;
//!
//!     /// Handles a call from outside the fabric.
//!     fn call(&mut self, message: Message, context: &mut Context<Message>) {
//!         let Message::Ask { there, back, done } = message else { return };
//!         let message = Message::Question { back, done };
//!         let asks = Asks::At(context.now());
//!         context.send(TransferSpec { route: there, bytes: 0, asks, message });
//!     }
//!
//!     /// Receives a transfer whose last flit has arrived.
//!     fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
//!         match delivery.message {
//!             Message::Question { back, done } => {
//!                 let asks = Asks::At(context.now() + Span::from_ps(8 * NS));
//!                 let message = Message::Answer { done };
//!                 context.send(TransferSpec { route: back, bytes: 1024, asks, message });
//!             }
//!             Message::Answer { done } => context.raise(done),
//!             Message::Ask { .. } => unreachable!("only called"),
//!         }
//!     }
//! }
//!
//! // Two nodes and a link in each direction, 256 bytes per nanosecond, in the order of the nodes where they end.
//! let (reader, memory) = (NodeId::new(0), NodeId::new(1));
//! let wire = |from, to| LinkSpec {
//!     from,
//!     to,
//!     bandwidth: Bandwidth::from_gb_per_second(256.0).unwrap(),
//!     propagation: Span::from_ps(10),
//! };
//! let nodes = vec![NodeSpec::default(); 2];
//! let network = Network::new(256, nodes, vec![wire(memory, reader), wire(reader, memory)])?;
//! let back = network.route(&[LinkId::new(0)])?;
//! let there = network.route(&[LinkId::new(1)])?;
//! let mut engine = Engine::new(network, [(reader, Part), (memory, Part)]);
//!
//! // One question: propagation there, 8 ns in the memory, four flits of the answer, propagation back.
//! let done = engine.tasks().signal("the first answer", None);
//! let ask = |done| Message::Ask { there: there.clone(), back: back.clone(), done };
//! engine.call(reader, ask(done));
//! assert_eq!(engine.run(), Stop::Idle);
//! assert_eq!(engine.tasks().raised(done), Some(Time::from_ps(10 + 8 * NS + 4 * NS + 10)));
//!
//! // A task is sequential code in simulated time. This one asks twice, one after the other.
//! let answers = ["the second answer", "the third"].map(|what| engine.tasks().signal(what, None));
//! let questions = answers.map(|answer| (ask(answer), answer));
//! engine.spawn("reader", move |tasks| async move {
//!     for (question, answer) in questions {
//!         tasks.call(reader, question);
//!         tasks.wait(answer).await;
//!     }
//! });
//! assert_eq!(engine.run(), Stop::Idle);
//! assert_eq!(engine.now(), Time::from_ps(3 * (12 * NS + 20)));
//!
//! // A task that waits for a signal that nobody raises is reported; the engine does not hang.
//! let never = engine.tasks().signal("a fourth answer", Some("nobody".into()));
//! engine.spawn("patient", move |tasks| async move { tasks.wait(never).await });
//! let Stop::Deadlock(waiting) = engine.run() else { panic!("a task waits") };
//! assert_eq!(waiting[0].to_string(), "patient waits for a fourth answer from nobody");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! From here:
//!
//! - [`Network`]: nodes with an overhead, links with bandwidth and propagation; checked once, then fixed;
//! - [`Component`] and [`Context`]: calls to a component, and its orders; [`Asks`]: the times at which flits request
//!   their first link;
//! - [`TaskHandle`]: the interface of a task; [`Stop`]: the reason why an engine stopped;
//! - [`Observer`]: sees every transfer, and every flit on request, and changes nothing;
//! - [`EngineConfig`]: whether flits move together as trains, which changes no result, and
//!   whether buffers are finite, which does.
//!
//! The timing rules are in `docs/machine-rules.md`. All ties are broken by one total order (rule 4), so the same input
//! gives the same events; [`Engine::order_hash`] is a hash of that order.

mod arbiter;
mod arena;
mod component;
mod credit;
mod engine;
mod environment;
mod event;
mod fabric;
mod id;
mod interrupt;
mod link;
mod network;
mod observer;
mod queue;
mod stop;
mod task;
mod traffic;
mod train;
mod transfer;

pub use arbiter::Arbiter;
pub use component::{Component, Context};
pub use credit::BufferSpec;
pub use cubeyard_units::{Bandwidth, Span, Time};
pub use engine::{Engine, EngineConfig};
pub use id::{LinkId, NodeId, TransferId};
pub use interrupt::{interruptible, uninterrupted};
pub use network::{Forwarding, LinkSpec, Network, NetworkError, NodeSpec, Route, RouteError};
pub use observer::{Crossing, NullObserver, Observer, Wait};
pub use stop::{Stop, Waiter, Waiting};
pub use task::{SignalId, TaskHandle};
pub use transfer::{Asks, Delivery, Flit, TransferSpec};
