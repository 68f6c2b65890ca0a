"""A sweep over inputs and machines: where does more memory bandwidth stop to help?

Records are written to sweep.jsonl as they finish; a second start makes only those that are missing. On a cluster:

    from distributed import Client
    cubeyard.sweep(..., executor=Client("tcp://scheduler:8786").get_executor())
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cubeyard

GRID = {
    "elements": [1 << 14, 1 << 16],
    "block": [512, 4096],
    # Keys with a dot are values of the machine: the channels, and the link that brings their data to the router.
    "hbm.channel_bandwidth_gbs": [16, 32, 64],
}


def main() -> None:
    """Runs the sweep, and prints the time of each configuration."""
    parser = argparse.ArgumentParser(description="Vector sums on machines with faster and slower memory")
    parser.add_argument("--out", type=Path, default=Path("sweep.jsonl"))
    swept = cubeyard.sweep("vector-add", GRID, path=parser.parse_args().out)
    for row in swept.rows():
        print(f"{row['elements']:>6} elements in blocks of {row['block']:>4} on {row['topology'][:8]}: {row['kernel_ns']:,.1f} ns")


if __name__ == "__main__":
    main()
