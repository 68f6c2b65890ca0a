//! The front against its definition on random designs, and costs of machines.

use cubeyard_device::topology::Topology;
use cubeyard_yaml::PlainValue;
use proptest::prelude::*;

use super::*;

type Point = (u8, u8);

fn designs(points: &[Point]) -> Designs {
    let design = |(place, (time, cost)): (usize, &Point)| {
        let name = format!("d{place}");
        Some(Design { name, time_ns: f64::from(*time), cost: Some(f64::from(*cost)) })
    };
    Designs::new(points.iter().enumerate().map(design))
}

/// Returns the times and costs of the front, in ascending order.
fn front_of(points: &[Point]) -> Vec<(u64, u64)> {
    let bits = |(_, time, cost): (usize, f64, f64)| (time.to_bits(), cost.to_bits());
    let mut front: Vec<_> = designs(points).points_of_front().into_iter().map(bits).collect();
    front.sort_unstable();
    front
}

fn is_better(one: Point, other: Point) -> bool {
    one.0 <= other.0 && one.1 <= other.1 && one != other
}

proptest! {
    #[test]
    fn the_front_is_every_design_that_no_other_beats(points in prop::collection::vec((0..12_u8, 0..12_u8), 1..40)) {
        let found = designs(&points);
        for (place, point) in points.iter().enumerate() {
            let is_beaten = points.iter().any(|other| is_better(*other, *point));
            prop_assert_eq!(found.front()[place], !is_beaten, "{:?}", point);
        }
        prop_assert!(found.front()[found.fastest().unwrap()]);
        prop_assert!(found.front()[found.cheapest().unwrap()]);
        if let Some(knee) = found.knee() {
            prop_assert!(found.front()[knee] && Some(knee) != found.fastest());
        }
    }

    #[test]
    fn the_front_depends_neither_on_the_order_nor_on_beaten_designs(
        points in prop::collection::vec((0..12_u8, 0..12_u8), 1..40).prop_shuffle(),
        turn in 0..40_usize,
        worse in (0..5_u8, 1..5_u8),
    ) {
        let front = front_of(&points);
        let mut others = points.clone();
        others.rotate_left(turn % points.len());
        prop_assert_eq!(&front_of(&others), &front);
        let (time, cost) = points[turn % points.len()];
        others.push((time + worse.0, cost + worse.1));
        prop_assert_eq!(&front_of(&others), &front);
    }

    #[test]
    fn swapped_factors_and_terms_give_the_same_cost(a in 0.0..1e6_f64, b in 0.0..1e6_f64, key in 0..4_usize) {
        let name = ["hbm.bandwidth", "sips.count", "hbm.bytes_per_cube", "pe.gemm"][key];
        let of = |text: String| Cost::parse(&text).unwrap().of(&Topology::embedded()).unwrap().to_bits();
        prop_assert_eq!(of(format!("{a}*{name} + {b}")), of(format!("{b} + {name}*{a}")));
        prop_assert_eq!(of(format!("min({a}, {b}*{name})")), of(format!("min({name}*{b}, {a})")));
    }

    #[test]
    fn any_text_is_a_cost_or_an_error_within_it(text in "[a-z0-9.,+*/() -]{0,40}") {
        let of = Cost::parse(&text).and_then(|cost| cost.of(&Topology::embedded()));
        match of {
            Ok(cost) => prop_assert!(cost.is_finite() && cost >= 0.0, "{}", cost),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column), "{}", error),
        }
    }
}

fn cost(text: &str, with: &[(&str, &str)]) -> Result<f64, String> {
    let overrides: Vec<_> =
        with.iter().map(|(key, value)| ((*key).to_owned(), PlainValue::of_text(value))).collect();
    let machine = Topology::embedded().with_overrides(&overrides).unwrap();
    Cost::parse(text).and_then(|cost| cost.of(&machine)).map_err(|error| error.to_string())
}

#[test]
fn expressions_have_the_usual_precedence() {
    for (text, expected) in [
        ("1 + 2*3 - 4/2", 5.0),
        ("(1 + 2)*3", 9.0),
        ("10 - 2 - 3", 5.0),
        ("8/2/2", 2.0),
        ("-2 + 5", 3.0),
        ("2*-3 + 7", 1.0),
        ("max(1, 2, min(9, 4)) * 1e1", 40.0),
        ("1.5e-1*2", 0.3),
        ("0*-1", 0.0),
    ] {
        assert_eq!(cost(text, &[]).map(f64::to_bits), Ok(f64::to_bits(expected)), "{text}");
    }
}

#[test]
fn keys_are_their_values_and_groups_their_factors_relative_to_the_default_machine() {
    assert_eq!(cost("sips.count", &[("sips.count", "4")]), Ok(4.0));
    assert_eq!(cost("hbm.bytes_per_cube", &[("hbm.bytes_per_cube", "2 KiB")]).ok(), Some(2048.0));
    let twice = [("hbm.bandwidth", "2x")];
    assert_eq!(cost("hbm.bandwidth", &twice), Ok(2.0));
    assert_eq!(cost("hbm.channel_bandwidth_gbs", &twice), Ok(64.0));
    assert_eq!(cost("launch.overhead", &[("launch.overhead", "4x")]).map(f64::round), Ok(4.0));
    let mut without_number = Vec::new();
    for group in cubeyard_device::topology::GROUPS {
        let of = |with: &[(&str, &str)]| cost(group.name, with);
        let Ok(factor) = of(&[]) else {
            without_number.push(group.name);
            continue;
        };
        assert!((factor - 1.0).abs() < 1e-12);
        assert!((of(&[(group.name, "2x")]).unwrap() - 2.0).abs() < 0.01, "{}", group.name);
    }
    assert_eq!(without_number, ["hbm.latency", "mesh.buffers"], "these are 0 or none");
}

#[test]
fn errors_name_the_column_and_what_was_meant() {
    let refused = |text: &str| cost(text, &[]).unwrap_err();
    for (text, expected) in [
        (
            "0.3*hbm.bandwith",
            "`0.3*hbm.bandwith`, column 5: there is no topology key or group `hbm.bandwith`; the nearest is \
             `hbm.bandwidth`",
        ),
        (
            "sips",
            "`sips`, column 1: there is no topology key or group `sips`; the nearest is `sips.count`",
        ),
        (
            "sips.topology",
            "`sips.topology`, column 1: sips.topology has the value ring_1d, expected a number",
        ),
        (
            "mesh.buffers",
            "`mesh.buffers`, column 1: mesh.buffers has the value none, expected a number",
        ),
        ("1 + 2/(3 - 3)", "`1 + 2/(3 - 3)`, column 6: division by zero"),
        ("1e300*1e300", "`1e300*1e300`, column 6: the result is not finite"),
        (
            "2 - sips.count*4",
            "`2 - sips.count*4`, column 1: expected a cost of at least 0, found -6",
        ),
        (
            "2sips.count",
            "`2sips.count`, column 1: expected a number such as 0.3, with `*` before a key, found `2sips.count`",
        ),
        (
            "1 +",
            "`1 +`, column 4: expected a number, a topology key or a group of keys, found the end",
        ),
        ("(1", "`(1`, column 3: expected `)`, found the end"),
        ("1 2", "`1 2`, column 3: expected an operator: + - * /, found `2`"),
        ("sum(1)", "`sum(1)`, column 1: expected one of the functions min and max, found `sum(`"),
        ("min(1;2)", "`min(1;2)`, column 6: expected `,` or `)`, found `;2)`"),
    ] {
        assert_eq!(refused(text), expected);
    }
    assert!(refused(&"(".repeat(100)).contains("at most 64 nested"));
    assert!(refused(&"1+".repeat(3000)).contains("at most 4096 characters, found 6000"));
}

#[test]
fn the_verdict_names_the_ends_the_front_and_the_knee() {
    let of = |points: &[Point]| designs(points).verdict();
    assert_eq!(
        of(&[(100, 1), (20, 2), (10, 10), (30, 12)]),
        "d2 is fastest (10 ns, cost 10); d0 costs least (1, 100 ns). Of 4 designs, 3 are on the front; the knee, d1, \
         takes 20 ns at cost 2."
    );
    assert_eq!(
        of(&[(10, 1), (20, 2)]),
        "d0 is fastest and costs least (10 ns, cost 1). Of 2 designs, 1 is on the front."
    );
    let timed = |name: &str, time_ns| Some(Design { name: name.to_owned(), time_ns, cost: None });
    let of = |all: Vec<Option<Design>>| Designs::new(all).verdict();
    assert_eq!(
        of(vec![timed("a", 30.0), None, timed("b", 10.0)]),
        "b is fastest (10 ns): 3 times as fast as a, the slowest (30 ns)."
    );
    assert_eq!(of(vec![timed("a", 10.0), timed("b", 10.0)]), "All designs take 10 ns.");
    assert_eq!(of(vec![None]), "");
}
