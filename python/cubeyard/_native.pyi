"""Types of the native module, checked by mypy.stubtest. Sections follow the files of crates/python/src."""

from collections.abc import Sequence

__version__: str

# command
def run_command(arguments: Sequence[str]) -> int: ...

# licences
def licences() -> str: ...

# memory

# replay

# topology

# results: probe, validate, model, collectives
def arrow_stream(columns: Sequence[tuple[str, str, Sequence[object]]], rows: int) -> object: ...
def table_page(
    title: str, summary: str, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[tuple[str, bool]]]]]
) -> str: ...

# context

# kernel

# bench

# distributed

# record
