"""Tensors of the device as the host sees them, without a copy and without waiting for a stream."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import torch

__all__ = ["on_host"]


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor of the CPU with the same memory; one of the CPU itself.

    A copy in PyTorch's way would wait for the current stream, which a collective does not.
    """
    name, distance = _space()
    if tensor.device.type != name or not tensor.numel():
        return tensor
    storage = tensor.untyped_storage()
    # The host's place may be below, so that the sum wraps.
    held = (ctypes.c_char * storage.nbytes()).from_address((storage.data_ptr() + distance) % (1 << 64))
    whole = torch.from_numpy(np.frombuffer(held, np.uint8))
    # A storage may end in the middle of an element.
    whole = whole[: len(whole) // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _Space(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("span", ctypes.c_uint64),
        ("distance", ctypes.c_uint64),
        ("devices", ctypes.c_uint64),
    )


@functools.cache
def _space() -> tuple[str, int]:
    """Returns the name of the device, and the distance from its pointers to those of the host."""
    try:
        from cubeyard import _native
        from cubeyard.torch import _loader
    except ImportError:
        return "", 0
    if not _loader.is_loaded():
        return "", 0
    library: Any = ctypes.CDLL(_native.__file__)
    found = _Space()
    status = library.cubeyard_torch_get_space(ctypes.byref(found))
    if status != 0:
        raise AssertionError(f"the device is loaded, and its memory is not known: status {status}")
    return _loader.name, int(found.distance)
