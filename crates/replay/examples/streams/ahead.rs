//! Temporary memory of one stream while the host runs ahead of the device, after other streams were used once.

use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Lag, Trace, script::Script};
use cubeyard_replay::{policy, run};

/// Numbers of streams, and of launches by which the host is ahead.
pub(crate) const CASES: [(u32, u64); 9] =
    [(1, 0), (1, 50), (1, 500), (2, 0), (2, 50), (2, 500), (8, 0), (8, 50), (8, 500)];

/// Number of times that the temporary block is allocated and freed.
const TIMES: usize = 5000;

/// Returns the trace of a case: each other stream uses 1 MiB once, then stream 0 uses 64 MiB again and again.
pub(crate) fn trace(streams: u32, lag: u64) -> Trace {
    let others = (1..streams).map(|stream| format!("alloc a 1 MiB stream {stream}\nfree a\n"));
    let again = (0..TIMES).map(|_| "alloc t 64 MiB\nfree t\n".to_owned());
    let text: Vec<_> = others.chain(again).collect();
    let script = Script::parse(&text.concat()).expect("a script");
    script.to_trace("ahead").expect("its frees match").with_lag(Lag::Launches(lag))
}

/// Returns the peak bytes of a policy for a trace.
pub(crate) fn peak(name: &str, trace: &Trace) -> Bytes {
    let mut target = policy(name).ok().and_then(|it| it.target(trace)).expect("a policy by name");
    let outcome = run(trace, &mut *target, &mut |_| {});
    assert_eq!(outcome.failed, None, "{name}: there is no limit");
    outcome.peak_reserved
}
