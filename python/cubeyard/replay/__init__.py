"""Replay of recorded allocations under other policies, to compare their memory needs.

A recording is a file or an object. A file is a memory snapshot of PyTorch, a log of RAPIDS RMM or a `.trace` script,
optionally compressed with gzip. An object is the result of `torch.cuda.memory._snapshot()`, a `cubeyard.memory.Snapshot`,
or the bytes of a file.

>>> from cubeyard import replay
>>> script = b"alloc weights 30 MiB" + bytes([10]) + b"alloc batch 3 MiB" + bytes([10]) + b"free batch"
>>> comparison = replay.compare(script, policies=["pytorch", "first-fit"])
>>> [(row.policy, row.peak_live_bytes >> 20, row.peak_reserved_bytes >> 20) for row in comparison]
[('pytorch', 33, 50), ('first-fit', 33, 34)]
>>> comparison.advice.startswith("`first-fit` needs 34.00 MiB")
True

From PyTorch:

    torch.cuda.memory._record_memory_history()
    ...                                                            # the work to analyse
    comparison = cubeyard.replay.compare(torch.cuda.memory._snapshot())

A `Comparison` holds the table of the command `cubeyard replay`. `to_dict()` returns the data of its JSON output. pandas and
polars read the table: `pandas.DataFrame.from_records(comparison.rows())`, `polars.DataFrame(comparison)`. A notebook shows
the HTML page with charts, and `plot()` draws with matplotlib. `replay.policies()` lists the built-in policies. A subclass
of `Policy` is a policy of your own.
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
