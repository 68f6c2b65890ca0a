"""Mixed precision: `torch.amp` for this device, with the names of `torch.cuda.amp`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from cubeyard.torch import _loader

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """Context manager or decorator for mixed precision on the device; see `torch.autocast`.

    Args:
        enabled: Whether mixed precision is on.
        dtype: Type for operators that support reduced precision.
        cache_enabled: Whether to convert each weight only once.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__(_loader.name, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """Loss scaler for the device; see `torch.amp.GradScaler` for the arguments."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(_loader.name, *arguments, **keywords)


def custom_fwd(fwd: Any = None, **keywords: Any) -> Any:
    """Decorates the `forward` of an autograd function; see `torch.amp.custom_fwd`."""
    if fwd is None:
        return functools.partial(custom_fwd, **keywords)
    return torch.amp.custom_fwd(fwd, device_type=_loader.name, **keywords)


def custom_bwd(bwd: Any) -> Any:
    """Decorates the `backward` of an autograd function; see `torch.amp.custom_bwd`."""
    return torch.amp.custom_bwd(bwd, device_type=_loader.name)
