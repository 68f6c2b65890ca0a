"""Levers as objects: the same figures as runs on changed machines."""

from __future__ import annotations

import pytest

import cubeyard

SMALL = {"m": 64, "k": 256, "n": 64}


def test_a_lever_is_the_run_on_the_changed_machine():
    found = cubeyard.levers("gemm", **SMALL)
    assert found.time_ns == cubeyard.run("gemm", **SMALL).kernel_ns
    for lever in (found.levers[0], *found.levers[-3:]):
        for topology in ({lever.name: "2x"}, lever.with_):
            assert cubeyard.run("gemm", topology=topology, **SMALL).kernel_ns == lever.time_ns
    assert [row["name"] for row in found.rows()] == [lever.name for lever in (*found.levers, *found.pairs)]
    assert found.verdict.split()[0] == "gemm" and str(found).startswith("gemm takes")


def test_levers_are_drawn_longest_saving_first():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = cubeyard.levers("gemm", **SMALL)
    axes = found.plot()
    bars = [bar.get_width() for bar in axes.patches]
    shown = [lever for lever in (*found.levers, *found.pairs) if lever.saved]
    assert bars == [pytest.approx(100.0 * lever.saved) for lever in shown] and bars
    assert [label.get_text() for label in axes.get_yticklabels()] == [lever.name for lever in shown]
    assert found.plot(axes) is axes
    assert all(lever.name in found.page() for lever in shown)
    matplotlib.pyplot.close(axes.figure)


def test_threads_and_the_machine_object_change_nothing():
    one = cubeyard.levers("gemm", threads=1, **SMALL)
    assert one == cubeyard.levers("gemm", threads=3, **SMALL) == cubeyard.Machine().levers("gemm", **SMALL)
    assert one.to_dict() == cubeyard.Machine().levers("gemm", **SMALL).to_dict()


@cubeyard.jit
def scale(x, out, n, tl):
    for row in range(x.shape[0]):
        tl.store(out[row], tl.load(x[row]) * n)


@cubeyard.bench(name="scale", description="each row times n")
def scaled(torch, rows: int = 64):
    placed = cubeyard.Placement(cube="row_wise", pe="row_wise")
    x, y = (torch.zeros((rows, 64), dtype="f32").to(placed) for _ in range(2))
    torch.launch(scale, x, y, 3)


def test_a_bench_in_python_has_levers():
    found = cubeyard.levers(scaled, rows=128)
    assert found.command == "scale" and found.best is not None and found.best.saved > 0
    pulled = cubeyard.run(scaled, rows=128, topology={found.best.name: "2x"})
    assert pulled.kernel_ns == found.best.time_ns


@pytest.mark.parametrize(("given", "text"), [({"threads": 0}, "threads"), ({"mm": 1}, "`mm`")])
def test_wrong_arguments_are_refused(given, text):
    with pytest.raises(cubeyard.errors.InputError, match=text):
        cubeyard.levers("gemm", **given)
