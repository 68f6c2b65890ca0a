"""Replay of recorded allocations: how much memory they would have needed under other policies.

A recording is a file, compressed with gzip or not (a memory snapshot of PyTorch, a log of RAPIDS RMM, a `.trace` script), or an
object: what `torch.cuda.memory._snapshot()` returns, a `cubeyard.memory.Snapshot`, or the bytes of a file.

>>> from cubeyard import replay
>>> script = b"alloc weights 30 MiB" + bytes([10]) + b"alloc batch 3 MiB" + bytes([10]) + b"free batch"
>>> comparison = replay.compare(script, policies=["pytorch", "first-fit"])
>>> [(row.policy, row.peak_live_bytes >> 20, row.peak_reserved_bytes >> 20) for row in comparison]
[('pytorch', 33, 50), ('first-fit', 33, 34)]
>>> comparison.advice.startswith("`first-fit` needs 34.00 MiB")
True

From PyTorch:

    torch.cuda.memory._record_memory_history()
    ...                                                            # the work to look at
    comparison = cubeyard.replay.compare(torch.cuda.memory._snapshot())

A `Comparison` is the table of the command `cubeyard replay`: `to_dict()` equals its JSON, pandas and polars read it as it is
(`pandas.DataFrame.from_records(comparison.rows())`, `polars.DataFrame(comparison)`), a notebook shows the page with its charts, and
`plot()` draws it. `replay.policies()` lists the policies; a subclass of `Policy` is your own, written in Python.
"""

from __future__ import annotations

from cubeyard.replay._compare import compare, policies
from cubeyard.replay._policy import Policy, PolicyInfo
from cubeyard.replay._result import Comparison, PolicyResult, TimelinePoint
from cubeyard.replay._trace import Source, Trace, example, read
from cubeyard.replay._usage import CacheUse, Holder, MemoryUse

__all__ = [
    "CacheUse",
    "Comparison",
    "Holder",
    "MemoryUse",
    "Policy",
    "PolicyInfo",
    "PolicyResult",
    "Source",
    "TimelinePoint",
    "Trace",
    "compare",
    "example",
    "policies",
    "read",
]
