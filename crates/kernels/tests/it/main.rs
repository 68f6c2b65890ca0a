//! Kernels against naive references in `f64`, on a small machine: odd shapes, and relations between results.

mod attention;
mod experts;
mod lab;
mod matrices;
mod rows;
