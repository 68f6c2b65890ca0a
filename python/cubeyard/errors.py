"""The exceptions of the package.

Every error is a `CubeyardError`. Its text names the argument, file, key or line and what was expected; `details` holds
the numbers of the error by name, such as `requested` and `largest_free` of an `OutOfMemory`.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BusyError",
    "ClosedError",
    "CubeyardError",
    "DeviceError",
    "DistributedError",
    "InputError",
    "InternalError",
    "KernelError",
    "MachineError",
    "MachineWarning",
    "NoDataError",
    "OutOfMemory",
    "OutOfTime",
    "StalledError",
    "TorchDeviceError",
    "VersionError",
]


class CubeyardError(Exception):
    """Base of all errors of the package."""

    details: dict[str, Any]

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = dict(details or {})


class InputError(CubeyardError, ValueError):
    """An argument, a file or a value is not what was expected."""


class VersionError(InputError):
    """A record was made by a version with another format."""


class OutOfMemory(CubeyardError, MemoryError):
    """Memory of the machine or of an allocator has run out, or a run would need more of the host's than allowed."""


class OutOfTime(CubeyardError, RuntimeError):
    """Simulated time has run out, or a launch was not done within its limit."""


class KernelError(CubeyardError, RuntimeError):
    """A kernel has failed; the text names its line."""


class StalledError(CubeyardError, RuntimeError):
    """Launches or transfers wait for each other for good; the text says who waits for what."""


class MachineError(CubeyardError, RuntimeError):
    """A component of the machine reports an error."""


class NoDataError(CubeyardError, RuntimeError):
    """Values were asked of a context that simulates time only."""


class ClosedError(CubeyardError, RuntimeError):
    """The context was closed."""


class BusyError(CubeyardError, RuntimeError):
    """The object is in use: by a kernel that runs on it, or by another thread to which it belongs."""


class DeviceError(CubeyardError, RuntimeError):
    """A device failed to give or take back memory."""


class TorchDeviceError(CubeyardError, RuntimeError):
    """PyTorch's device of this package cannot be used; the text says why, and what to do."""


class DistributedError(CubeyardError, RuntimeError):
    """A collective cannot run: ranks disagree, or wait for each other for good."""


class InternalError(CubeyardError, RuntimeError):
    """A mistake of this package. Please report it with the script that shows it."""


class MachineWarning(UserWarning):
    """A machine has something that no traffic can use, such as bandwidth behind a slower link."""
