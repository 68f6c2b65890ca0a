"""Sweeps: the same records on any executor, after a crash, and with a worker killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cubeyard
import pytest
from cubeyard import errors
from cubeyard._native import Records
from cubeyard.study.workers import perform

GRID = {"elements": [1024, 2048], "block": [128, 256], "pes": [1, 8]}


def figures(n: int, factor: float = 2.0) -> dict[str, Any]:
    """A function to sweep, which fails for one input."""
    if n == 3:
        raise ValueError("three is refused")
    return {"product": n * factor, "parts": [n, n]}


def identity(n: int) -> int:
    """A function that returns its input."""
    return n


def dies(n: int) -> int:
    """A function that kills its worker for one input, each time."""
    if n == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def dies_once(n: int, folder: str) -> int:
    """A function that kills its worker for one input, the first time."""
    mark = Path(folder) / "died"
    if n == 5 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def serial(target: Any, grid: Any, **options: Any) -> cubeyard.Sweep:
    with ThreadPoolExecutor(1) as executor:
        return cubeyard.sweep(target, grid, executor=executor, **options)


def test_records_are_in_the_order_of_the_grid_and_equal_those_of_runs() -> None:
    swept = serial("vector-add", GRID)
    assert [(row["elements"], row["block"], row["pes"]) for row in swept.rows()] == [
        (elements, block, pes) for elements in (1024, 2048) for block in (128, 256) for pes in (1, 8)
    ]
    for record in swept.records:
        names = ("elements", "block", "pes")
        assert record == cubeyard.run("vector-add", **{name: record.inputs[name] for name in names}).record()
    listed = serial("vector-add", [{"elements": 1024, "block": 128, "pes": 1}])
    assert listed.records == swept.records[:1]


def test_processes_give_the_file_of_a_serial_run(tmp_path: Path) -> None:
    serial("vector-add", GRID, path=tmp_path / "serial.jsonl")
    told: list[tuple[int, int]] = []
    cubeyard.sweep(
        "vector-add", GRID, workers=2, path=tmp_path / "pool.jsonl", progress=lambda *counts: told.append(counts)
    )
    assert (tmp_path / "pool.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()
    assert told == [(count, 8) for count in range(1, 9)]


def test_a_sweep_goes_on_where_it_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    whole = serial("vector-add", GRID, path=path)
    contents = path.read_bytes()
    lines = contents.splitlines(keepends=True)
    for torn in [b"".join(lines[:3]), b"".join(lines[:3]) + lines[3][:57], b"", lines[0][:5]]:
        path.write_bytes(torn)
        made: list[int] = []
        again = serial("vector-add", GRID, path=path, progress=lambda done, total: made.append(total))
        assert again == whole and path.read_bytes() == contents
        assert len(made) == 8 - torn.count(b"\n")
    made.clear()
    assert serial("vector-add", GRID, path=path, progress=lambda done, total: made.append(total)) == whole
    assert made == []
    serial("vector-add", GRID, path=path, resume=False, progress=lambda done, total: made.append(total))
    assert len(made) == 8 and path.read_bytes() == contents


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    line = serial("vector-add", {"elements": [1024]}).records[0].line
    for contents, expected in [
        ("dear diary", "notes.txt:1: not a record"),
        ("dear\ndiary\n", "notes.txt:1: not a record"),
        (f"{line}\nnothing\n", "notes.txt:2: not a record"),
        (line.replace('"format":1', '"format":9') + "\n", "notes.txt:1: a record of format 9"),
    ]:
        path.write_text(contents)
        with pytest.raises(errors.InputError, match=expected):
            serial("vector-add", {"elements": [1024]}, path=path)
        assert path.read_text() == contents
    with pytest.raises(errors.InputError, match="name another file"):
        serial("vector-add", {"elements": [1024]}, path=tmp_path / "no" / "folder.jsonl")


def test_records_of_other_sweeps_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    serial("vector-add", {"elements": [1024]}, path=path)
    serial("vector-add", {"elements": [2048]}, path=path)
    found = [json.loads(line)["inputs"]["elements"] for line in path.read_text().splitlines()]
    assert found == [2048, 1024]
    with Records(path, True) as records:
        assert not records.has("something else")


def test_a_function_is_swept_and_its_errors_are_records(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    swept = cubeyard.sweep(figures, {"n": [1, 2, 3, 4]}, path=path, workers=2)
    assert [record.figures and record.figures["product"] for record in swept.records] == [2.0, 4.0, None, 8.0]
    assert swept.records[0].inputs == {"n": 1, "factor": 2.0} and swept.records[0].source
    (failed,) = swept.failed
    line = figures.__code__.co_firstlineno + 3
    assert failed.error == f"test_py_sweep.py:{line}: ValueError: three is refused" and failed.inputs["n"] == 3
    made: list[int] = []
    assert serial(figures, {"n": [1, 2, 3, 4]}, path=path, progress=lambda *counts: made.append(1)) == swept
    assert len(made) == 1, "what failed is tried again"


BENCH = """
import cubeyard

@cubeyard.jit
def double(x, tl):
    tl.store(x, tl.load(x) * 2)

@cubeyard.bench(name="double")
def run(torch, rows=128, wide: bool = False):
    x = torch.ones((rows, 128 if wide else 64)).to(cubeyard.Placement(cube="row_wise", pe="row_wise"))
    torch.launch(double, x)
    if torch.data:
        assert (x.numpy() == 2).all() and rows != 384
"""


def test_a_bench_in_python_is_swept_by_processes(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(BENCH)
    target, grid = f"{tmp_path}/double.py::double", {"rows": [128, 256, 384], "wide": [False, True]}
    pool = cubeyard.sweep(target, grid, workers=2, data=True, path=tmp_path / "pool.jsonl")
    serial(target, grid, data=True, path=tmp_path / "serial.jsonl")
    assert (tmp_path / "pool.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()
    assert [record.inputs["rows"] for record in pool.failed] == [384, 384]
    assert [row["passed"] for row in pool.rows()] == [True] * 4 + [False] * 2
    assert pool.records[1].inputs["wide"] == "true" and pool.records[0].source
    edited = BENCH.replace("* 2)", "+ 1)").replace("rows=128", "rows=64")
    (tmp_path / "double.py").write_text(edited)
    made: list[int] = []
    serial(target, grid, data=True, path=tmp_path / "pool.jsonl", progress=lambda *counts: made.append(1))
    assert len(made) == 6, "a bench whose source has changed is run again"


def test_a_number_a_run_and_values_of_numpy_are_figures() -> None:
    np = pytest.importorskip("numpy")
    assert serial(lambda n: n * np.float32(0.5), {"n": np.arange(2)}).records[1].figures == {"value": 0.5}
    run = serial(lambda n: cubeyard.run("vector-add", elements=n), {"n": [1024]}).records[0]
    assert run.figures == cubeyard.run("vector-add", elements=1024).record().figures
    assert "finite number, found nan" in str(serial(lambda n: float("nan"), {"n": [1]}).records[0].error)
    assert "found object" in str(serial(lambda n: object(), {"n": [1]}).records[0].error)


def test_keys_with_dots_are_values_of_the_machine() -> None:
    grid = {"hbm.channel_bandwidth_gbs": [16, 32], "elements": [65536]}
    swept = serial("vector-add", grid)
    slow, fast = swept.records
    assert slow.topology != fast.topology == cubeyard.Topology().hash
    assert slow.figures["kernel_ns"] > fast.figures["kernel_ns"]
    machine = cubeyard.Topology({"hbm.channel_bandwidth_gbs": 16})
    assert slow == cubeyard.run("vector-add", elements=65536, topology=machine).record()
    by_function = serial(lambda elements, topology: cubeyard.run("vector-add", elements=elements, topology=topology), grid)
    assert [record.figures for record in by_function.records] == [slow.figures, fast.figures]
    with pytest.raises(errors.InputError, match="expected a function with a parameter topology"):
        serial(figures, {"n": [1], "hbm.channel_bandwidth_gbs": [16]})
    with pytest.raises(errors.InputError, match="nearest"):
        serial("vector-add", {"hbm.channel_bandwidth": [16]})


@pytest.mark.parametrize(
    ("target", "grid", "text"),
    [
        ("vector-add", {}, "at least one configuration"),
        ("vector-add", [], "at least one configuration"),
        ("vector-add", {"elements": []}, r"grid\['elements'\]: expected at least one value"),
        ("vector-add", {"elements": 5}, r"grid\['elements'\]: expected a list of values"),
        ("vector-add", {"elements": [0]}, "expected a whole number from 1"),
        ("vector-add", {"element": [1]}, "the nearest is `elements`"),
        ("vector-ad", {"elements": [1]}, "the nearest is `vector-add`"),
        (figures, {"m": [1]}, "figures.. "),
        (figures, {"n": [object()]}, r"grid\['n'\]: expected numbers"),
        (7, {"n": [1]}, "target=7: expected the name of a bench"),
    ],
)
def test_mistakes_are_found_before_anything_runs(target: Any, grid: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match=text):
        serial(target, grid, path=tmp_path / "records.jsonl")
    assert not (tmp_path / "records.jsonl").exists()


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    grid = {"n": list(range(12)), "folder": [str(tmp_path)]}
    swept = cubeyard.sweep(dies_once, grid, workers=2)
    assert (tmp_path / "died").exists()
    assert [record.figures for record in swept.records] == [{"value": n} for n in range(12)]


def test_a_configuration_that_kills_its_worker_is_recorded_and_the_others_go_on() -> None:
    swept = cubeyard.sweep(dies, {"n": list(range(12))}, workers=2)
    assert [record.inputs["n"] for record in swept.failed] == [5]
    assert "BrokenProcessPool: the worker process died" in str(swept.failed[0].error)
    assert [record.figures for record in swept.records if record.ok] == [{"value": n} for n in range(12) if n != 5]


class Forgetful(ThreadPoolExecutor):
    """An executor that loses the result of a configuration so many times, as Dask may when a worker dies."""

    def __init__(self, times: int) -> None:
        super().__init__(1)
        self.left = {0: times, 7: times}
        self.submitted = 0

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        place = self.submitted % 12
        self.submitted += 1

        def run() -> Any:
            done = call(*arguments, **named)
            if self.left.get(place, 0) > 0:
                self.left[place] -= 1
                raise ValueError("too many values to unpack (expected 3)")
            return done

        return super().submit(run)


def test_a_result_that_the_executor_has_lost_is_computed_again() -> None:
    with Forgetful(times=1) as executor:
        swept = cubeyard.sweep(identity, {"n": list(range(12))}, executor=executor)
        assert executor.submitted == 14
    assert [record.figures for record in swept.records] == [{"value": n} for n in range(12)]


def test_a_result_that_the_executor_loses_every_time_is_an_error_of_its_record() -> None:
    class Broken(ThreadPoolExecutor):
        def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
            future = super().submit(call, *arguments, **named)
            return future if call is not perform or arguments[0].parameters["n"] != 5 else super().submit(int, "lost")

    with Broken(1) as executor:
        swept = cubeyard.sweep(identity, {"n": list(range(12))}, executor=executor)
    assert [(record.inputs["n"], record.error) for record in swept.failed] == [
        (5, "ValueError: invalid literal for int() with base 10: 'lost'")
    ]
    assert len(swept.records) == 12


def test_a_table_as_arrow_and_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    swept = serial("vector-add", GRID)
    table = parquet.read_table(swept.to_parquet(tmp_path / "swept.parquet"))
    assert table.equals(pyarrow.table(swept)) and table.num_rows == 8
    assert table["kernel_ns"].to_pylist() == [record.figures["kernel_ns"] for record in swept.records]
    assert "8 configurations" in swept.page()


# The sweep that a cluster must make as one process does: 200 configurations.
LARGE = {"elements": [256 * count for count in range(1, 26)], "block": [128, 256], "pes": [1, 2, 4, 8]}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("serial") / "records.jsonl"
    assert len(serial("vector-add", LARGE, path=path).records) == 200
    return path.read_bytes()


class Stop(Exception):
    """Ends a sweep in the middle."""


def replaced(client: Any, killed: int) -> set[int]:
    """Returns the processes of a cluster once it has three again; the scheduler may still list the killed one."""
    for _ in range(300):
        running = set(client.run(os.getpid, on_error="ignore").values())
        if len(running) == 3 and killed not in running:
            return running
        time.sleep(0.1)
    raise AssertionError(f"{killed} was not replaced: {running}")


def killing(victims: Callable[[], int], at: int, stop: int) -> Callable[[int, int], None]:
    """Returns a function of progress that kills a worker and then stops the sweep."""

    def told(done: int, total: int) -> None:
        if done == at:
            os.kill(victims(), signal.SIGKILL)
        if done == stop:
            raise Stop

    return told


def test_a_dask_cluster_with_a_worker_killed_and_a_resumed_run(tmp_path: Path, expected: bytes) -> None:
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "records.jsonl"
    with (
        distributed.LocalCluster(processes=True, n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):

        killed: list[int] = []

        def victim() -> int:
            killed.append(next(iter(client.run(os.getpid).values())))
            return killed[0]

        with pytest.raises(Stop):
            progress = killing(victim, at=40, stop=120)
            cubeyard.sweep("vector-add", LARGE, executor=client.get_executor(), path=path, progress=progress)
        kept = path.read_bytes().count(b"\n")
        assert 120 <= kept < 200, kept
        made: list[int] = []
        swept = cubeyard.sweep(
            "vector-add", LARGE, executor=client.get_executor(), path=path, progress=lambda *counts: made.append(1)
        )
        assert len(killed) == 1 and killed[0] not in replaced(client, killed[0])
    assert len(made) == 200 - kept
    assert swept.ok and path.read_bytes() == expected


def test_ray_gives_the_records_of_a_serial_run(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    with cubeyard.RayExecutor() as executor:
        cubeyard.sweep("vector-add", GRID, executor=executor, path=tmp_path / "ray.jsonl")
    assert not ray.is_initialized()
    serial("vector-add", GRID, path=tmp_path / "serial.jsonl")
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()


SWEEP = """\
bench: vector-add
grid:
  elements: [1024, 2048]
  block: [128, 256]
  pes: [1, 8]
out: records.jsonl
"""


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "cubeyard", "sweep", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_the_command_writes_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(SWEEP)
    done = command("grid.yaml", "--workers", 2, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "wrote records.jsonl: 8 configurations" in done.stderr
    serial("vector-add", GRID, path=tmp_path / "serial.jsonl")
    assert (tmp_path / "records.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()


def test_the_command_runs_on_a_scheduler(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    (tmp_path / "grid.yaml").write_text(SWEEP)
    with distributed.LocalCluster(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        done = command("grid.yaml", "--scheduler", cluster.scheduler_address, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    serial("vector-add", GRID, path=tmp_path / "serial.jsonl")
    assert (tmp_path / "records.jsonl").read_bytes() == (tmp_path / "serial.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grid: {n: [1]}\n", "bench"),
        ("bench: vector-add\ngrid:\n  elements: 5\n", "grid.yaml:3: grid.elements: expected a list of values, found 5"),
        ("bench: vector-add\ngrid: {elements: [1024]}\nuot: x\n", "grid.yaml:3: expected a known key, found `uot`"),
        ("bench: vector-add\ngrid: {elements: [1024]}\n", "expected the key out"),
        ("bench: vector-ad\ngrid: {elements: [1024]}\nout: x\n", "the nearest is `vector-add`"),
        ("bench: [\n", "grid.yaml:"),
    ],
)
def test_mistakes_in_the_file_are_named_with_their_line(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(text)
    done = command("grid.yaml", cwd=tmp_path)
    assert done.returncode == 2 and expected in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def example(name: str, *arguments: object) -> str:
    words = [sys.executable, str(Path(__file__).parents[1] / "examples" / name), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_optuna_drives_runs() -> None:
    pytest.importorskip("optuna")
    assert "best of 6" in example("tune_gemm.py", "--trials", 6, "--size", 128)


def test_the_example_sweeps_machines_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    first = example("sweep_machines.py", "--out", out)
    assert len(first.splitlines()) == len(out.read_text().splitlines()) == 12
    assert example("sweep_machines.py", "--out", out) == first
