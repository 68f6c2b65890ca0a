"""Backward passes beside collectives, on one timeline of all ranks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import dist_ranks
import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy

import cubeyard.torch.distributed as ahbm
from cubeyard.errors import DistributedError, InputError
from cubeyard.torch._timeline import Timeline, TimelineSpan
from cubeyard.torch.distributed import _gathering

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import torch_ddp_overlap as example

TINY = example.Shape(layers=2, heads=2, width=32, context=16, batch=2)
SMALL, LARGE = 0.02, 25.0
"""Buckets of a part of a block, and one for all gradients, in MiB."""


def trained(rank: int, ranks: int, *modes: str) -> dict[str, Any]:
    """The last steps of a rank, by mode. Processes take longer to start than to train, so one world has several modes."""
    torch.ahbm.set_device(rank)
    return {mode: MODES[mode](rank, ranks) for mode in modes}


def step(rank: int, ranks: int, *given: Any) -> Any:
    return example.Step(ranks, *example.steps(TINY, rank, *given))


def unobserved(rank: int, ranks: int) -> Any:
    with mock.patch.object(torch.ahbm, "record_timeline", lambda: contextlib.nullcontext(Timeline())):
        return step(rank, ranks, False, SMALL)


def gradients(rank: int, ranks: int, sharded: bool) -> list[torch.Tensor]:
    model = example.made(TINY, sharded, SMALL)
    example.loss_of(model, TINY, rank).backward()
    whole = [parameter.grad.full_tensor() if sharded else parameter.grad for parameter in model.parameters()]
    return [gradient.cpu() for gradient in whole]


MODES: dict[str, Callable[[int, int], Any]] = {
    "small": lambda *ranks: step(*ranks, False, SMALL),
    "large": lambda *ranks: step(*ranks, False, LARGE),
    "unobserved": unobserved,
    "f32": lambda *ranks: step(*ranks, True, SMALL),
    "late": lambda *ranks: step(*ranks, True, SMALL, False),
    "bf16": lambda *ranks: step(*ranks, True, SMALL, True, MixedPrecisionPolicy(torch.bfloat16, torch.float32)),
    "gradients": lambda *ranks: gradients(*ranks, False),
    "sharded gradients": lambda *ranks: gradients(*ranks, True),
}


@pytest.fixture(scope="module")
def pair() -> list[dict[str, Any]]:
    """What two ranks find in all modes."""
    return dist_ranks.processes(trained, 2, *MODES)


@pytest.fixture(scope="module")
def steps(pair: list[dict[str, Any]]) -> dict[int, Any]:
    """The last step of worlds of 1, 2 and 4 ranks."""
    return {2: pair[0]["small"], **{ranks: dist_ranks.processes(trained, ranks, "small")[0]["small"] for ranks in (1, 4)}}


def operators(step: Any, rank: int = 0) -> list[tuple[str, int]]:
    tracks = f"rank {rank}: ahbm:{rank} stream "
    return [(s.name, s.end_ps - s.begin_ps) for s in step.timeline.spans if s.track.startswith(tracks) and s.kind == "operator"]


def overlap(step: Any) -> float:
    """Nanoseconds in which rank 0 has a collective and an operator."""
    work = step.spans("operator")
    return sum(
        max(0.0, min(one.end_ns, other.end_ns) - max(one.begin_ns, other.begin_ns))
        for one in step.spans("collective")
        for other in work
    )


def test_more_ranks_change_no_operator(steps: dict[int, Any]) -> None:
    assert len(operators(steps[1])) > 50
    for ranks in (2, 4):
        for rank in range(ranks):
            assert operators(steps[ranks], rank) == operators(steps[1])


def test_the_step_is_the_sum_of_its_parts(steps: dict[int, Any]) -> None:
    for ranks in (2, 4):
        step = steps[ranks]
        assert step.time == pytest.approx(example.expected(steps[1], step), abs=0.01)
        assert max(step.compute, step.communication) <= step.time < step.compute + step.communication
    assert steps[4].communication > steps[2].communication > steps[1].communication


def test_backward_operators_run_beside_reductions(steps: dict[int, Any]) -> None:
    for ranks in (2, 4):
        step = steps[ranks]
        assert len(step.spans("collective")) > 3
        assert overlap(step) > 0.3 * step.communication
        assert 0.3 < step.hidden < 1, "the last reduction cannot be hidden"


def test_a_timeline_has_all_ranks(steps: dict[int, Any]) -> None:
    timeline = steps[4].timeline
    tracks = {span.track for span in timeline.spans}
    assert tracks == {f"rank {rank}: {part}" for rank in range(4) for part in ("0", f"ahbm:{rank} stream 0")}
    each = [sorted((s.begin_ps, s.end_ps) for s in timeline.spans if s.track == f"rank {rank}: 0") for rank in range(4)]
    assert each[0] == each[1] == each[2] == each[3], "a collective has one time for all ranks"
    assert all(max(size for _, size in timeline.memory[device]) > 0 for device in range(4))


def test_buckets_change_communication_only(pair: list[dict[str, Any]]) -> None:
    small, large = pair[0]["small"], pair[0]["large"]
    assert operators(large) == operators(small)
    assert len(large.spans("collective")) == 1 < len(small.spans("collective"))
    assert large.communication < small.communication, "each collective has a latency"
    assert large.time > small.time, "one reduction after the backward pass is not hidden"


def test_a_timeline_changes_no_time(pair: list[dict[str, Any]]) -> None:
    for rank in range(2):
        found, observed = pair[rank]["unobserved"], pair[rank]["small"]
        assert not found.timeline.spans
        assert found.time == pytest.approx(observed.time, abs=0.002)


@pytest.mark.parametrize("mode", ["gradients", "sharded gradients"])
def test_gradients_are_those_of_one_process(mode: str, pair: list[dict[str, Any]], device: str) -> None:
    torch.manual_seed(0)
    model = example.GPT(TINY).to(device)
    sum(example.loss_of(model, TINY, rank) / 2 for rank in range(2)).backward()
    expected = [parameter.grad.cpu() for parameter in model.parameters()]
    assert any(gradient.abs().max() > 1e-3 for gradient in expected)
    for found in pair:
        for mine, theirs in zip(found[mode], expected, strict=True):
            assert torch.allclose(mine, theirs, atol=1e-6), (mine - theirs).abs().max()


@pytest.mark.parametrize("mode", ["f32", "bf16"])
def test_weights_are_gathered_beside_operators(mode: str, pair: list[dict[str, Any]]) -> None:
    step = pair[0][mode]
    names = [span.name for span in step.spans("collective")]
    assert names.count("all_gather") >= 2 * TINY.layers and names.count("reduce_scatter") > TINY.layers
    gathers = [span for span in step.spans("collective") if span.name == "all_gather"]
    assert any(one.begin_ps < gather.end_ps and gather.begin_ps < one.end_ps for gather in gathers for one in step.spans("operator"))
    assert max(step.compute, step.communication) <= step.time < step.compute + step.communication
    assert step.hidden > 0.3


def test_weights_that_are_gathered_earlier_hide_more(pair: list[dict[str, Any]]) -> None:
    early, late = pair[0]["f32"], pair[0]["late"]
    assert sorted(operators(early)) == sorted(operators(late))
    assert early.communication == pytest.approx(late.communication, abs=0.01)
    assert early.time < late.time


# ---- Gathering ----


def test_bytes_of_several_processes_are_added() -> None:
    span = TimelineSpan("sleep", "sleep", "ahbm:0 stream 0", 0, 1)
    first, second = Timeline([span], {0: [(0, 5), (10, 0)]}), Timeline([span], {0: [(0, 0), (4, 2)], 1: [(3, 1)]})
    both = _gathering.merged([first, second])
    assert [one.track for one in both.spans] == ["rank 0: ahbm:0 stream 0", "rank 1: ahbm:0 stream 0"]
    assert both.memory == {0: [(0, 5), (4, 7), (10, 2)], 1: [(3, 1)]}


def test_gathering_without_ranks_or_timeline() -> None:
    with pytest.raises(InputError, match="expected a Timeline"):
        ahbm.gather_timeline("x")  # type: ignore[arg-type]
    with pytest.raises(DistributedError, match="init_process_group"):
        ahbm.gather_timeline(Timeline())


def test_a_rank_that_does_not_gather_is_named() -> None:
    store = dist.HashStore()
    store.set_timeout(timedelta(milliseconds=10))
    with pytest.raises(DistributedError, match="rank 1 has given no timeline"):
        _gathering._one(store, "timeline 1 of 1", 1)
