use super::*;
use crate::trace::script::Script;
use crate::trace::{Event, SharedFree, TraceId};

fn trace(script: &str) -> Trace {
    Script::parse(script).unwrap().to_trace("test").unwrap()
}

/// Serves requests of the given streams.
fn serve(work: &Work, streams: &[u32]) {
    for &stream in streams {
        work.begin();
        work.launch(stream);
    }
}

#[test]
fn an_event_passes_after_the_launches_of_the_lag_on_its_own_stream() {
    let work = Work::of(&trace("").with_lag(Lag::Launches(3)));
    serve(&work, &[0, 0]);
    let event = work.record(0);
    for streams in [&[1, 1, 1, 1][..], &[0, 0]] {
        serve(&work, streams);
        assert!(!work.is_complete(event), "blocked just before");
    }
    serve(&work, &[0]);
    assert!(work.is_complete(event), "allowed exactly then");
    assert_eq!(work.waits(), 0);
}

#[test]
fn without_a_lag_and_without_work_an_event_passes_at_once() {
    let work = Work::of(&trace("").with_lag(Lag::Launches(0)));
    serve(&work, &[0, 1, 0]);
    assert!([0, 1, 2].iter().all(|&stream| work.is_complete(work.record(stream))));
    let work = Work::of(&trace("").with_lag(Lag::Recorded));
    serve(&work, &[0]);
    assert!(work.is_complete(work.record(1)) && !work.is_complete(work.record(0)));
}

#[test]
fn a_wait_completes_all_work_up_to_its_event_and_is_counted_once() {
    for lag in [Lag::Launches(50), Lag::Recorded] {
        let work = Work::of(&trace("").with_lag(lag));
        serve(&work, &[0, 0]);
        let [first, second] = [work.record(0), {
            serve(&work, &[0]);
            work.record(0)
        }];
        work.wait(first);
        assert!(work.is_complete(first) && !work.is_complete(second));
        work.wait(second);
        work.wait(first);
        work.wait(second);
        assert_eq!(work.waits(), 2, "{lag}");
    }
}

/// Stream 1 allocates `w`, which stream 0 uses; its free is requested before `b` and completed before `d`.
fn gathered() -> Trace {
    let script =
        "alloc a 1\nalloc w 1 stream 1\nalloc b 1\nalloc c 1 stream 1\nfree w\nalloc d 1\n";
    let shared = vec![SharedFree { id: TraceId(1), before: 2, time_us: 0 }];
    Trace { shared, ..trace(script) }.with_lag(Lag::Recorded)
}

#[test]
fn a_completed_free_shows_what_both_streams_have_done() {
    let work = Work::of(&gathered());
    serve(&work, &[0]);
    let a = work.record(0);
    serve(&work, &[1]);
    let w = work.record(1);
    serve(&work, &[0, 1]);
    let [b, c] = [0, 1].map(|stream| work.record(stream));
    assert!([a, w, b, c].iter().all(|&event| !work.is_complete(event)), "not observed yet");
    work.begin();
    assert_eq!([a, w, b, c].map(|event| work.is_complete(event)), [true, true, false, false]);
}

#[test]
fn of_three_streams_only_that_of_the_block_is_known() {
    let mut given = gathered();
    let Event::Allocate(first) = &mut given.events[2] else { panic!("`b` is allocated") };
    first.stream = 2;
    assert_eq!(evidence::of(&given), [Evidence { request: 4, stream: 1, point: 2 }]);
}

#[test]
fn a_shared_block_is_held_back_until_the_other_streams_have_passed() {
    let given = gathered().with_lag(Lag::Launches(1));
    let frees =
        |trace: &Trace| trace.events.iter().position(|event| matches!(event, Event::Free { .. }));
    // Requested before `b`; stream 0 has then launched `a`, which is complete once `b` is launched.
    assert_eq!((frees(&given), frees(&completed(&given))), (Some(2), Some(3)));
    let later = Trace { lag: Lag::Launches(2), ..given };
    assert_eq!(frees(&completed(&later)), None, "complete once `d` is launched, the last request");
}
