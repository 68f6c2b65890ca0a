//! `--memory`: limits the host memory that a command may use.

mod allocator;
mod free;

use crate::code::Exhausted;

use anyhow::{Result, anyhow};
use cubeyard_bench::TooLarge;
use cubeyard_memory::Bytes;

pub use allocator::Limited;

/// Parses the size given with `--memory`.
pub(crate) fn size(text: &str) -> Result<Bytes> {
    let size = Bytes::read(text).filter(|size| !size.is_zero());
    size.ok_or_else(|| {
        anyhow!("expected a number of bytes of at least 1, such as 512M, 2GiB or 2147483648")
    })
}

/// Limits the allocations of the process from now on, to the given size or else to three quarters of the free memory of
/// the host or its control group. Sets no limit if the free memory is unknown.
pub(crate) fn set(asked: Option<Bytes>) {
    let limit = asked.or_else(default_limit).unwrap_or(Bytes::MAX);
    allocator::set(limit);
}

/// Returns the limit that was set with [`set`].
pub(crate) fn limit() -> Bytes {
    allocator::limit()
}

/// Returns the error of a command that would exceed the limit, judging by its parameters.
pub(crate) fn refuse(error: &TooLarge) -> anyhow::Error {
    let help = "reduce the work, or raise the limit with --memory";
    Exhausted(format!("{error} (--memory)\n  help: {help}")).into()
}

/// Returns three quarters of the free memory of the host or its control group; `None` if it is unknown.
pub(crate) fn default_limit() -> Option<Bytes> {
    free::host().map(|free| Bytes::new(free / 4 * 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_elsewhere() {
        for text in ["2147483648", "2G", "2g", "2GiB", "2 GiB", "2048M"] {
            assert_eq!(size(text).unwrap(), Bytes::gib(2), "{text}");
        }
        for text in ["", "0", "-1", "2.5G", "much", "18446744073709551616", "17179869184G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
