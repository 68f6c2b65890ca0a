"""Tensors without data: PyTorch's fake tensors, with modules that can be moved to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.optim.optimizer import _foreach_supported_types as _types_of_optimizers
from torch.utils._foreach_utils import _foreach_supported_types as _types_of_clipping

__all__ = ["shapes_alone"]


@contextmanager
def shapes_alone(moved_to: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Makes all tensors of this thread, and of its backward, without data.

    Args:
        moved_to: Called with each parameter that has been moved to a device.
    """
    former = torch.nn.Module._apply

    def moved(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> torch.nn.Module:
        # PyTorch swaps fake parameters, which fails while its own fake mode keeps a weak reference to them.
        if recurse:
            for child in module.children():
                child._apply(fn)
        if not any(isinstance(one, FakeTensor) for one in module._parameters.values()):
            return former(module, fn, recurse=False)
        for parameter in module._parameters.values():
            if parameter is not None:
                _move(parameter, fn)
                moved_to(parameter)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fn(buffer)
        return module

    torch.nn.Module._apply = moved
    # Optimizers and clipping choose between their implementations by the types of tensors, and fake ones would be another.
    chosen: list[list[Any]] = [_types_of_optimizers, _types_of_clipping]
    for types in chosen:
        types.append(FakeTensor)
    try:
        # A kernel that PyTorch runs to learn the shapes of its results would need the memory of its tensors.
        with FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False):
            yield
    finally:
        for types in chosen:
            types.remove(FakeTensor)
        torch.nn.Module._apply = former


def _move(parameter: Any, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Moves a parameter and its gradient; both stay the objects that they are."""
    for tensor in filter(lambda one: one is not None, (parameter, parameter.grad)):
        with torch.no_grad():
            applied = fn(tensor)
        tensor.data = applied
        if isinstance(applied, FakeTensor):
            tensor.fake_device = applied.fake_device
