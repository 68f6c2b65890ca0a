"""Distribution of tensors over SIPs, cubes and PEs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cubeyard.errors import InputError

__all__ = ["Placement"]

Split = Literal["replicate", "row_wise", "column_wise"]


@dataclass(frozen=True)
class Placement:
    """Distribution of a tensor over a machine, level by level: copied or split by rows or columns.

    A tensor is split as a matrix, whose columns are the last dimension and whose rows are all others: first over the
    SIPs, then each SIP's part over its cubes, then each cube's part over its PEs.

    >>> Placement(cube="row_wise", pe="row_wise")
    Placement(sip='replicate', cube='row_wise', pe='row_wise', sips=(0,), cubes=None, pes=None)
    """

    sip: Split = "replicate"
    """Split of the tensor over the SIPs."""
    cube: Split = "replicate"
    """Split of a SIP's part over its cubes."""
    pe: Split = "replicate"
    """Split of a cube's part over its PEs."""
    sips: Sequence[int] = (0,)
    """SIPs, each once, in the order of their parts."""
    cubes: int | None = None
    """Number of cubes of each SIP, the first ones; all by default."""
    pes: int | None = None
    """Number of PEs of each cube, the first ones; all by default."""

    def __post_init__(self) -> None:
        for level in ("sip", "cube", "pe"):
            if getattr(self, level) not in ("replicate", "row_wise", "column_wise"):
                expected = "expected 'replicate', 'row_wise' or 'column_wise'"
                raise InputError(f"{level}={getattr(self, level)!r}: {expected}")
        object.__setattr__(self, "sips", tuple(_number("sips", sip) for sip in self.sips))
        for level in ("cubes", "pes"):
            if getattr(self, level) is not None:
                _number(level, getattr(self, level))

    @staticmethod
    def one(sip: int = 0) -> Placement:
        """Returns the placement of one copy, in the first PE of the first cube of a SIP.

        >>> Placement.one(1)
        Placement(sip='replicate', cube='replicate', pe='replicate', sips=(1,), cubes=1, pes=1)
        """
        return Placement(sips=(sip,), cubes=1, pes=1)

    def _native(self) -> tuple[str, str, str, list[int], int | None, int | None]:
        return (self.sip, self.cube, self.pe, list(self.sips), self.cubes, self.pes)


def _number(argument: str, value: object) -> int:
    if isinstance(value, int) and 0 <= value < 2**32:
        return value
    raise InputError(f"{argument}={value!r}: expected numbers from 0 on")
