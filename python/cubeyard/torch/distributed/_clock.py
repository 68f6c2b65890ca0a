"""Simulated clock of a rank."""

from __future__ import annotations

import threading
from typing import Any

from cubeyard import _native

__all__ = ["Clock"]


class Clock:
    """Simulated time of a rank's work, in picoseconds.

    Work on CPU tensors uses the rank's clock. This is the host's clock if the device is loaded and no other rank is a thread
    of this process; otherwise the rank has a clock of its own. Work on device tensors uses the current stream.
    """

    def __init__(self, *, is_alone: bool) -> None:
        self._own = 0
        self._seen = 0
        self._spans: list[list[Any]] = []
        self._lock = threading.Lock()
        self._device = _device()
        self._has_host = bool(self._device) and is_alone

    def now(self, device: Any = None) -> int:
        """Returns the time of the work on a device; by default, of the work on the host."""
        if self._is_on_device(device):
            return _native.torch_stream_time(*_stream(device))
        return _native.torch_now() if self._has_host else self._own

    def advance(self, picoseconds: int) -> None:
        """Adds work on the host."""
        self.join(self.now() + picoseconds, name="compute")

    def join(self, end: int, device: Any = None, name: str = "wait") -> None:
        """Delays later work until at least `end`."""
        now = self.now(device)
        self.touch(now)
        if end <= now:
            return
        with self._lock:
            self._spans.append([name, now / 1000, end / 1000])
            self._seen = max(self._seen, end)
        if self._is_on_device(device):
            _native.torch_stream_wait(*_stream(device), end)
        elif self._has_host:
            _native.torch_wait(end)
        else:
            self._own = end

    def touch(self, now: int) -> None:
        """Records the time since the last call as work."""
        with self._lock:
            if now > self._seen:
                self._spans.append(["compute", self._seen / 1000, now / 1000])
                self._seen = now

    def take_spans(self) -> list[list[Any]]:
        """Returns the rank's activities since the last call of this method."""
        self.touch(self.now())
        with self._lock:
            spans, self._spans = self._spans, []
        return _merged(spans)

    def _is_on_device(self, device: Any) -> bool:
        return device is not None and device.type == self._device


def _device() -> str | None:
    """Returns the name of the device, or None if this process has not loaded it."""
    from cubeyard.torch import _loader

    return _loader.name if _loader.is_loaded() else None


def _stream(device: Any) -> tuple[int, int]:
    import torch

    stream = torch.accelerator.current_stream(device)
    return stream.device_index, stream.stream_id


def _merged(spans: list[list[Any]]) -> list[list[Any]]:
    """Merges consecutive spans with the same name."""
    out: list[list[Any]] = []
    for name, start, end in spans:
        if out and out[-1][0] == name and out[-1][2] == start:
            out[-1][2] = end
        else:
            out.append([name, start, end])
    return out
