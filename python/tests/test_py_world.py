"""The machine of a world, as its front calls it: times, reports, and algorithms in Python that state their order.

Numbers and the matching of calls are tested where they are computed: `crates/collectives/tests/it/service.rs` and
`service_calls.rs`.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest

import cubeyard
import cubeyard.distributed as dist
from cubeyard import _native
from cubeyard.collectives.world.machine import Answer, Machine
from cubeyard.collectives.world.records import Report
from cubeyard.distributed import ReduceOp, sweep
from cubeyard.errors import InputError

PARTS = {
    "all_reduce": (1, 1),
    "reduce": (1, 1),
    "broadcast": (1, 1),
    "all_gather": (1, 3),
    "gather": (1, 3),
    "reduce_scatter": (3, 1),
    "scatter": (3, 1),
    "all_to_all": (3, 3),
}
"""Parts of a rank's input and output among three ranks."""


class World:
    """A machine whose ranks are this test."""

    def __init__(self, topology: cubeyard.Topology, ranks: int, ccl: str = "") -> None:
        self.machine = Machine(topology, ("ccl.yaml", ccl), ranks)
        self.ranks = ranks
        self.busy: list[bool] = []
        self.machine.notice = self.busy.append

    def call(self, rank: int, name: str, dtype: str, count: int, held: Any, place: Any, **more: Any) -> list[Answer]:
        """Makes a call; returns the answers to this one that came at once."""
        answers: list[Answer] = []
        fields = {
            "rank": rank,
            "group": "0",
            "members": tuple(range(self.ranks)),
            "name": name,
            "dtype": dtype,
            "count": count,
            "op": "",
            "root": 0,
            "tag": 0,
            "splits": ((), ()),
            "ready_ps": 0,
            "timeout": 60.0,
            "at": "a.py:1",
            "elements": count,
        }
        for finished in self.machine.post({**fields, **more}, held, place, answers.append):
            finished()
        return answers

    def all_reduce(self, inputs: Any) -> list[Any]:
        """Returns what each rank gets of a sum of f32."""
        held = [np.array(row, np.float32) for row in inputs]
        for rank, own in enumerate(held):
            place = (0, own.nbytes, 0, own.nbytes)
            answers = self.call(rank, "all_reduce", "f32", len(own), own.view(np.uint8), place, op="sum")
        assert [answer.error for answer in answers] == [""]
        return held


@pytest.mark.parametrize("name", PARTS)
def test_times_are_those_of_cubeyard_ccl(name: str) -> None:
    topology = cubeyard.Topology({"sips.count": 3})
    (row,) = sweep(name, topology=topology, sizes=[36864], algorithm="auto", dtype="f32").rows()
    of_input, of_output = PARTS[name]
    part = 36864 // max(of_input, of_output)
    world = World(topology, 3)
    for rank in range(3):
        is_root = rank == 0
        sizes = [of_input * part, of_output * part]
        if name in {"reduce", "gather"} and not is_root:
            sizes[1] = 0
        if name == "scatter" and not is_root:
            sizes[0] = 0
        if name == "broadcast":
            sizes[int(is_root)] = 0
        op = "sum" if "reduce" in name else ""
        memory = np.zeros(sum(sizes), np.uint8)
        answers = world.call(rank, name, "f32", part // 4, memory, (0, sizes[0], sizes[0], sizes[1]), op=op)
    (answer,), (call,) = answers, world.machine.calls
    assert answer.error == ""
    assert (call[4], call[3]) == (row["algorithm"], row["bytes"])
    assert answer.end_ps - answer.start_ps == round(row["time_ns"] * 1e3)


def test_bytes_of_a_collective_are_the_same_in_every_report() -> None:
    """`bytes` of one all_gather was 4,096 here, of the input, and 8,192 in `cubeyard.torch.distributed`."""

    def worker(rank: int) -> None:
        dist.init_process_group("ahbm")
        mine = dist.context().ones((1024, 1), dtype="f32").to(dist.placement())
        dist.all_gather(dist.context().zeros((1024, 2), dtype="f32").to(dist.placement()), mine)

    topology = cubeyard.Topology({"sips.count": 2, "cubes": {"w": 2, "h": 1}})
    (call,) = dist.spawn(worker, topology=topology).calls
    world = World(topology, 2)
    for rank in range(2):
        world.call(rank, "all_gather", "f32", 1024, np.zeros(12288, np.uint8), (0, 4096, 4096, 8192))
    (record,) = world.machine.calls
    (row,) = sweep("all_gather", topology=topology, sizes=[8192], algorithm="auto", dtype="f32").rows()
    found = (call.bytes, record[3], row["bytes"])
    assert found == (8192, 8192, 8192)


def test_a_report_has_rows_a_summary_and_a_trace(tmp_path: Any) -> None:
    world = World(cubeyard.Topology({"sips.count": 2, "cubes": {"w": 1, "h": 1}}), 2)
    for rank in range(2):
        held = np.ones(4096, np.uint8)
        world.call(rank, "all_reduce", "u8", 4096, held, (0, 4096, 0, 4096), op="max", ready_ps=2000)
    report = Report.of(json.loads(json.dumps(world.machine.calls)), [[0, "compute", 0.0, 2.0], [0, "wait", 2.0, 9.0]])
    (row,) = report.rows()
    assert (row["operation"], row["ranks"], row["bytes"], row["start_ns"]) == ("all_reduce max", 2, 4096, 2.0)
    assert row["bus_gbs"] == pytest.approx(4096 / row["time_ns"], abs=1e-3)
    assert report.summary().startswith("1 collectives, 4096 bytes, ")
    assert report.draw().count("<rect") == 4
    assert report.draw(start_ns=1.0).count("<rect") == 3
    assert report.trace(tmp_path / "x.pftrace").stat().st_size > 100
    found = sorted((track, name, start, end) for track, start, end, name, _ in report._slices())
    end = 2000 + round(row["time_ns"] * 1000)
    assert found == [
        ("rank 0", "compute", 0, 2000),
        ("rank 0", "wait", 2000, 9000),
        ("rank 0: 0", "all_reduce max", 2000, end),
        ("rank 1: 0", "all_reduce max", 2000, end),
    ]


def test_memory_outside_of_a_buffer_and_fields_of_another_kind_are_refused() -> None:
    world = World(cubeyard.Topology({"sips.count": 2, "cubes": {"w": 1, "h": 1}}), 2)
    held = np.zeros(8, np.uint8)
    for place in ((0, 9, 0, 8), (0, 8, 1, 8), (2**63, 2**63, 0, 8)):
        with pytest.raises(InputError, match="expected parts of 8 writable bytes"):
            world.call(0, "all_reduce", "u8", 8, held, place, op="max")
    for wrong in ({"name": "all_reducee"}, {"op": "mean"}, {"dtype": "f31"}, {"root": -1}):
        with pytest.raises(InputError):
            world.call(0, **{"name": "all_reduce", "dtype": "u8", **wrong}, count=8, held=held, place=(0, 8, 0, 8))
    for other in ({"count": -1}, {"count": "8"}, {"splits": ((1,),)}, {"members": 3}):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            world.call(0, **{"name": "barrier", "dtype": "u8", "count": 8, **other}, held=None, place=(0, 0, 0, 0))
    assert world.machine.calls == []


def test_operators_suit_types_as_the_machine_has_it() -> None:
    suited = {dtype: [op.value for op in ReduceOp if _native.suits(op, dtype)] for dtype in ("f16", "i32", "bool")}
    assert suited == {
        "f16": ["sum", "prod", "min", "max", "avg"],
        "i32": ["sum", "prod", "min", "max", "band", "bor", "bxor"],
        "bool": ["min", "max", "band", "bor", "bxor"],
    }


CHAIN = """
def kernel_args(ranks, elements, cube_w, cube_h):
    return (ranks,)

def kernel(tensor, ranks, rank, kind, w, h, tl):
    total = tl.load(tensor)
    if rank > 0:
        total = tl.recv("global_W", tensor.shape, tensor.dtype) + total
    if rank + 1 < ranks:
        tl.send("global_E", total)
        total = tl.recv("global_E", tensor.shape, tensor.dtype)
    if rank > 0:
        tl.send("global_W", total)
    tl.store(tensor, total)
"""
ORDER = """
def order(ranks):
    tree = 0
    for rank in range(1, ranks):
        tree = (tree, rank)
    return tree
"""


def world_of(module: str, ranks: int = 4) -> World:
    topology = cubeyard.Topology({"sips.count": ranks, "cubes": {"w": 1, "h": 1}})
    return World(topology, ranks, f"defaults: {{algorithm: mine}}\nalgorithms: {{mine: {{module: {module}}}}}\n")


def test_an_algorithm_in_python_may_state_its_order(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stated order gives the bits of the simulated kernel, and needs no simulation from the second call on."""
    (tmp_path / "silent_chain.py").write_text(CHAIN)
    (tmp_path / "stated_chain.py").write_text(CHAIN + ORDER)
    monkeypatch.syspath_prepend(str(tmp_path))
    silent, stated = world_of("silent_chain"), world_of("stated_chain")
    for seed in range(3):
        inputs = np.random.default_rng(seed).standard_normal((4, 1001)).astype(np.float32)
        found = [[row.tobytes() for row in world.all_reduce(inputs)] for world in (silent, stated)]
        assert found[0] == found[1] and len(set(found[0])) == 1
    assert (len(silent.busy), len(stated.busy)) == (6, 2)
    assert [call[6] for call in silent.machine.calls] == [call[6] for call in stated.machine.calls]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("return ((0, 1), 2)", r"order\(4\) of the module: \(\(0, 1\), 2\): expected nested pairs with each of 4 ranks"),
        ("return [(((0, 1), 2), 3), 'x']", r"order\(4\) of the module: x: expected nested pairs"),
        ("return 1 / 0", r"order\(4\) of the module: ZeroDivisionError"),
    ],
)
def test_an_order_that_is_none_is_refused(
    body: str, error: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"wrong_order_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text(CHAIN + f"def order(ranks):\n    {body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    world = world_of(name)
    for rank in range(4):
        held = np.ones(4, np.uint8)
        answers = world.call(rank, "all_reduce", "f32", 1, held, (0, 4, 0, 4), op="sum")
    assert re.search(error, answers[0].error), answers[0].error
