//! Each branch of the advice, with rows made up for it.

use super::*;
use crate::trace::{HistoryExtent, Lag, OutOfMemory, RecordedBy, Recording, Trace};
use crate::{Failure, Outcome, ReplayPolicy, Timeline, policy};

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
        reserved_at_peak: Bytes::ZERO,
        waits: 0,
        timeline: Timeline::new(&Trace::default()),
        failed,
    };
    Row { policy: named(name), outcome, ns_per_op: Some(1.0), fits: None, least: None }
}

fn report(recorded_mib: Option<u64>, rows: &[(&str, Option<u64>)]) -> Report {
    let rows = rows.iter().map(|&(name, reserved)| row(name, reserved)).collect();
    let recording = recorded_mib.map(recording);
    let modelled = recorded_mib.map(Bytes::mib);
    let (trace, peak, at_failure) = ("training".to_owned(), None, None);
    let (settings, maps) = (Vec::new(), Vec::new());
    let (streams, lag) = (1, Lag::default());
    Report { trace, recording, modelled, peak, at_failure, settings, maps, rows, streams, lag }
}

/// A whole recording of PyTorch with its defaults.
fn recording(reserved_mib: u64) -> Recording {
    Recording {
        by: RecordedBy::PyTorch,
        reserved: Some(Bytes::mib(reserved_mib)),
        history: HistoryExtent::Whole,
        expandable: false,
        other_settings: Vec::new(),
        emptied_cache: EmptiedCache::default(),
        out_of_memory: Vec::new(),
    }
}

/// A report on a recording of 1,400 MiB that was changed.
fn doubtful(change: fn(&mut Report, &mut Recording)) -> Report {
    let rows =
        [("pytorch", Some(1400)), ("pytorch-expandable", Some(1060)), ("lifetime", Some(1050))];
    let mut report = report(Some(1400), &rows);
    let mut recording = recording(1400);
    change(&mut report, &mut recording);
    Report { recording: Some(recording), ..report }
}

/// What a snapshot does not hold, nobody can advise on: "99 % less" for one without any history.
#[test]
fn a_recording_that_is_not_whole_gives_no_advice() {
    let missing = doubtful(|_, recording| recording.history = HistoryExtent::Missing);
    check(
        std::slice::from_ref(&missing),
        "No advice on `training`: it has no history, only what was live when it was taken; call torch.cuda.memory._record_memory_history() before the work.",
    );
    let begun = doubtful(|_, recording| {
        let (live, reserved) = (Bytes::mib(100), Bytes::mib(1200));
        recording.history = HistoryExtent::Begun { live, reserved };
    });
    check(
        &[begun],
        "No advice on `training`: its history begins with 100.00 MiB live and 1.17 GiB reserved, and what led to that is lost; record from the start, with a larger max_entries.",
    );
    let contradiction = doubtful(|_, recording| recording.reserved = None);
    check(
        &[contradiction],
        "No advice on `training`: its history and its segments contradict each other; take the snapshot while nothing allocates.",
    );
    let rows = [("pytorch", Some(1400)), ("lifetime", Some(1050))];
    check(
        &[missing, report(None, &rows)],
        "`lifetime` needs 1.03 GiB where PyTorch reserves 1.37 GiB: 25 % less.\nNo advice on `training`: it has no history, only what was live when it was taken; call torch.cuda.memory._record_memory_history() before the work.",
    );
}

#[test]
fn a_model_that_misses_what_was_recorded_by_more_than_1_percent_gives_no_advice() {
    let near = doubtful(|report, _| report.modelled = Some(Bytes::mib(1414)));
    assert_eq!(near.doubt(), None);
    let far = doubtful(|report, recording| {
        report.modelled = Some(Bytes::mib(1415));
        recording.other_settings = vec!["max_split_size_mb"];
    });
    assert!(far.recommended().is_none() && far.best().is_some());
    check(
        &[far],
        "No advice on `training`: the model of PyTorch reserves 1.38 GiB for it where PyTorch reserved 1.37 GiB, so it misses something that mattered (it does not follow max_split_size_mb); compare the policies with each other only.",
    );
}

#[test]
fn expandable_segments_are_no_advice_where_they_are_on() {
    check(
        &[doubtful(|_, recording| recording.expandable = true)],
        "`lifetime` would have needed 1.03 GiB where PyTorch, with `expandable_segments:True`, reserved 1.37 GiB: 25 % less.",
    );
}

#[test]
fn what_cubeyard_recorded_is_not_called_pytorchs() {
    let ours = doubtful(|_, recording| recording.by = RecordedBy::Cubeyard);
    assert_eq!(ours.recorded_cells().unwrap()[0], "Cubeyard, as recorded");
    check(
        std::slice::from_ref(&ours),
        "`lifetime` would have needed 1.03 GiB where Cubeyard reserved 1.37 GiB: 25 % less.",
    );
    check(
        &[ours.clone(), ours],
        "Over these 2 traces `lifetime` needs 25 % less than what was reserved on average (from 25 % less to 25 % less).",
    );
}

#[test]
fn a_request_that_failed_names_the_policies_that_would_have_served_it() {
    let mut report = doubtful(|_, recording| {
        let (size, capacity) = (Bytes::mib(30), Some(Bytes::mib(1380)));
        recording.out_of_memory =
            vec![OutOfMemory { event: 5, size, stream: 0, site: 0, capacity }];
    });
    for (row, fits) in report.rows.iter_mut().zip([false, true, true]) {
        row.fits = Some(fits);
    }
    let saved = "`lifetime` would have needed 1.03 GiB where PyTorch reserved 1.37 GiB: 25 % less; PyTorch's own `expandable_segments:True` comes within 1 % of that.";
    let asked = "`training` ran out of memory when 30.00 MiB was asked for";
    let fitted = format!(
        "{saved}\n{asked}, with 1.35 GiB to be had in all: `pytorch-expandable`, `lifetime` would have fitted."
    );
    check(&[report.clone()], &fitted);
    report.rows.iter_mut().for_each(|row| row.fits = Some(false));
    let none = format!(
        "{saved}\n{asked}, with 1.35 GiB to be had in all: no policy here would have fitted."
    );
    check(&[report.clone()], &none);
    report.rows.iter_mut().for_each(|row| row.fits = None);
    report.recording.as_mut().unwrap().out_of_memory[0].capacity = None;
    let unknown = format!("{saved}\n{asked}; the file does not say what the device had free.");
    check(&[report], &unknown);
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
