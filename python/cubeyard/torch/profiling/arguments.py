"""Arguments of an operator: in the order of its schema, and as text."""

from __future__ import annotations

import functools
from typing import Any

import torch

from cubeyard.torch import _loader
from cubeyard.torch.profiling.described import dtype_name

__all__ = ["arguments_of", "device_tensors", "dtypes_of", "named", "shapes_of", "tensors_of"]


def arguments_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Returns all arguments of an operator in the order of its schema, with defaults for those that are not given."""
    rest = _rest(func)
    return args + tuple(kwargs.get(name, default) for name, default in rest[len(args) :])


def named(func: Any, arguments: tuple[Any, ...], name: str) -> Any:
    """Returns the argument with a name, of arguments in the order of the schema."""
    return arguments[[other for other, _ in _rest(func)].index(name)]


@functools.cache
def _rest(func: Any) -> tuple[tuple[str, Any], ...]:
    """Returns the names and defaults of an operator's arguments."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return ()
    return tuple((argument.name, argument.default_value) for argument in schema.arguments)


def device_tensors(values: Any) -> list[torch.Tensor]:
    """Returns the tensors of the device among values, also within lists."""
    return [tensor for tensor in tensors_of(values) if tensor.device.type == _loader.name]


def tensors_of(values: Any) -> list[torch.Tensor]:
    """Returns the tensors among values, also within lists."""
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, tuple | list):
        return [tensor for value in values for tensor in tensors_of(value)]
    return []


def dtypes_of(tensors: list[torch.Tensor]) -> str:
    """Returns the element types of tensors as text.

    >>> dtypes_of([torch.ones(2), torch.ones(3)])
    'float32'
    """
    return " ".join(dict.fromkeys(dtype_name(tensor.dtype) for tensor in tensors))


def shapes_of(values: Any) -> str:
    """Returns the shapes of the tensors among values as text.

    >>> shapes_of((torch.ones(2, 3), 1, [torch.ones(4)]))
    '2x3 4'
    """
    if isinstance(values, torch.Tensor):
        return "x".join(map(str, values.shape)) or "1"
    if isinstance(values, tuple | list):
        return " ".join(filter(None, map(shapes_of, values)))
    return ""
