//! Collective operations of PEs, cubes and SIPs.
//!
//! Internal: programs use the crate `cubeyard`.
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
