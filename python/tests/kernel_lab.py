"""Short ways to run kernels on one PE, for tests of kernels in Python."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cubeyard
from cubeyard import errors

EXAMPLES = Path(__file__).parent.parent / "examples"
ROWS = cubeyard.Placement(cube="row_wise", pe="row_wise")
ONE = cubeyard.Placement(cubes=1, pes=1)
HERE = {"cubes": [0], "pes": [0]}


def load(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def one(context: cubeyard.Context, values: Any, dtype: str = "f4") -> cubeyard.Tensor:
    return context.from_numpy(np.asarray(values, dtype=dtype)).to(ONE)


def compute(body: Any, *inputs: Any, dtype: str = "f4", shape: Any = None) -> np.ndarray:
    """Runs a kernel on one PE that makes one tile of others."""
    context = cubeyard.Context()
    tensors = [one(context, of, dtype) for of in inputs]
    made = context.empty(np.shape(inputs[0]) if shape is None else shape, dtype).to(ONE)

    def kernel(*all, tl):
        tl.store(all[-1], body(tl, *(tl.load(of) for of in all[:-1])))

    context.launch(kernel, *tensors, made, **HERE)
    return made.numpy()


def failing(context: cubeyard.Context, kernel: Any, *arguments: Any) -> errors.KernelError:
    with pytest.raises(errors.KernelError) as caught:
        context.launch(kernel, *arguments, **HERE)
    assert works(context)
    return caught.value


def works(context: cubeyard.Context) -> bool:
    """Whether a kernel runs on a context."""
    x = one(context, [1, 2])

    def negate(x, tl):
        tl.store(x, -tl.load(x))

    context.launch(negate, x, **HERE)
    return x.numpy().tolist() == [-1, -2]


def line_of(function: Any, text: str) -> str:
    """The file and line of a kernel that contains a text."""
    function = getattr(function, "function", function)
    lines, first = inspect.getsourcelines(function)
    at = next(number for number, line in enumerate(lines) if text in line)
    return f"{Path(inspect.getfile(function)).name}:{first + at}"
