"""What the tests share: our allocator's snapshots, PyTorch's viewer, the slow reference, our numbers."""

import json
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# A shell starts what runs in the background with Ctrl-C ignored, and Python then leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The slow reference is a script beside its scenarios, not a package.
sys.path.insert(0, str(ROOT / "testdata" / "reference"))


def built(kind, name):
    """Builds a program, a `bin` or an `example`, and returns its path, which cargo tells: the target folder can be anywhere.

    The workspace is named as in `cargo test --workspace`, which has built the program already. One package alone has other
    features of its dependencies, so that everything below it would be compiled anew.
    """
    build = ["cargo", "build", "--quiet", "--workspace", f"--{kind}", name, "--message-format", "json"]
    messages = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = map(json.loads, messages.splitlines())
    [path] = [
        artifact["executable"]
        for artifact in artifacts
        if artifact["reason"] == "compiler-artifact"
        and artifact["target"]["name"] == name
        and artifact["target"]["kind"] == [kind]
    ]
    return path


@dataclass
class Snapshot:
    """A snapshot, and the statistics of the same moment."""

    path: Path
    data: dict
    stats: dict


@pytest.fixture(scope="session")
def snapshot_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots")
    subprocess.run([built("example", "snapshot"), folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="session", params=["fixed", "growable"])
def snapshot(request, snapshot_folder):
    path = snapshot_folder / f"{request.param}.pickle"
    stats = json.loads(path.with_suffix(".json").read_text())
    return Snapshot(path, pickle.loads(path.read_bytes()), stats)


class Viewer:
    """`torch/cuda/_memory_viz.py`, run as a command."""

    def __init__(self, script, home):
        self.script = script
        # Flame graphs are drawn by a program that is looked for here and fetched where it is not
        # found. This one leaves the stacks as they are, so that they can be added up.
        flamegraph = home / ".cache" / "flamegraph.pl"
        flamegraph.parent.mkdir()
        flamegraph.write_text("#!/bin/sh\nexec cat\n")
        flamegraph.chmod(0o755)
        self.environment = {**os.environ, "HOME": str(home)}

    def run(self, *arguments):
        command = [sys.executable, self.script, *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def viewer(tmp_path_factory):
    fetched = subprocess.run(
        [sys.executable, ROOT / "scripts" / "fetch-memory-viz"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Viewer(fetched.stdout.strip(), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def compute():
    """Computes numeric cases, all in one process."""
    binary = built("example", "numeric")

    def run(cases):
        lines = "".join(json.dumps(case) + "\n" for case in cases)
        done = subprocess.run([binary], input=lines, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(cases)
        return answers

    return run


@pytest.fixture(scope="session")
def check(compute):
    """Compares all numeric cases with NumPy, of which there are at least so many."""
    import numeric_cases

    def check(cases, at_least):
        cases = list(cases)
        assert len(cases) >= at_least
        for case, answer in zip(cases, compute([case.json() for case in cases]), strict=True):
            assert "error" not in answer, (case, answer)
            numeric_cases.compare(case, numeric_cases.array(answer))

    return check


class Command:
    """The command of the installed package."""

    def text(self, *arguments):
        done = subprocess.run([sys.executable, "-m", "cubeyard", *arguments, "-q"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __call__(self, *arguments):
        from stamps import unstamped

        return unstamped(json.loads(self.text(*arguments, "--format", "json")))


@pytest.fixture(scope="session")
def command():
    """Runs the command and returns what its JSON says."""
    return Command()
