"""Costs of operators, as the shim asks for them, and their sums.

The shim describes an operator by words (csrc/description.cpp), which are the shapes, strides and types of its tensors and those
of its other arguments that can matter. It asks once for each description.
"""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    # `import torch` loads this module, and does not load the table of operators.
    from cubeyard.torch.operators import Cost, TensorSpec

__all__ = ["OperatorRow", "OperatorTimes", "counted", "observed", "operator_times", "record_operators", "register"]

Entry = tuple[str, "Cost | None"]
"""Name of an operator and its cost; None for copies, whose bytes and times are summed up."""

COPIES = ("copy from host", "copy to host", "copy between devices")
"""Names of copies over PCIe links, by their numbers among the operators."""

_lock = threading.Lock()
_entries: list[Entry] = [(name, None) for name in COPIES]
_numbers: dict[tuple[str, Cost], int] = {}


@dataclass(frozen=True)
class OperatorRow:
    """Operators of one name whose time has one source."""

    op: str
    """Name with overload, such as `aten::mm`; or the kind of a copy."""
    kernel: str | None
    """Kernel that was simulated, or `pcie` for copies. None for an estimate."""
    count: int
    """Number of calls."""
    ps: int
    """Sum of their times in picoseconds, without the host's."""
    bytes: int
    """Sum of the bytes that they read and write."""
    flops: int
    """Sum of their multiplications and additions in matrix products."""

    @property
    def is_estimate(self) -> bool:
        """True if no kernel was simulated."""
        return self.kernel is None


@dataclass
class OperatorTimes:
    """Operators and copies of a process, or of a `with torch.ahbm.record_operators()` block."""

    rows: list[OperatorRow] = field(default_factory=list)
    """One row for each operator and source of its time, the longest time first. Complete after the block."""

    @property
    def ps(self) -> int:
        """Sum of all times in picoseconds."""
        return sum(row.ps for row in self.rows)

    @property
    def estimated_share(self) -> float:
        """Share of the time that is estimated, from 0 to 1; 0 if no time was taken."""
        return sum(row.ps for row in self.rows if row.is_estimate) / self.ps if self.ps else 0.0


def register() -> None:
    """Gives the shim the function for costs."""
    from cubeyard import _native

    _native.torch_set_cost(_cost)


def operator_times() -> OperatorTimes:
    """Returns the operators and copies of this process so far, with their times. Trials are left out.

    >>> import torch
    >>> x = torch.ones(1000, device="ahbm")
    >>> "aten::ones" in [row.op for row in torch.ahbm.operator_times().rows]
    True
    """
    return OperatorTimes(_rows(_totals(), {}))


@contextmanager
def record_operators() -> Iterator[OperatorTimes]:
    """Sums up the operators and copies of all threads of this process within the block. It changes no time.

    >>> import torch
    >>> x = torch.ones(1000, device="ahbm")
    >>> with torch.ahbm.record_operators() as times:
    ...     y = x + x
    >>> [(row.op, row.count) for row in times.rows]
    [('aten::add.Tensor', 1)]
    """
    times, before = OperatorTimes(), _totals()
    try:
        yield times
    finally:
        times.rows = _rows(_totals(), before)


Observer = Callable[[int, int, int, int, int, int], None]
"""Function of the number, device, stream, begin, end and bytes of an operator or copy; times are in picoseconds."""

_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Calls a function with each operator and copy of this process, on the thread that runs it. It changes no time.

    `counted` returns the name and cost of a number. Bytes are those of a copy. An error of the function is raised by the
    operator.
    """
    _set_observers([*_observers, observer])
    try:
        yield
    finally:
        _set_observers([one for one in _observers if one is not observer])


def _set_observers(observers: list[Observer]) -> None:
    global _observers
    from cubeyard import _native

    with _lock:
        _observers = observers
        _native.torch_observe_operators(_tell if observers else None)


def _tell(*work: int) -> None:
    for observer in _observers:
        observer(*work)


def counted(number: int) -> Entry:
    """Returns the name and cost of operators that are counted under a number."""
    return _entries[number]


Totals = dict[int, tuple[int, int, int]]


def _totals() -> Totals:
    from cubeyard import _native

    return dict(enumerate(_native.torch_operator_totals()))


def _rows(totals: Totals, before: Totals) -> list[OperatorRow]:
    """Returns the sums of operators with equal names and kernels, the longest time first."""
    sums: dict[tuple[str, str | None], list[int]] = {}
    for number, total in totals.items():
        count, ps, moved = (now - then for now, then in zip(total, before.get(number, (0, 0, 0)), strict=True))
        if not count:
            continue
        name, spent = counted(number)
        key = (name, "pcie" if spent is None else spent.kernel)
        figures = (count, ps, moved, 0) if spent is None else (count, ps, count * spent.bytes, count * spent.flops)
        sums[key] = [one + more for one, more in zip(sums.get(key, [0] * 4), figures, strict=True)]
    rows = [OperatorRow(name, kernel, *figures) for (name, kernel), figures in sums.items()]
    return sorted(rows, key=lambda row: (-row.ps, row.op, row.kernel or ""))


# ---- Questions of the shim ----


def _cost(name: str, words: list[int]) -> tuple[int, int] | None:
    """Returns the picoseconds of an operator and the number under which it is counted; None if it takes no time."""
    from cubeyard.torch.operators import cost

    arguments, results = _read(words)
    found = cost(name, arguments, results)
    if found is None:
        return None
    with _lock:
        number = _numbers.setdefault((name, found), len(_entries))
        if number == len(_entries):
            _entries.append((name, found))
    return found.ps, number


def _read(words: list[int]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the arguments and results that words describe."""
    reader = iter(words)
    count = next(reader)
    arguments = tuple(_value(next(reader), reader) for _ in range(count))
    return arguments, tuple(_value(word, reader) for word in reader)


def _value(head: int, reader: Iterator[int]) -> Any:
    """Returns the value that begins with a word. A number whose value cannot matter is not a number."""
    kind, number = head & 0xFF, head >> 8
    if kind == 7:
        return _spec(number, reader)
    if kind == 6:
        return tuple(_value(next(reader), reader) for _ in range(number))
    if kind == 5:
        packed = b"".join(next(reader).to_bytes(8, "little") for _ in range(-(-number // 8)))
        return packed[:number].decode(errors="replace")
    if kind == 3:
        return struct.unpack("<d", struct.pack("<Q", next(reader)))[0]
    if kind == 2:
        return _signed(next(reader))
    return {0: None, 1: bool(number), 4: math.nan, 8: _types().get(number, (None,))[0]}[kind]


def _spec(number: int, reader: Iterator[int]) -> TensorSpec:
    from cubeyard.torch.operators import TensorSpec

    dtype, element_bytes = _types()[number & 0xFF]
    sizes, strides = (tuple(_signed(next(reader)) for _ in range(number >> 8)) for _ in range(2))
    return TensorSpec(sizes, strides, dtype, element_bytes)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def look_up_types() -> None:
    """Looks up the element types, which the first cost otherwise does."""
    _types()


@functools.cache
def _types() -> dict[int, tuple[str, int]]:
    """Returns the names and sizes of element types by PyTorch's numbers."""
    types = [value for value in list(vars(torch).values()) if isinstance(value, torch.dtype)]
    return {torch.ops.ahbm._type_number(one): (str(one).removeprefix("torch."), one.itemsize) for one in types}
