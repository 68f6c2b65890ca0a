"""Chooses a machine for a language model: a small grid of designs, what each costs, and which are worth their cost.

    python python/examples/tutorial_machine.py                # 12 designs for one sequence
    python python/examples/tutorial_machine.py --exercise     # the answer of the exercise: 32 sequences

`docs/tutorials/machine.md` goes through it.
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cubeyard import model

CHAT = {"name": "chat-1b", "layers": 16, "hidden": 2048, "ffn": 8192, "heads": 32, "kv_heads": 8, "head_dim": 64, "vocab": 32000}
"""Model of 1.1 billion weights."""

KNOBS = {"message.latency": (1.0, 2.0), "hbm.bandwidth": (0.5, 1.0, 2.0), "pe.gemm": (1.0, 2.0)}
"""Groups of topology keys, with the factors to try. 2.0 is always twice as fast."""

PRICES = {"message.latency": 30.0, "hbm.bandwidth": 40.0, "pe.gemm": 20.0}
"""Prices of the knobs at factor 1, in arbitrary units; a price grows with its factor. These are assumptions: put yours here."""

BASE = 10.0
"""Price of everything else."""


@dataclass(frozen=True)
class Design:
    """One machine, with the time of a decode step."""

    factors: tuple[float, ...]
    microseconds: float

    @property
    def cost(self) -> float:
        """Price of the machine."""
        return BASE + sum(price * factor for price, factor in zip(PRICES.values(), self.factors, strict=True))

    def __str__(self) -> str:
        knobs = "  ".join(f"{name}={factor:g}x" for name, factor in zip(KNOBS, self.factors, strict=True))
        return f"{knobs:54} cost {self.cost:5.0f}  {self.microseconds:7.1f} µs"


def measured(factors: tuple[float, ...], batch: int) -> Design:
    """Simulates a decode step on one machine."""
    topology = {name: f"{factor:g}x" for name, factor in zip(KNOBS, factors, strict=True)}
    step = model.step(CHAT, context=512, batch=batch, topology=topology)
    return Design(factors, step.total_ns / 1e3)


def front(designs: list[Design]) -> list[Design]:
    """Returns the designs that no other one beats in both cost and time, by cost."""
    best: list[Design] = []
    for design in sorted(designs, key=lambda one: (one.cost, one.microseconds)):
        if not best or design.microseconds < best[-1].microseconds:
            best.append(design)
    return best


def study(batch: int) -> list[Design]:
    """Measures all designs, marks those on the Pareto front, and returns the front."""
    with ThreadPoolExecutor() as pool:
        designs = list(pool.map(lambda factors: measured(factors, batch), itertools.product(*KNOBS.values())))
    best = front(designs)
    print(f"decode step of {CHAT['name']}, batch {batch}; ★ is on the Pareto front")
    for design in sorted(designs, key=lambda one: one.cost):
        print("★" if design in best else " ", design)
    return best


def main() -> None:
    """Prints the study, and the design with the least product of cost and time."""
    batch = 32 if sys.argv[1:] == ["--exercise"] else 1
    best = min(study(batch), key=lambda one: one.cost * one.microseconds)
    print(f"least cost × time:\n  {best}")


if __name__ == "__main__":
    main()
