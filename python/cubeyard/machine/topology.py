"""Topologies: the configuration of a machine."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cubeyard import _native as native
from cubeyard._base import inputs
from cubeyard._base.results import Result, build, table
from cubeyard.errors import InputError, MachineWarning

__all__ = ["DEFAULT", "Topology", "TopologyFigures", "TopologyLike", "native_of", "resolve"]

DEFAULT: str = native.DEFAULT_TOPOLOGY
"""Topology file of the default machine, with the meaning, unit and source of every value."""

LEVELS = ("system", "sip", "cube", "pe")


class Topology:
    """Validated configuration of a machine.

    The source is None (the default machine), the path of a topology file, a dictionary with the structure of such a file, or a
    dictionary with dotted keys. Every source overrides values of the default machine, whose file is `DEFAULT`.

    >>> from cubeyard import Topology
    >>> slow = Topology({"hbm.channel_bandwidth_gbs": 16, "hbm.link.length_mm": 2})
    >>> slow["hbm.channel_bandwidth_gbs"]
    16
    >>> slow == Topology({"hbm": {"channel_bandwidth_gbs": 16, "link": {"length_mm": 2}}})
    True
    >>> Topology({"hbm.chanel_bandwidth": 64})
    Traceback (most recent call last):
    cubeyard.errors.InputError: topology: hbm.chanel_bandwidth=64: hbm: expected a known key, found \
`chanel_bandwidth`; the nearest is `channel_bandwidth_gbs`
    """

    __slots__ = ("_native",)

    _native: native.Topology

    def __init__(self, source: TopologyLike = None) -> None:
        self._native = _read(source)
        self._warn()

    @classmethod
    def from_yaml(cls, text: str, name: str = "topology") -> Topology:
        """Reads the text of a topology file. Error messages refer to it as `name`.

        >>> Topology.from_yaml("cubes: {w: 2, h: 1}")["cubes"]
        {'w': 2, 'h': 1}
        """
        if not isinstance(text, str):
            raise InputError(f"text={text!r}: expected the text of a topology file")
        return cls._of(native.Topology.read(name, text))

    def with_(self, overrides: Mapping[str, Any]) -> Topology:
        """Returns a copy of this machine with other values, given by dotted keys or in the structure of the file.

        The grid of the SIPs is kept only if their number and their topology stay the same.

        >>> Topology().with_({"sips.count": 4, "cubes": {"w": 1}}).hash == Topology().hash
        False
        """
        return self._of(self._native.with_overrides(overrides))

    @property
    def hash(self) -> str:
        """Hash of the values, in 32 hexadecimal digits. Files that differ only in notation have equal hashes."""
        return self._native.content_hash()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about bandwidth that no traffic can reach."""
        return tuple(self._native.warnings())

    def to_dict(self) -> dict[str, Any]:
        """Returns all values in the structure of the file. `Topology(t.to_dict())` is equal to `t`."""
        values: dict[str, Any] = self._native.values()
        return values

    def to_yaml(self) -> str:
        """Returns all values as a topology file."""
        return self._native.yaml() + "\n"

    def figures(self) -> TopologyFigures:
        """Returns the counts, capacities and bandwidths that `cubeyard topology` prints.

        >>> Topology().figures().hbm_bytes_per_s_per_pe
        256000000000
        """
        return build(TopologyFigures, self._native.figures())

    def draw(self, level: Literal["system", "sip", "cube", "pe"] = "system") -> str:
        """Returns an SVG drawing of one level of the machine."""
        return self._native.draw(level)

    def __getitem__(self, key: str) -> Any:
        """Returns the value of a dotted key."""
        value: Any = self.to_dict()
        for name in key.split("."):
            if not isinstance(value, dict) or name not in value:
                raise KeyError(key)
            value = value[name]
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self._native.is_same(other._native)

    def __hash__(self) -> int:
        # Equal machines have equal figures, even if one file spells out a default that another omits.
        return hash(self._native.text())

    def __repr__(self) -> str:
        return f"<Topology {self.hash[:12]}: {str(self).splitlines()[0]}>"

    def __str__(self) -> str:
        return self._native.text()

    def __fingerprint__(self) -> Any:
        """Returns the hash of the values, which identifies them in a function's fingerprint."""
        return self.hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._native.yaml(),)

    def _repr_html_(self) -> str:
        pictures = [f"<details><summary>{level}</summary>{self._native.draw(level)}</details>" for level in LEVELS]
        return f"<pre>{html.escape(str(self))}</pre>{''.join(pictures)}"

    def _warn(self) -> None:
        for warning in self._native.warnings():
            warnings.warn(f"topology: {warning}", MachineWarning, stacklevel=3)

    @classmethod
    def _of(cls, machine: native.Topology) -> Topology:
        topology = cls.__new__(cls)
        topology._native = machine
        topology._warn()
        return topology


TopologyLike = Topology | Mapping[str, Any] | str | os.PathLike[str] | None
"""Types accepted as a machine."""


def resolve(topology: TopologyLike | Any) -> Topology:
    """Returns the topology that the argument describes. A `Machine` gives its own topology."""
    if isinstance(topology, Topology):
        return topology
    owned = getattr(topology, "topology", None)
    return owned if isinstance(owned, Topology) else Topology(topology)


def _unpickled(text: str) -> Topology:
    topology = Topology.__new__(Topology)
    topology._native = native.Topology.read("pickle", text)
    return topology


def _read(source: TopologyLike) -> native.Topology:
    if isinstance(source, Topology):
        return source._native
    if isinstance(source, Mapping):
        return native.Topology.read("topology", "").with_overrides(source)
    if source is None:
        return native.Topology.read("topology", "")
    if not isinstance(source, (str, os.PathLike)):
        raise InputError(f"topology={source!r}: expected None, a path, a dictionary or a Topology")
    return _read_file(os.fspath(source))


def _read_file(path: str) -> native.Topology:
    hint = "; to read YAML text, use Topology.from_yaml" if ":" in path else ""
    return native.Topology.read(path, inputs.read("topology", path, hint))


@dataclass(frozen=True)
class TopologyFigures(Result):
    """Counts, capacities and bandwidths (per direction) of a machine. A bisection is None if there is nothing to cut."""

    sips: int
    sip_topology: str
    sip_grid: tuple[int, int]
    cubes_per_sip: int
    cube_grid: tuple[int, int]
    pes_per_cube: int
    routers_per_cube: int
    io_chiplets_per_sip: int
    nodes: int
    links: int
    flit_bytes: int
    flit_header_bytes: int
    serial_nodes: str
    """Nodes that process the overhead of one transfer at a time: "none", "ends" or "all"."""
    hbm_bytes_per_pe: int
    hbm_channels_per_pe: int
    hbm_burst_bytes: int
    tcm_bytes_per_pe: int
    sram_bytes_per_cube: int
    hbm_bytes_per_s_per_pe: int
    router_link_bytes_per_s: int
    cube_bisection_bytes_per_s: int | None
    cube_side_bytes_per_s: int
    sip_bisection_bytes_per_s: int | None
    io_to_cubes_bytes_per_s: int
    pcie_bytes_per_s_per_sip: int
    system_bisection_bytes_per_s: int | None
    tcm_read_bytes_per_s_per_pe: int
    tcm_write_bytes_per_s_per_pe: int
    compute_engines: str
    """Whether GEMM and MATH share one engine ("shared") or have one each ("separate")."""
    gemm_flop_per_s_per_pe: Mapping[str, int]
    """Peak rate by operand type."""
    math_elements_per_s_per_pe: Mapping[str, int]
    """Peak rate by class of operation: simple, special or reduce."""
    warnings: tuple[str, ...]

    _title: ClassVar[str] = "Machine"
    _types: ClassVar[Mapping[str, str]] = {
        f"{name}_bisection_bytes_per_s": "int64" for name in ("cube", "sip", "system")
    }

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row, with grids and warnings as text. Rows of several machines form a table."""
        row: dict[str, Any] = self.to_dict()
        grids = {name: "x".join(map(str, row[name])) for name in ("sip_grid", "cube_grid")}
        rates = {
            f"{name}_{kind}": rate
            for name in ("gemm_flop_per_s_per_pe", "math_elements_per_s_per_pe")
            for kind, rate in row.pop(name).items()
        }
        return [row | grids | rates | {"warnings": "; ".join(self.warnings)}]

    def _tables(self) -> list[tuple[str, list[str], list[list[tuple[str, bool]]]]]:
        [row] = self.rows()
        return [table("Figures", [{"figure": name, "value": value} for name, value in row.items()])]

    def _draw(self, axes: Any) -> None:
        rates = {name: value for name, value in self.rows()[0].items() if "bytes_per_s" in name and value}
        axes.barh(list(rates), [value / 1e9 for value in rates.values()])
        axes.invert_yaxis()
        axes.set_xlabel("GB/s, each way")


def native_of(topology: Any) -> native.Topology:
    """Returns the native topology that the argument describes.

    Raises:
        InputError: The argument has another type, or the file is unreadable or invalid.
    """
    if isinstance(topology, native.Topology):
        return topology
    return resolve(topology)._native
