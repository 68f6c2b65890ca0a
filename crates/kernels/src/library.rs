//! Kernels that are ready to use, one to a file.

mod vector_add;

pub use vector_add::vector_add;
