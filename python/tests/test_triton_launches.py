"""Launches of Triton kernels: tuning, placement, schedules, scripts, options, and errors."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
import triton_kernels as kernels

import cubeyard
import cubeyard.triton
from cubeyard.triton import _program, compiler

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "triton_softmax.py"


@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (64, 1024, 256)], key=["n"])
@triton.jit
def tuned(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 3, mask=at < n)


@triton.jit
def counting(x_ptr, total_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(total_ptr, (tl.sum(x, 0) / BLOCK).to(tl.int32))


@triton.jit
def overlapping(out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at + tl.program_id(0))


def launched(kernel, grid, *arguments, **named):
    """Runs one launch, and returns its result; `record` are the options of the recording."""
    options = named.pop("record", {})
    with cubeyard.triton.record(**options) as run:
        kernel[grid](*arguments, **named)
    [launch] = run.launches
    return launch


def test_tuning_picks_the_least_simulated_time():
    n = 65536
    x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert (out == 3 * x).all()
    times = {}
    for block in (64, 1024, 256):
        times[block] = launched(tuned.fn, (n // block,), x, out, n, BLOCK=block).kernel_ns
    assert tuned.best_config.kwargs["BLOCK"] == min(times, key=times.get), times


def test_measurements_of_triton_are_of_simulated_time():
    # Events of PyTorch's streams know nothing of a launch: ZeroDivisionError.
    import triton.testing

    x, out = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    found = triton.testing.do_bench(lambda: kernels.add[(4,)](x, x, out, 4096, BLOCK=1024), warmup=1, rep=1)
    assert found == pytest.approx(launched(kernels.add, (4,), x, x, out, 4096, BLOCK=1024).kernel_ns / 1e6)


@pytest.mark.parametrize("programs", [1, 97, 128, 300])
@pytest.mark.parametrize("name", list(_program.SCHEDULES))
def test_every_program_runs_once(name, programs):
    schedule = _program.find_schedule(name)
    given = [number for pe in range(128) for number in schedule(pe, 128, programs)]
    assert sorted(given) == list(range(programs))


def test_a_schedule_near_the_data_is_faster_and_computes_the_same():
    x = np.random.default_rng(1).standard_normal((256, 1024)).astype(np.float32)
    first, second = np.zeros_like(x), np.zeros_like(x)
    arguments = (x, 1024, 1024, 1024)
    waves = launched(kernels.softmax_row, (256,), first, *arguments, BLOCK=1024, record={"schedule": "waves"})
    near = launched(kernels.softmax_row, (256,), second, *arguments, BLOCK=1024)
    assert (first == second).all() and near.kernel_ns < waves.kernel_ns


def test_copies_near_each_pe_are_faster_than_one_copy_far_away():
    x, out = np.ones((256, 1024), np.float32), np.zeros((256, 1024), np.float32)
    times = []
    options = {"cubes": [0], "placement": cubeyard.Placement(pe="row_wise", cubes=1)}
    for placement in (cubeyard.Placement(cubes=1), cubeyard.Placement.one()):
        placed = cubeyard.triton.place(x, placement)
        arguments = (out, placed, 1024, 1024, 1024)
        times.append(launched(kernels.softmax_row, (256,), *arguments, BLOCK=1024, record=options).kernel_ns)
        assert np.allclose(out, 1 / 1024)
    assert times[0] < times[1]


@pytest.mark.parametrize("schedule", list(_program.SCHEDULES))
def test_programs_run_on_several_sips(schedule):
    x = np.random.default_rng(1).standard_normal((1024, 1024)).astype(np.float32)
    one, two = np.zeros_like(x), np.zeros_like(x)
    arguments, options = (x, 1024, 1024, 1024), {"schedule": schedule}
    first = launched(kernels.softmax_row, (1024,), one, *arguments, BLOCK=1024, record=options)
    both = launched(kernels.softmax_row, (1024,), two, *arguments, BLOCK=1024, record={**options, "sips": (0, 1)})
    assert (one == two).all() and one.any() and both.ok
    assert "1024 programs on 256 PEs: at most 4 on each" in " ".join(both.notes)
    # Half the rows for each PE, all of them near with `blocks`.
    assert schedule == "waves" or 0.4 < both.kernel_ns / first.kernel_ns < 0.7


def test_copies_and_atomic_operations_on_several_sips():
    x, total = np.ones(4096, np.float32), np.zeros(1, np.int32)
    with cubeyard.triton.record(sips=[1, 0]):
        counting[(64,)](cubeyard.triton.place(x, cubeyard.Placement()), total, BLOCK=64)
    assert total[0] == 64


@pytest.mark.parametrize("sips", [(), (0, 0), (-1,), ("a",)])
def test_sips_that_are_none_are_refused(sips):
    with pytest.raises(cubeyard.errors.InputError, match="distinct numbers of SIPs"), cubeyard.triton.record(sips=sips):
        pass


def test_a_sip_that_the_machine_has_not_is_refused():
    x = np.ones(64, np.float32)
    with cubeyard.triton.record(sips=(0, 7)), pytest.raises(cubeyard.CubeyardError, match="sip7"):
        kernels.add[(1,)](x, x, x.copy(), 64, BLOCK=64)


def test_columns_on_different_pes_are_refused():
    with pytest.raises(cubeyard.errors.InputError, match="rows or copies"):
        cubeyard.triton.place(np.zeros((4, 4)), cubeyard.Placement(pe="column_wise"))


@pytest.mark.parametrize("block", [64, 1024])
def test_a_softmax_takes_the_time_of_our_own_kernel(block):
    rows, columns, pes = 512, block, 8
    x, out = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    options = {"schedule": "blocks", "data": False, "cubes": [0], "placement": cubeyard.Placement(pe="row_wise", cubes=1)}
    found = launched(kernels.softmax_row, (rows,), out, x, columns, columns, columns, BLOCK=block, record=options)
    own = cubeyard.run("softmax", rows=rows, columns=columns, dtype="f32", cubes=1, pes=pes, tile=1)
    assert found.kernel_ns <= 1.1 * own.kernel_ns


@cubeyard.jit
def product(a, b, c, bm, bn, bk, tl):
    """Multiplies matrices in blocks, as `persistent_matmul` does, written by hand for a PE."""
    a, b, c = a.whole, b.whole, c.whole
    (m, k), n = a.shape, b.shape[1]
    pe = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    for number in range(pe, (m // bm) * (n // bn), tl.num_programs(0) * tl.num_programs(1)):
        i, j = number // (n // bn) * bm, number % (n // bn) * bn
        total = None
        for at in range(0, k, bk):
            x, y = tl.load(a[i : i + bm, at : at + bk]), tl.load(b[at : at + bk, j : j + bn])
            total = tl.dot(x, y) if total is None else tl.dot_add(x, y, total)
        tl.store(c[i : i + bm, j : j + bn], tl.cast(total, "f16"))
        del x, y, total


def test_a_product_takes_the_time_of_the_same_blocks_by_hand():
    size, copies, rows = 512, cubeyard.Placement(), cubeyard.Placement(cube="row_wise", pe="row_wise")

    @cubeyard.bench
    def by_hand(context):
        placed = [context.empty((size, size), "f16").to(where) for where in (copies, copies, rows)]
        context.launch(product, *placed, 64, 64, 64)

    a, b, c = (np.zeros((size, size), np.float16) for _ in range(3))
    given = (cubeyard.triton.place(a, copies), cubeyard.triton.place(b, copies), c, size, size, size)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "PROGRAMS": 64}
    found = launched(kernels.persistent_matmul, (64,), *given, **blocks, record={"data": False})
    assert found.kernel_ns <= 1.1 * cubeyard.run(by_hand).kernel_ns


def test_options_of_a_gpu_are_explained():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    notes = " ".join(launched(kernels.add, (1,), x, x, out, 64, BLOCK=64, num_warps=8, num_stages=5).notes)
    assert "num_warps=8" in notes and "num_stages=5" in notes


def test_races_name_the_line_of_the_author():
    out = np.zeros(64, np.int32)
    launch = launched(overlapping, (2,), out, BLOCK=64)
    assert not launch.ok
    assert any(finding["place"].startswith("test_triton_launches.py:") for finding in launch.findings)


@triton.jit
def into_one(x_ptr, out_ptr, BLOCK: tl.constexpr, KIND: tl.constexpr):
    """Programs that read or write the elements of others, or only their own."""
    at = tl.arange(0, BLOCK)
    other = tl.program_id(0) ^ 1
    if KIND == "own":
        tl.store(out_ptr + tl.program_id(0) * BLOCK + at, tl.load(out_ptr + tl.program_id(0) * BLOCK + at) + 1)
    elif KIND == "same input":
        tl.store(out_ptr + tl.program_id(0) * BLOCK + at, tl.load(x_ptr + at))
    elif KIND == "other input":
        tl.store(out_ptr + tl.program_id(0) * BLOCK + at, tl.load(out_ptr + other * BLOCK + at))
    else:
        tl.store(out_ptr + at, at)


@pytest.mark.parametrize("schedule", ["homes", "waves", "blocks", lambda pe, pes, programs: range(programs if pe == 5 else 0)])
@pytest.mark.parametrize("programs", [2, 300])
@pytest.mark.parametrize("kind, races", [("own", False), ("same input", False), ("other input", True), ("output", True)])
def test_the_schedule_does_not_hide_races(kind, races, programs, schedule):
    # Programs of one PE were taken for ordered, and the default schedule gives overlapping ones to one PE.
    x, out = np.zeros(16, np.int32), np.zeros(16 * programs, np.int32)
    launch = launched(into_one, (programs,), x, out, BLOCK=16, KIND=kind, record={"schedule": schedule})
    assert launch.ok != races


def test_an_argument_that_is_no_memory_is_refused():
    with pytest.raises((cubeyard.CubeyardError, TypeError), match="list|argument"):
        kernels.add[(1,)]([1.0], np.ones(1, np.float32), np.ones(1, np.float32), 1, BLOCK=64)


def test_a_kernel_runs_on_tensors_of_a_context():
    context, rows = cubeyard.Context(), cubeyard.Placement(cube="row_wise", pe="row_wise")
    x, out = context.arange(1000, dtype="f32").to(rows), context.zeros(1000).to(rows)
    report = launched(kernels.add, (1,), x, x, out, 1000, BLOCK=1024)
    assert report.max_ps > 0 and (out.numpy() == 2 * np.arange(1000)).all()


def test_a_recording_is_reused_for_the_same_tensors_and_numbers(monkeypatch):
    context, rows, programs = cubeyard.Context(), cubeyard.Placement(cube="row_wise", pe="row_wise"), []
    plain = _program.run_plain
    monkeypatch.setattr(_program, "run_plain", lambda steps, frame: programs.append(frame.pid) or plain(steps, frame))

    def add(x, n):
        programs.clear()
        kernels.add[(5,)](x, x, outs[n], n, BLOCK=1024)
        out = outs[n].numpy()
        assert (out[:n] == 2 * x.numpy()[:n]).all() and not out[n:].any()
        return len(programs)

    outs = {n: context.zeros(5000).to(rows) for n in (3000, 4000)}
    x, y = (context.from_numpy(np.full(5000, at, np.float32)).to(rows) for at in (3, 4))
    assert [add(x, 4000), add(x, 4000), add(y, 4000), add(y, 3000), add(x, 4000)] == [5, 0, 5, 5, 0]


def test_the_command_reports_the_launches_of_a_script():
    command = [sys.executable, "-m", "cubeyard", "run", f"{EXAMPLE}::softmax", "--data", "--explain"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "triton_softmax.py:" in found.stdout and "largest difference" in found.stdout
    missing = subprocess.run([*command[:4], f"{EXAMPLE}::soft"], capture_output=True, text=True)
    assert missing.returncode != 0 and "softmax" in missing.stderr


def test_levers_of_a_script_are_what_the_changed_machine_gains():
    """The script prints in its first run alone, and not into the JSON."""

    def printed(*options):
        command = [sys.executable, "-m", "cubeyard", "run", str(EXAMPLE), "--format", "json", *options]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert found.stderr.count("largest difference") == 1
        return json.loads(found.stdout)

    levers = printed("--levers")
    best = levers["levers"][0]
    assert printed("--with", f"{best['name']}=2x")["kernel_ns"] == best["time_ns"] < levers["time_ns"]


MODULE = """
import triton
import triton.language as tl

@triton.jit
def negate(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, -tl.load(x_ptr + at, mask=at < n), mask=at < n)

@triton.jit
def unused(x_ptr):
    pass
"""
CALL = "import numpy as np\nx = np.ones(256, np.float32)\n{}[(2,)](x, 256, BLOCK=128)\nassert (x == -1).all()\n"
IMPORTS = {
    "from kernel_files.deep.signs import negate": ("negate", ["negate"]),
    "from kernel_files import negate as minus": ("minus", ["negate"]),
    "from kernel_files import *": ("negate", ["negate"]),
    "import kernel_files.deep.signs": ("kernel_files.deep.signs.negate", ["negate", "unused"]),
    "from kernel_files.deep import signs": ("signs.negate", ["negate", "unused"]),
    "import single_file as k": ("k.negate", ["negate", "unused"]),
    "def own():\n    from single_file import negate\n    return negate": ("own()", ["negate"]),
}


@pytest.mark.parametrize("statement", IMPORTS)
def test_kernels_that_a_script_imports_are_found(statement, tmp_path):
    deep = tmp_path / "kernel_files" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "single_file.py").write_text(MODULE)
    (deep / "signs.py").write_text(MODULE)
    (deep / "__init__.py").write_text("")
    (tmp_path / "kernel_files" / "__init__.py").write_text("from .deep.signs import negate\n")
    name, expected = IMPORTS[statement]
    script = tmp_path / "script.py"
    script.write_text(f"{statement}\n{CALL.format(name)}")
    benches = cubeyard.benches(script)
    assert sorted(bench["name"] for bench in benches) == expected
    if statement == next(iter(IMPORTS)):
        command = [sys.executable, "-m", "cubeyard", "run", f"{script}::negate", "--data", "--explain"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "signs.py:" in found.stdout


def test_a_file_of_benches_that_imports_kernels_is_no_script(tmp_path):
    (tmp_path / "single_file_of_kernels.py").write_text(MODULE)
    text = "import cubeyard\nfrom single_file_of_kernels import negate\n@cubeyard.bench\ndef mine(torch):\n    pass\n"
    (tmp_path / "own_benches.py").write_text(text)
    assert [bench["name"] for bench in cubeyard.benches(tmp_path / "own_benches.py")] == ["mine"]


def test_another_version_of_triton_gets_a_clear_message(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.99.0")
    with pytest.raises(cubeyard.CubeyardError, match=r"triton 3\.99\.0: expected one of 3\.6, "):
        compiler.check_version()


@pytest.mark.parametrize("first", ["compiler", "driver", "example", "_program", "_record"])
def test_any_module_of_the_backend_may_be_imported_before_triton(first):
    code = f"import cubeyard.triton.{first}, triton; print(sorted(triton.backends.backends))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0 and "'ahbm'" in found.stdout, found.stderr


@pytest.mark.parametrize("wanted, active", [("ahbm", True), ("cuda", False)])
def test_the_backend_is_active_where_it_is_asked_for(wanted, active):
    code = "import triton; from cubeyard.triton.driver import AhbmDriver; print(AhbmDriver.is_active())"
    environment = {**os.environ, "TRITON_DEFAULT_BACKEND": wanted}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(active)


SOURCE = """
import triton
import triton.language as tl


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def doubled(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, twice(tl.load(x_ptr + at)))
"""


def imported(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_report_names_the_file_that_was_run(tmp_path):
    # Triton's cache has the same source from elsewhere, whose path the reports named.
    for name in ("first", "second"):
        path = tmp_path / f"{name}_kernels.py"
        path.write_text(SOURCE)
        launch = launched(imported(path).doubled, (1,), np.ones(64, np.float32), BLOCK=64)
        assert f"{name}_kernels.py:" in launch.explain()


@triton.jit
def scaled(größe, x_ptr, once: tl.constexpr, 出, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(出 + at, tl.load(x_ptr + at, mask=at < n) * größe, mask=at < n)


@triton.jit
def combined(left, x_ptr, right, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(left[0] + at) * left[1][0] + tl.load(right[1] + at) * right[0]
    tl.store(out_ptr + at, x + tl.load(x_ptr + at))


def test_arguments_are_those_of_their_positions():
    # They were found by their names in the IR, which are others for letters beyond ASCII.
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    scaled[(1,)](2.0, x, 7, out, 60, BLOCK=64)
    assert (out[:60] == 2 * x[:60]).all() and not out[60:].any()


def test_elements_of_tuples_are_arguments():
    # An array in a tuple was refused: "failed to specialize argument of type: tuple".
    x, y, z, out = (np.full(64, number, np.float32) for number in (1, 10, 100, 0))
    combined[(1,)]((x, (2.0, 7)), y, (3.0, z), out, BLOCK=64)
    assert (out == 2 * 1 + 3 * 100 + 10).all()


@triton.jit
def shifted(x_ptr, out_ptr, BLOCK: tl.constexpr, step, n, SHIFT: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at * step, tl.load(x_ptr + at, mask=at < n) + SHIFT, mask=at < n)


@pytest.mark.parametrize("step", [1, 2])
def test_a_compiled_kernel_knows_the_constants_that_its_caller_leaves_out(step):
    # FlagGems keeps compiled kernels, and passes no declared constants from the second call on. A step of 1 is a constant of
    # the compiled kernel that the caller does not know of.
    x, outs = np.arange(100, dtype=np.float32), [np.zeros(100 * step, np.float32) for _ in range(3)]
    compiled = shifted[(2, 1, 1)](x, outs[0], 64, step, 100, SHIFT=5)
    compiled[(2, 1, 1)](x, outs[1], step, 100)
    compiled[(2, 1, 1)](x, outs[2], 64, step, 100, 5)
    assert all((out[::step] == x + 5).all() for out in outs)


@pytest.mark.parametrize("count", [0, 3, 5, 7])
def test_a_wrong_number_of_arguments_names_the_kernel_and_its_arguments(count):
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    compiled = shifted[(2, 1, 1)](x, out, 64, 1, 100, SHIFT=5)
    with pytest.raises(cubeyard.errors.InputError) as caught:
        compiled[(2, 1, 1)](*[x, out, 64, 1, 100, 5, 7][:count])
    names = "x_ptr, out_ptr, BLOCK, step, n, SHIFT; BLOCK, SHIFT may be left out"
    assert str(caught.value) == f"kernel shifted: {count} arguments given, expected {names}"


def test_occupancy_as_scripts_compute_it_is_one():
    # Tutorial 02 divided by zero.
    x, out = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    of = triton.runtime.driver.active.utils.get_device_properties(0)
    for warps in (1, 4, 32):
        kernel = kernels.add.warmup(x, x, out, 4096, BLOCK=1024, num_warps=warps, grid=(4,))
        kernel._init_handles()
        assert of["max_num_regs"] // (kernel.n_regs * of["warpSize"] * warps) == 1 and kernel.n_spills == 0
        assert kernel.metadata.shared == 1024 * 4 and of["max_shared_mem"] // kernel.metadata.shared == 2048
    assert of["multiprocessor_count"] == 128 and of["sm_clock_rate"] == 1_000_000
    assert triton.testing.get_dram_gbps(0) == 128 * 256


@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (2048, 256)], key=["n"])
@triton.jit
def tuned_for_little(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 3, mask=at < n)


def test_tuning_passes_over_blocks_that_no_pe_has_room_for():
    small = cubeyard.Topology().with_({"pe.core.scratch_bytes": 4096})
    x, out = np.ones(4096, np.float32), np.zeros(4096, np.float32)
    with cubeyard.triton.record(topology=small):
        tuned_for_little[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](x, out, 4096)
        assert (out == 3).all() and tuned_for_little.best_config.kwargs["BLOCK"] == 256
        with pytest.raises(triton.OutOfResources, match="Required: 8192, Hardware limit: 4096"):
            tuned_for_little.fn[(2,)](x, out, 4096, BLOCK=2048)
