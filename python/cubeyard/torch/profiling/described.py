"""Calls as the shim describes them, so that an operator has one cost with data and without.

The rules are those of csrc/description.cpp: strides of dimensions with one element are those of a contiguous tensor, numbers that no
kernel treats by themselves are not a number, and devices, layouts and generators do not matter.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from cubeyard.torch.operators import TensorSpec

__all__ = ["described", "dtype_name", "is_free"]

_SPECIAL = {0.0, 0.5, 1.0, 2.0, 3.0}
"""Sizes of numbers that a kernel may treat by themselves."""
_EMPTY = (
    "aten::empty", "aten::new_empty", "aten::resize", "aten::_resize", "aten::set_",
    "aten::_efficientzerotensor", "aten::record_stream", "aten::_pin_memory", "aten::lift",
)  # fmt: skip
"""Begins of the names of operators that make tensors without contents, or change where a tensor has its contents."""
_OTHERS = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "ahbm"}
"""Namespaces whose operators take time by themselves."""


def described(func: Any, arguments: tuple[Any, ...], results: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the arguments and the results of an operator as `cost` gets them from the shim."""
    roles, returns = _roles(func)
    given = tuple(_value(value, role) for value, role in zip(arguments, roles, strict=False))
    made = results if returns != 1 else (results,)
    return given, tuple(_value(value, "") for value in made or ())


@functools.cache
def is_free(func: Any) -> bool:
    """Returns whether an operator takes no time of a device: a view, a new tensor without contents, or a question."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return False
    if schema.name.startswith(_EMPTY) or schema.name.partition("::")[0] in _OTHERS:
        return True
    return _is_view(schema) or _is_question(func, schema)


def _is_view(schema: Any) -> bool:
    """Returns whether every result is a view of an argument."""
    marks = [result.alias_info for result in schema.returns]
    return bool(marks) and all(mark is not None and not mark.is_write for mark in marks)


def _is_question(func: Any, schema: Any) -> bool:
    """Returns whether an operator neither gives nor writes a tensor."""
    gives = any("Tensor" in str(result.type) for result in schema.returns)
    writes = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
    return not gives and not writes and torch.Tag.data_dependent_output not in func.tags


@functools.cache
def _roles(func: Any) -> tuple[tuple[str, ...], int]:
    """Returns what the numbers of each argument are: `tensor`, `number` or empty; and the number of results."""
    schema = func._schema
    return tuple(_role(str(argument.type)) for argument in schema.arguments), len(schema.returns)


def _role(kind: str) -> str:
    if "Tensor" in kind:
        return "tensor"
    return "number" if any(word in kind for word in ("number", "Scalar", "float")) else ""


def _value(value: Any, role: str) -> Any:
    if isinstance(value, torch.Tensor):
        return _spec(value)
    if isinstance(value, tuple | list):
        return tuple(_value(one, role) for one in value)
    if isinstance(value, int | float | complex):
        return _number(value, role)
    if value is None or isinstance(value, str):
        return value
    return dtype_name(value) if isinstance(value, torch.dtype) else None


def _number(value: complex, role: str) -> Any:
    """Returns a number; not a number if its value cannot matter."""
    if role == "tensor" or type(value) is complex:
        return math.nan
    if type(value) is bool or (type(value) is int and not role):
        return value
    return value if abs(value) in _SPECIAL else math.nan


def _spec(tensor: torch.Tensor) -> TensorSpec:
    shape, strides, after = tuple(tensor.shape), list(tensor.stride()), 1
    for place in reversed(range(len(shape))):
        strides[place] = after if shape[place] == 1 else strides[place]
        after = strides[place] * max(shape[place], 1)
    return TensorSpec(shape, tuple(strides), dtype_name(tensor.dtype), tensor.element_size())


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """Returns the name of an element type, such as `float32`."""
    return str(dtype).removeprefix("torch.")
