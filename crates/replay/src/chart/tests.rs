//! Pictures of reports that are hard to draw.

use super::*;
use crate::trace::script::Script;
use crate::{POLICIES, ReplayPolicy};

fn report(name: &str, script: &str) -> Report {
    let trace = Script::parse(script).unwrap().to_trace(name).unwrap();
    let row = |policy: &ReplayPolicy| policy.replay(&trace, &mut || 0, &mut |_| {});
    Report { rows: POLICIES.iter().map(row).collect(), ..Report::new(&trace) }
}

/// Every number in the coordinates of a picture.
fn numbers(picture: &str) -> impl Iterator<Item = f64> {
    let paths = picture.split("d=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let parts = paths.flat_map(|path| path.split(|c: char| c.is_ascii_alphabetic() || c == ' '));
    parts.filter(|part| !part.is_empty()).map(|part| part.parse().expect(part))
}

#[test]
fn every_trace_and_policy_is_in_the_picture() {
    let script = "alloc a 3 MiB\nalloc b 5 MiB\nfree a\n";
    let picture = svg(&[report("one", script), report("two", script)]);
    for name in ["one", "two", "events", "MiB", "live, at its peak"]
        .into_iter()
        .chain(POLICIES.iter().map(|it| it.name))
    {
        assert!(picture.contains(&format!(">{name}<")), "{name}");
    }
    assert!(picture.contains("viewBox=\"0 0 1000 840\""));
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
