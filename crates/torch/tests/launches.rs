//! Launches in simulated time: they wait for their stream, the host and their PEs.

#![cfg(target_os = "linux")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_torch::pes::Pe;
use cubeyard_torch::streams::{self, Span, Streams};
use cubeyard_torch::trial;
use proptest::prelude::*;

/// The host's clock and the PEs belong to the process, so that one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of a SIP that no other case has used.
fn new_sip() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Launch: its stream, its PEs as bits, and its times on the host and on the PEs.
type Given = (u32, u8, u64, u64);

fn launch(of: &Streams, sip: u32, (stream, bits, host, picoseconds): Given) -> Span {
    let pes: Vec<Pe> =
        (0..8).filter(|pe| bits >> pe & 1 == 1).map(|pe| (sip, pe / 4, pe % 4)).collect();
    of.launch(stream, &pes, host, picoseconds).unwrap()
}

fn three_streams() -> Streams {
    let streams = Streams::default();
    streams.create().unwrap();
    streams.create().unwrap();
    streams
}

/// Returns the spans of launches on new streams and PEs, relative to the host's clock at the beginning.
fn relative(launches: &[Given]) -> Vec<Span> {
    let (streams, sip, start) = (three_streams(), new_sip(), streams::now());
    let span = |given| launch(&streams, sip, given);
    let since = |span: Span| Span { begin: span.begin - start, end: span.end - start };
    launches.iter().map(|given| since(span(*given))).collect()
}

#[test]
fn a_launch_waits_for_its_stream_the_host_and_its_pes() {
    let _alone = alone();
    let (streams, sip, start) = (three_streams(), new_sip(), streams::now());
    let since = |span: Span| (span.begin - start, span.end - start);
    assert_eq!(since(launch(&streams, sip, (0, 0b0011, 0, 100))), (0, 100));
    assert_eq!(since(launch(&streams, sip, (1, 0b1100, 0, 50))), (0, 50), "on other PEs");
    assert_eq!(since(launch(&streams, sip, (2, 0b0110, 0, 10))), (100, 110), "PEs of both");
    assert_eq!(since(launch(&streams, sip, (1, 0b1000, 7, 5))), (50, 55), "after its stream");
    assert_eq!(streams::now() - start, 7, "the host has submitted a launch");
    assert_eq!(since(launch(&streams, new_sip(), (1, 0b1, 93, 5))), (100, 105), "after the host");
    assert_eq!(streams.launch(3, &[], 5, 5), None);
    assert_eq!(streams::now() - start, 100, "a launch on no stream takes no time");
}

#[test]
fn a_trial_is_forgotten_and_other_threads_do_not_see_it() {
    let _alone = alone();
    let (streams, sip, start) = (three_streams(), new_sip(), streams::now());
    launch(&streams, sip, (0, 0b1, 0, 100));
    assert!(!trial::end() && !trial::is_active());
    trial::begin();
    let tried = launch(&streams, sip, (0, 0b11, 3, 50));
    assert_eq!((tried.begin - start, tried.end - start), (100, 150));
    trial::begin();
    streams::wait(streams.idle());
    assert_eq!(streams::now() - start, 150, "a trial within another continues");
    assert!(trial::end());
    assert_eq!((streams::now() - start, streams.idle() - start), (3, 150));
    let elsewhere =
        || (streams::now() - start, streams.end(0) - start, streams.real_end(0) - start);
    let seen = std::thread::scope(|scope| scope.spawn(elsewhere).join().unwrap());
    assert_eq!(seen, (0, 100, 100));
    assert!(trial::end());
    assert_eq!(elsewhere(), (0, 100, 100));
    let next = launch(&streams, sip, (1, 0b10, 0, 1));
    assert_eq!(next.begin - start, 0, "a PE of the trial alone is free");
}

/// Returns the spans as [`relative`] does, with launches on all PEs as launches on their SIP.
fn relative_on_sips(launches: &[Given]) -> Vec<Span> {
    let (streams, sip, start) = (three_streams(), new_sip(), streams::now());
    let span = |given: Given| match given {
        (stream, 0xff, host, time) => streams.launch_on_sip(stream, sip, host, time).unwrap(),
        some => launch(&streams, sip, some),
    };
    let since = |span: Span| Span { begin: span.begin - start, end: span.end - start };
    launches.iter().map(|given| since(span(*given))).collect()
}

fn launches() -> impl Strategy<Value = Vec<Given>> {
    prop::collection::vec((0..3u32, any::<u8>(), 0..20u64, 0..100u64), 1..30)
}

proptest! {
    #[test]
    fn one_more_launch_lets_no_other_end_earlier(
        given in launches(),
        more in (0..3u32, any::<u8>(), 0..20u64, 0..100u64),
        at in any::<prop::sample::Index>(),
    ) {
        let _alone = alone();
        let at = at.index(given.len());
        let mut with = given.clone();
        with.insert(at, more);
        let (without, mut with) = (relative(&given), relative(&with));
        with.remove(at);
        for (without, with) in without.iter().zip(&with) {
            prop_assert!(without.begin <= with.begin && without.end <= with.end);
        }
    }

    #[test]
    fn a_launch_on_a_sip_takes_all_its_pes(mut given in launches(), whole in any::<u32>()) {
        let _alone = alone();
        for (at, launch) in given.iter_mut().enumerate() {
            launch.1 = if whole >> at & 1 == 1 { 0xff } else { launch.1 };
        }
        prop_assert_eq!(relative_on_sips(&given), relative(&given));
        trial::begin();
        let tried = relative_on_sips(&given);
        trial::end();
        prop_assert_eq!(tried, relative(&given));
    }

    #[test]
    fn a_trial_has_the_times_of_the_program(given in launches()) {
        let _alone = alone();
        trial::begin();
        let tried = relative(&given);
        trial::end();
        prop_assert_eq!(tried, relative(&given));
    }

    #[test]
    fn launches_on_a_pe_and_on_a_stream_do_not_overlap(given in launches()) {
        let _alone = alone();
        let spans = relative(&given);
        for (second, &(stream, bits, ..)) in given.iter().enumerate() {
            for (first, &(other, others, ..)) in given[..second].iter().enumerate() {
                let apart = stream != other && bits & others == 0;
                prop_assert!(apart || spans[first].end <= spans[second].begin);
            }
        }
    }
}
