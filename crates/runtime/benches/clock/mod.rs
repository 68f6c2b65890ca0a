//! CPU clock of single-threaded benchmarks.

use std::sync::OnceLock;
use std::time::Instant;

/// Returns the CPU time of this thread, in seconds; if the system does not provide it, the wall-clock time.
pub(crate) fn cpu() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let clock = || START.get_or_init(Instant::now).elapsed().as_secs_f64();
    // Linux updates the figure when a thread yields, otherwise only a few times per 10 ms.
    std::thread::yield_now();
    let had = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let had = had.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    had.map_or_else(clock, |ns| ns as f64 / 1e9)
}
