//! Forks. The child of a process with threads has locks that nobody will ever unlock, and devices that
//! its parent goes on using: it must not touch allocators that were there before.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::{Failure, Status};

type Hook = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Hook, parent: Hook, child: Hook) -> c_int;
}

/// How often this process, its parent, and so on were forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Is called in a child before `fork` returns there.
unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks there were before this process; different in a child.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// The same, having made sure that forks are counted.
pub(crate) fn watch() -> Result<u64, Failure> {
    static WATCHED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the function adds to a number, which may be done in a child.
    let failed = *WATCHED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(forked)) });
    if failed != 0 {
        let message = format!("forks cannot be watched for: error {failed} of the system");
        return Err(Failure::new(Status::Internal, message));
    }
    Ok(count())
}

/// Refuses what was made before a fork, in the child.
pub(crate) fn check(made: u64, what: &str) -> Result<(), Failure> {
    if made == count() {
        return Ok(());
    }
    let message = format!("{what} was made before a fork, and belongs to the parent; make another");
    Err(Failure::new(Status::Forked, message))
}
