//! Collective operations of PEs, cubes and SIPs.
//!
//! | module | contents |
//! |---|---|
//! | [`collective`] | collective operations, one algorithm per file, and bounds on their bandwidth |
//! | [`distributed`] | process groups in the manner of `torch.distributed`, with the backend `ahbm` |

pub mod collective;
pub mod distributed;

/// Runs the examples of the documentation page about this crate as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/collectives.md")]
struct Pages;
