"""Runs of benches from Python, and benches written in Python, run by the command with every option."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cubeyard
import pytest
from cubeyard import errors
from stamps import unstamped

SCALE = '''
import numpy as np
import cubeyard

@cubeyard.jit
def scale(x, out, n, tl):
    for row in range(x.shape[0]):
        tl.store(out[row], tl.load(x[row]) * n)

@cubeyard.bench(name="scale", description="each row times n")
def run(torch):
    rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
    a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    x, y = torch.from_numpy(a).to(rows), torch.zeros(a.shape, dtype="f32").to(rows)
    torch.launch(scale, x, y, 3)
    np.testing.assert_array_equal(y.numpy(), a * 3)
'''

MANY = '''
from typing import Annotated, Literal
import numpy as np
import cubeyard

@cubeyard.jit
def scale(x, out, n, tl):
    for row in range(x.shape[0]):
        tl.store(out[row], tl.load(x[row]) * n)

def scaled(torch, rows, dtype, factor, expected):
    over = cubeyard.Placement(cube="row_wise", pe="row_wise", sips=torch.sips)
    x = torch.ones((rows, 64), dtype=dtype).to(over)
    y = torch.zeros((rows, 64), dtype=dtype).to(over)
    torch.launch(scale, x, y, factor)
    if torch.data:
        assert (y.numpy() == expected).all(), f"factor {factor}"

@cubeyard.bench(name="many", description="parameters of every kind")
def run(
    torch,
    rows: Annotated[int, range(1, 4097), "rows of the matrix"] = 256,
    dtype: Literal["f32", "f64"] = "f32",
    factor: float = 2.0,
    wrong: bool = False,
    label="x",
):
    assert isinstance(rows, int) and isinstance(factor, float) and isinstance(wrong, bool) and label != "bad"
    scaled(torch, rows, dtype, factor, factor + 1 if wrong else factor)

@cubeyard.bench(name="idle")
def run(torch):
    """Nothing at all."""

@cubeyard.bench(name="broken")
def run(torch):
    scaled(torch, 128, "f32", 1.0, 1.0)
    raise ValueError("no such thing")

@cubeyard.bench(name="reads")
def run(torch):
    return torch.ones((4, 4)).to(cubeyard.Placement(cubes=1, pes=1)).numpy()

@cubeyard.bench(name="large")
def run(torch):
    torch.zeros((1 << 20, 1 << 20), dtype="f64").to(cubeyard.Placement())
'''

WORKER = '''
import cubeyard
import cubeyard.distributed as dist

def worker(rank, elements, sums):
    dist.init_process_group("ahbm", world_size=2, rank=rank)
    torch = dist.context()
    gradient = torch.full((elements,), rank + 1.0).to(dist.placement())
    dist.all_reduce(gradient)
    if torch.data:
        sums.append(gradient.numpy())

@cubeyard.bench(name="mean", description="an all-reduce of every SIP")
def run(torch, elements=1024):
    sums = []
    dist.spawn(worker, args=(elements, sums))
    assert all((values == 3.0).all() for values in sums)
    assert len(sums) == (2 if torch.data else 0)
'''


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command of the package."""
    words = [sys.executable, "-m", "cubeyard", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text(SCALE)
    (tmp_path / "many.py").write_text(MANY)
    return tmp_path


@pytest.fixture
def many(folder: Path) -> dict[str, cubeyard.Bench]:
    from cubeyard.study.bench import load

    return {bench.name: bench for bench in load(folder / "many.py")}


def test_the_bench_of_the_issue_runs_with_every_option(folder: Path) -> None:
    options = ["--data", "--explain", "--trace", "s.pftrace", "--report", "s.html", "--format", "json"]
    done = command("run", "scale.py", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["bench"] == "scale" and run["summary"] == "each row times n"
    assert run["check"] == {"passed": True, "failure": None}
    assert run["pes"] == 128
    # Two rows of 256 bytes for each of 128 PEs, read and written once.
    assert run["read_bytes"] == run["written_bytes"] == 256 * 64 * 4
    # Reports name lines of the file: 8 is the store.
    places = {step["place"] for step in run["critical"]}
    assert "scale.py:8" in places, places
    assert "scale.py:8" in (folder / "s.html").read_text()
    assert (folder / "s.pftrace").stat().st_size > 1000


def test_without_data_it_says_to_add_it(folder: Path) -> None:
    done = command("run", "scale.py::scale", cwd=folder)
    assert done.returncode == 2
    assert "scale.py:16" in done.stderr and "help: add --data" in done.stderr, done.stderr


def test_the_table_says_that_the_assertions_passed(folder: Path) -> None:
    done = command("run", "scale.py", "--data", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "passed: the bench's own assertions" in done.stdout
    assert "note: only times" not in done.stderr


def test_benches_of_a_file_are_listed(folder: Path) -> None:
    done = command("list", "many.py", "-v", cwd=folder)
    assert done.returncode == 0, done.stderr
    for text in ["many: parameters of every kind", "idle: Nothing at all", "rows of the matrix", "one of f32, f64"]:
        assert text in done.stdout, done.stdout
    listed = json.loads(command("list", "many.py", "--format", "json", cwd=folder).stdout)
    assert [bench["name"] for bench in listed] == ["many", "idle", "broken", "reads", "large"]
    assert cubeyard.benches(folder / "many.py") == listed


def test_benches_that_a_file_imports_are_not_its_own(folder: Path) -> None:
    (folder / "other.py").write_text(f"from many import scaled\n{SCALE}")
    assert [bench["name"] for bench in cubeyard.benches(folder / "other.py")] == ["scale"]


def test_one_of_several_benches_must_be_named(folder: Path) -> None:
    done = command("run", "many.py", cwd=folder)
    assert done.returncode == 2
    assert "many.py has several benches: many, idle, broken, reads, large" in done.stderr
    done = command("run", "many.py::mani", cwd=folder)
    assert done.returncode == 2 and "the nearest is `many`" in done.stderr


def test_parameters_are_set_and_checked(folder: Path) -> None:
    sets = ["--set", "rows=128", "--set", "dtype=f64", "--set", "factor=0.5", "--set", "label=a=b"]
    done = command("run", "many.py::many", *sets, "--data", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["parameters"] == {"rows": "128", "dtype": "f64", "factor": "0.5", "wrong": "false", "label": "a=b"}
    assert run["read_bytes"] == 128 * 64 * 8
    for wrong, expected in [
        ("rows=0", "rows=0: expected a whole number from 1 to 4096"),
        ("rows=x", "expected a whole number from 1 to 4096"),
        ("dtype=f16", "expected one of f32, f64"),
        ("factor=inf", "expected a number"),
        ("wrong=1", "expected one of true, false"),
        ("row=1", "the nearest is `rows`"),
    ]:
        done = command("run", "many.py::many", "--set", wrong, cwd=folder)
        assert done.returncode == 2 and expected in done.stderr, done.stderr


def test_an_assertion_that_fails_is_a_failed_check_with_its_line(folder: Path) -> None:
    done = command("run", "many.py::many", "--data", "--set", "wrong=true", cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "failed: many.py:17: AssertionError: factor 2.0" in done.stdout
    run = command("run", "many.py::many", "--data", "--set", "wrong=true", "--format", "json", cwd=folder)
    check = json.loads(run.stdout)["check"]
    assert check == {"passed": False, "failure": "many.py:17: AssertionError: factor 2.0"}


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("idle", 2, "idle has launched no kernel"),
        ("broken", 2, "many.py:38: ValueError: no such thing"),
        ("large", 3, "many.py:46: "),
    ],
)
def test_errors_have_their_code_and_line(folder: Path, name: str, code: int, text: str) -> None:
    done = command("run", f"many.py::{name}", cwd=folder)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert text in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_files_that_cannot_be_run_are_refused_with_their_line(tmp_path: Path) -> None:
    files = {
        "syntax.py": ("def f(:\n", "syntax.py:1: SyntaxError"),
        "import_.py": ("\nimport no_such_module\n", "import_.py:2: ModuleNotFoundError"),
        "empty.py": ("x = 1\n", "empty.py has no bench"),
        "twice.py": (
            "import cubeyard\n@cubeyard.bench(name='a')\ndef f(torch): ...\n@cubeyard.bench(name='a')\ndef g(torch): ...\n",
            "twice.py:4: two benches have the name 'a'; the other is at twice.py:2",
        ),
        "nothing.py": ("import cubeyard\n@cubeyard.bench\ndef f(): ...\n", "nothing.py:2: expected the context as the bench's first parameter"),
        "default.py": ("import cubeyard\n@cubeyard.bench\ndef f(torch, n): ...\n", "parameter 'n': expected a default"),
        "kind.py": ("import cubeyard\n@cubeyard.bench\ndef f(torch, n=[1]): ...\n", "expected a default of type int, float"),
    }
    for name, (text, expected) in files.items():
        (tmp_path / name).write_text(text)
        done = command("run", name, cwd=tmp_path)
        assert done.returncode == 2 and expected in done.stderr, done.stderr
    done = command("run", "missing.py", cwd=tmp_path)
    assert done.returncode == 2 and "the file does not exist" in done.stderr


def test_device_and_live_reach_the_bench(folder: Path) -> None:
    recorded = cubeyard.run(f"{folder}/many.py::many", data=True)
    other = cubeyard.run(f"{folder}/many.py::many", data=True, device="sip:1", explain=True)
    assert other.kernel_ns == recorded.kernel_ns
    assert any(lane["name"].startswith("sip1.") for lane in other.lanes)
    with pytest.raises(errors.InputError, match="no sip:7; it has 2"):
        cubeyard.run(f"{folder}/many.py::many", device=7)
    live = cubeyard.run(f"{folder}/many.py::many", live=True)
    assert live.kernel_ns == recorded.kernel_ns


def test_a_worker_with_an_all_reduce_is_a_bench(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    done = command("run", "worker.py", "--data", "--format", "json", "--report", "w.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["check"]["passed"] and run["kernel_ns"] > 0
    # Kernels run on both SIPs, though the bench itself was given the first.
    times = command("run", "worker.py", "--format", "json", "--explain", cwd=tmp_path)
    assert json.loads(times.stdout)["kernel_ns"] == run["kernel_ns"]
    assert {lane["name"][:4] for lane in json.loads(times.stdout)["lanes"]} == {"sip0", "sip1"}


def test_to_dict_is_the_json_of_the_command(tmp_path: Path) -> None:
    run = cubeyard.run("gemm", m=128, k=128, n=128, data=True, explain=True)
    sets = ["--set", "m=128", "--set", "k=128", "--set", "n=128"]
    done = command("run", "gemm", *sets, "--data", "--explain", "--format", "json", cwd=tmp_path)
    assert run.to_dict() == unstamped(json.loads(done.stdout))
    text = command("run", "gemm", *sets, "--data", "--explain", cwd=tmp_path).stdout
    assert run.explain() in text
    command("run", "gemm", *sets, "--data", "--report", "a.html", "--trace", "a.pftrace", cwd=tmp_path)
    assert run.page() == (tmp_path / "a.html").read_text()
    assert run.trace(tmp_path / "b.pftrace").read_bytes() == (tmp_path / "a.pftrace").read_bytes()
    assert run.ok and len(run.rows()) == len(run.to_dict()["critical"])


def test_benches_are_those_of_the_command(tmp_path: Path) -> None:
    done = command("list", "--format", "json", cwd=tmp_path)
    assert cubeyard.benches() == json.loads(done.stdout)


def test_unknown_names_and_values_are_refused_with_the_nearest() -> None:
    for call, text in [
        (lambda: cubeyard.run("gem"), "there is no bench `gem`; the nearest is `gemm`"),
        (lambda: cubeyard.run("vector-add", element=1), "the nearest is `elements`"),
        (lambda: cubeyard.run("vector-add", elements=0), "elements=0: expected a whole number from 1"),
        (lambda: cubeyard.run("vector-add", elements=[1]), r"elements=\[1\]: expected a number"),
        (lambda: cubeyard.run(7), "bench=7: expected a name"),
        (lambda: cubeyard.run("vector-add", device="sip"), "device='sip': expected"),
    ]:
        with pytest.raises(errors.InputError, match=text):
            call()
    with pytest.raises(errors.NoDataError, match="needs data=True"):
        cubeyard.run("block-sparse")


def test_a_bench_is_run_as_an_object_and_its_exceptions_are_its_own(many: dict[str, cubeyard.Bench]) -> None:
    run = cubeyard.run(many["many"], rows=128, data=True)
    assert run.ok and run.check == {"passed": True, "failure": None}
    assert not cubeyard.run(many["many"], wrong=True, data=True).ok
    with pytest.raises(ValueError, match="no such thing") as caught:
        cubeyard.run(many["broken"])
    assert type(caught.value) is ValueError
    with pytest.raises(errors.NoDataError):
        cubeyard.run(many["reads"])
    with pytest.raises(errors.InputError, match="idle has launched no kernel"):
        cubeyard.run(many["idle"])


def test_the_context_of_a_bench_ends_with_it() -> None:
    kept = []

    @cubeyard.bench
    def keeps(torch):
        kept.append(torch)
        kept.append(torch.ones((4, 4)))
        with pytest.raises(errors.InputError, match="closed when the bench ends"):
            torch.close()

    with pytest.raises(errors.InputError, match="keeps has launched no kernel"):
        cubeyard.run(keeps)
    for use in [lambda: kept[0].now, lambda: kept[0].zeros((2, 2)), lambda: kept[1].numpy()]:
        with pytest.raises(errors.ClosedError, match="a bench that has ended"):
            use()
    assert cubeyard.tensors.context.current.get() is None


def test_records_are_read_as_written_and_have_no_time_or_host(many: dict[str, cubeyard.Bench]) -> None:
    one, two = (cubeyard.run("vector-add", elements=4096).record() for _ in range(2))
    assert one == two and cubeyard.Record.read(one.line) == one
    assert one.version == cubeyard.__version__ and one.source is None and len(one.topology) == 32
    assert one.figures["kernel_ns"] == cubeyard.run("vector-add", elements=4096).kernel_ns
    assert cubeyard.run("vector-add", elements=4096, data=True).record().key != one.key
    own = cubeyard.run(many["many"]).record()
    assert own.source == many["many"].source and own.inputs["rows"] == 256
    newer = one.line.replace('"format":1', '"format":2', 1)
    with pytest.raises(errors.VersionError, match="a record of format 2; this version reads format 1"):
        cubeyard.Record.read(newer)
    with pytest.raises(errors.InputError, match="not a record"):
        cubeyard.Record.read(one.line[:40])


def test_a_run_is_interrupted_within_100_ms() -> None:
    def interrupt() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        sent.append(time.perf_counter())

    sent: list[float] = []
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        cubeyard.run("gemm", m=2048, k=2048, n=2048, staging="ref-ref")
    late = time.perf_counter() - sent[0]
    thread.join()
    assert late < 0.5, f"{late * 1000:.0f} ms"
    assert cubeyard.run("vector-add", elements=4096).kernel_ns > 0


def test_results_are_tables_pages_and_pictures() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    run = cubeyard.run("vector-add", elements=4096)
    table = pyarrow.table(run)
    assert table.num_rows == len(run.rows()) and "duration_ns" in table.column_names
    assert sum(table["duration_ns"].to_pylist()) == pytest.approx(run.kernel_ns)
    assert run._repr_html_().startswith("<iframe")


@pytest.mark.parametrize("name", ["bench", "run", "sweep"])
def test_examples_of_docstrings_run(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"cubeyard.study.{name}"), optionflags=doctest.ELLIPSIS)
    assert done.attempted > 2 and done.failed == 0


@cubeyard.jit
def twice(x, out, tl):
    for row in range(x.shape[0]):
        tl.store(out[row], tl.load(x[row]) * 2)


@cubeyard.bench(name="stated", description="two times a matrix, with its work")
def stated(torch, flop: int = 0, elements: int = 0, bytes: int = 0, memories: int = 0):
    rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
    x, y = (torch.zeros((256, 64), dtype="f32").to(rows) for _ in range(2))
    if flop or elements or bytes:
        torch.work(flop=flop, dtype="bf16", elements=elements, bytes=bytes, memories=memories or None)
    torch.launch(twice, x, y)


def bounds(**work: int) -> dict[str, float]:
    figures: dict[str, float] = json.loads(cubeyard.run(stated, **work).record().line)["figures"]["bounds_ns"]
    return figures


def test_declared_work_has_the_bounds_of_a_built_in_bench() -> None:
    """A built-in bench that states the same numbers has the same bounds."""
    built_in = cubeyard.run("vector-add", elements=1 << 20, dtype="f32", cubes=16, pes=8)
    mine = bounds(elements=1 << 20, bytes=12 << 20)
    known = json.loads(built_in.record().line)["figures"]["bounds_ns"]
    assert mine["the HBM of a PE"] == known["the HBM of a PE"] == (12 << 20) / 128 / 256
    assert mine["MATH"] == known["MATH"] == (1 << 20) / 128 / 256
    assert bounds(bytes=12 << 20, memories=64)["the HBM of a PE"] == 2 * mine["the HBM of a PE"]


def test_declared_products_are_bounded_by_the_rate_of_their_type() -> None:
    run = cubeyard.run(stated, flop=1 << 40)
    assert run.flop == 1 << 40
    assert bounds(flop=1 << 40)["GEMM bf16"] == pytest.approx((1 << 40) / 128 / 8e3)


def test_work_that_is_not_declared_is_that_of_the_kernels() -> None:
    assert cubeyard.run(stated).flop == 0
    assert bounds()["the HBM of a PE"] == 2 * 256 * 64 * 4 / 128 / 256


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ({"flop": -1}, "flop=-1: expected a whole number"),
        ({"elements": 5, "memories": -1}, "memories=-1: expected a whole number"),
    ],
)
def test_wrong_work_is_refused(work: dict[str, int], message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        cubeyard.run(stated, **work)


def test_work_is_declared_once_and_not_empty() -> None:
    @cubeyard.bench
    def wrong(torch, again: bool = False):
        torch.work(**({"bytes": 1} if again else {}))
        torch.work(bytes=1)

    with pytest.raises(errors.InputError, match="work: expected flop, elements or bytes, found none"):
        cubeyard.run(wrong)
    with pytest.raises(errors.InputError, match="work: expected one declaration in a run, found a second one"):
        cubeyard.run(wrong, again=True)
    with pytest.raises(errors.InputError, match="dtype"):
        cubeyard.run(cubeyard.bench(lambda_bench))


def lambda_bench(torch):
    torch.work(flop=5, dtype="f99")
