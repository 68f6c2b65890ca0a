"""A collective of some ranks, in the words of the simulated machine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REDUCTIONS", "Operation"]

REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter")
"""Names of the operations that combine values."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operation:
    """A collective: equal ones take the same time, and combine values in the same order."""

    name: str
    """Name as in `torch.distributed`: `all_reduce`, `send`, …"""
    ranks: tuple[int, ...]
    """Ranks of the world that take part, in the order of their group; of a `send` the sender and the receiver."""
    dtype: str = "u8"
    """Element type."""
    count: int = 0
    """Elements of a part: what a rank has of an `all_reduce`, and what it has for, or of, one other rank elsewhere."""
    op: str = ""
    """Reduction: `sum`, `prod`, …"""
    root: int = 0
    """Place of the root among the ranks, of operations with one."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def is_reduction(self) -> bool:
        """Whether it combines values."""
        return self.name in REDUCTIONS

    def shapes(self) -> list[Shape]:
        """Returns the shapes of a rank's input and output on the machine; one where they are the same tensor."""
        part: Shape = (self.count, 1)
        parts: Shape = (self.count, self.size)
        divided: dict[str, list[Shape]] = {
            "all_gather": [part, parts],
            "gather": [part, parts],
            "reduce_scatter": [parts, part],
            "scatter": [parts, part],
            "all_to_all": [parts, parts],
            "barrier": [],
        }
        return divided.get(self.name, [(self.count,)])

    def bus_factor(self) -> float:
        """Returns the ratio of bus bandwidth to that of the algorithm, as nccl-tests define it."""
        share = (self.size - 1) / self.size
        whole = {"all_reduce": 2 * share, "reduce": 1.0, "broadcast": 1.0, "send": 1.0, "barrier": 0.0}
        return whole.get(self.name, share)

    def __str__(self) -> str:
        """Returns the name with its reduction and root."""
        to = {"reduce": "to", "gather": "to", "broadcast": "from", "scatter": "from"}.get(self.name)
        return " ".join(part for part in (self.name, self.op, f"{to} {self.root}" if to else "") if part)
