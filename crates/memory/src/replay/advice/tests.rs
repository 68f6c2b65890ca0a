//! Each branch of the advice, with rows made up for it.

use super::*;
use crate::replay::{Failure, Outcome, ReplayPolicy, Timeline, policy};
use crate::trace::Trace;

const LIFETIME: ReplayPolicy =
    ReplayPolicy { name: "lifetime", kind: Kind::Online, ..super::super::POLICIES[2] };
const PLANNED: ReplayPolicy =
    ReplayPolicy { name: "planned", kind: Kind::Planned, ..super::super::POLICIES[2] };

fn named(name: &str) -> ReplayPolicy {
    match name {
        "lifetime" => LIFETIME,
        "planned" => PLANNED,
        _ => *policy(name).unwrap(),
    }
}

/// A row with 1,000 MiB live at its peak, and as many MiB reserved as said; none for a failure.
fn row(name: &str, reserved_mib: Option<u64>) -> Row {
    let failed = match reserved_mib {
        Some(_) => None,
        None => Some(Failure { event: 3, message: "out of memory".to_owned() }),
    };
    let outcome = Outcome {
        events: 10,
        peak_live: Bytes::mib(1000),
        peak_reserved: Bytes::mib(reserved_mib.unwrap_or(0)),
        timeline: Timeline::new(&Trace::default()),
        failed,
    };
    Row { policy: named(name), outcome, ns_per_op: Some(1.0) }
}

fn report(recorded_mib: Option<u64>, rows: &[(&str, Option<u64>)]) -> Report {
    let rows = rows.iter().map(|&(name, reserved)| row(name, reserved)).collect();
    Report { trace: "training".to_owned(), recorded_reserved: recorded_mib.map(Bytes::mib), rows }
}

fn check(reports: &[Report], expected: &str) {
    assert_eq!(advice(reports), expected);
}

#[test]
fn the_best_policy_is_compared_with_what_was_recorded() {
    let rows =
        [("pytorch", Some(1300)), ("pytorch-expandable", Some(1100)), ("lifetime", Some(1050))];
    check(
        &[report(Some(1400), &rows)],
        "`lifetime` would have needed 1.03 GiB where PyTorch reserved 1.37 GiB: 25 % less; PyTorch's own `expandable_segments:True` saves 21 %.",
    );
    check(
        &[report(None, &rows)],
        "`lifetime` needs 1.03 GiB where PyTorch reserves 1.27 GiB: 19 % less; PyTorch's own `expandable_segments:True` saves 15 %.",
    );
}

#[test]
fn expandable_segments_are_named_where_they_do_nearly_as_well() {
    let rows =
        [("pytorch", Some(1400)), ("pytorch-expandable", Some(1060)), ("lifetime", Some(1050))];
    check(
        &[report(None, &rows)],
        "`lifetime` needs 1.03 GiB where PyTorch reserves 1.37 GiB: 25 % less; PyTorch's own `expandable_segments:True` comes within 1 % of that.",
    );
}

#[test]
fn expandable_segments_that_do_harm_save_nothing() {
    let rows =
        [("pytorch", Some(1100)), ("pytorch-expandable", Some(1200)), ("lifetime", Some(1050))];
    check(
        &[report(None, &rows)],
        "`lifetime` needs 1.03 GiB where PyTorch reserves 1.07 GiB: 4.5 % less; PyTorch's own `expandable_segments:True` saves nothing.",
    );
}

#[test]
fn expandable_segments_are_the_advice_where_nothing_does_better() {
    let rows =
        [("pytorch", Some(1400)), ("pytorch-expandable", Some(1050)), ("lifetime", Some(1050))];
    check(
        &[report(None, &rows)],
        "PyTorch with `expandable_segments:True` needs 1.03 GiB where it reserves 1.37 GiB without: 25 % less, and no other policy here needs less.",
    );
}

#[test]
fn pytorch_is_left_alone_where_nothing_needs_less() {
    let rows = [("pytorch", Some(1000)), ("first-fit", Some(1000)), ("lifetime", Some(1001))];
    check(
        &[report(None, &rows)],
        "No policy here needs noticeably less than the 1000.00 MiB that PyTorch reserves: keep its allocator as it is.",
    );
    check(
        &[report(Some(900), &rows)],
        "No policy here needs noticeably less than the 900.00 MiB that PyTorch reserved: keep its allocator as it is.",
    );
}

#[test]
fn a_single_policy_is_compared_with_the_live_bytes() {
    check(
        &[report(None, &[("first-fit", Some(1050))])],
        "`first-fit` needs 1.03 GiB, 5.0 % above the peak of live bytes: replay `pytorch` beside it to see what PyTorch would reserve.",
    );
    check(
        &[report(Some(1400), &[("first-fit", Some(1050))])],
        "`first-fit` would have needed 1.03 GiB where PyTorch reserved 1.37 GiB: 25 % less.",
    );
    check(
        &[report(None, &[("pytorch", Some(1050))])],
        "`pytorch` needs 1.03 GiB for at most 1000.00 MiB live: replay other policies beside it to see what they would save.",
    );
}

#[test]
fn without_pytorch_the_best_is_said_to_be_the_best_here() {
    let rows = [("first-fit", Some(1200)), ("best-fit", Some(1100))];
    check(
        &[report(None, &rows)],
        "`best-fit` needs 1.07 GiB, the least here, 10 % above the peak of live bytes: replay `pytorch` beside it to see what PyTorch would reserve.",
    );
}

#[test]
fn a_plan_is_advice_for_a_trace_that_repeats_and_only_without_a_choice() {
    let rows = [("pytorch", Some(1400)), ("planned", Some(1000))];
    check(
        &[report(None, &rows)],
        "`planned` needs 1000.00 MiB where PyTorch reserves 1.37 GiB: 29 % less, if the same trace comes again.",
    );
    let rows = [("pytorch", Some(1400)), ("planned", Some(1000)), ("lifetime", Some(1050))];
    check(
        &[report(None, &rows)],
        "`lifetime` needs 1.03 GiB where PyTorch reserves 1.37 GiB: 25 % less.",
    );
}

#[test]
fn a_superlative_leaves_room_for_a_plan() {
    let rows = [("first-fit", Some(1200)), ("best-fit", Some(1100)), ("planned", Some(1000))];
    check(
        &[report(None, &rows)],
        "`best-fit` needs 1.07 GiB, the least here without a plan, 10 % above the peak of live bytes: replay `pytorch` beside it to see what PyTorch would reserve.",
    );
    let rows = [("pytorch", Some(1100)), ("best-fit", Some(1100)), ("planned", Some(1000))];
    check(
        &[report(None, &rows)],
        "No policy here needs noticeably less without a plan than the 1.07 GiB that PyTorch reserves: keep its allocator as it is.",
    );
    check(
        &[report(None, &rows), report(None, &rows)],
        "Over these 2 traces no policy here needs noticeably less without a plan than PyTorch on average: keep its allocator as it is.",
    );
}

#[test]
fn policies_that_failed_are_not_recommended() {
    check(
        &[report(None, &[("pytorch", None), ("lifetime", None)])],
        "No policy could serve `training`: compare the sizes in the trace with what the failed rows say.",
    );
    check(
        &[report(None, &[("pytorch", Some(1400)), ("lifetime", None)])],
        "Only `pytorch` could serve the trace, with 1.37 GiB for at most 1000.00 MiB live.",
    );
    check(
        &[report(None, &[("pytorch", None), ("lifetime", Some(1050))])],
        "`lifetime` needs 1.03 GiB, the least here, 5.0 % above the peak of live bytes, where `pytorch` failed.",
    );
}

#[test]
fn nothing_allocated_is_nothing_saved() {
    let mut idle = report(None, &[("pytorch", Some(0))]);
    idle.rows[0].outcome.peak_live = Bytes::ZERO;
    check(&[idle], "Nothing was allocated, so there is nothing to save.");
    check(&[], "Nothing was allocated, so there is nothing to save.");
}

#[test]
fn several_traces_are_averaged() {
    let first =
        [("pytorch", Some(1400)), ("pytorch-expandable", Some(1100)), ("lifetime", Some(1050))];
    let second =
        [("pytorch", Some(1000)), ("pytorch-expandable", Some(1010)), ("lifetime", Some(1001))];
    check(
        &[report(None, &first), report(None, &second)],
        "Over these 2 traces `lifetime` needs 13 % less than PyTorch on average (from 0.1 % more to 25 % less); PyTorch's own `expandable_segments:True` saves 11 %.",
    );
    check(
        &[report(None, &first[..2]), report(None, &second[..2])],
        "Over these 2 traces `expandable_segments:True` needs 11 % less than PyTorch on average (from 1.0 % more to 21 % less).",
    );
    check(
        &[report(None, &first[2..]), report(None, &second[2..])],
        "Over these 2 traces `lifetime` needs the least, on average 2.5 % above the peak of live bytes: replay `pytorch` beside it to see what PyTorch would reserve.",
    );
    check(
        &[report(None, &second), report(None, &second)],
        "Over these 2 traces no policy here needs noticeably less than PyTorch on average: keep its allocator as it is.",
    );
    check(
        &[report(None, &first[..1]), report(None, &second[..1])],
        "These 2 traces were replayed as PyTorch would serve them: replay other policies beside it to see what they would save.",
    );
}

#[test]
fn over_several_traces_a_policy_counts_only_if_it_served_all() {
    let first = [("pytorch", Some(1400)), ("first-fit", Some(1100)), ("lifetime", Some(1050))];
    let second = [("pytorch", Some(1000)), ("first-fit", Some(1000)), ("lifetime", None)];
    check(
        &[report(None, &first), report(None, &second)],
        "Over these 2 traces `first-fit` needs 11 % less than PyTorch on average (from nothing to 21 % less).",
    );
    let only = |rows: &[(&'static str, Option<u64>)]| report(None, &[rows[0], rows[2]]);
    check(
        &[only(&first), only(&second)],
        "No alternative to PyTorch's default could serve all of these 2 traces.",
    );
    let none = report(None, &[("pytorch", None), ("lifetime", None)]);
    check(
        &[none.clone(), none],
        "No policy could serve any of these 2 traces: compare the sizes in the trace with what the failed rows say.",
    );
}
