//! Clock of `ns/op`: CPU time of this thread.
//!
//! Wall-clock time would include the work of other processes: on a busy host, it doubled the result of the same replay.

#![expect(unsafe_code, reason = "the standard library does not read this clock")]

/// Returns a clock that reads the CPU time of the calling thread, in nanoseconds.
pub fn clock() -> impl FnMut() -> u64 {
    || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes only the structure that it is given.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        assert_eq!(done, 0, "every system that has threads has this clock");
        let parts = u64::try_from(now.tv_sec).ok().zip(u64::try_from(now.tv_nsec).ok());
        parts.map_or(0, |(seconds, fraction)| seconds * 1_000_000_000 + fraction)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    /// On a busy host most of the time goes to other processes.
    #[test]
    fn time_that_others_take_does_not_count() {
        let mut clock = super::clock();
        let begin = clock();
        std::thread::sleep(Duration::from_millis(300));
        let slept = clock() - begin;
        assert!(slept < 100_000_000, "{slept} ns while it slept");
        let begin = clock();
        let sum = (0..40_000_000_u64).fold(0, |sum: u64, it| std::hint::black_box(sum ^ it));
        assert!(clock() - begin > 1_000_000, "{sum}");
    }
}
