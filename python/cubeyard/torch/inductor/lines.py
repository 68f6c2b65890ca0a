"""Lines of the user's program for the launches of a compiled graph.

Inductor knows the stack of each operator of the graph. The generated program has these lines as a comment before each
launch, so they are in Inductor's caches with it, and a launch finds them from its stack.
"""

from __future__ import annotations

import functools
import linecache
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["of_graph", "of_launch", "register", "write"]

MARK = "# program: "
"""Begin of the comment in generated programs."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_MOST_LINES = 8
"""Maximum number of lines that a launch names."""


def of_stack(stack: str | None) -> str | None:
    """Returns the innermost line of a stack that is not PyTorch's own, as `file:line`.

    >>> of_stack('File "/home/me/model.py", line 42, in forward')
    '/home/me/model.py:42'
    """
    found = [(file, line) for file, line in _FRAME.findall(stack or "") if not file.startswith(_own()) and not file.startswith("<")]
    return f"{found[-1][0]}:{found[-1][1]}" if found else None


@functools.cache
def _own() -> str:
    import torch

    return str(Path(torch.__file__).parent) + "/"


def of_nodes(nodes: Iterable[Any]) -> list[str]:
    """Returns the lines of nodes of a graph, each once."""
    return list(dict.fromkeys(line for node in nodes if (line := of_stack(node.meta.get("stack_trace")))))


def of_graph(graph: Any) -> list[str | None]:
    """Returns the line of each operator of a graph, in order."""
    return [of_stack(node.meta.get("stack_trace")) for node in graph.nodes if node.op not in ("placeholder", "output")]


def write(nodes: Any) -> None:
    """Writes the lines of scheduled nodes, or of one operator, into the generated program.

    Args:
        nodes: Nodes of Inductor's schedule, or one `ExternKernel`.
    """
    from torch._inductor.utils import aggregate_origins
    from torch._inductor.virtualized import V

    found = of_nodes(sorted(aggregate_origins(nodes), key=lambda node: node.name))
    V.graph.wrapper_code.writeline(MARK + (", ".join(sorted(found, key=_position)[:_MOST_LINES]) or "unknown"))


def _position(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number)


def of_launch() -> tuple[str, ...]:
    """Returns the lines of the user's program for the launch that is being made; empty outside generated programs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Generated programs import these operators, under a name of Inductor's own.
        if frame.f_code.co_name == "call" and "extern_kernels" in frame.f_globals:
            return _before(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ()


@functools.lru_cache(maxsize=4096)
def _before(file: str, number: int) -> tuple[str, ...]:
    """Returns the lines that the nearest comment before a line of a generated program names."""
    for line in reversed(linecache.getlines(file)[:number]):
        text = line.strip()
        if text.startswith(MARK):
            named = text.removeprefix(MARK)
            return () if named == "unknown" else tuple(named.split(", "))
    return ()


def register() -> None:
    """Adds the lines of a graph's operators to its key in Inductor's caches, since the cached program names them."""
    from torch._inductor.codecache import FxGraphHashDetails

    plain = FxGraphHashDetails.__init__
    if hasattr(plain, "__cubeyard__"):
        return

    @functools.wraps(plain)
    def made(details: Any, graph: Any, *rest: Any, **named: Any) -> None:
        plain(details, graph, *rest, **named)
        details.program_lines = of_graph(graph.graph)

    made.__cubeyard__ = True  # type: ignore[attr-defined]
    FxGraphHashDetails.__init__ = made
