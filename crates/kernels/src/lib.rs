//! The `tl` kernel language, a library of kernels for the PEs, and benches of them.
//!
//! | module | contents |
//! |---|---|
//! | [`tl`] | the language in which kernels are written |
//! | [`kernel`] | kernels and their arguments |
//! | [`launch`] | launches of kernels on a context |
//! | [`program`] | kernels as PEs run them: recorded, or live |
//! | [`numeric`] | the arithmetic of kernels in data mode |
//! | [`library`] | ready-made kernels, one per file |
//! | [`mod@bench`] | named benches: a kernel with its inputs and a check |
//! | [`collective`] | collective operations, one algorithm per file |
//! | [`distributed`] | `torch.distributed` with the backend `ahbm` |
//! | [`model`] | time of one step of a language model |
//! | [`report`] | figures, bounds and breakdowns of a run, as data and as a page |

pub mod bench;
pub mod collective;
pub mod distributed;
pub mod kernel;
pub mod launch;
pub mod library;
pub mod model;
pub mod numeric;
pub mod program;
mod race;
pub mod report;
pub mod tl;
pub mod validate;

/// Runs the examples of the documentation pages about this crate as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
#[doc = include_str!("../../../docs/collectives.md")]
struct Pages;
