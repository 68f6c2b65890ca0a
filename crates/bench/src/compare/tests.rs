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
        "B takes 25 ns less than A, faster by a factor of 1.333. On the critical path, DMA read takes \
         30 ns less (120 %) and GEMM 5 ns more. Its longest part is DMA read in A, GEMM in B. The largest bound of A is HBM with 50 ns (50 %); the largest bound of B is GEMM with 40 ns (53 %)."
    );
    assert_eq!(
        cause(&b, &a),
        "B takes 25 ns more than A, slower by a factor of 1.333. On the critical path, DMA read takes \
         30 ns more (120 %) and GEMM 5 ns less. Its longest part is GEMM in A, DMA read in B. The largest bound of A is GEMM with 40 ns (53 %); the largest bound of B is HBM with 50 ns (50 %)."
    );
}

#[test]
fn equal_times_have_no_cause() {
    let a = record(100.0, &[("DMA read", 60.0), ("GEMM", 40.0)], &[("HBM", 50.0)]);
    assert_eq!(
        cause(&a, &a),
        "Both take 100 ns. Every part of the critical path takes the same time. The largest bound is the same, HBM with \
         50 ns: 50 % of A, 50 % of B."
    );
}

/// A path that does not add up to the time says nothing about its difference.
#[test]
fn a_path_that_is_not_the_time_is_no_cause() {
    let a = record(100.0, &[("DMA read", 60.0)], &[]);
    let b = record(75.0, &[("DMA read", 30.0)], &[]);
    assert_eq!(cause(&a, &b), "B takes 25 ns less than A, faster by a factor of 1.333.");
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
