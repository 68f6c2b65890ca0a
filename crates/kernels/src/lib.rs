//! What runs on the PEs: the `tl` language, a library of kernels, and benches of them.
//!
//! | module | what is there |
//! |---|---|
//! | [`tl`] | the language that kernels are written in |
//! | [`kernel`] | kernels and their arguments |
//! | [`launch`] | launches on a context |
//! | [`program`] | kernels as PEs run them: recorded, or live |
//! | [`numeric`] | what kernels compute, in data mode |
//! | [`library`] | kernels that are ready to use, one to a file |
//! | [`mod@bench`] | kernels with inputs and a check, by name |
//! | [`collective`] | operations of many ranks, one algorithm to a file |
//! | [`distributed`] | `torch.distributed` with the backend `ahbm` |
//! | [`model`] | what a step of a language model takes |
//! | [`report`] | what a run took and why, as data and as a page |

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

/// The examples of the pages about this crate, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kernels.md")]
#[doc = include_str!("../../../docs/collectives.md")]
struct Pages;
