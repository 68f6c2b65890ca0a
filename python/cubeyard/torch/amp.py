"""Mixed precision: `torch.amp` for this device, under the names of `torch.cuda.amp`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from cubeyard.torch import _loader

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """A context or decorator in which operators of the device choose their types; see `torch.autocast`.

    Args:
        enabled: Whether they do.
        dtype: Type of the operators that can be computed in a short one.
        cache_enabled: Whether weights are converted once.
    """

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__(_loader.name, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """A scaler of losses on the device; see `torch.amp.GradScaler`, whose other arguments it takes."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(_loader.name, *arguments, **keywords)


def custom_fwd(fwd: Any = None, **keywords: Any) -> Any:
    """Decorates `forward` of an autograd function; see `torch.amp.custom_fwd`."""
    if fwd is None:
        return functools.partial(custom_fwd, **keywords)
    return torch.amp.custom_fwd(fwd, device_type=_loader.name, **keywords)


def custom_bwd(bwd: Any) -> Any:
    """Decorates `backward` of an autograd function; see `torch.amp.custom_bwd`."""
    return torch.amp.custom_bwd(bwd, device_type=_loader.name)
