"""Triton: kernels as their authors wrote them, on the simulated machine.

Triton's own compiler translates a kernel to its IR for the backend `ahbm`, which this package registers, and this module
runs that IR on PEs. Arguments are arrays of NumPy, tensors of this package, or PyTorch's tensors on `ahbm`.

>>> import numpy as np, triton, cubeyard.triton
>>> from cubeyard.triton.example import add
>>> x, out = np.arange(5000, dtype=np.float32), np.zeros(5000, np.float32)
>>> with cubeyard.triton.record() as run:
...     kernel = add[(triton.cdiv(5000, 1024),)](x, x, out, 5000, BLOCK=1024)
>>> bool((out == 2 * x).all()), run.launches[0].ok
(True, True)

The backend is active if the variable TRITON_DEFAULT_BACKEND of the environment is `ahbm`, or if no other backend of
Triton is. docs/triton.md has the operations that it knows, and what a GPU has and this machine has not.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

if "triton" not in sys.modules and find_spec("triton") is not None:
    # Triton imports the modules of its backends, which need Triton: whichever is asked for first, Triton is imported first.
    import triton  # noqa: F401

if TYPE_CHECKING:
    from cubeyard.triton._arguments import Placed, place
    from cubeyard.triton._record import Recording, TritonRun, record

__all__ = ["Placed", "Recording", "TritonRun", "place", "record"]

if not TYPE_CHECKING:
    # Names are imported at their first use: `import triton` looks into this package for its backend, and must not wait
    # for the simulator.
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
