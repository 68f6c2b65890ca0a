"""Types of the native module, checked by mypy.stubtest. Sections follow the files of crates/python/src."""

from collections.abc import Sequence

__version__: str

# command
def run_command(arguments: Sequence[str]) -> int: ...

# memory

# replay

# topology

# results: probe, validate, model, collectives

# context

# kernel

# bench

# distributed

# record
