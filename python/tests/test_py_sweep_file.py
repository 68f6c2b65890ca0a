"""Files of sweeps: what makes a record stale, two writers, writers that are killed, and disks that are full."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cubeyard
import pytest
from cubeyard import errors
from cubeyard._native import Records

BENCH = """
import cubeyard
from parts import EXTRA

ROWS = {"few": 64, "many": 128}

@cubeyard.jit
def scaled(x, tl):
    tile = tl.load(x)
    for _ in range(EXTRA):
        tile = tile * 2
    tl.store(x, tile)

@cubeyard.bench(name="scaled")
def run(torch, columns: int = 64):
    x = torch.ones((ROWS["many"], columns)).to(cubeyard.Placement(cube="row_wise", pe="row_wise"))
    torch.launch(scaled, x)
"""

SWEEP = "bench: scaled.py::scaled\ngrid: {columns: [64, 128]}\nout: records.jsonl\n"


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "cubeyard", "sweep", "sweep.yaml", "--workers", "1", *arguments]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)


def times(folder: Path) -> list[float]:
    """Returns the times of the two records that belong to the sweep, which come first."""
    lines = (folder / "records.jsonl").read_text().splitlines()[:2]
    return [json.loads(line)["figures"]["kernel_ns"] for line in lines]


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """A folder with a bench and a module beside it, after a first sweep."""
    (tmp_path / "scaled.py").write_text(BENCH)
    (tmp_path / "parts.py").write_text("EXTRA = 1\n")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    done = command(tmp_path)
    assert done.returncode == 0 and done.stderr.endswith("wrote records.jsonl: 2 configurations\n"), done.stderr
    return tmp_path


def test_a_resumed_sweep_says_how_many_records_it_kept(swept: Path) -> None:
    done = command(swept)
    assert done.stderr.endswith("wrote records.jsonl: 2 configurations, 2 of them kept from earlier\n"), done.stderr
    (swept / "sweep.yaml").write_text(SWEEP.replace("[64, 128]", "[64, 128, 192]"))
    assert "3 configurations, 2 of them kept" in command(swept).stderr


@pytest.mark.parametrize(
    ("file", "old", "new", "slower"),
    [
        ("scaled.py", "range(EXTRA)", "range(EXTRA + 3)", True),
        ("parts.py", "EXTRA = 1", "EXTRA = 4", True),
        ("scaled.py", '"many": 128', '"many": 4096', True),
        ("scaled.py", '"few": 64', '"few": 32', False),
    ],
    ids=["kernel", "module", "dictionary", "same times"],
)
def test_what_a_bench_reads_makes_its_records_stale(swept: Path, file: str, old: str, new: str, slower: bool) -> None:
    """Only the text of the bench was compared: a sweep after an edit of the kernel returned the old figures."""
    before = times(swept)
    (swept / file).write_text((swept / file).read_text().replace(old, new))
    done = command(swept)
    assert "kept" not in done.stderr and "2 configurations" in done.stderr, done.stderr
    assert (times(swept) != before) is slower
    assert command(swept, "--fresh").returncode == 0
    assert len((swept / "records.jsonl").read_text().splitlines()) == 2


def test_an_edit_that_changes_nothing_keeps_the_records(swept: Path) -> None:
    (swept / "scaled.py").write_text("# A remark.\n\n" + BENCH + "\ndef other():\n    return 5\n")
    assert "2 of them kept from earlier" in command(swept).stderr


def test_a_bench_that_cannot_be_compared_is_run_again_and_says_so(swept: Path) -> None:
    (swept / "scaled.py").write_text(BENCH.replace("x = torch.ones", "open(__file__).close()\n    x = torch.ones"))
    for _ in range(2):
        done = command(swept)
        assert "kept no earlier records: the bench reads open, which cannot be compared" in done.stderr, done.stderr


SLOW = """
import sys, time
import cubeyard

def slow(n):
    time.sleep({seconds})
    return n

if __name__ == "__main__":
    cubeyard.sweep(slow, {{"n": [{numbers}]}}, path=sys.argv[1], workers=2)
    print("done", flush=True)
"""


def slow(folder: Path, name: str, seconds: float, numbers: str) -> subprocess.Popen[str]:
    """Starts a sweep of a slow function."""
    script = folder / name
    script.write_text(SLOW.format(seconds=seconds, numbers=numbers))
    words = [sys.executable, str(script), str(folder / "records.jsonl")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(what: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def test_a_second_sweep_into_the_same_file_is_refused(tmp_path: Path) -> None:
    """Each of two sweeps replaced the file by its own records, and both ended with code 0."""
    first = slow(tmp_path, "first.py", 2, "1, 2, 3, 4")
    path = tmp_path / "records.jsonl"
    until(lambda: path.exists() or first.poll() is not None)
    second = slow(tmp_path, "second.py", 0, "5, 6, 7, 8")
    _, refused = second.communicate(timeout=60)
    assert second.returncode != 0 and "records.jsonl: another sweep is writing this file" in refused, refused
    with pytest.raises(errors.InputError, match="another sweep is writing this file"), ThreadPoolExecutor(1) as threads:
        cubeyard.sweep(lambda n: n, {"n": [1]}, executor=threads, path=path, resume=False)
    assert first.wait(60) == 0, first.communicate()
    assert slow(tmp_path, "second.py", 0, "5, 6, 7, 8").wait(60) == 0
    assert sorted(json.loads(line)["inputs"]["n"] for line in path.read_text().splitlines()) == list(range(1, 9))


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def test_the_workers_of_a_killed_sweep_end(tmp_path: Path) -> None:
    """They waited for the next configuration without end."""
    killed = slow(tmp_path, "first.py", 0.2, ", ".join(map(str, range(400))))
    # Two workers, and the process that watches over shared resources.
    until(lambda: len(children(killed.pid)) == 3 or killed.poll() is not None)
    path = tmp_path / "records.jsonl"
    until(lambda: path.exists() and path.stat().st_size > 0)
    started = children(killed.pid)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)
    until(lambda: not any(Path(f"/proc/{worker}/cmdline").exists() and _runs(worker) for worker in started))
    assert len(started) == 3
    with Records(path, True):
        pass


def _runs(process: int) -> bool:
    """Returns whether a process runs; one that has ended waits for whoever collects it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_full_disk_is_named_and_leaves_whole_records(tmp_path: Path) -> None:
    """The error was `OSError` without a file; here the limit of a file's size stands for the end of the disk."""
    path, grid = tmp_path / "records.jsonl", {"n": list(range(100))}
    with ThreadPoolExecutor(1) as threads:
        cubeyard.sweep(_identity, grid, executor=threads, path=path)
    whole = path.read_bytes()
    path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
    try:
        text = "records.jsonl: File too large; earlier records are kept"
        with pytest.raises(errors.InputError, match=text), ThreadPoolExecutor(1) as threads:
            cubeyard.sweep(_identity, grid, executor=threads, path=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    kept = path.read_bytes()
    assert kept.endswith(b"\n") and 40 <= kept.count(b"\n") <= 50
    assert set(kept.splitlines()) <= set(whole.splitlines())
    with ThreadPoolExecutor(1) as threads:
        assert cubeyard.sweep(_identity, grid, executor=threads, path=path).kept == kept.count(b"\n")
    assert path.read_bytes() == whole


def _identity(n: int) -> int:
    return n


@pytest.mark.parametrize("path", ["/dev/full", "/dev/zero", "/dev/null", "."])
def test_a_file_that_is_no_plain_file_is_refused(path: str) -> None:
    """`/dev/full` and `/dev/zero` were read without end."""
    with pytest.raises(errors.InputError, match="expected a regular file"), ThreadPoolExecutor(1) as threads:
        cubeyard.sweep(_identity, {"n": [1]}, executor=threads, path=path)
