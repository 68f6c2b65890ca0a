"""Explanation of a report: what limits it, and changes that a figure supports."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from cubeyard import _native
from cubeyard.machine.topology import Topology
from cubeyard.torch.profiling.tables import Sums, pattern, sums

if TYPE_CHECKING:
    from cubeyard.torch.profiling.report import Profile

__all__ = ["explained", "levers", "limit_of", "quantity", "time_text"]

TOP = 8
"""Number of operators, and of holders, in the text."""


def explained(profile: Profile) -> str:
    """Returns what limits a part of a program, as text."""
    parts = [_head(profile), _operators(profile), _modules(profile), _memory(profile), _levers(profile)]
    return "\n\n".join(part for part in parts if part)


def _head(profile: Profile) -> str:
    whole = profile.sums
    total = profile.total_ps or 1
    lines = [f"{time_text(profile.total_ps)} in all: {whole.calls:,} operations"]
    lines.append(f"the device works {profile.busy_ps / total:.1%} of it and waits for the host {profile.idle_ps / total:.1%}")
    if whole.bound_share is not None:
        lines.append(f"the peak rates of the machine allow {whole.bound_share:.1%} of the operators' time")
    if whole.estimated_ps:
        lines.append(f"{whole.estimated_ps / whole.ps:.1%} of the time is estimated (bytes over bandwidth), the rest simulated")
    return "\n".join(lines)


def _operators(profile: Profile) -> str:
    found = sums(profile.operations, lambda one: one.name)
    total = profile.total_ps or 1
    rows = [f"  {row.ps / total:6.1%}  {time_text(row.ps):>10}  {row.calls:>6,} ×  {name}: {limit_of(row)}" for name, row in found.items()]
    return "\n".join(["operators with the most time:", *rows[:TOP]]) if rows else ""


def _modules(profile: Profile) -> str:
    """Returns the modules in which the most time is spent outside of their own modules."""
    found = sums(profile.operations, lambda one: (pattern(one.site.module), one.site.phase))
    total = profile.total_ps or 1
    rows = [f"  {row.ps / total:6.1%}  {time_text(row.ps):>10}  {phase:<9}  {name or '(no module)'}" for (name, phase), row in found.items()]
    return "\n".join(["modules with the most time (layers of one kind together):", *rows[:TOP]]) if rows else ""


def _memory(profile: Profile) -> str:
    memory = profile.memory
    if not memory.peak_bytes:
        return ""
    state = "fits in" if memory.fits else "does not fit in"
    lines = [f"memory: at most {quantity(memory.peak_bytes)} at {time_text(memory.peak_ps)}, which {state} {quantity(memory.capacity_bytes)}"]
    for kind, size in sorted(memory.kinds.items(), key=lambda item: -item[1]):
        lines.append(f"  {size / memory.peak_bytes:6.1%}  {quantity(size):>10}  {kind}")
    lines.append("held by:")
    for row in memory.holders[:TOP]:
        place = ", ".join(filter(None, [row.kind, row.module, row.operator, row.line]))
        lines.append(f"  {row.bytes / memory.peak_bytes:6.1%}  {quantity(row.bytes):>10}  {place}")
    return "\n".join(lines)


def _levers(profile: Profile) -> str:
    rows = [f"  {row['change']}: {row['reason']}" for row in levers(profile)]
    return "\n".join(["what would help:", *rows]) if rows else ""


def levers(profile: Profile) -> list[dict[str, Any]]:
    """Returns changes that would help, each with the most that it can save and the reason. Largest saving first."""
    found = [_launches(profile), _batch(profile), _fusion(profile), _precision(profile), _recompute(profile)]
    return sorted((row for row in found if row), key=lambda row: -row["most_ns"])


def _launches(profile: Profile) -> dict[str, Any] | None:
    idle = profile.idle_ps
    if not profile.total_ps or idle < 0.1 * profile.total_ps:
        return None
    share = f"the device waits {idle / profile.total_ps:.0%} of the time for the host, which launches {len(profile.operations):,} operations"
    return {"change": "fewer, larger operations: a larger batch, or torch.compile", "most_ns": idle / 1000, "reason": share}


def _batch(profile: Profile) -> dict[str, Any] | None:
    """Returns the time of the optimizer, which is the same for any batch."""
    taken = sum(one.ps for one in profile.operations if one.site.phase == "optimizer")
    if not taken or taken < 0.3 * profile.total_ps:
        return None
    reason = f"the optimizer takes {taken / profile.total_ps:.0%} of the step ({time_text(taken)}), whatever the batch"
    return {"change": "a larger batch, or accumulated gradients", "most_ns": taken / 1000, "reason": reason}


def _fusion(profile: Profile) -> dict[str, Any] | None:
    """Returns the time of operators without products, whose reads and writes of intermediate results fusion saves."""
    rest = Sums()
    for one in profile.operations:
        if one.kind == "operator" and one.cost is not None and not one.cost.flops and one.site.phase != "optimizer":
            rest.add(one)
    if rest.calls < 2 or rest.ps < 0.2 * profile.total_ps:
        return None
    reason = f"{rest.calls:,} operators that are no matrix product move {quantity(rest.bytes)} in {rest.ps / profile.total_ps:.0%} of the time"
    return {"change": "torch.compile, which fuses them", "most_ns": rest.ps / 1000, "reason": reason}


def _precision(profile: Profile) -> dict[str, Any] | None:
    """Returns the time that products of 32-bit elements would save if their bytes and their time were half."""
    slow = Sums()
    for one in profile.operations:
        if one.cost is not None and one.cost.flops and one.dtypes == "float32":
            slow.add(one)
    if slow.ps < 0.1 * profile.total_ps or not slow.ps:
        return None
    reason = f"products of float32 take {slow.ps / profile.total_ps:.0%} of the time; bfloat16 moves half the bytes"
    return {"change": "bfloat16 (torch.autocast, or model.to(torch.bfloat16))", "most_ns": slow.ps / 2000, "reason": reason}


def _recompute(profile: Profile) -> dict[str, Any] | None:
    memory = profile.memory
    held = memory.kinds.get("activation", 0)
    if not memory.peak_bytes or held < 0.5 * memory.peak_bytes or memory.peak_bytes < 0.8 * memory.capacity_bytes:
        return None
    forward = sum(one.ps for one in profile.operations if one.site.phase == "forward")
    reason = (
        f"activations are {quantity(held)} of the peak of {quantity(memory.peak_bytes)}; "
        f"a second forward takes at most {time_text(forward)}"
    )
    return {"change": "recomputation (torch.utils.checkpoint) or a smaller batch", "most_ns": 0.0, "reason": reason}


def limit_of(row: Sums) -> str:
    """Returns what limits operators: the resource of their bound, and how near they are to it."""
    share = row.bound_share
    if share is None:
        return "no bound is known"
    by_bytes = row.bytes / bandwidth() * 1e12
    resource = "the bandwidth of the HBM" if by_bytes >= 0.999 * row.bound_ps else "the rate of matrix products"
    local = "" if row.local_share is None else f", {row.local_share:.0%} of the bytes local"
    kind = ", estimated" if row.estimated_ps == row.ps else ""
    return f"{share:.0%} of {resource}{local}{kind}"


@functools.cache
def bandwidth() -> int:
    """Returns the bandwidth of a SIP's HBM, in bytes per second."""
    figures = Topology._of(_native.torch_topology()).figures()
    return figures.hbm_bytes_per_s_per_pe * figures.pes_per_cube * figures.cubes_per_sip


def time_text(ps: float) -> str:
    """Returns a time with its unit.

    >>> time_text(1_234_000), time_text(2.5e9), time_text(0)
    ('1.234 µs', '2.5 ms', '0 ps')
    """
    for size, unit in ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns")):
        if ps >= size:
            return f"{ps / size:.4g} {unit}"
    return f"{ps:.4g} ps"


def quantity(size: float) -> str:
    """Returns a number of bytes with its unit.

    >>> quantity(1536), quantity(3 << 30)
    ('1.5 KiB', '3 GiB')
    """
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size:.4g} B"
