//! Advances time, deterministically; knows no hardware.
//!
//! A machine is a [`Network`] of nodes and directed links, and a [`Component`] at each node that does
//! something. The fabric moves transfers along their routes flit by flit: a component is asked when one has
//! come, and answers with orders. Here is a memory that answers every question after 8 ns with 1 KiB, and one who
//! asks:
//!
//! ```
//! use cubeyard_sim::{
//!     Asks, Bandwidth, Component, Context, Delivery, Engine, LinkId, LinkSpec, Network, NodeId,
//!     NodeSpec, Route, SignalId, Span, Stop, Time, TransferSpec,
//! };
//!
//! const NS: u64 = 1000; // time is counted in picoseconds
//!
//! /// What transfers mean. This is for you to choose; the engine does not look at it.
//! enum Message {
//!     Ask { there: Route, back: Route, done: SignalId },
//!     Question { back: Route, done: SignalId },
//!     Answer { done: SignalId },
//! }
//!
//! /// One type for all nodes here; a machine of many kinds has an enum, or boxes.
//! struct Part;
//!
//! impl Component for Part {
//!     type Message = Message;
//!
//!     /// Somebody outside the fabric wants something.
//!     fn call(&mut self, message: Message, context: &mut Context<Message>) {
//!         let Message::Ask { there, back, done } = message else { return };
//!         let message = Message::Question { back, done };
//!         let asks = Asks::At(context.now());
//!         context.send(TransferSpec { route: there, bytes: 0, asks, message });
//!     }
//!
//!     /// A transfer has come, to its last flit.
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
//! // Two nodes and a wire in each direction, 256 bytes a nanosecond. Links are numbered by where they end.
//! let (who, memory) = (NodeId::new(0), NodeId::new(1));
//! let wire = |from, to| LinkSpec {
//!     from,
//!     to,
//!     bandwidth: Bandwidth::from_gb_per_second(256.0).unwrap(),
//!     propagation: Span::from_ps(10),
//! };
//! let nodes = vec![NodeSpec::default(); 2];
//! let network = Network::new(256, nodes, vec![wire(memory, who), wire(who, memory)])?;
//! let back = network.route(&[LinkId::new(0)])?;
//! let there = network.route(&[LinkId::new(1)])?;
//! let mut engine = Engine::new(network, [(who, Part), (memory, Part)]);
//!
//! // A transfer: the question takes the wire, the memory 8 ns, the answer four flits and the wire.
//! let done = engine.tasks().signal("the first answer", None);
//! let ask = |done| Message::Ask { there: there.clone(), back: back.clone(), done };
//! engine.call(who, ask(done));
//! assert_eq!(engine.run(), Stop::Idle);
//! assert_eq!(engine.tasks().raised(done), Some(Time::from_ps(10 + 8 * NS + 4 * NS + 10)));
//!
//! // A task is sequential code in simulated time: this one asks twice, one after the other.
//! let answers = ["the second answer", "the third"].map(|what| engine.tasks().signal(what, None));
//! let questions = answers.map(|answer| (ask(answer), answer));
//! engine.spawn("reader", move |tasks| async move {
//!     for (question, answer) in questions {
//!         tasks.call(who, question);
//!         tasks.wait(answer).await;
//!     }
//! });
//! assert_eq!(engine.run(), Stop::Idle);
//! assert_eq!(engine.now(), Time::from_ps(3 * (12 * NS + 20)));
//!
//! // Who waits for what nobody will say is told of, and the engine does not hang.
//! let never = engine.tasks().signal("a fourth answer", Some("nobody".into()));
//! engine.spawn("patient", move |tasks| async move { tasks.wait(never).await });
//! let Stop::Deadlock(waiting) = engine.run() else { panic!("somebody waits") };
//! assert_eq!(waiting[0].to_string(), "patient waits for a fourth answer from nobody");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! From here:
//!
//! - [`Network`]: nodes with an overhead, links with bandwidth and propagation; checked once, then fixed;
//! - [`Component`] and [`Context`]: what a part is asked, and what it may do; [`Asks`] says when flits set out;
//! - [`TaskHandle`]: what a task can do; [`Stop`]: why an engine stopped;
//! - [`Observer`]: sees every transfer, and every flit where that is wanted, and changes nothing;
//! - [`EngineConfig`]: whether flits move together as trains, which changes no result, and
//!   whether buffers are finite, which does.
//!
//! The rules of time are in `docs/machine-rules.md`. All ties are decided by one order (rule 4), so the same input
//! gives the same events; [`Engine::order_hash`] is a number for that order. Nothing here reads a clock.

mod arbiter;
mod arena;
mod component;
mod credit;
mod engine;
mod environment;
mod event;
mod fabric;
mod id;
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
pub use network::{Forwarding, LinkSpec, Network, NetworkError, NodeSpec, Route, RouteError};
pub use observer::{Crossing, NullObserver, Observer, Wait};
pub use stop::{Stop, Waiter, Waiting};
pub use task::{SignalId, TaskHandle};
pub use transfer::{Asks, Delivery, Flit, TransferSpec};
