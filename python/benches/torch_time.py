"""Prints the host time of GPT-2 small on the device with simulated time and without it, as ratios of one run.

    python python/benches/torch_time.py                 # without a compiler, and the cost of an operator
    python python/benches/torch_time.py --compiled      # also with torch.compile

The model of transformers has 124 million parameters; a step is a forward and a backward pass of 256 tokens. Goals: 60 s for
the first step, 1.3 times the time without simulated time for later ones, 5 µs for an operator whose shapes are known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

import cubeyard.torch
from cubeyard import _native

STEPS = 3
CALLS = 2000


def seconds(work: Callable[[], object], *, timed: bool) -> float:
    """Returns the seconds of the processor for one call, with or without simulated time of operators."""
    _native.torch_set_timed(timed)
    begin = time.process_time()
    work()
    torch.ahbm.synchronize()
    return time.process_time() - begin


def step(model: Any, tokens: torch.Tensor) -> Callable[[], None]:
    """Returns a forward and a backward pass."""

    def work() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        for parameter in model.parameters():
            parameter.grad = None

    return work


def measured(name: str, model: Any, tokens: torch.Tensor) -> None:
    """Prints the first step and the later ones, with simulated time and without, in turn."""
    work = step(model, tokens)
    wall = time.perf_counter()
    # Without time first: what the host loads and compiles for the first time is no part of the simulation.
    plain = seconds(work, timed=False)
    first = seconds(work, timed=True)
    wall = time.perf_counter() - wall
    print(f"{name}: first step {plain:.1f} s without time, then {first:.1f} s with it ({wall:.1f} s of both by the clock)", flush=True)
    without, with_time = [], []
    for _ in range(STEPS):
        without.append(seconds(work, timed=False))
        with_time.append(seconds(work, timed=True))
    print(f"{name}: later steps {min(with_time):.3f} s, {min(with_time) / min(without):.2f} times those without time", flush=True)
    report = cubeyard.torch.profile(work)
    parts = f"{len(report.operations)} operations, {report.estimated_share:.2%} estimated"
    print(f"{name}: {report.total_ms:.3f} ms simulated, {parts}", flush=True)


def overhead() -> None:
    """Prints what simulated time adds to an operator whose shapes are known."""
    x, out = torch.ones(8, device="ahbm"), torch.empty(8, device="ahbm")

    def work() -> None:
        for _ in range(CALLS):
            torch.add(x, x, out=out)

    seconds(work, timed=True)
    pairs = [(seconds(work, timed=False), seconds(work, timed=True)) for _ in range(20)]
    plain, timed = (min(one[at] for one in pairs) / CALLS * 1e6 for at in (0, 1))
    print(f"add of 8 elements: {plain:.2f} µs without time, {timed - plain:.2f} µs more with it (goal: 5)", flush=True)


def main(words: list[str]) -> None:
    """Prints all figures."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    overhead()
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).to("ahbm")
    tokens = torch.randint(0, 50257, (1, 256)).to("ahbm")
    measured("eager", model, tokens)
    if "--compiled" in words:
        measured("compiled", torch.compile(model), tokens)


if __name__ == "__main__":
    main(sys.argv[1:])
