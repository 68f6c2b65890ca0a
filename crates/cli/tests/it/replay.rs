//! `cubeyard replay`: tables, JSON and their figures.

use std::io::Read as _;
use std::process::Stdio;

use expect_test::expect;
use serde_json::Value;

use crate::{Sandbox, recorded};

const SCRIPT: &str = "\
alloc weights 30 MiB
alloc batch 3 MiB
free batch
alloc batch 5 MiB
alloc none 0
";

/// Returns a table without the times, the last number of each row.
fn without_times(table: &str) -> String {
    let is_decimal = |word: Option<&str>| {
        word.is_some_and(|word| word.contains('.') && word.parse::<f64>().is_ok())
    };
    let line = |line: &str| {
        let mut words = line.rsplit(' ').filter(|word| !word.is_empty());
        let (time, waste) = (words.next(), words.next());
        match time {
            Some(time) if is_decimal(Some(time)) && is_decimal(waste) => {
                format!("{} <ns>\n", line[..line.len() - time.len()].trim_end())
            }
            // As wide as the longest time.
            Some("ns/op") => format!("{} ns/op\n", line.trim_end_matches("ns/op").trim_end()),
            _ => format!("{line}\n"),
        }
    };
    table.lines().map(line).collect::<Vec<_>>().concat()
}

#[test]
fn a_table_shows_every_policy_and_ends_with_advice() {
    let sandbox = Sandbox::new("table");
    sandbox.write("small.trace", SCRIPT);
    let table = sandbox.run(&["replay", "small.trace"]).result();
    expect![[r#"
        PyTorch needs 50.00 MiB; 40.00 MiB with this setting:
          PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

        small
          policy              events  peak live  peak reserved  waste ns/op
          pytorch                  5  35.00 MiB      50.00 MiB  1.429 <ns>
          pytorch-expandable       5  35.00 MiB      40.00 MiB  1.143 <ns>
        ★ first-fit                5  35.00 MiB      36.00 MiB  1.029 <ns>
          best-fit                 5  35.00 MiB      36.00 MiB  1.029 <ns>
          quick-fit                5  35.00 MiB      36.00 MiB  1.029 <ns>
          recycle                  5  35.00 MiB      36.00 MiB  1.029 <ns>
          lifetime                 5  35.00 MiB      36.00 MiB  1.029 <ns>
          planned                  5  35.00 MiB      36.00 MiB  1.029 <ns>

          least memory         no limit      needs  ÷ live  retries      limit
          pytorch             50.00 MiB  50.00 MiB   1.429        0  50.00 MiB
          pytorch-expandable  40.00 MiB  40.00 MiB   1.143        0  30.00 MiB
          first-fit           36.00 MiB  36.00 MiB   1.029        0  36.00 MiB

        `first-fit` needs 36.00 MiB where PyTorch needs 50.00 MiB: 28 % less; PyTorch's
          own `expandable_segments:True` saves 20 %.
    "#]]
    .assert_eq(&without_times(&table));
}

#[test]
fn a_snapshot_has_a_row_with_what_was_recorded() {
    let sandbox = Sandbox::new("snapshot");
    let file = recorded("resnet_train_stacks.pickle.gz");
    let table = sandbox.run(&["replay", &file, "--policy", "first-fit"]).result();
    expect![[r#"
        `first-fit` would have needed 3.63 GiB where PyTorch reserved 4.35 GiB: 17 %
          less.

        resnet_train_stacks
          policy                events  peak live  peak reserved  waste ns/op
          first-fit              3,673   3.54 GiB       3.63 GiB  1.025 <ns>
          PyTorch, as recorded                          4.35 GiB  1.229

          least memory  no limit     needs  ÷ live  retries     limit
          first-fit     3.63 GiB  3.55 GiB   1.003        0  3.55 GiB

          held at the peak: 3.54 GiB in 539 blocks, event 707 of 3,673
               bytes  share  blocks     largest       age  allocated by
            3.31 GiB   93 %     201  128.00 MiB  475.8 ms  record.py:87 resnet_train
          120.84 MiB    3 %      16   32.00 MiB  106.1 ms  (no Python frame)
           97.70 MiB    3 %     320    9.00 MiB  504.5 ms  record.py:83 resnet_train
           24.00 MiB    1 %       1   24.00 MiB    478 ms  record.py:86 resnet_train
               128 B    0 %       1         4 B  112.9 ms  record.py:88 resnet_train
          pytorch holds     3.63 GiB
            requested       3.54 GiB
            rounding        1.22 MiB
            cached         22.00 MiB  unused, given back when memory runs out
            gaps           69.06 MiB  longest 18.00 MiB; most beside record.py:87 r…

    "#]]
    .assert_eq(&without_times(&table));
}

/// The advice for a snapshot of one live block of 3 MiB in 20 MiB, without a history, was to save nine tenths.
#[test]
fn a_snapshot_without_history_is_shown_without_a_star_and_without_advice() {
    let sandbox = Sandbox::new("no-history");
    let snapshot = b"\x80\x02}(X\x08\0\0\0segments](}(X\x06\0\0\0deviceK\0X\x07\0\0\0addressK\0\
        X\x0a\0\0\0total_sizeJ\0\0\x40\x01X\x06\0\0\0streamK\0X\x06\0\0\0blocks](}(\
        X\x04\0\0\0sizeJ\0\0\x30\0X\x0e\0\0\0requested_sizeJ\0\0\x30\0\
        X\x05\0\0\0stateX\x10\0\0\0active_allocatedueueX\x0d\0\0\0device_traces](]eu.";
    sandbox.write("late.pickle", snapshot);
    let table =
        sandbox.run(&["replay", "late.pickle", "--policy=pytorch", "--policy=first-fit"]).result();
    expect![[r#"
        No advice on `late`: it has no history, only what was live when it was taken;
          call torch.cuda.memory._record_memory_history() before the work.

        late
          policy                events  peak live  peak reserved  waste ns/op
          pytorch                    1   3.00 MiB      20.00 MiB  6.667 <ns>
          first-fit                  1   3.00 MiB       4.00 MiB  1.333 <ns>
          PyTorch, as recorded                         20.00 MiB  6.667

          least memory   no limit      needs  ÷ live  retries      limit
          pytorch       20.00 MiB  20.00 MiB   6.667        0  20.00 MiB
          first-fit      4.00 MiB   4.00 MiB   1.333        0   4.00 MiB

    "#]]
    .assert_eq(&without_times(&table));
    let rows = json(&sandbox, &["late.pickle", "--policy=first-fit"]);
    assert_eq!(rows[0]["recorded_by"], "PyTorch");
    assert!(rows[0]["doubt"].as_str().unwrap().starts_with("it has no history"));
}

#[test]
fn a_policy_that_fails_is_a_row_and_no_error() {
    let sandbox = Sandbox::new("failed");
    sandbox.write("large.trace", "alloc a 1 MiB\nalloc b 100000 GiB\n");
    let table = sandbox.run(&["replay", "large.trace", "--policy=first-fit"]).result();
    expect![[r#"
        No policy could serve `large`: compare the sizes in the trace with what the
          failed rows say.

        large
          policy     events  peak live  peak reserved   waste ns/op
        ✗ first-fit       1   1.00 MiB       2.00 MiB  failed      –
            event 2: out of memory: wanted 97.66 TiB (107374182400000 B, rounded to
                107374182400000 B)
              free 1.00 MiB, longest free range 1.00 MiB, in 1 regions
              device: 64.00 TiB of 64.00 TiB free; no more regions are acquired
              region 0x400000000: 2.00 MiB, 1.00 MiB free, longest range 1.00 MiB, 1
                blocks
              no region can ever hold it: the longest block is 64.00 TiB, and the device
                has 64.00 TiB in all; ask for less, or use a device with more

    "#]]
    .assert_eq(&without_times(&table));
    let rows = json(&sandbox, &["large.trace", "--policy=first-fit", "--policy=pytorch"]);
    assert!(rows[0]["failed"].as_str().unwrap().starts_with("event 2: out of memory"));
    assert_eq!((&rows[0]["waste"], &rows[0]["ns_per_op"]), (&Value::Null, &Value::Null));
    assert_eq!(rows[1]["failed"], Value::Null);
}

/// Returns the rows of `replay --format json`.
pub(crate) fn json(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let run = sandbox.run(&[&["replay", "--format", "json"], arguments].concat());
    serde_json::from_str(&run.result()).expect("JSON and nothing else")
}

/// Returns the rows without the time per operation, which differs from run to run.
fn json_without_times(sandbox: &Sandbox, arguments: &[&str]) -> Vec<Value> {
    let mut rows = json(sandbox, arguments);
    for row in &mut rows {
        assert!(row["ns_per_op"].as_f64().unwrap() >= 0.0);
        row["ns_per_op"] = Value::from("some");
    }
    rows
}

#[test]
#[expect(clippy::too_many_lines, reason = "one snapshot of a whole output")]
fn json_rows_have_every_key() {
    let sandbox = Sandbox::new("json");
    sandbox.write("small.trace", SCRIPT);
    let rows = json_without_times(&sandbox, &["small.trace"]);
    let names: Vec<_> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["pytorch", "pytorch-expandable", "first-fit", "best-fit"]);
    expect![[r#"
        {
          "answer": {
            "needs_bytes": 52428800,
            "needs_with_setting_bytes": 41943040,
            "setting": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "text": "PyTorch needs 50.00 MiB; 40.00 MiB with this setting:"
          },
          "doubt": null,
          "emptied_cache_bytes": 0,
          "emptied_cache_calls": 0,
          "events": 5,
          "failed": null,
          "file": "small.trace",
          "fits_where_memory_ran_out": null,
          "lag_launches": 0,
          "least_bytes": 37748736,
          "least_fails_bytes": 35651584,
          "least_reserved_bytes": 37748736,
          "least_retries": 0,
          "ns_per_op": "some",
          "out_of_memory": null,
          "peak": {
            "blocks": 2,
            "by": "size",
            "cache": {
              "allocated_bytes": 36700160,
              "beside_gaps": [
                {
                  "blocks": 1,
                  "bytes": 15728640,
                  "largest_bytes": 5242880,
                  "name": "5.00 MiB",
                  "oldest_age_events": 1,
                  "oldest_age_us": 0,
                  "requested_bytes": 5242880,
                  "stack": [],
                  "youngest_age_events": 1,
                  "youngest_age_us": 0
                }
              ],
              "cached_bytes": 0,
              "gap_bytes": 15728640,
              "longest_gap_bytes": 15728640,
              "policy": "pytorch",
              "reserved_bytes": 52428800,
              "retries": 0
            },
            "events": 4,
            "failed_bytes": null,
            "holders": [
              {
                "blocks": 1,
                "bytes": 31457280,
                "largest_bytes": 31457280,
                "name": "30.00 MiB",
                "oldest_age_events": 4,
                "oldest_age_us": 3,
                "requested_bytes": 31457280,
                "stack": [],
                "youngest_age_events": 4,
                "youngest_age_us": 3
              },
              {
                "blocks": 1,
                "bytes": 5242880,
                "largest_bytes": 5242880,
                "name": "5.00 MiB",
                "oldest_age_events": 1,
                "oldest_age_us": 0,
                "requested_bytes": 5242880,
                "stack": [],
                "youngest_age_events": 1,
                "youngest_age_us": 0
              }
            ],
            "live_bytes": 36700160,
            "requested_bytes": 36700160,
            "stream_bytes": {
              "0": 36700160
            },
            "time_us": 3
          },
          "peak_live_bytes": 36700160,
          "peak_reserved_bytes": 37748736,
          "policy": "first-fit",
          "recorded_by": null,
          "recorded_reserved_bytes": null,
          "reserved_at_peak_bytes": 37748736,
          "streams": 1,
          "trace": "small",
          "version": "0.1.0",
          "waits": 0,
          "waste": 1.0285714285714285
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&rows[2]).unwrap());
}

/// Memory of a stream serves another at once only if work is complete at once, which is said.
#[test]
fn the_lag_of_streams_is_stated_and_can_be_chosen() {
    let sandbox = Sandbox::new("lag");
    let script =
        "alloc z 100 MiB stream 1\nfree z\nalloc a 100 MiB\nfree a\nalloc b 100 MiB stream 1\n";
    sandbox.write("two.trace", script);
    let best_fit = ["two.trace", "--policy=best-fit"];
    for (lag, launches, mib, rule) in [
        (None, Some(0), 100, "2 streams; all work is taken to be complete at once (lag 0)."),
        (
            Some("--lag=0"),
            Some(0),
            100,
            "2 streams; all work is taken to be complete at once (lag 0).",
        ),
        (Some("--lag=1"), Some(1), 200, "2 streams; each lags 1 launch behind the host."),
        (Some("--lag=50"), Some(50), 200, "2 streams; each lags 50 launches behind the host."),
        (
            Some("--lag=recorded"),
            None,
            200,
            "2 streams; work completes as recorded, and otherwise only when",
        ),
    ] {
        let arguments: Vec<_> = best_fit.into_iter().chain(lag).collect();
        let row = &json(&sandbox, &arguments)[0];
        let expected = [Some(mib << 20), launches, Some(2)].map(Value::from);
        let found = ["peak_reserved_bytes", "lag_launches", "streams"].map(|key| row[key].clone());
        assert_eq!(found, expected, "{lag:?}");
        let table = sandbox.run(&[&["replay"][..], &arguments].concat()).result();
        assert!(table.contains(&format!("\n  {rule}")), "{table}");
        assert_eq!(table.contains(" Waits: best-fit "), row["waits"] != 0, "{table}");
    }
}

#[test]
fn policies_come_once_each_in_the_order_asked_for() {
    let sandbox = Sandbox::new("order");
    sandbox.write("small.trace", SCRIPT);
    let chosen = ["--policy=best-fit", "--policy=pytorch", "--policy=best-fit"];
    let rows = json(&sandbox, &[&["small.trace"][..], &chosen].concat());
    let names: Vec<_> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["best-fit", "pytorch"]);
}

/// The peaks of PyTorch itself on the recorded logs, and the waste of its pools.
#[test]
fn the_rows_of_pytorch_are_what_pytorch_needed() {
    let sandbox = Sandbox::new("native");
    let native = std::fs::read_to_string(recorded("native.json")).unwrap();
    let native: Value = serde_json::from_str(&native).unwrap();
    let native = native.as_object().unwrap();
    let files: Vec<_> = native.keys().map(|name| recorded(&format!("{name}.csv.gz"))).collect();
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    let chosen = ["--policy=pytorch", "--policy=pytorch-expandable"];
    let rows = json(&sandbox, &[&files[..], &chosen].concat());
    assert_eq!((native.len(), rows.len()), (5, 10));
    for row in &rows {
        let settings = if row["policy"] == "pytorch" { "default" } else { "expandable" };
        let theirs = &native[row["trace"].as_str().unwrap()][settings];
        assert_eq!(row["peak_reserved_bytes"], theirs["peak_reserved"], "{row}");
        let requested = theirs["peak_requested"].as_u64().unwrap();
        let live = row["peak_live_bytes"].as_u64().unwrap();
        assert!(live >= requested && live - requested < requested / 1000, "{row}");
        let waste = theirs["peak_reserved"].as_f64().unwrap() / live as f64;
        assert!((row["waste"].as_f64().unwrap() - waste).abs() < 1e-9, "{row}");
    }
}

/// Committed memory of a linear scan over all blocks, from an independent implementation in Python.
#[test]
fn first_fit_needs_what_a_linear_scan_does() {
    let sandbox = Sandbox::new("scan");
    let scanned = [("resnet_train", 7_656_701_952_u64), ("gpt2_train", 12_895_387_648)];
    for (name, reserved) in scanned {
        let file = recorded(&format!("{name}.csv.gz"));
        let rows = json(&sandbox, &[&file, "--policy=first-fit"]);
        assert_eq!(rows[0]["peak_reserved_bytes"], reserved, "{name}");
    }
}

#[test]
fn files_that_share_a_name_stay_apart() {
    let sandbox = Sandbox::new("names");
    let files = [recorded("resnet_train.csv.gz"), recorded("resnet_train.pickle.gz")];
    let rows = json(&sandbox, &[&files[0], &files[1], "--policy=first-fit"]);
    assert_eq!(
        (&rows[0]["trace"], &rows[0]["file"]),
        (&"resnet_train".into(), &files[0].as_str().into())
    );
    assert_eq!(rows[1]["trace"], "resnet_train.pickle.gz");
    assert_eq!(rows[0]["recorded_reserved_bytes"], Value::Null);
    assert_eq!(rows[1]["recorded_reserved_bytes"], 9_103_736_832_u64);
}

#[test]
fn without_a_file_the_bundled_trace_is_replayed_and_drawn() {
    let sandbox = Sandbox::new("bundled");
    let run = sandbox.run(&["replay"]);
    assert!(run.stderr.contains("wrote cubeyard-replay.svg"), "{}", run.stderr);
    let text = run.result();
    assert!(text.starts_with("PyTorch needs ") && text.contains("\n\nresnet_train\n"), "{text}");
    assert!(sandbox.read("cubeyard-replay.svg").starts_with("<svg"));
}

#[test]
fn quiet_says_nothing_beside_the_result() {
    let sandbox = Sandbox::new("quiet");
    let run = sandbox.run(&["replay", "--quiet"]);
    assert_eq!(run.stderr, "");
    assert!(run.result().contains("best-fit"));
}

#[test]
fn a_picture_is_drawn_only_where_it_was_asked_for() {
    let sandbox = Sandbox::new("unasked");
    sandbox.write("small.trace", SCRIPT);
    let run = sandbox.run(&["replay", "small.trace"]);
    assert_eq!(run.stderr, "");
    assert!(!sandbox.path("cubeyard-replay.svg").exists());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let sandbox = Sandbox::new("pipe");
    sandbox.write("small.trace", SCRIPT);
    let mut command = sandbox.command(&["replay", "small.trace"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn help_and_version_work_as_usual() {
    let sandbox = Sandbox::new("help");
    assert!(sandbox.run(&["--version"]).result().starts_with("cubeyard 0."));
    assert!(sandbox.run(&["--help"]).result().contains("replay"));
    let help = sandbox.run(&["replay", "--help"]).result();
    assert!(help.contains("pytorch-expandable") && help.contains("--report"), "{help}");
}
