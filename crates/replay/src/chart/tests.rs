//! Pictures of reports that are hard to draw.

use super::*;
use crate::trace::script::Script;
use crate::trace::{Allocate, CallStacks, Event, Trace, TraceId};
use crate::{POLICIES, ReplayPolicy};
use cubeyard_units::Bytes;
use std::sync::Arc;

fn report(name: &str, script: &str) -> Report {
    let trace = Script::parse(script).unwrap().to_trace(name).unwrap();
    let row = |policy: &ReplayPolicy| policy.replay(&trace, &mut || 0, &mut |_| {});
    Report { rows: POLICIES.iter().map(row).collect(), ..Report::new(&trace) }
}

/// Returns every number in the coordinates of a picture.
fn numbers(picture: &str) -> impl Iterator<Item = f64> {
    let paths = picture.split("d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let parts = paths.flat_map(|path| path.split(|c: char| c.is_ascii_alphabetic() || c == ' '));
    parts.filter(|part| !part.is_empty()).map(|part| part.parse().expect(part))
}

#[test]
fn every_trace_and_policy_is_in_the_picture() {
    let script = "alloc a 3 MiB\nalloc b 5 MiB\nfree a\n";
    let picture = svg(&[report("one", script), report("two", script)]);
    for name in
        ["one", "two", "events", "MiB", "live"].into_iter().chain(POLICIES.iter().map(|it| it.name))
    {
        assert!(picture.contains(&format!(">{name}<")), "{name}");
    }
    assert!(picture.contains("viewBox=\"0 0 1000 920\""));
}

#[test]
fn names_from_files_stay_text() {
    let hostile = report("<script>alert(1)</script>\u{1}&", "alloc a 1\n");
    for text in [svg(std::slice::from_ref(&hostile)), html(&[hostile])] {
        assert!(!text.contains("<script>alert") && !text.contains('\u{1}'));
        assert!(text.contains("&lt;script&gt;"));
    }
}

#[test]
fn coordinates_stay_within_the_picture_whatever_the_trace() {
    let huge = "alloc a 18446744073709551615\n";
    let late = "alloc a 1 MiB\nalloc b 17179869183 GiB\n";
    let mut seen = 0;
    for script in ["", "alloc a 0\n", "alloc a 1\n", huge, late, "alloc a 60000 GiB\nfree a\n"] {
        for number in numbers(&svg(&[report("edge", script)])) {
            assert!((-10.0..=1000.0).contains(&number), "{script}: {number}");
            seen += 1;
        }
    }
    assert!(seen > 100);
    assert!(svg(&[]).ends_with("</svg>\n"));
}

#[test]
fn a_policy_that_failed_says_so() {
    let page = html(&[report("late", "alloc a 1 MiB\nalloc b 17179869183 GiB\n")]);
    assert!(page.contains(">failed<") && page.contains("event 2: out of memory"));
}

/// Returns a snapshot of two blocks whose stacks of two frames share the outer frame.
fn with_frames() -> Trace {
    let texts = ["main.py", "site-packages/torch/nn/linear.py", "train", "forward"];
    let stacks = CallStacks {
        texts: texts.map(str::to_owned).to_vec(),
        frames: vec![(0, 7, 2), (1, 114, 3), (1, 9, 3)],
        stacks: vec![vec![], vec![1, 0], vec![2, 0]],
    };
    let event = |(id, site, mib)| {
        let (id, size) = (TraceId(id), Bytes::mib(mib));
        Event::Allocate(Allocate { id, size, stream: 0, site, time_us: 0 })
    };
    let events = [(0, 1, 30), (1, 2, 7), (2, 0, 23)].map(event).to_vec();
    let (name, stacks) = ("framed".to_owned(), Arc::new(stacks));
    Trace { name, events, allocations: 3, stacks, ..Trace::default() }
}

#[test]
fn a_page_has_the_holders_a_flame_graph_and_the_blocks_over_time() {
    let trace = with_frames();
    let row = |policy: &ReplayPolicy| policy.replay(&trace, &mut || 0, &mut |_| {});
    let mut report = Report { rows: POLICIES.iter().map(row).collect(), ..Report::new(&trace) };
    report.find_least(&trace);
    report.map_blocks(&trace);
    assert_eq!(
        report.maps.iter().map(|map| map.policy).collect::<Vec<_>>(),
        ["pytorch", "pytorch-expandable"]
    );
    let page = html(&[report]);
    for part in [
        "Held at the peak: 60.00 MiB in 3 blocks",
        "aria-label=\"main.py:7 train: 37.00 MiB, 61.7 %\" data-up=\"0\" data-down=\"2\"",
        "aria-label=\"site-packages/torch/nn/linear.py:114 forward: 30.00 MiB, 50 %\"",
        "aria-label=\"(no Python frame): 23.00 MiB, 38.3 %\"",
        "<figure class=\"blocks\"",
        "60.00 MiB of addresses in use; all 3 blocks</p>",
        "Least memory in which it runs",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
