//! What runs on the PEs: the `tl` language, a library of kernels, and benches of them.
//!
//! | module | what is there |
//! |---|---|
//! | [`numeric`] | what kernels compute, in data mode |
//! | [`report`] | what a run took and why, as data and as a page |

pub mod numeric;
pub mod report;
