"""A GPT-style model trains on the device: losses as on the CPU, no leak, and figures that agree to the byte."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cubeyard.replay
import pytest
import torch
from template import Template

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
import torch_gpt  # noqa: E402


def test_losses_are_equal_to_the_cpus_to_the_bit(device: str) -> None:
    expected = torch_gpt.train("cpu", 40)
    assert torch_gpt.train(device, 40) == expected
    assert expected[-1] < expected[0] / 2, "it learns"
    gc.collect()


def test_the_example_names_nothing_of_ours_but_the_device() -> None:
    text = (EXAMPLES / "torch_gpt.py").read_text()
    assert "cubeyard" not in text
    assert re.findall(r"^(?:import|from) (\w+)", text, flags=re.M) == ["sys", "torch", "torch", "torch"]


def test_the_example_runs(tmp_path: Path) -> None:
    program = f"import cubeyard.torch, runpy; runpy.run_path({str(EXAMPLES / 'torch_gpt.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"ahbm: loss 3\.\d+ at first, 0\.\d+ after 50 steps\nat most \d\.\d MiB", done.stdout)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_dropout_and_other_optimizers_train_as_on_the_cpu(device: str, optimizer: str) -> None:
    def losses(where: str) -> list[float]:
        torch.manual_seed(2)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Dropout(0.3), torch.nn.Linear(144, 10),
        ).to(where)  # fmt: skip
        # PyTorch would update many tensors at a time on the device, and one after the other on the CPU.
        stepper = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, foreach=False)
        images, labels = torch.randn(8, 1, 8, 8).to(where), torch.randint(10, (8,)).to(where)
        torch.manual_seed(3)
        found = []
        for _ in range(15):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            stepper.zero_grad()
            loss.backward()
            stepper.step()
            found.append(loss.item())
        return found

    assert losses(device) == losses("cpu")


def test_ten_thousand_steps_leave_nothing(device: str) -> None:
    before = torch.ahbm.memory_stats()
    model = torch.nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rows = torch.randn(2, 4, device=device)
    held = None
    for step in range(10_000):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        if step == 100:
            held = torch.ahbm.memory_allocated()
    assert torch.ahbm.memory_allocated() == held, "a step leaves nothing"
    assert torch.ahbm.memory_stats()["allocation.all.allocated"] - before["allocation.all.allocated"] > 50_000
    del model, optimizer, rows
    gc.collect()
    after = torch.ahbm.memory_stats()
    for key in ("allocated_bytes", "active_bytes", "requested_bytes", "allocation", "active"):
        assert after[f"{key}.all.current"] == before[f"{key}.all.current"], key
    assert after["reserved_bytes.all.peak"] == after["reserved_bytes.all.current"], "nor does it spread over regions"


# ---- Statistics, snapshot and replay of one run -----------------------------------------------

RECORDED = """
import json, sys, torch, cubeyard.torch
sys.path.insert(0, sys.argv[1])
import torch_gpt
torch.ahbm.memory._record_memory_history()
torch_gpt.train("ahbm", 3)
kept = [torch.empty(size, device="ahbm") for size in (1, 1000, 1 << 20)]
torch.ahbm.memory._dump_snapshot(sys.argv[2] + "/snapshot.pickle")
json.dump(torch.ahbm.memory_stats(), open(sys.argv[2] + "/stats.json", "w"))
"""


@dataclass(frozen=True)
class Recorded:
    """A run of the model: the snapshot, its file, and the statistics of the same moment."""

    path: Path
    snapshot: dict[str, Any]
    stats: dict[str, int]


@pytest.fixture(scope="module")
def recorded(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("run")
    done = template.run(folder, RECORDED, str(EXAMPLES), str(folder))
    assert done.returncode == 0, done.stderr
    path = folder / "snapshot.pickle"
    return Recorded(path, pickle.loads(path.read_bytes()), json.loads((folder / "stats.json").read_text()))


def test_the_snapshots_blocks_are_the_statistics(recorded: Recorded) -> None:
    segments, stats = recorded.snapshot["segments"], recorded.stats
    blocks = [block for segment in segments for block in segment["blocks"]]
    active = [block for block in blocks if block["state"] == "active_allocated"]
    assert len(active) == stats["allocation.all.current"] == 3
    assert sum(block["size"] for block in active) == stats["allocated_bytes.all.current"] == 128 + 4096 + (4 << 20)
    assert sum(block["requested_size"] for block in active) == stats["requested_bytes.all.current"] == 4 + 4000 + (4 << 20)
    assert sum(segment["total_size"] for segment in segments) == stats["reserved_bytes.all.current"]
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_the_snapshots_events_are_the_statistics(recorded: Recorded) -> None:
    events, stats = recorded.snapshot["device_traces"][0], recorded.stats
    came = [event["size"] for event in events if event["action"] == "alloc"]
    went = [event["size"] for event in events if event["action"] == "free_completed"]
    assert len(came) == stats["allocation.all.allocated"] > 400 and len(went) == stats["allocation.all.freed"]
    assert sum(came) == stats["requested_bytes.all.allocated"] and sum(went) == stats["requested_bytes.all.freed"]
    live = peak = 0
    for event in events:
        sign = {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
        live += sign * event["size"]
        peak = max(peak, live)
    assert (live, peak) == (stats["requested_bytes.all.current"], stats["requested_bytes.all.peak"])
    places = {frame["name"] for event in events if event["action"] == "alloc" for frame in event["frames"]}
    assert {"train", "GPT.forward", "Block.forward"} <= places


def test_the_replay_is_the_statistics(recorded: Recorded) -> None:
    results = cubeyard.replay.compare(recorded.path).results
    assert len(results) >= 5
    for result in results:
        assert result.failed is None and result.doubt is None and result.recorded_by == "Cubeyard"
        assert result.events == recorded.stats["allocation.all.allocated"] + recorded.stats["allocation.all.freed"]
        assert result.peak_live_bytes == recorded.stats["allocated_bytes.all.peak"]
        assert result.recorded_reserved_bytes == recorded.stats["reserved_bytes.all.peak"]


VIEWER = "import runpy, torch.cuda._memory_viz as viewer; runpy.run_path(viewer.__file__, run_name='__main__')"


def viewer(template: Template, *arguments: str | Path, folder: Path) -> str:
    """Runs PyTorch's viewer. Its flame graphs are drawn by a program, in whose place this one passes the stacks."""
    draw = folder / ".cache" / "flamegraph.pl"
    draw.parent.mkdir(exist_ok=True)
    draw.write_text("#!/bin/sh\nexec cat\n")
    draw.chmod(0o755)
    done = template.run(folder, VIEWER, *map(str, arguments), environment={**os.environ, "HOME": str(folder)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pytorchs_viewer_reads_the_run(template: Template, recorded: Recorded, tmp_path: Path) -> None:
    from torch.cuda import _memory_viz

    summary = _memory_viz.segsum(recorded.snapshot)
    assert "segments: 1" in summary, "it raises unless every byte of a segment is accounted for"
    assert "alloc" in _memory_viz.trace(recorded.snapshot)
    for plot in ("trace_plot", "segment_plot"):
        page = tmp_path / f"{plot}.html"
        viewer(template, plot, recorded.path, "-o", page, folder=tmp_path)
        assert len(page.read_bytes()) > len(recorded.path.read_bytes()), "the page holds the whole snapshot"
    stacks = viewer(template, "memory", recorded.path, "-o", "/dev/stdout", folder=tmp_path)
    sizes = [int(line.rsplit(" ", 1)[1]) for line in stacks.splitlines()]
    assert len(sizes) > 3 and sum(sizes) == recorded.stats["reserved_bytes.all.current"]
