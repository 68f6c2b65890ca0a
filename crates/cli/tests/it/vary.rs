//! `--vary`: grids of parameters, options and topology keys, on any number of threads.

use expect_test::expect;

use crate::{Sandbox, json, refused};

const GRID: [&str; 10] = [
    "run",
    "gemm",
    "--set",
    "k=128",
    "--set",
    "n=64",
    "--vary",
    "m=32,64",
    "--vary",
    "hbm.channel_bandwidth_gbs=8,32",
];

#[test]
fn every_point_is_the_run_with_its_values() {
    let sandbox = Sandbox::new("vary-points");
    let value = json(sandbox.run(&[&GRID[..], &["--format", "json"]].concat()));
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    let points = value["points"].as_array().unwrap();
    let expected = [("32", "8"), ("32", "32"), ("64", "8"), ("64", "32")];
    assert_eq!(points.len(), expected.len());
    for (point, (m, hbm)) in points.iter().zip(expected) {
        let (set, with) = (format!("m={m}"), format!("hbm.channel_bandwidth_gbs={hbm}"));
        assert_eq!(point["values"]["m"], m);
        let run = [
            "run", "gemm", "--set", "k=128", "--set", "n=64", "--set", &set, "--with", &with,
            "--format", "json",
        ];
        let alone = json(sandbox.run(&run));
        assert_eq!(point["rows"][0]["time_ns"], alone["kernel_ns"]);
        assert_eq!(point["topology"], alone["topology"]);
    }
}

/// A point of a grid is the run with its values, but its warnings were left out.
#[test]
fn a_grid_gives_the_warnings_of_its_machines_each_once() {
    let sandbox = Sandbox::new("vary-warnings");
    let set = ["run", "gemm", "--set", "k=64", "--set", "n=64", "--set", "m=32"];
    let with = |more: &[&str]| sandbox.run(&[&set[..], more].concat()).stderr;
    let warnings = |text: String| {
        let lines = text.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let alone = warnings(with(&["--with", "hbm.channel_bandwidth_gbs=64"]));
    assert!(!alone.is_empty(), "channels faster than their wires");
    let grid = ["--vary", "hbm.channel_bandwidth_gbs=32,64", "--vary", "hbm.turn_around_ns=0,1"];
    assert_eq!(warnings(with(&grid)), alone);
    assert_eq!(warnings(with(&[&grid[..], &["--quiet"]].concat())), Vec::<String>::new());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let sandbox = Sandbox::new("vary-threads");
    let files = |number: &str| {
        let names = ["csv", "svg", "jsonl"].map(|ending| format!("{number}.{ending}"));
        let options = [
            "--threads",
            number,
            "--csv",
            &names[0],
            "--report",
            &names[1],
            "--save",
            &names[2],
            "--quiet",
        ];
        let text = sandbox.run(&[&GRID[..], &options].concat()).result();
        (text, names.map(|name| sandbox.read(&name)))
    };
    let one = files("1");
    assert_eq!(one, files("3"));
    assert_eq!(one, files("16"));
    assert_eq!(one.1[0].lines().count(), 5, "a heading and four points");
    assert_eq!(one.1[2].lines().count(), 4, "four records");
    assert!(one.0.lines().all(|line| line.chars().count() <= 80), "{}", one.0);
    let svg = roxmltree::Document::parse(&one.1[1]).expect("the picture is XML");
    assert_eq!(svg.descendants().filter(|node| node.has_tag_name("circle")).count(), 4);
}

#[test]
fn options_of_other_commands_are_varied_too() {
    let sandbox = Sandbox::new("vary-options");
    let value = json(sandbox.run(&[
        "ccl",
        "--algorithm",
        "ring",
        "--vary",
        "sizes=1K,2K",
        "--vary",
        "sips.count=2,4",
        "--format",
        "json",
    ]));
    let names: Vec<_> = value["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["rows"][0]["name"].clone())
        .collect();
    assert_eq!(names, ["ring 1.00 KiB", "ring 1.00 KiB", "ring 2.00 KiB", "ring 2.00 KiB"]);
    let text = sandbox.run(&["probe", "--vary", "case=pe-dma-local,h2d-far"]).result();
    assert!(text.contains("h2d-far"), "{text}");
}

#[test]
fn a_point_that_fails_is_a_row_and_the_others_go_on() {
    let sandbox = Sandbox::new("vary-fails");
    let run = sandbox.run(&[
        "run",
        "gemm",
        "--set",
        "k=128",
        "--set",
        "n=64",
        "--vary",
        "m=32,none,64",
        "--csv",
        "v.csv",
        "--quiet",
    ]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stdout.contains("failed m=none: gemm: m=none: expected a whole number"),
        "{}",
        run.stdout
    );
    let csv = sandbox.read("v.csv");
    let lines: Vec<_> = csv.lines().collect();
    assert!(lines[2].starts_with("none,,,,,,false,,gemm: m=none"), "{csv}");
    assert!(lines[3].starts_with("64,kernel,"), "{csv}");
}

#[test]
fn keys_and_values_that_cannot_be_are_refused_before_any_run() {
    let sandbox = Sandbox::new("vary-refused");
    let run = |words: &[&str]| sandbox.run(words);
    refused(
        &run(&["run", "gemm", "--vary", "mm=1,2"]),
        &expect![[r#"
            error: --vary mm: gemm has no parameter `mm`; it has m, k, n, staging, layout, dtype, block-m, block-k, block-n; the nearest is `m`
              help: cubeyard list -v shows all parameters
        "#]],
    );
    refused(
        &run(&["run", "gemm", "--vary", "hbm.chanel_bandwidth=1,2"]),
        &expect![[r#"
        error: --vary hbm.chanel_bandwidth=1: hbm: expected a known key, found `chanel_bandwidth`; the nearest is `channel_bandwidth_gbs`
          help: cubeyard topology --print-default shows every key
    "#]],
    );
    refused(
        &run(&["model", "--vary", "bach=1,2"]),
        &expect![[r#"
            error: --vary bach: expected an option of model or a topology key with a dot; the nearest is `batch`
              help: options are llm, spec, hf, dtype, weights, kv-dtype, experts, batch, context, phase, chunk, layers, positions, plan, objective, microbatches, nodes, network, topology
        "#]],
    );
    refused(
        &run(&["run", "gemm", "--vary", "m=1,[2"]),
        &expect![[r#"
        error: --vary m=1,[2: expected KEY=A,B,..., such as m=256,512
          help: values with commas are written in brackets
    "#]],
    );
    refused(
        &run(&["run", "gemm", "--vary", "m=1", "--vary", "m=2"]),
        &expect![[r#"
        error: --vary m: expected each key once
          help: name all its values at once, as in m=A,B
    "#]],
    );
    refused(
        &run(&["run", "gemm", "--vary", "m=1,2", "--trace", "a.pftrace"]),
        &expect![[r#"
        error: --trace: cannot be written with --vary
          help: --csv, --report and --save write all points
    "#]],
    );
    refused(
        &run(&["run", "gemm", "--vary", "m=1,2", "--report", "a.json"]),
        &expect![[r#"
        error: a.json: cannot be drawn
          help: name an .svg or an .html file
    "#]],
    );
    refused(
        &run(&["run", "gem", "--vary", "m=1,2"]),
        &expect![[r#"
            error: there is no bench `gem`; the nearest is `gemm`
              help: cubeyard list shows all benches
        "#]],
    );
    assert_eq!(run(&["run", "gemm", "--csv", "a.csv"]).code, Some(2));
}
