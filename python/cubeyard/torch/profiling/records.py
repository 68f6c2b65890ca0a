"""Records of a run: its operations, and its blocks of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from cubeyard.torch.operators import Cost

__all__ = ["Block", "Holder", "MemoryLog", "Operation", "Site"]


@dataclass(frozen=True)
class Site:
    """Place in the program that an operation comes from."""

    modules: tuple[str, ...] = ()
    """Names of the modules that were running, from the outermost to the innermost."""
    line: str = ""
    """Innermost line of the model's or the user's code, such as `model.py:42`; empty if there is none."""
    phase: str = "forward"
    """`forward`, `backward` or `optimizer`."""

    @property
    def module(self) -> str:
        """Path of the innermost module, such as `Llama.layers.0.mlp`; empty outside of modules."""
        return ".".join(self.modules)


@dataclass(frozen=True)
class Operation:
    """Operator, copy, launch of a kernel, collective or sleep that took time of a stream."""

    name: str
    """Name of the operator with its overload, such as `aten::mm`, or the name of the kernel."""
    kind: str
    """`operator`, `copy`, `launch`, `collective` or `sleep`."""
    track: str
    """Stream of a device, such as `ahbm:0 stream 0`, or rank and process group of a collective."""
    begin_ps: int
    """Begin in picoseconds, from the begin of the run."""
    end_ps: int
    """End in picoseconds, from the begin of the run."""
    site: Site
    """Place in the program that it comes from."""
    shapes: str = ""
    """Shapes of the tensors among the arguments."""
    cost: Cost | None = None
    """Cost of an operator or copy; None for other work."""
    dtypes: str = ""
    """Types of the tensors among the arguments, without repetition."""

    @property
    def ps(self) -> int:
        """Duration in picoseconds."""
        return self.end_ps - self.begin_ps


@dataclass(slots=True)
class Block:
    """Block of device memory, with the operation that allocated it."""

    number: int
    """Order of its allocation."""
    size: int
    """Size in bytes, as the allocator rounds it."""
    operator: str
    """Name of the operator that allocated it."""
    site: Site
    """Place in the program that the operator comes from."""
    device: int
    """Number of the device."""
    kind: str = ""
    """`parameter`, `buffer`, `gradient`, `optimizer state`; empty for all others."""


@dataclass(frozen=True)
class Holder:
    """Blocks of one origin at one moment."""

    kind: str
    """`parameter`, `buffer`, `gradient`, `optimizer state`, `activation` of a module's forward,
    `temporary` of backward and optimizers, `other` outside of modules, or `before the run`."""
    module: str
    """Path of the module whose operators allocated them."""
    operator: str
    """Operator that allocated them."""
    line: str
    """Line that it comes from."""
    bytes: int
    """Bytes of the blocks together."""
    blocks: int
    """Number of the blocks."""


@dataclass
class MemoryLog:
    """Allocations and frees of one device in the order of the program."""

    device: int
    """Number of the device."""
    first: int = 0
    """Bytes that were allocated before the run."""
    changes: list[tuple[int, int, Block]] = field(default_factory=list)
    """Time in picoseconds, change of the allocated bytes, and the block."""
    reserved_peak: int = 0
    """Maximum of the bytes that the allocator had acquired from the device."""
