//! Simulates one accelerator system.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A [`Topology`](topology::Topology) describes the components and the wires between them; a
//! [`Machine`](machine::Machine) simulates it in time. The machine accepts requests, and reports when each was done and
//! how its time was spent. First, one read on an idle machine:
//!
//! ```
//! use cubeyard_device::explain::{Cause, explain, sum};
//! use cubeyard_device::machine::{Machine, MachineBuilder};
//! use cubeyard_device::message::Direction;
//! use cubeyard_device::request::{Outcome, Request};
//! use cubeyard_device::topology::Topology;
//! use cubeyard_sim::{Span, Stop};
//!
//! // Two SIPs of 4×4 cubes of 8 PEs. `Topology::read` reads a custom file.
//! let topology = Topology::embedded();
//! let mut machine = Machine::new(topology.clone());
//!
//! // PE 1 reads 16 KiB of PE 0's slice of the HBM. `submit` only queues a request; `run` simulates it.
//! let (pe0, pe1) = (machine.view().pe("sip0.cube0.pe0")?, machine.view().pe("sip0.cube0.pe1")?);
//! let address = machine.view().hbm_address(pe0, 0)?;
//! let read = |from| Request::PeDma { from, direction: Direction::Read, address, bytes: 16 << 10 };
//! let request = machine.submit(read(pe1))?;
//! assert!(machine.completion(request).is_none());
//! assert_eq!(machine.run(), Stop::Idle);
//!
//! let completion = machine.completion(request).unwrap();
//! assert_eq!(completion.outcome, Outcome::Moved { bytes: 16 << 10 });
//! assert_eq!(completion.latency(), Span::from_ps(82_040));
//!
//! // The closed form gives the same latency, because the machine was idle.
//! assert_eq!(machine.view().unloaded_latency(request).unwrap().total(), completion.latency());
//!
//! // Now two readers at once, on a fresh machine that keeps every flit.
//! let mut machine = MachineBuilder::new(topology).build_with_flits();
//! let pe2 = machine.view().pe("sip0.cube0.pe2")?;
//! let first = machine.submit(read(pe1))?;
//! let second = machine.submit(read(pe2))?;
//! machine.run();
//! assert_eq!(machine.completion(first).unwrap().latency(), Span::from_ps(82_040));
//! let completion = machine.completion(second).unwrap();
//! assert_eq!(completion.latency(), Span::from_ps(158_080));
//!
//! // The steps of the critical path have no gaps, so they add up to the latency, to the picosecond.
//! let steps = explain(&machine, second).unwrap();
//! assert_eq!(sum(&steps, |_| true), completion.latency());
//!
//! // The second read waited 55.96 ns for the first, which used the memory's channels.
//! let behind_the_first = |cause| matches!(cause, Cause::ChannelWait(_, other) if other == first);
//! assert_eq!(sum(&steps, behind_the_first), Span::from_ps(55_960));
//! # Ok::<(), cubeyard_device::request::RequestError>(())
//! ```
//!
//! Modules:
//!
//! - [`topology`]: topology files, the nodes, links and routes built from them;
//! - [`machine`]: the machine, and a builder that can replace its components by custom ones;
//! - [`request`]: requests and their outcomes; [`message`]: messages between components;
//! - [`model`]: the components, one file each; [`pe`]: execution of kernels on a PE; [`contents`]: contents of memory
//!   in data mode;
//! - [`log`], [`explain`]: records of transfers, and critical paths; [`trace`]: a run as a trace for Perfetto;
//! - [`race`], [`notice`]: data races and other faults of programs;
//! - [`formula`]: latency of a transfer on an idle machine, without simulation;
//! - [`probe`]: measurements of the fabric, as the command `cubeyard probe` runs them.
//!
//! `docs/machine.md` follows one transfer by hand; `docs/machine-rules.md` states the timing rules.
//! `examples/own_component.rs` is a custom memory controller. The crate reads no file, clock or environment variable.

mod access;
pub mod contents;
pub mod explain;
mod failure;
pub mod formula;
mod ids;
pub mod log;
pub mod machine;
pub mod message;
pub mod model;
pub mod notice;
pub mod pe;
pub mod probe;
pub mod race;
pub mod request;
pub mod serial;
pub mod shared_memory;
pub mod topology;
pub mod trace;
mod wiring;
