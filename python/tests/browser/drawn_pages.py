"""The pages that are tested, each with the command that draws it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCREENSHOTS = ROOT / "target" / "screenshots"

# What each page is drawn from. Small enough to be simulated in seconds.
PAGES = {
    "run": ["run", "gemm-multi", "--set", "cubes=2", "--data"],
    "ccl": ["ccl", "--sizes", "1K:256K:4", "--ranks", "sip"],
    "probe": ["probe"],
    "model": ["model", "--context", "256"],
    # A service at two rates.
    "serve": ["serve", "--rates", "20,60", "--requests", "12", "--prompt", "32", "--answer", "4", "--check-steps", "0"],
    "vary": ["run", "gemm", "--vary", "m=32,64,128", "--vary", "hbm.channel_bandwidth_gbs=16,32"],
    # A grid with costs.
    "designs": [
        "run", "vector-add", "--set", "elements=65536", "--vary", "hbm.bandwidth=0.5x,1x,2x,4x", "--vary", "launch.overhead=1x,2x,3x",
        "--cost", "4*hbm.bandwidth + 2*launch.overhead",
    ],
    # Values that are no numbers are names on the axis.
    "names": ["run", "gemm", "--set", "m=64", "--vary", "dtype=f16,f32,bf16"],
    "topology": ["topology"],
    # Its page is drawn by an option before the command that it runs.
    "compare": [
        "compare", "--with", "hbm.channel_bandwidth_gbs=16", "{options}", "--",
        "ccl", "--ranks", "cube", "--algorithm", "grid", "--sizes", "1K:16K:4",
    ],
    "machines": [
        "compare", "--with", "hbm.channel_bandwidth_gbs=16", "{options}", "--", "run", "gemm", "--set", "m=128",
    ],
    # All policies, with a setting that PyTorch would need less memory with.
    "answer": ["replay", "testdata/traces/resnet_train_stacks.pickle.gz"],
    "replay": ["replay", "crates/cli/src/resnet_train.csv.gz", "--policy", "pytorch", "--policy", "best-fit"],
    # A recording with call stacks.
    "memory": [
        "replay", "testdata/traces/resnet_train_stacks.pickle.gz", "--policy", "pytorch", "--policy", "recycle", "--holders", "20",
    ],
    "levers": ["run", "gemm", "--set", "m=64", "--set", "k=256", "--set", "n=64", "--levers"],
    # Several launches on 256 PEs.
    "layer": ["run", "transformer-layer", "--set", "launches=parts", "--set", "batch=2", "--set", "context=64"],
}
