"""Sweeps of collectives over sizes and algorithms."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from cubeyard import _native as native
from cubeyard._base import checks, dtypes
from cubeyard._base.inputs import name, text_of
from cubeyard._base.results import HIDDEN, OPTIONAL, Printed, arrow_types, build, plain
from cubeyard.errors import InputError
from cubeyard.machine.topology import TopologyLike, native_of

__all__ = ["CollectiveSweep", "FabricBound", "Refusal", "SweepRow", "Winner", "ccl", "sweep"]


@dataclass(frozen=True)
class FabricBound:
    """Upper bound on bandwidth, set by the links of the fabric."""

    kind: str
    busbw_gbs: float
    capacity_gbs: float
    side: str
    """Ranks on one side of the limiting links."""
    links: str
    """Links that set the bound."""


@dataclass(frozen=True, kw_only=True)
class SweepRow:
    """Measurement of one size and algorithm."""

    algorithm: str
    bytes: int
    count: int
    time_ns: float | None = field(default=None, metadata=OPTIONAL)
    """Time from the first PE's start to the last PE's end; None if the run failed."""
    host_ns: float | None = field(default=None, metadata=OPTIONAL)
    algbw_gbs: float | None = field(default=None, metadata=OPTIONAL)
    busbw_gbs: float | None = field(default=None, metadata=OPTIONAL)
    share_of_bound: float | None = None
    estimate_ns: float | None = None
    """Time predicted by the cost model."""
    wrong: int | None = None
    """Number of wrong results, or None if results were not computed."""
    differing: int | None = None
    """Number of results that should be equal on all ranks but differ in their bits."""
    memories: int | None = None
    """Number of slot memories (TCM, SRAM, HBM) in which the results passed a second check, beside other traffic."""
    failed: str | None = field(default=None, metadata=OPTIONAL)
    """Reason why the run failed: simulated memory or time ran out."""


@dataclass(frozen=True)
class Winner:
    """Range of sizes in which one algorithm is the fastest."""

    algorithm: str
    from_bytes: int
    to_bytes: int


@dataclass(frozen=True)
class Refusal:
    """Algorithm that was left out, and the reason."""

    algorithm: str
    why: str


@dataclass(frozen=True)
class CollectiveSweep(Printed):
    """Measurements of a collective. The table has one row per size and algorithm."""

    operation: str
    description: str
    dtype: str
    ranks: int
    rank_kind: str
    pes_per_rank: int
    grid: Any
    bound: FabricBound | None
    """Bound set by the fabric, or None for a single rank."""
    rows_: tuple[SweepRow, ...]
    winners: tuple[Winner, ...]
    refused: tuple[Refusal, ...]
    right: bool
    """Whether all checked results are correct."""
    html: str = field(kw_only=True, repr=False, compare=False, metadata=HIDDEN)
    """HTML page of the command."""

    _types: ClassVar[Mapping[str, str]] = arrow_types(SweepRow)

    def to_dict(self) -> dict[str, Any]:
        """Returns the plain data that `cubeyard ccl --format json` prints."""
        data: dict[str, Any] = plain(self)
        for row, shown in zip(self.rows_, data["rows"], strict=True):
            if row.failed is not None:
                for key in ("share_of_bound", "estimate_ns", "wrong", "differing", "memories"):
                    del shown[key]
        return data

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per size and algorithm."""
        rows: list[dict[str, Any]] = plain(self.rows_)
        return rows

    def page(self) -> str:
        """Returns the page of `cubeyard ccl --report`, a chart of bus bandwidth over size."""
        return self.html

    def _draw(self, axes: Any) -> None:
        for algorithm in dict.fromkeys(row.algorithm for row in self.rows_):
            rows = [row for row in self.rows_ if row.algorithm == algorithm and row.failed is None]
            axes.plot([row.bytes for row in rows], [row.busbw_gbs for row in rows], marker="o", label=algorithm)
        if self.bound is not None:
            axes.axhline(self.bound.busbw_gbs, linestyle="--", color="grey", label="bound")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.set_ylabel("bus bandwidth, GB/s")
        axes.legend(fontsize="small")


def ccl(
    op: str = "all_reduce",
    *,
    algorithm: str = "all",
    sizes: str | int | Sequence[str | int] = "256:1M",
    dtype: Any = "f16",
    reduce: str = "sum",
    root: int = 0,
    ranks: Literal["sip", "cube", "pe"] | None = None,
    world: int | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    check: Literal["small", "all"] = "small",
    topology: TopologyLike = None,
) -> CollectiveSweep:
    """Measures a collective over sizes and algorithms, as `cubeyard ccl` and nccl-tests do.

    Each combination runs on a fresh machine and is compared with the fabric's bound.

    Args:
        op: all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather or scatter.
        algorithm: "all" algorithms that support the operation, "auto" for the fastest or ccl.yaml's choice, or the name of
            one algorithm in ccl.yaml.
        sizes: Sizes in bytes: a number, a range, or a list of both. "256:1M" doubles from 256, "1K:1M:4" multiplies by 4.
        dtype: Element type of the tensors.
        reduce: Reduction operator: sum, prod, min, max, avg, band, bor or bxor.
        root: Root rank of reduce, broadcast, gather and scatter.
        ranks: Hardware unit that forms a rank; taken from ccl.yaml if None.
        world: Number of ranks; taken from ccl.yaml if None, else all ranks of the machine.
        config: Groups and algorithms that override the default ccl.yaml: a path, or a dictionary of the same structure.
        check: Whether to compute and check results for "small" sizes, up to 64 KiB, or for "all" sizes.
        topology: The machine; see `Topology`.

    `cubeyard.distributed.sweep` is the same function.

    >>> import cubeyard
    >>> result = cubeyard.ccl(algorithm="auto", sizes=4096, ranks="cube", topology={"sips.count": 1})
    >>> result.right, result.ranks
    (True, 16)

    Raises:
        InputError: An argument is invalid.
        OutOfMemory: The run needs more memory than the host has.
    """
    if check not in ("small", "all"):
        raise InputError(f"check={check!r}: expected 'small' or 'all'")
    given = list(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else [sizes]
    file = None if config is None else text_of("config", config)
    arguments = {
        "op": name("op", op),
        "reduce": name("reduce", reduce),
        "root": checks.count("root", root),
        "algorithm": name("algorithm", algorithm),
        "ranks": None if ranks is None else name("ranks", ranks),
        "world": None if world is None else checks.count("world", world),
        "sizes": [str(size) for size in given],
        "dtype": dtypes.name_of(dtype),
        "file": file,
        "checks_all": check == "all",
    }
    data, text, page = native.ccl_sweep(native_of(topology), arguments)
    return build(CollectiveSweep, data, text=text, html=page)


sweep = ccl
