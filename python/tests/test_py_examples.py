"""The examples and the code of the pages, as a reader runs them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import webbrowser

import pytest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "python" / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for package in ("accelerate", "optuna", "pytorch_lightning", "torch", "transformers", "triton"):
        if re.search(rf"^(import|from) {package}\b", example.read_text(encoding="utf-8"), flags=re.M):
            pytest.importorskip(package)
    environment = {**os.environ, "PYTHONPATH": str(example.parent)}
    ran = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("page", "most"), [("README.md", 1), ("docs/python.md", None)])
def test_the_code_of_a_page_runs(page: str, most: int | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert blocks
    # A sweep starts processes that import the program: what is guarded by `__main__` runs as a file, in the examples.
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks[:most]:
        exec(compile(block, page, "exec"), names)
    assert opened and opened[0].startswith("file://")
    assert "<!DOCTYPE html>" in (tmp_path / "gemm.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("bench", ["scale", "gradients"])
def test_a_file_of_benches_is_run_by_the_command(bench: str, tmp_path: pathlib.Path) -> None:
    file = ROOT / "python" / "examples" / "benches.py"
    written = [tmp_path / "run.html", tmp_path / "run.pftrace"]
    told = subprocess.run(
        [sys.executable, "-m", "cubeyard", "run", f"{file}::{bench}", "--data", "--explain"]
        + ["--report", str(written[0]), "--trace", str(written[1]), "--format", "json"],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    run = json.loads(told.stdout)
    assert run["bench"] == bench and run["kernel_ns"] > 0 and run["check"]["passed"]
    assert all(path.stat().st_size > 0 for path in written)
    lines = {step.get("place") for step in run["critical"]}
    assert bench == "gradients" or any(line and line.startswith("benches.py:") for line in lines), lines
