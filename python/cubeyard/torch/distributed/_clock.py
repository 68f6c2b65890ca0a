"""Simulated time of a rank."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

__all__ = ["Clock"]


class Clock:
    """Time of a rank's work, in picoseconds.

    Tensors of the CPU have the clock of the rank: that of the host where the device is loaded, and one of its own
    where ranks are threads, which share a host. Tensors of the device have the current stream.
    """

    def __init__(self, *, is_alone: bool) -> None:
        self._own = 0
        self._seen = 0
        self._spans: list[list[Any]] = []
        self._lock = threading.Lock()
        self._device = _Device.find()
        self._host = self._device if is_alone else None

    def now(self, device: Any = None) -> int:
        """Returns the time of the work on a device; of that of the host by default."""
        if self._device is not None and self._device.owns(device):
            return self._device.stream_time(device)
        return self._own if self._host is None else self._host.host_time()

    def advance(self, picoseconds: int) -> None:
        """Adds work of the host."""
        self.join(self.now() + picoseconds, name="compute")

    def join(self, end: int, device: Any = None, name: str = "wait") -> None:
        """Lets the work that follows begin at a time at the earliest."""
        now = self.now(device)
        self.touch(now)
        if end <= now:
            return
        with self._lock:
            self._spans.append([name, now / 1000, end / 1000])
            self._seen = max(self._seen, end)
        if self._device is not None and self._device.owns(device):
            self._device.stream_wait(device, end)
        elif self._host is not None:
            self._host.host_wait(end)
        else:
            self._own = end

    def touch(self, now: int) -> None:
        """Notes that the time since the last call was spent on work."""
        with self._lock:
            if now > self._seen:
                self._spans.append(["compute", self._seen / 1000, now / 1000])
                self._seen = now

    def take_spans(self) -> list[list[Any]]:
        """Returns what the rank did since the last call of this."""
        self.touch(self.now())
        with self._lock:
            spans, self._spans = self._spans, []
        return _merged(spans)


class _Device:
    """Streams and the host's clock of the device, where that is loaded."""

    def __init__(self, native: Any, name: str) -> None:
        self.name = name
        self.native = native
        for function, result, arguments in (
            ("record", ctypes.c_uint64, (ctypes.c_uint32, ctypes.c_uint32)),
            ("stream_wait", None, (ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64)),
            ("now", ctypes.c_uint64, ()),
            ("wait", None, (ctypes.c_uint64,)),
        ):
            call = getattr(native, f"cubeyard_torch_{function}")
            call.restype, call.argtypes = result, arguments

    @classmethod
    def find(cls) -> _Device | None:
        """Returns the device of this process, if it is loaded."""
        try:
            from cubeyard import _native
            from cubeyard.torch import _loader
        except ImportError:
            return None
        if not _loader.is_loaded():
            return None
        return cls(ctypes.CDLL(_native.__file__), _loader.name)

    def owns(self, device: Any) -> bool:
        return device is not None and device.type == self.name

    def stream_time(self, device: Any) -> int:
        return int(self.native.cubeyard_torch_record(*self._stream(device)))

    def stream_wait(self, device: Any, time: int) -> None:
        self.native.cubeyard_torch_stream_wait(*self._stream(device), time)

    def host_time(self) -> int:
        return int(self.native.cubeyard_torch_now())

    def host_wait(self, time: int) -> None:
        self.native.cubeyard_torch_wait(time)

    @staticmethod
    def _stream(device: Any) -> tuple[int, int]:
        import torch

        stream = torch.accelerator.current_stream(device)
        return stream.device_index, stream.stream_id


def _merged(spans: list[list[Any]]) -> list[list[Any]]:
    """Joins spans of one name that follow each other."""
    out: list[list[Any]] = []
    for name, start, end in spans:
        if out and out[-1][0] == name and out[-1][2] == start:
            out[-1][2] = end
        else:
            out.append([name, start, end])
    return out
