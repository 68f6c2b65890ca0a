//! `cubeyard model`: the table, JSON, and errors.

use expect_test::expect;
use serde_json::Value;

use crate::{Run, Sandbox};

/// A small machine of two SIPs with two cubes of two PEs each.
pub(crate) const MACHINE: &str = "sips: {count: 2}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n\
                       hbm: {bytes_per_cube: 16 MiB}\n";
pub(crate) const MODEL: &str = "{name: tiny, layers: 3, hidden: 256, ffn: 512, heads: 8, kv_heads: 2, \
                     head_dim: 32, vocab: 64}\n";

/// Makes a folder with the small machine and model.
pub(crate) fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::new(name);
    sandbox.write("small.yaml", MACHINE);
    sandbox.write("tiny.yaml", MODEL);
    sandbox
}

fn model(sandbox: &Sandbox, more: &[&str]) -> Run {
    let small = ["model", "--topology", "small.yaml", "--spec", "tiny.yaml"];
    sandbox.run(&small.iter().chain(more).copied().collect::<Vec<_>>())
}

#[test]
fn a_small_model_as_a_table() {
    let sandbox = sandbox("model-table");
    let run = model(&sandbox, &["--batch", "2", "--context", "64"]);
    assert_eq!(run.stderr, "");
    expect![[r#"
        tiny: decode, batch 2, context 64, f16
          0.00171 billion weights, 3 layers; 2 SIPs × 2 cubes × 2 PEs

          A decode step takes 11.48 µs, of which the bounds of its parts explain 14.8 %;
          `launches` takes longest (39.6 % of the step), and it also loses most,
          4.552 µs above its bound.

          part        count  each µs  total ms    share  read GB  of bound
          embedding       1    0.119     0.000    1.0 %    0.000     0.4 %
          norm            7    0.034     0.000    2.1 %        –         –
          qkv             3    0.303     0.001    7.9 %    0.001    31.7 %
          attention       3    0.221     0.001    5.8 %    0.000     7.2 %
          output          3    0.223     0.001    5.8 %    0.000    28.7 %
          all-reduce      6    0.290     0.002   15.2 %        –         –
          gate, up        3    0.486     0.001   12.7 %    0.002    52.7 %
          down            3    0.330     0.001    8.6 %    0.001    38.8 %
          head            1    0.141     0.000    1.2 %    0.000    11.3 %
          launches       30    0.152     0.005   39.6 %        –         –
          all                            0.011  100.0 %    0.003    14.8 %

          time per token      11.48 µs
          tokens a second     174,176
          bandwidth bound     1.696 µs, weights and caches read once: 14.8 %
          bound of the parts  1.696 µs, of each part its own: 14.8 %
          all-reduce by       lrab

          memory of a PE        most        mean  all GB  of capacity
          weights         420.00 KiB  420.00 KiB   0.003        5.1 %
          caches           12.00 KiB   12.00 KiB   0.000        0.1 %
          activations       3.00 KiB    3.00 KiB   0.000        0.0 %
          all             435.00 KiB  435.00 KiB   0.004        5.3 %
    "#]]
    .assert_eq(&run.result());
}

#[test]
fn prefill_says_at_how_many_positions_it_was_run() {
    let sandbox = sandbox("model-prefill");
    let more = ["--phase", "prefill", "--context", "256", "--chunk", "16", "--positions", "3"];
    let table = model(&sandbox, &more).result();
    assert!(table.contains("run at 3 of 16 positions, even between them"), "{table}");
    assert!(table.contains("time to first token"), "{table}");
}

#[test]
fn figures_for_programs_agree_with_each_other() {
    let sandbox = sandbox("model-json");
    let run = model(&sandbox, &["--batch", "4", "--format", "json", "--context", "32"]);
    let value: Value = serde_json::from_str(&run.result()).expect("it is JSON");
    let number = |value: &Value| value.as_f64().expect("it is a number");
    let parts = value["parts"].as_array().expect("it is a list");
    let kernels: f64 = parts.iter().map(|part| number(&part["total_ns"])).sum();
    let total = number(&value["total_ns"]);
    assert!((kernels + number(&value["launching_ns"]) - total).abs() < 1e-6 * total);
    assert!((number(&value["tokens_per_second"]) * total - 4e9).abs() < 1e3);
    let memory = &value["memory_per_pe"];
    let sum: f64 = ["weights", "caches", "activations"]
        .map(|kind| number(&memory[kind]["all_bytes"]))
        .iter()
        .sum();
    assert!((sum - number(&memory["all"]["all_bytes"])).abs() < 0.5);
}

#[test]
fn what_does_not_fit_ends_with_a_code_of_its_own_and_the_report_of_the_allocator() {
    let sandbox = sandbox("model-full");
    let run = model(&sandbox, &["--batch", "64", "--context", "4096"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""), "{}", run.stderr);
    // Further SIPs would hold copies of the two heads of K and V.
    let sips = "weights and caches do not fit into 16 such SIPs";
    for words in ["the caches of K and V of tiny do not fit: sip0.cube0.pe0", "largest", sips] {
        assert!(run.stderr.contains(words), "{words} is not in: {}", run.stderr);
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let sandbox = sandbox("model-refused");
    let refused = |run: &Run, words: &str| {
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(words), "{words} is not in: {}", run.stderr);
    };
    refused(&sandbox.run(&["model", "--llm", "llama-7b"]), "the nearest is `llama-8b`");
    refused(&model(&sandbox, &["--batch", "0"]), "batch=0: expected at least 1");
    refused(&model(&sandbox, &["--dtype", "f17"]), "f17");
    // This once failed in a kernel, with a help that named no option.
    let integers = model(&sandbox, &["--dtype", "i8"]);
    refused(&integers, "dtype=i8: expected a float type of GEMM: f16");
    refused(&integers, "help: use --dtype f16 or bf16; --weights int8 or fp8 stores the weights");
    sandbox.write("tiny.yaml", "{layer: 3}");
    refused(&model(&sandbox, &[]), "layers");
    sandbox.write("tiny.yaml", "{heads: 33}");
    refused(&model(&sandbox, &[]), "expected a multiple of");
}

const CONFIG: &str = r#"{"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 500,
"num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 61,
"num_local_experts": 4, "num_experts_per_tok": 2, "rope_scaling": {"factor": 8.0}, "torch_dtype": "bfloat16"}
"#;

#[test]
fn a_configuration_of_hugging_face_is_measured_and_says_what_is_padded_and_what_is_not_simulated() {
    let sandbox = sandbox("model-hf");
    sandbox.write("config.json", CONFIG);
    let run = |more: &[&str]| {
        let hf = ["model", "--topology", "small.yaml", "--hf", "config.json", "--context", "64"];
        sandbox.run(&hf.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let table = run(&["--weights", "fp8", "--kv-dtype", "fp8"]).result();
    for words in [
        "decode, batch 1, context 64, bf16, weights fp8_e4m3, caches fp8_e4m3",
        "vocabulary: 61 padded to 64, a multiple of 8 PEs",
        "inner features: 500 padded to 504, a multiple of 8 PEs",
        "output of heads of Q: 3/2 of a head for each cube",
        "experts: 4, each divided over all 8 PEs; the router is on every PE",
        "a step of 1 tokens uses 2 experts: E (1 − (1 − k/E)^T) = 2.00, k = 2",
        "rope_scaling is not simulated",
        "router",
    ] {
        assert!(table.contains(words), "{words} is not in: {table}");
    }
    run(&["--report", "m.html", "-q"]).result();
    let page = sandbox.read("m.html");
    for part in ["<h2>Not simulated</h2>", "<h2>Placement</h2>", "<li>vocabulary: 61 padded to 64"]
    {
        assert!(page.contains(part), "{part} is not in the page");
    }
    let json = run(&["--format", "json", "--experts", "cube"]).result();
    let value: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!((&value["expert_places"], &value["experts_used"]), (&4.into(), &2.into()));
    assert_eq!((&value["dtype"], &value["weights"]), (&"bf16".into(), &"bf16".into()));
    // Attention, norms and router of a layer; its experts; embedding and head; the last norm.
    let layer = 256 * 32 * (12 + 4) + 2 * 256 + 4 * 256 + 4 * 3 * 256 * 500;
    assert_eq!(value["parameters"], 3 * layer + 2 * 61 * 256 + 256);
    for (more, words) in [
        (["--weights", "f32"], "weights=f32: expected bf16, the type of activations, or fp8_e4m3"),
        (["--weights", "int4"], "int4"),
        (["--kv-dtype", "i8"], "kv_dtype=i8: expected bf16, the type of activations, or fp8_e4m3"),
        (["--experts", "pe"], "expected split, sip or cube"),
        (["--spec", "tiny.yaml"], "cannot be used with"),
        (["--report", "config.json"], "cannot be written: --hf is read from this file"),
    ] {
        let run = run(&more);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
        assert!(run.stderr.contains(words), "{words} is not in: {}", run.stderr);
    }
    sandbox.write(
        "config.json",
        CONFIG.replace("\"num_attention_heads\": 6", "\"num_attention_heads\": 25"),
    );
    let words = "config.json:2: num_attention_heads: expected a multiple of num_key_value_heads=2, found 25";
    assert!(run(&[]).stderr.contains(words), "{}", run(&[]).stderr);
}

const WINDOWS: &str = r#"{"model_type": "gpt_oss", "hidden_size": 256, "intermediate_size": 128,
"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 64,
"num_local_experts": 4, "num_experts_per_tok": 2, "quantization_config": {"quant_method": "mxfp4"}}
"#;

#[test]
fn layers_of_two_kinds_and_experts_of_4_bits_are_measured_and_stated() {
    let sandbox = sandbox("model-kinds");
    sandbox.write("config.json", WINDOWS);
    let run = |context: &str| {
        let hf = ["model", "--topology", "small.yaml", "--hf", "config.json", "--context", context];
        sandbox.run(&hf).result().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let table = run("256");
    for words in [
        "2 of 4 layers: 4 experts, a window of 128 tokens; their caches hold 128 of a sequence",
        "2 of 4 layers: 4 experts, attention to all earlier tokens",
        "weights of experts: MXFP4, 4.25 bits",
        "sinks of heads are counted, but are not part of the softmax",
    ] {
        assert!(table.contains(words), "{words} is not in: {table}");
    }
    // A window that contains the whole context makes no difference between layers.
    assert!(!run("128").contains("window"));
}
