"""Recorded allocations as traces."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from cubeyard import _native
from cubeyard._base.results import columns
from cubeyard.errors import InputError
from cubeyard.memory import Snapshot

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | Mapping[str, Any] | Snapshot | Trace"
"""Recording: a file, its bytes, the result of `torch.cuda.memory._snapshot()`, an allocator's snapshot, or a trace."""


class Trace:
    """Sequence of allocations and frees on one device, read by `read()`.

    pandas, polars and pyarrow read a trace as a table of events.

    >>> from cubeyard import replay
    >>> trace = replay.example()
    >>> trace.name, trace.events, trace.allocations
    ('resnet_train', 14539, 7271)
    >>> next(iter(trace))
    {'action': 'alloc', 'allocation': 0, 'bytes': 37632, 'stream': 0, 'time_us': 0}
    """

    def __init__(self, native: _native.RecordedTrace) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """Name of the trace: its file's name, with the device if the file contains several devices."""
        return self._native.name

    @property
    def file(self) -> Path | None:
        """File of the trace, if it has one."""
        return self._native.file

    @property
    def events(self) -> int:
        """Number of allocations and frees."""
        return self._native.events

    @property
    def allocations(self) -> int:
        """Number of allocations."""
        return self._native.allocations

    @property
    def recorded_by(self) -> str | None:
        """Program that recorded the snapshot, PyTorch or Cubeyard; `None` if the trace is not a snapshot."""
        return self._native.recorded_by

    @property
    def recorded_reserved_bytes(self) -> int | None:
        """Peak of the bytes reserved by the recorded allocator, if the snapshot contains it."""
        return self._native.recorded_reserved_bytes

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterates over the events. A free has neither a size nor a stream."""
        names = ("action", "allocation", "bytes", "stream", "time_us")
        for values in zip(*self._native.columns(), strict=True):
            yield dict(zip(names, values, strict=True))

    def __len__(self) -> int:
        return self.events

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the events as an Arrow stream. The requested schema is ignored."""
        types = {"action": "utf8", "allocation": "int64", "bytes": "int64", "stream": "int64", "time_us": "int64"}
        return _native.arrow_stream(columns(list(self), types), self.events)

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}, {self.events} events>"


def read(*sources: Source, memory_limit: int | None = None) -> list[Trace]:
    """Reads recordings. A snapshot of several devices gives one trace per device.

    Args:
        *sources: Files and objects; see the module.
        memory_limit: Maximum host memory to use, in bytes; three quarters of the free memory by default.

    Raises:
        InputError: A file is unreadable or not a recording. The message names the line or byte, and the remedy.
        OutOfMemory: A recording needs more memory than the limit.

    >>> from cubeyard import replay
    >>> replay.read(b"alloc a 1 MiB")
    [<Trace 'trace', 1 events>]
    """
    check_limit(memory_limit)
    names = _names()
    given = [source if isinstance(source, Trace) else _given(source, names) for source in sources]
    unread = [source for source in given if not isinstance(source, Trace)]
    found = iter(_native.read_traces(unread, memory_limit))
    each = [[source] if isinstance(source, Trace) else [Trace(native) for native in next(found)] for source in given]
    return [trace for traces in each for trace in traces]


def check_limit(memory_limit: Any) -> None:
    """Checks that a memory limit is a positive number of bytes or None."""
    if memory_limit is None or (isinstance(memory_limit, int) and 0 < memory_limit < 2**64):
        return
    raise InputError(f"memory_limit is {memory_limit!r}: expected a number of bytes, at least 1, or None")


def example() -> Trace:
    """Returns the trace included in the package: ResNet-50 training."""
    return Trace(_native.bundled_trace())


def _names() -> Iterator[str]:
    """Yields names for recordings without a file."""
    yield "trace"
    number = 2
    while True:
        yield f"trace ({number})"
        number += 1


def _given(source: Any, names: Iterator[str]) -> Any:
    """Converts a source for the native module: a path, or a name and bytes."""
    if isinstance(source, str | os.PathLike):
        # A string, because Ctrl-C in a path's `__fspath__`, called by the native module, would become a TypeError.
        return str(Path(source))
    if isinstance(source, Snapshot):
        return next(names), source.pickled
    if isinstance(source, bytes | bytearray):
        return next(names), bytes(source)
    if isinstance(source, Mapping):
        return next(names), _pickled(source)
    expected = "a file, bytes, the result of torch.cuda.memory._snapshot(), a Snapshot or a Trace"
    raise InputError(f"source is {source!r}: expected {expected}")


def _pickled(source: Mapping[str, Any]) -> bytes:
    try:
        return pickle.dumps(dict(source), protocol=4)
    except Exception as error:
        raise InputError(f"source: expected a dictionary of plain data, found one that cannot be pickled: {error}") from error
