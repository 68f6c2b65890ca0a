//! Sizes of long tests, for the tests of every crate: `#[path = "…/testdata/long_tests.rs"] mod long_tests;`.
//!
//! With `CUBEYARD_LONG_TESTS=1`, as `scripts/test --all` sets it, random histories and sweeps run all of their cases; else a
//! part of them.

#![allow(dead_code, reason = "a crate may need one of them only")]

/// Returns whether long tests run all of their cases.
#[expect(clippy::disallowed_methods, reason = "a test is a front")]
pub(crate) fn all() -> bool {
    std::env::var_os("CUBEYARD_LONG_TESTS").is_some_and(|value| value == "1")
}

/// Returns the number of cases of a random history: `most`, or a tenth of them.
pub(crate) fn cases(most: u32) -> u32 {
    if all() { most } else { most.div_ceil(10) }
}

/// Returns the members of a sweep: all, or the first of every `step`.
pub(crate) fn members<T>(
    every: impl IntoIterator<Item = T>,
    step: usize,
) -> impl Iterator<Item = T> {
    every.into_iter().step_by(if all() { 1 } else { step })
}
