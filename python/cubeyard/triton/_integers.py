"""Functions of libdevice on the bits of numbers, composed of operations that the vector unit has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cubeyard.triton._ir import SIZES

__all__ = ["BITS", "high_product"]

_LOW = 2**32 - 1
"""Mask of the lower 32 of 64 bits."""

Builder = Callable[[str, str], Callable[..., Any]]
"""Function of the element types of the result and of the first operand. Returns the composition."""


def _repeated(byte: int, bits: int) -> int:
    return int.from_bytes(bytes([byte]) * (bits // 8), "little")


def _count(tl: Any, x: Any, bits: int) -> Any:
    """Counts the bits that are set: in pairs, in fours, in bytes, and in all bytes by one product."""
    pairs = tl.sub(x, tl.and_(tl.shr(x, 1), _repeated(0x55, bits)))
    fours = tl.add(tl.and_(pairs, _repeated(0x33, bits)), tl.and_(tl.shr(pairs, 2), _repeated(0x33, bits)))
    eights = tl.and_(tl.add(fours, tl.shr(fours, 4)), _repeated(0x0F, bits))
    return tl.shr(tl.mul(eights, _repeated(0x01, bits)), bits - 8)


def _natural(compose: Callable[[Any, Any, int], Any]) -> Builder:
    """Makes a function of one unsigned operand."""

    def build(into: str, source: str) -> Callable[..., Any]:
        bits = 8 * SIZES[source]
        return lambda tl, x: tl.cast(compose(tl, tl.cast(x, f"u{bits}"), bits), into)

    return build


def _leading_zeros(tl: Any, x: Any, bits: int) -> Any:
    shift = 1
    while shift < bits:
        x, shift = tl.or_(x, tl.shr(x, shift)), 2 * shift
    return _count(tl, tl.not_(x), bits)


def _first_set(tl: Any, x: Any, bits: int) -> Any:
    """Returns the position of the lowest bit that is set, counted from 1, or 0."""
    below = tl.and_(tl.not_(x), tl.sub(x, 1))
    return tl.where(tl.eq(x, 0), 0, tl.add(_count(tl, below, bits), 1))


def _reversed(tl: Any, x: Any, bits: int) -> Any:
    for shift, byte in ((1, 0x55), (2, 0x33), (4, 0x0F)):
        mask = _repeated(byte, bits)
        x = tl.or_(tl.and_(tl.shr(x, shift), mask), tl.shl(tl.and_(x, mask), shift))
    shift = 8
    while shift < bits:
        mask = sum(((1 << shift) - 1) << at for at in range(0, bits, 2 * shift))
        x, shift = tl.or_(tl.and_(tl.shr(x, shift), mask), tl.shl(tl.and_(x, mask), shift)), 2 * shift
    return x


def _widened(compose: Callable[..., Any], unsigned: bool = False) -> Builder:
    """Makes a function of 32-bit operands that is computed with 64 bits."""

    def build(into: str, source: str) -> Callable[..., Any]:
        def compute(tl: Any, *given: Any) -> Any:
            wide = [tl.cast(tl.cast(one, "u32"), "u64") if unsigned else tl.cast(one, "i64") for one in given]
            return tl.cast(compose(tl, *wide), into)

        return compute

    return build


def _mean(tl: Any, x: Any, y: Any) -> Any:
    return tl.shr(tl.add(x, y), 1)


def _mean_up(tl: Any, x: Any, y: Any) -> Any:
    return tl.shr(tl.add(tl.add(x, y), 1), 1)


def _distance(tl: Any, x: Any, y: Any, z: Any) -> Any:
    return tl.add(tl.sub(tl.maximum(x, y), tl.minimum(x, y)), z)


def _own(compose: Callable[..., Any]) -> Builder:
    """Makes a function that is computed in the type of its operands."""
    return lambda into, source: compose


def high_product(tl: Any, x: Any, y: Any) -> Any:
    """Returns the upper half of the product of two unsigned 64-bit numbers, from products of their halves."""

    def halves(whole: Any) -> tuple[Any, Any]:
        return (whole & _LOW, whole >> 32) if isinstance(whole, int) else (tl.and_(whole, _LOW), tl.shr(whole, 32))

    (a, b), (c, d) = halves(x), halves(y)
    middle = tl.add(tl.mul(b, c), tl.shr(tl.mul(a, c), 32))
    other = tl.add(tl.mul(a, d), tl.and_(middle, _LOW))
    return tl.add(tl.add(tl.mul(b, d), tl.shr(middle, 32)), tl.shr(other, 32))


def _signed_high_product(tl: Any, x: Any, y: Any) -> Any:
    """Returns the upper half of a product of 64-bit numbers. A negative factor is too large by 2⁶⁴ as an unsigned one."""
    found = tl.cast(high_product(tl, tl.cast(x, "u64"), tl.cast(y, "u64")), "i64")
    found = tl.sub(found, tl.where(tl.lt(x, 0), y, 0))
    return tl.sub(found, tl.where(tl.lt(y, 0), x, 0))


def _product_of_24(tl: Any, x: Any, y: Any) -> Any:
    return tl.mul(tl.shr(tl.shl(x, 8), 8), tl.shr(tl.shl(y, 8), 8))


def _natural_product_of_24(tl: Any, x: Any, y: Any) -> Any:
    return tl.mul(tl.and_(x, 2**24 - 1), tl.and_(y, 2**24 - 1))


def _next(into: str, source: str) -> Callable[..., Any]:
    """Makes `nextafter`: the bits of floats of one sign are in the order of the floats."""
    whole = f"i{8 * SIZES[source]}"
    sign = -(1 << (8 * SIZES[source] - 1))

    def compute(tl: Any, x: Any, y: Any) -> Any:
        outward = tl.eq(tl.lt(x, y), tl.gt(x, 0.0))
        step = tl.sub(tl.mul(tl.cast(outward, whole), 2), 1)
        moved = tl.bitcast(tl.add(tl.bitcast(x, whole), step), into)
        least = tl.bitcast(tl.or_(tl.and_(tl.bitcast(y, whole), sign), 1), into)
        found = tl.where(tl.eq(x, y), y, tl.where(tl.eq(x, 0.0), least, moved))
        return tl.where(tl.and_(tl.eq(x, x), tl.eq(y, y)), found, tl.add(x, y))

    return compute


BITS: dict[str, Builder] = {
    "popc": _natural(_count), "clz": _natural(_leading_zeros), "ffs": _natural(_first_set), "brev": _natural(_reversed),
    "mulhi": _widened(lambda tl, x, y: tl.shr(tl.mul(x, y), 32)), "mul24": _own(_product_of_24),
    "mul64hi": _own(_signed_high_product),
    "umul24": _own(_natural_product_of_24), "hadd": _widened(_mean), "uhadd": _widened(_mean, True),
    "rhadd": _widened(_mean_up), "urhadd": _widened(_mean_up, True), "sad": _widened(_distance),
    "usad": _widened(_distance, True), "nextafter": _next,
    "pow": _own(lambda tl, x, y: tl.pow(x, y)),
}  # fmt: skip
"""Functions by name, and those that are computed in the type of their operands."""
