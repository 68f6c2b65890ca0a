"""Numbers and times of the machine of a world: what is computed is what would be simulated, to the last bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cubeyard
from cubeyard._world import numbers
from cubeyard._world.fabric import Fabric
from cubeyard._world.machine import Answer, Call, Machine
from cubeyard._world.operation import Operation
from cubeyard._world.records import Report
from cubeyard.distributed import sweep

FLOATS = ["f16", "bf16", "f32", "f64"]


def fabric(ranks: int, algorithm: str = "auto") -> Fabric:
    topology = cubeyard.Topology({"sips.count": ranks, "cubes": {"w": 1, "h": 1}})
    made = Fabric(topology, ("ccl.yaml", f"defaults: {{algorithm: {algorithm}}}"), ranks)
    made.start()
    return made


def drawn(ranks: int, elements: int, dtype: str, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Bytes of random numbers of each rank: of floats with any rounding, of integers that overflow."""
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        array = rng.standard_normal((ranks, elements)).astype(np.float32)
        held = array.astype(numbers.TYPES[dtype])
        if dtype == "bf16":
            held = (array.view(np.uint32) >> 16).astype(np.uint16)
    elif dtype == "bool":
        held = rng.integers(0, 2, (ranks, elements)).astype(bool)
    else:
        held = rng.integers(0, 256, (ranks, elements * np.dtype(numbers.TYPES[dtype]).itemsize), np.uint8)
    return [row.view(np.uint8) for row in np.ascontiguousarray(held)]


ALGORITHMS = ["direct", "ring", "tree", "halving-doubling", "lrab", "grid"]


def compared(machine: Fabric, operation: Operation, held: list[np.ndarray[Any, Any]]) -> list[bytes]:
    """Computes a reduction twice, the second time without a simulation, and compares it with the machine."""
    first, _ = machine.reduce(operation, held)
    runs = machine.runs
    timing, computed = machine.reduce(operation, held)
    assert (machine.runs, timing) == (runs, first)
    same, simulated = machine._run(machine._world(data=True), operation, held)
    found = [array.tobytes() for array in computed]
    assert found == [array.tobytes() for array in simulated]
    assert timing == same
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ranks", [3, 4, 7])
def test_the_stated_order_gives_the_bits_of_the_machine_on_all_ranks(ranks: int, algorithm: str) -> None:
    """By `lrab` each of three or more ranks added in an order of its own: 1,313 of 4,096 sums of f32 differed."""
    machine = fabric(ranks, algorithm)
    for dtype in ("f32", "bf16"):
        operation = Operation("all_reduce", tuple(range(ranks)), dtype, 333, "sum")
        assert len(set(compared(machine, operation, drawn(ranks, 333, dtype)))) == 1
    zeros = np.where(np.arange(40) % (2 + np.arange(ranks)[:, None]) == 0, -0.0, 0.0).astype(np.float32)
    for op in ("max", "min"):
        operation = Operation("all_reduce", tuple(range(ranks)), "f32", 40, op)
        assert len(set(compared(machine, operation, [row.view(np.uint8) for row in zeros]))) == 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sum", "avg", "prod"])
@pytest.mark.parametrize("name", ["reduce_scatter", "reduce"])
def test_the_stated_order_gives_the_bits_of_other_reductions_and_types(name: str, op: str, dtype: str) -> None:
    machine = fabric(4)
    operation = Operation(name, (0, 1, 2, 3), dtype, 45, op, 2 if name == "reduce" else 0)
    compared(machine, operation, drawn(4, 45 * (4 if name == "reduce_scatter" else 1), dtype))


def test_a_group_of_some_ranks_and_parts_of_many_pes_have_a_stated_order() -> None:
    topology = cubeyard.Topology({"sips": {"count": 6, "topology": "torus_2d", "w": 3, "h": 2}, "cubes": {"w": 2}})
    for algorithm in ALGORITHMS:
        machine = Fabric(topology, ("ccl.yaml", f"defaults: {{algorithm: {algorithm}}}"), 6)
        for ranks in ((0, 1, 2, 3, 4, 5), (0, 1, 3, 4), (5, 0, 2)):
            operation = Operation("all_reduce", ranks, "f32", 1001, "sum")
            compared(machine, operation, drawn(len(ranks), 1001, "f32"))


def test_an_algorithm_that_states_no_order_is_simulated_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = fabric(3)
    monkeypatch.setattr(type(machine._world(data=False)), "orders", lambda *_: None)
    operation = Operation("all_reduce", (0, 1, 2), "f32", 3, "sum")
    for seed in range(3):
        runs = machine.runs
        machine.reduce(operation, drawn(3, 3, "f32", seed))
        assert (machine.runs, machine.is_known(operation)) == (runs + 1, False)


@pytest.mark.parametrize("ranks", [2, 3])
def test_reductions_without_an_order_are_computed_at_once(ranks: int) -> None:
    machine = fabric(ranks)
    seen = 0
    for dtype in numbers.TYPES:
        for op in ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor"):
            if not numbers.suits(op, dtype) or (ranks > 2 and dtype in FLOATS and op in {"sum", "prod", "avg"}):
                continue
            operation, held = Operation("all_reduce", tuple(range(ranks)), dtype, 20, op), drawn(ranks, 20, dtype)
            timing, computed = machine.reduce(operation, held)
            same, simulated = machine._run(machine._world(data=True), operation, held)
            assert [a.tobytes() for a in computed] == [b.tobytes() for b in simulated], (op, dtype)
            assert timing == same
            seen += 1
    assert seen > 40


def test_numbers_that_are_none_and_zeros_of_both_signs_are_those_of_the_machine() -> None:
    machine = fabric(2)
    odd = np.array([[np.nan, 0.0, -0.0, np.inf, 1e38], [1.0, -0.0, 0.0, -np.inf, 3e38]], np.float32)
    for op in ("sum", "max", "min", "prod"):
        operation, held = Operation("all_reduce", (0, 1), "f32", 5, op), [row.view(np.uint8) for row in odd]
        _, found = machine.reduce(operation, held)
        _, simulated = machine._run(machine._world(data=True), operation, held)
        assert [a.tobytes() for a in found] == [b.tobytes() for b in simulated], op


@pytest.mark.parametrize(
    "name",
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "gather", "scatter", "reduce"],
)
def test_times_are_those_of_cubeyard_ccl(name: str) -> None:
    topology = cubeyard.Topology({"sips.count": 3})
    machine = Fabric(topology, ("ccl.yaml", ""), 3)
    (row,) = sweep(name, topology=topology, sizes=[36864], algorithm="auto", dtype="f32").rows()
    parts = {"all_reduce": 1, "broadcast": 1, "reduce": 1}.get(name, 3)
    op = "sum" if name in {"all_reduce", "reduce_scatter", "reduce"} else ""
    timing = machine.timing(Operation(name, (0, 1, 2), "f32", 9216 // parts, op))
    assert (timing.algorithm, timing.bytes) == (row["algorithm"], row["bytes"])
    assert timing.ps == round(row["time_us"] * 1e6)


class World:
    """A machine whose ranks are this test."""

    def __init__(self, ranks: int) -> None:
        self.machine = Machine(fabric(ranks), ranks)
        self.ranks = ranks
        self.answers: dict[str, Answer] = {}

    def call(
        self, label: str, rank: int, name: str = "barrier", group: str = "0", members: Any = None, **more: Any
    ) -> None:
        call = Call(rank, group, tuple(members or range(self.ranks)), name, at=f"{label}.py:1", **more)
        call.answer = lambda answer: self.answers.__setitem__(label, answer)
        for finished in self.machine.post(call):
            finished()


def test_a_collective_begins_when_its_last_rank_is_ready_and_the_one_before_has_ended() -> None:
    world = World(2)
    world.call("a0", 0, ready_ps=100)
    world.call("b0", 0, ready_ps=200)
    assert world.answers == {}
    world.call("a1", 1, ready_ps=5000)
    assert world.answers["a0"] == world.answers["a1"]
    assert world.answers["a0"].start_ps == 5000
    world.call("b1", 1, ready_ps=300)
    assert world.answers["b0"].start_ps == world.answers["a0"].end_ps


def test_groups_do_not_wait_for_each_other() -> None:
    world = World(3)
    world.call("a0", 0)
    world.call("b0", 0, group="1", members=(0, 2))
    world.call("b2", 2, group="1", members=(0, 2))
    assert world.answers["b0"].start_ps == 0
    for rank in (1, 2):
        world.call(f"a{rank}", rank)
    assert world.answers["a0"].start_ps == 0


def test_messages_match_by_sender_receiver_and_tag() -> None:
    world = World(2)
    one, two, got, later = (np.full(4, value, np.uint8) for value in (1, 2, 0, 0))
    world.call("s1", 0, "send", root=1, tag=1, input=one, count=4)
    world.call("s2", 0, "send", root=1, tag=2, input=two, count=4)
    world.call("r2", 1, "recv", root=0, tag=2, output=later, count=4, ready_ps=50_000)
    assert (later.tolist(), "s1" in world.answers) == ([2] * 4, False)
    world.call("r1", 1, "recv", root=0, tag=1, output=got, count=4)
    assert got.tolist() == [1] * 4
    assert world.answers["r2"].start_ps == 50_000
    assert world.answers["s1"].start_ps == world.answers["s2"].end_ps


def test_calls_that_differ_name_both_and_end_the_world() -> None:
    world = World(3)
    world.call("a", 0, "all_reduce", dtype="f32", op="sum", count=10, elements=10)
    world.call("b", 1, "all_reduce", dtype="f32", op="sum", count=11, elements=11)
    text = (
        "calls of ranks do not match: rank 0 and rank 1. rank 0 waits in all_reduce sum f32[10] at a.py:1; "
        "rank 1 waits in all_reduce sum f32[11] at b.py:1; rank 2 has not called anything"
    )
    assert {answer.error for answer in world.answers.values()} == {text}
    world.call("c", 2)
    assert world.answers["c"].error == text


def test_a_rank_that_is_gone_fails_those_that_wait_for_it() -> None:
    world = World(2)
    world.machine.leave(1)
    world.call("a", 0)
    expected = "rank 1, for which rank 0 waits, has left its process group. rank 0 waits in barrier"
    assert world.answers["a"].error.startswith(expected)


def test_reports_are_the_same_whatever_the_order_of_arrival() -> None:
    def run(ranks: list[int]) -> Any:
        world = World(3)
        for round_ in range(3):
            for rank in ranks:
                held = np.ones(8, np.uint8)
                more = {"op": "max", "count": 8, "input": held, "output": held, "ready_ps": 100 * rank}
                world.call(f"{round_}{rank}", rank, "all_reduce", **more)
        return [call[:-1] for call in json.loads(json.dumps(world.machine.calls))]

    assert run([0, 1, 2]) == run([2, 0, 1])


def test_a_report_has_rows_a_summary_and_a_trace(tmp_path: Any) -> None:
    world = World(2)
    for rank in range(2):
        held = np.ones(4096, np.uint8)
        world.call(f"{rank}", rank, "all_reduce", op="max", count=4096, input=held, output=held, ready_ps=2000)
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
