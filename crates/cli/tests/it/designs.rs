//! `--cost`: costs of grids and their front, and the options of pictures.

use expect_test::expect;
use serde_json::Value;

use crate::{Sandbox, json, refused};

/// A grid of two groups of keys over a short run, with a cost.
const STUDY: [&str; 12] = [
    "run",
    "vector-add",
    "--set",
    "elements=65536",
    "--vary",
    "hbm.bandwidth=0.5x,1x,2x,4x",
    "--vary",
    "launch.overhead=1x,2x,3x",
    "--cost",
    "4*hbm.bandwidth + 2*launch.overhead",
    "--format",
    "json",
];

/// Returns the time and the cost of a point.
fn point(value: &Value) -> (f64, f64) {
    (value["time_ns"].as_f64().unwrap(), value["cost"].as_f64().unwrap())
}

#[test]
fn the_front_holds_the_points_that_no_other_point_beats() {
    let sandbox = Sandbox::new("designs-front");
    let study = json(sandbox.run(&STUDY));
    let points = study["points"].as_array().unwrap();
    assert_eq!(points.len(), 12);
    for one in points {
        let (time, cost) = point(one);
        let is_beaten = points.iter().map(point).any(|(other_time, other_cost)| {
            other_time <= time && other_cost <= cost && (other_time, other_cost) != (time, cost)
        });
        assert_eq!(one["front"], !is_beaten, "{one}");
        let values: Vec<_> = ["hbm.bandwidth", "launch.overhead"]
            .iter()
            .map(|key| one["values"][key].as_str().unwrap().trim_end_matches('x').parse().unwrap())
            .collect::<Vec<f64>>();
        assert!((cost - 4.0 * values[0] - 2.0 * values[1]).abs() < 1e-9, "{one}");
    }
    let of = |name: &str| &points[usize::try_from(study[name].as_u64().unwrap()).unwrap()];
    assert!(points.iter().all(|it| point(it).0 >= point(of("fastest")).0));
    assert!(points.iter().all(|it| point(it).1 >= point(of("cheapest")).1));
}

#[test]
fn the_order_of_the_keys_changes_neither_times_nor_costs_nor_the_front() {
    let sandbox = Sandbox::new("designs-order");
    let mut other = STUDY;
    other.swap(5, 7);
    other[9] = "launch.overhead*2 + hbm.bandwidth*4";
    let points = |words: &[&str]| {
        let study = json(sandbox.run(words));
        let of = |it: &Value| {
            format!("{} {} {} {}", it["values"], it["time_ns"], it["cost"], it["front"])
        };
        let mut points: Vec<_> = study["points"].as_array().unwrap().iter().map(of).collect();
        points.sort();
        points
    };
    assert_eq!(points(&STUDY), points(&other));
}

#[test]
fn a_point_of_a_group_takes_the_time_of_the_command_with_its_factor() {
    let sandbox = Sandbox::new("designs-with");
    for (command, time) in [
        (&["run", "vector-add", "--set", "elements=65536"][..], "/kernel_ns"),
        (&["ccl", "--algorithm", "ring", "--sizes", "4K"], "/rows/0/time_ns"),
        (&["model", "--spec", "small.yaml", "--context", "64"], "/total_ns"),
    ] {
        sandbox.write(
            "small.yaml",
            "layers: 1\nhidden: 1024\nffn: 2048\nheads: 8\nkv_heads: 8\nvocab: 1024\n",
        );
        let vary = ["--vary", "hbm.bandwidth=1x,2x", "--vary", "launch.overhead=2x"];
        let study = json(sandbox.run(&[command, &vary, &["--format", "json"]].concat()));
        for (place, factor) in ["1x", "2x"].into_iter().enumerate() {
            let with = format!("hbm.bandwidth={factor}");
            let with = ["--with", &with, "--with", "launch.overhead=2x", "--format", "json"];
            let alone = json(sandbox.run(&[command, &with].concat()));
            let (found, expected) =
                (&study["points"][place]["time_ns"], alone.pointer(time).expect("it has a time"));
            assert_eq!(found, expected, "{command:?} {factor}");
        }
    }
}

#[test]
fn the_text_the_csv_and_the_page_mark_the_front() {
    let sandbox = Sandbox::new("designs-files");
    let files = ["--csv", "a.csv", "--report", "a.html", "--quiet"];
    let words = [&STUDY[..10], &files].concat();
    let text = sandbox.run(&words).result();
    let on_front = text.matches('●').count();
    assert!(on_front >= 3 && text.contains("is fastest"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let csv = sandbox.read("a.csv");
    let (heading, rows) = csv.split_once('\n').unwrap();
    let column = |name: &str| heading.split(',').position(|it| it == name).expect("it is there");
    let front = column("front");
    // Quoted fields hold commas.
    let unquoted = |row: &str| row.split('"').step_by(2).collect::<String>();
    let marked = rows.lines().map(unquoted);
    let marked = marked.filter(|row| row.split(',').nth(front) == Some("true"));
    assert_eq!(marked.count(), on_front);
    assert!(heading.contains(",cost,front,DMA read_ns"), "{heading}");
    let page = sandbox.read("a.html");
    for part in ["Time over cost", "Pareto front", "limited by", "Parts"] {
        assert!(page.contains(part), "{part}");
    }
    sandbox.run(&[&STUDY[..10], &["--quiet", "--chart", "b.svg"]].concat()).result();
    let picture = sandbox.read("b.svg");
    let svg = roxmltree::Document::parse(&picture).expect("the picture is XML");
    assert_eq!(svg.descendants().filter(|node| node.has_tag_name("circle")).count(), 12);
}

#[test]
fn a_cost_that_cannot_be_computed_is_refused_before_any_run() {
    let sandbox = Sandbox::new("designs-refused");
    let cost = |text: &str| {
        sandbox.run(&["run", "vector-add", "--vary", "hbm.bandwidth=1x,2x", "--cost", text])
    };
    refused(
        &cost("0.3*hbm.bandwith"),
        &expect![[r#"
            error: --cost `0.3*hbm.bandwith`, column 5: there is no topology key or group `hbm.bandwith`; the nearest is `hbm.bandwidth`
              help: this is so for hbm.bandwidth=1x; docs/designs.md describes expressions
        "#]],
    );
    refused(
        &cost("1/(2 - hbm.bandwidth)"),
        &expect![[r#"
            error: --cost `1/(2 - hbm.bandwidth)`, column 2: division by zero
              help: this is so for hbm.bandwidth=2x; docs/designs.md describes expressions
        "#]],
    );
    refused(
        &cost("-hbm.bandwidth"),
        &expect![[r#"
            error: --cost `-hbm.bandwidth`, column 1: expected a cost of at least 0, found -1
              help: this is so for hbm.bandwidth=1x; docs/designs.md describes expressions
        "#]],
    );
    refused(
        &cost("2 +"),
        &expect![[r#"
            error: --cost `2 +`, column 4: expected a number, a topology key or a group of keys, found the end
        "#]],
    );
    let alone = sandbox.run(&["run", "vector-add", "--cost", "1"]);
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
}

#[test]
fn the_number_of_sips_of_ccl_counts_for_the_cost() {
    let sandbox = Sandbox::new("designs-sips");
    let words = ["ccl", "--algorithm", "ring", "--sizes", "1K", "--vary", "sips=2,4"];
    let study =
        json(sandbox.run(&[&words[..], &["--cost", "sips.count", "--format", "json"]].concat()));
    let costs: Vec<_> =
        study["points"].as_array().unwrap().iter().map(|it| it["cost"].as_f64().unwrap()).collect();
    assert_eq!(costs, [2.0, 4.0]);
}

/// Scripts use the earlier names of `--report`.
#[test]
fn the_earlier_names_of_the_option_for_pictures_draw_the_same() {
    let sandbox = Sandbox::new("designs-names");
    sandbox.write("small.trace", "alloc a 3 MiB\n");
    for (words, old, file) in [
        (&["ccl", "--algorithm", "ring", "--sizes", "1K"][..], "--plot", "svg"),
        (&["ccl", "--algorithm", "ring", "--sizes", "1K"], "--plot", "html"),
        (&["run", "vector-add", "--vary", "elements=4096,8192"], "--chart", "svg"),
        (&["placement", "--shape", "8x8"], "--draw", "svg"),
        (&["replay", "small.trace"], "--plot", "svg"),
        (&["replay", "small.trace"], "--plot", "html"),
    ] {
        let (one, other) = (format!("old.{file}"), format!("new.{file}"));
        for (option, name) in [(old, &one), ("--report", &other)] {
            let run = sandbox.run(&[words, &[option, name, "--quiet"]].concat());
            assert_eq!(run.code, Some(0), "{words:?} {option}: {}", run.stderr);
        }
        let [first, second] = [&one, &other].map(|name| sandbox.read(name));
        // The page of a replay shows the host time that it took.
        let is_timed = words[0] == "replay" && file == "html";
        let start = if is_timed { 100 } else { first.len() };
        assert!(
            first.get(..start).is_some() && first.get(..start) == second.get(..start),
            "{words:?}"
        );
        let help = sandbox.run(&[words[0], "--help"]).result();
        assert!(help.contains("--report") && !help.contains(old), "{help}");
    }
}

#[test]
fn several_algorithms_are_measured_in_one_run() {
    let sandbox = Sandbox::new("designs-algorithms");
    let words = |names: &'static str| {
        ["ccl", "--ranks", "cube", "--sips", "1", "--sizes", "1K:2K", "--algorithm", names]
    };
    let value = json(sandbox.run(&[&words("ring,grid")[..], &["--format", "json"]].concat()));
    let rows = value["rows"].as_array().unwrap().clone();
    let names: Vec<_> = rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(names, ["ring", "grid", "ring", "grid"]);
    for name in ["ring", "grid"] {
        let alone = json(sandbox.run(&[&words(name)[..], &["--format", "json"]].concat()));
        let own: Vec<_> = rows.iter().filter(|row| row["algorithm"] == name).cloned().collect();
        assert_eq!(alone["rows"].as_array().unwrap(), &own);
    }
    let run = sandbox.run(&words("ring,gird"));
    assert!(run.code == Some(2) && run.stderr.contains("the nearest is `grid`"), "{}", run.stderr);
}
