//! What benches of one thread measure with.

use std::sync::OnceLock;
use std::time::Instant;

/// CPU seconds that this thread has had; where the system does not say, seconds of the clock.
pub(crate) fn cpu() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let clock = || START.get_or_init(Instant::now).elapsed().as_secs_f64();
    // Linux brings the figure up to date when a thread gives way, else a few times in 10 ms.
    std::thread::yield_now();
    let had = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let had = had.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    had.map_or_else(clock, |ns| ns as f64 / 1e9)
}
