"""`python -m cubeyard.triton`: prints the table of operations in docs/triton.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cubeyard.triton import _program
from cubeyard.triton._frame import LOWERINGS

__all__ = ["MISSING", "table"]

MISSING = (
    "tt.approx_divf", "tt.atomic_load", "tt.atomic_poll", "tt.atomic_store", "tt.call", "tt.cat", "tt.descriptor_gather",
    "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.dot_scaled", "tt.elementwise_inline_asm", "tt.extern_elementwise",
    "tt.gather", "tt.histogram", "tt.map_elementwise", "tt.print",
)  # fmt: skip
"""Operations of Triton's language that have no counterpart yet."""

_GROUPS = {
    "_elementwise": "element-wise: on known indices at once, on tiles as chains of the vector unit",
    "_shapes": "values, program ids and shapes",
    "_memory": "loads and stores: strided boxes by one DMA command, other patterns by one for each run",
    "_descriptors": "descriptors that a kernel or the host makes",
    "_reduce": "reductions and scans",
    "_reduce.product": "products on the matrix unit",
    "_flow": "loops, branches and assertions: recorded over known values, live over loaded ones",
    "_atomics": "atomic operations",
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


if __name__ == "__main__":
    print(table(), end="")
