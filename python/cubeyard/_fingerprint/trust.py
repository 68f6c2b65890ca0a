"""Third-party and standard modules that need no comparison, and names that a fingerprint cannot follow."""

from __future__ import annotations

import importlib.metadata
import operator
import sys
import types
from functools import lru_cache
from typing import Any

__all__ = ["CLASSES", "ATTRIBUTES", "BUILTINS", "SETTERS", "Unknown", "check", "home", "is_standard", "trusted", "version"]

# Modules without observable state.
_PURE = frozenset(
    ["abc", "builtins", "cmath", "collections", "dataclasses", "enum", "functools", "itertools", "math", "numpy"]
    + ["operator", "typing"]
)
# Modules represented by their version in a hash: their results depend only on arguments, a clock or a seed.
_VERSIONED = frozenset(
    ["bisect", "contextlib", "copy", "cubeyard", "datetime", "decimal", "fractions", "hashlib", "heapq", "json", "numbers"]
    + ["random", "re", "statistics", "string", "struct", "textwrap", "time", "types", "warnings"]
)
# NumPy names that read files, settings or uninitialised memory, or whose results depend on earlier calls.
_OF_NUMPY = frozenset(
    ["DataSource", "array2string", "array_repr", "array_str", "core", "ctypeslib", "empty", "empty_like", "f2py"]
    + ["fromfile", "fromregex", "genfromtxt", "get_printoptions", "getbufsize", "geterr", "geterrcall", "lib", "load"]
    + ["loadtxt", "memmap", "ndarray", "random", "testing"]
)
_OF_TYPING = frozenset(["get_overloads", "get_type_hints"])
_RANDOM = "random"
# Builtins whose results depend on more than their arguments.
BUILTINS = frozenset(
    ["__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr"]
    + ["id", "input", "locals", "memoryview", "open", "setattr", "vars"]
)
# Attributes that let code read names that do not appear in the code.
ATTRIBUTES = frozenset(
    ["__builtins__", "__closure__", "__code__", "__dict__", "__getattribute__", "__getstate__", "__globals__"]
    + ["__reduce__", "__reduce_ex__", "__subclasses__", "cell_contents", "f_builtins", "f_globals", "f_locals"]
    + ["format", "format_map"]
)
# Attributes that let code write such names. Constructors may use them on the new object.
SETTERS = frozenset(["__delattr__", "__setattr__", "__setstate__"])
# Classes whose instances read such names.
CLASSES = frozenset([operator.attrgetter, operator.methodcaller])


class Unknown(Exception):
    """Signals a value that may change unnoticed. The message names the value."""


def trusted(module: str, versions: bool) -> bool:
    """Returns whether a module needs no comparison. `versions` also admits modules that a version represents."""
    top, _, rest = module.partition(".")
    if is_standard(top):
        top = top.lstrip("_")
    if top == "numpy" and rest.partition(".")[0] == _RANDOM:
        return versions
    return top in _PURE or (versions and top in _VERSIONED)


def is_standard(module: str) -> bool:
    """Returns whether a module is part of the standard library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def check(module: str, name: str, versions: bool) -> None:
    """Checks that a name of a trusted module is deterministic.

    Raises:
        Unknown: The results of the named object depend on more than its arguments.
    """
    top = module.partition(".")[0].lstrip("_")
    dynamic = {"numpy": _OF_NUMPY, "builtins": BUILTINS, "typing": _OF_TYPING}.get(top, frozenset())
    if name in dynamic and not (versions and name == _RANDOM):
        raise Unknown(f"{top}.{name}")


def home(function: types.FunctionType) -> str:
    """Returns the module that defines a function. Attributes changed by `functools.wraps` are ignored."""
    name = function.__globals__.get("__name__", "")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is function.__globals__ else ""


@lru_cache(maxsize=256)
def version(module: str) -> str:
    """Returns the version of a module's package, or Python's version for the standard library."""
    top = module.partition(".")[0]
    if is_standard(top):
        return ".".join(map(str, sys.version_info[:3]))
    found: Any = getattr(sys.modules.get(top), "__version__", None)
    try:
        return str(found or importlib.metadata.version(top))
    except importlib.metadata.PackageNotFoundError:
        return ""
