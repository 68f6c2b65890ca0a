use super::*;
use crate::policy;
use crate::trace::script::Script;

fn found(name: &str, script: &str) -> Option<Least> {
    let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
    let policy = policy(name).unwrap();
    let unlimited = run(&trace, &mut *policy.target(&trace).unwrap(), &mut |_| {});
    policy.least(&trace, &unlimited)
}

#[test]
fn pytorch_gives_its_cache_back_before_it_fails() {
    // Without a limit 30 MiB stay cached beside 40 MiB; with one they are given back, once.
    let script = "alloc a 30 MiB\nfree a\nalloc b 40 MiB\n";
    let least = found("pytorch", script).unwrap();
    assert_eq!((least.runs, least.fails), (Bytes::mib(40), Bytes::mib(38)));
    assert_eq!((least.retries, least.reserved), (1, Bytes::mib(40)));
}

#[test]
fn a_segment_with_a_live_block_cannot_be_given_back() {
    // `b` holds a segment of 20 MiB, of which `a` leaves 8 MiB unused.
    let script = "alloc a 8 MiB\nalloc b 2 MiB\nfree a\nalloc c 40 MiB\n";
    let least = found("pytorch", script).unwrap();
    assert_eq!((least.runs, least.retries), (Bytes::mib(60), 0));
    assert_eq!(found("recycle", script).unwrap().runs, Bytes::mib(42));
}

#[test]
fn pages_of_expandable_segments_may_exceed_a_limit() {
    // The check counts the 30 MiB that are asked for, then pages of 20 MiB are mapped.
    let least = found("pytorch-expandable", "alloc a 30 MiB\n").unwrap();
    assert_eq!((least.runs, least.fails), (Bytes::mib(30), Bytes::mib(28)));
    assert_eq!(least.reserved, Bytes::mib(40));
}

#[test]
fn our_policies_give_idle_granules_back_when_memory_runs_out() {
    // `a` leaves 30 MiB before `b`, which `c` cannot use; without a limit only recycling takes them.
    let script = "alloc a 30 MiB\nalloc b 5 MiB\nfree a\nalloc c 40 MiB\n";
    let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
    for name in ["first-fit", "best-fit", "quick-fit", "recycle", "lifetime"] {
        let policy = policy(name).unwrap();
        let unlimited = run(&trace, &mut *policy.target(&trace).unwrap(), &mut |_| {});
        let most = if name == "recycle" || name == "lifetime" { 46 } else { 76 };
        assert_eq!(unlimited.peak_reserved, Bytes::mib(most), "{name}");
        let least = policy.least(&trace, &unlimited).unwrap();
        assert_eq!((least.runs, least.fails), (Bytes::mib(46), Bytes::mib(44)), "{name}");
    }
}

#[test]
fn a_trace_without_bytes_and_one_that_fails_have_no_least_memory() {
    assert_eq!(found("pytorch", "alloc a 0\n"), None);
    assert_eq!(found("first-fit", "alloc a 100000 GiB\n"), None);
}
