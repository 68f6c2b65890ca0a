//! The models of PyTorch's allocator against PyTorch itself, on recorded traces.

use cubeyard_replay::pytorch::PyTorch;
use cubeyard_replay::trace::{EmptiedCache, rmm, snapshot};
use cubeyard_replay::{Report, Target as _, run};
use cubeyard_units::Bytes;
use expect_test::expect;

use crate::readers::{LIMIT, recorded_file, traces_folder};

/// Maximum relative deviation of a model from PyTorch.
const TOLERANCE: f64 = 0.01;

#[test]
fn the_native_model_needs_what_pytorch_does() {
    expect![[r#"
        gpt2_train       peak_reserved 13530824704 (+0) peak_allocated 12514620928 (+0) segments 381 (+0)
        llama_generate   peak_reserved 3267362816 (+0) peak_allocated 2928709120 (+0) segments 149 (+0)
        llama_train_ckpt peak_reserved 15445524480 (+0) peak_allocated 11077884416 (+0) segments 486 (+0)
        resnet_train     peak_reserved 9103736832 (+0) peak_allocated 7532312064 (+0) segments 127 (+0)
        serving_mix      peak_reserved 6073352192 (+0) peak_allocated 5038891008 (+0) segments 557 (+0)
    "#]].assert_eq(&compare("default", || PyTorch::native(None)));
}

#[test]
fn the_expandable_model_needs_what_pytorch_does() {
    expect![[r#"
        gpt2_train       peak_reserved 13010731008 (+0) peak_allocated 12499727872 (+0) segments 0 (+0)
        llama_generate   peak_reserved 3019898880 (+0) peak_allocated 2922992128 (+0) segments 0 (+0)
        llama_train_ckpt peak_reserved 12358516736 (+0) peak_allocated 11067662336 (+0) segments 0 (+0)
        resnet_train     peak_reserved 7627341824 (+0) peak_allocated 7529035264 (+0) segments 0 (+0)
        serving_mix      peak_reserved 5339348992 (+0) peak_allocated 4760436736 (+0) segments 0 (+0)
    "#]].assert_eq(&compare("expandable", || PyTorch::expandable(None)));
}

/// Figures at the end of a replay, under their names in `native.json`.
type Figures = [(&'static str, u64); 3];

/// Returns one line for each trace and figure: our value, and its difference in bytes (or segments).
fn compare(settings: &str, model: fn() -> PyTorch) -> String {
    let native = std::fs::read(traces_folder().join("native.json")).expect("it is in testdata");
    let native: serde_json::Value = serde_json::from_slice(&native).expect("native.json is JSON");
    let native = native.as_object().expect("native.json lists traces by name");
    assert_eq!(native.len(), 5, "every recorded trace is compared");
    native.iter().map(|(name, theirs)| compare_trace(name, &theirs[settings], model())).collect()
}

fn compare_trace(name: &str, theirs: &serde_json::Value, model: PyTorch) -> String {
    let [reserved, allocated, segments] = replay(name, model).map(|(figure, ours)| {
        let theirs = theirs[figure].as_u64().expect("native.json has this figure");
        let off = ours.cast_signed() - theirs.cast_signed();
        let allowed = TOLERANCE * theirs as f64;
        assert!(off.unsigned_abs() as f64 <= allowed, "{name}: {figure} {ours}, not {theirs}");
        format!("{figure} {ours} ({off:+})")
    });
    format!("{name:<16} {reserved} {allocated} {segments}\n")
}

fn replay(name: &str, mut model: PyTorch) -> Figures {
    let log = recorded_file(&format!("{name}.csv.gz"));
    let trace = rmm::read(name, &log, LIMIT).expect("a recorded log");
    let outcome = run(&trace, &mut model, &mut |_| {});
    assert_eq!(outcome.failed, None);
    let segments = u64::try_from(model.segments()).expect("a count fits 64 bits");
    let (reserved, allocated) = (outcome.peak_reserved.get(), model.peak_allocated().get());
    [("peak_reserved", reserved), ("peak_allocated", allocated), ("segments", segments)]
}

/// The minimum limits at which PyTorch itself served the logs, on an H200, in steps of 2 MiB.
#[test]
fn the_models_run_in_the_memory_in_which_pytorch_does() {
    let measured = std::fs::read(traces_folder().join("least.json")).expect("it is in testdata");
    let measured: serde_json::Value = serde_json::from_slice(&measured).expect("it is JSON");
    let mut lines = Vec::new();
    for (name, theirs) in measured.as_object().expect("least.json lists traces by name") {
        let log = recorded_file(&format!("{name}.csv.gz"));
        let trace = rmm::read(name, &log, LIMIT).expect("a recorded log");
        for (policy, settings) in [("pytorch", "default"), ("pytorch-expandable", "expandable")] {
            let policy = cubeyard_replay::policy(policy).expect("a name of the table");
            let unlimited = run(&trace, &mut *policy.target(&trace).unwrap(), &mut |_| {});
            let least = policy.least(&trace, &unlimited).expect("it runs without a limit");
            let figure = |key: &str| theirs[settings][key].as_u64().expect("a figure");
            let off = (least.runs.get().cast_signed() - figure("least").cast_signed()) >> 20;
            let (retries, theirs) = (least.retries, figure("retries"));
            lines.push(format!(
                "{name:<16} {settings:<10} {off:+} MiB, {retries} retries ({theirs})\n"
            ));
        }
    }
    expect![[r#"
        gpt2_train       default    +0 MiB, 2 retries (2)
        gpt2_train       expandable +0 MiB, 3 retries (3)
        llama_generate   default    +0 MiB, 2 retries (2)
        llama_generate   expandable +0 MiB, 6 retries (6)
        llama_train_ckpt default    +0 MiB, 7 retries (7)
        llama_train_ckpt expandable +0 MiB, 6 retries (6)
        resnet_train     default    +0 MiB, 4 retries (4)
        resnet_train     expandable +0 MiB, 2 retries (2)
        serving_mix      default    +0 MiB, 3 retries (3)
        serving_mix      expandable +0 MiB, 3 retries (3)
    "#]]
    .assert_eq(&lines.concat());
}

/// A program that was not used for the design of the models, on an H200 with limited memory: see
/// `testdata/traces/out_of_memory.py`.
#[test]
fn a_whole_program_runs_and_fails_where_the_models_do() {
    let measured =
        std::fs::read(traces_folder().join("out_of_memory.json")).expect("it is in testdata");
    let measured: serde_json::Value = serde_json::from_slice(&measured).expect("it is JSON");
    let file = recorded_file("out_of_memory_whole.pickle.gz");
    let traces = snapshot::read("whole", &file, LIMIT).expect("a snapshot");
    let mut lines = Vec::new();
    for (mode, shares) in measured.as_object().expect("modes by name") {
        for (share, theirs) in shares.as_object().expect("outcomes by share of the live bytes") {
            let limit = theirs["limit"].as_u64().map(Bytes::new);
            let mut model = match mode.as_str() {
                "default" => PyTorch::native(limit),
                _ => PyTorch::expandable(limit),
            };
            let outcome = run(&traces[0], &mut model, &mut |_| {});
            let ran = outcome.failed.is_none();
            assert_eq!(Some(ran), theirs["ran"].as_bool(), "{mode} in {share}");
            let reserved = theirs["peak_reserved"].as_u64().expect("a figure").cast_signed();
            let off = outcome.peak_reserved.get().cast_signed() - reserved;
            let (ours, theirs) = (model.retries(), &theirs["retries"]);
            lines.push(format!(
                "{mode:<10} {share:<9} {ran:<5} {off:+} B, {ours} retries ({theirs})\n"
            ));
        }
    }
    expect![[r#"
        default    1.04      false +0 B, 3 retries (3)
        default    1.08      false +0 B, 4 retries (4)
        default    1.09      false +0 B, 4 retries (4)
        default    1.1       false +0 B, 4 retries (4)
        default    1.11      false +0 B, 4 retries (4)
        default    1.12      true  +0 B, 3 retries (3)
        default    unlimited true  +0 B, 0 retries (0)
        expandable 1.0       false +0 B, 1 retries (1)
        expandable 1.01      false +0 B, 1 retries (1)
        expandable 1.02      true  +0 B, 1 retries (1)
        expandable 1.03      true  +0 B, 1 retries (1)
        expandable 1.04      true  +0 B, 1 retries (1)
        expandable unlimited true  +0 B, 0 retries (0)
    "#]]
    .assert_eq(&lines.concat());
}

/// The snapshot of the program that failed in 1.08 of its bytes tells where it runs: in 1.12 and not in 1.11, or in 1.02 and
/// not in 1.01 with expandable segments.
#[test]
fn a_program_that_ran_out_learns_in_how_much_memory_it_runs() {
    let measured =
        std::fs::read(traces_folder().join("out_of_memory.json")).expect("it is in testdata");
    let measured: serde_json::Value = serde_json::from_slice(&measured).expect("it is JSON");
    let file = recorded_file("out_of_memory.pickle.gz");
    let traces = snapshot::read("failed", &file, LIMIT).expect("a snapshot");
    let row = |name| {
        let policy = cubeyard_replay::policy(name).expect("a name of the table");
        policy.replay(&traces[0], &mut || 0, &mut |_| {})
    };
    let rows = ["pytorch", "pytorch-expandable"].map(row).to_vec();
    let mut report = Report { rows, ..Report::new(&traces[0]) };
    report.find_least(&traces[0]);
    for (row, mode, fails, runs) in
        [(0, "default", "1.11", "1.12"), (1, "expandable", "1.01", "1.02")]
    {
        let limit =
            |share: &str| Bytes::new(measured[mode][share]["limit"].as_u64().expect("a limit"));
        assert_eq!(measured[mode][fails]["ran"], false);
        assert_eq!(measured[mode][runs]["ran"], true);
        let least = report.rows[row].least.expect("it was found").memory();
        assert!(limit(fails) < least && least <= limit(runs), "{mode}: {least}");
    }
}

/// The bytes are those that `emptied_caches.py` printed. A release before a growth and one before a failure do not count.
#[test]
fn calls_that_emptied_the_cache_are_found_with_the_bytes_that_they_returned() {
    let files = [
        ("emptied_caches.pickle.gz", [352_321_536, 767_557_632, 379_584_512]),
        ("emptied_caches_expandable.pickle.gz", [62_914_560, 780_140_544, 379_584_512]),
    ];
    for (name, returned) in files {
        let file = recorded_file(name);
        let trace = snapshot::read(name, &file, LIMIT).expect("a snapshot").remove(0);
        let found = trace.recording.as_ref().expect("it is recorded").emptied_cache;
        let bytes = Bytes::new(returned.iter().sum());
        assert_eq!(found, EmptiedCache { calls: 3, bytes });
        let policy = cubeyard_replay::policy("pytorch").expect("a name of the table");
        let rows = vec![policy.replay(&trace, &mut || 0, &mut |_| {})];
        let report = Report { rows, ..Report::new(&trace) };
        let text = cubeyard_replay::advice(&[report]);
        let said =
            format!("`empty_cache()` was called 3 times, which returned {bytes} to the device");
        assert!(text.contains(&said), "{text}");
    }
}
