"""Machines: a topology with all measurements as methods."""

from __future__ import annotations

from typing import Any

from cubeyard import model
from cubeyard.collectives import sweep as _collectives
from cubeyard.machine import probe as _probe
from cubeyard.machine import validate as _validate
from cubeyard.machine.topology import Topology, TopologyLike, resolve
from cubeyard.study import levers as _levers
from cubeyard.study import run as _run
from cubeyard.tensors.context import Context

__all__ = ["Machine"]


class Machine:
    """Machine for measuring transfers, models, collectives and benches. Each measurement runs on a fresh copy.

    >>> from cubeyard import Machine
    >>> machine = Machine({"hbm.channel_bandwidth_gbs": 16})
    >>> machine.probe("pe-dma-local").cases[0].latency_ns > Machine().probe("pe-dma-local").cases[0].latency_ns
    True
    """

    __slots__ = ("_topology",)

    def __init__(self, topology: TopologyLike = None) -> None:
        self._topology = resolve(topology)

    @property
    def topology(self) -> Topology:
        """Configuration of the machine."""
        return self._topology

    def probe(self, *arguments: Any, **named: Any) -> Any:
        """Measures the latency and bandwidth of the fabric; see `cubeyard.probe`."""
        return _probe.probe(*arguments, topology=self._topology, **named)

    def validate(self, **named: Any) -> _validate.Validation:
        """Compares known figures with simulated ones; see `cubeyard.validate`."""
        return _validate.validate(self._topology, **named)

    def model(self, *arguments: Any, **named: Any) -> model.Step:
        """Measures one step of a language model; see `cubeyard.model.step`."""
        return model.step(*arguments, topology=self._topology, **named)

    def collective(self, *arguments: Any, **named: Any) -> _collectives.CollectiveSweep:
        """Measures a collective over sizes and algorithms; see `cubeyard.distributed.sweep`."""
        return _collectives.sweep(*arguments, topology=self._topology, **named)

    def run(self, bench: Any, **parameters: Any) -> _run.Run:
        """Runs a bench with the given parameters; see `cubeyard.run`."""
        return _run.run(bench, topology=self._topology, **parameters)

    def levers(self, bench: Any, **parameters: Any) -> _levers.Levers:
        """Measures which resource of the machine to make faster; see `cubeyard.levers`."""
        return _levers.levers(bench, topology=self._topology, **parameters)

    def context(self, **named: Any) -> Context:
        """Returns a context on a new machine with this topology; see `cubeyard.Context`."""
        return Context(self._topology, **named)

    def __eq__(self, other: object) -> bool:
        return self._topology == other._topology if isinstance(other, Machine) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._topology)

    def __repr__(self) -> str:
        return f"Machine({self._topology!r})"

    def __str__(self) -> str:
        return str(self._topology)

    def _repr_html_(self) -> str:
        return self._topology._repr_html_()
