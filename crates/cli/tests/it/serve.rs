//! `cubeyard serve`: results, searches, files, and bad input.

use expect_test::expect;
use serde_json::Value;

use crate::model::sandbox;
use crate::{Run, Sandbox};

/// Serves 30 short requests.
fn serve(sandbox: &Sandbox, more: &[&str]) -> Run {
    let small = ["serve", "--topology", "small.yaml", "--spec", "tiny.yaml"];
    let load = ["--requests", "30", "--prompt", "16-48", "--answer", "4"];
    let all: Vec<_> = small.iter().chain(&load).chain(more).copied().collect();
    sandbox.run(&all)
}

fn json(sandbox: &Sandbox, more: &[&str]) -> Value {
    let words: Vec<_> = more.iter().copied().chain(["--format", "json"]).collect();
    let run = serve(sandbox, &words);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn a_small_service_as_a_table() {
    let run = serve(&sandbox("serve-table"), &["--rate", "20000", "--goodput", "ttft:0.1"]);
    assert_eq!(run.stderr, "");
    expect![[r#"
        tiny: 30 requests, Poisson arrivals, prompts of 16 to 48, answers of 4 tokens
          20,000 requests a second; 2 SIPs × 2 cubes × 2 PEs

          19,128 requests/s are answered with 76,513 output tokens/s; 99 % of the first
          tokens come within 0.0564 ms, and the mean of the times between tokens is
          0.0145 ms; 100 % of the requests are within the limits. A request waits
          0.00626 ms in the mean, mostly (100 %) because a step is running when it
          arrives; the KV cache is at most 0.4 % full.

          latency ms   mean  median    p90    p99    max
          queue       0.006   0.004  0.016  0.024  0.025
          TTFT        0.032   0.029  0.047  0.056  0.058
          TPOT        0.015   0.014  0.021  0.025  0.025
          ITL         0.015   0.011  0.023  0.043  0.043
          E2EL        0.075   0.072  0.093  0.106  0.108

          answered            30 requests in 0.00157 s
          throughput          19,128 requests/s, 19,128 of them within the limits;
                              76,513 output tokens/s
          batches             73 steps of 14.48 tokens in the mean, 72.9 % of the time
          KV cache            3,368 blocks of 16 tokens and 12.00 KiB; at most 13 in use
                              (0.4 %)
          waiting             step 100 %
          times of steps      interpolated between simulations (26 in all); of 4 batches
                              simulated exactly, off by at most 5.8 %
    "#]]
    .assert_eq(&run.stdout);
}

#[test]
fn a_search_shows_the_rates_it_tried() {
    let found = json(&sandbox("serve-search"), &["--find-rate=0.9", "--goodput", "ttft:0.1"]);
    let [best, beyond] =
        ["highest_rate", "lowest_rate_beyond"].map(|key| found[key].as_f64().unwrap());
    assert!(best < beyond && beyond <= 1.02 * best, "{best} {beyond}");
    let rates: Vec<_> = found["rates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["rate"].as_f64().unwrap())
        .collect();
    assert!(rates.is_sorted() && rates.contains(&best) && rates.contains(&beyond));
    let text = found["verdict"].as_str().unwrap();
    assert!(text.starts_with("Up to ") && text.contains("TTFT ≤ 0.1 ms"), "{text}");
}

#[test]
fn the_rows_of_requests_are_read_back_as_a_trace() {
    let sandbox = sandbox("serve-rows");
    let first = json(&sandbox, &["--rate", "20000", "--requests-csv", "rows.csv"]);
    let rows = sandbox.read("rows.csv");
    assert_eq!(rows.lines().count(), 31);
    assert!(rows.starts_with("request,arrival_s,prompt_tokens,output_tokens,"), "{rows}");
    let small = ["serve", "--topology", "small.yaml", "--spec", "tiny.yaml", "--format", "json"];
    let run = sandbox.run(&[&small[..], &["--trace", "rows.csv"]].concat());
    let again: Value = serde_json::from_str(&run.stdout).unwrap();
    for key in ["completed", "total_input_tokens", "total_output_tokens"] {
        assert_eq!(first[key], again[key], "{key}");
    }
}

#[test]
fn exact_times_and_interpolated_ones_are_close() {
    let sandbox = sandbox("serve-exact");
    let few = ["--rate", "20000", "--requests", "8"];
    let small = ["serve", "--topology", "small.yaml", "--spec", "tiny.yaml", "--prompt", "16-48"];
    let run = |steps: &str| -> Value {
        let words =
            [&small[..], &few, &["--answer", "4", "--format", "json", "--steps", steps]].concat();
        serde_json::from_str(&sandbox.run(&words).stdout).unwrap()
    };
    let [near, exact] = ["interpolated", "exact"].map(run);
    let mean = |run: &Value| run["mean_e2el_ms"].as_f64().unwrap();
    assert!((mean(&near) / mean(&exact) - 1.0).abs() < 0.2, "{near} {exact}");
    assert_eq!(exact["step_times"]["exact"], true);
    assert!(near["step_times"]["largest_error"].as_f64().unwrap().abs() < 0.3);
}

#[test]
fn a_service_is_compared_varied_and_drawn() {
    let sandbox = sandbox("serve-study");
    let run = serve(&sandbox, &["--rate", "20000", "--vary", "hbm.bandwidth=1x,2x"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("prefill") && run.stdout.contains("2x"), "{}", run.stdout);
    let run =
        serve(&sandbox, &["--rates", "5000,20000", "--report", "page.html", "--save", "run.json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let page = sandbox.read("page.html");
    for title in ["Latency over rate", "Requests over time", "KV cache over time", "First tokens"] {
        assert!(page.contains(title), "{title}");
    }
    assert!(sandbox.read("run.json").contains("\"command\":\"serve\""));
}

#[test]
fn bad_input_names_the_option_and_what_was_expected() {
    let sandbox = sandbox("serve-bad");
    sandbox.write("bad.csv", "arrival_s,prompt_tokens,output_tokens\n0,5,-1\n");
    for (words, expected) in [
        (&["--rate", "0"][..], "--rate=0: expected a positive number of requests a second"),
        (&["--find-rate"], "--find-rate: expected limits of latencies"),
        (&["--goodput", "ttft"], "--goodput `ttft`: expected ttft:MS, tpot:MS or e2el:MS"),
        (&["--kv-blocks", "999999999"], "--kv-blocks=999999999: expected at most"),
        (&["--max-num-seqs", "0"], "--max-num-seqs=0: expected at least 1"),
        (&["--memory-share", "2"], "--memory-share=2: expected a number above 0 and up to 1"),
    ] {
        let run = serve(&sandbox, words);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(run.stderr.contains(expected), "{words:?}: {}", run.stderr);
    }
    let small = ["serve", "--topology", "small.yaml", "--spec", "tiny.yaml", "--trace", "bad.csv"];
    let run = sandbox.run(&small);
    let expected =
        "bad.csv:2: output_tokens: expected a number of tokens from 1 to 16777216, found `-1`";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    let run = serve(&sandbox, &["--memory-share", "0.000001"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
}
