"""Registration of the device with Inductor, once Inductor compiles its first graph."""

from __future__ import annotations

import functools

from cubeyard.torch.inductor import attention, backend, benchmarks, lines, templates, versions

__all__ = ["register"]


@functools.cache
def register(name: str) -> None:
    """Registers code generators, measurements and block sizes for the device, once.

    Raises:
        TorchDeviceError: This version of PyTorch lacks the hooks.
    """
    versions.check()
    lines.register()
    benchmarks.register(name)
    templates.register(name)
    attention.register(name)
    # Last: Inductor takes a device with a code generator as complete.
    backend.register(name)
