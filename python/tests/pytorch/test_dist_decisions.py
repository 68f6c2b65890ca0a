"""ADR-0047, decision by decision, in real PyTorch. D2 is the launcher's: it sets the number of ranks."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import dist_ranks
import numpy as np
import pytest
import torch
import torch.distributed as dist

import cubeyard.distributed
import cubeyard.torch.distributed as ahbm
from cubeyard.errors import DistributedError, InputError


@pytest.fixture(autouse=True)
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "topology.yaml").write_text(dist_ranks.SMALL)
    monkeypatch.setenv("CUBEYARD_TOPOLOGY", str(tmp_path / "topology.yaml"))


def test_d1_there_is_no_backend_until_it_is_asked_for() -> None:
    assert not dist.is_initialized()
    for call in (lambda: dist.all_reduce(torch.ones(1)), dist.barrier, dist.get_world_size, dist.get_backend):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(DistributedError, match="init_process_group\\('ahbm'\\)"):
        ahbm.clock()
    with pytest.raises(Exception, match="ahbn"):
        dist.init_process_group("ahbn", rank=0, world_size=1, store=dist.HashStore())


def test_d1_importing_torch_starts_nothing() -> None:
    program = """
        import torch, sys
        assert "cubeyard.torch.distributed._group" not in sys.modules
        assert "cubeyard.collectives.world" not in sys.modules
        assert torch.distributed.get_default_backend_for_device("ahbm") == "ahbm"
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


RING = """
def kernel_args(ranks, elements, cube_w, cube_h):
    return (ranks, elements)

def kernel(tensor, ranks, elements, rank, kind, w, h, tl):
    total = moving = tl.load(tensor)
    for _ in range(ranks - 1):
        tl.send("global_E", moving)
        moving = tl.recv("global_W", tensor.shape, tensor.dtype)
        total = total + moving
    tl.store(tensor, total)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("defaults: {algorithm: rign}", "expected one of auto, direct, ring"),
        ("defaults: {n_slots: none}", "n_slots"),
        ("algorithms: {mine: {module: cubeyard_absent}}\ndefaults: {algorithm: mine}", "cubeyard_absent"),
        ("defaults: {algorithm: ring, slot_size: 64 GiB}", ""),
    ],
)
def test_d3_installation_is_all_or_nothing_whatever_fails(
    text: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ccl.yaml").write_text(text)
    monkeypatch.setenv("CUBEYARD_CCL", str(tmp_path / "ccl.yaml"))
    with pytest.raises(InputError) as caught:
        dist.init_process_group("ahbm", rank=0, world_size=1, store=dist.HashStore())
    assert expected in str(caught.value)
    assert not dist.is_initialized()
    monkeypatch.delenv("CUBEYARD_CCL")
    dist.init_process_group("ahbm", rank=0, world_size=1, store=dist.HashStore())
    dist.destroy_process_group()


def test_d3_a_ccl_yaml_names_the_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ccl.yaml").write_text("defaults: {algorithm: tree}")
    monkeypatch.setenv("CUBEYARD_CCL", str(tmp_path / "ccl.yaml"))

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        dist.all_reduce(torch.ones(100))

    assert [call.algorithm for call in ahbm.spawn(worker, nprocs=3).calls] == ["tree"]


def by_module(rank: int, ranks: int, folder: str) -> Any:
    """Sums of a module's algorithm, by which each rank begins with its own values."""
    sys.path.insert(0, folder)
    dist_ranks.start("ahbm", rank, ranks, folder)
    values = [torch.randn(64, generator=torch.Generator().manual_seed(other)) for other in range(ranks)]
    sums = []
    for _ in range(3):
        tensor = values[rank].clone()
        dist.all_reduce(tensor)
        sums.append(tensor)
    expected = values[rank].clone()
    for step in range(1, ranks):
        expected += values[(rank - step) % ranks]
    report = ahbm.report()
    dist.destroy_process_group()
    return [torch.equal(found, expected) for found in sums], [call.algorithm for call in report.calls]


def test_d3_an_algorithm_may_be_a_module_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "own_ring.py").write_text(RING)
    (tmp_path / "ccl.yaml").write_text("defaults: {algorithm: mine}\nalgorithms: {mine: {module: own_ring}}\n")
    found = dist_ranks.processes(by_module, 3, str(tmp_path), backend="", CUBEYARD_CCL=str(tmp_path / "ccl.yaml"))
    assert found == [([True] * 3, ["own_ring"] * 3)] * 3


def test_d4_and_d7_ranks_belong_to_workers() -> None:
    found: dict[int, Any] = {}

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        found[rank] = (dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_initialized())

    ahbm.spawn(worker, nprocs=3)
    assert found == {rank: (rank, 3, "ahbm", True) for rank in range(3)}
    assert not dist.is_initialized()


def test_d5_all_reduce_in_place_with_every_op() -> None:
    expected = {"SUM": 6.0, "PRODUCT": 6.0, "MIN": 1.0, "MAX": 3.0, "AVG": 2.0}

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        for name, value in expected.items():
            tensor = torch.full((33,), rank + 1.0)
            address = tensor.data_ptr()
            assert dist.all_reduce(tensor, getattr(dist.ReduceOp, name)) is None
            assert tensor.tolist() == [value] * 33
            assert tensor.data_ptr() == address

    assert len(ahbm.spawn(worker, nprocs=3).calls) == len(expected)


def test_d5_what_cannot_be_reduced_is_told() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        with pytest.raises(InputError, match="all_reduce bor of torch.float32: the reduction is not defined"):
            dist.all_reduce(torch.ones(2), dist.ReduceOp.BOR)
        dist.all_reduce(torch.ones(2))

    assert len(ahbm.spawn(worker, nprocs=2).calls) == 1


def test_d6_a_barrier_takes_simulated_time_and_all_ranks() -> None:
    ends: dict[int, float] = {}

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        ahbm.compute(1000 * rank)
        dist.barrier()
        ends[rank] = ahbm.clock()

    report = ahbm.spawn(worker, nprocs=3)
    (call,) = report.calls
    assert (call.operation, call.start_ns) == ("barrier", 2000.0)
    assert call.time_ns > 0
    assert ends == dict.fromkeys(range(3), 2000.0 + call.time_ns)
    waits = {span.rank: span.end_ns - span.start_ns for span in report.spans if span.name == "wait"}
    assert waits == pytest.approx({rank: 2000 - 1000 * rank + call.time_ns for rank in range(3)})


def test_d8_and_beyond_sub_groups_run_on_the_sips_of_their_members() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        group = dist.new_group([1, 3])
        if rank in (1, 3):
            tensor = torch.full((5,), float(rank))
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [4.0] * 5

    (call,) = ahbm.spawn(worker, nprocs=4).calls
    assert call.ranks == (1, 3)


def test_a_world_may_be_smaller_than_the_machine_and_not_larger() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        dist.barrier()

    assert len(ahbm.spawn(worker, nprocs=2).calls) == 1
    with pytest.raises(InputError, match="the world has 5 ranks.*has only 4. Set CUBEYARD_SIPS=5, or CUBEYARD_TOPOLOGY"):
        ahbm.spawn(worker, nprocs=5)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("CUBEYARD_SIPS", "many", "CUBEYARD_SIPS: `many`: expected a number of SIPs"),
        ("CUBEYARD_SIPS", "0", "CUBEYARD_SIPS: "),
        ("CUBEYARD_TOPOLOGY", "absent.yaml", "CUBEYARD_TOPOLOGY: "),
        ("CUBEYARD_CCL", "absent.yaml", "CUBEYARD_CCL: absent.yaml"),
    ],
)
def test_a_variable_that_is_wrong_is_named(
    variable: str, value: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError) as caught:
        dist.init_process_group("ahbm", rank=0, world_size=1, store=dist.HashStore())
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("module", ["cubeyard.distributed", "cubeyard.torch.distributed"])
def test_one_worker_runs_in_both_with_another_import(module: str) -> None:
    dist = importlib.import_module(module)

    def worker(rank: int, results: list[float]) -> None:
        dist.init_process_group("ahbm")
        torch = dist.context()
        gradient = torch.full((1000,), rank + 1.0).to(dist.placement())
        dist.all_reduce(gradient)
        results.append(float(gradient.numpy()[0]))
        dist.barrier()
        dist.destroy_process_group()

    results: list[float] = []
    report = dist.spawn(worker, args=(results,), nprocs=2)
    assert results == [3.0, 3.0]
    assert [(call.operation, call.algorithm) for call in report.calls][0] == ("all_reduce sum", "lrab")
    assert np.isfinite([getattr(call, "kernel_ns", getattr(call, "time_ns", None)) for call in report.calls]).all()
