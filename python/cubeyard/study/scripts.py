"""Scripts with Triton kernels as benches: `cubeyard run FILE.py::KERNEL` runs the script and reports the kernel."""

from __future__ import annotations

import ast
import io
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple, TextIO

from cubeyard.errors import InputError
from cubeyard.study.context import BenchContext

__all__ = ["Measured", "ScriptKernel", "kernels", "measured", "print_once", "uses_torch"]

TORCH = {"accelerate", "lightning", "pytorch_lightning", "torch", "transformers"}
"""Packages whose import makes a file a script of PyTorch's."""


class ScriptKernel(NamedTuple):
    """Triton kernel in a script, with the arguments of the bench that measures it."""

    function: Callable[[BenchContext], None]
    """Runs the script, with launches of the kernel on the context."""
    name: str
    description: str
    place: tuple[str, int]
    """File of the script, and line of the kernel or of its import."""


@dataclass(frozen=True)
class Measured:
    """Kernel to measure while a script runs. `cubeyard.triton` launches it on the context."""

    kernel: str
    context: BenchContext
    launched: list[str] = field(default_factory=list)
    """Names of all kernels launched by the script, in order."""


measured: ContextVar[Measured | None] = ContextVar("measured", default=None)
"""Kernel being measured, if a script is running as a bench."""


_printing: TextIO | None = None
"""Where scripts print to in their first run, and nowhere later; None if each run prints to the standard output."""
_printed: set[Path] = set()
"""Scripts that had their first run."""


def print_once(stream: TextIO) -> None:
    """Lets scripts print to a stream in their first run only: a command may run one many times, as with `--levers`."""
    global _printing
    _printing = stream


def kernels(path: Path) -> list[ScriptKernel]:
    """Returns the Triton kernels that a file defines or imports, without running the file.

    A file with benches of its own may import kernels for them. It is no script, unless it defines kernels itself.
    """
    tree = _parsed(path)
    if tree is None:
        return []
    own = {one.name: one.lineno for one in _defined(tree)}
    imported = {} if _has_benches(tree) and not own else _imported(tree, path)
    return [_kernel(path, name, line) for name, line in {**imported, **own}.items()]


def uses_torch(path: Path) -> bool:
    """Returns whether a file imports PyTorch or a framework over it, and has neither benches nor Triton kernels. It is not run."""
    tree = _parsed(path)
    if tree is None or _has_benches(tree) or kernels(path):
        return False
    names = [alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names]
    names += [one.module for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module and not one.level]
    return any(name.partition(".")[0] in TORCH for name in names)


def _parsed(path: Path) -> ast.Module | None:
    """Returns the syntax tree of a file, or None if the file is no readable Python."""
    try:
        return ast.parse(path.read_text())
    except (OSError, SyntaxError, ValueError):
        return None


def _defined(tree: ast.Module) -> list[ast.FunctionDef]:
    """Returns the functions of a file that Triton compiles."""
    return [one for one in tree.body if isinstance(one, ast.FunctionDef) and any(map(_is_jit, one.decorator_list))]


def _has_benches(tree: ast.Module) -> bool:
    decorators = (ast.unparse(one) for of in tree.body if isinstance(of, ast.FunctionDef) for one in of.decorator_list)
    return any(one.partition("(")[0] in ("bench", "cubeyard.bench") for one in decorators)


def _imported(tree: ast.Module, path: Path) -> dict[str, int]:
    """Returns the kernels that a file imports, with the lines of the imports."""
    found: dict[str, int] = {}
    known: Known = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            for alias in one.names:
                for name in _exported(_module(alias.name, 0, path), known):
                    found.setdefault(name, one.lineno)
        elif isinstance(one, ast.ImportFrom):
            for name in _taken(one, path, known):
                found.setdefault(name, one.lineno)
    return found


Known = dict[Path, set[str]]
"""Kernels of modules that were read; none so far for a module that is being read, since modules may import each other."""


def _taken(statement: ast.ImportFrom, path: Path, known: Known) -> set[str]:
    """Returns the kernels that `from module import names` gives, where a name may be a module."""
    exported = _exported(_module(statement.module or "", statement.level, path), known)
    names = {alias.name for alias in statement.names}
    found = exported if "*" in names else exported & names
    for name in names - exported - {"*"}:
        inner = f"{statement.module}.{name}" if statement.module else name
        found = found | _exported(_module(inner, statement.level, path), known)
    return found


def _exported(path: Path | None, known: Known) -> set[str]:
    """Returns the kernels that a module defines, or imports by name from other modules of its package."""
    if path is None or path in known:
        return set() if path is None else known[path]
    known[path] = set()
    tree = _parsed(path)
    if tree is not None:
        taken = (_taken(one, path, known) for one in tree.body if isinstance(one, ast.ImportFrom) and one.level)
        known[path] = {one.name for one in _defined(tree)}.union(*taken)
    return known[path]


def _module(name: str, level: int, path: Path) -> Path | None:
    """Returns the file of a module, without importing it. `level` counts the dots of a relative import in `path`."""
    if not level and name.partition(".")[0] in {"numpy", "triton", *TORCH, *sys.stdlib_module_names}:
        return None  # They have no kernels, and many modules.
    folders = [str(path.resolve().parents[level - 1])] if level else [str(path.resolve().parent), *sys.path]
    found = folders[0] + "/__init__.py" if level else None
    for part in name.split(".") if name else []:
        spec = PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        folders, found = list(spec.submodule_search_locations or []), spec.origin
    return Path(found) if found is not None and found.endswith(".py") and Path(found).is_file() else None


def _is_jit(decorator: ast.expr) -> bool:
    """Returns whether a decorator is `triton.jit`, with or without arguments."""
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(name) == "triton.jit"


def _kernel(path: Path, name: str, line: int) -> ScriptKernel:
    def script(context: BenchContext) -> None:
        _run(path, name, context)

    description = f"launches of the Triton kernel {name} by {path.name}"
    return ScriptKernel(script, name, description, (str(path.resolve()), line))


def _run(path: Path, name: str, context: BenchContext) -> None:
    """Runs a script, with launches of one kernel on the context of the bench."""
    os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")
    arguments, sys.argv = sys.argv, [str(path)]
    sys.path.insert(0, str(path.resolve().parent))
    kernel = Measured(name, context)
    token = measured.set(kernel)
    try:
        with redirect_stdout(_output(path)):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        measured.reset(token)
        sys.argv = arguments
        sys.path.pop(0)
    _check(path, name, kernel.launched)


def _output(path: Path) -> TextIO:
    """Returns where a script prints to in its next run."""
    if _printing is None:
        return sys.stdout
    if path in _printed:
        return io.StringIO()
    _printed.add(path)
    return _printing


def _check(path: Path, name: str, launched: list[str]) -> None:
    if name not in launched:
        others = ", ".join(dict.fromkeys(launched)) or "none"
        raise InputError(f"{path}::{name}: expected the script to launch this kernel; it launched: {others}")
