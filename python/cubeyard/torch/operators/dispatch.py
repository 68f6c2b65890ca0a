"""Calls of operators as PyTorch's dispatcher sees them, in the form that `cost` takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cubeyard.torch.operators.spec import TensorSpec

__all__ = ["Calls", "frozen", "ordered"]



def frozen(value: Any) -> Any:
    """Returns an argument or a result with a `TensorSpec` for each tensor, and tuples for lists."""
    if isinstance(value, torch.Tensor):
        return _spec(value)
    if isinstance(value, tuple | list):
        return tuple(map(frozen, value))
    return int(value) if isinstance(value, torch.SymInt) else value


def ordered(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns arguments in the order of an operator's schema; those that are not given have their defaults."""
    given = []
    for at, argument in enumerate(func._schema.arguments):
        if at < len(args):
            given.append(frozen(args[at]))
        else:
            given.append(frozen(kwargs.get(argument.name, argument.default_value)))
    return tuple(given)


class Calls(TorchDispatchMode):
    """Mode that hands each operator of a program to a function, before autograd's and after composite operators'.

    Args:
        seen: Function of the operator with its overload, its arguments and its results, as `cost` takes them.
    """

    def __init__(self, seen: Callable[[str, tuple[Any, ...], tuple[Any, ...]], None]) -> None:
        super().__init__()
        self._seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator, then hands it on. The arguments are taken before, since it may change their shapes."""
        given = ordered(func, args, kwargs or {})
        results = func(*args, **(kwargs or {}))
        listed = () if results is None else tuple(results) if isinstance(results, tuple | list) else (results,)
        if func._schema.returns and len(func._schema.returns) == 1 and isinstance(results, list):
            listed = (results,)
        self._seen(_name(func), given, frozen(listed))
        return results


@functools.cache
def _name(func: Any) -> str:
    return str(func._schema.name) + (f".{func._schema.overload_name}" if func._schema.overload_name else "")


def _spec(tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(int(n) for n in tensor.shape)
    if tensor.layout is not torch.strided:
        return TensorSpec((int(tensor._nnz()) if tensor.is_sparse else tensor.numel(),), (1,), dtype, tensor.element_size())
    return TensorSpec(shape, tuple(int(n) for n in tensor.stride()), dtype, tensor.element_size())
