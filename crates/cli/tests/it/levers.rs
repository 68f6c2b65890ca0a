//! `--levers`: the time if each resource were twice as fast, and groups of keys as options.

use serde_json::Value;

use crate::{Sandbox, json};

const GEMM: [&str; 8] = ["run", "gemm", "--set", "m=64", "--set", "k=256", "--set", "n=64"];
const MODEL: [&str; 9] = [
    "model",
    "--spec",
    "tiny.yaml",
    "--context",
    "64",
    "--with",
    "cubes={w: 1, h: 1}",
    "--with",
    "sips.count=1",
];

fn measured(sandbox: &Sandbox, command: &[&str], more: &[&str]) -> Value {
    json(sandbox.run(&[command, &["--levers", "--format", "json", "-q"], more].concat()))
}

fn levers(value: &Value) -> &[Value] {
    value["levers"].as_array().unwrap()
}

fn named<'a>(value: &'a Value, name: &str) -> &'a Value {
    let all = levers(value).iter().find(|lever| lever["name"] == name);
    all.unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Returns the time of a run with the given options.
fn alone(sandbox: &Sandbox, command: &[&str], with: &[String]) -> Value {
    let with: Vec<_> = with.iter().flat_map(|with| ["--with", with]).collect();
    let value = json(sandbox.run(&[command, &with, &["--format", "json", "-q"]].concat()));
    value["kernel_ns"].clone()
}

#[test]
fn a_lever_is_the_run_with_its_group_and_with_its_keys() {
    let sandbox = Sandbox::new("levers-by-hand");
    let value = measured(&sandbox, &GEMM, &[]);
    assert_eq!(value["time_ns"], alone(&sandbox, &GEMM, &[]));
    let first = levers(&value)[0]["name"].as_str().unwrap().to_owned();
    for name in [&*first, "hbm.bandwidth", "pe.gemm", "pe.tcm", "message.latency"] {
        let lever = named(&value, name);
        assert_eq!(alone(&sandbox, &GEMM, &[format!("{name}=2x")]), lever["time_ns"], "{name}");
        let keys = lever["with"].as_object().unwrap();
        let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert!(!keys.is_empty());
        assert_eq!(alone(&sandbox, &GEMM, &keys), lever["time_ns"], "{keys:?}");
        let saved = 1.0 - lever["time_ns"].as_f64().unwrap() / value["time_ns"].as_f64().unwrap();
        assert!((saved - lever["saved"].as_f64().unwrap()).abs() < 1e-12);
    }
    let saved: Vec<_> = levers(&value).iter().map(|it| it["saved"].as_f64().unwrap()).collect();
    assert!(saved.is_sorted_by(|one, next| one >= next), "{saved:?}");
    assert!(saved[0] > 0.0, "{saved:?}");
}

#[test]
fn a_resource_that_is_not_used_saves_nothing_and_none_makes_the_run_slower() {
    let sandbox = Sandbox::new("levers-unused");
    let value = measured(&sandbox, &GEMM, &[]);
    for name in ["ucie.bandwidth", "ucie.latency", "pcie.bandwidth", "sram.bandwidth", "pe.vector"]
    {
        assert_eq!(named(&value, name)["saved"], 0.0, "{name}");
        assert_eq!(named(&value, name)["time_ns"], value["time_ns"]);
    }
    assert!(levers(&value).iter().all(|lever| lever["saved"].as_f64() >= Some(0.0)), "{value}");
    let absent = value["absent"].as_array().unwrap();
    assert_eq!(absent, &["hbm.latency", "mesh.buffers"].map(Value::from));
    let slow = measured(&sandbox, &GEMM, &["--with", "hbm.overhead_ns=40"]);
    assert!(named(&slow, "hbm.latency")["saved"].as_f64() > Some(0.0), "{slow}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let sandbox = Sandbox::new("levers-threads");
    let on = |threads| measured(&sandbox, &GEMM, &["--threads", threads]);
    assert_eq!(on("1"), on("3"));
}

/// A lever that is pulled already is pulled again from there.
#[test]
fn levers_start_from_the_machine_of_the_command() {
    let sandbox = Sandbox::new("levers-again");
    let first = measured(&sandbox, &GEMM, &[]);
    let again = measured(&sandbox, &GEMM, &["--with", "hbm.bandwidth=2x"]);
    assert_eq!(again["time_ns"], named(&first, "hbm.bandwidth")["time_ns"]);
    assert_eq!(named(&again, "hbm.bandwidth")["with"]["hbm.channel_bandwidth_gbs"], 128);
    let four = alone(&sandbox, &GEMM, &["hbm.bandwidth=4x".to_owned()]);
    assert_eq!(named(&again, "hbm.bandwidth")["time_ns"], four);
}

/// Loads and products take equally long: neither lever alone saves much, and both together do.
#[test]
fn pairs_are_tried_if_no_lever_alone_saves_much() {
    let sandbox = Sandbox::new("levers-pairs");
    let value = measured(&sandbox, &BALANCED, &[]);
    let pairs = value["pairs"].as_array().unwrap();
    assert!(!pairs.is_empty() && pairs.len() <= 6, "{value}");
    let (best, alone_saved) = (&pairs[0], levers(&value)[0]["saved"].as_f64().unwrap());
    assert!(alone_saved < 0.1 && best["saved"].as_f64().unwrap() > 2.0 * alone_saved, "{value}");
    let name = best["name"].as_str().unwrap();
    let time = alone(&sandbox, &BALANCED, &[format!("{name}=2x")]);
    assert_eq!(time, best["time_ns"]);
    let text = sandbox.run(&[&BALANCED[..], &["--levers", "-q"]].concat()).result();
    assert!(text.contains(&format!("--with {name}=2x")), "{text}");
    let enough = measured(&sandbox, &GEMM, &["--with", "hbm.bandwidth=0.1x"]);
    assert_eq!(enough["pairs"], Value::Array(Vec::new()), "one lever saves enough");
}

const BALANCED: [&str; 4] = ["run", "gemm", "--with", "pe.gemm=1x"];

#[test]
fn the_table_names_the_limit_the_best_lever_and_its_keys() {
    let sandbox = Sandbox::new("levers-table");
    let value = measured(&sandbox, &GEMM, &[]);
    let text = sandbox.run(&[&GEMM[..], &["--levers", "-q"]].concat()).result();
    let first = &levers(&value)[0];
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = value["verdict"].as_str().unwrap();
    assert!(words.starts_with(verdict) && verdict.starts_with("run gemm takes "), "{text}");
    assert!(verdict.contains(value["limit"]["text"].as_str().unwrap()), "{verdict}");
    let (name, key) = (first["name"].as_str().unwrap(), first["with"].as_object().unwrap());
    let row = text.lines().find(|line| line.starts_with(&format!("  {name} "))).unwrap();
    assert!(row.contains(" %  "), "{row}");
    let group = key.keys().next().unwrap().rsplit_once('.').unwrap().0;
    assert!(text.contains(group), "{text}");
    assert!(text.contains("  no effect: ") && text.contains("  not on this machine: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_model_and_collectives_have_levers() {
    let sandbox = Sandbox::new("levers-commands");
    sandbox.write("tiny.yaml", "name: tiny\nlayers: 1\nhidden: 256\nffn: 512\nheads: 4\nkv_heads: 1\nhead_dim: 64\nvocab: 512\n");
    let value = measured(&sandbox, &MODEL, &[]);
    assert_eq!(value["times"][0]["name"], "step");
    assert!(levers(&value)[0]["saved"].as_f64() > Some(0.0), "{value}");
    let verdict = value["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("model takes "), "{verdict}");

    let ccl =
        ["ccl", "--ranks", "cube", "--algorithm", "ring", "--sizes", "256:512", "--sips", "1"];
    let ccl = [&ccl[..], &["--with", "cubes={w: 2, h: 1}"]].concat();
    let value = measured(&sandbox, &ccl, &[]);
    let rows = value["times"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let all = rows.iter().map(|row| row["time_ns"].as_f64().unwrap()).sum::<f64>();
    assert!((value["time_ns"].as_f64().unwrap() - all).abs() < 1e-6);
    assert!(levers(&value).iter().all(|lever| lever["times"].as_array().unwrap().len() == 2));
    let text = sandbox.run(&[&ccl[..], &["--levers", "-q"]].concat()).result();
    assert!(text.contains("best lever"), "{text}");
}

#[test]
fn records_of_all_machines_are_saved_and_can_be_compared() {
    let sandbox = Sandbox::new("levers-saved");
    let value = measured(&sandbox, &GEMM, &["--save", "all.jsonl"]);
    let lines = sandbox.read("all.jsonl").lines().count();
    assert_eq!(lines, 1 + levers(&value).len() + value["pairs"].as_array().unwrap().len());
    let compared =
        json(sandbox.run(&["compare", "all.jsonl:1", "all.jsonl:2", "--format", "json"]));
    assert_eq!(compared["rows"][0]["a_ns"], value["time_ns"]);
    assert_eq!(compared["rows"][0]["b_ns"], levers(&value)[0]["time_ns"]);
}

#[test]
fn groups_are_keys_of_vary_and_compare() {
    let sandbox = Sandbox::new("levers-groups");
    let vary = [&GEMM[..], &["--vary", "hbm.bandwidth=1x,0.5x", "--format", "json"]].concat();
    let value = json(sandbox.run(&vary));
    let slow = alone(&sandbox, &GEMM, &["hbm.bandwidth=0.5x".to_owned()]);
    assert_eq!(value["points"][0]["rows"][0]["time_ns"], alone(&sandbox, &GEMM, &[]));
    assert_eq!(value["points"][1]["rows"][0]["time_ns"], slow);
    let head = ["compare", "--with", "hbm.bandwidth=0.5x", "--format", "json", "--"];
    let value = json(sandbox.run(&[&head[..], &GEMM].concat()));
    assert_eq!(value["rows"][0]["b_ns"], slow);
    let keys: Vec<_> = value["machine"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    let expected = ["hbm.channel_bandwidth_gbs", "hbm.link.bandwidth_gbs", "pe.link.bandwidth_gbs"];
    assert_eq!(keys, expected);
}

#[test]
fn what_cannot_be_is_refused_with_what_was_meant() {
    let sandbox = Sandbox::new("levers-refused");
    let says = |command: &[&str], expected: &str| {
        let run = sandbox.run(command);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{command:?}: {}", run.stderr);
    };
    let gemm =
        |more: &[&str], expected: &str| says(&[&["run", "gemm"][..], more].concat(), expected);
    gemm(&["--with", "hbm.bandwith=2x"], "found `bandwith`; the nearest is `bandwidth`");
    gemm(
        &["--with", "hbm.bandwidth=64"],
        "expected a factor for all keys of the group, such as 2x",
    );
    gemm(&["--with", "hbm.speed=2x"], "found `speed`; the nearest is `bandwidth`");
    gemm(&["--with", "sips=4"], "expected a mapping, or a key such as sips.count, found 4");
    gemm(&["--vary", "sips=2,4"], "help: keys of the machine are sips.count, sips.topology");
    gemm(&["--levers", "--trace", "a.pftrace"], "--trace: cannot be written with --levers");
    says(&["ccl", "--levers", "--report", "a.html"], "--report: cannot be written with --levers");
    gemm(&["--levers", "--vary", "m=1,2"], "cannot be used with");
    says(&["model", "--sequence", "2000"], "--context");
    says(&["probe", "--levers"], "unexpected argument '--levers'");
}

#[test]
fn the_page_has_the_verdict_and_every_lever_with_an_effect() {
    let sandbox = Sandbox::new("levers-page");
    let value = measured(&sandbox, &GEMM, &["--report", "page.html"]);
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    let found = page.matches("<th scope=\"row\">").count();
    let pairs = value["pairs"].as_array().unwrap();
    let effects = levers(&value).iter().chain(pairs).filter(|it| it["saved"] != 0.0).count();
    assert!(effects > 2 && found == effects, "{found} rows, {effects} levers with an effect");
    assert!(page.contains("<h2>Levers</h2>") && page.contains("The best lever is"));
}
