//! Holders of memory, folders of snapshots, and the page that shows them.

use std::path::Path;

use expect_test::expect;
use roxmltree::{Document, ParsingOptions};

use crate::replay::json;
use crate::{Sandbox, recorded};

const STACKS: &str = "resnet_train_stacks.pickle.gz";

/// Returns the part of a table from the line that begins with `from` to the next empty line.
fn part<'t>(table: &'t str, from: &str) -> &'t str {
    let start = table.find(from).unwrap_or_else(|| panic!("{from}: {table}"));
    table[start..].split("\n\n").next().expect("a text has a first part")
}

#[test]
fn a_folder_of_snapshots_has_a_row_for_each_rank_and_their_sum() {
    let sandbox = Sandbox::new("folder");
    std::fs::create_dir(sandbox.path("ranks")).unwrap();
    for rank in [10, 2, 0] {
        std::fs::copy(recorded(STACKS), sandbox.path(&format!("ranks/rank{rank}.pickle.gz")))
            .unwrap();
    }
    sandbox.write("ranks/notes.md", "no trace");
    let table = sandbox.run(&["replay", "ranks", "--policy", "pytorch", "--holders", "0"]).result();
    expect![[r#"
        all 3 traces
          trace   peak live  PyTorch needs  best needs     best
          rank0    3.54 GiB       3.63 GiB    3.63 GiB  pytorch
          rank2    3.54 GiB       3.63 GiB    3.63 GiB  pytorch
          rank10   3.54 GiB       3.63 GiB    3.63 GiB  pytorch
          sum     10.63 GiB      10.90 GiB   10.90 GiB"#]]
    .assert_eq(part(&table, "all 3 traces"));
    let rows = json(&sandbox, &["ranks", "--policy", "pytorch"]);
    let files: Vec<_> = rows.iter().map(|row| row["file"].as_str().unwrap()).collect();
    let expected = ["ranks/rank0.pickle.gz", "ranks/rank2.pickle.gz", "ranks/rank10.pickle.gz"];
    assert_eq!(files, expected);
}

#[test]
fn a_folder_without_traces_says_which_names_are_expected() {
    let sandbox = Sandbox::new("empty-folder");
    std::fs::create_dir(sandbox.path("ranks")).unwrap();
    sandbox.write("ranks/notes.md", "no trace");
    let run = sandbox.run(&["replay", "ranks"]);
    assert_eq!(run.code, Some(2));
    expect![[r#"
        error: ranks: no file in this folder is named like a trace
          help: expected names that end in .csv, .pickle, .pkl, .trace, .log, or in one of them and .gz
    "#]].assert_eq(&run.stderr);
}

/// The figures of holders equal the figures of a walk over the snapshot's entries in Python.
#[test]
fn holders_are_added_up_by_frame_stack_or_size() {
    let sandbox = Sandbox::new("by");
    let peak = |by: &str| {
        let file = recorded(STACKS);
        let rows = json(&sandbox, &[&file, "--policy", "pytorch", "--by", by, "--holders", "1000"]);
        assert_eq!(rows[0]["peak"]["by"], by);
        rows[0]["peak"].clone()
    };
    for (by, number, first) in [
        ("frame", 5, "record.py:87 resnet_train"),
        ("stack", 46, "functional.py:2846 batch_norm < record.py:87 resnet_train"),
        ("size", 30, "128.00 MiB"),
    ] {
        let peak = peak(by);
        let holders = peak["holders"].as_array().unwrap();
        let bytes: u64 = holders.iter().map(|holder| holder["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, peak["live_bytes"], "{by}: every byte has one holder");
        assert_eq!((holders.len(), holders[0]["name"].as_str()), (number, Some(first)), "{by}");
    }
    let run = sandbox.run(&["replay", &recorded(STACKS), "--by", "age"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("expected frame, stack or size"), "{}", run.stderr);
}

/// A program that ran out on an H200 with 1.08 of the bytes that it asks for; it ran there with expandable segments.
#[test]
fn a_snapshot_that_ends_out_of_memory_names_the_holders_and_what_would_have_run() {
    let sandbox = Sandbox::new("oom");
    let file = recorded("out_of_memory.pickle.gz");
    let table =
        sandbox.run(&["replay", &file, "--policy", "pytorch", "--policy", "pytorch-expandable"]);
    let table = table.result();
    expect![[r#"
        held when memory ran out: 4.01 GiB in 117 blocks, event 4,355 of 4,388
          825.00 MiB were asked for by (no Python frame), of 5.20 GiB in all
               bytes  share  blocks     largest       age  allocated by
            2.20 GiB   55 %      30  825.00 MiB  774.5 ms  out_of_memory.py:37 step
          857.00 MiB   21 %       2  825.00 MiB  576.1 ms  (no Python frame)
          825.00 MiB   20 %       2  825.00 MiB   1.58 ms  out_of_memory.py:38 step
          112.16 MiB    3 %      54   16.00 MiB  509.4 ms  out_of_memory.py:40 step
           56.08 MiB    1 %      27   16.00 MiB   6.602 s  out_of_memory.py:31 model
          206.38 KiB    0 %       2                        2 others; see --holders N
          pytorch holds      4.57 GiB
            requested        4.01 GiB
            rounding         4.00 MiB
            cached                0 B  unused, given back when memory runs out
            gaps           568.93 MiB  longest 213.50 MiB; most beside out_of_memor…"#]]
    .assert_eq(part(&table, "held when memory ran out"));
    expect![[r#"
        `out_of_memory` ran out of memory when 825.00 MiB was asked for, with 5.20 GiB
          to be had in all: `pytorch-expandable` would have fitted.
    "#]]
    .assert_eq(part(&table, "`out_of_memory` ran out"));
    let rows = json(&sandbox, &[&file, "--policy", "pytorch", "--policy", "pytorch-expandable"]);
    let fits: Vec<_> = rows.iter().map(|row| &row["fits_where_memory_ran_out"]).collect();
    assert_eq!(fits, [false, true]);
    // PyTorch's own message: 567.93 MiB are reserved, but not allocated.
    let cache = &rows[0]["out_of_memory"]["cache"];
    let unused = cache["gap_bytes"].as_f64().unwrap() + cache["cached_bytes"].as_f64().unwrap();
    assert!((unused / 1024.0 / 1024.0 - 567.93).abs() < 2.0, "{unused}");
}

#[test]
fn a_report_is_the_page_that_a_plot_draws() {
    let sandbox = Sandbox::new("report");
    let file = recorded(STACKS);
    let policies = ["--policy", "pytorch", "--policy", "recycle"];
    let run = sandbox.run(&[&["replay", &file, "--report", "out.html"], &policies[..]].concat());
    assert_eq!(run.stderr, "wrote out.html\n");
    let page = sandbox.read("out.html");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).expect("XML");
    let boxes = document.descendants().filter(|node| node.attribute("class") == Some("box"));
    let labels: Vec<_> = boxes.filter_map(|node| node.attribute("aria-label")).collect();
    assert!(
        labels.iter().any(|label| label.starts_with("record.py:87 resnet_train: 3.31 GiB")),
        "{labels:?}"
    );
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("h3"))
        .filter_map(|node| node.text())
        .collect();
    assert!(titles.contains(&"Blocks over time"), "{titles:?}");
    for kind in ["--report", "--plot"] {
        let run = sandbox.run(&["replay", "a.html", kind, "a.html"]);
        assert_eq!(run.code, Some(2), "{kind}: {}", run.stderr);
    }
    let both = sandbox.run(&["replay", &file, "--plot", "same.html", "--report", "same.html"]);
    assert!(both.stderr.contains("--plot is written to this file"), "{}", both.stderr);
}

/// `replay --plot` refused `.htm`, which other commands take for a page.
#[test]
fn a_plot_that_ends_in_htm_is_a_page() {
    let sandbox = Sandbox::new("htm");
    sandbox.write("small.trace", "alloc a 3 MiB\n");
    let plot = |name: &str| {
        let run = sandbox.run(&["replay", "small.trace", "--plot", name]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        std::fs::read_to_string(sandbox.path(name)).unwrap()
    };
    for (name, start) in
        [("a.htm", "<!DOCTYPE html>"), ("b.HTML", "<!DOCTYPE html>"), ("c.SVG", "<svg")]
    {
        assert!(plot(name).starts_with(start), "{name}");
    }
}

/// A program in the place of `xdg-open` notes what it is asked to open.
#[cfg(target_os = "linux")]
#[test]
fn open_shows_the_page_that_was_written() {
    use std::os::unix::fs::PermissionsExt as _;

    let sandbox = Sandbox::new("open");
    sandbox.write("xdg-open", "#!/bin/sh\necho \"$1\" > opened\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sandbox.path("xdg-open"), mode).unwrap();
    sandbox.write("small.trace", "alloc a 3 MiB\n");
    let mut command = sandbox.command(&["replay", "small.trace", "--report", "out.html", "--open"]);
    let done = command.env("PATH", Path::new(&sandbox.path(""))).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(sandbox.read("opened"), "out.html\n");
    let alone = sandbox.run(&["replay", "small.trace", "--open"]);
    assert_eq!(alone.code, Some(2));
    assert!(alone.stderr.contains("--report"), "{}", alone.stderr);
}
