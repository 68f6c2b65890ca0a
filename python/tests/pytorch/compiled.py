"""Comparison of programs compiled for the device with the same programs on the CPU, without a compiler.

The loss of a comparison weights each result at random: a sum or a mean hides errors that cancel, such as a gradient
behind a normalization.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = "ahbm"


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Returns the largest difference as a share of the largest expected value; infinite if one is not a number."""
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found.shape, expected.shape, found.dtype, expected.dtype)
    if not expected.numel():
        return 0.0
    found, expected = (one.detach().cpu().to(torch.float64) for one in (found, expected))
    if not torch.equal(found.isnan(), expected.isnan()):
        return float("inf")
    found, expected = found.nan_to_num(), expected.nan_to_num()
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30)) if bool((found != expected).any()) else 0.0


def weighted(results: Any) -> torch.Tensor:
    """Returns the sum of all floating-point results, each element with a weight of its own."""
    random = torch.Generator().manual_seed(7)
    floats = [one for one in tree_leaves(results) if isinstance(one, torch.Tensor) and one.is_floating_point() and one.requires_grad]
    assert floats, "the loss has no results"
    parts = [(one.float() * torch.randn(one.shape, generator=random).to(one.device)).sum() for one in floats]
    return torch.stack(parts).sum()


def moved(value: Any) -> Any:
    """Returns a copy on the device with the same strides. Leaves of the graph stay leaves."""
    def move(one: torch.Tensor) -> torch.Tensor:
        base = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=DEVICE)
        base.copy_(one.detach())
        return base.requires_grad_(one.requires_grad)

    return tree_map_only(torch.Tensor, move, value)


def same(function: Callable[..., Any], *inputs: Any, tolerance: float = 1e-5, **options: Any) -> list[torch.Tensor]:
    """Checks a compiled function: its results, the inputs after the call, and gradients of inputs. Returns its results."""
    here, there = [tree_map_only(torch.Tensor, lambda one: one.detach().clone().requires_grad_(one.requires_grad), inputs), moved(inputs)]
    expected, found = function(*here), torch.compile(function, **options)(*there)
    _compare("result", found, expected, tolerance)
    if any(isinstance(one, torch.Tensor) and one.requires_grad for one in tree_leaves(here)):
        weighted(expected).backward()
        weighted(found).backward()
        _compare_gradients(tree_leaves(there), tree_leaves(here), tolerance)
    _compare("input", there, here, tolerance)
    return [one for one in tree_leaves(found) if isinstance(one, torch.Tensor)]


def same_module(model: torch.nn.Module, *inputs: Any, tolerance: float = 1e-5, **options: Any) -> Any:
    """Checks a compiled module: its results, its buffers, and the gradients of every parameter. Returns the compiled twin."""
    twin = copy.deepcopy(model).to(DEVICE)
    compiled = torch.compile(twin, **options)
    expected, found = model(*inputs), compiled(*moved(inputs))
    _compare("result", found, expected, tolerance)
    weighted(expected).backward()
    weighted(found).backward()
    names = [name for name, _ in model.named_parameters()]
    assert names == [name for name, _ in twin.named_parameters()]
    _compare_gradients(list(twin.parameters()), list(model.parameters()), tolerance, names)
    _compare("buffer", list(twin.buffers()), list(model.buffers()), tolerance)
    return compiled


def _compare(what: str, found: Any, expected: Any, tolerance: float) -> None:
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if isinstance(other, torch.Tensor):
            assert one.device.type == DEVICE, f"{what} {number} is on {one.device}"
            assert error(one, other) <= tolerance, f"{what} {number}: {error(one, other):.1e}"
        else:
            assert one == other


def _compare_gradients(found: list[Any], expected: list[Any], tolerance: float, names: list[str] | None = None) -> None:
    compared = 0
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if isinstance(other, torch.Tensor) and other.requires_grad and other.is_leaf:
            name = names[number] if names else f"input {number}"
            # A compiled graph gives zeros for an unused parameter, and autograd None.
            wanted = torch.zeros_like(other) if other.grad is None else other.grad
            got = torch.zeros_like(one) if one.grad is None else one.grad
            assert error(got, wanted) <= tolerance, f"gradient of {name}: {error(got, wanted):.1e}"
            compared += 1
    assert compared, "no gradient was compared"
