"""Python kernels and the types of their arguments. The definitions are in `cubeyard.kernels.kernel`."""

from __future__ import annotations

from cubeyard.kernels.kernel import (
    Composite,
    Handle,
    Kernel,
    LaunchReport,
    Lazy,
    Mask,
    Ref,
    RustKernel,
    Tile,
    Tl,
    jit,
)

__all__ = [
    "Composite",
    "Handle",
    "Kernel",
    "LaunchReport",
    "Lazy",
    "Mask",
    "Ref",
    "RustKernel",
    "Tile",
    "Tl",
    "jit",
]
