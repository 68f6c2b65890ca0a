"""Flex attention on the device: PyTorch names the devices that it allows, and counts the multiprocessors of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["allow", "register"]


def allow(module: Any, name: str) -> None:
    """Allows tensors of the device in `flex_attention`.

    Args:
        module: PyTorch's module `torch.nn.attention.flex_attention`.
        name: Name of the device.
    """
    plain = module._validate_device

    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != name:
            plain(query, key, value)

    module._validate_device = validate


def register(name: str) -> None:
    """Makes the decoding kernel split keys over the PEs of the device."""
    from torch._inductor.kernel.flex import flex_decoding

    flex_decoding.get_split_k = _instead(flex_decoding.get_split_k, name)


def _instead(plain: Callable[..., int], name: str) -> Callable[..., int]:
    def get_split_k(batch: int, heads: int, *rest: Any) -> int:
        from torch._inductor.utils import get_gpu_type

        if get_gpu_type() != name:
            return plain(batch, heads, *rest)
        pes: int = getattr(torch, name).get_device_properties().multi_processor_count
        return max(pes // max(int(batch) * int(heads), 1), 1)

    return get_split_k
