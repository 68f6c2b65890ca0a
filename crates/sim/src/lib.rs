//! Advances time, deterministically; knows no hardware.

mod arbiter;
mod component;
mod credit;
mod engine;
mod fabric;
mod merge;
mod network;
mod observer;
pub mod queue;
mod task;
mod time;
mod transfer;

pub use arbiter::Arbiter;
pub use component::{Asks, Component, Context, Delivery, Flit, Send, TransferId};
pub use credit::BufferSpec;
pub use engine::{Engine, EngineConfig, Stop, Waiter, Waiting};
pub use network::{
    Forwarding, LinkId, LinkSpec, Network, NetworkError, NodeId, NodeSpec, Route, RouteError,
};
pub use observer::{Blind, Crossing, Observer, Wait};
pub use task::{SignalId, TaskHandle};
pub use time::{Bandwidth, Span, Time};
