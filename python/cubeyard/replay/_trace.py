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
"""A recording: a file, its bytes, an object of `torch.cuda.memory._snapshot()`, a snapshot of an allocator, or a trace."""


class Trace:
    """A history of allocations and frees on one device, in order. `read()` makes it.

    It is a table of its events, which pandas, polars and pyarrow read as it is.

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
        """Name of the trace: that of its file, with the device if a file holds several."""
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
        """Program that made the snapshot, PyTorch or Cubeyard; `None` if the trace is no snapshot."""
        return self._native.recorded_by

    @property
    def recorded_reserved_bytes(self) -> int | None:
        """Peak of the bytes that the recorded allocator had reserved, if the snapshot has it."""
        return self._native.recorded_reserved_bytes

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterates over the events. A free has neither a size nor a stream."""
        names = ("action", "allocation", "bytes", "stream", "time_us")
        for values in zip(*self._native.columns(), strict=True):
            yield dict(zip(names, values, strict=True))

    def __len__(self) -> int:
        return self.events

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the events as an Arrow stream. A requested schema is not applied."""
        types = {"action": "utf8", "allocation": "int64", "bytes": "int64", "stream": "int64", "time_us": "int64"}
        return _native.arrow_stream(columns(list(self), types), self.events)

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}, {self.events} events>"


def read(*sources: Source, memory_limit: int | None = None) -> list[Trace]:
    """Reads recordings; a snapshot of several devices is a trace for each.

    Args:
        *sources: Files and objects; see the module.
        memory_limit: Highest number of bytes to use; three quarters of what the host has free if omitted.

    Raises:
        InputError: A file cannot be read, or is no recording; the text has its line or byte, and what to do.
        OutOfMemory: A recording needs more than the limit.

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
    """Refuses a limit that is no number of bytes."""
    if memory_limit is None or (isinstance(memory_limit, int) and 0 < memory_limit < 2**64):
        return
    raise InputError(f"memory_limit is {memory_limit!r}: expected a number of bytes, at least 1, or None")


def example() -> Trace:
    """Returns a trace that comes with the package: ResNet-50 in training."""
    return Trace(_native.bundled_trace())


def _names() -> Iterator[str]:
    """Yields names for recordings that are no files."""
    yield "trace"
    number = 2
    while True:
        yield f"trace ({number})"
        number += 1


def _given(source: Any, names: Iterator[str]) -> Any:
    """Returns a source as the native module takes it: a path, or a name and bytes."""
    if isinstance(source, str | os.PathLike):
        # As text: Ctrl-C within a path's `__fspath__`, called by the native module, would become a TypeError.
        return str(Path(source))
    if isinstance(source, Snapshot):
        return next(names), source.pickled
    if isinstance(source, bytes | bytearray):
        return next(names), bytes(source)
    if isinstance(source, Mapping):
        return next(names), _pickled(source)
    expected = "a file, bytes, an object of torch.cuda.memory._snapshot(), a Snapshot or a Trace"
    raise InputError(f"source is {source!r}: expected {expected}")


def _pickled(source: Mapping[str, Any]) -> bytes:
    try:
        return pickle.dumps(dict(source), protocol=4)
    except Exception as error:
        raise InputError(f"source: a dictionary that cannot be pickled: {error}; expected plain data") from error
