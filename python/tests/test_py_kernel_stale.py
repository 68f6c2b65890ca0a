"""A recording is never older than what the kernel reads: recorded and live kernels agree while captured things change."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import cubeyard
import stale_sources
from cubeyard._fingerprint import Source, fingerprint
from kernel_lab import HERE, one

CASES = int(os.environ.get("CUBEYARD_STALE_CASES", "300"))
BATCH = 50


class Count:
    """Counts recordings, and is the same in every fingerprint."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1

    def __fingerprint__(self) -> Any:
        return "count"


def run(seed: int, folder: Path, contexts: list[cubeyard.Context]) -> None:
    """Launches a random kernel recorded and live, with a change before each launch, and compares numbers and times."""
    case, count = stale_sources.case(seed), Count()
    module = sys.modules["stale_case"] = types.ModuleType("stale_case")
    space = vars(module)
    space.update(FOLDER=str(folder), count=count)
    exec(compile(case.text, f"stale_{seed}.py", "exec"), space)
    recorded, live = (one(context, [0.0, 1.0]) for context in contexts)
    expected, before = 0, None
    for change in ("", *case.changes, ""):
        exec(change, space)
        here = space["numbers"]()
        expected += here[0] * here[1]
        calls, count.calls = count.calls, 0
        times = [
            contexts[0].launch(space["kernel"], recorded, **HERE).max_ps,
            contexts[1].launch(space["live"], live, **HERE).max_ps,
        ]
        where = (seed, case.names, change, case.text)
        assert recorded.numpy().tolist() == live.numpy().tolist() == [expected, expected + 1], where
        assert times[0] == times[1], (times, where)
        if change == "" and before == here and case.is_comparable:
            assert count.calls == 0, ("recorded again", calls, where)
        before = here


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_recorded_and_live_kernels_agree_while_captured_things_change(first: int, tmp_path: Path) -> None:
    """A recording was kept though an attribute of a captured function, of the kernel object, of a class or module that is
    passed to a helper, a method of an Enum, an `operator.attrgetter`, a wrapped helper or a file had changed."""
    contexts = [cubeyard.Context(), cubeyard.Context()]
    for seed in range(first, min(first + BATCH, CASES)):
        run(seed, tmp_path, contexts)


@pytest.mark.parametrize("name", stale_sources.SOURCES)
def test_each_way_of_reading_is_followed(name: str, tmp_path: Path) -> None:
    run(list(stale_sources.SOURCES).index(name), tmp_path, [cubeyard.Context(), cubeyard.Context()])


WRITERS = {
    "a global variable": ("total = 0", "total", "global total; total += 1"),
    "a class": ("class Held:\n    k = 0", "Held.k", "Held.k += 1"),
    "a module": ("import types\nheld = types.ModuleType('held'); held.k = 0", "held.k", "held.k += 1"),
    "a function": ("def held():\n    pass\nheld.k = 0", "held.k", "held.k += 1"),
    "the kernel": ("", "kernel.k", "kernel.k += 1"),
    "a member of an Enum": ("import enum\nclass E(enum.Enum):\n    A = 1\nE.A.k = 0", "E.A.k", "E.A.k += 1"),
    "a frozen object": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass F:\n    k: int\nf = F(0)",
        "f.k",
        "object.__setattr__(f, 'k', f.k + 1)",
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_kernel_that_writes_what_it_reads_is_recorded_at_every_launch(name: str) -> None:
    """A variable that was set back found the first recording, which had counted from there."""
    setup, read, write = WRITERS[name]
    module = sys.modules["stale_writer"] = types.ModuleType("stale_writer")
    text = f"import cubeyard\n{setup}\n@cubeyard.jit\ndef kernel(x, tl):\n    {write}\n    tl.store(x, tl.load(x) + {read})\n"
    exec(f"{text}kernel.k = 0\n", vars(module))
    context = cubeyard.Context()
    x = one(context, [0.0])
    for launch in range(1, 5):
        context.launch(module.kernel, x, **HERE)
        assert x.numpy()[0] == sum(range(1, launch + 1)), name
    assert fingerprint(module.kernel.function) is None


def test_a_fingerprint_for_files_is_the_same_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import enum, math, sys\nimport numpy as np\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from cubeyard._fingerprint import Source\n"
        "class Color(enum.Enum):\n    RED = {'a', 'b', 'c'}\n    BLUE = frozenset('xyz')\n"
        "sizes = {'m': [1, 2], 'n': np.arange(3)}\n"
        "def helper(of):\n    return of in {'p', 'q', 'r'} and Color.RED.value\n"
        "def bench(torch, n=3):\n    return helper(n), sizes, math.pi, np.random.default_rng(0)\n"
        "source = Source.of(bench)\nprint(source.hash, source.unknown)\n"
    )
    found = set()
    for seed in ("1", "2", "3"):
        words = [sys.executable, str(script), str(tmp_path)]
        done = subprocess.run(words, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1 and found.pop().endswith(" None\n")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("open('x').read()", "open"),
        ("np.load('x')", "numpy.load"),
        ("os.environ['x']", "module os"),
        ("getattr(np, 'x')", "getattr"),
        ("thing.lock", "an object of class lock"),
    ],
)
def test_what_cannot_be_compared_is_named(text: str, named: str) -> None:
    space: dict[str, Any] = {}
    head = "import os, threading\nimport numpy as np\nclass Thing:\n    pass\nthing = Thing()\nthing.lock = threading.Lock()\n"
    exec(f"{head}def bench(torch):\n    return {text}\n", space)
    assert Source.of(space["bench"]).unknown == named


def test_a_file_that_the_code_names_is_compared_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "other.py"
    path.write_text("one")
    space: dict[str, Any] = {}
    exec(f"import cubeyard\ndef bench(n):\n    return cubeyard.run({str(path) + '::run'!r}, n=n)\n", space)
    before = Source.of(space["bench"])
    path.write_text("two, longer")
    assert before.unknown is None and before != Source.of(space["bench"])
