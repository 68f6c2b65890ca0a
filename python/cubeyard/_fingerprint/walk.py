"""Traversal of everything that a function can reach."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from cubeyard._fingerprint import trust
from cubeyard._fingerprint.contents import file_of, mutable
from cubeyard._fingerprint.reads import WHOLE, Use, reads
from cubeyard._fingerprint.tokens import Code, Same
from cubeyard._fingerprint.trust import Unknown
from cubeyard._fingerprint.variables import captured, variables

__all__ = ["settled"]


class _Fields(NamedTuple):
    """Named tuple with one field, for the type of its field descriptors."""

    of: int


# Types of methods and fields of classes that are not written in Python.
_DESCRIPTORS = (
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type(_Fields.of),
)
_PLAIN = (type(None), bool, int, str, bytes, types.EllipsisType, types.NotImplementedType, range)
# Special attributes that only describe a class. Code reads them only by name.
_DESCRIPTIONS = frozenset(
    ["__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__"]
    + ["__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__firstlineno__", "__module__"]
    + ["__orig_bases__", "__parameters__", "__qualname__", "__slots__", "__static_attributes__", "__type_params__"]
    + ["__weakref__"]
)


def settled(function: Any, contents: bool) -> Hashable:
    """Repeats the walk until the visited code reads and writes only attribute names that the walk already expected."""
    names = stored = frozenset[str]()
    if isinstance(function, types.FunctionType):
        names, stored = frozenset(reads(function.__code__).attributes), frozenset(reads(function.__code__).stores)
    while True:
        walk = _Walk(names, stored, contents)
        found = walk.value(function)
        if walk.read <= names and walk.wrote <= stored:
            return found
        names, stored = names | walk.read, stored | walk.wrote


class _Walk:
    """One walk over everything that a function can reach."""

    def __init__(self, names: frozenset[str], stored: frozenset[str], contents: bool) -> None:
        # Attribute names that earlier walks found. `read` and `wrote` collect the names of this walk.
        self.names, self.stored, self.contents = names, stored, contents
        self.read: set[str] = set()
        self.wrote: set[str] = set()
        # Visited objects by identity. `kept` keeps them alive, so that no identity is reused.
        self.met: dict[tuple[int, Use], int] = {}
        self.kept: list[Any] = []

    def value(self, value: Any, use: Use = WHOLE) -> Hashable:
        """Returns the fingerprint of a value, limited to the part that the code uses."""
        kind = type(value)
        if kind in _PLAIN:
            file = file_of(value) if self.contents and kind is str else None
            return (kind.__name__, value) if file is None else (kind.__name__, value, file)
        if kind is float or kind is complex:
            return (kind.__name__, repr(value))
        if kind is tuple:
            return (kind.__name__, *self.all(value))
        if kind is frozenset:
            return (kind.__name__, *sorted(self.all(value), key=repr))
        if kind is slice:
            return (kind.__name__, *self.all((value.start, value.stop, value.step)))
        if kind is types.ModuleType:
            return self.meet(value, use) or self.module(value, use)
        return self.meet(value, WHOLE) or self.object(value)

    def meet(self, value: Any, use: Use) -> Hashable | None:
        """Returns a back-reference if the value was visited before; otherwise records the visit and returns None."""
        key = (id(value), use)
        if key in self.met:
            return ("met", self.met[key])
        self.met[key] = len(self.met)
        self.kept.append(value)
        return None

    def all(self, values: Iterable[Any]) -> list[Hashable]:
        """Returns the fingerprints of several values."""
        return [self.value(value) for value in values]

    def named(self, values: dict[str, Any]) -> list[Hashable]:
        """Returns (name, fingerprint) of each value, sorted by name."""
        return [(name, self.value(values[name])) for name in sorted(values)]

    def object(self, value: Any) -> Hashable:
        """Returns the fingerprint of a function, a class or an instance."""
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, types.MethodType):
            return ("method", *self.all((value.__func__, value.__self__)))
        if isinstance(value, types.BuiltinFunctionType):
            return self.builtin(value)
        if isinstance(value, _DESCRIPTORS):
            owner: Any = getattr(value, "__objclass__", type(value))
            return Same(value, f"{owner.__qualname__}.{getattr(value, '__name__', '')}")
        if isinstance(value, type):
            return self.class_(value)
        if type(value) in (staticmethod, classmethod):
            return (type(value).__name__, self.value(value.__func__))
        if isinstance(value, (property, types.DynamicClassAttribute)):
            return ("property", *self.all((value.fget, value.fset, value.fdel)))
        if type(value) is functools.cached_property:
            return ("property", self.value(value.func))
        if type(value) is functools.partial:
            return ("partial", *self.all((value.func, value.args)), *self.named({**value.keywords, **vars(value)}))
        return self.instance(value)

    def instance(self, value: Any) -> Hashable:
        """Returns the fingerprint of an immutable object or, if contents count, of a mutable one."""
        kind = type(value)
        if self.stored & getattr(value, "__dict__", {}).keys():
            raise Unknown(f"an attribute of an object of class {kind.__qualname__} that is written")
        inner = getattr(kind, "__fingerprint__", None)
        if inner is not None:
            return ("of", self.value(inner(value)))
        if isinstance(value, enum.Enum):
            held = {name: of for name, of in vars(value).items() if name not in ("__objclass__", "_sort_order_")}
            return ("enum", self.value(kind), *self.named(held))
        if _is_of_numpy(value, "ufunc", "dtype", "_ArrayFunctionDispatcher"):
            name = getattr(value, "__name__", None) or repr(value)
            trust.check("numpy", name, self.contents)
            return Same(value, name)
        if _is_of_numpy(value, "generic"):
            return (kind.__name__, value.dtype.str, value.tobytes())
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return ("tuple", self.value(kind), *self.all(tuple(value)), *self.named(getattr(value, "__dict__", {})))
        if dataclasses.is_dataclass(value) and getattr(kind, "__dataclass_params__").frozen:
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return ("object", self.value(kind), *self.named({**getattr(value, "__dict__", {}), **fields}))
        if self.contents:
            return mutable(self, value)
        raise Unknown(f"an object of class {kind.__qualname__}")

    def builtin(self, value: Any) -> Hashable:
        """Returns the fingerprint of a function that is not written in Python."""
        owner = getattr(value, "__self__", None)
        if not isinstance(owner, types.ModuleType):
            return ("method", value.__name__, self.value(owner))
        if not trust.trusted(owner.__name__, self.contents):
            raise Unknown(f"{owner.__name__}.{value.__name__}")
        trust.check(owner.__name__, value.__name__, self.contents)
        return Same(value, f"{owner.__name__}.{value.__name__}")

    def module(self, module: types.ModuleType, use: Use) -> Hashable:
        """Returns the fingerprint of the used attributes of a module."""
        uses = dict(use.attributes)
        if use.whole:
            uses |= dict.fromkeys(self.names, WHOLE)
        name = module.__name__
        if trust.trusted(name, self.contents):
            for attribute in uses:
                trust.check(name, attribute, self.contents)
        elif trust.is_standard(name):
            raise Unknown(f"module {name}")
        uses.setdefault("__getattr__", WHOLE)
        parts = [(of, self.attribute(module, of, uses[of])) for of in sorted(uses) if of in vars(module)]
        return ("module", Same(module, self.version(name)), *parts)

    def attribute(self, module: types.ModuleType, name: str, use: Use) -> Hashable:
        """Returns the fingerprint of an attribute of a module."""
        value = vars(module)[name]
        if name in self.stored:
            raise Unknown(f"{module.__name__}.{name}, which is written")
        try:
            return self.value(value, use)
        except Unknown:
            is_own = isinstance(getattr(value, "__self__", None), types.ModuleType)
            if not trust.trusted(module.__name__, self.contents) or isinstance(value, _CHECKED) or is_own:
                raise
            return Same(value, f"{module.__name__}.{name}")

    def version(self, module: str) -> str:
        """Returns the name and version of a trusted module, or an empty string for any other module."""
        return f"{module} {trust.version(module)}" if trust.trusted(module, self.contents) else ""

    def class_(self, class_: type) -> Hashable:
        """Returns the fingerprint of a class and of its base classes."""
        if class_ in trust.CLASSES:
            raise Unknown(f"{class_.__module__}.{class_.__qualname__}")
        parts: list[Hashable] = []
        for scope in class_.__mro__:
            if self.is_trusted(scope):
                trust.check(scope.__module__, scope.__name__, self.contents)
                parts.append(Same(scope, f"{self.version(scope.__module__)} {scope.__qualname__}"))
            else:
                parts += [Same(scope, scope.__qualname__), *self.named(self.held(scope))]
        if issubclass(class_, enum.Enum):
            parts += self.all(class_.__members__.values())
        return ("class", *parts, *([] if self.is_trusted(type(class_)) else [self.value(type(class_))]))

    def held(self, scope: type) -> dict[str, Any]:
        """Returns the class attributes that code can reach, by name or implicitly."""
        members = scope.__members__ if issubclass(scope, enum.Enum) else {}
        found = {name: value for name, value in vars(scope).items() if name not in members}
        reached = {name: value for name, value in found.items() if name in self.names or _is_implicit(name, value)}
        if self.stored & (reached.keys() | members.keys()):
            raise Unknown(f"an attribute of class {scope.__qualname__} that is written")
        return reached

    def is_trusted(self, class_: type) -> bool:
        """Returns whether a trusted module defines this class."""
        if not trust.trusted(class_.__module__, self.contents):
            return False
        found: Any = sys.modules.get(class_.__module__)
        for name in class_.__qualname__.split("."):
            found = getattr(found, name, None)
        return found is class_ or not class_.__flags__ & _HEAP

    def function(self, function: types.FunctionType) -> Hashable:
        """Returns the fingerprint of a function written in Python."""
        home = trust.home(function)
        if trust.trusted(home, self.contents) or _is_recursive_repr(function, home):
            return self.trusted_function(function, home)
        read = reads(function.__code__)
        if read.writes is not None:
            raise Unknown(f"{read.writes}, which {function.__qualname__} writes")
        is_special = function.__code__.co_name.startswith("__")
        if dynamic := read.attributes & (trust.ATTRIBUTES if is_special else trust.ATTRIBUTES | trust.SETTERS):
            raise Unknown(", ".join(sorted(dynamic)))
        self.read |= read.attributes
        self.wrote |= read.stores
        parts: list[Hashable] = [self.value(function.__defaults__), *self.named(function.__kwdefaults__ or {})]
        parts += [(name, self.value(value, use)) for name, value, use in variables(function, read)]
        parts += self.attributes(function)
        if self.contents:
            parts += [file for text in sorted(read.texts) if (file := file_of(text)) is not None]
        return ("function", Code(function.__code__), *parts)

    def attributes(self, function: types.FunctionType) -> list[Hashable]:
        """Returns the fingerprints of those function attributes whose names the code reads."""
        held = {name: value for name, value in vars(function).items() if name in self.names}
        if self.stored & held.keys():
            raise Unknown(f"an attribute of function {function.__qualname__} that is written")
        return self.named(held)

    def trusted_function(self, function: types.FunctionType, home: str) -> Hashable:
        """Returns the fingerprint of a function of a trusted module, including the functions that it wraps."""
        trust.check(home, function.__name__, self.contents)
        wrapped = self.named({name: value for name, value in captured(function).items() if name != _RUNNING})
        return ("function", Same(function.__code__, f"{self.version(home)} {function.__qualname__}"), *wrapped)


_HEAP = 1 << 9
# Types of module attributes that always need a fingerprint of their own, even in a trusted module.
_CHECKED = (types.FunctionType, types.ModuleType, type, list, dict, set, bytearray, memoryview)


def _is_of_numpy(value: Any, *classes: str) -> bool:
    """Returns whether a value is an instance of one of NumPy's classes. Does not import NumPy."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    found = [getattr(numpy, name, None) or getattr(numpy._core.multiarray, name, None) for name in classes]
    return isinstance(value, tuple(kind for kind in found if isinstance(kind, type)))


def _is_implicit(name: str, value: Any) -> bool:
    """Returns whether a call, an operator or `super` can reach a class attribute without naming it."""
    is_special = name.startswith("__") and name.endswith("__")
    return name not in _DESCRIPTIONS and (is_special or callable(value) or hasattr(type(value), "__get__"))


_RUNNING = "repr_running"


def _is_recursive_repr(function: types.FunctionType, home: str) -> bool:
    """Returns whether a function is Python's wrapper of a `__repr__`. Its captured set is empty between calls."""
    return home in ("dataclasses", "reprlib") and _RUNNING in function.__code__.co_freevars
