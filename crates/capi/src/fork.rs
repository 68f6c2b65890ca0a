//! Forks. The child of a process with threads has locks that no thread will ever unlock, and devices that its parent
//! still uses. It must not touch allocators that were created before the fork.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::status::{Failure, Status};

type Hook = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Hook, parent: Hook, child: Hook) -> c_int;
}

/// Number of forks of this process and its ancestors.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Runs in a child before `fork` returns there.
unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of forks, which differs between parent and child.
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Returns the number of forks, and ensures that forks are counted.
pub fn watch() -> Result<u64, Failure> {
    static WATCHED: OnceLock<c_int> = OnceLock::new();
    // SAFETY: the function only increments a number, which is allowed in a child.
    let failed = *WATCHED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(forked)) });
    if failed != 0 {
        let message = format!("forks cannot be watched for: error {failed} of the system");
        return Err(Failure::new(Status::Internal, message));
    }
    Ok(count())
}

/// Refuses, in a child process, an object that a parent created when the fork count was `made`.
pub fn check(made: u64, what: &str) -> Result<(), Failure> {
    if made == count() {
        return Ok(());
    }
    let message = format!("{what} was made before a fork, and belongs to the parent; make another");
    Err(Failure::new(Status::Forked, message))
}
