//! `cubeyard model --plan`: tables, JSON, the page, and errors.

use serde_json::Value;

use crate::model::sandbox;
use crate::{Run, Sandbox};

fn model(sandbox: &Sandbox, more: &[&str]) -> Run {
    let small = ["model", "--topology", "small.yaml", "--spec", "tiny.yaml", "--context", "64"];
    sandbox.run(&small.iter().chain(more).copied().collect::<Vec<_>>())
}

fn json(sandbox: &Sandbox, more: &[&str]) -> Value {
    let more: Vec<_> = more.iter().chain(&["--format", "json"]).copied().collect();
    serde_json::from_str(&model(sandbox, &more).result()).expect("it is JSON")
}

#[test]
fn the_plan_of_all_sips_has_the_time_of_the_step() {
    let sandbox = sandbox("plan-all");
    let step = json(&sandbox, &["--batch", "2"]);
    let plan = json(&sandbox, &["--batch", "2", "--plan", "tp=2"]);
    assert_eq!(plan["latency_ns"], step["total_ns"]);
    assert_eq!(plan["tokens_per_second"], step["tokens_per_second"]);
    assert_eq!(plan["stages"][0]["memory_per_pe"], step["memory_per_pe"]);
    assert_eq!(plan["stages"][0]["parts"], step["parts"]);
}

#[test]
fn a_pipeline_has_stages_and_boundaries_in_text_json_and_page() {
    let sandbox = sandbox("plan-pipeline");
    let plan = ["--batch", "4", "--plan", "pp=2", "--microbatches", "2"];
    let text = model(&sandbox, &plan).result();
    for words in [
        "decode, batch 4, 2 micro-batches, context 64, f16",
        "3 layers; tp=1,pp=2,dp=1 of 2 SIPs",
        "embedding, 0–1",
        "2, head",
        "0 to 1",
        "boundaries",
        "token to token",
        "layers: 3 over 2 stages, 2 in the first, then 1",
    ] {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
    let value = json(&sandbox, &plan);
    let number = |value: &Value| value.as_f64().expect("it is a number");
    let stages = value["stages"].as_array().expect("it is a list");
    let sum: f64 = stages.iter().map(|stage| number(&stage["total_ns"])).sum();
    let latency = number(&value["latency_ns"]);
    assert!((sum + number(&value["boundary_ns"]) - latency).abs() < 1e-6 * latency);
    assert_eq!(value["boundaries"][0]["bytes"], 2 * 256 * 2);
    let page: Vec<_> = plan.iter().chain(&["--report", "p.html", "-q"]).copied().collect();
    model(&sandbox, &page).result();
    let page = sandbox.read("p.html");
    for part in ["<h2>Stages</h2>", "<h2>Boundaries</h2>", "<h2>Parts</h2>", "<h2>Notes</h2>"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
}

#[test]
fn auto_names_the_fastest_plan_and_why() {
    let sandbox = sandbox("plan-auto");
    let found = json(&sandbox, &["--batch", "4", "--plan", "auto"]);
    let plans = found["plans"].as_array().expect("it is a list");
    assert_eq!(plans.len(), 4);
    let number = |value: &Value| value.as_f64().expect("it is a number");
    let best = number(&found["best"]["latency_ns"]);
    assert_eq!(plans[0]["latency_ns"], found["best"]["latency_ns"]);
    let measured = || plans.iter().filter_map(|plan| plan["latency_ns"].as_f64());
    assert!(measured().all(|latency| latency >= best) && measured().count() > 1);
    let text = model(&sandbox, &["--batch", "4", "--plan", "auto"]).result();
    let why = found["why"].as_str().expect("it is text");
    let begin: String = why.chars().take(40).collect();
    for words in ["fastest", "outcome", begin.as_str()] {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
    let most = json(&sandbox, &["--batch", "4", "--plan", "auto", "--objective", "throughput"]);
    assert!(number(&most["best"]["period_ns"]) <= best);
}

#[test]
fn plans_that_cannot_be_are_refused_with_what_can() {
    let sandbox = sandbox("plan-refused");
    for (more, words) in [
        (
            &["--plan", "tp=4"][..],
            "plan: tp=4,pp=1,dp=1: expected tp × pp × dp to be at most the 2 SIPs, found 4",
        ),
        (&["--plan", "tp=x"], "plan: tp=x: expected a whole number from 1 to 4096"),
        (&["--plan", "dp=2"], "plan: dp=2: expected at most 1 replicas"),
        (&["--plan", "ep=2"], "plan: ep=2: expected 1, since tiny has no experts"),
        (&["--plan", "pp=2", "--microbatches", "2"], "microbatches=2: expected 1 to 1"),
        (&["--plan", "auto", "--objective", "cost"], "expected latency or throughput"),
        (
            &["--plan", "auto", "--network", "beta=0"],
            "network: beta=0: expected a bandwidth such as 50GB/s",
        ),
        (&["--nodes", "2"], "--plan"),
    ] {
        let run = model(&sandbox, more);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(words), "{words} is not in: {}", run.stderr);
    }
    let small = ["model", "--topology", "small.yaml", "--spec", "tiny.yaml", "--plan", "auto"];
    let run = sandbox.run(&[&small[..], &["--batch", "64", "--context", "9000"]].concat());
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{}", run.stderr);
    assert!(run.stderr.contains("no plan of 2 SIPs fits"), "{}", run.stderr);
}
