"""Ways in which a kernel can read a whole number from outside, each with a statement that changes the number."""

from __future__ import annotations

import random
from dataclasses import dataclass

HEAD = """
import dataclasses, enum, functools, math, operator, sys, types
from typing import NamedTuple
import numpy as np
import cubeyard

def read_k(of):
    return of.k

def identity(of):
    return of

def passed_on(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper
"""


@dataclass(frozen=True)
class Source:
    """A number that is set up, read and changed; `V` stands for its value and `@` for a name of its own."""

    setup: str
    reads: str
    change: str
    is_comparable: bool = True
    """Whether equal launches reuse a recording; otherwise each is recorded."""


MODULE = "@ = types.ModuleType('settings'); @.k = V"
CLASS = "class @:\n    k = V"
ENUM = "class @(enum.Enum):\n    A = 1\n    B = 2\n    def f(self):\n        return V\n    def __str__(self):\n        return 'V'"
FUNCTION = "def @():\n    return 0\n@.k = V"
SAVED = "np.save(FOLDER + '/@.npy', V)"
WRITTEN = "print(V, file=(written := open(FOLDER + '/@.txt', 'w'))); written.close()"

SOURCES = {
    "a global variable": Source("@ = V", "@", "@ = V"),
    "a captured variable": Source(
        "def make():\n    k = V\n    def get():\n        return k\n    def put(of):\n        nonlocal k\n        k = of\n"
        "    return get, put\n@, @_put = make()",
        "@()",
        "@_put(V)",
    ),
    "a default": Source("def @(k=V):\n    return k", "@()", "@.__defaults__ = (V,)"),
    "a default by name": Source("def @(*, k=V):\n    return k", "@()", "@.__kwdefaults__ = {'k': V}"),
    "the code of a function": Source("def @():\n    return V", "@()", "@.__code__ = (lambda: V).__code__"),
    "an attribute of a function": Source(FUNCTION, "@.k", "@.k = V"),
    "an attribute of a function that is passed on": Source(FUNCTION, "read_k(@)", "@.k = V"),
    "an attribute of a called function": Source("def @():\n    return @.k\n@.k = V", "@()", "@.k = V"),
    "an attribute of a class": Source(CLASS, "@.k", "@.k = V"),
    "an attribute of a class that is passed on": Source(CLASS, "read_k(@)", "@.k = V"),
    "an attribute of a base class": Source("class @_base:\n    k = V\nclass @(@_base):\n    pass", "@.k", "@_base.k = V"),
    "an attribute of a metaclass": Source(
        "class @_meta(type):\n    k = V\nclass @(metaclass=@_meta):\n    pass", "read_k(@)", "@_meta.k = V"
    ),
    "an attribute of a module": Source(MODULE, "@.k", "@.k = V"),
    "an attribute of a module that is passed on": Source(MODULE, "read_k(@)", "@.k = V"),
    "a module in a tuple": Source(MODULE + "\n@_all = (1, @)", "read_k(@_all[1])", "@.k = V"),
    "a module within a module": Source(MODULE + "\n@_outer = types.ModuleType('o'); @_outer.inner = @", "@_outer.inner.k", "@.k = V"),
    "the __getattr__ of a module": Source(
        "@ = types.ModuleType('settings'); @.__getattr__ = lambda name: V", "@.k", "@.__getattr__ = lambda name: V"
    ),
    "an import": Source(
        MODULE + "\nsys.modules['stale_@'] = @\ndef @_get():\n    import stale_@\n    return stale_@.k", "@_get()", "@.k = V"
    ),
    "a name of an import": Source(
        MODULE + "\nsys.modules['stale_@'] = @\ndef @_get():\n    from stale_@ import k\n    return k", "@_get()", "@.k = V"
    ),
    "a method": Source("class @:\n    def f(self):\n        return V", "@().f()", "@.f = lambda self: V"),
    "a method of another class": Source("class @:\n    def __len__(self):\n        return V", "len(@())", "@.__len__ = lambda self: V"),
    "a property": Source("class @:\n    f = property(lambda self: V)", "@().f", "@.f = property(lambda self: V)"),
    "a static method": Source("class @:\n    f = staticmethod(lambda: V)", "@.f()", "@.f = staticmethod(lambda: V)"),
    "a class method": Source("class @:\n    f = classmethod(lambda c: V)", "@.f()", "@.f = classmethod(lambda c: V)"),
    "a frozen object": Source(
        "@dataclasses.dataclass(frozen=True)\nclass @_class:\n    k: int\n@ = @_class(V)", "read_k(@)", "@ = @_class(V)"
    ),
    "a frozen object that is changed": Source(
        "@dataclasses.dataclass(frozen=True)\nclass @_class:\n    k: int\n@ = @_class(V)", "@.k", "object.__setattr__(@, 'k', V)"
    ),
    "an attribute beside those of a tuple": Source(
        "class @_base(NamedTuple):\n    of: int\nclass @_class(@_base):\n    pass\n@ = @_class(1); @.k = V", "@.k", "@.k = V"
    ),
    "a method of an Enum": Source(ENUM, "@.A.f()", "@.f = lambda self: V"),
    "the text of an Enum": Source(ENUM, "int(str(@.A))", "@.__str__ = lambda self: 'V'"),
    "an attribute of a member of an Enum": Source(ENUM + "\n@.A.k = V", "@.A.k", "@.A.k = V"),
    "attributes of members, by a loop": Source(ENUM + "\n@.A.k, @.B.k = V, 0", "sum(of.k for of in @)", "@.A.k = V"),
    "a wrapped helper": Source("@_n = V\n@functools.wraps(math.sqrt)\ndef @():\n    return @_n", "@()", "@_n = V"),
    "a decorated helper": Source("@_n = V\n@passed_on\ndef @():\n    return @_n", "@()", "@_n = V"),
    "a partial function": Source("@ = functools.partial(identity, V)", "@()", "@ = functools.partial(identity, V)"),
    "a kernel within": Source("@cubeyard.jit\ndef @(tl):\n    return @.k\n@.k = V", "@(tl)", "@.k = V"),
    "a pattern": Source(
        CLASS + "\ndef @_get(of):\n    match of:\n        case type(k=found):\n            return found\n", "@_get(@)", "@.k = V"
    ),
    "an attribute of math": Source("math.@ = V", "math.@", "math.@ = V"),
    "operator.attrgetter": Source(MODULE, "operator.attrgetter('k')(@)", "@.k = V", False),
    "an attrgetter of its own": Source(MODULE + "\n@_get = operator.attrgetter('k')", "@_get(@)", "@.k = V", False),
    "getattr": Source(MODULE, "getattr(@, 'k')", "@.k = V", False),
    "vars": Source(MODULE, "vars(@)['k']", "@.k = V", False),
    "__dict__": Source(MODULE, "@.__dict__['k']", "@.k = V", False),
    "format": Source(MODULE, "int('{0.k}'.format(@))", "@.k = V", False),
    "the globals of a function": Source("@ = V", "read_k.__globals__['@']", "@ = V", False),
    "a list": Source("@ = [V]", "@[0]", "@[0] = V", False),
    "a dictionary": Source("@ = {'k': V}", "@['k']", "@['k'] = V", False),
    "an array": Source("@ = np.array([V])", "int(@[0])", "@[0] = V", False),
    "an object": Source(CLASS + "\n@_object = @()", "@_object.k", "@_object.k = V", False),
    "a file of NumPy": Source(SAVED, "int(np.load(FOLDER + '/@.npy'))", SAVED, False),
    "a file": Source(WRITTEN, "int(open(FOLDER + '/@.txt').read())", WRITTEN, False),
    "the environment": Source("import os; os.environ['@'] = 'V'", "int(os.environ['@'])", "os.environ['@'] = 'V'", False),
}


@dataclass(frozen=True)
class Case:
    """A kernel that reads two numbers, and the changes before each of its launches."""

    names: tuple[str, str]
    text: str
    changes: tuple[str, ...]
    is_comparable: bool


def case(seed: int) -> Case:
    """Makes a random case. Every way of reading occurs among any few hundred of them."""
    draw = random.Random(seed)
    first = list(SOURCES)[seed % len(SOURCES)]
    names = (first, draw.choice(list(SOURCES)))
    sources = [SOURCES[name] for name in names]
    held = [str(draw.randint(1, 4)), str(draw.randint(1, 4))]
    setup = "\n".join(_filled(of.setup, at, held[at]) for at, of in enumerate(sources))
    reads = [_filled(of.reads, at, "") for at, of in enumerate(sources)]
    body = f"    tile = tl.load(x)\n    for _ in range({reads[0]}):\n        tile = tile + {reads[1]}\n    tl.store(x, tile)\n"
    kernel = f"@cubeyard.jit\ndef kernel(x, tl):\n    count()\n{body}"
    live = f"@cubeyard.jit(live=True)\nasync def live(x, tl):\n{body}"
    changes = tuple(_change(draw, sources) for _ in range(5))
    text = f"{HEAD}\n{setup}\n{kernel}\n{live}\ndef numbers(tl=None):\n    return {reads[0]}, {reads[1]}\n"
    return Case(names, text, changes, all(of.is_comparable for of in sources))


def _change(draw: random.Random, sources: list[Source]) -> str:
    """Returns a statement that changes one of the numbers, to one that it may have had before; or nothing."""
    at = draw.randint(0, 2)
    return "" if at == 2 else _filled(sources[at].change, at, str(draw.randint(1, 4)))


def _filled(text: str, at: int, value: str) -> str:
    decorators = ("@functools", "@passed_on", "@dataclasses", "@cubeyard")
    for number, word in enumerate(decorators):
        text = text.replace(word, f"\0{number}")
    text = text.replace("@", f"n{at}").replace("V", value)
    for number, word in enumerate(decorators):
        text = text.replace(f"\0{number}", word)
    return text
