"""Functions of libdevice that the vector unit lacks, composed of operations that it has.

Each function takes the operations of tiles (`tl`, or `_arrays.Arrays` for known values) and its operands. Floats are
computed in `f64` and rounded once to the type of the result. So a formula needs care only where it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cubeyard.triton._polynomials import ATAN, ERFCX, I0_LARGE, I0_SMALL, I1_LARGE, I1_SMALL, STIRLING

__all__ = ["FLOATS", "NARROW"]

Composition = Callable[..., Any]
"""Function of the operations and the operands, which are tiles of `f64`."""

_INF, _NAN, _PI = math.inf, math.nan, math.pi
_WHOLE = 2.0**52
"""Floats of 64 bits from here on are whole numbers."""
_HUGE = 1e9
"""Numbers above it are far greater than 1: 1 is lost in the sum of their squares."""


def _polynomial(tl: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    """Evaluates a polynomial, lowest power first."""
    total = tl.fma(x, coefficients[-1], coefficients[-2])
    for one in reversed(coefficients[:-2]):
        total = tl.fma(total, x, one)
    return total


def _odd(tl: Any, x: Any, found: Any) -> Any:
    """Returns the value of an odd function from its value for `abs(x)`. Zeros keep their sign."""
    return tl.where(tl.eq(x, 0.0), x, tl.where(tl.lt(x, 0.0), tl.neg(found), found))


def _log1p(tl: Any, x: Any) -> Any:
    """Returns log(1 + x). The quotient corrects the rounding of 1 + x."""
    u = tl.add(x, 1.0)
    found = tl.mul(tl.log(u), tl.div(x, tl.sub(u, 1.0)))
    return tl.where(tl.or_(tl.eq(u, 1.0), tl.eq(u, _INF)), x, found)


def _expm1(tl: Any, x: Any) -> Any:
    """Returns exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which does not cancel."""
    return tl.mul(tl.tanh(tl.mul(x, 0.5)), tl.add(tl.exp(x), 1.0))


def _sinh(tl: Any, x: Any) -> Any:
    powers = tl.exp(tl.abs(x))
    return tl.mul(tl.mul(tl.tanh(tl.mul(x, 0.5)), tl.add(powers, 1.0)), tl.add(0.5, tl.div(0.5, powers)))


def _cosh(tl: Any, x: Any) -> Any:
    powers = tl.exp(tl.abs(x))
    return tl.mul(tl.add(powers, tl.div(1.0, powers)), 0.5)


def _asinh(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    square = tl.mul(a, a)
    small = _log1p(tl, tl.add(a, tl.div(square, tl.add(tl.sqrt(tl.add(square, 1.0)), 1.0))))
    return _odd(tl, x, tl.where(tl.gt(a, _HUGE), tl.add(tl.log(a), math.log(2)), small))


def _acosh(tl: Any, x: Any) -> Any:
    t = tl.sub(x, 1.0)
    small = _log1p(tl, tl.add(t, tl.sqrt(tl.mul(t, tl.add(t, 2.0)))))
    return tl.where(tl.lt(x, 1.0), _NAN, tl.where(tl.gt(x, _HUGE), tl.add(tl.log(x), math.log(2)), small))


def _atanh(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    return _odd(tl, x, tl.mul(_log1p(tl, tl.div(tl.mul(a, 2.0), tl.sub(1.0, a))), 0.5))


def _angle(tl: Any, y: Any, x: Any) -> Any:
    """Returns the angle of a point in the first quadrant.

    A polynomial gives a guess. The tangent of the rest follows from its sine and cosine.
    """
    low, high = tl.minimum(y, x), tl.maximum(y, x)
    z = tl.where(tl.eq(high, 0.0), 0.0, tl.where(tl.eq(low, _INF), 1.0, tl.div(low, high)))
    guess = tl.mul(z, _polynomial(tl, tl.mul(z, z), ATAN))
    sine, cosine = tl.sin(guess), tl.cos(guess)
    rest = tl.div(tl.sub(tl.mul(z, cosine), sine), tl.add(cosine, tl.mul(z, sine)))
    found = tl.add(guess, tl.sub(rest, tl.mul(tl.mul(rest, rest), tl.mul(rest, 1 / 3))))
    return tl.where(tl.gt(y, x), tl.sub(_PI / 2, found), found)


def _other_leg(tl: Any, a: Any) -> Any:
    """Returns sqrt(1 - a²), or NaN if `a` is greater than 1."""
    return tl.sqrt(tl.mul(tl.sub(1.0, a), tl.add(a, 1.0)))


def _asin(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    return _odd(tl, x, _angle(tl, a, _other_leg(tl, a)))


def _acos(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    found = _angle(tl, _other_leg(tl, a), a)
    return tl.where(tl.lt(x, 0.0), tl.sub(_PI, found), found)


def _atan(tl: Any, x: Any) -> Any:
    return _odd(tl, x, _angle(tl, tl.abs(x), 1.0))


def _atan2(tl: Any, y: Any, x: Any) -> Any:
    found = _angle(tl, tl.abs(y), tl.abs(x))
    return _copysign(tl, tl.where(_signbit(tl, x), tl.sub(_PI, found), found), y)


def _signbit(tl: Any, x: Any) -> Any:
    return tl.lt(tl.bitcast(x, "i64"), 0)


def _copysign(tl: Any, x: Any, y: Any) -> Any:
    bits = tl.and_(tl.bitcast(x, "i64"), 2**63 - 1), tl.and_(tl.bitcast(y, "i64"), -(2**63))
    return tl.bitcast(tl.or_(*bits), "f64")


def _rint(tl: Any, x: Any) -> Any:
    """Rounds to the nearest whole number, to an even one in the middle. The sum with 2⁵² does so."""
    a = tl.abs(x)
    return _odd(tl, x, tl.where(tl.lt(a, _WHOLE), tl.sub(tl.add(a, _WHOLE), _WHOLE), a))


def _round(tl: Any, x: Any) -> Any:
    """Rounds to the nearest whole number, away from 0 in the middle."""
    a = tl.abs(x)
    down = tl.floor(a)
    return _odd(tl, x, tl.where(tl.ge(tl.sub(a, down), 0.5), tl.add(down, 1.0), down))


def _trunc(tl: Any, x: Any) -> Any:
    return tl.where(tl.lt(x, 0.0), tl.ceil(x), tl.floor(x))


def _halves(tl: Any, x: Any) -> tuple[Any, Any]:
    """Returns the distance to the nearest whole number, and -1 if that number is odd, else 1."""
    near = _rint(tl, x)
    odd = tl.sub(near, tl.mul(tl.floor(tl.mul(near, 0.5)), 2.0))
    return tl.sub(x, near), tl.sub(1.0, tl.mul(odd, 2.0))


def _sinpi(tl: Any, x: Any) -> Any:
    rest, sign = _halves(tl, tl.abs(x))
    return _odd(tl, x, tl.mul(tl.sin(tl.mul(rest, _PI)), sign))


def _cospi(tl: Any, x: Any) -> Any:
    rest, sign = _halves(tl, x)
    return tl.mul(tl.sin(tl.mul(tl.sub(0.5, tl.abs(rest)), _PI)), sign)


def _norm(tl: Any, *given: Any) -> Any:
    """Returns the length of a vector. Parts of its longest component do not overflow."""
    parts = [tl.abs(one) for one in given]
    most = parts[0]
    for one in parts[1:]:
        most = tl.maximum(most, one)
    shares = [tl.div(one, most) for one in parts]
    total = tl.mul(shares[0], shares[0])
    for one in shares[1:]:
        total = tl.fma(one, one, total)
    endless = tl.eq(parts[0], _INF)
    for one in parts[1:]:
        endless = tl.or_(endless, tl.eq(one, _INF))
    return tl.where(endless, _INF, tl.where(tl.eq(most, 0.0), 0.0, tl.mul(most, tl.sqrt(total))))


def _erfcx_above(tl: Any, a: Any) -> Any:
    """Returns exp(a²) erfc(a) for numbers that are not negative."""
    return tl.div(_polynomial(tl, tl.sub(1.0, tl.div(4.0, tl.add(a, 2.0))), ERFCX), tl.add(a, 1.0))


def _erfcx(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    above = _erfcx_above(tl, a)
    return tl.where(tl.lt(x, 0.0), tl.sub(tl.mul(tl.exp(tl.mul(a, a)), 2.0), above), above)


def _erfc(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    above = tl.mul(tl.exp(tl.neg(tl.mul(a, a))), _erfcx_above(tl, a))
    return tl.where(tl.lt(x, 0.0), tl.sub(2.0, above), above)


def _first_guess(tl: Any, logarithm: Any) -> Any:
    """Returns a number whose error function is near u, from log(1 - u²), to three digits (Winitzki's formula)."""
    b = tl.add(tl.mul(logarithm, 0.5), 2 / (_PI * 0.147))
    root = tl.sqrt(tl.sub(tl.mul(b, b), tl.mul(logarithm, 1 / 0.147)))
    return tl.sqrt(tl.maximum(tl.sub(root, b), 0.0))


def _erfinv(tl: Any, x: Any) -> Any:
    """Returns the inverse of the error function, after two of Halley's steps."""
    y = tl.abs(x)
    found = _first_guess(tl, tl.log(tl.mul(tl.sub(1.0, y), tl.add(y, 1.0))))
    for _ in range(2):
        above = tl.mul(tl.mul(tl.sub(tl.erf(found), y), math.sqrt(_PI) / 2), tl.exp(tl.mul(found, found)))
        found = tl.sub(found, tl.div(above, tl.fma(found, above, 1.0)))
    return _odd(tl, x, tl.where(tl.eq(y, 1.0), _INF, found))


def _erfcinv(tl: Any, x: Any) -> Any:
    """Returns the inverse of 1 - erf(x), after two of Halley's steps. Both halves of its range are the same but for the sign."""
    u = tl.minimum(x, tl.sub(2.0, x))
    found = _first_guess(tl, tl.log(tl.mul(u, tl.sub(2.0, u))))
    for _ in range(2):
        powers = tl.exp(tl.mul(found, found))
        above = tl.mul(tl.sub(_erfcx_above(tl, found), tl.mul(u, powers)), math.sqrt(_PI) / 2)
        found = tl.add(found, tl.div(above, tl.sub(1.0, tl.mul(found, above))))
    found = tl.where(tl.eq(u, 0.0), _INF, found)
    return tl.where(tl.gt(x, 1.0), tl.neg(found), found)


def _lgamma_above(tl: Any, x: Any) -> Any:
    """Returns the logarithm of the gamma function from 0.5 on: Stirling's series, ten steps further unless `x` is large."""
    large = tl.gt(x, 1e6)
    z = tl.where(large, x, tl.add(x, 10.0))
    product = x
    for step in range(1, 10):
        product = tl.mul(product, tl.add(x, float(step)))
    inverse = tl.div(1.0, z)
    series = tl.mul(_polynomial(tl, tl.mul(inverse, inverse), STIRLING), inverse)
    main = tl.sub(tl.mul(tl.sub(z, 0.5), tl.log(z)), z)
    return tl.sub(tl.add(tl.add(main, math.log(2 * _PI) / 2), series), tl.log(tl.where(large, 1.0, product)))


def _lgamma(tl: Any, x: Any) -> Any:
    small = tl.lt(x, 0.5)
    above = _lgamma_above(tl, tl.where(small, tl.sub(1.0, x), x))
    mirrored = tl.sub(tl.log(tl.div(_PI, tl.abs(_sinpi(tl, x)))), above)
    above = tl.where(tl.or_(tl.eq(x, 1.0), tl.eq(x, 2.0)), 0.0, above)
    return tl.where(tl.eq(tl.abs(x), _INF), _INF, tl.where(small, mirrored, above))


def _tgamma(tl: Any, x: Any) -> Any:
    small = tl.lt(x, 0.5)
    above = tl.exp(_lgamma_above(tl, tl.where(small, tl.sub(1.0, x), x)))
    found = tl.where(small, tl.div(_PI, tl.mul(_sinpi(tl, x), above)), above)
    pole = tl.and_(tl.lt(x, 0.0), tl.eq(tl.floor(x), x))
    return tl.where(pole, _NAN, tl.where(tl.eq(x, _INF), _INF, found))


def _bessel(tl: Any, a: Any, small: tuple[float, ...], large: tuple[float, ...], order: int) -> Any:
    powers = tl.exp(a)
    below = tl.mul(_polynomial(tl, tl.fma(a, 0.25, -1.0), small), powers)
    above = tl.div(tl.mul(_polynomial(tl, tl.sub(tl.div(16.0, a), 1.0), large), powers), tl.sqrt(a))
    found = tl.where(tl.le(a, 8.0), tl.mul(below, a) if order else below, above)
    return tl.where(tl.eq(a, _INF), _INF, found)


def _exponent(tl: Any, a: Any) -> Any:
    """Returns the exponent of a positive number. Numbers with fewer digits are scaled first."""
    few = tl.lt(a, 2.0**-1022)
    bits = tl.bitcast(tl.where(few, tl.mul(a, 2.0**54), a), "i64")
    return tl.sub(tl.cast(tl.sub(tl.shr(bits, 52), 1023), "f64"), tl.mul(tl.cast(few, "f64"), 54.0))


def _logb(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    return tl.where(tl.eq(a, 0.0), -_INF, tl.where(tl.lt(a, _INF), _exponent(tl, a), a))


def _ilogb(tl: Any, x: Any) -> Any:
    a = tl.abs(x)
    found = tl.where(tl.eq(a, _INF), 2.0**31 - 1, _exponent(tl, a))
    return tl.where(tl.and_(tl.gt(a, 0.0), tl.eq(a, a)), found, -(2.0**31))


def _ldexp(tl: Any, x: Any, n: Any) -> Any:
    """Multiplies by 2 to the power of `n`, in two steps, since one power may overflow."""
    n = tl.maximum(tl.minimum(n, 2200.0), -2200.0)
    half = tl.floor(tl.mul(n, 0.5))
    return tl.mul(tl.mul(x, tl.pow(2.0, half)), tl.pow(2.0, tl.sub(n, half)))


def _remainder(tl: Any, x: Any, y: Any) -> Any:
    """Returns x minus the multiple of y that is nearest, the even one in the middle."""
    b = tl.abs(y)
    rest = tl.rem(tl.abs(x), tl.mul(b, 2.0))
    less = tl.sub(rest, b)
    less = tl.where(tl.ge(tl.mul(less, 2.0), b), tl.sub(less, b), less)
    found = tl.where(tl.gt(tl.mul(rest, 2.0), b), less, rest)
    return tl.where(_signbit(tl, x), tl.neg(found), found)


def _cbrt(tl: Any, x: Any) -> Any:
    return _odd(tl, x, tl.pow(tl.abs(x), 1 / 3))


FLOATS: dict[str, Composition] = {
    "log1p": _log1p, "expm1": _expm1, "sinh": _sinh, "cosh": _cosh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "asin": _asin, "acos": _acos, "atan": _atan, "atan2": _atan2, "rint": _rint, "round": _round, "trunc": _trunc,
    "sinpi": _sinpi, "cospi": _cospi, "erfcx": _erfcx, "erfc": _erfc, "erfinv": _erfinv, "erfcinv": _erfcinv,
    "lgamma": _lgamma, "tgamma": _tgamma, "logb": _logb, "ilogb": _ilogb, "ldexp": _ldexp, "remainder": _remainder,
    "cbrt": _cbrt, "signbit": _signbit, "copysign": _copysign,
    "tan": lambda tl, x: tl.div(tl.sin(x), tl.cos(x)),
    "log10": lambda tl, x: tl.mul(tl.log(x), 1 / math.log(10)),
    "exp10": lambda tl, x: tl.pow(10.0, x),
    "rcbrt": lambda tl, x: tl.div(1.0, _cbrt(tl, x)),
    "hypot": _norm, "norm3d": _norm, "norm4d": _norm,
    "rhypot": lambda tl, *given: tl.div(1.0, _norm(tl, *given)),
    "rnorm3d": lambda tl, *given: tl.div(1.0, _norm(tl, *given)),
    "rnorm4d": lambda tl, *given: tl.div(1.0, _norm(tl, *given)),
    "fdim": lambda tl, x, y: tl.where(tl.le(x, y), 0.0, tl.sub(x, y)),
    "saturatef": lambda tl, x: tl.where(tl.gt(x, 0.0), tl.minimum(x, 1.0), 0.0),
    "normcdf": lambda tl, x: tl.mul(_erfc(tl, tl.mul(x, -math.sqrt(0.5))), 0.5),
    "normcdfinv": lambda tl, x: tl.mul(_erfcinv(tl, tl.mul(x, 2.0)), -math.sqrt(2)),
    "cyl_bessel_i0": lambda tl, x: _bessel(tl, tl.abs(x), I0_SMALL, I0_LARGE, 0),
    "cyl_bessel_i1": lambda tl, x: _odd(tl, x, _bessel(tl, tl.abs(x), I1_SMALL, I1_LARGE, 1)),
    "rcp": lambda tl, x: tl.div(1.0, x),
    "floor": lambda tl, x: tl.floor(x),
    "ceil": lambda tl, x: tl.ceil(x),
}  # fmt: skip
"""Functions of floats by name. The operands are tiles of `f64`, numbers of steps included."""

NARROW = frozenset({"erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "normcdfinv", "lgamma", "tgamma", "cyl_bessel_i0", "cyl_bessel_i1"})
"""Functions with the digits of `f32` only."""
