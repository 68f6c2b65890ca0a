//! Small shapes of benches, for tests of all of them: the defaults take long without optimisation.

use cubeyard_bench::Bench;

/// Returns the parameters of a small run of a bench, `name=value` each; none if the bench is small by default.
pub(crate) fn small(bench: &dyn Bench) -> Vec<String> {
    let set = match bench.name() {
        "block-sparse" => "m=512 k=512 n=64",
        "copy" => "bytes=65536",
        "ddp" => "elements=32768",
        "flash-attention" => "sequence=128 head-dim=64 block-q=64 block-k=64",
        "gemm" => "m=128 k=128 n=128",
        "gemm-multi" => "m=256 k=256 n=256",
        "gqa-decode" => "context=512",
        "layer-norm" | "rms-norm" | "softmax" => "rows=256",
        "moe" => "tokens=128 features=128 hidden=256",
        "qkv" => "shrink=8 tokens=32",
        "sequence-attention" => "context=2048",
        "tp-mlp" => "tokens=16 features=512 hidden=2048",
        "transformer-layer" => {
            "batch=2 context=64 chunk=64 hidden=128 ffn=512 heads=32 kv-heads=8 head-dim=16"
        }
        "vector-add" => "elements=262144",
        _ => "",
    };
    set.split_whitespace().map(str::to_owned).collect()
}
