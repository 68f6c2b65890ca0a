//! `cubeyard ccl`: the table, the picture, JSON, and errors.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::{Run, Sandbox, json};

/// A small machine of four SIPs with one cube of two PEs each.
const MACHINE: &str = "sips: {count: 4}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0, r0c1]}\n\
                       hbm: {bytes_per_cube: 64 MiB}\n";

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("small.yaml", MACHINE);
    sandbox
}

fn ccl(sandbox: &Sandbox, more: &[&str]) -> Run {
    let small = ["ccl", "--topology", "small.yaml"];
    sandbox.run(&small.iter().chain(more).copied().collect::<Vec<_>>())
}

/// Checks that a run is refused with all these words.
#[track_caller]
fn refused(run: &Run, words: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{word} is not in: {}", run.stderr);
    }
}

#[test]
fn a_table_has_a_row_for_each_size_and_algorithm() {
    let sandbox = sandbox("ccl-table");
    let run = ccl(&sandbox, &["--sizes", "256:1K"]);
    assert_eq!(run.stderr, "");
    let table = run.result();
    assert!(
        table.starts_with("all_reduce sum of f16 (2 B each): 4 SIPs of 2 PEs each, grid 4\n"),
        "{table}"
    );
    for name in ["direct", "ring"] {
        let rows: Vec<_> =
            table.lines().filter(|line| line.starts_with(&format!("  {name} "))).collect();
        assert_eq!(rows.len(), 3, "{table}");
        let cells: Vec<_> = rows[1].split_whitespace().collect();
        assert_eq!((cells.len(), cells[1]), (8, "512"), "{table}");
        assert_eq!(cells.last(), Some(&"0"), "no number is wrong");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    for part in [
        "\n  quickest ",
        "\n  bound    128.0 GB/s of bus bandwidth by injection",
        "\n  check    18 rows passed\n",
    ] {
        assert!(table.contains(part), "{part} is not in: {table}");
    }
}

/// In a pipe, all rows came at the end.
#[test]
fn rows_are_printed_as_they_are_measured() {
    let sandbox = sandbox("ccl-rows");
    let words = ["ccl", "--topology", "small.yaml", "--algorithm", "ring", "--sizes", "256:16M"];
    let mut run = sandbox.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let head: Vec<_> = lines.by_ref().take(4).collect();
    run.kill().unwrap();
    run.wait().unwrap();
    // The last of 17 sizes takes longer than all others together.
    let rest: Vec<_> = lines.collect();
    assert!(rest.len() < 16, "{rest:?}");
    assert!(head[0].starts_with("all_reduce sum of f16"), "{head:?}");
    let end = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
    assert_eq!(end(&head[2], "size B"), end(&head[3], " 256"), "{head:?}");
}

/// Messages in HBM slots overtook each other, and no command checked numbers with slots there.
#[test]
fn data_is_checked_with_slots_in_every_memory_beside_traffic() {
    let sandbox = sandbox("ccl-memories");
    let more = ["--sizes", "1K", "--data", "--dtype", "f32"];
    let table = ccl(&sandbox, &more).result();
    let part = "\n  check    6 rows passed, also with slots in every memory beside traffic\n";
    assert!(table.contains(part), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let sweep = json(ccl(&sandbox, &[&more[..], &["--format", "json"]].concat()));
    for row in sweep["rows"].as_array().unwrap() {
        let found = ["wrong", "differing", "memories"].map(|key| row[key].as_u64());
        assert_eq!(found, [Some(0), Some(0), Some(3)], "{row}");
    }
}

/// "passed in 6 of 12 rows" read like six failures.
#[test]
fn rows_without_data_are_said_not_to_be_checked() {
    let sandbox = sandbox("ccl-unchecked");
    let table = ccl(&sandbox, &["--sizes", "64K:128K"]).result();
    let told = "\n  check    6 rows passed, 6 not checked (no data; --data checks all)\n";
    assert!(table.contains(told), "{table}");
}

#[test]
fn figures_for_programs_agree_with_each_other() {
    let sandbox = sandbox("ccl-json");
    let operations = [
        ("all_reduce", 1.5),
        ("reduce", 1.0),
        ("broadcast", 1.0),
        ("all_gather", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_all", 0.75),
        ("gather", 0.75),
        ("scatter", 0.75),
    ];
    for (name, factor) in operations {
        let more = ["--op", name, "--sizes", "1000:64K:16", "--format", "json", "--root", "1"];
        let sweep = json(ccl(&sandbox, &more));
        assert_eq!((&sweep["operation"], &sweep["right"]), (&name.into(), &true.into()));
        let rows = sweep["rows"].as_array().unwrap();
        assert!(rows.len() >= 2, "{name}");
        for row in rows {
            let figure = |key: &str| row[key].as_f64().unwrap();
            let algbw = figure("bytes") / figure("time_ns");
            assert!((figure("algbw_gbs") / algbw - 1.0).abs() < 1e-9, "{row}");
            assert!((figure("busbw_gbs") / algbw - factor).abs() < 1e-9, "{row}");
            assert!((0.0..=1.0).contains(&figure("share_of_bound")), "{row}");
            assert_eq!(row["wrong"], 0, "{row}");
        }
    }
}

#[test]
fn the_bound_is_drawn_above_the_lines() {
    let sandbox = sandbox("ccl-plot");
    for file in ["plot.svg", "plot.html"] {
        let run = ccl(&sandbox, &["--sizes", "256:4K:4", "--plot", file]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), format!("wrote {file}\n").as_str()));
    }
    let picture = sandbox.read("plot.svg");
    let document = roxmltree::Document::parse(&picture).unwrap();
    let paths = || document.descendants().filter(|node| node.has_tag_name("path"));
    // A line is below the bound, which is level: a larger y is further down.
    let height =
        |path: &str| path[1..].split([' ', 'L', 'H']).nth(1).unwrap().parse::<f64>().unwrap();
    let of = |dashes| {
        move |path: &roxmltree::Node<'_, '_>| path.attribute("stroke-dasharray") == Some(dashes)
    };
    let heights = |dashes| {
        paths()
            .filter(of(dashes))
            .map(|path| height(path.attribute("d").unwrap()))
            .collect::<Vec<_>>()
    };
    let (bounds, lines) = (heights("8 6"), heights("none"));
    assert!(!bounds.is_empty() && lines.len() >= 2, "{bounds:?} {lines:?}");
    let is_below = |line: &f64| bounds.iter().all(|bound| line > bound);
    assert!(lines.iter().all(is_below), "{bounds:?} {lines:?}");
    refused(&ccl(&sandbox, &["--plot", "plot.png"]), &["plot.png: cannot be drawn", ".svg"]);
}

#[test]
fn a_file_says_what_groups_are_like() {
    let sandbox = sandbox("ccl-config");
    sandbox.write(
        "ccl.yaml",
        "algorithms: {deep: {module: ring, n_slots: 16}, ring: {enabled: false}}\n",
    );
    let more = ["--config", "ccl.yaml", "--sizes", "4K", "--format", "json"];
    let sweep = json(ccl(&sandbox, &more));
    let names: Vec<_> =
        sweep["rows"].as_array().unwrap().iter().map(|row| &row["algorithm"]).collect();
    assert!(names.contains(&&"deep".into()) && !names.contains(&&"ring".into()), "{names:?}");
    sandbox.write("bad.yaml", "defaults:\n  n_slot: 4\n");
    refused(
        &ccl(&sandbox, &["--config", "bad.yaml"]),
        &[
            "error: bad.yaml:2: defaults: ",
            "found `n_slot`; the nearest is `n_slots`",
            "--print-default",
        ],
    );
    refused(&ccl(&sandbox, &["--config", "none.yaml"]), &["none.yaml", "check the path"]);
    assert!(ccl(&sandbox, &["--print-default"]).result().contains("\ndefaults:\n"));
}

#[test]
fn other_sips_than_those_of_the_file_can_be_asked_for() {
    let sandbox = sandbox("ccl-sips");
    let head = |more: &[&str]| {
        let sizes = ["--sizes", "256", "--algorithm", "grid"];
        let table = ccl(&sandbox, &[more, &sizes].concat()).result();
        table.lines().next().unwrap().to_owned()
    };
    let of = |grid: &str, sips: u32| {
        format!("all_reduce sum of f16 (2 B each): {sips} SIPs of 2 PEs each, grid {grid}")
    };
    assert_eq!(head(&["--sips", "3"]), of("3", 3));
    assert_eq!(head(&["--sips", "6", "--sip-topology", "torus_2d"]), of("3×2", 6));
    assert_eq!(head(&["--sip-topology", "mesh_2d_no_wrap"]), of("2×2", 4));
    assert_eq!(head(&["--sip-topology", "torus_2d", "--sip-grid", "4x1"]), of("4×1", 4));
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let sandbox = sandbox("ccl-refused");
    let of = |more: &[&str]| ccl(&sandbox, more);
    refused(
        &of(&["--algorithm", "rnig"]),
        &["there is no algorithm `rnig`", "the nearest is `ring`"],
    );
    refused(&of(&["--op", "allreduce"]), &["--op: expected one of", "the nearest is `all_reduce`"]);
    refused(&of(&["--reduce", "sums"]), &["found `sums`; the nearest is `sum`"]);
    refused(&of(&["--dtype", "f15"]), &["the nearest is `f16`"]);
    refused(
        &of(&["--world", "5"]),
        &["a world of 5 ranks: expected 1 to 4, the number of SIPs", "--world"],
    );
    refused(&of(&["--world", "0"]), &["a world of 0 ranks"]);
    refused(&of(&["--op", "broadcast", "--root", "4"]), &["rank 4: expected a rank below 4"]);
    refused(&of(&["--op", "all_to_all", "--algorithm", "ring"]), &["ring: all_to_all", "auto"]);
    refused(&of(&["--sips", "17"]), &["expected from 1 to 16 SIPs; found 17", "--sips"]);
    refused(&of(&["--sip-grid", "2x2"]), &["expected no grid for a ring", "found 2x2"]);
    refused(
        &of(&["--sip-topology", "mesh_2d_nowrap"]),
        &["`mesh_2d_nowrap`; the nearest is `mesh_2d_no_wrap`"],
    );
    refused(
        &of(&["--sip-topology", "torus_2d", "--sip-grid", "3x2", "--sips", "4"]),
        &["3x2, which has 6"],
    );
    refused(&of(&["--sip-grid", "3"]), &["expected columns and rows, such as 3x2; found `3`"]);
    for sizes in ["4K:1K", "0:4", "1:2:1", "a:b", "1:2:3:4"] {
        refused(&of(&["--sizes", sizes]), &["--sizes", "expected"]);
    }
}
