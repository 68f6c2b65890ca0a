"""Traces of collectives, in Perfetto's own trace processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trace_processor import Program

from cubeyard import _native
from cubeyard.collectives.world.records import Record, Report, Span


def record(start_ns: float, time_ns: float, ranks: tuple[int, ...] = (0, 1)) -> Record:
    return Record("all_reduce sum", ranks, "f32", 64, "ring", start_ns, time_ns, 1.0, "world", "train.py:7")


def rows(trace: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(vars(row).values()) for row in trace.query(sql)]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    calls = (record(0.25, 10), record(5, 2.5), record(20, 0.001, (1,)))
    report = Report(calls, (Span(1, "wait", 1.0, 2.0), Span(0, "compute", 0.0, 1e9)))
    path: Path = report.trace(tmp_path_factory.mktemp("traces") / "report.pftrace")
    return Program().open(str(path))


def test_slices_are_on_the_tracks_of_their_ranks_to_the_picosecond(trace: Any) -> None:
    found = rows(trace, "SELECT t.name track, s.ts, s.dur, s.name FROM slice s JOIN track t ON t.id = s.track_id")
    assert sorted(found) == [
        ("rank 0", 0, 10**12, "compute"),
        ("rank 0: world", 250, 10_000, "all_reduce sum"),
        ("rank 0: world #2", 5_000, 2_500, "all_reduce sum"),
        ("rank 1", 1_000, 1_000, "wait"),
        ("rank 1: world", 250, 10_000, "all_reduce sum"),
        ("rank 1: world", 20_000, 1, "all_reduce sum"),
        ("rank 1: world #2", 5_000, 2_500, "all_reduce sum"),
    ]


def test_a_slice_has_the_details_of_its_collective(trace: Any) -> None:
    query = "SELECT key, display_value FROM args JOIN slice USING (arg_set_id) WHERE dur = 1 ORDER BY key"
    assert rows(trace, query) == [
        ("debug.algorithm", "ring"),
        ("debug.at", "train.py:7"),
        ("debug.bytes", "64"),
        ("debug.type", "f32"),
    ]


def test_the_trace_processor_finds_nothing_wrong(trace: Any) -> None:
    assert rows(trace, "SELECT name, value FROM stats WHERE value != 0") == []


def test_counters_are_beside_the_slices(tmp_path: Path) -> None:
    counters = [("b", [(0, 5), (70, -1)]), ("a", [(10, 1 << 40)]), ("never", [])]
    path = tmp_path / "counters.pftrace"
    path.write_bytes(_native.trace_of_slices([("work", 3, 9, "kernel", [])], counters))
    trace = Program().open(str(path))
    found = rows(trace, "SELECT t.name track, ts, value, unit FROM counter JOIN counter_track t ON t.id = track_id ORDER BY track, ts")
    assert found == [("a", 10, 1 << 40, "bytes"), ("b", 0, 5, "bytes"), ("b", 70, -1, "bytes")]
    assert rows(trace, "SELECT name, ts, dur FROM slice") == [("kernel", 3, 6)]
    assert rows(trace, "SELECT name, value FROM stats WHERE value != 0") == []
