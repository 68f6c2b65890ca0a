"""`python -m cubeyard.triton`: prints the tables of operations and of libdevice's functions in docs/triton.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cubeyard.triton import _integers, _libdevice, _program
from cubeyard.triton._arrays import Arrays
from cubeyard.triton._composed import on_tiles
from cubeyard.triton._elements import NUMPY
from cubeyard.triton._frame import LOWERINGS

__all__ = ["MISSING", "cost", "functions", "table"]

MISSING = (
    "tt.descriptor_gather",
    "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.dot_scaled", "tt.elementwise_inline_asm", "tt.extern_elementwise",
)  # fmt: skip
"""Operations of Triton's language that have no counterpart yet."""

_GROUPS = {
    "_elementwise": "element-wise: on known indices at once, on tiles as chains of MATH",
    "_shapes": "values, program ids and shapes",
    "_joins": "joins and splits: copies in the TCM",
    "_memory": "loads and stores: strided boxes by one DMA command, other patterns by one for each run",
    "_descriptors": "descriptors that a kernel or the host makes",
    "_reduce": "reductions and scans",
    "_reduce.product": "products on GEMM",
    "_lookups": "gathers and histograms: comparisons with every index",
    "_map": "functions of single elements, both sides of each branch",
    "_print": "prints of the running kernel, on the host",
    "_flow": "loops, branches, calls and assertions: recorded over known values, live over loaded ones",
    "_atomics": "atomic operations",
    "_atomic_reads": "atomic operations that only read",
}


def _group(make: Callable[..., Any]) -> str:
    """Returns the group of a lowering function: its own group, or the group of its module."""
    module = make.__module__.rpartition(".")[2]
    return f"{module}.{make.__name__}" if f"{module}.{make.__name__}" in _GROUPS else module


def table() -> str:
    """Returns a table of the supported operations by kind, and of the unsupported ones."""
    assert _program is not None, "importing it registers all operations"
    lines = ["| kind | operations |", "|---|---|"]
    for group, about in _GROUPS.items():
        own = sorted(name for name, make in LOWERINGS.items() if not name.startswith("ahbm.") and _group(make) == group)
        lines.append(f"| {about} | {', '.join(f'`{name}`' for name in own)} |")
    lines.append(f"| not supported: an error names the line | {', '.join(f'`{name}`' for name in MISSING)} |")
    return "\n".join(lines) + "\n"


_SPECIAL = frozenset({"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos", "div", "rem", "pow"})
_OPERANDS = {"atan2": 2, "hypot": 2, "copysign": 2, "remainder": 2, "fdim": 2, "rhypot": 2, "norm3d": 3, "norm4d": 4, "rnorm3d": 3,
             "rnorm4d": 4, "ldexp": 2, "mulhi": 2, "mul64hi": 2, "mul24": 2, "umul24": 2, "hadd": 2, "uhadd": 2, "rhadd": 2, "urhadd": 2,
             "sad": 3, "usad": 3, "nextafter": 2, "pow": 2}  # fmt: skip
"""Numbers of operands, if more than one."""


def cost(name: str) -> tuple[int, int]:
    """Returns how many operations of the classes `special` and `simple` a function has, for operands of 32 bits."""
    element = "i64" if name == "mul64hi" else "i32" if name in _integers.BITS and name not in ("nextafter", "pow") else "f32"
    compute, tl = on_tiles(f"ahbm.{name}", element, element), Arrays()
    assert compute is not None, "the names are of compositions"
    with np.errstate(all="ignore"):
        compute(tl, *[np.ones(1, NUMPY[element])] * _OPERANDS.get(name, 1))
    special = sum(call in _SPECIAL for call in tl.calls)
    return special, len(tl.calls) - special


def functions() -> str:
    """Returns a table of the functions of libdevice that are composed, by their cost."""
    rows: dict[tuple[int, int], list[str]] = {}
    for name in sorted({*_libdevice.FLOATS, *_integers.BITS} - {"floor", "ceil", "rcp"}):
        rows.setdefault(cost(name), []).append(f"`{name}`")
    lines = ["| special | simple | functions |", "|---|---|---|"]
    order = sorted(rows, key=lambda counts: (4 * counts[0] + counts[1], counts))
    lines += [f"| {counts[0]} | {counts[1]} | {', '.join(rows[counts])} |" for counts in order]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), functions(), sep="\n", end="")
