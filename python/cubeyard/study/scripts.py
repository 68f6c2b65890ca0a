"""Scripts with Triton kernels as benches: `cubeyard run FILE.py::KERNEL` runs the script and reports the kernel."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cubeyard.errors import InputError
from cubeyard.study.context import BenchContext

__all__ = ["Measured", "ScriptKernel", "kernels", "measured"]


class ScriptKernel(NamedTuple):
    """Triton kernel in a script, with the arguments of the bench that measures it."""

    function: Callable[[BenchContext], None]
    """Runs the script, with launches of the kernel on the context."""
    name: str
    description: str
    place: tuple[str, int]
    """File and line of the kernel."""


@dataclass(frozen=True)
class Measured:
    """Kernel to measure while a script runs. `cubeyard.triton` launches it on the context."""

    kernel: str
    context: BenchContext
    launched: list[str] = field(default_factory=list)
    """Names of all kernels launched by the script, in order."""


measured: ContextVar[Measured | None] = ContextVar("measured", default=None)
"""Kernel being measured, if a script is running as a bench."""


def kernels(path: Path) -> list[ScriptKernel]:
    """Returns the Triton kernels in a file without running the file."""
    try:
        text = path.read_text()
        tree = ast.parse(text) if "triton" in text else None
    except (OSError, SyntaxError, ValueError):
        return []
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef)] if tree is not None else []
    return [_kernel(path, one) for one in found if any(map(_is_jit, one.decorator_list))]


def _is_jit(decorator: ast.expr) -> bool:
    """Returns whether a decorator is `triton.jit`, with or without arguments."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(name) == "triton.jit"


def _kernel(path: Path, kernel: ast.FunctionDef) -> ScriptKernel:
    def script(context: BenchContext) -> None:
        _run(path, kernel.name, context)

    description = f"launches of the Triton kernel {kernel.name} by {path.name}"
    return ScriptKernel(script, kernel.name, description, (str(path.resolve()), kernel.lineno))


def _run(path: Path, name: str, context: BenchContext) -> None:
    """Runs a script, with launches of one kernel on the context of the bench."""
    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")
    arguments, sys.argv = sys.argv, [str(path)]
    sys.path.insert(0, str(path.resolve().parent))
    kernel = Measured(name, context)
    token = measured.set(kernel)
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        measured.reset(token)
        sys.argv = arguments
        sys.path.pop(0)
    _check(path, name, kernel.launched)


def _check(path: Path, name: str, launched: list[str]) -> None:
    if name not in launched:
        others = ", ".join(dict.fromkeys(launched)) or "none"
        raise InputError(f"{path}::{name}: expected the script to launch this kernel; it launched: {others}")
