"""Recordings of kernels in Python are reused only where recording again gives the same program."""

from __future__ import annotations

import dataclasses
import enum
import gc
import math
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import cubeyard
from cubeyard._fingerprint import fingerprint
from kernel_lab import HERE, failing, one


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


# Reuse of recordings.


class Counted:
    """A kernel whose recordings are counted: `calls` grows when the function runs."""

    def __init__(self, context: cubeyard.Context, kernel: Any) -> None:
        self.context, self.kernel, self.x = context, kernel, one(context, [1, 2, 3, 4])

    def recordings(self, *arguments: Any, x: Any = None) -> int:
        before = len(CALLS)
        self.context.launch(self.kernel, self.x if x is None else x, *arguments, **HERE)
        return len(CALLS) - before


CALLS: list[int] = []


class _Recorder:
    """Counts calls, and is the same in every fingerprint."""

    def __call__(self, of: int = 0) -> None:
        CALLS.append(of)

    def __fingerprint__(self) -> Any:
        return "recorder"


count = _Recorder()
FACTOR: Any = 2


def test_equal_launches_reuse_a_recording(context: cubeyard.Context) -> None:
    def kernel(x, n, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert of.recordings(2) == 1
    assert of.recordings(2) == 0
    assert of.x.numpy().tolist() == [4, 8, 12, 16]


def test_scalars_shapes_types_and_addresses_are_compared(context: cubeyard.Context) -> None:
    def kernel(x, n, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert [of.recordings(2), of.recordings(3), of.recordings(2)] == [1, 1, 0]
    others = [one(context, [1, 2]), one(context, [1, 2, 3, 4], "i4"), one(context, [1, 2, 3, 4])]
    assert [of.recordings(2, x=x) for x in others] == [1, 1, 1]
    assert [of.recordings(2, x=x) for x in others] == [0, 0, 0]


def test_a_captured_variable_is_compared(context: cubeyard.Context) -> None:
    factor = 2

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factor)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3.0
    assert of.recordings() == 1
    assert of.x.numpy()[0] == 2 * 2 * 3 * 3 * 3


def test_a_global_variable_is_compared(context: cubeyard.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * FACTOR)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert [of.recordings(), of.recordings()] == [1, 0]
    assert of.x.numpy()[0] == 2 * 2 * 5 * 5


def test_a_mutable_variable_is_never_reused(context: cubeyard.Context) -> None:
    factors = [2]

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factors[0])

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 1]
    factors[0] = 7
    assert of.recordings() == 1 and of.x.numpy()[0] == 2 * 2 * 7


def test_a_called_function_is_compared_by_its_code(context: cubeyard.Context) -> None:
    def make(body: Any) -> Any:
        return body

    helper = make(lambda tile: tile * 2)

    def kernel(x, tl):
        count()
        tl.store(x, helper(tl.load(x)))

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    helper = make(lambda tile: tile * 3)
    assert [of.recordings(), of.recordings()] == [1, 0]
    assert of.x.numpy()[0] == 2 * 2 * 3 * 3


def test_what_a_called_function_reads_is_compared(context: cubeyard.Context) -> None:
    factor = 2

    def helper(tile):
        return tile * factor

    def kernel(x, tl):
        count()
        tl.store(x, helper(tl.load(x)))

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_defaults_are_compared(context: cubeyard.Context) -> None:
    def kernel(x, n=2, *, tl):
        count()
        tl.store(x, tl.load(x) * n)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    kernel.__defaults__ = (3,)
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_attributes_of_modules_and_classes_are_compared(context: cubeyard.Context) -> None:
    settings = types.ModuleType("settings")
    settings.factor = 2  # type: ignore[attr-defined]

    class Options:
        add = 1

    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * settings.factor + Options.add)

    of = Counted(context, kernel)
    assert [of.recordings(), of.recordings()] == [1, 0]
    settings.factor = 3  # type: ignore[attr-defined]
    assert [of.recordings(), of.recordings()] == [1, 0]
    Options.add = 2
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_pure_modules_may_be_used_and_others_may_not() -> None:
    import random
    import time

    def pure(tl):
        return math.sqrt(2) + np.float32(1) + max(1, 2) + len(range(3))

    def draws(tl):
        return random.random()

    def reads_clock(tl):
        return time.time()

    def draws_arrays(tl):
        return np.random.random()

    def looks_up(tl):
        return globals()["FACTOR"]

    assert fingerprint(pure) is not None
    assert [fingerprint(of) for of in (draws, reads_clock, draws_arrays, looks_up)] == [None] * 4


@dataclasses.dataclass(frozen=True)
class Frozen:
    factor: int

    @property
    def twice(self) -> int:
        return 2 * self.factor


class Pair(NamedTuple):
    factor: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize(
    ("one_", "other"),
    [
        (Frozen(1), Frozen(2)),
        (Pair(1), Pair(2)),
        (Color.RED, Color.BLUE),
        ((1, "a"), (1, "b")),
        (frozenset([1]), frozenset([2])),
        (slice(1), slice(2)),
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (float, int),
        (math.sin, math.cos),
        (np.add, np.subtract),
        (np.dtype("f4"), np.dtype("f8")),
        (np.float32(1), np.float32(2)),
        (None, ...),
        ("x".join, "y".join),
    ],
)
def test_values_that_cannot_change_are_compared(one_: Any, other: Any) -> None:
    prints = []
    for value in (one_, one_, other):

        def kernel(tl, value=value):
            return value.factor, value.twice

        prints.append(fingerprint(kernel))
    assert prints[0] is not None and prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("value", [[1], {1: 2}, {1}, bytearray(1), np.zeros(1), object(), iter("a"), [].append, (1, [2])])
def test_values_that_may_change_prevent_reuse(value: Any) -> None:
    assert fingerprint(lambda tl: value) is None


def test_a_changed_method_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    value = Frozen(1)

    def kernel(tl):
        return value.twice

    before = fingerprint(kernel)
    monkeypatch.setattr(Frozen, "twice", property(lambda self: 3))
    assert before is not None and before != fingerprint(kernel)


def test_what_the_constructor_of_a_class_reads_is_compared() -> None:
    factor = 2

    class Sum:
        def __init__(self, tile):
            self.tile = tile * factor

    def kernel(x, tl):
        tl.store(x, Sum(tl.load(x)).tile)

    first = fingerprint(kernel)
    factor = 3
    assert first is not None and first != fingerprint(kernel)


def test_old_fingerprints_of_a_kernel_are_dropped(context: cubeyard.Context) -> None:
    factor = 0

    @cubeyard.jit
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * factor)

    of = Counted(context, kernel)
    for factor in range(40):
        assert of.recordings() == 1
    assert len(kernel._keys) == 16
    assert of.recordings() == 0
    factor = 0
    assert of.recordings() == 1


def test_recursive_functions_have_a_fingerprint() -> None:
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert fingerprint(even) is not None and fingerprint(even) != fingerprint(odd)


def test_kernels_may_call_kernels_and_are_compared_by_them(context: cubeyard.Context) -> None:
    factor = 2

    @cubeyard.jit
    def inner(x, tl):
        tl.store(x, tl.load(x) * factor)

    @cubeyard.jit
    def outer(x, tl):
        count()
        inner(x, tl)

    of = Counted(context, outer)
    assert [of.recordings(), of.recordings()] == [1, 0]
    factor = 3
    assert [of.recordings(), of.recordings()] == [1, 0]


def test_contexts_do_not_share_recordings_and_kernels_keep_no_context() -> None:
    @cubeyard.jit
    def kernel(x, tl):
        count()
        tl.store(x, tl.load(x) * 2)

    first, second = cubeyard.Context(), cubeyard.Context()
    assert [Counted(of, kernel).recordings() for of in (first, second)] == [1, 1]
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None


def test_contexts_keep_no_function() -> None:
    context = cubeyard.Context()

    class Captured:
        pass

    def make() -> Any:
        captured = Captured

        def kernel(x, tl):
            tl.store(x, tl.load(x))
            return None if captured else 1

        return kernel

    kernel = make()
    context.launch(kernel, one(context, [1]), **HERE)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_nothing_is_left_after_kernels_that_fail_or_end(context: cubeyard.Context) -> None:
    before = context._native.objects()

    def fails(x, tl):
        tiles = [tl.load(x) for _ in range(3)]
        raise ValueError(len(tiles))

    @cubeyard.jit(live=True)
    async def stays(x, tl):
        await tl.value(tl.load(x))
        raise ValueError

    for kernel in (fails, stays, fails):
        failing(context, kernel, one(context, [1]))
    gc.collect()
    assert context._native.objects() == before
    assert context.close().is_clean
