"""Reports of contexts. The definitions are in `cubeyard.tensors.reports`."""

from __future__ import annotations

from cubeyard.tensors.reports import Finding, LeakReport, MemoryStats, MmuCounts, PeUsage

__all__ = ["Finding", "LeakReport", "MemoryStats", "MmuCounts", "PeUsage"]
