"""Launch arguments: NumPy arrays, tensors of this package, and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cubeyard.errors import InputError
from cubeyard.tensors.placement import Placement
from cubeyard.tensors.tensor import Tensor

__all__ = ["ROWS", "ElementType", "OnDevice", "Placed", "is_descriptor", "is_tensor", "memory", "of_torch", "place", "specialized", "triton_type"]

ROWS = Placement(cube="row_wise", pe="row_wise")
"""Default placement of arrays: rows over all PEs of the SIP."""

_TYPES = {
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
    "f16": "fp16", "f32": "fp32", "f64": "fp64", "bf16": "bf16", "fp8_e4m3": "fp8e4nv", "fp8_e5m2": "fp8e5",
    "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16", "u32": "u32", "u64": "u64",
    "fp16": "fp16", "fp32": "fp32", "fp64": "fp64", "fp8e4nv": "fp8e4nv", "fp8e5": "fp8e5", "int1": "i1",
}  # fmt: skip
"""Triton's element type names, by the names of NumPy and PyTorch, of this package, and of `triton.language`."""

_PYTORCH = {triton: name for name, triton in reversed(_TYPES.items()) if name.rstrip("0123456789") in ("float", "bfloat", "int", "uint")}
_PYTORCH |= {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "i1": "bool"}
"""PyTorch's element type names, by Triton's."""

_BITS = {"bf16": ("uint16", "bf16"), "fp8e4nv": ("uint8", "fp8_e4m3"), "fp8e5": ("uint8", "fp8_e5m2")}
"""NumPy type for the bits of elements that NumPy lacks, and this package's name of the element type."""


@dataclass(frozen=True)
class ElementType:
    """Element type of a placed array, with the attributes of a PyTorch dtype."""

    name: str
    itemsize: int
    is_floating_point: bool


@dataclass(frozen=True)
class Placed:
    """Array with its placement on the machine, made by `place`.

    It has the attributes that `triton.tools.tensor_descriptor.TensorDescriptor` reads, so the host can describe arrays.
    """

    array: np.ndarray[Any, Any]
    placement: Placement | None
    """Distribution of the array, or None for the launch's default."""
    element: str | None = None
    """Element type, if the array holds the bits of elements that NumPy lacks."""
    reach: np.ndarray[Any, Any] | None = None
    """All elements that a kernel may reach, if more than the array's own: a view reaches its whole storage."""

    @property
    def dtype(self) -> ElementType:
        """Element type of the array."""
        name = self.element or self.array.dtype.name
        return ElementType(name, self.array.itemsize, "float" in name or name[:2] in ("bf", "fp"))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.array.shape)

    def stride(self) -> tuple[int, ...]:
        """Returns the strides in elements."""
        return tuple(one // self.array.itemsize for one in self.array.strides)

    def data_ptr(self) -> int:
        """Returns 0. The address is a multiple of 16 bytes, and is known only after placement."""
        return 0


@dataclass(frozen=True)
class OnDevice:
    """Tensor of PyTorch's device. Its memory is the HBM of a SIP, so a launch uses it where it is."""

    tensor: Any
    """The tensor, or an object with a tensor's storage. It keeps the memory until the launch has ended."""
    device: int
    """Number of the device and of its SIP."""

    @property
    def address(self) -> int:
        """Address of the first element on the device."""
        return int(self.tensor.data_ptr())


def place(array: np.ndarray[Any, Any], placement: Placement | None = None) -> Placed:
    """Returns an array that a launch places as given, instead of by rows over all PEs.

    Args:
        array: the array. The launch writes its results into it.
        placement: distribution of the array, or None for the launch's default. The addresses must form one row-major
            range, so the array is split by rows or copied.

    >>> import cubeyard, numpy as np
    >>> place(np.zeros(4), cubeyard.Placement.one()).placement.pes
    1
    """
    if not isinstance(array, np.ndarray):
        raise InputError(f"array: expected a NumPy array, found {type(array).__name__}")
    if placement is not None and "column_wise" in (placement.sip, placement.cube, placement.pe):
        raise InputError(f"placement={placement!r}: expected rows or copies, because a kernel's addresses are row-major")
    return Placed(array, placement)


def is_tensor(argument: Any) -> bool:
    """Returns whether a launch argument refers to memory."""
    return isinstance(argument, np.ndarray | Placed | Tensor) or _is_of_torch(argument)


def is_descriptor(argument: Any) -> bool:
    """Returns whether a launch argument is a descriptor made by the host."""
    return type(argument).__name__ == "TensorDescriptor" and hasattr(argument, "block_shape")


def _is_of_torch(argument: Any) -> bool:
    return hasattr(argument, "data_ptr") and hasattr(argument, "dtype")


def of_torch(name: str, tensor: Any) -> Placed | OnDevice:
    """Returns the memory of a PyTorch tensor: where it is on `ahbm`, or an array that shares it on the CPU."""
    import torch

    from cubeyard.torch import _loader

    plain = tensor if isinstance(tensor, torch.Tensor) else _pointed(tensor)
    if plain.device.type not in ("cpu", _loader.name):
        raise InputError(f"argument {name}: a tensor on {plain.device}, expected a tensor on {_loader.name} or on the CPU")
    if plain.is_conj() or plain.is_neg():
        raise InputError(f"argument {name}: a view with lazy conjugation or negation, expected memory as it is: call resolve_conj() or resolve_neg()")
    if plain.device.type == _loader.name:
        return OnDevice(tensor, plain.device.index)
    return _on_host(plain)


def _on_host(tensor: Any) -> Placed:
    """Returns an array that shares the memory of a CPU tensor."""
    import torch

    bits, dtype = _BITS.get(triton_type(tensor), (None, None))
    if not tensor.numel():
        tensor = torch.empty(tensor.shape, dtype=tensor.dtype)
    shared = tensor.detach()
    shared = shared if bits is None else shared.view(getattr(torch, bits))
    length = shared.untyped_storage().nbytes() // shared.element_size()
    whole = shared.as_strided((length,), (1,), 0).numpy() if shared.numel() < length else None
    return Placed(shared.numpy(), None, dtype, whole)


def _pointed(argument: Any) -> Any:
    """Returns the element at the pointer of an object that is not a tensor but has a tensor's storage."""
    import torch

    storage = _storage(argument)
    if not isinstance(storage, torch.UntypedStorage):
        raise InputError(
            f"an argument of {type(argument).__name__}: expected a tensor, or an object with a tensor's storage or a tensor as `base`"
        )
    dtype = getattr(torch, _PYTORCH[triton_type(argument)])
    offset, rest = divmod(argument.data_ptr() - storage.data_ptr(), dtype.itemsize)
    if rest or not 0 <= offset * dtype.itemsize < storage.nbytes():
        raise InputError(f"an argument of {type(argument).__name__}: its pointer is at no element of {dtype} of its storage")
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, (1,), (1,))


def _storage(argument: Any) -> Any:
    """Returns the storage of an object, or of the object that it wraps, as `triton.reinterpret` does. Returns None if there is none."""
    while argument is not None and not hasattr(argument, "untyped_storage"):
        argument = getattr(argument, "base", None)
    return None if argument is None else argument.untyped_storage()


def triton_type(argument: Any) -> str:
    """Returns Triton's name for the element type of an argument."""
    name = str(getattr(argument.dtype, "name", argument.dtype)).removeprefix("torch.")
    if name not in _TYPES:
        raise InputError(f"an argument of {name}: expected one of {', '.join(sorted(set(_TYPES)))}")
    return _TYPES[name]


def specialized(native: Any) -> Any:
    """Wraps Triton's function that describes arguments, to support NumPy arrays and scalars."""

    def describe(backend: Any, argument: Any, is_const: bool, specialize: bool, align: bool) -> Any:
        if is_tensor(argument):
            return f"*{'k' if is_const else ''}{triton_type(argument)}", "D" if specialize and align else None
        if isinstance(argument, np.generic):
            argument = argument.item()
        if isinstance(argument, tuple):
            parts = [describe(backend, one, is_const, specialize, align) for one in argument]
            return tuple(type(argument)(*side) if hasattr(argument, "_fields") else tuple(side) for side in zip(*parts, strict=True))
        if is_descriptor(argument):
            return f"tensordesc<{triton_type(argument.base)}{list(argument.block_shape)}>", None
        return native(backend, argument, is_const, specialize, align)

    describe.__cubeyard__ = True  # type: ignore[attr-defined]
    return describe


def memory(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an array's memory in address order: the array itself, or the range from its first to its last element."""
    if array.flags.c_contiguous:
        return array
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        raise InputError(f"an array with strides {array.strides}: expected strides of whole elements, 0 or more")
    length = 1 + sum((size - 1) * stride // array.itemsize for size, stride in zip(array.shape, array.strides, strict=True))
    return np.lib.stride_tricks.as_strided(array, (length,), (array.itemsize,))
