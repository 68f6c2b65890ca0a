"""Work of the devices for `torch.profiler`, in simulated time.

The shim has a profiler of Kineto (csrc/profiler.cpp), which calls this module when a session starts and stops. Meanwhile this
module reports the work to it: operators and copies as the native module observes them, and what timelines note.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from cubeyard.torch import _costs, _loader

if TYPE_CHECKING:
    from cubeyard.torch._timeline import TimelineSpan

__all__ = ["is_profiling", "note", "operator_of_thread", "register"]

COLLECTIVES = 1 << 20
"""Number of the first row of a device for collectives. Rows with smaller numbers are streams."""

_library: Any = None
_session = ExitStack()
_profiling = False
_rows: dict[str, int] = {}


def register() -> None:
    """Connects the shim's profiler. PyTorch 2.11 has no interface for it."""
    global _library
    found = ctypes.PyDLL(os.fspath(_loader.shim or ""))
    if _library is not None or not hasattr(found, "cubeyard_torch_on_profile"):
        return
    text, number = ctypes.c_char_p, ctypes.c_int64
    found.cubeyard_torch_profiled_operator.restype = ctypes.c_uint64
    found.cubeyard_torch_profile_work.restype = None
    found.cubeyard_torch_profile_work.argtypes = [
        ctypes.c_int, text, number, number, text, number, number, ctypes.c_uint64, ctypes.POINTER(text), ctypes.c_size_t
    ]  # fmt: skip
    found.cubeyard_torch_on_profile(_switch)
    _library = found
    atexit.register(_end)


def _end() -> None:
    """Ends a session that the program has left, and all calls of the shim into Python."""
    _library.cubeyard_torch_on_profile(None)
    _switched(0)


def _switched(is_on: int) -> int:
    """Begins or ends the reports of work. Returns the host's clock in picoseconds."""
    global _profiling
    from cubeyard import _native

    _session.close()
    if is_on:
        _costs.look_up_types()  # by operators, which are none of the program's
        _session.enter_context(_costs.observed(_charged))
    _profiling = bool(is_on)
    return _native.torch_now()


# The shim keeps the address, so the object stays.
_switch = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int)(_switched)


def is_profiling() -> bool:
    """Returns whether a session runs."""
    return _profiling


def operator_of_thread() -> int:
    """Returns the number of PyTorch's operator that runs on this thread; 0 if there is none, or no session."""
    return int(_library.cubeyard_torch_profiled_operator()) if _profiling else 0


def note(span: TimelineSpan, device: int, stream: int | None, operator: int = 0) -> None:
    """Reports work that is not an operator or a copy.

    Args:
        span: The work.
        device: Number of its device.
        stream: Number of its stream; None for a collective, which has the row of its track.
        operator: Number of PyTorch's operator that submitted it; 0 for the one that runs on this thread.
    """
    if not _profiling:
        return
    row = _rows.setdefault(span.track, COLLECTIVES + len(_rows)) if stream is None else stream
    details: dict[str, Any] = {"kind": span.kind}
    if span.pes:
        details["pes"] = len(span.pes)
    if span.lines:
        details["lines"] = ", ".join(span.lines)
    _report(False, span.name, (device, row), span.track if stream is None else None, (span.begin_ps, span.end_ps), details, operator)


def _charged(number: int, device: int, stream: int, begin: int, end: int, moved: int) -> None:
    """Reports an operator or a copy."""
    name, spent = _costs.counted(number)
    if spent is None:
        _report(True, name, (device, stream), None, (begin, end), {"kind": "copy", "bytes": moved})
        return
    source = spent.kernel or "estimate"
    details = {"kind": "operator", "operator": name, "source": source, "bytes": spent.bytes, "flops": spent.flops}
    _report(False, f"{name} ({source})", (device, stream), None, (begin, end), details)


def _report(
    is_copy: bool, name: str, row: tuple[int, int], row_name: str | None, span: tuple[int, int], details: dict[str, Any], operator: int = 0
) -> None:
    details |= {"begin_ps": span[0], "end_ps": span[1]}
    texts = [text.encode() for key, value in details.items() for text in (key, json.dumps(value))]
    given = (ctypes.c_char_p * len(texts))(*texts)
    title = row_name or f"stream {row[1]}"
    _library.cubeyard_torch_profile_work(
        is_copy, name.encode(), *row, title.encode(), *span, operator, given, len(details)
    )  # fmt: skip
