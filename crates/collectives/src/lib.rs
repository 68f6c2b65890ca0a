//! Collective operations of PEs, cubes and SIPs.
//!
//! | module | contents |
//! |---|---|
//! | [`collective`] | collective operations, one algorithm per file, and bounds on their bandwidth |
//! | [`distributed`] | process groups in the manner of `torch.distributed`, with the backend `ahbm` |
//! | [`service`] | collectives of programs that run elsewhere: in other processes, or on other threads |

pub mod collective;
pub mod distributed;
mod matching;
pub mod service;

/// Runs the examples of the documentation page about this crate as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/collectives.md")]
struct Pages;
