"""Distribution of tensors over SIPs, cubes and PEs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cubeyard import _native
from cubeyard._base import checks, dtypes
from cubeyard._base.results import plain
from cubeyard.errors import CubeyardError, InputError
from cubeyard.machine.topology import native_of

__all__ = ["Layout", "LayoutShard", "Placement"]

Split = Literal["replicate", "row_wise", "column_wise"]
SPLITS = ("replicate", "row_wise", "column_wise")


@dataclass(frozen=True)
class LayoutShard:
    """Part of a tensor that one PE holds: a rectangle of the tensor's matrix."""

    pe: str
    """PE that holds the shard, such as `sip0.cube3.pe1`."""
    rows: range
    """Rows of the tensor's matrix."""
    columns: range
    """Columns of the tensor's matrix."""
    offset: int
    """Offset in the tensor's address range, in bytes. All copies of a part have the same offset."""
    nbytes: int
    """Size in bytes."""


@dataclass(frozen=True)
class Layout:
    """Placement resolved for a shape and a machine: the shard of each PE that holds elements."""

    shards: tuple[LayoutShard, ...]
    """Shards sorted by offset, then by PE."""
    copies: int
    """Number of PEs that hold each part."""
    nbytes: int
    """Size of one copy in bytes."""
    _plain: Any = field(compare=False)
    _text: str
    _svg: str

    def __str__(self) -> str:
        """Returns the output of `cubeyard placement`: one line per part, then the totals."""
        return self._text

    def __repr__(self) -> str:
        return f"Layout({len(self.shards)} shards, {self.copies} copies, {self.nbytes} bytes)"

    def to_dict(self) -> Any:
        """Returns the plain data that `cubeyard placement --format json` prints."""
        return plain(self._plain)

    def draw(self) -> str:
        """Returns an SVG drawing of the matrix, with each part coloured by its PEs."""
        return self._svg

    def _repr_html_(self) -> str:
        return self._svg


@dataclass(frozen=True)
class Placement:
    """Distribution of a tensor over a machine. Each level copies the tensor or splits it by rows or columns.

    A tensor is split as a matrix. Its columns are the last dimension, its rows all other dimensions. The SIPs split the
    tensor, the cubes of a SIP split the SIP's part, and the PEs of a cube split the cube's part.

    >>> rows = Placement(cube="row_wise", pe="row_wise")
    >>> layout = rows.layout((256, 64))
    >>> len(layout.shards), layout.copies, layout.shards[1]
    (128, 1, LayoutShard(pe='sip0.cube0.pe1', rows=range(2, 4), columns=range(0, 64), offset=512, nbytes=512))
    """

    sip: Split = "replicate"
    """Split of the tensor over the SIPs."""
    cube: Split = "replicate"
    """Split of a SIP's part over its cubes."""
    pe: Split = "replicate"
    """Split of a cube's part over its PEs."""
    sips: Sequence[int] = (0,)
    """Numbers of the SIPs, each once, in the order of their parts. An integer selects one SIP."""
    cubes: int | None = None
    """Number of cubes to use in each SIP, starting with cube 0; all by default."""
    pes: int | None = None
    """Number of PEs to use in each cube, starting with PE 0; all by default."""

    def __post_init__(self) -> None:
        for level in ("sip", "cube", "pe"):
            split = getattr(self, level)
            if split not in SPLITS:
                raise InputError(f"{level}={split!r}: expected one of {', '.join(SPLITS)}")
        sips = checks.shape(self.sips, "sips")
        object.__setattr__(self, "sips", tuple(checks.count("sips", sip, 2**32 - 1) for sip in sips))
        for level in ("cubes", "pes"):
            if getattr(self, level) is not None:
                checks.count(level, getattr(self, level), 2**32 - 1)

    @staticmethod
    def one(sip: int = 0) -> Placement:
        """Returns a placement of one copy, on the first PE of the first cube of a SIP.

        >>> Placement.one(1)
        Placement(sip='replicate', cube='replicate', pe='replicate', sips=(1,), cubes=1, pes=1)
        """
        return Placement(sips=(sip,), cubes=1, pes=1)

    def layout(self, shape: int | Sequence[int], dtype: Any = "f32", topology: Any = None) -> Layout:
        """Resolves the placement for a tensor's shape and a machine.

        >>> print(Placement(pe="column_wise", cubes=1, pes=2).layout((4, 8), "f16"))
        4x8 f16, 64 B: SIPs replicate, cubes replicate, PEs column_wise
        <BLANKLINE>
          held by         rows  columns  offset  bytes
          sip0.cube0.pe0  0..4     0..4       0     32
          sip0.cube0.pe1  0..4     4..8      32     32
        <BLANKLINE>
        2 parts, held once
        2 of 2 PEs hold 32 B each
        all PEs of these cubes map the same shards, 16 mappings in all
        <BLANKLINE>
        """
        sizes, name = checks.shape(shape), dtypes.name_of(dtype)
        report, text, svg = _native.layout(self._native(), sizes, name, native_of(topology))
        shards = tuple(map(_shard, report["shards"]))
        return Layout(shards, report["copies"], report["nbytes"], report, text, svg)

    def draw(self, shape: int | Sequence[int] = (4096, 4096), dtype: Any = "f16", topology: Any = None) -> str:
        """Returns an SVG drawing of a placed tensor."""
        return self.layout(shape, dtype, topology).draw()

    def _repr_html_(self) -> str:
        """Draws a 4096 x 4096 matrix on the default machine, or shows the error if the machine is too small."""
        try:
            return f"<code>{html.escape(repr(self))}</code>{self.draw()}"
        except CubeyardError as error:
            return f"<code>{html.escape(repr(self))}</code><p>{html.escape(str(error))}</p>"

    def _native(self) -> tuple[str, str, str, list[int], int | None, int | None]:
        return (self.sip, self.cube, self.pe, list(self.sips), self.cubes, self.pes)


def _shard(shard: Any) -> LayoutShard:
    pe = f"sip{shard['sip']}.cube{shard['cube']}.pe{shard['pe']}"
    return LayoutShard(pe, range(*shard["rows"]), range(*shard["columns"]), shard["offset_bytes"], shard["nbytes"])
