"""Versions of Triton that the backend was tried with."""

from __future__ import annotations

from cubeyard.errors import CubeyardError

__all__ = ["TESTED", "check", "found"]

TESTED = ("3.6", "3.7", "3.8", "3.9")
"""Minor versions of Triton; PyTorch 2.11 brings the first, PyTorch 2.15 the last."""


def found() -> str:
    """Returns the version of Triton that is installed."""
    import triton

    return str(triton.__version__)


def check() -> None:
    """Raises an error if the backend was never tried with this version of Triton."""
    version = found()
    minor = ".".join(version.split("+")[0].split(".")[:2])
    if minor not in TESTED:
        wanted = f"one of {', '.join(TESTED)}"
        raise CubeyardError(f"triton {version}: expected {wanted}; pip install 'triton=={TESTED[-1]}.*'")
