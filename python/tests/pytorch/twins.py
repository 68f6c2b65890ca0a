"""Copies of a program's values on the device, and the comparison of both runs to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

DEVICE = "ahbm"

CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 2e-5}, torch.bfloat16: {"rtol": 2e-2, "atol": 1e-2}}
"""Bounds of differences that are rounding, where they are not PyTorch's own."""


def seed(number: int) -> None:
    """Sets the seeds of the CPU and the device. `torch.manual_seed` notes the stack for devices that are not there."""
    torch.default_generator.manual_seed(number)
    torch.ahbm.manual_seed(number)


def onto(value: Any, device: str = DEVICE) -> Any:
    """Returns a value with all its tensors, generators and names of devices on the device, in the same layout."""
    return _map(value, lambda leaf: _leaf_onto(leaf, device))


def tensors(value: Any) -> list[torch.Tensor]:
    """Returns all tensors in a value, in order."""
    found: list[torch.Tensor] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        return leaf

    _map(value, note)
    return found


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(part, change) for part in value))
    if isinstance(value, (list, tuple, torch.Size)):
        parts = [_map(part, change) for part in value]
        # Results of some operators have types of their own, which take a sequence.
        return parts if isinstance(value, list) else type(value)(parts)
    if isinstance(value, dict):
        return {key: _map(part, change) for key, part in value.items()}
    return change(value)


def _leaf_onto(leaf: Any, device: str) -> Any:
    if isinstance(leaf, torch.Tensor):
        return twin(leaf, device)
    if isinstance(leaf, torch.device) and leaf.type == "cpu":
        return torch.device(device)
    if isinstance(leaf, str) and leaf == "cpu":
        return device
    if isinstance(leaf, torch.Generator):
        made = torch.Generator(device)
        made.set_state(leaf.get_state())
        return made
    return leaf


def twin(tensor: torch.Tensor, device: str = DEVICE) -> torch.Tensor:
    """Returns a tensor on the device with the same elements, sizes, strides and offset in its storage."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        return tensor.to(device)
    plain = tensor.detach()
    bits = plain.conj() if plain.is_conj() else plain
    bits = bits._neg_view() if bits.is_neg() else bits
    whole = bits.as_strided((bits.untyped_storage().nbytes() // bits.element_size(),), (1,), 0)
    copy = torch.empty(whole.shape, dtype=bits.dtype, device=device).copy_(whole)
    copy = copy.as_strided(bits.size(), bits.stride(), bits.storage_offset())
    copy = copy._neg_view() if plain.is_neg() else copy
    copy = copy.conj() if plain.is_conj() else copy
    return copy.requires_grad_(tensor.requires_grad)


def compare(place: str, expected: Any, found: Any, values: str = "bits") -> int:
    """Compares the results of the CPU with those of the device; returns how many tensors there were.

    Args:
        place: Name of the results in messages.
        expected: Results of the CPU.
        found: Results of the device.
        values: "bits" for equal values, "close" for values that are equal but for rounding, "unset" for any.

    Raises:
        AssertionError: The results differ in structure, type, shape, strides, device or values.
    """
    assert type(expected) is type(found), f"{place}: {type(found).__name__}, and {type(expected).__name__} on the CPU"
    if isinstance(expected, torch.Tensor):
        compare_tensors(place, expected, found, values)
        return 1
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(found), f"{place}: {len(found)} results, and {len(expected)} on the CPU"
        return sum(
            compare(f"{place}[{number}]", one, other, values)
            for number, (one, other) in enumerate(zip(expected, found, strict=True))
        )
    if isinstance(expected, dict):
        assert list(expected) == list(found), f"{place}: keys {list(found)}, and {list(expected)} on the CPU"
        return sum(compare(f"{place}[{key!r}]", expected[key], found[key], values) for key in expected)
    if isinstance(expected, float) and expected != expected:
        assert found != found, f"{place}: {found}, and {expected} on the CPU"
    elif values == "bits" and not isinstance(expected, (torch.device, torch.Generator)):
        assert expected == found, f"{place}: {found}, and {expected} on the CPU"
    return 0


def compare_tensors(place: str, expected: torch.Tensor, found: torch.Tensor, values: str = "bits") -> None:
    """Compares a tensor of the CPU with one of the device."""
    assert expected.device.type == "cpu", f"{place}: the CPU's result is on {expected.device}"
    assert found.device.type == DEVICE, f"{place} is on {found.device}"
    for name in ("dtype", "shape", "layout", "requires_grad"):
        one, other = getattr(expected, name), getattr(found, name)
        assert one == other, f"{place}: {name} {other}, and {one} on the CPU"
    if expected.layout != torch.strided:
        return
    one, other = _strides(expected), _strides(found)
    assert one == other, f"{place}: strides {other}, and {one} on the CPU"
    if values == "unset":
        return
    back = found.detach().cpu().resolve_conj().resolve_neg()
    plain = expected.detach().resolve_conj().resolve_neg()
    if not _same_bits(plain, back):
        bounds = {"rtol": 0, "atol": 0} if values == "bits" else CLOSE.get(plain.dtype, {})
        torch.testing.assert_close(back, plain, **bounds, equal_nan=True, msg=lambda text: f"{place}: {text}")


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns the strides, without those that no element depends on."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride if size > 1 else 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    row = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return row.copy_(tensor.reshape(-1)).view(torch.uint8)
