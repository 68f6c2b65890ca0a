"""Ranks in Python: collectives against NumPy, times against the command, and every way to be apart."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import cubeyard
import cubeyard.distributed as dist
from cubeyard.errors import DistributedError, InputError

FOUR = {"sips": {"count": 4}, "cubes": {"w": 2, "h": 2}}


def reduced(op: str, combine: np.ufunc) -> None:
    values = np.random.default_rng(1).integers(1, 9, size=(4, 96)).astype(np.float32)

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm", world_size=17, rank=5)
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, 4, "ahbm")
        x = dist.context().from_numpy(values[rank]).to(dist.placement())
        dist.all_reduce(x, op)
        np.testing.assert_allclose(x.numpy(), combine.reduce(values), rtol=1e-6)
        dist.barrier()

    report = dist.spawn(worker, topology=FOUR)
    assert [call.operation for call in report.calls] == [f"all_reduce {op}", "barrier"]
    assert all(call.kernel_ns > 0 for call in report.calls)


@pytest.mark.parametrize(("op", "combine"), [("sum", np.add), ("prod", np.multiply), ("max", np.maximum)])
def test_all_reduce_is_numpys(op: str, combine: np.ufunc) -> None:
    reduced(op, combine)


def test_every_call_moves_what_it_says() -> None:
    seen: dict[str, list[list[float]]] = {}

    def note(name: str, tensor: cubeyard.Tensor) -> None:
        seen.setdefault(name, []).append(tensor.numpy().ravel().tolist())

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        torch = dist.context()
        one = cubeyard.Placement(sips=[rank], cubes=1, pes=1)
        mine = torch.from_numpy(np.array([[rank * 10.0, rank * 10.0 + 1]], dtype=np.float32)).to(one)
        all_of = torch.zeros((2, 2), dtype="f32").to(one)
        dist.all_gather(all_of, mine)
        note("all_gather", all_of)
        dist.broadcast(mine, src=1)
        note("broadcast", mine)
        part = torch.zeros((1, 1), dtype="f32").to(one)
        dist.reduce_scatter(part, mine)
        note("reduce_scatter", part)
        if rank == 0:
            dist.send(all_of, dst=1)
        else:
            dist.recv(all_of, src=0)
        work = dist.all_reduce(part, async_op=True)
        assert work is not None and not work.is_completed()
        work.wait()
        assert work.is_completed()

    dist.spawn(worker)
    assert seen["all_gather"] == [[0, 1, 10, 11]] * 2
    assert seen["broadcast"] == [[10, 11]] * 2
    assert seen["reduce_scatter"] == [[20], [22]]


def test_the_time_is_that_of_the_command() -> None:
    """`cubeyard ccl` measures the same algorithm on the same machine."""

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        x = dist.context().ones((131072,), dtype="f16").to(dist.placement())
        dist.all_reduce(x)

    report = dist.spawn(worker)
    told = subprocess.run(
        [sys.executable, "-m", "cubeyard", "ccl", "--sizes", "256K", "--ranks", "sip", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (call,) = report.calls
    rows = {row["algorithm"]: row for row in json.loads(told.stdout)["rows"]}
    row = rows[call.algorithm]
    assert (call.kernel_ns, call.host_ns) == pytest.approx((row["time_ns"], row["host_ns"]), abs=1e-6)
    assert call.bytes == row["bytes"]


def test_ranks_apart_are_told_with_their_lines() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        x = dist.context().ones((4,)).to(dist.placement())
        if rank == 0:
            dist.all_reduce(x)
        else:
            dist.barrier()

    with pytest.raises(DistributedError, match=r"rank 0 waits in all_reduce.*test_py_distributed.py:\d+; rank 1 waits"):
        dist.spawn(worker)


def test_an_exception_of_a_rank_stops_the_others_and_leaves_nothing() -> None:
    threads = threading.active_count()
    with cubeyard.Context() as context:

        def worker(rank: int) -> None:
            dist.init_process_group("ahbm")
            x = dist.context().ones((4,)).to(dist.placement())
            if rank == 1:
                raise KeyError("lost")
            dist.all_reduce(x)

        with pytest.raises(KeyError) as caught:
            dist.spawn(worker, context=context)
        assert caught.value.__notes__ == ["raised by rank 1"]
        caught.value.__traceback__ = None
        del caught
        assert threading.active_count() == threads
        assert context.is_pristine
        reports = dist.spawn(lambda rank: dist.init_process_group(), context=context)
        assert reports.calls == ()


def test_groups_of_some_ranks() -> None:
    sums = {}

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
        mine = even if rank % 2 == 0 else odd
        assert dist.get_rank(mine) == rank // 2 and dist.get_world_size(mine) == 2
        x = dist.context().full((8,), float(rank)).to(dist.placement())
        dist.all_reduce(x, group=mine)
        sums[rank] = x.numpy()[0]

    dist.spawn(worker, topology=FOUR)
    assert sums == {0: 2.0, 1: 4.0, 2: 2.0, 3: 4.0}


def test_fewer_ranks_and_too_many() -> None:
    sizes: list[int] = []

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        sizes.append(dist.get_world_size())

    dist.spawn(worker, nprocs=2, topology=FOUR)
    assert sizes == [2, 2]
    with pytest.raises(InputError, match="a world of 9 ranks: expected 1 to 4"):
        dist.spawn(worker, nprocs=9, topology=FOUR)


def test_calls_out_of_place() -> None:
    with pytest.raises(DistributedError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(DistributedError, match="given to spawn"):
        dist.init_process_group("ahbm")
    assert not dist.is_initialized()

    def uninitialised(rank: int) -> None:
        dist.barrier()

    with pytest.raises(DistributedError, match="has not been initialized"):
        dist.spawn(uninitialised)

    def other_backend(rank: int) -> None:
        dist.init_process_group("nccl")

    with pytest.raises(InputError, match="Unsupported backend 'nccl'"):
        dist.spawn(other_backend)

    def twice(rank: int) -> None:
        dist.init_process_group()
        dist.init_process_group()

    with pytest.raises(DistributedError, match="twice"):
        dist.spawn(twice)

    def array(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(np.ones(3))  # type: ignore[arg-type]

    with pytest.raises(InputError, match="expected a cubeyard.Tensor, found ndarray"):
        dist.spawn(array)


RING = """
def kernel_args(ranks, elements, cube_w, cube_h):
    return (ranks, elements)

def kernel(tensor, ranks, elements, rank, kind, w, h, tl):
    assert (kind, w, h) == (0, ranks, 1) and 0 <= rank < ranks
    total = moving = tl.load(tensor)
    for _ in range(ranks - 1):
        tl.send("global_E", moving)
        moving = tl.recv("global_W", tensor.shape, tensor.dtype)
        total = total + moving
    tl.store(tensor, total)
"""


def test_an_algorithm_may_be_a_module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_ring.py").write_text(RING)
    (tmp_path / "no_kernel.py").write_text("kernel_args = print")
    monkeypatch.syspath_prepend(str(tmp_path))
    ccl = tmp_path / "ccl.yaml"

    def use(module: str) -> pathlib.Path:
        ccl.write_text(f"defaults: {{algorithm: mine}}\nalgorithms:\n  mine:\n    module: {module}\n")
        return ccl

    values = np.arange(512, dtype=np.float32).reshape(4, 128)

    def worker(rank: int, op: str) -> None:
        dist.init_process_group("ahbm")
        x = dist.context().from_numpy(values[rank]).to(dist.placement())
        dist.all_reduce(x, op)
        np.testing.assert_array_equal(x.numpy(), values.sum(axis=0))

    report = dist.spawn(worker, args=("sum",), topology=FOUR, ccl=use("my_ring"))
    assert [call.algorithm for call in report.calls] == ["my_ring"]
    with pytest.raises(DistributedError, match="my_ring: all_reduce max: a Python module supports only all_reduce sum"):
        dist.spawn(worker, args=("max",), topology=FOUR, ccl=use("my_ring"))
    with pytest.raises(InputError, match="module: expected a module with a function `kernel`, found no_kernel"):
        dist.spawn(worker, args=("sum",), ccl=use("no_kernel"))
    with pytest.raises(InputError, match="expected one of direct, ring, .*found nowhere"):
        dist.spawn(worker, args=("sum",), ccl=use("nowhere"))


def test_ctrl_c_ends_all_ranks() -> None:
    script = """
        import os, signal, threading
        import cubeyard.distributed as dist

        def worker(rank):
            dist.init_process_group("ahbm")
            x = dist.context().ones((1 << 22,)).to(dist.placement())
            if rank == 0:
                threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            for _ in range(1000):
                dist.all_reduce(x)

        dist.spawn(worker)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert "KeyboardInterrupt" in ran.stderr
    assert ran.returncode in (-signal.SIGINT, 1, 130)
