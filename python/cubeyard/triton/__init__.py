"""Unmodified Triton kernels on the simulated machine.

Triton's own compiler translates a kernel to its IR for the backend `ahbm`, which this package registers. This module runs
the IR on PEs. Arguments are NumPy arrays, tensors of this package, or PyTorch tensors on `ahbm`.

>>> import numpy as np, triton, cubeyard.triton
>>> from cubeyard.triton.example import add
>>> x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
>>> with cubeyard.triton.record() as run:
...     kernel = add[(triton.cdiv(5000, 1024),)](x, x, out, 5000, BLOCK=1024)
>>> bool((out == 2 * x).all()), run.launches[0].ok
(True, True)

The backend is active if the environment variable TRITON_DEFAULT_BACKEND is `ahbm`, or if no other Triton backend is active.
docs/triton.md lists the supported operations, and the GPU features that this machine lacks.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if "triton" not in sys.modules and find_spec("triton") is not None:
    # Triton imports its backends' modules, which need Triton. So Triton is imported first in any case.
    import triton  # noqa: F401

if TYPE_CHECKING:
    from cubeyard.triton._arguments import Placed, place
    from cubeyard.triton._record import Recording, TritonRun, record

__all__ = ["Placed", "Recording", "TritonRun", "place", "record"]

if not TYPE_CHECKING:
    # Names are imported on first use: `import triton` loads this package for its backend, and must not wait for the
    # simulator.
    _HOMES = {"Placed": "_arguments", "place": "_arguments", "Recording": "_record", "TritonRun": "_record", "record": "_record"}

    def __getattr__(name):
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'cubeyard.triton' has no attribute {name!r}")
        value = getattr(import_module(f"cubeyard.triton.{_HOMES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
