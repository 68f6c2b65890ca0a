//! `libcubeyard`, the library for programs in C: the functions of [`cubeyard_capi`] and nothing else.

pub use cubeyard_capi::*;
