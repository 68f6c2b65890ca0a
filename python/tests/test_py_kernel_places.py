"""Commands have the same places and times whether a kernel is recorded, replayed from a recording, or runs live."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cubeyard
from kernel_lab import ROWS

STEPS = ["add", "exp", "load", "store", "full", "within"]


class Place(NamedTuple):
    file: str
    line: int


def drawn(seed: int) -> tuple[tuple[str, Place | None], ...]:
    """Returns random steps, most of which have a place in one of two files."""
    rand = random.Random(seed)
    places = [None, *(Place(f"/home/author/{name}.txt", line) for name in "ab" for line in (1, 2, 30))]
    return tuple((rand.choice(STEPS), rand.choice(places)) for _ in range(rand.randint(1, 12)))


def step(name: str, tile: Any, x: Any, out: Any, tl: Any) -> Any:
    if name == "add":
        return tile + 1.5
    if name == "exp":
        return tl.exp(tile * 0.125)
    if name == "load":
        return tile + tl.load(x)
    if name == "store":
        tl.store(out, tile)
        return tile
    if name == "full":
        return tile * tl.full(tile.shape, 0.5, "f32")
    before, tl.place = tl.place, Place("/home/author/within.txt", 9)
    tile = tile - tl.load(x)
    tl.place = before
    return tile


def body(steps: tuple[tuple[str, Place | None], ...], x: Any, out: Any, tl: Any) -> None:
    CALLS.append(tl.program_id())
    tile = tl.load(x)
    for name, place in steps:
        tl.place = place
        tile = step(name, tile, x, out, tl)
    tl.store(out, tile)


class _Calls(list[int]):
    """Counts calls of the kernels, and is the same in every fingerprint."""

    def __fingerprint__(self) -> Any:
        return "calls"


CALLS = _Calls()


def kernels(seed: int) -> dict[str, Any]:
    """Returns the same kernel three times: its recordings are reused, or it is recorded for each launch, or it runs live."""
    steps, changing = drawn(seed), [0]

    def reused(x, out, tl):
        body(steps, x, out, tl)

    def recorded(x, out, tl):
        assert changing == [0]
        body(steps, x, out, tl)

    async def live(x, out, tl):
        body(steps, x, out, tl)

    made = {"reused": cubeyard.jit(reused, name="k"), "recorded": cubeyard.jit(recorded, name="k")}
    return {**made, "live": cubeyard.jit(live, name="k", live=True)}


def traced(kernel: Any, path: Path, live: bool = False) -> tuple[bytes, list[float], int]:
    """Launches a kernel twice; returns the trace, the times of both launches, and the number of calls."""
    times = []

    @cubeyard.bench(name="places")
    def launches(torch):
        x = torch.from_numpy(np.linspace(0, 1, 64 * 32, dtype=np.float32).reshape(64, 32)).to(ROWS)
        out = torch.zeros((64, 32), dtype="f32").to(ROWS)
        for _ in range(2):
            times.append(torch.launch(kernel, x, out, cubes=[0, 1], pes=[0, 3]).max_ps)

    CALLS.clear()
    run = cubeyard.run(launches, data=True, live=live)
    return run.trace(path).read_bytes(), times, len(CALLS)


@pytest.mark.parametrize("seed", range(12))
def test_recorded_replayed_and_live_kernels_have_the_same_places_and_times(seed: int, tmp_path: Path) -> None:
    made = kernels(seed)
    reused, times, calls = traced(made["reused"], tmp_path / "reused.pftrace")
    assert times[0] > 0 and calls == 4
    given = {f"{Path(place.file).name}:{place.line}" for name, place in drawn(seed) if place and name != "within"}
    assert all(place.encode() in reused for place in given)
    for name, live in [("recorded", False), ("live", False), ("reused", True)]:
        trace, found, calls = traced(made[name], tmp_path / f"{name}.pftrace", live)
        assert (found, calls) == (times, 8), name
        assert trace == reused, name
