//! Global allocator of the process: the system's, with a count and a limit.
//!
//! Rust aborts a program that runs out of memory, or the system kills it. This allocator ends the process
//! with code 3 and a message instead. It counts the bytes that the system's allocator takes for each
//! allocation, with its header, so that many small allocations count fully. Memory besides the heap (code,
//! stacks) is not counted: it is a few MiB.

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

/// Bytes allocated at present, but for what threads have not told yet.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Bytes that a thread allocates or frees before it tells: threads that tell each time wait for each other.
const UNTOLD: usize = 4 << 10;
/// Largest number of bytes that may be allocated.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Messages for a process that exceeds the limit, and for one that the system refuses memory.
static LAST_WORDS: OnceLock<(String, String)> = OnceLock::new();

thread_local! {
    /// Bytes that this thread has not told yet. They are lost when it ends.
    static OWN: Cell<isize> = const { Cell::new(0) };
}

const NO_LIMIT: &str = "error: the host has no more memory to give\n  help: reduce the work\n";

/// The system's allocator, which ends the process with code 3 when the limit is exceeded.
#[derive(Debug)]
pub struct Limited;

/// Sets the limit, which may be exceeded already. Only the first call has an effect.
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

/// Returns the limit; the largest number if none was set.
pub(super) fn limit() -> Bytes {
    Bytes::new(LIMIT.load(Ordering::Relaxed) as u64)
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(held(layout.size()));
        // SAFETY: the caller promises what the system's allocator asks.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(held(layout.size()));
        // SAFETY: the caller promises what the system's allocator asks.
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

/// Returns the bytes that glibc takes for an allocation, with its header.
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

/// Adds to the bytes of this thread, and tells them once they are many.
fn count(bytes: isize) {
    let own = OWN.get().saturating_add(bytes);
    if own.unsigned_abs() < UNTOLD {
        return OWN.set(own);
    }
    OWN.set(0);
    tell(own);
}

/// Adds to the bytes of all threads, and ends the process if they exceed the limit.
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

/// Ends the process. It may hold any lock and has no memory, so nothing here allocates, locks or unwinds.
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
    // SAFETY: the text is as long as it says; neither call uses other memory of the process.
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
