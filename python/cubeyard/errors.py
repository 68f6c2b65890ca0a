"""Exceptions of the package.

Every error is a `CubeyardError`. Its text names the argument, file, key or line, and the expected value. `details` holds
the error's numbers by name, such as `requested` and `largest_free` of an `OutOfMemory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cubeyard._native import MemoryReport

__all__ = [
    "BudgetExceeded",
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
    """Base class of all errors of the package."""

    details: dict[str, Any]

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.details = dict(details or {})


class InputError(CubeyardError, ValueError):
    """An argument, a file or a value is invalid."""


class VersionError(InputError):
    """A record has the format of another version."""


class OutOfMemory(CubeyardError, MemoryError):
    """The machine or an allocator is out of memory, or a run would exceed the host memory limit.

    The remedies of an allocator are tried on copies of it when the text, `args` or `details` is first read. A program that
    catches the error and reads none of them does not wait for that.
    """

    _report: MemoryReport | None = None

    def _try_remedies(self) -> None:
        """Completes the text and the details, once."""
        report, self._report = self._report, None
        if report is not None:
            BaseException.__init__(self, report.text())
            self._details["remedies"] = report.remedies()

    @property
    def details(self) -> dict[str, Any]:
        """Numbers of the error by name, the kind of shortage, the regions and the remedies."""
        self._try_remedies()
        return self._details

    @details.setter
    def details(self, details: dict[str, Any]) -> None:
        self._details = details

    @property
    def args(self) -> tuple[Any, ...]:
        """The text, as of every exception."""
        self._try_remedies()
        return super().args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._report = None
        BaseException.__init__(self, *args)

    def __str__(self) -> str:
        self._try_remedies()
        return super().__str__()

    def __repr__(self) -> str:
        self._try_remedies()
        return super().__repr__()

    def __reduce__(self) -> Any:
        self._try_remedies()
        return super().__reduce__()


class BudgetExceeded(OutOfMemory):
    """The hard budget of a tag refuses a request. `details` has the tag, its budget and its bytes."""


class OutOfTime(CubeyardError, RuntimeError):
    """Simulated time has run out, or a launch exceeded its time limit."""


class KernelError(CubeyardError, RuntimeError):
    """A kernel has failed. The text names its line."""


class StalledError(CubeyardError, RuntimeError):
    """Launches or transfers deadlock. The text states who waits for what."""


class MachineError(CubeyardError, RuntimeError):
    """A component of the machine reports an error."""


class NoDataError(CubeyardError, RuntimeError):
    """Values were requested from a context that simulates only time."""


class ClosedError(CubeyardError, RuntimeError):
    """The context or the channels are closed."""


class BusyError(CubeyardError, RuntimeError):
    """The object is in use by a kernel that runs on it, or belongs to another thread."""


class DeviceError(CubeyardError, RuntimeError):
    """A device failed to provide or take back memory."""


class TorchDeviceError(CubeyardError, RuntimeError):
    """The PyTorch device of this package cannot be used. The text gives the reason and the remedy."""


class DistributedError(CubeyardError, RuntimeError):
    """A collective cannot run: the ranks disagree or deadlock."""


class InternalError(CubeyardError, RuntimeError):
    """A bug in this package. Please report it with a script that reproduces it."""


class MachineWarning(UserWarning):
    """A machine has a resource that no traffic can use, such as bandwidth behind a slower link."""
