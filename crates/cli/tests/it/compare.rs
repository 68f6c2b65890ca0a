//! `--save` and `cubeyard compare`: records, two machines, differences, causes, and errors.

use expect_test::expect;
use serde_json::Value;

use crate::{Sandbox, json, refused};

const SMALL: [&str; 8] = ["run", "gemm", "--set", "m=64", "--set", "k=128", "--set", "n=64"];

/// Saves a small product to a file, with more options.
fn save(sandbox: &Sandbox, file: &str, more: &[&str]) -> Value {
    sandbox.run(&[&SMALL[..], &["--save", file], more].concat()).result();
    serde_json::from_str(&sandbox.read(file)).expect("a record is JSON")
}

fn sum(values: &Value) -> f64 {
    values.as_object().unwrap().values().map(|value| value.as_f64().unwrap()).sum()
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.001
}

#[test]
fn a_record_holds_inputs_machine_figures_and_operations() {
    let sandbox = Sandbox::new("compare-save");
    let record = save(&sandbox, "a.json", &["--with", "hbm.burst_bytes=128"]);
    let shown = json(
        sandbox.run(&[&SMALL[..], &["--with", "hbm.burst_bytes=128", "--format", "json"]].concat()),
    );
    assert_eq!(record["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(shown["version"], record["version"]);
    assert_eq!(shown["topology"], record["topology"]);
    assert_eq!(record["inputs"]["m"], 64);
    assert_eq!(record["machine"]["hbm"]["burst_bytes"], 128);
    let figures = &record["figures"];
    assert_eq!(figures["kernel_ns"], shown["kernel_ns"]);
    assert!(close(sum(&figures["path_ns"]), figures["kernel_ns"].as_f64().unwrap()), "{figures}");
    let last =
        record["ops"]["rows"].as_array().unwrap().iter().map(|row| row[3].as_u64().unwrap()).max();
    assert!(last.unwrap() as f64 <= figures["kernel_ns"].as_f64().unwrap() * 1000.0);
    let again = save(&sandbox, "b.json", &["--with", "hbm.burst_bytes=128"]);
    assert_eq!(record, again);
}

/// The cause is computed from the parts, so the parts must add up to the whole time.
#[test]
fn the_parts_of_every_command_add_up_to_its_times() {
    let sandbox = Sandbox::new("compare-parts");
    let commands: [&[&str]; 3] = [
        &["ccl", "--sizes", "1K", "--algorithm", "ring"],
        &["probe", "--case", "pe-dma-local"],
        &["model", "--spec", "tiny.yaml", "--topology", "small.yaml", "--context", "32"],
    ];
    sandbox.write("small.yaml", crate::model::MACHINE);
    sandbox.write("tiny.yaml", crate::model::MODEL);
    for command in commands {
        sandbox.run(&[command, &["--save", "a.json"]].concat()).result();
        let record: Value = serde_json::from_str(&sandbox.read("a.json")).unwrap();
        assert_eq!(record["command"], command[0]);
        let rows = record["figures"]["rows"].as_array().unwrap();
        assert!(!rows.is_empty());
        for row in rows {
            assert!(
                close(sum(&row["path_ns"]), row["time_ns"].as_f64().unwrap()),
                "{command:?}: {row}"
            );
        }
    }
}

#[test]
fn two_records_are_compared_with_the_cause() {
    let sandbox = Sandbox::new("compare-records");
    let a = save(&sandbox, "a.json", &[]);
    let b = save(&sandbox, "b.json", &["--with", "hbm.channel_bandwidth_gbs=8", "--data"]);
    let text = sandbox.run(&["compare", "a.json", "b.json"]).result();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in
        ["hbm.channel_bandwidth_gbs", "--data", "critical path", "utilisation", "the HBM of a PE"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let value = json(sandbox.run(&["compare", "a.json", "b.json", "--format", "json"]));
    let row = &value["rows"][0];
    assert_eq!(row["a_ns"], a["figures"]["kernel_ns"]);
    assert_eq!(row["b_ns"], b["figures"]["kernel_ns"]);
    assert_eq!(value["machine"][0]["name"], "hbm.channel_bandwidth_gbs");
    assert_eq!((&value["machine"][0]["a"], &value["machine"][0]["b"]), (&32.into(), &8.into()));
    let cause = row["cause"].as_str().unwrap();
    assert!(cause.starts_with("A is faster than B by a factor of"), "{cause}");
    assert!(cause.contains("because DMA read takes"), "{cause}");
    assert_eq!(value["verdict"], row["verdict"]);
    assert!(
        text.contains(value["verdict"].as_str().unwrap().split(" (").next().unwrap()),
        "{text}"
    );
    // A slower HBM changes only reads and writes of the HBM.
    for part in row["path_ns"].as_array().unwrap() {
        let is_dma = part["name"].as_str().unwrap().starts_with("DMA");
        assert_eq!(part["a"] != part["b"], is_dma, "{part}");
    }
}

#[test]
fn two_machines_under_a_command_are_as_two_records() {
    let sandbox = Sandbox::new("compare-machines");
    save(&sandbox, "a.json", &[]);
    save(&sandbox, "b.json", &["--with", "hbm.channel_bandwidth_gbs=8"]);
    let records = json(sandbox.run(&["compare", "a.json", "b.json", "--format", "json"]));
    let with = "hbm.channel_bandwidth_gbs=8";
    let head = ["compare", "--with", with, "--format", "json", "--save", "both.jsonl", "--"];
    let runs = json(sandbox.run(&[&head[..], &SMALL].concat()));
    assert_eq!(runs["rows"], records["rows"]);
    assert_eq!(runs["machine"], records["machine"]);
    assert_eq!(runs["b"]["name"], "the default machine with hbm.channel_bandwidth_gbs=8");
    let lines = json(sandbox.run(&["compare", "both.jsonl:1", "both.jsonl:2", "--format", "json"]));
    assert_eq!(lines["rows"], records["rows"]);
    sandbox.write("slow.yaml", "hbm: {channel_bandwidth_gbs: 8}\n");
    sandbox.write("same.yaml", "");
    for files in [&["same.yaml", "slow.yaml"][..], &["slow.yaml"]] {
        let words = [&["compare"], files, &["--format", "json", "--"], &SMALL].concat();
        let compared = json(sandbox.run(&words));
        assert_eq!(compared["rows"], records["rows"], "{files:?}");
        assert_eq!(compared["b"]["name"], "slow.yaml");
    }
    let itself = ["compare", "same.yaml", "--format", "json", "--"];
    let itself = json(sandbox.run(&[&itself[..], &SMALL].concat()));
    let verdict = itself["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("There is no difference: A and B have the same inputs, and take"));
    assert_eq!(itself["rows"][0]["difference"], serde_json::json!([]));
    assert_eq!(itself["a"]["name"], "the default machine");
    let turned = ["compare", "--against", with, "--format", "json", "--"];
    let turned = json(sandbox.run(&[&turned[..], &SMALL].concat()));
    assert_eq!(turned["rows"][0]["a_ns"], records["rows"][0]["b_ns"]);
}

/// Published: the link to the HBM of a PE carries 256 GB/s, as much as its eight channels of 32 GB/s.
#[test]
fn faster_channels_alone_change_nothing_that_the_links_to_them_cannot_carry() {
    let sandbox = Sandbox::new("compare-hbm");
    let fast = ["--with", "hbm.channel_bandwidth_gbs=64"];
    let fed = [
        "--with",
        "hbm.link.bandwidth_gbs=512",
        "--with",
        "pe.link.bandwidth_gbs=512",
        "--with",
        "routers.link.bandwidth_gbs=512",
    ];
    let command = ["--", "run", "gqa-decode", "--set", "batch=1", "--set", "context=512"];
    let compare = |with: &[&str]| {
        json(sandbox.run(&[&["compare", "--format", "json"], with, &command[..]].concat()))
    };
    let alone = compare(&fast);
    assert!(
        alone["unreachable"][1][0].as_str().unwrap().contains("hbm.link carries 256 GB/s each way")
    );
    assert_eq!(alone["unreachable"][0].as_array().unwrap().len(), 0);
    let both = compare(&[&fast[..], &fed].concat());
    assert_eq!(both["unreachable"][1].as_array().unwrap().len(), 0, "{}", both["unreachable"]);
    let ratio = |value: &Value| value["rows"][0]["b_over_a"].as_f64().unwrap();
    assert!(ratio(&alone) > 0.95, "{}", alone["rows"][0]["cause"]);
    assert!(ratio(&both) < 0.85, "{}", both["rows"][0]["cause"]);
}

#[test]
fn the_page_shows_both_sides() {
    let sandbox = Sandbox::new("compare-page");
    let head = ["compare", "--with", "hbm.channel_bandwidth_gbs=8", "--report", "c.html", "--"];
    sandbox.run(&[&head[..], &SMALL].concat()).result();
    let page = sandbox.read("c.html");
    let document = roxmltree::Document::parse_with_options(
        &page,
        roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() },
    );
    let document = document.expect("the page is XML");
    let text: String = document.descendants().filter_map(|node| node.text()).collect();
    for part in [
        "hbm.channel_bandwidth_gbs",
        "A is faster than B by a factor of",
        "on the critical path",
        "of B − A",
        "utilisation",
        "Critical paths of A and B",
        "Units of the PE that ends last, in A above and in B below",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let bars = document.descendants().filter(|node| node.has_tag_name("rect")).count();
    assert!(bars > 4, "{bars} bars");
}

#[test]
fn what_is_no_pair_of_records_or_machines_is_refused() {
    let sandbox = Sandbox::new("compare-refused");
    save(&sandbox, "a.json", &[]);
    let record = sandbox.read("a.json");
    sandbox.write("cut.json", &record[..1]);
    sandbox.write("newer.json", record.replace("\"format\":1", "\"format\":7"));
    sandbox.write("two.jsonl", format!("{record}{record}"));
    sandbox.write("binary.json", b"\xff\xfe\0");
    let run = |words: &[&str]| sandbox.run(&[&["compare"], words].concat());
    refused(
        &run(&[]),
        &expect![[r#"
        error: expected two records, or a command after `--`
          help: cubeyard compare A.json B.json, with files of --save; or cubeyard compare --with hbm.channel_bandwidth_gbs=64 -- run gemm
    "#]],
    );
    refused(
        &run(&["a.json"]),
        &expect![[r#"
        error: expected two records, or a command after `--`
          help: cubeyard compare A.json B.json, with files of --save; or cubeyard compare --with hbm.channel_bandwidth_gbs=64 -- run gemm
    "#]],
    );
    refused(
        &run(&["a.json", "missing.json"]),
        &expect![[r#"
        error: missing.json: No such file or directory (os error 2)
          help: check the path
    "#]],
    );
    refused(
        &run(&["cut.json", "a.json"]),
        &expect![[r#"
            error: cut.json: not a record: EOF while parsing an object at line 1 column 1
              help: name a file that --save has written
        "#]],
    );
    refused(
        &run(&["a.json", "newer.json"]),
        &expect![[r#"
            error: newer.json: a record of format 7; this version reads format 1: make it again, or use the version that made it
        "#]],
    );
    refused(
        &run(&["a.json", "two.jsonl"]),
        &expect![[r#"
        error: two.jsonl: expected one record, found 2 lines
          help: name one, as in two.jsonl:1
    "#]],
    );
    refused(
        &run(&["a.json", "two.jsonl:3"]),
        &expect![[r#"
            error: two.jsonl: expected a line from 1 to 2, found 3
              help: name another
        "#]],
    );
    refused(
        &run(&["a.json", "binary.json"]),
        &expect![[r#"
        error: binary.json: expected a record in UTF-8
          help: name a file that --save has written
    "#]],
    );
    refused(
        &run(&["a.json", "a.json", "--with", "sips.count=1"]),
        &expect![[r#"
        error: --with and --against: expected a command after `--`
          help: cubeyard compare A.json B.json, with files of --save; or cubeyard compare --with hbm.channel_bandwidth_gbs=64 -- run gemm
    "#]],
    );
    refused(
        &run(&["--", "run", "gemm"]),
        &expect![[r#"
            error: A and B are the same
              help: cubeyard compare A.json B.json, with files of --save; or cubeyard compare --with hbm.channel_bandwidth_gbs=64 -- run gemm
        "#]],
    );
    assert_eq!(sandbox.read("a.json"), record);
}

#[test]
fn what_the_command_would_refuse_is_refused() {
    let sandbox = Sandbox::new("compare-command");
    save(&sandbox, "a.json", &[]);
    let record = sandbox.read("a.json");
    let run = |words: &[&str]| sandbox.run(&[&["compare"], words].concat());
    refused(
        &run(&["--with", "hbm.chanel_bandwidth=1", "--", "run", "gemm"]),
        &expect![[r#"
            error: --with hbm.chanel_bandwidth=1: hbm: expected a known key, found `chanel_bandwidth`; the nearest is `channel_bandwidth_gbs`
              help: cubeyard topology --print-default shows every key
        "#]],
    );
    refused(
        &run(&["--with", "sips.count=1", "--", "topology"]),
        &expect![[r#"
            error: expected a command that simulates after `--`: run, ccl, model, serve, probe, validate
        "#]],
    );
    for (option, value) in
        [("--levers", ""), ("--vary", "m=64,128"), ("--save", "x.json"), ("--report", "x.html")]
    {
        let given = [option, value].into_iter().filter(|word| !word.is_empty());
        let words = ["--with", "sips.count=1", "--", "run", "gemm"].into_iter().chain(given);
        let refused = run(&words.collect::<Vec<_>>());
        assert_eq!(refused.code, Some(2), "{option}");
        let start =
            format!("error: {option}: cannot be given to a command that is compared\n  help: ");
        assert!(refused.stderr.starts_with(&start), "{}", refused.stderr);
        assert!(!sandbox.path("x.json").exists() && !sandbox.path("x.html").exists());
    }
    refused(
        &run(&["--with", "sips.count=1", "--", "run", "gem"]),
        &expect![[r#"
        error: A: there is no bench `gem`; the nearest is `gemm`
          help: cubeyard list shows all benches
    "#]],
    );
    refused(
        &run(&["a.json", "a.json", "--report", "a.svg"]),
        &expect![[r#"
        error: a.svg: --report writes .html or .htm, not .svg
          help: name a file that ends in .html or .htm
    "#]],
    );
    assert_eq!(sandbox.read("a.json"), record);
}

#[test]
fn an_output_whose_name_says_another_format_is_refused() {
    let sandbox = Sandbox::new("compare-endings");
    for (option, name) in [("--save", "a.html"), ("--report", "a.json"), ("--trace", "a.svg")] {
        let run = sandbox.run(&[&SMALL[..], &[option, name]].concat());
        assert_eq!(run.code, Some(2), "{option} {name}");
        assert!(
            run.stderr.contains(&format!("error: {name}: {option} writes .")),
            "{}",
            run.stderr
        );
        assert!(!sandbox.path(name).exists());
    }
    sandbox.run(&[&SMALL[..], &["--save", "no-ending", "--quiet"]].concat()).result();
}

/// Regression: the bound assumed that the link to the HBM carries reads and writes in turn, so a copy was faster.
#[test]
fn reads_and_writes_together_reach_more_than_a_link_carries_one_way() {
    let sandbox = Sandbox::new("compare-both-ways");
    let head = ["compare", "--with", "hbm.channel_bandwidth_gbs=64", "--format", "json", "--"];
    let command = ["run", "copy", "--set", "bytes=65536"];
    let row = json(sandbox.run(&[&head[..], &command].concat()))["rows"][0].clone();
    let bound =
        row["bounds_ns"].as_array().unwrap().iter().find(|it| it["name"] == "the HBM of a PE");
    let bound = bound.unwrap();
    for side in ["a", "b"] {
        let time = row[format!("{side}_ns")].as_f64().unwrap();
        assert!(bound[side].as_f64().unwrap() <= time, "{side}: {bound} of {time}");
    }
    assert!(row["b_over_a"].as_f64().unwrap() < 0.9, "{row}");
}

/// Checks that the parts of a time differ by as much as the time, and that no line is too wide.
#[track_caller]
fn consistent(value: &Value, text: &str) {
    for row in value["rows"].as_array().unwrap() {
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let parts = row["path_ns"].as_array().unwrap();
        assert!(!parts.is_empty());
        let change: f64 = parts.iter().map(|part| number(&part["b"]) - number(&part["a"])).sum();
        let expected = number(&row["b_ns"]) - number(&row["a_ns"]);
        assert!((change - expected).abs() < 0.01, "{change} {expected}");
        let difference = row["difference"].as_array().unwrap();
        let sum = |key: &str| difference.iter().map(|part| number(&part[key])).sum::<f64>();
        assert!((sum("change_ns") - expected).abs() < 0.01, "{row}");
        assert!((sum("share") - 1.0).abs() < 1e-6, "{row}");
    }
    assert!(text.contains("of B − A"), "{text}");
    let all = text.lines().find(|line| line.trim_start().starts_with("all "));
    assert!(all.is_some_and(|line| line.ends_with(" 100.0 %")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn an_all_reduce_on_eight_and_sixteen_cubes_takes_what_it_takes_alone() {
    let sandbox = Sandbox::new("compare-ccl");
    let ccl = ["ccl", "--ranks", "cube", "--algorithm", "grid", "--sizes", "4K:16K:4"];
    let compare = |more: &[&str]| {
        sandbox.run(&[&["compare", "--against", "cubes.h=2", "-q"], more, &["--"], &ccl].concat())
    };
    let value = json(compare(&["--format", "json", "--report", "c.html"]));
    consistent(&value, &compare(&[]).result());
    assert!(sandbox.read("c.html").contains("Critical paths of A and B: grid 16.00 KiB"));
    let names: Vec<_> = value["machine"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["cubes.h"]);
    let world = value["inputs"].as_array().unwrap().iter().find(|it| it["name"] == "world");
    assert_eq!((&world.unwrap()["a"], &world.unwrap()["b"]), (&16.into(), &32.into()));
    for (side, more) in [("a_ns", &["--with", "cubes.h=2"][..]), ("b_ns", &[])] {
        let alone = json(sandbox.run(&[&ccl, more, &["--format", "json", "-q"]].concat()));
        let (rows, alone) =
            (value["rows"].as_array().unwrap(), alone["rows"].as_array().unwrap().clone());
        assert_eq!((rows.len(), alone.len()), (2, 2));
        for (row, alone) in rows.iter().zip(&alone) {
            assert!(
                close(row[side].as_f64().unwrap(), alone["time_ns"].as_f64().unwrap()),
                "{row}"
            );
        }
    }
}

/// The minimum time for the bytes of a decode step halves if the channels of the HBM and their links are twice as fast.
#[test]
fn a_decode_step_of_8b_gains_less_than_its_memory_bound() {
    let sandbox = Sandbox::new("compare-model");
    let keys = [
        "hbm.channel_bandwidth_gbs=64",
        "hbm.link.bandwidth_gbs=512",
        "pe.link.bandwidth_gbs=512",
        "routers.link.bandwidth_gbs=512",
    ];
    let with: Vec<_> = keys.iter().flat_map(|key| ["--with", key]).collect();
    let model = ["--", "model", "--llm", "llama-8b", "--context", "256"];
    let compare =
        |more: &[&str]| sandbox.run(&[&["compare", "-q"], &with[..], more, &model].concat());
    let value = json(compare(&["--format", "json", "--report", "m.html", "--save", "m.jsonl"]));
    let text = sandbox.run(&["compare", "m.jsonl:1", "m.jsonl:2"]).result();
    consistent(&value, &text);
    assert!(sandbox.read("m.html").contains("Critical paths of A and B: step"));
    let row = &value["rows"][0];
    let bound = row["bounds_ns"].as_array().unwrap().iter().find(|it| it["name"] == "HBM").unwrap();
    let ratio = bound["b"].as_f64().unwrap() / bound["a"].as_f64().unwrap();
    assert!((ratio - 0.5).abs() < 1e-3, "{bound}");
    let gain = row["b_over_a"].as_f64().unwrap();
    assert!((0.5..0.98).contains(&gain), "{gain}");
}

#[test]
fn checks_are_saved_and_their_times_compared() {
    let sandbox = Sandbox::new("compare-validate");
    sandbox.run(&["validate", "--save", "a.json", "-q"]).result();
    let record: Value = serde_json::from_str(&sandbox.read("a.json")).unwrap();
    let checks = record["figures"]["checks"].as_array().unwrap();
    let rows = record["figures"]["rows"].as_array().unwrap();
    assert!(rows.len() > 90 && rows.len() < checks.len(), "{} {}", rows.len(), checks.len());
    for row in rows {
        let check = checks.iter().find(|check| check["name"] == row["name"]).unwrap();
        let factor = if check["unit"] == "ps" { 1e-3 } else { 1.0 };
        assert!(close(row["time_ns"].as_f64().unwrap(), check["ours"].as_f64().unwrap() * factor));
    }
    let same = sandbox.run(&["compare", "a.json", "a.json"]).result();
    assert!(same.contains("the inputs are the same") && same.contains("and "), "{same}");
    assert!(same.contains("There is no difference"), "{same}");
}

#[test]
fn results_tell_the_version_and_the_hash_of_their_machine() {
    let sandbox = Sandbox::new("compare-stamps");
    let with = ["--with", "cubes.h=2", "--format", "json", "-q"];
    let of = |words: &[&str], more: &[&str]| json(sandbox.run(&[words, more].concat()));
    let hash = of(&["topology"], &with)["topology"].clone();
    assert_ne!(hash, of(&["topology"], &with[2..])["topology"]);
    for words in [&["placement", "--shape", "64x64"][..], &["probe", "--case", "pe-dma-local"]] {
        let value = of(words, &with);
        assert_eq!(value["topology"], hash, "{words:?}");
        assert_eq!(value["version"], env!("CARGO_PKG_VERSION"), "{words:?}");
    }
    let checks = of(&["validate"], &with);
    assert!(checks.as_array().unwrap().iter().all(|check| check["topology"] == hash));
    let replayed = of(&["replay"], &with[2..]);
    let versions = replayed.as_array().unwrap().iter().map(|row| &row["version"]);
    assert!(versions.clone().count() > 1);
    assert!(versions.clone().all(|version| version == env!("CARGO_PKG_VERSION")));
}
