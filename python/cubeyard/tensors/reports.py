"""Reports of contexts: memory, leaks and findings."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding", "LeakReport", "MemoryStats", "MmuCounts", "PeUsage"]


@dataclass(frozen=True)
class LeakReport:
    """Memory that was still allocated when a context was closed."""

    tensors: tuple[str, ...] = ()
    """Descriptions of the tensors that were still alive; they have been freed."""
    regions: tuple[str, ...] = ()
    """Descriptions of regions that are still allocated."""
    release_errors: tuple[str, ...] = ()
    """Errors of releases that failed, in order."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was left and no release failed."""
        return not (self.tensors or self.regions or self.release_errors)

    def __str__(self) -> str:
        """Returns a line for each entry.

        >>> print(LeakReport())
        nothing was left
        """
        return "\n".join([*self.tensors, *self.regions, *self.release_errors]) or "nothing was left"


@dataclass(frozen=True)
class PeUsage:
    """Usage of the HBM of a PE, in bytes."""

    pe: str
    """PE whose HBM slice it is, such as `sip0.cube3.pe1`."""
    used: int
    """Size of all allocations."""
    free: int
    """Size of all free ranges."""
    largest_free: int
    """Size of the largest free range."""


@dataclass(frozen=True)
class MmuCounts:
    """Numbers of translations, summed over the MMUs of all PEs."""

    translations: int
    """Number of translated accesses."""
    faults: int
    """Number of accesses to an address that was not mapped."""
    tlb_hits: int
    """Number of page lookups that hit the TLB."""
    tlb_misses: int
    """Number of page lookups that missed the TLB."""


@dataclass(frozen=True)
class MemoryStats:
    """Memory usage of a context."""

    tensors: int
    """Number of tensors on the machine; a tensor and its views count once."""
    used: int
    """Allocated HBM in bytes, with all copies and padding."""
    virtual_used: int
    """Allocated virtual addresses, in bytes."""
    pes: tuple[PeUsage, ...]
    """PEs that were used, in order."""
    mmu: MmuCounts
    """Translations and faults."""


@dataclass(frozen=True)
class Finding:
    """A defect of a kernel that ran to its end, such as a race."""

    kernel: str
    """Name of the kernel."""
    pe: str
    """PE that ran it."""
    place: str
    """File name and line."""
    what: str
    """Description of the defect."""

    def __str__(self) -> str:
        return f"{self.kernel} on {self.pe}, {self.place}: {self.what}"
