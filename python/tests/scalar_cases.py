"""Random numbers beside tiles of every element type, with NumPy's results.

NumPy converts whole numbers to narrow floats by way of `float64`, and `ml_dtypes` promotes by rules of its own: beside floats a
number is converted here, and rounded once.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numeric_cases import DTYPES, FLOATS, INTEGERS, Case, arrays, compare, odd, rounded, wide

COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
BITWISE = ["and_", "or_", "xor"]
ARITHMETIC = ["add", "sub", "mul", "div", "rem", "maximum", "minimum"]
CHOICES = ["where", "clamp"]

FUNCTIONS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "rem": np.remainder, "maximum": np.maximum,
    "minimum": np.minimum, "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """A function of `tl`, and whether the number is its first operand."""

    name: str
    first: bool = field(default=False, compare=False)


@dataclass
class ScalarCase:
    """A function of a tile and of one or two numbers."""

    operation: Operation
    array: np.ndarray
    numbers: list[Any]

    def ours(self, tl, tile):
        """Computes it with `tl`, on a tile or an expression."""
        name, numbers = self.operation.name, self.numbers
        if name == "where":
            return tl.where(tl.eq(tile, tile), tile, numbers[0]) if self.operation.first else tl.where(tl.ne(tile, tile), numbers[0], tile)
        if name == "clamp":
            return tl.clamp(tile, *numbers)
        operands = [numbers[0], tile] if self.operation.first else [tile, numbers[0]]
        return getattr(tl, name)(*operands)

    def dtype(self):
        """Returns NumPy's type of the operands: numbers are weak, but a float beside integers makes a `float64` of both."""
        own, kinds = self.array.dtype, {type(number) for number in self.numbers}
        if own in map(np.dtype, map(DTYPES.get, FLOATS)):
            return own
        if float in kinds:
            return np.dtype(np.float64)
        return np.dtype(np.int64) if int in kinds and own == bool else own

    def refused(self):
        """Whether a type of integers holds not all numbers, or the operation is not defined for the type."""
        into, name = self.dtype(), self.operation.name
        if into.kind in "iu":
            info = np.iinfo(into)
            return any(not info.min <= number <= info.max for number in self.numbers)
        return name in BITWISE and into != bool or into == bool and name in (*ARITHMETIC[:5], "clamp")

    def names(self, text):
        """Whether an error names a number that the type does not hold, or the operation."""
        name = {"and_": "and", "or_": "or"}.get(self.operation.name, self.operation.name)
        return any(f"{int(number)} does not fit in " in text for number in self.numbers if number == number and abs(number) != math.inf) or (
            f"{name} of " in text and "not defined" in text
        )

    def compare(self, found):
        """Compares a result with NumPy's."""
        expected = self.expected()
        compare(Case(f"{self.operation} with {self.numbers}", [self.array], expected), found)
        if expected.dtype.kind == "f" and self.operation.name not in ("maximum", "minimum", "rem", "clamp"):
            # NaN has no sign, and of two zeros NumPy keeps either one.
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers]), self

    def expected(self):
        into = self.dtype()
        name = next(name for name, dtype in DTYPES.items() if np.dtype(dtype) == into)
        x, y = self.array.astype(into), [converted(number, name) for number in self.numbers]
        if self.operation.name == "where":
            nan = x != x
            return np.where(nan, y[0], x).astype(into)
        x, y = x.astype(wide(name)), [one.astype(wide(name)) for one in y]
        if self.operation.name == "clamp":
            return rounded(np.minimum(np.maximum(x, y[0]), y[1]), name)
        operands = [y[0], x] if self.operation.first else [x, y[0]]
        made = np.asarray(self.function(into)(*operands))
        return made if made.dtype == bool else rounded(made, name)

    def function(self, into):
        if self.operation.name == "div":
            return np.floor_divide if into.kind in "iu" else np.divide
        return FUNCTIONS[self.operation.name]


def converted(number, name):
    """Returns a number as an element of a type, rounded once."""
    dtype = DTYPES[name]
    if name in FLOATS and isinstance(number, int) and abs(number) > 2**53 and name != "f64":
        number = odd_float(number)
    if name in ("bf16", "fp8_e4m3", "fp8_e5m2"):
        return rounded(odd(np.array([number], np.float64)), name)[0]
    return np.array(number, dtype)


def odd_float(number):
    """Returns a whole number as a float that is cut off, with its last bit set where something was lost."""
    shift = max(abs(number).bit_length() - 53, 0)
    kept = abs(number) >> shift
    kept |= (kept << shift) != abs(number)
    return math.copysign(math.ldexp(kept, shift), number)


def drawn(rand):
    """Returns a number: a truth value, a whole number of up to 64 bits, or a float."""
    kind = rand.random()
    if kind < 0.1:
        return rand.random() < 0.5
    if kind < 0.65:
        edges = [sign * (2**bits + step) for bits in (0, 3, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64) for step in (-1, 0, 1) for sign in (1, -1)]
        return rand.choice([rand.choice(edges), rand.randint(-9, 9), rand.randint(0, 127), rand.getrandbits(rand.randint(1, 64))])
    floats = [0.0, -0.0, 0.5, -2.5, 1e-40, 1e30, -1e300, 65520.0, 464.0, 9007199254740993.0, 2.0, math.inf, -math.inf, math.nan]
    return rand.choice([rand.choice(floats), rand.gauss(0, 4), rand.gauss(0, 1) * 2.0 ** rand.randint(-30, 60)])


def case(seed, choose):
    """Returns the case of a seed that `choose` accepts, from a sequence of random ones."""
    rand, rng = random.Random(seed), np.random.default_rng(seed)
    while True:
        name = rand.choice(list(DTYPES))
        kinds = [*ARITHMETIC, *COMPARISONS, *CHOICES, *(BITWISE if name in INTEGERS or name == "bool" else [])]
        operation = Operation(rand.choice(kinds), rand.random() < 0.5)
        numbers = sorted((drawn(rand) for _ in range(2)), key=lambda one: (one != one, one)) if operation.name == "clamp" else [drawn(rand)]
        [array] = arrays(rng, name, [(16,)])
        found = ScalarCase(operation, array, numbers)
        if choose(found):
            return found


def cases(seeds):
    """Returns cases that have a result."""
    return [case(seed, lambda one: not one.refused()) for seed in seeds]


def refused_cases(seeds):
    """Returns cases that have none."""
    return [case(seed, ScalarCase.refused) for seed in seeds]
