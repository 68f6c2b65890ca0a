//! Is one accelerator system.
//!
//! A [`Topology`](topology::Topology) says what there is and how it is wired; a [`Machine`](machine::Machine) of it
//! runs in simulated time. It is given requests, and says when and why each was done. First one read on a
//! machine that has nothing else to do:
//!
//! ```
//! use cubeyard_device::explain::{Cause, explain, sum};
//! use cubeyard_device::machine::{Machine, MachineBuilder};
//! use cubeyard_device::message::Direction;
//! use cubeyard_device::request::{Outcome, Request};
//! use cubeyard_device::topology::Topology;
//! use cubeyard_sim::{Span, Stop};
//!
//! // Two SIPs of 4×4 cubes of 8 PEs. `Topology::read` reads a file of your own.
//! let topology = Topology::embedded();
//! let mut machine = Machine::new(topology.clone());
//!
//! // PE 1 reads 16 KiB of PE 0's slice of the HBM. A request is only noted; running it takes time.
//! let (pe0, pe1) = (machine.pe("sip0.cube0.pe0")?, machine.pe("sip0.cube0.pe1")?);
//! let address = machine.hbm_address(pe0, 0)?;
//! let read = |from| Request::PeDma { from, direction: Direction::Read, address, bytes: 16 << 10 };
//! let request = machine.submit(read(pe1))?;
//! assert!(machine.completion(request).is_none());
//! assert_eq!(machine.run(), Stop::Idle);
//!
//! let completion = machine.completion(request).unwrap();
//! assert_eq!(completion.outcome, Outcome::Moved { bytes: 16 << 10 });
//! assert_eq!(completion.latency(), Span::from_ps(82_040));
//!
//! // A closed form says the same, because nothing was in the way.
//! assert_eq!(machine.alone(request).unwrap().total(), completion.latency());
//!
//! // Now two readers at once, on a fresh machine that keeps every flit.
//! let mut machine = MachineBuilder::new(topology).build_with_flits();
//! let pe2 = machine.pe("sip0.cube0.pe2")?;
//! let first = machine.submit(read(pe1))?;
//! let second = machine.submit(read(pe2))?;
//! machine.run();
//! assert_eq!(machine.completion(first).unwrap().latency(), Span::from_ps(82_040));
//! let completion = machine.completion(second).unwrap();
//! assert_eq!(completion.latency(), Span::from_ps(158_080));
//!
//! // Why? The steps of its critical path have no gap, so they add up to the picosecond.
//! let steps = explain(&machine, second).unwrap();
//! assert_eq!(sum(&steps, |_| true), completion.latency());
//!
//! // And 55.96 ns of them went into the other read, which had the memory's channels.
//! let behind_the_first = |cause| matches!(cause, Cause::ChannelWait(_, other) if other == first);
//! assert_eq!(sum(&steps, behind_the_first), Span::from_ps(55_960));
//! # Ok::<(), cubeyard_device::request::RequestError>(())
//! ```
//!
//! From here:
//!
//! - [`topology`]: the file, the nodes and links that come of it, routes, pictures;
//! - [`machine`]: a machine, and the builder that puts a component of your own in the place of one of ours;
//! - [`request`]: what may be asked, and what is told; [`message`]: what parts say to each other;
//! - [`model`]: the parts, one file each; [`pe`]: how a PE runs a kernel; [`contents`]: what memory holds, in data mode;
//! - [`log`], [`explain`], [`trace`]: what happened, why it took so long, and a picture of it for Perfetto;
//! - [`race`], [`notice`]: what is found of programs that run to their ends;
//! - [`formula`]: what a transfer alone takes, without simulating it;
//! - [`probe`]: cases, invariants and patterns, as the command `cubeyard probe` runs them.
//!
//! `docs/machine.md` follows one transfer by hand, `docs/machine-rules.md` has the rules of time.
//! `examples/own_component.rs` is a memory controller of somebody else. Nothing here reads a file, a clock or the
//! environment.

mod access;
pub mod contents;
pub mod explain;
pub mod formula;
mod ids;
pub mod input;
pub mod log;
pub mod machine;
pub mod message;
pub mod model;
pub mod notice;
pub mod pe;
pub mod perfetto;
pub mod probe;
pub mod race;
pub mod request;
pub mod topology;
pub mod trace;
pub mod validate;
mod wiring;

pub use wiring::Wiring;

/// The examples of the page about this crate, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/machine.md")]
struct Pages;
