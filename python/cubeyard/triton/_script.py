"""Scripts with Triton kernels as benches: `cubeyard run FILE.py::KERNEL` runs the script and reports that kernel."""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from cubeyard.errors import InputError
from cubeyard.study.bench import Bench, BenchContext

__all__ = ["benches"]


def benches(path: Path) -> list[Bench]:
    """Returns a bench for each kernel of a file, which is not run yet; none if it has no kernels of Triton."""
    try:
        text = path.read_text()
        tree = ast.parse(text) if "triton" in text else None
    except (OSError, SyntaxError, ValueError):
        return []
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef)] if tree is not None else []
    return [_bench(path, one) for one in found if any(map(_is_jit, one.decorator_list))]


def _is_jit(decorator: ast.expr) -> bool:
    """Returns whether a decorator is `triton.jit`, with or without arguments."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(name) == "triton.jit"


def _bench(path: Path, kernel: ast.FunctionDef) -> Bench:
    def script(context: BenchContext) -> None:
        _run(path, kernel.name, context)

    description = f"launches of the Triton kernel {kernel.name} by {path.name}"
    return Bench(script, kernel.name, description, (str(path.resolve()), kernel.lineno))


def _run(path: Path, name: str, context: BenchContext) -> None:
    """Runs a script; launches of one kernel take place on the context of the bench."""
    from cubeyard.triton import _record

    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")
    arguments, sys.argv = sys.argv, [str(path)]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with _record.on_context(name, context) as launched:
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = arguments
        sys.path.pop(0)
    _check(path, name, launched)


def _check(path: Path, name: str, launched: list[Any]) -> None:
    if name not in launched:
        others = ", ".join(dict.fromkeys(launched)) or "none"
        raise InputError(f"{path}::{name}: expected the script to launch this kernel; it launched: {others}")
