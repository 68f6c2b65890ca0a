"""`cubeyard.replay`: traces, policies, results, Ctrl-C, bad input."""

import doctest
import gc
import gzip
import importlib
import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

replay = pytest.importorskip("cubeyard.replay")
from cubeyard import _native, errors  # noqa: E402
from cubeyard.memory import Card, FlexAllocator  # noqa: E402
from stamps import unstamped  # noqa: E402

TRACES = Path(__file__).resolve().parent.parent.parent / "testdata" / "traces"
NATIVE = json.loads((TRACES / "native.json").read_text())
MIB = 1 << 20


def command(*arguments):
    """What the command prints, as JSON."""
    run = [sys.executable, "-m", "cubeyard", "replay", "--quiet", "--format", "json", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return unstamped(json.loads(done.stdout), machine=False)


def untimed(records):
    """Records without the one figure that no two runs share."""
    assert all(record["ns_per_op"] is None or record["ns_per_op"] > 0 for record in records)
    return [{key: value for key, value in record.items() if key != "ns_per_op"} for record in records]


def script(*lines):
    return "\n".join(lines).encode()


# Figures


@pytest.mark.parametrize("name", ["resnet_train", "gpt2_train", "serving_mix", "llama_train_ckpt"])
def test_the_models_of_pytorch_reserve_what_pytorch_reserved(name):
    found = replay.compare(TRACES / f"{name}.csv.gz", policies=["pytorch", "pytorch-expandable"])
    recorded = [NATIVE[name][settings]["peak_reserved"] for settings in ["default", "expandable"]]
    assert [row.peak_reserved_bytes for row in found] == recorded
    assert all(row.failed is None and row.trace == name for row in found)


def test_to_dict_is_the_json_of_the_command():
    files = [str(TRACES / "resnet_train.csv.gz"), str(TRACES / "resnet_train_stacks.pickle.gz")]
    found = replay.compare(*files)
    assert untimed(found.to_dict()) == untimed(command(*files))
    assert len(found) == 2 * len(replay.policies())
    assert list(found.recommended) == ["resnet_train", "resnet_train_stacks"]
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_names_that_would_clash_are_told_apart_as_in_the_command():
    files = [str(TRACES / "resnet_train.csv.gz"), str(TRACES / "resnet_train.pickle.gz")]
    found = replay.compare(*files, policies="first-fit")
    assert [row.trace for row in found] == [row["trace"] for row in command(*files, "--policy", "first-fit")]
    assert len(set(row.trace for row in found)) == 2


def test_a_python_object_of_a_snapshot_is_read_as_its_file():
    path = TRACES / "resnet_train_stacks.pickle.gz"
    snapshot = pickle.loads(gzip.decompress(path.read_bytes()))
    policies = ["pytorch", "lifetime", "planned"]
    of_object = replay.compare(snapshot, policies=policies)
    of_bytes = replay.compare(path.read_bytes(), policies=policies)
    of_file = replay.compare(path, policies=policies)
    for one in [of_object, of_bytes]:
        rows = [{**row, "trace": "resnet_train_stacks", "file": str(path)} for row in untimed(one.to_dict())]
        assert rows == untimed(of_file.to_dict())
    assert of_object.results[0].recorded_by == "PyTorch"
    assert of_object.results[0].trace == "trace" and of_object.results[0].file is None


def test_our_own_snapshots_are_replayed():
    allocator = FlexAllocator(Card(1 << 30), fallback_sizes=["1GiB"], history=1000, block="best-fit")
    kept = [allocator.allocate(3 * MIB) for _ in range(4)]
    kept.pop(1)
    kept.append(allocator.allocate(5 * MIB))
    found = replay.compare(allocator.snapshot(), policies=["best-fit", "pytorch"])
    assert [row.peak_live_bytes for row in found] == [14 * MIB] * 2
    assert (found.results[0].recorded_by, found.results[0].recorded_reserved_bytes) == ("Cubeyard", 1 << 30)


def test_results_are_tables_pages_and_pictures():
    found = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    nested = ("answer", "peak", "out_of_memory")
    flat = [{key: value for key, value in row.items() if key not in nested} for row in found.to_dict()]
    assert found.rows() == flat
    assert found.page().startswith("<!") and "resnet_train" in found.page() and found.advice[:20] in found.page()
    assert "iframe" in found._repr_html_() and found.svg().startswith("<svg")
    assert type(found.__arrow_c_stream__()).__name__ == "PyCapsule"
    points = found.timeline()
    peaks = [max(point.reserved_bytes for point in points if point.policy == row.policy) for row in found]
    assert peaks == [row.peak_reserved_bytes for row in found]


def test_arrow_reads_results_and_traces():
    pyarrow = pytest.importorskip("pyarrow")
    found = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    assert pyarrow.table(found).to_pylist() == found.rows()
    events = pyarrow.table(replay.example())
    assert events.num_rows == replay.example().events
    assert events.slice(0, 3).to_pylist() == [event for event, _ in zip(replay.example(), range(3))]


def test_a_comparison_is_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = replay.compare(replay.example(), policies=["pytorch", "best-fit"])
    axes = found.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["pytorch", "best-fit"]
    assert axes.get_title() == "resnet_train"


def test_a_trace_has_its_events():
    [trace] = replay.read(script("alloc a 1000", "alloc b 30 MiB", "free a"))
    assert (trace.name, trace.events, trace.allocations, trace.file) == ("trace", 3, 2, None)
    assert list(trace) == [
        {"action": "alloc", "allocation": 0, "bytes": 1000, "stream": 0, "time_us": 0},
        {"action": "alloc", "allocation": 1, "bytes": 30 * MIB, "stream": 0, "time_us": 1},
        {"action": "free", "allocation": 0, "bytes": None, "stream": None, "time_us": 2},
    ]
    traces = replay.read(trace, script("alloc c 1"), TRACES / "resnet_train.csv.gz", script("alloc d 1"))
    assert [one.name for one in traces] == ["trace", "trace", "resnet_train", "trace (2)"]
    assert traces[0] is trace and traces[2].file == TRACES / "resnet_train.csv.gz"


def test_a_policy_that_cannot_serve_a_request_says_so():
    [row] = replay.compare(script("alloc a 70368744177665"), policies=["best-fit"])
    assert row.failed.startswith("event 1: out of memory") and row.waste is None and row.events == 0


# Policies in Python


class Bump(replay.Policy):
    """Never reuses memory, and refuses what would exceed a limit."""

    name = "bump"
    limit = 1 << 60
    made = 0

    def __init__(self, trace):
        self.top, self.live = 0, {}
        type(self).made += 1
        assert isinstance(trace, replay.Trace)

    def allocate(self, size, stream, site, time_us):
        if self.top + size > self.limit:
            raise errors.OutOfMemory(f"bumped into {self.limit}")
        token = (self.top, "any object")
        self.live[token] = size
        self.top += size
        return token

    def free(self, token):
        del self.live[token]

    def reserved(self):
        return self.top


def test_a_policy_in_python_is_compared_with_the_others():
    trace = replay.example()
    found = replay.compare(trace, policies=["pytorch", Bump])
    assert [row.policy for row in found] == ["pytorch", "bump"]
    total = sum(event["bytes"] or 0 for event in trace)
    assert found.results[1].peak_reserved_bytes == total
    assert found.results[1].peak_live_bytes == found.results[0].peak_live_bytes
    assert found.results[1].ns_per_op > 0 and "bump" in found.page()
    assert found.recommended == {"resnet_train": "pytorch"}


def test_the_lag_of_streams_can_be_chosen():
    script = "\n".join(["alloc z 9 MiB stream 1", "free z", "alloc a 9 MiB", "free a", "alloc b 9 MiB stream 1"]).encode()
    for lag, launches, mib in [(None, 0, 10), (0, 0, 10), (1, 1, 18), (50, 50, 18), ("recorded", None, 18)]:
        [row] = replay.compare(script, policies="best-fit", lag=lag)
        assert (row.streams, row.lag_launches, row.peak_reserved_bytes >> 20) == (2, launches, mib)


def test_with_one_stream_the_lag_does_not_matter():
    plain, late = (replay.compare(replay.example(), policies=["pytorch", "best-fit"], lag=lag) for lag in (None, 50))
    for left, right in zip(plain, late, strict=True):
        assert (left.peak_reserved_bytes, left.least_bytes, left.waits) == (right.peak_reserved_bytes, right.least_bytes, 0)


def test_a_policy_in_python_refuses_with_out_of_memory():
    class Small(Bump):
        name = "small"
        limit = 10 * MIB

    [row] = replay.compare(replay.example(), policies=Small)
    assert row.failed.endswith(f"bumped into {10 * MIB}") and row.peak_reserved_bytes <= 10 * MIB


@pytest.mark.parametrize("function", ["__init__", "allocate", "free", "reserved"])
def test_an_exception_of_a_policy_is_raised_as_it_is(function, capfd):
    class Wrong(Bump):
        name = "wrong"

    def fails(self, *arguments):
        raise KeyError(function)

    setattr(Wrong, function, fails)
    with pytest.raises(KeyError, match=function):
        replay.compare(replay.example(), policies=["first-fit", Wrong])
    assert capfd.readouterr().err == "", "no message of a panic"
    assert len(replay.compare(replay.example(), policies=Bump)) == 1


def test_a_policy_that_holds_no_number_is_refused():
    class Odd(Bump):
        name = "odd"

        def reserved(self):
            return "much"

    with pytest.raises(errors.InputError, match=r"reserved\(\) returned much: expected a number of bytes"):
        replay.compare(replay.example(), policies=Odd)


# Bad input


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: replay.compare(), "sources is empty: expected a file"),
        (lambda: replay.compare("no/such/file"), "no/such/file: No such file or directory"),
        (lambda: replay.compare(TRACES.parent), "no file in this folder is named like a trace"),
        (lambda: replay.compare(b"{}"), "trace: byte 0: this is JSON, which holds no trace"),
        (lambda: replay.compare(b""), "trace: byte 0: the file is empty"),
        (lambda: replay.compare({"segments": 3}), "trace: snapshot, "),
        (lambda: replay.compare({"a": lambda: 3}), "found one that cannot be pickled"),
        (lambda: replay.compare({"segments": [], "device_traces": []}), "the snapshot holds no allocation"),
        (lambda: replay.compare(3), "source is 3: expected a file, bytes"),
        (lambda: replay.compare(b"free a"), "trace: script, line 1"),
        (lambda: replay.compare(b"alloc a 1", memory_limit=-1), "memory_limit is -1: expected a number of bytes"),
        (lambda: replay.compare(b"alloc a 1", memory_limit="much"), "memory_limit is 'much'"),
        (lambda: replay.compare(b"alloc a 1", lag=-1), "lag is -1: expected a number of launches, at least 0, "),
        (lambda: replay.compare(b"alloc a 1", lag="many"), "lag is 'many': expected a number of launches"),
        (lambda: replay.compare(b"alloc a 1", lag=True), "lag is True"),
        (lambda: replay.compare(replay.example(), policies="best-fot"), "did you mean `best-fit`?"),
        (lambda: replay.compare(replay.example(), policies=[]), "policies is empty"),
        (lambda: replay.compare(replay.example(), policies=[int]), "expected a name, or a subclass of"),
        (lambda: replay.compare(replay.example(), policies=[replay.Policy]), "Policy.name: expected a string"),
    ],
)
def test_bad_input_names_what_was_wrong(call, text):
    with pytest.raises(errors.InputError) as caught:
        call()
    assert text in str(caught.value)


def test_the_limit_of_memory_holds_for_reading_and_replaying():
    path = TRACES / "resnet_train.csv.gz"
    for limit in [1000, 20 * MIB]:
        with pytest.raises(errors.OutOfMemory, match="allow more with memory_limit=SIZE"):
            replay.compare(path, memory_limit=limit)
    with pytest.raises(errors.OutOfMemory):
        replay.compare(replay.example(), memory_limit=1 << 20)


def test_a_damaged_file_is_an_error_at_every_length():
    whole = gzip.decompress((TRACES / "resnet_train.pickle.gz").read_bytes())
    for length in range(1, len(whole), len(whole) // 20):
        with pytest.raises(errors.InputError):
            replay.read(whole[:length])


@pytest.mark.parametrize("name", ["", "._compare", "._policy", "._result", "._trace"])
def test_examples_in_docstrings_run(name):
    done = doctest.testmod(importlib.import_module(f"cubeyard.replay{name}"))
    assert done.failed == 0 and done.attempted > 0


# Progress, threads, Ctrl-C, leaks


def test_progress_adds_up_to_the_total():
    told = []
    natives = [replay.example()._native]
    _native.replay_traces(natives, ["first-fit", "lifetime"], lambda steps, total: told.append((steps, total)), None, (None, "frame", False))
    total = 2 * 2 * replay.example().events
    assert sum(steps for steps, _ in told) == total and {whole for _, whole in told} == {total}


def test_an_exception_of_the_progress_ends_the_replay():
    def fails(steps, total):
        raise KeyError("bar")

    natives = replay.read(TRACES / "llama_train_ckpt.csv.gz")
    with pytest.raises(KeyError, match="bar"):
        _native.replay_traces([trace._native for trace in natives], [], fails, None, (None, "frame", False))


def test_a_bar_that_is_asked_for_needs_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(errors.CubeyardError, match="progress=True needs tqdm"):
        replay.compare(replay.example(), policies="first-fit", progress=True)
    assert len(replay.compare(replay.example(), policies="first-fit")) == 1


def test_other_threads_run_during_a_replay():
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    replay.compare(TRACES / "gpt2_train.csv.gz", policies=["lifetime", "planned"])
    end = time.monotonic()
    done.set()
    thread.join()
    assert sum(begin < when < end for when in ticks) >= 10


LONG = """
import signal, sys, threading, time
from cubeyard import replay
{policy}
print("ready", flush=True)
try:
    for _ in range(1000):
        replay.compare({source!r}, policies={policies})
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert len(replay.compare(replay.example(), policies="first-fit")) == 1
    sys.exit(7)
"""

SLOW = """
class Slow(replay.Policy):
    name = "slow"
    def __init__(self, trace): self.held = 0
    def allocate(self, size, stream, site, time_us): time.sleep(1e-5); self.held += size; return size
    def free(self, token): self.held -= token
    def reserved(self): return self.held
"""


@pytest.mark.parametrize(
    ("policy", "policies"),
    [("", "['pytorch', 'lifetime']"), ("", "'planned'"), (SLOW, "Slow")],
    ids=["online", "planned", "python"],
)
@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_ctrl_c_ends_a_long_replay(policy, policies, delay):
    source = str(TRACES / "llama_generate.csv.gz")
    text = LONG.format(policy=policy, source=source, policies=policies)
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        # A thousand passes would take minutes.
        rest, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (rest, child.returncode) == ("interrupted\n", 7)


def test_nothing_is_left_behind():
    def objects():
        gc.collect()
        return len(gc.get_objects())

    def once():
        trace = replay.example()
        replay.compare(trace, policies=["first-fit", Bump])
        with pytest.raises(errors.InputError):
            replay.compare(b"free a")

    once()
    before = objects()
    for _ in range(5):
        once()
    assert objects() - before < 20
