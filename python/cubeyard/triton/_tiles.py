"""Triton's element-wise operations as operations of the vector unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cubeyard.triton._composed import on_tiles
from cubeyard.triton._elements import BITCASTS, DTYPES, UNSIGNED
from cubeyard.triton._elements import unsigned as unsigned_number
from cubeyard.triton._integers import high_product
from cubeyard.triton._symbols import COMPOSED as FUNCTIONS

__all__ = ["names", "tiles", "unsigned_operand"]

Tiles = Callable[..., Any]
"""Function of the tile operations (`tl` or a chain) and the operands, which are tiles or numbers."""

_SAME = {
    "arith.addi": "add", "arith.addf": "add", "arith.subi": "sub", "arith.subf": "sub", "arith.muli": "mul",
    "arith.mulf": "mul", "arith.divf": "div", "tt.precise_divf": "div", "arith.floordivsi": "div",
    "arith.andi": "and_", "arith.ori": "or_", "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "shr",
    "arith.minsi": "minimum", "arith.maxsi": "maximum",
    "arith.maximumf": "maximum", "arith.minimumf": "minimum", "arith.negf": "neg", "math.absf": "abs",
    "math.absi": "abs", "math.exp": "exp", "math.exp2": "exp2", "math.log": "log", "math.log2": "log2",
    "math.sqrt": "sqrt", "tt.precise_sqrt": "sqrt", "math.rsqrt": "rsqrt", "math.sin": "sin", "math.cos": "cos",
    "math.erf": "erf", "math.floor": "floor", "math.ceil": "ceil", "math.fma": "fma", "tt.clampf": "clamp",
    "math.tanh": "tanh", "tt.approx_divf": "div",
}  # fmt: skip
"""Operations that the vector unit has under another name."""

_NATURAL = {"arith.divui": "div", "arith.remui": "rem", "arith.shrui": "shr", "arith.minui": "minimum",
            "arith.maxui": "maximum"}  # fmt: skip
"""Unsigned operations, which the vector unit performs on its unsigned types."""

_CASTS = ("arith.trunci", "arith.sitofp", "arith.fptosi", "arith.extf", "arith.truncf", "tt.fp_to_fp",
          "arith.index_cast", "tt.int_to_ptr", "tt.ptr_to_int")  # fmt: skip

COMPOSED = ("arith.divsi", "arith.remsi", "arith.ceildivsi", "arith.ceildivui", "arith.remf", "arith.cmpi", "arith.cmpf",
            "arith.select", "tt.mulhiui", "arith.maxnumf", "arith.minnumf", "arith.extsi", "arith.extui", "arith.uitofp",
            "arith.fptoui", "ahbm.isnan", "ahbm.isinf", "ahbm.isfinite")  # fmt: skip
"""Operations composed of several vector unit operations."""


def names() -> list[str]:
    """Returns the Triton operations that have a counterpart."""
    return sorted({*_SAME, *_NATURAL, *_CASTS, *COMPOSED, *(f"ahbm.{one}" for one in FUNCTIONS)})


def tiles(name: str, element: str, words: list[str], source: str) -> Tiles | None:
    """Returns a function that performs an operation on tiles, or None if the operation is unknown."""
    if name in _SAME:
        same = _SAME[name]
        return lambda tl, *given: getattr(tl, same)(*given)
    if name in _NATURAL:
        return _natural(_NATURAL[name], source, DTYPES[element])
    if name in _CASTS:
        into = DTYPES[element]
        return lambda tl, x: tl.cast(x, into)
    if name in BITCASTS:
        return _bits(DTYPES[source], DTYPES[element])
    if name in ("arith.cmpi", "arith.cmpf"):
        return _comparison(name, words[0], source)
    return _composed(name, element, source)


def _composed(name: str, element: str, source: str) -> Tiles | None:
    into, kind = DTYPES.get(element, ""), UNSIGNED.get(source, "")
    if name in ("arith.extui", "arith.uitofp"):
        return lambda tl, x: tl.cast(tl.cast(x, kind) if kind != "bool" else x, into)
    if name == "arith.extsi":
        return lambda tl, x: tl.neg(tl.cast(x, into)) if source == "i1" else tl.cast(x, into)
    if name == "arith.fptoui":
        return lambda tl, x: tl.cast(tl.cast(x, UNSIGNED[element]), into)
    if name == "tt.mulhiui":
        return _high_product if source == "i32" else _high_product_of_64
    if name.startswith("ahbm."):
        return _kind_of_number(name, into) or on_tiles(name, element, source)
    found: dict[str, Tiles] = {"arith.select": _select(into), "arith.divsi": _divided, "arith.remsi": _remainder, "arith.remf": _float_remainder,
                               "arith.ceildivsi": _divided_up, "arith.maxnumf": _number("maximum"), "arith.minnumf": _number("minimum")}  # fmt: skip
    return found.get(name)


def _kind_of_number(name: str, into: str) -> Tiles | None:
    """Returns a classification of floats, with an integer result, or None."""
    tests: dict[str, Tiles] = {
        "ahbm.isnan": lambda tl, x: tl.ne(x, x),
        "ahbm.isinf": lambda tl, x: tl.eq(tl.abs(x), math.inf),
        "ahbm.isfinite": lambda tl, x: tl.lt(tl.abs(x), math.inf),
    }
    test = tests.get(name)
    return None if test is None else lambda tl, x: tl.cast(test(tl, x), into)


def _bits(source: str, into: str) -> Tiles:
    def compute(tl: Any, x: Any) -> Any:
        return tl.bitcast(tl.full([1], x, source) if isinstance(x, int | float) else x, into)

    return compute


def _natural(name: str, source: str, into: str) -> Tiles:
    def compute(tl: Any, *given: Any) -> Any:
        return tl.cast(getattr(tl, name)(*(unsigned_operand(tl, one, source) for one in given)), into)

    return compute


def unsigned_operand(tl: Any, operand: Any, source: str) -> Any:
    """Converts a signed operand, a tile or a number, to the unsigned type of the same width."""
    if isinstance(operand, int | float):
        return bool(operand) if source == "i1" else unsigned_number(int(operand), source)
    return tl.cast(operand, UNSIGNED[source])


def _comparison(name: str, relation: str, source: str) -> Tiles:
    if name == "arith.cmpi":
        if relation[0] == "u":
            plain = relation[1:]
            return lambda tl, x, y: getattr(tl, plain)(unsigned_operand(tl, x, source), unsigned_operand(tl, y, source))
        return lambda tl, x, y: getattr(tl, relation[-2:])(x, y)
    if relation == "uno":
        return lambda tl, x, y: tl.or_(tl.ne(x, x), tl.ne(y, y))
    if relation == "ord":
        return lambda tl, x, y: tl.and_(tl.eq(x, x), tl.eq(y, y))
    if relation in ("oeq", "ogt", "oge", "olt", "ole", "une"):
        return lambda tl, x, y: getattr(tl, relation[1:])(x, y)
    if relation == "one":
        return lambda tl, x, y: tl.or_(tl.lt(x, y), tl.gt(x, y))
    if relation == "ueq":
        return lambda tl, x, y: tl.not_(tl.or_(tl.lt(x, y), tl.gt(x, y)))
    opposite = {"ugt": "le", "uge": "lt", "ult": "ge", "ule": "gt"}[relation]
    return lambda tl, x, y: tl.not_(getattr(tl, opposite)(x, y))


def _number(kind: str) -> Tiles:
    """Returns a maximum or minimum that ignores NaN. The vector unit would propagate NaN."""

    def compute(tl: Any, x: Any, y: Any) -> Any:
        found = getattr(tl, kind)(x, y)
        for one, other in ((x, y), (y, x)):
            if not isinstance(one, int | float):
                found = tl.where(tl.eq(one, one), found, other)
            elif one != one:
                return other
        return found

    return compute


def _select(into: str) -> Tiles:
    def select(tl: Any, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(x, int | float) and isinstance(y, int | float):
            x = tl.full([1] * len(condition.shape), x, into)
        return tl.where(condition, x, y)

    return select


def _divided(tl: Any, x: Any, y: Any) -> Any:
    """Divides, rounding towards 0. The vector unit rounds down."""
    quotient = tl.div(x, y)
    rest = tl.sub(x, tl.mul(quotient, y))
    below = tl.and_(tl.ne(rest, 0), tl.lt(tl.xor(x, y), 0))
    return tl.where(below, tl.add(quotient, 1), quotient)


def _divided_up(tl: Any, x: Any, y: Any) -> Any:
    return tl.neg(tl.div(tl.neg(x) if not isinstance(x, int) else -x, y))


def _remainder(tl: Any, x: Any, y: Any) -> Any:
    """Returns the remainder with the sign of `x`. The vector unit's remainder has the sign of `y`."""
    rest = tl.rem(x, y)
    other = tl.and_(tl.ne(rest, 0), tl.lt(tl.xor(x, y), 0))
    return tl.where(other, tl.sub(rest, y), rest)


def _float_remainder(tl: Any, x: Any, y: Any) -> Any:
    """Returns the remainder with the sign of `x`. That of absolute values is exact: the vector unit adds no divisor to it."""
    rest = tl.rem(*(abs(one) if isinstance(one, int | float) else tl.abs(one) for one in (x, y)))
    if isinstance(x, int | float):
        return tl.neg(rest) if x < 0 else rest
    return tl.where(tl.lt(x, 0), tl.neg(rest), rest)


def _high_product(tl: Any, x: Any, y: Any) -> Any:
    """Returns the upper half of the product of two unsigned 32-bit numbers."""

    def wide(operand: Any) -> Any:
        if isinstance(operand, int | float):
            return unsigned_number(int(operand), "i32")
        return tl.cast(tl.cast(operand, "u32"), "u64")

    return tl.cast(tl.cast(tl.shr(tl.mul(wide(x), wide(y)), 32), "u32"), "i32")


def _high_product_of_64(tl: Any, x: Any, y: Any) -> Any:
    """Returns the upper half of the product of two unsigned 64-bit numbers."""
    return tl.cast(high_product(tl, unsigned_operand(tl, x, "i64"), unsigned_operand(tl, y, "i64")), "i64")
