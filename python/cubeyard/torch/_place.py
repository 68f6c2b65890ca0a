"""Placement of tensors over the PEs of their SIP."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _loader

if TYPE_CHECKING:
    from cubeyard.tensors.placement import Placement

__all__ = ["PlacementWarning", "place"]

_Tensor = TypeVar("_Tensor", bound=torch.Tensor)
_NAMES = {
    "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip
"""This package's names of element types, by PyTorch's."""

WARNING = (
    "cubeyard.torch.place: Triton kernels take the time of the placement; PyTorch's operators, such as torch.add, take "
    "the time of pages that are dealt over the PEs, as if the tensor were not placed"
)

_has_warned = False


class PlacementWarning(UserWarning):
    """Warning that the time of PyTorch's operators does not depend on the placement of their tensors."""


def place(tensor: _Tensor, placement: Placement | None) -> _Tensor:
    """Places the memory of a tensor over the PEs of its SIP: rows, columns or copies, instead of pages in turn.

    Addresses and contents stay as they are; only the places in the HBM change, and so the time of later Triton kernels. With
    copies, each PE reads and writes its own. The placement holds until the memory is freed.

    The time of PyTorch's operators does not depend on the placement: operators take the time of pages that are dealt
    in turn. The first call warns of this with `PlacementWarning`, unless operators take no time.

    Args:
        tensor: a tensor of the device `ahbm` that is contiguous and covers its storage.
        placement: the distribution; its `sips` is the tensor's SIP or the default. None deals the pages again.

    Returns:
        The tensor itself.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != _loader.name:
        found = f"a tensor on {tensor.device}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise InputError(f"tensor: expected a tensor on {_loader.name}, found {found}")
    covers = tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes() and tensor.storage_offset() == 0
    if not covers or not tensor.numel():
        raise InputError("tensor: expected one that is contiguous, has elements and covers its storage, because the storage is placed")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise InputError(f"tensor of {name}: expected one of {', '.join(sorted(_NAMES))}")
    from cubeyard import _native

    given = None if placement is None else _on(placement, tensor.device.index)._native()
    _native.torch_place(tensor.device.index, tensor.data_ptr(), list(tensor.shape), _NAMES[name], given)
    if placement is not None and _native.torch_is_timed():
        _warn()
    return tensor


def _warn() -> None:
    """Warns once in a process, because a time that ignores a placement looks like any other."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(WARNING, PlacementWarning, stacklevel=3)


def _on(placement: Placement, sip: int) -> Placement:
    # Imported here: `import torch` imports this module even without the native module.
    from cubeyard.tensors.placement import Placement

    if not isinstance(placement, Placement):
        raise InputError(f"placement={placement!r}: expected a Placement or None")
    if placement.sips not in ((0,), (sip,)):
        raise InputError(f"placement: sips={placement.sips}: expected the tensor's SIP, ({sip},)")
    return replace(placement, sips=(sip,))
