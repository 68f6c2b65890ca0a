//! Global allocator of the process: the system's allocator, with a count and a limit.
//!
//! By default, a program that runs out of memory is aborted by Rust or killed by the system. This allocator ends the
//! process with code 3 and a message instead. It counts the bytes that the system's allocator uses for each allocation,
//! including the header, so that small allocations are counted in full. Memory outside the heap (code, stacks) is not
//! counted: it amounts to a few MiB.

#![expect(
    unsafe_code,
    reason = "an allocator is handed to Rust as an unsafe trait, and its end must not allocate"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

use cubeyard_memory::Bytes;

use crate::output;

/// Bytes allocated at present by all threads, without the pending bytes of each thread.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Number of pending bytes from which a thread updates [`LIVE`]: updates at every allocation would cause
/// contention between threads.
const UNTOLD: usize = 4 << 10;
/// Maximum number of bytes that may be allocated.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Messages for exceeding the limit, and for an allocation that the system refuses.
static LAST_WORDS: OnceLock<(String, String)> = OnceLock::new();

thread_local! {
    /// Pending bytes of this thread, not yet added to [`LIVE`]. They are lost when the thread ends.
    static OWN: Cell<isize> = const { Cell::new(0) };
}

const NO_LIMIT: &str = "error: the host has no more memory to give\n  help: reduce the work\n";

/// The system's allocator, which ends the process with code 3 when the limit is exceeded.
#[derive(Debug)]
pub struct Limited;

/// Sets the limit. Usage may already exceed it. Only the first call has an effect.
pub(super) fn set(limit: Bytes) {
    let over = format!(
        "error: this needs more than the limit of {limit} of memory (--memory)\n  help: reduce the work, or raise \
         the limit with --memory\n"
    );
    let refused = format!(
        "error: this needs more memory than the host gives, below the limit of {limit} (--memory)\n  help: reduce \
         the work\n"
    );
    if LAST_WORDS.set((over, refused)).is_ok() {
        LIMIT.store(usize::try_from(limit.get()).unwrap_or(usize::MAX), Ordering::Relaxed);
        tell(OWN.replace(0));
    }
}

/// Returns the limit; the maximum value if no limit was set.
pub(super) fn limit() -> Bytes {
    Bytes::new(LIMIT.load(Ordering::Relaxed) as u64)
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(held(layout.size()));
        // SAFETY: the caller upholds the contract of the system's allocator.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(held(layout.size()));
        // SAFETY: the caller upholds the contract of the system's allocator.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        give_back(held(layout.size()));
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (held(layout.size()), held(size));
        if new > old {
            take(new - old);
        } else {
            give_back(old - new);
        }
        // SAFETY: the memory came from the system's allocator with this layout.
        given(unsafe { System.realloc(memory, layout, size) })
    }
}

/// Returns the number of bytes that glibc uses for an allocation, including the header.
const fn held(size: usize) -> usize {
    let whole = size.saturating_add(8 + 15) & !15;
    if whole < 32 { 32 } else { whole }
}

fn take(bytes: usize) {
    count(isize::try_from(bytes).unwrap_or(isize::MAX));
}

fn give_back(bytes: usize) {
    count(-isize::try_from(bytes).unwrap_or(isize::MAX));
}

/// Adds to the pending bytes of this thread, and publishes them once they reach the threshold.
fn count(bytes: isize) {
    let own = OWN.get().saturating_add(bytes);
    if own.unsigned_abs() < UNTOLD {
        return OWN.set(own);
    }
    OWN.set(0);
    tell(own);
}

/// Adds a thread's pending bytes to the total, and ends the process if the total exceeds the limit.
fn tell(own: isize) {
    let live = LIVE.fetch_add(own, Ordering::Relaxed).saturating_add(own);
    if usize::try_from(live).is_ok_and(|live| live > LIMIT.load(Ordering::Relaxed)) {
        end(|(over, _)| over);
    }
}

fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        end(|(_, refused)| refused);
    }
    memory
}

/// Ends the process. The thread may hold any lock and no memory is available, so nothing here
/// allocates, locks or unwinds.
#[cold]
#[inline(never)]
fn end(choose: fn(&(String, String)) -> &String) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Ordering::Relaxed) {
        loop {
            // Another thread is about to end the process.
            std::hint::spin_loop();
        }
    }
    output::remove_all();
    let words = LAST_WORDS.get().map_or(NO_LIMIT, |words| choose(words).as_str());
    // SAFETY: pointer and length describe a valid string; neither call uses other memory of the process.
    unsafe {
        libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
        libc::_exit(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_takes_whole_words_and_one_more() {
        let sizes = [0, 1, 24, 25, 40, 41, 4096];
        assert_eq!(sizes.map(held), [32, 32, 32, 48, 48, 64, 4112]);
        assert_eq!(held(usize::MAX), usize::MAX - 15);
    }
}
