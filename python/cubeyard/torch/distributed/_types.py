"""Mapping of PyTorch's element types and reductions to the machine's."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cubeyard import _native
from cubeyard.errors import InputError

__all__ = ["check_alike", "check_size", "reduction", "reduction_type", "travel_type"]

TYPES = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.bool: "bool",
}
BITS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}
# Reductions of booleans, as in PyTorch's other backends.
OF_BOOLS = {"sum": "bor", "max": "bor", "prod": "band", "min": "band"}


def travel_type(tensor: Tensor) -> tuple[str, int]:
    """Returns the element type used for transfers, and the number of its elements per tensor element."""
    if tensor.dtype in TYPES:
        return TYPES[tensor.dtype], 1
    size = tensor.element_size()
    return (BITS[size], 1) if size in BITS else ("u64", size // 8)


def reduction_type(name: str, op: str, tensor: Tensor) -> tuple[str, str]:
    """Returns the element type and operator of a reduction. Booleans are reduced with bitwise operators.

    Raises:
        InputError: The reduction is not defined for the type.
    """
    if tensor.dtype not in TYPES:
        known = ", ".join(str(dtype) for dtype in TYPES)
        raise InputError(f"{name} of {tensor.dtype}: expected one of {known}")
    kind = TYPES[tensor.dtype]
    op = OF_BOOLS.get(op, op) if kind == "bool" else op
    if not _native.suits(op, kind):
        raise InputError(f"{name} {op} of {tensor.dtype}: the reduction is not defined for this type")
    return kind, op


def reduction(opts: Any) -> tuple[str, Any]:
    """Returns the name of a reduction, and the factor of `PREMUL_SUM` or None."""
    given = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    for op, name in OPS.items():
        if given == op:
            return name, None
    if given == dist.ReduceOp.PREMUL_SUM:
        factor = given.factor if hasattr(given, "factor") else given.__getstate__()[1]
        return "sum", factor
    raise InputError(f"{given}: expected one of {', '.join(str(op) for op in OPS)} and PREMUL_SUM")


def check_size(name: str, which: str, tensor: Tensor, expected: int) -> None:
    if tensor.numel() != expected:
        raise InputError(f"{name}: the {which} has {tensor.numel()} elements: expected {expected}")


def check_alike(name: str, tensors: list[Tensor]) -> None:
    first = tensors[0]
    for tensor in tensors:
        if tensor.numel() != first.numel() or tensor.dtype != first.dtype:
            raise InputError(
                f"{name}: expected tensors of equal size and type, found {tensor.dtype}{list(tensor.shape)} and "
                f"{first.dtype}{list(first.shape)}"
            )
