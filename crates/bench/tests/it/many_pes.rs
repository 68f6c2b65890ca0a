//! Benches of many PEs with sizes other than their defaults: uneven parts, edges that do not divide, and conflicting
//! parameters.

use cubeyard_bench::report::RunReport;
use cubeyard_bench::{BenchError, Run, RunConfig, find, run};
use cubeyard_device::topology::Topology;
use cubeyard_tl::launch::Mode;

fn asked(name: &str, set: &str, data: bool) -> Result<Run, BenchError> {
    let set = set.split_whitespace().map(str::to_owned).collect();
    let (topology, mode) = (Topology::embedded(), Mode::Recorded);
    run(&*find(name)?, &RunConfig { topology, set, data, mode, sips: Vec::new(), ops: false })
}

/// Checks that a bench has the right numbers, no findings in its kernels, and a time above its bound.
fn is_right(name: &str, set: &str) {
    let run = asked(name, set, true).unwrap_or_else(|error| panic!("{name} {set}: {error}"));
    let check = run.report.check.expect("with data there is a check");
    assert!(check.passed() && check.elements > 0, "{name} {set}: {check:?}");
    assert_eq!(run.findings, [], "{name} {set}");
    assert!(run.report.share() <= 1.0, "{name} {set}: {}", run.report.share());
}

/// Returns the resource with the largest bound.
fn bound(report: &RunReport) -> &str {
    let longest = report.bounds.iter().max_by_key(|bound| bound.span);
    &longest.expect("every bench has bounds").resource
}

/// Checks that a bench is refused as unfit, with a message that contains `words`.
fn is_unfit(name: &str, set: &str, words: &str) {
    match asked(name, set, true) {
        Err(BenchError::Unfit(text)) => assert!(text.contains(words), "{name} {set}: {text}"),
        other => panic!("{name} {set}: {other:?}"),
    }
}

#[test]
fn products_are_right_however_they_are_split() {
    for split in ["rows", "columns", "grid"] {
        for stream in ["tile", "panel"] {
            is_right("gemm-multi", &format!("split={split} stream={stream} m=128 k=64 n=96"));
            let uneven = "m=75 k=70 n=83 cubes=3 pes=5";
            is_right("gemm-multi", &format!("split={split} stream={stream} {uneven}"));
            let blocks = "m=101 k=33 n=50 pes=2 resident=16";
            is_right("gemm-multi", &format!("split={split} stream={stream} {blocks}"));
        }
    }
}

#[test]
fn all_parts_of_a_sip_multiply_a_large_matrix() {
    let set = "m=1024 k=1024 n=1024 cubes=16 stream=tile";
    let run = asked("gemm-multi", set, false).unwrap();
    assert_eq!(run.report.pes, 128);
    // A once and B once for each PE, C once.
    assert_eq!(run.report.traffic.read, 2 * 1024 * 1024 * (1 + 128));
    assert_eq!(run.report.traffic.written, 2 * 1024 * 1024);
}

#[test]
fn large_products_keep_the_matrix_engine_busy() {
    for split in ["rows", "columns", "grid"] {
        let set = format!("m=2048 k=2048 n=2048 cubes=2 split={split}");
        let report = asked("gemm-multi", &set, false).unwrap().report;
        assert!(report.share() > 0.9, "{split}: {}", report.share());
        assert_eq!(bound(&report), "GEMM f16", "{split}");
    }
    let share = asked("qkv", "model=llama-8b shrink=1 tokens=128", false).unwrap().report.share();
    assert!(share > 0.9, "{share}");
}

#[test]
fn projections_are_right_in_every_shape() {
    for model in ["gpt3", "llama-70b", "llama-8b"] {
        is_right("qkv", &format!("model={model} shrink=32 tokens=20 pes=8"));
        // More PEs than heads of K and V, and than heads of Q.
        is_right("qkv", &format!("model={model} shrink=32 tokens=5 cubes=16 across=heads"));
        is_right("qkv", &format!("model={model} shrink=32 tokens=12 cubes=3 pes=5"));
    }
    is_right("qkv", "model=llama-8b shrink=2 tokens=8 resident=3");
}

#[test]
fn attention_is_right_with_and_without_a_future() {
    for causal in ["yes", "no"] {
        for (q, k) in [(64, 64), (32, 96), (96, 32), (33, 50), (300, 300)] {
            let blocks = format!("block-q={q} block-k={k} causal={causal}");
            is_right(
                "flash-attention",
                &format!("{blocks} heads=3 pes=2 sequence=150 head-dim=40"),
            );
        }
        is_right("flash-attention", &format!("sequence=1 head-dim=1 causal={causal}"));
    }
}

#[test]
fn a_future_that_is_not_seen_costs_about_half() {
    let time = |causal| {
        let set = format!("causal={causal} sequence=1024 block-q=64 block-k=64");
        asked("flash-attention", &set, false).unwrap().report.kernel.ps() as f64
    };
    let ratio = time("yes") / time("no");
    assert!((0.5..0.6).contains(&ratio), "{ratio}");
}

#[test]
fn decoding_is_right_with_uneven_heads_and_contexts() {
    is_right("gqa-decode", "batch=3 context=70 block-k=32 head-dim=64");
    // Rows of scores longer than a strip of the vector unit.
    is_right("gqa-decode", "context=2500 block-k=2500 head-dim=16");
    is_right("gqa-decode", "batch=5 context=33 block-k=64 cubes=2 head-dim=32");
    is_right("gqa-decode", "q-heads=6 kv-heads=6 pes=4 context=100 block-k=99");
    is_right("gqa-decode", "q-heads=40 kv-heads=1 pes=1 context=1");
}

#[test]
fn long_contexts_are_read_at_most_of_the_memorys_rate() {
    let run = asked("gqa-decode", "context=65536 block-k=1024", false).unwrap();
    assert!(run.report.share() > 0.75, "{}", run.report.share());
    // Eight queries share a cache: the matrix unit is as long at them as at 32, a little longer than the memory.
    assert_eq!(bound(&run.report), "GEMM f16 and MATH");
    let memory = run.report.bounds.iter().find(|bound| bound.resource == "the HBM of a PE");
    assert!(run.report.of_kernel(memory.unwrap().span).unwrap() > 0.75);
    let cache = 2 * 2 * 8 * 128 * 65536;
    assert_eq!(run.report.traffic.read, cache + 2 * 64 * 128);
}

#[test]
fn blocks_that_are_not_there_are_not_loaded() {
    let read = |density: u64| {
        let set = format!("m=512 k=256 n=32 block=32 density={density}");
        is_right("block-sparse", &set);
        asked("block-sparse", &set, true).unwrap().report.traffic.read
    };
    let flags = 16 * 8;
    assert_eq!(read(0), flags);
    assert_eq!(read(100), flags + 2 * (512 * 256 + 8 * 256 * 32));
    let some = read(30);
    assert!(flags < some && some < read(100), "{some}");
    is_right("block-sparse", "m=63 k=49 n=5 block=7 density=50 pes=4");
}

#[test]
fn a_kernel_that_branches_needs_data() {
    assert!(
        matches!(asked("block-sparse", "", false), Err(BenchError::NeedsData(name)) if name == "block-sparse")
    );
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    is_unfit("gemm-multi", "m=7", "m=7: expected at least 8, a row for each part");
    is_unfit("gemm-multi", "split=columns n=3", "n=3: expected at least 8");
    is_unfit("gemm-multi", "k=131072", "choose fewer resident rows, or a smaller k");
    is_unfit("qkv", "shrink=3", "shrink=3: expected 1, 2, 4");
    is_unfit("qkv", "tokens=33 cubes=2", "tokens=33: expected a multiple of 2");
    is_unfit("qkv", "shrink=1 tokens=4096 resident=4096", "choose fewer resident tokens");
    is_unfit("flash-attention", "heads=4", "heads=4: expected at least 8, one for each PE");
    is_unfit("gqa-decode", "kv-heads=12", "q-heads=64: expected a multiple of 12");
    is_unfit("gqa-decode", "cubes=2", "batch * kv-heads=8: expected at least 16");
    is_unfit("block-sparse", "m=100", "m=100: expected a multiple of 64");
    is_unfit("block-sparse", "k=1024 n=65536", "choose a smaller k, n or block");
}

#[test]
fn blocks_too_large_for_the_tcm_name_the_line() {
    let error = asked("flash-attention", "sequence=8192 block-q=2048 block-k=2048", false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("flash_attention") && error.contains("a tile of 16.00 MiB"), "{error}");
}

/// The tolerance of f16 applied to every dtype, so bf16, which has fewer bits, did not pass.
#[test]
fn vectors_of_every_float_are_added() {
    for dtype in ["f16", "bf16", "f32"] {
        is_right("vector-add", &format!("elements=5000 dtype={dtype}"));
    }
}
