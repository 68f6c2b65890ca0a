"""Shapes without data: operators whose results have the strides of the CPU's kernel, which the device runs.

PyTorch predicts contiguous results of a convolution on a device that it does not know. The device runs the CPU's kernel,
which may choose another memory format. So the prediction is the one for the CPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

__all__ = ["register"]

_OPERATORS = ("convolution.default", "_convolution.default", "_convolution.deprecated", "convolution_backward.default")


def register(fakes: Any, name: str) -> None:
    """Replaces the predictions for the device.

    Args:
        fakes: PyTorch's module `torch._subclasses.fake_impls`.
        name: Name of the device.
    """
    known = fakes.op_implementations_dict
    for path in _OPERATORS:
        packet, overload = path.split(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        if operator in known:
            known[operator] = _as_on_cpu(known[operator], name)


def _as_on_cpu(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns a prediction that moves arguments of the device to the CPU, and the results back."""

    @functools.wraps(plain)
    def predicted(mode: Any, operator: Any, *arguments: Any, **named: Any) -> Any:
        devices = {one.device for one in _tensors((arguments, named)) if one.device.type == name}
        if len(devices) != 1:
            # Arguments of other devices, or an error that the plain prediction explains.
            return plain(mode, operator, *arguments, **named)
        device = devices.pop()
        with mode:
            moved, named = tree_map_only(torch.Tensor, lambda one: _like(one, torch.device("cpu")), (arguments, named))
        found = plain(mode, operator, *moved, **named)
        with mode:
            return tree_map_only(torch.Tensor, lambda one: _like(one, device), found)

    return predicted


def _tensors(of: Any) -> list[torch.Tensor]:
    from torch.utils._pytree import tree_leaves

    return [one for one in tree_leaves(of) if isinstance(one, torch.Tensor)]


def _like(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
