"""Reports of a context: memory usage, leaks and findings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "LeakReport", "MemoryStats", "MmuCounts", "PeUsage"]


@dataclass(frozen=True)
class LeakReport:
    """Memory that was still allocated when a context was closed."""

    tensors: tuple[str, ...] = ()
    """Descriptions of the tensors that were still alive. Closing the context freed them."""
    regions: tuple[str, ...] = ()
    """Descriptions of regions that are still allocated."""
    release_errors: tuple[str, ...] = ()
    """Messages of failed releases, in order."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaked and no release failed."""
        return not (self.tensors or self.regions or self.release_errors)

    def __str__(self) -> str:
        """Returns one line per entry.

        >>> print(LeakReport())
        nothing was left
        """
        return "\n".join([*self.tensors, *self.regions, *self.release_errors]) or "nothing was left"


@dataclass(frozen=True)
class PeUsage:
    """Usage of one PE's HBM, in bytes."""

    pe: str
    """PE that owns the HBM slice, such as `sip0.cube3.pe1`."""
    used: int
    """Total size of the allocations."""
    free: int
    """Total size of the free ranges."""
    largest_free: int
    """Size of the largest free range."""


@dataclass(frozen=True)
class MmuCounts:
    """Address translation counts, summed over the MMUs of all PEs."""

    translations: int
    """Number of translated accesses."""
    faults: int
    """Number of accesses to unmapped addresses."""
    tlb_hits: int
    """Number of page lookups that hit the TLB."""
    tlb_misses: int
    """Number of page lookups that missed the TLB."""


@dataclass(frozen=True)
class MemoryStats:
    """Memory usage of a context."""

    tensors: int
    """Number of tensors on the machine. A tensor and its views count as one."""
    used: int
    """Allocated HBM in bytes, including all copies and padding."""
    virtual_used: int
    """Size of the allocated virtual addresses, in bytes."""
    pes: tuple[PeUsage, ...]
    """Usage of each PE that was used, in PE order."""
    mmu: MmuCounts
    """Counts of translations and faults."""


@dataclass(frozen=True)
class Finding:
    """Defect of a completed kernel, such as a race."""

    kernel: str
    """Name of the kernel."""
    pe: str
    """PE that ran the kernel."""
    place: str
    """File name and line number."""
    what: str
    """Description of the defect."""

    def __str__(self) -> str:
        return f"{self.kernel} on {self.pe}, {self.place}: {self.what}"
