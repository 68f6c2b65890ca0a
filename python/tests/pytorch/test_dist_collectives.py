"""Every collective, on every type and odd sizes, in worlds of 1 to 4, gives what gloo gives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import dist_ranks
import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WHOLES = [torch.int8, torch.uint8, torch.int32, torch.int64]
SIZES = [1, 37]
OPS = ["SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR"]


def values(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers, whose sums and products are exact in any order, other ones on each rank."""
    drawn = torch.randint(1, 4, (size,), generator=torch.Generator().manual_seed(rank))
    return drawn.remainder(2).bool() if dtype == torch.bool else drawn.to(dtype)


def strided(rank: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor whose elements do not follow each other in memory."""
    return values(rank, 60, dtype).view(5, 12)[:, ::3].t()


Case = tuple[str, Callable[[], list[torch.Tensor]]]


def reductions(rank: int, ranks: int, dtype: torch.dtype, size: int) -> Iterator[Case]:
    for name in OPS:
        op = getattr(ReduceOp, name)
        if dtype.is_floating_point and name in {"BAND", "BOR", "BXOR"} or not dtype.is_floating_point and name == "AVG":
            continue

        def all_reduce(op: Any = op) -> list[torch.Tensor]:
            tensor = values(rank, size, dtype)
            dist.all_reduce(tensor, op)
            return [tensor]

        def reduce(op: Any = op) -> list[torch.Tensor]:
            tensor = values(rank, size, dtype)
            dist.reduce(tensor, ranks - 1, op)
            return [tensor] if rank == ranks - 1 else []

        def reduce_scatter(op: Any = op) -> list[torch.Tensor]:
            output = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter_tensor(output, values(rank, size * ranks, dtype), op)
            parts = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter(parts, [values(rank + other, size, dtype) for other in range(ranks)], op)
            return [output, parts]

        yield f"all_reduce {name}", all_reduce
        yield f"reduce {name}", reduce
        if name in {"SUM", "MAX", "AVG"}:
            yield f"reduce_scatter {name}", reduce_scatter


def moves(rank: int, ranks: int, dtype: torch.dtype, size: int) -> Iterator[Case]:
    mine = values(rank, size, dtype)

    def empty(count: int = 1) -> torch.Tensor:
        return torch.zeros(size * count, dtype=dtype)

    def broadcast() -> list[torch.Tensor]:
        tensors = [mine.clone() for _ in range(ranks)]
        for root, tensor in enumerate(tensors):
            dist.broadcast(tensor, root)
        return tensors

    def all_gather() -> list[torch.Tensor]:
        outputs, whole = [empty() for _ in range(ranks)], empty(ranks)
        dist.all_gather(outputs, mine)
        dist.all_gather_into_tensor(whole, mine)
        return [*outputs, whole]

    def gather() -> list[torch.Tensor]:
        outputs = [empty() for _ in range(ranks)] if rank == 0 else None
        dist.gather(mine, outputs, 0)
        return outputs or []

    def scatter() -> list[torch.Tensor]:
        output, root = empty(), ranks - 1
        dist.scatter(output, [values(other, size, dtype) for other in range(ranks)] if rank == root else None, root)
        return [output]

    def all_to_all() -> list[torch.Tensor]:
        outputs, whole = [empty() for _ in range(ranks)], empty(ranks)
        dist.all_to_all(outputs, [values(rank + 10 * other, size, dtype) for other in range(ranks)])
        dist.all_to_all_single(whole, values(rank, size * ranks, dtype))
        return [*outputs, whole]

    def all_to_all_uneven() -> list[torch.Tensor]:
        sent, received = [rank + other for other in range(ranks)], [rank + other for other in range(ranks)]
        output = torch.zeros((sum(received), 2), dtype=dtype)
        dist.all_to_all_single(output, values(rank, 2 * sum(sent), dtype).view(-1, 2), received, sent)
        return [output]

    def messages() -> list[torch.Tensor]:
        got, later = empty(), empty()
        to, of = (rank + 1) % ranks, (rank - 1) % ranks
        if ranks == 1:
            return []
        ops = [dist.P2POp(dist.isend, mine, to), dist.P2POp(dist.irecv, got, of)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        if rank % 2 == 0 and rank + 1 < ranks:
            dist.send(mine, rank + 1, tag=5)
        elif rank % 2:
            dist.recv(later, rank - 1, tag=5)
        return [got, later]

    for act in (broadcast, all_gather, gather, scatter, all_to_all, all_to_all_uneven, messages):
        yield act.__name__, act


def others(rank: int, ranks: int) -> Iterator[Case]:
    """Calls made together, later and in groups."""

    def asynchronous() -> list[torch.Tensor]:
        tensors = [values(rank + place, 50 + place, torch.float32) for place in range(4)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            work.wait()
            assert work.is_completed()
        return tensors

    def futures() -> list[torch.Tensor]:
        tensor = values(rank, 9, torch.float64)
        return [dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0] * 2).wait()]

    def coalesced() -> list[torch.Tensor]:
        tensors = [values(rank + place, 3 + place, torch.float32) for place in range(3)]
        with dist.distributed_c10d._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        return tensors

    def groups() -> list[torch.Tensor]:
        tensor, half = values(rank, 11, torch.int64), list(range(0, ranks, 2))
        group = dist.new_group(half)
        if rank in half:
            dist.all_reduce(tensor, group=group)
            dist.broadcast(tensor, half[-1], group=group)
            dist.destroy_process_group(group)
        return [tensor]

    def objects() -> list[torch.Tensor]:
        found: list[Any] = [None] * ranks
        dist.all_gather_object(found, {"rank": rank})
        box = [rank]
        dist.broadcast_object_list(box, 0)
        return [torch.tensor([each["rank"] for each in found] + box)]

    def complex_numbers() -> list[torch.Tensor]:
        tensor = torch.complex(values(rank, 5, torch.float32), values(rank + 1, 5, torch.float32))
        dist.all_reduce(tensor)
        copy = tensor + rank
        dist.broadcast(copy, 0)
        return [tensor, copy]

    def empty() -> list[torch.Tensor]:
        tensor, output = torch.zeros(0), torch.zeros(0)
        dist.all_reduce(tensor)
        dist.all_gather_into_tensor(output, tensor)
        dist.barrier()
        return [tensor, output]

    for act in (asynchronous, futures, coalesced, groups, objects, complex_numbers, empty):
        yield act.__name__, act


def cases(rank: int, ranks: int) -> Iterator[Case]:
    for dtype in [*FLOATS, *WHOLES, torch.bool]:
        for size in SIZES:
            for make in (reductions, moves):
                for name, act in make(rank, ranks, dtype, size):
                    yield f"{name} of {size} {dtype}", act
    yield from others(rank, ranks)


def compare(rank: int, ranks: int, folder: str) -> tuple[int, list[str]]:
    """Returns the number of cases that were compared, and those in which the backends differ."""
    found = []
    for backend in ("gloo", "ahbm"):
        dist_ranks.start(backend, rank, ranks, folder)
        found.append([(name, attempt(act)) for name, act in cases(rank, ranks)])
        dist.destroy_process_group()
    wrong, compared = [], 0
    for (name, expected), (_, outputs) in zip(*found, strict=True):
        if isinstance(outputs, str):
            wrong.append(f"{name}: {outputs}")
            continue
        if isinstance(expected, str):
            continue
        compared += 1
        alike = all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(expected, outputs, strict=True))
        if not alike and "AVG" in name:
            pairs = zip(expected, outputs, strict=True)
            alike = all(torch.allclose(a.double(), b.double(), rtol=8e-3) for a, b in pairs)
        if not alike:
            wrong.append(f"{name}: gloo {expected}, ahbm {outputs}")
    return compared, wrong


def attempt(act: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | str:
    """What a case returns, or what it lacks: gloo of older versions has not everything."""
    try:
        return act()
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_collectives_give_what_gloo_gives(ranks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = dist_ranks.processes(compare, ranks, folder, backend="")
    assert [wrong for _, wrong in found] == [[]] * ranks
    assert all(count > 300 for count, _ in found)


def strides(rank: int, ranks: int) -> bool:
    """Whether all is as computed here. Gloo adds up the memory of such tensors, whatever their elements are."""
    expected = [strided(other, torch.float32).clone() for other in range(ranks)]
    tensor, whole = strided(rank, torch.float32), torch.zeros(4 * ranks, 10)[:, ::2]
    outputs = [torch.zeros(5, 4).t() for _ in range(ranks)]
    dist.all_gather(outputs, tensor)
    dist.all_gather_into_tensor(whole, tensor)
    dist.all_reduce(tensor)
    alike = [torch.equal(a, b) for a, b in zip(outputs, expected, strict=True)]
    return all(alike) and torch.equal(tensor, sum(expected)) and torch.equal(whole, torch.cat(expected))


def test_tensors_may_have_strides() -> None:
    assert dist_ranks.processes(strides, 3) == [True] * 3


def beyond(rank: int, ranks: int) -> dict[str, Any]:
    """What gloo does not have."""
    short = torch.full((7,), rank + 1, dtype=torch.int16)
    dist.all_reduce(short)
    scaled = torch.full((7,), rank + 1.0)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    by_tensor = torch.full((7,), rank + 1.0)
    dist.all_reduce(by_tensor, dist._make_nccl_premul_sum(torch.tensor([0.25])))
    # Before 2.14 PyTorch splits only groups that are bound to a device.
    is_old = torch.__version__.startswith(("2.11.", "2.12.", "2.13."))
    split = dist.new_group([0, 1]) if is_old else dist.split_group(split_ranks=[[0, 1]])
    joined = torch.full((3,), rank + 1.0)
    if rank < 2:
        dist.all_reduce(joined, group=split)
    anyone = torch.zeros(2)
    if rank == 0:
        sender = dist.recv(anyone)
    else:
        sender = -1
        if rank == 1:
            dist.send(torch.full((2,), 9.0), 0)
    errors = []
    for make in (
        lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), ReduceOp.AVG),
        lambda: dist.all_reduce(torch.ones(2), ReduceOp.BXOR),
        lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn)),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(ranks + 1)),
        lambda: dist.all_gather_into_tensor(torch.zeros(3), torch.zeros(2)),
    ):
        try:
            make()
        except Exception as error:
            errors.append(str(error))
    return {
        "short": short.tolist(),
        "scaled": scaled.tolist(),
        "by_tensor": by_tensor.tolist(),
        "joined": joined.tolist(),
        "anyone": anyone.tolist(),
        "sender": sender,
        "errors": errors,
    }


def test_short_integers_scaled_sums_splits_and_messages_from_anyone() -> None:
    found = dist_ranks.processes(beyond, 3)
    for rank, each in enumerate(found):
        assert each["short"] == [6] * 7
        assert each["scaled"] == [3.0] * 7
        assert each["by_tensor"] == [1.5] * 7
        assert each["joined"] == [3.0] * 3
    assert found[0]["anyone"] == [9.0, 9.0]
    assert [each["sender"] for each in found] == [1, -1, -1]
    assert found[0]["errors"] == [
        "all_reduce avg of torch.int32: the reduction is not defined for this type",
        "all_reduce bxor of torch.float32: the reduction is not defined for this type",
        found[0]["errors"][2],
        "all_to_all: 4 elements: expected a multiple of the 3 ranks",
        "all_gather: the output has 3 elements: expected 6",
    ]
    assert "float8_e4m3fn: expected one of torch.float16" in found[0]["errors"][2]


def test_a_timeout_can_be_given_to_a_group() -> None:
    assert dist_ranks.processes(_timeouts, 2) == [5.0, 5.0]


def _timeouts(rank: int, ranks: int) -> float:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=5))
    dist.barrier(group)
    return float(group.seconds)
