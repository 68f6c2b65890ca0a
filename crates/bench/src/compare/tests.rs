use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn record(time: f64, path: &[(&str, f64)], bounds: &[(&str, f64)]) -> Record {
    let own = |all: &[(&str, f64)]| {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    let measured = Measured {
        name: "kernel".to_owned(),
        time_ns: time,
        path_ns: own(path),
        bounds_ns: own(bounds),
        ..Measured::default()
    };
    let record = Record::named("made-up".to_owned(), "0".to_owned(), Map::new());
    Record { figures: Some(Measured::figures(&[measured])), ..record }
}

fn cause(a: &Record, b: &Record) -> String {
    Comparison::new(a, b).rows[0].cause()
}

#[test]
fn the_cause_is_the_part_of_the_path_that_changed() {
    let a = record(100.0, &[("DMA read", 60.0), ("GEMM", 40.0)], &[("HBM", 50.0)]);
    let b = record(75.0, &[("DMA read", 30.0), ("GEMM", 45.0)], &[("HBM", 25.0), ("GEMM", 40.0)]);
    assert_eq!(
        cause(&a, &b),
        "B is faster than A by a factor of 1.333 (75 ns instead of 100 ns), because DMA read takes 30 ns less on the \
         critical path, although GEMM takes 5 ns more. The longest part of the critical path is DMA read in A, GEMM in B. The largest bound of A is HBM with 50 ns (50 %); the largest bound of B is GEMM with 40 ns (53 %)."
    );
    assert_eq!(
        Comparison::new(&b, &a).verdict(),
        "A is faster than B by a factor of 1.333 (75 ns instead of 100 ns), because DMA read takes 30 ns less on the \
         critical path, although GEMM takes 5 ns more."
    );
    let parts = Comparison::new(&a, &b).rows[0].difference();
    let part =
        |name: &str, change_ns, share| PartDifference { name: name.to_owned(), change_ns, share };
    assert_eq!(parts, [part("DMA read", -30.0, 1.2), part("GEMM", 5.0, -0.2)]);
}

#[test]
fn a_record_compared_with_itself_has_no_difference_and_says_so() {
    let a = record(100.0, &[("DMA read", 60.0), ("GEMM", 40.0)], &[("HBM", 50.0)]);
    let comparison = Comparison::new(&a, &a);
    assert_eq!(
        comparison.verdict(),
        "There is no difference: A and B have the same inputs, and take the same time, 100 ns."
    );
    assert_eq!(comparison.rows[0].difference(), []);
    let other = Record { bench: "other".to_owned(), ..a.clone() };
    assert_eq!(Comparison::new(&a, &other).verdict(), "A and B take the same time, 100 ns.");
    assert_eq!(
        cause(&a, &a),
        "A and B take the same time, 100 ns. The largest bound is the same, HBM with 50 ns: 50 % of A, 50 % of B."
    );
}

/// A path that does not add up to the time says nothing about its difference.
#[test]
fn a_path_that_is_not_the_time_is_no_cause() {
    let a = record(100.0, &[("DMA read", 60.0)], &[]);
    let b = record(75.0, &[("DMA read", 30.0)], &[]);
    assert_eq!(cause(&a, &b), "B is faster than A by a factor of 1.333 (75 ns instead of 100 ns).");
    assert_eq!(Comparison::new(&a, &b).rows[0].difference(), []);
}

/// Names of parts, one with a comma.
const PARTS: [&str; 5] = ["DMA read", "GEMM", "gate, up", "TCM write", "message"];

fn parts() -> impl Strategy<Value = Vec<Option<u64>>> {
    proptest::collection::vec(proptest::option::weighted(0.8, 0..100_000_u64), PARTS.len())
}

/// Makes a record whose time is the sum of its parts, in picoseconds.
fn of_parts(parts: &[Option<u64>]) -> Record {
    let ns = |ps: u64| ps as f64 / 1000.0;
    let path: Vec<_> =
        PARTS.into_iter().zip(parts).filter_map(|(name, ps)| Some((name, ns((*ps)?)))).collect();
    record(ns(parts.iter().flatten().sum()), &path, &[("HBM", 1.0)])
}

/// Swaps the names of the two records.
fn swapped(text: &str) -> String {
    fn other(word: &str) -> &str {
        match word {
            "A" => "B",
            "B" => "A",
            word => word,
        }
    }
    text.split(' ').map(other).collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn parts_of_a_difference_add_up_and_are_mirrored(a in parts(), b in parts()) {
        let [a, b] = [of_parts(&a), of_parts(&b)];
        let [there, back] = [Comparison::new(&a, &b), Comparison::new(&b, &a)];
        let [Some(time_a), Some(time_b)] = there.rows[0].time_ns else { panic!("both have the time") };
        let [forth, mirrored] = [&there, &back].map(|it| it.rows[0].difference());
        let sum: f64 = forth.iter().map(|part| part.change_ns).sum();
        if (time_a - time_b).abs() < 0.0005 {
            prop_assert!(forth.is_empty() && mirrored.is_empty());
            prop_assert_eq!(there.verdict(), back.verdict());
        } else {
            prop_assert!((sum - (time_b - time_a)).abs() < 0.0005, "{} {} {}", sum, time_a, time_b);
            let share: f64 = forth.iter().map(|part| part.share).sum();
            prop_assert!((share - 1.0).abs() < 1e-6, "{}", share);
            prop_assert_eq!(forth.len(), mirrored.len());
            for (one, other) in forth.iter().zip(&mirrored) {
                prop_assert_eq!(&one.name, &other.name);
                prop_assert!((one.change_ns + other.change_ns).abs() < 1e-6);
                prop_assert!((one.share - other.share).abs() < 1e-9);
            }
            prop_assert_eq!(swapped(&there.verdict()), back.verdict());
        }
    }
}

#[test]
fn times_that_only_one_has_are_listed() {
    let a = record(100.0, &[], &[]);
    let mut b = a.clone();
    b.figures.as_mut().unwrap()["rows"][0]["name"] = json!("other");
    let rows = Comparison::new(&a, &b).rows;
    assert_eq!(
        rows.iter().map(RowComparison::cause).collect::<Vec<_>>(),
        ["Only A has it.", "Only B has it."]
    );
    assert_eq!(rows[0].ratio(), None);
}

#[test]
fn keys_of_machines_are_compared_one_by_one() {
    let machine = |text: &str| Topology::read("test.yaml", text).unwrap();
    let of = |text: &str| record(1.0, &[], &[]).on(&machine(text));
    let comparison =
        Comparison::new(&of(""), &of("hbm: {channel_bandwidth_gbs: 64}\ncubes: {h: 2}\n"));
    let names: Vec<_> =
        comparison.machine.iter().map(|it| (it.name.as_str(), it.values.clone())).collect();
    assert_eq!(
        names,
        [
            ("cubes.h", [Some(json!(4)), Some(json!(2))]),
            ("hbm.channel_bandwidth_gbs", [Some(json!(32)), Some(json!(64))]),
        ]
    );
    assert!(comparison.unreachable[0].is_empty());
    assert!(
        comparison.unreachable[1][0].contains("hbm.link carries"),
        "{:?}",
        comparison.unreachable[1]
    );
}
