"""Runs of whole scripts: `cubeyard run train.py`."""

from __future__ import annotations

import math
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from cubeyard.errors import InputError
from cubeyard.torch import _loader, hugging_face
from cubeyard.torch.profiling.explain import quantity, time_text
from cubeyard.torch.profiling.report import Profile
from cubeyard.torch.profiling.runs import Simulation, simulate

__all__ = ["run_script"]

SHOWN = 20
"""Number of steps in the text."""


def run_script(path: Path, arguments: Sequence[str], *, data: bool = True, report: Path | None = None) -> str:
    """Runs a script as `python path arguments` does, and returns the text of its steps; the last one is explained.

    A step ends with a call of an optimizer's `step()`. A script without one is one step. accelerate and the `Trainer` of
    transformers use the device, unless ACCELERATE_TORCH_DEVICE names another.

    Args:
        path: The script.
        arguments: Its arguments.
        data: Whether tensors have data.
        report: File for the page of the last step.

    Raises:
        InputError: There is no such file; or the script did nothing on the device.
    """
    if not path.is_file():
        raise InputError(f"{path}: expected a Python script, found no such file")
    former, named = (sys.argv, sys.path[:]), os.environ.get(hugging_face.VARIABLE)
    os.environ.setdefault(hugging_face.VARIABLE, f"{_loader.name}:0")
    sys.argv, sys.path[:0] = [str(path), *arguments], [str(path.resolve().parent)]
    try:
        with simulate(data=data) as run:
            _executed(path)
    finally:
        sys.argv, sys.path[:] = former
        if named is None:
            os.environ.pop(hugging_face.VARIABLE, None)
    if not run.profile.operations:
        raise InputError(
            f"{path}: the script ran to its end, and did nothing on device {_loader.name!r}; expected a model and inputs there, as by "
            f"model.to({_loader.name!r}), torch.accelerator.current_accelerator(), or accelerator={_loader.name!r} and "
            f"strategy={_loader.name!r} of Lightning (cubeyard.torch.lightning)"
        )
    return _text(run, report)


def _executed(path: Path) -> None:
    """Executes a script. A successful `sys.exit()` is its end."""
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _text(run: Simulation, report: Path | None) -> str:
    steps = run.steps
    lines = [f"step {number}: {_step_text(step)}" for number, step in enumerate(steps, 1)]
    left = len(lines) - SHOWN
    shown = [*lines[:SHOWN], f"{left:,} more steps"] if left > 0 else lines
    if len(steps) > 2:
        shown.append(f"mean from step 2 on: {time_text(sum(step.total_ps for step in steps[1:]) // (len(steps) - 1))}")
    parts = ["\n".join(shown), f"step {len(steps)} explained:\n{steps[-1].explain()}"]
    if report is not None:
        parts.append(f"written: {steps[-1].save(report)}")
    return "\n\n".join(parts)


def _step_text(step: Profile) -> str:
    """Returns the time of a step, its rate in tokens if it has any, and its memory."""
    tokens = tokens_of(step)
    rate = f"{tokens:,} tokens, {tokens * 1e9 / step.total_ps:,.4g} tokens/ms, " if tokens and step.total_ps else ""
    return f"{time_text(step.total_ps)}, {rate}at most {quantity(step.memory.peak_bytes)}"


def tokens_of(step: Profile) -> int:
    """Returns the tokens of a step: the most indices of an embedding in each of its forward passes; 0 without embeddings.

    A step with several forward passes, which accumulates gradients, has the tokens of all of them: equal lookups of one module
    are counted once for each pass.
    """
    lookups: dict[tuple[str, str], int] = {}
    for operation in step.operations:
        if operation.name == "aten::embedding" and operation.site.phase == "forward":
            key = (operation.site.module, operation.shapes)
            lookups[key] = lookups.get(key, 0) + 1
    return max((count * _numel(shapes.split()[-1]) for (_, shapes), count in lookups.items()), default=0)


def _numel(shape: str) -> int:
    """Returns the number of elements of a shape.

    >>> _numel("4x16")
    64
    """
    return math.prod(map(int, shape.split("x")))
