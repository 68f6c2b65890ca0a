"""`cubeyard run --vary` and `cubeyard.sweep` have the same records, for random grids."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cubeyard
import pytest
from cubeyard import errors

TOO_LARGE = 40_960_000_000
"""Elements that the memory of the machine does not hold."""

PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "vector-add": {"elements": [100, 4096, TOO_LARGE], "block": [128, 2048], "dtype": ["f16", "f32"], "pes": [1, 3]},
    "softmax": {"rows": [32, 64], "columns": [128, 256], "tile": [1, 4], "pes": [2, 8]},
    "gemm": {"m": [64, 128], "k": [64], "n": [64, 192], "dtype": ["f16", "f32"]},
}
MACHINE: dict[str, list[Any]] = {"hbm.channel_bandwidth_gbs": [16, 20.5], "cubes.w": [2, 4], "hbm.burst_bytes": [128, 256]}


def drawn(seed: int) -> tuple[str, dict[str, list[Any]]]:
    """Returns a bench, and a grid of two or three keys of it and of the machine."""
    rand = random.Random(seed)
    bench = rand.choice(list(PARAMETERS))
    known = {**PARAMETERS[bench], **MACHINE}
    keys = rand.sample(list(known), rand.randint(2, 3))
    return bench, {key: rand.sample(known[key], rand.randint(1, len(known[key]))) for key in keys}


def varied(bench: str, grid: dict[str, list[Any]], path: Path, *options: str) -> list[dict[str, Any]]:
    """Returns the records of the command; they have the values of the machine, and help with an error, beside."""
    vary = [word for key, values in grid.items() for word in ("--vary", f"{key}={','.join(map(str, values))}")]
    words = [sys.executable, "-m", "cubeyard", "run", bench, *vary, "--save", str(path), "--quiet", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        assert record.pop("machine")["cubes"]["h"] == 4
        record["error"] = record["error"] and record["error"].split("\n  help: ")[0]
    return records


@pytest.mark.parametrize("seed", range(8))
def test_the_command_and_the_function_have_the_same_records(seed: int, tmp_path: Path) -> None:
    bench, grid = drawn(seed)
    with ThreadPoolExecutor(1) as executor:
        swept = cubeyard.sweep(bench, grid, executor=executor)
    found = varied(bench, grid, tmp_path / "records.jsonl", "--threads", str(1 + seed % 3))
    assert found == swept.to_dict()


def test_the_record_of_a_point_that_failed_has_its_inputs(tmp_path: Path) -> None:
    # It had the name `run vector-add`, no machine, and the text of its value alone.
    grid = {"elements": [4096, TOO_LARGE], "pes": [1]}
    with ThreadPoolExecutor(1) as executor:
        swept = cubeyard.sweep("vector-add", grid, executor=executor)
    found = varied("vector-add", grid, tmp_path / "records.jsonl")
    assert found == swept.to_dict() and "HBM of sip0.cube0.pe0" in found[1]["error"]


def test_a_value_that_no_run_has_is_refused_by_the_function_and_an_error_of_the_point(tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match="pes"):
        cubeyard.sweep("vector-add", {"pes": [1, 99]})
    path = tmp_path / "records.jsonl"
    words = [sys.executable, "-m", "cubeyard", "run", "vector-add", "--vary", "pes=1,99", "--save", str(path), "--quiet"]
    assert subprocess.run(words, capture_output=True, timeout=300).returncode == 1
    good, bad = [json.loads(line) for line in path.read_text().splitlines()]
    assert good["error"] is None and good["inputs"]["pes"] == 1
    assert (bad["bench"], bad["inputs"], bad["figures"]) == ("run vector-add", {"pes": "99"}, None) and "pes" in bad["error"]


def test_costs_and_front_are_those_of_the_command(tmp_path):
    """Factors of groups of keys, random costs; the front is found here by comparing all pairs."""
    rand = random.Random(7)
    grid = {"hbm.bandwidth": ["0.5x", "1x", "2x"], "pe.gemm": ["1x", "2x"], "m": [64, 128]}
    cost = f"{rand.randint(1, 9)}*hbm.bandwidth + {rand.randint(1, 9)}*pe.gemm + sips.count"
    with ThreadPoolExecutor(2) as threads:
        swept = cubeyard.sweep("gemm", grid, cost=cost, executor=threads)
    vary = [word for key, values in grid.items() for word in ("--vary", f"{key}={','.join(map(str, values))}")]
    words = [sys.executable, "-m", "cubeyard", "run", "gemm", *vary, "--cost", cost, "--format", "json", "--quiet"]
    printed = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    designs = swept.designs
    assert [(point["cost"], point["time_ns"], point["front"]) for point in printed["points"]] == list(
        zip(designs.costs, designs.times_ns, designs.front, strict=True)
    )
    assert printed["verdict"] == designs.verdict and designs.verdict in str(swept)
    points = list(zip(designs.times_ns, designs.costs, strict=True))
    better = [any(other != one and other[0] <= one[0] and other[1] <= one[1] for other in points) for one in points]
    assert list(designs.front) == [not is_worse for is_worse in better]
    assert [row["front"] for row in swept.rows()] == list(designs.front)


def test_a_cost_that_cannot_be_computed_stops_the_sweep_before_it_runs():
    def never(topology):
        raise AssertionError("it ran")

    with pytest.raises(errors.InputError, match=r"cost=`2\*hbm.bandwith`, column 3: .*hbm.bandwidth"):
        cubeyard.sweep(never, {"sips.count": [1, 2]}, cost="2*hbm.bandwith", executor=ThreadPoolExecutor(1))
    with pytest.raises(errors.InputError, match="cost: the record of n=1 has no simulated time"):
        cubeyard.sweep(lambda n: n, {"n": [1]}, cost="sips.count", executor=ThreadPoolExecutor(1))
