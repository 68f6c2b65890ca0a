"""Kernels and collectives of ranks on one clock."""

from __future__ import annotations

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import pytest
import torch
import torch.distributed as dist
import triton
import triton.language as tl
from dist_ranks import processes


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def doubled(x: torch.Tensor, times: int = 1) -> None:
    for _ in range(times):
        double[(triton.cdiv(len(x), 128),)](x, len(x), BLOCK=128)


def waits(rank: int, ranks: int) -> list[tuple[str, int, int]]:
    """A kernel, or two on the last rank, then a collective, then a kernel."""
    torch.ahbm.set_device(rank)
    x = torch.ones(1000, device="ahbm")
    with torch.ahbm.record_timeline() as timeline:
        doubled(x, 2 if rank == ranks - 1 else 1)
        dist.all_reduce(x)
        doubled(x)
    assert x.eq(2 * (2 * (ranks - 1) + 4)).all()
    return [(span.name, span.begin_ps, span.end_ps) for span in timeline.spans]


def overlaps(rank: int, ranks: int) -> list[tuple[str, int, int]]:
    """A kernel beside a collective that nobody has waited for."""
    torch.ahbm.set_device(rank)
    x, y = torch.ones(1 << 16, device="ahbm"), torch.ones(1000, device="ahbm")
    with torch.ahbm.record_timeline() as timeline:
        work = dist.all_reduce(x, async_op=True)
        doubled(y)
        work.wait()
        doubled(y)
    return [(span.name, span.begin_ps, span.end_ps) for span in timeline.spans]


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_collective_waits_for_the_kernels_of_all_ranks(ranks: int) -> None:
    found = processes(waits, ranks, TRITON_DEFAULT_BACKEND="ahbm")
    last = max(end for spans in found for name, _, end in spans[:-2])
    for spans in found:
        *before, (name, begin, end), (_, next_begin, _) = spans
        assert name == "all_reduce" and begin == last >= before[-1][2], "the slowest rank decides"
        assert end > begin and next_begin == end, "a kernel after it waits for it"
    assert found[0][0][2] < found[-1][1][2]


def test_a_kernel_runs_beside_a_collective_until_it_is_waited_for() -> None:
    for spans in processes(overlaps, 2, TRITON_DEFAULT_BACKEND="ahbm"):
        [reduced] = [span for span in spans if span[0] == "all_reduce"]
        first, second = [span for span in spans if span[0] == "double"]
        assert first[1] == reduced[1], "both begin at once"
        assert second[1] == max(first[2], reduced[2])
