//! What runs on the PEs: the `tl` language, a library of kernels, and benches of them.
//!
//! | module | what is there |
//! |---|---|
//! | [`numeric`] | what kernels compute, in data mode |

pub mod numeric;
