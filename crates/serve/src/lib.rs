//! Simulation of a service of a language model: requests arrive, are batched, and receive their tokens.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A [`Load`] has the requests, drawn or read from a trace. A [`Scheduler`] forms one batch a step by the rules of
//! vLLM, with blocks of a [`BlockPool`] for the KV cache. [`StepTimes`] gives the time of a step: [`MachineTimes`]
//! simulates it on a machine. [`simulate`](fn@simulate) runs the service and returns an [`Outcome`], and
//! [`ServiceReport`] has its latencies.
//!
//! ```
//! use cubeyard_serve::{Lengths, Limits, Load, LinearTimes, SchedulerConfig, ServiceConfig, ServiceReport, simulate};
//! use cubeyard_units::{Span, Time};
//!
//! // One request after another on a server that takes 1 ms for each step.
//! let load = Load::regular(3, Span::from_ps(100_000_000_000), Lengths::Fixed(16), Lengths::Fixed(5), 0)?;
//! let config = ServiceConfig::new(SchedulerConfig::default(), 1000);
//! let mut times = LinearTimes { fixed: Span::from_ps(1_000_000_000), per_token: Span::ZERO };
//! let outcome = simulate(&load, &config, &mut times)?;
//! let report = ServiceReport::new(&outcome, &load, &config, &Limits::default());
//! assert_eq!((report.ttft.mean, report.e2el.mean), (1.0, 5.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`load`] | requests, drawn at random |
//! | [`trace`] | requests, read from recorded traces |
//! | [`pool`] | blocks of the KV cache, with reuse of equal prefixes |
//! | [`scheduler`] | batches of steps |
//! | [`shape`] | shapes of batches, and the time of a step |
//! | [`machine`] | times of steps on a simulated machine |
//! | [`service`] | the run of a service |
//! | [`report`] | latencies, throughput and use of memory |
//! | [`search`] | the highest rate of requests within limits |
//! | [`run`](mod@run) | a service from its description to its report |

mod error;
pub mod load;
pub mod machine;
pub mod pool;
pub mod report;
pub mod run;
pub mod scheduler;
pub mod search;
pub mod service;
pub mod shape;
pub mod trace;

pub use error::ServeError;
pub use load::{Lengths, Load, Request};
pub use machine::{MachineTimes, ServedModel};
pub use pool::BlockPool;
pub use report::{Limits, ServiceReport};
pub use run::{LoadSource, Rates, RunConfig, ServiceRun, run};
pub use scheduler::{Policy, Scheduler, SchedulerConfig};
pub use service::{Outcome, ServiceConfig, simulate};
pub use shape::{Chunk, LinearTimes, StepShape, StepTimes};
