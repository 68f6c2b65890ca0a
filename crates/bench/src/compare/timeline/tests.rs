use serde_json::Map;

use super::*;
use crate::compare::Comparison;
use crate::compare::Measured;

fn record(units: &[&str], rows: Vec<[u64; 4]>) -> Record {
    let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let ops = OpTable { units: own(units), names: own(&["one", "two"]), rows };
    let record = Record::named("made-up".to_owned(), "0".to_owned(), Map::new());
    Record { ops: Some(ops), ..record }
}

/// Two PEs; the second one ends last. Two of its reads overlap.
fn example() -> Record {
    let units = ["p0 GEMM", "p1 GEMM", "p1 DMA read", "p1 send"];
    let rows = vec![[0, 0, 0, 50], [1, 0, 40, 90], [2, 1, 0, 30], [2, 0, 20, 40], [3, 0, 90, 95]];
    record(&units, rows)
}

#[test]
fn the_units_of_the_pe_that_ends_last_are_drawn_a_above_b() {
    let other = record(&["p7 GEMM"], vec![[0, 1, 10, 200]]);
    let activity = timelines(&example(), &other).unwrap();
    let lanes: Vec<_> =
        activity.lanes.iter().map(|lane| (&lane.name[..], lane.intervals.len())).collect();
    let expected =
        [("A DMA read", 1), ("A DMA read (2)", 1), ("A GEMM", 1), ("A send", 1), ("B GEMM", 1)];
    assert_eq!(lanes, expected);
    assert_eq!(activity.end, 200);
    let kind = |lane: usize| activity.lanes[lane].intervals[0].kind;
    assert_eq!(kind(2), kind(4));
    assert_ne!(kind(0), kind(2));
    assert_eq!(activity.colours[kind(2)].as_deref(), Some(SliceKind::Gemm.colour()));
    assert_eq!(activity.colours[kind(3)].as_deref(), Some(SliceKind::Message.colour()));
}

#[test]
fn a_record_without_operations_or_with_numbers_out_of_range_draws_nothing() {
    let bare = Record::named("made-up".to_owned(), "0".to_owned(), Map::new());
    assert!(timelines(&example(), &bare).is_none());
    assert!(timelines(&example(), &record(&[], vec![[3, 9, 0, 1]])).is_none());
}

#[test]
fn bars_of_both_paths_are_as_long_as_their_times() {
    let side = |path: &[(&str, f64)]| {
        let path_ns = path.iter().map(|(name, time)| ((*name).to_owned(), *time)).collect();
        let time_ns = path.iter().map(|it| it.1).sum();
        let measured = Measured { name: "k".to_owned(), time_ns, path_ns, ..Measured::default() };
        let record = Record::named("made-up".to_owned(), "0".to_owned(), Map::new());
        Record { figures: Some(Measured::figures(&[measured])), ..record }
    };
    let [a, b] = [side(&[("GEMM", 2.0), ("x", 1.0)]), side(&[("x", 5.5)])];
    let bars = path_bars(&Comparison::new(&a, &b).rows[0]);
    let ends: Vec<_> = bars.lanes.iter().map(|lane| lane.intervals.last().unwrap().end).collect();
    assert_eq!((ends, bars.end), (vec![3000, 5500], 5500));
    assert_eq!(bars.lanes[0].intervals[0].kind, bars.lanes[1].intervals[0].kind);
    assert!(path_bars(&Comparison::new(&side(&[]), &side(&[])).rows[0]).lanes.is_empty());
}

/// The page of a run names the colours in its style.
#[test]
fn kinds_have_the_colours_of_the_page_of_a_run() {
    let style = include_str!("../../report/page.css");
    let names = ["read", "write", "fetch", "gemm", "math", "store", "message", "cpu", "wait"];
    for (kind, name) in SliceKind::ALL.into_iter().zip(names) {
        assert!(style.contains(&format!("--{name}:{}", kind.colour())), "{name}");
    }
}
