"""Fingerprints of functions: equal where calling again issues the same commands.

A recording of a kernel is reused only where recording again would give the same program. Beside the arguments, which
the launcher compares, that depends on the code of the function and of those that it calls, and on the variables that
they read. A fingerprint holds

- plain immutable values by value, with their types,
- functions by their code, defaults, captured variables, and the global variables that the code names, recursively,
- modules and classes by identity, with the attributes that the code names, and the methods of classes,
- nothing else: a function that reads anything mutable or unknown has no fingerprint, and is recorded at every launch.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import sys
import types
from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

__all__ = ["fingerprint"]

# Modules without state that a function could observe.
_PURE = frozenset(
    ["builtins", "cmath", "collections", "dataclasses", "enum", "functools", "itertools", "math", "numpy", "operator"]
    + ["typing"]
)
# Names of those modules that do have state.
_IMPURE = frozenset(["numpy.random"])
# Functions whose results depend on more than their arguments.
_DYNAMIC = frozenset(
    ["__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "getattr", "globals", "hasattr"]
    + ["id", "input", "locals", "memoryview", "open", "setattr", "vars"]
)


class _Fields(NamedTuple):
    """A tuple with a field, whose class is that of all such fields."""

    of: int


# Methods that make text of an object, or a copy.
_SHOWN = frozenset(["__format__", "__getnewargs__", "__reduce__", "__reduce_ex__", "__repr__", "__str__"])
# Methods and fields of classes that are not written in Python.
_DESCRIPTORS = (
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type(_Fields.of),
)
_PLAIN = (type(None), bool, int, str, bytes, types.EllipsisType, types.NotImplementedType, range)


class _Unknown(Exception):
    """A value that may change without being noticed."""


@dataclasses.dataclass(frozen=True)
class _Names:
    """Names that a code object reads."""

    globals: tuple[str, ...]
    attributes: tuple[str, ...]
    imports: tuple[str, ...]


def fingerprint(function: Any) -> Hashable | None:
    """Returns a value that is equal where a function would issue the same commands; None where that is unknown.

    >>> def scale(x, tl):
    ...     return factor * x
    >>> factor = 2
    >>> two = fingerprint(scale)
    >>> factor = 3
    >>> two == fingerprint(scale)
    False
    >>> factor = 2
    >>> two == fingerprint(scale)
    True
    >>> factor = [2]
    >>> fingerprint(scale) is None
    True
    """
    try:
        return _Walk().value(function, ())
    except (_Unknown, RecursionError):
        return None


class _Walk:
    """A walk over everything that a function can read."""

    def __init__(self) -> None:
        # Functions, modules and classes that were met, by identity; they are kept, so that no identity is reused.
        self.met: dict[tuple[int, tuple[str, ...]], int] = {}
        self.kept: list[Any] = []

    def value(self, value: Any, attributes: tuple[str, ...]) -> Hashable:
        """Returns the fingerprint of a value of which code reads these attributes."""
        kind = type(value)
        if kind in _PLAIN:
            return (kind, value)
        if kind is float or kind is complex:
            return (kind, repr(value))
        if kind is tuple or kind is frozenset:
            return (kind, *self.all(sorted(value, key=repr) if kind is frozenset else value, attributes))
        if isinstance(value, enum.Enum):
            return _Same(value)
        if kind is slice:
            return (kind, *self.all((value.start, value.stop, value.step), attributes))
        return self.object(value, attributes)

    def object(self, value: Any, attributes: tuple[str, ...]) -> Hashable:
        """Returns the fingerprint of a function, a module, a class or a frozen object."""
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, types.MethodType):
            return ("method", self.value(value.__func__, ()), self.value(value.__self__, attributes))
        if isinstance(value, types.BuiltinFunctionType):
            return self.builtin(value)
        if isinstance(value, _DESCRIPTORS):
            return _Same(value)
        if isinstance(value, types.ModuleType):
            return self.module(value, attributes)
        if isinstance(value, type):
            return self.holder(value, _pure(value.__module__), (*attributes, *_methods(value)))
        return self.frozen(value, attributes)

    def all(self, values: Iterable[Any], attributes: tuple[str, ...]) -> list[Hashable]:
        """Returns the fingerprints of several values."""
        return [self.value(value, attributes) for value in values]

    def frozen(self, value: Any, attributes: tuple[str, ...]) -> Hashable:
        """Returns the fingerprint of an object that cannot change."""
        inner = getattr(type(value), "__fingerprint__", None)
        if inner is not None:
            return ("of", self.value(inner(value), attributes))
        if _is_of_numpy(value, "ufunc", "dtype"):
            return _Same(value)
        if _is_of_numpy(value, "generic"):
            return (type(value), value.tobytes())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return (self.value(type(value), attributes), *self.all(value, attributes))
        if isinstance(value, property):
            return ("property", *self.all((value.fget, value.fset, value.fdel), attributes))
        parameters = getattr(type(value), "__dataclass_params__", None)
        if dataclasses.is_dataclass(value) and parameters is not None and parameters.frozen:
            fields = (getattr(value, field.name) for field in dataclasses.fields(value))
            return (self.value(type(value), attributes), *self.all(fields, attributes))
        raise _Unknown

    def builtin(self, value: Any) -> Hashable:
        """Returns the fingerprint of a function that is not written in Python."""
        owner = getattr(value, "__self__", None)
        if isinstance(owner, types.ModuleType):
            if not _pure(owner.__name__) or value.__name__ in _DYNAMIC:
                raise _Unknown
            return _Same(value)
        if owner is None or isinstance(owner, (*_PLAIN, float, tuple, type)):
            return _Same(value)
        raise _Unknown

    def module(self, module: types.ModuleType, attributes: tuple[str, ...]) -> Hashable:
        """Returns the fingerprint of a module."""
        pure = _pure(module.__name__)
        if not pure and module.__name__.partition(".")[0] in sys.stdlib_module_names:
            raise _Unknown
        if any(f"{module.__name__}.{name}" in _IMPURE for name in attributes):
            raise _Unknown
        return self.holder(module, pure, attributes)

    def holder(self, holder: Any, pure: bool, attributes: tuple[str, ...]) -> Hashable:
        """Returns the fingerprint of a module or a class, with the attributes that are read of it."""
        seen = self.meet(holder, attributes)
        if seen is not None:
            return seen
        if pure:
            return _Same(holder)
        found = [(name, _find(holder, name)) for name in attributes]
        read = [(name, self.value(value, attributes)) for name, value in found if value is not _MISSING]
        return (_Same(holder), *read)

    def function(self, function: types.FunctionType) -> Hashable:
        """Returns the fingerprint of a function in Python."""
        seen = self.meet(function, ())
        if seen is not None:
            return seen
        if _pure(function.__module__ or ""):
            return _Same(function)
        names = _names(function.__code__)
        defaults = function.__defaults__, tuple(sorted((function.__kwdefaults__ or {}).items()))
        read = [self.value(part, names.attributes) for part in defaults]
        for name in names.imports:
            read.append((name, self.value(_imported(name), names.attributes)))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            read.append((name, self.value(_content(cell), names.attributes)))
        for name in names.globals:
            read.append((name, self.value(_global(function, name), names.attributes)))
        for name in set(names.attributes) & set(vars(function)):
            read.append((name, self.value(vars(function)[name], names.attributes)))
        return (function.__code__, *read)

    def meet(self, value: Any, attributes: tuple[str, ...]) -> Hashable | None:
        """Returns a reference to something that was met before; otherwise remembers it."""
        key = (id(value), attributes)
        if key in self.met:
            return ("met", self.met[key])
        self.met[key] = len(self.met)
        self.kept.append(value)
        return None


class _Same:
    """An object, equal to itself alone."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


_MISSING = object()


def _is_of_numpy(value: Any, *classes: str) -> bool:
    """Returns whether a value is an instance of a class of NumPy, which need not be loaded."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, tuple(getattr(numpy, name) for name in classes))


def _pure(module: str) -> bool:
    return module.partition(".")[0] in _PURE and not any(module.startswith(name) for name in _IMPURE)


def _methods(class_: type) -> tuple[str, ...]:
    """Returns the names of the methods of a class, which calls and operators reach without naming them."""
    kinds = (types.FunctionType, staticmethod, classmethod, property)
    scopes = [vars(scope) for scope in class_.__mro__ if not _pure(scope.__module__)]
    names = {name for scope in scopes for name, value in scope.items() if isinstance(value, kinds)}
    return tuple(sorted(names - _SHOWN))


def _find(holder: Any, name: str) -> Any:
    """Returns an attribute as it is stored, without calling anything."""
    for scope in holder.__mro__ if isinstance(holder, type) else (holder,):
        if name in vars(scope):
            found = vars(scope)[name]
            return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    return _MISSING


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _Empty


class _Empty:
    """A variable without a value."""


def _imported(name: str) -> Any:
    if name not in sys.modules:
        raise _Unknown
    return sys.modules[name]


def _global(function: types.FunctionType, name: str) -> Any:
    if name in function.__globals__:
        return function.__globals__[name]
    if name in _DYNAMIC:
        raise _Unknown
    return getattr(builtins, name, _Empty)


@lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> _Names:
    """Returns the names that code and the code within it read."""
    found: dict[str, set[str]] = {"globals": set(), "attributes": set(), "imports": set()}
    _collect(code, found)
    return _Names(*(tuple(sorted(found[kind])) for kind in ("globals", "attributes", "imports")))


def _collect(code: types.CodeType, found: dict[str, set[str]]) -> None:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            found["globals"].add(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            found["attributes"].add(step.argval)
        elif step.opname == "IMPORT_NAME":
            found["imports"].add(step.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _collect(constant, found)
