"""The trace of `cubeyard run --trace` in Perfetto's own trace processor, beside the run's JSON."""

import json
import subprocess
from collections import defaultdict

import pytest
from conftest import ROOT, built
from trace_processor import Program

ROOT_NAME = "cubeyard (1 ns shown = 1 ps simulated)"
SETTINGS = ["--set", "elements=65536", "--set", "block=4096", "--set", "cubes=2", "--set", "pes=4"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The report, and the path of the trace."""
    path = tmp_path_factory.mktemp("run") / "run.pftrace"
    done = subprocess.run(
        [built("bin", "cubeyard"), "run", "vector-add", *SETTINGS, "--explain", "--format", "json", "--quiet", "--trace", path],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout), path


@pytest.fixture(scope="module")
def report(ran):
    return ran[0]


@pytest.fixture(scope="module")
def trace(ran):
    return Program().open(str(ran[1]))


def rows(trace, sql):
    """What a query gives, whose columns must have different names."""
    return [tuple(vars(row).values()) for row in trace.query(sql)]


def ps(ns):
    return round(ns * 1000)


@pytest.fixture(scope="module")
def tracks(trace):
    """The path of names from the root to each track."""
    found = rows(trace, "SELECT id, name, parent_id FROM track")
    above = {track: (name, parent) for track, name, parent in found}

    def path(track):
        name, parent = above[track]
        return (*(path(parent) if parent is not None else ()), name)

    return {track: path(track) for track in above}


@pytest.fixture(scope="module")
def slices(trace, tracks):
    """By path of tracks: name, start, duration, and the arguments."""
    found = rows(
        trace,
        """
        SELECT track_id, name, ts, dur, extract_arg(arg_set_id, 'debug.command'),
          extract_arg(arg_set_id, 'debug.place'), extract_arg(arg_set_id, 'debug.bytes')
        FROM slice ORDER BY track_id, ts
        """,
    )
    by_track = defaultdict(list)
    for track, *rest in found:
        by_track[tracks[track]].append(tuple(rest))
    return by_track


def started(slices):
    """When the PEs began."""
    [_, (name, start, _, *_)] = slices[(ROOT_NAME, "host")]
    assert name == "all PEs"
    return start


def test_the_trace_processor_finds_nothing_wrong(trace):
    assert rows(trace, "SELECT name, value FROM stats WHERE value != 0") == []


def test_the_host_has_its_launch_and_in_it_the_time_of_the_pes(slices, report):
    [launch, pes] = slices[(ROOT_NAME, "host")]
    assert launch[0] == report["launches"][0]["kernel"] == "vector_add"
    assert launch[2] == ps(report["host_ns"])
    assert pes[2] == ps(report["kernel_ns"])
    assert launch[1] < pes[1] and pes[1] + pes[2] < launch[1] + launch[2]


def test_every_unit_of_every_pe_has_a_track(slices):
    found = {path for path in slices if path != (ROOT_NAME, "host")}
    units = ["PE_CPU", "DMA read", "DMA write", "TCM read", "MATH", "TCM write"]
    expected = {
        (ROOT_NAME, "sip0", f"sip0.cube{cube}", f"sip0.cube{cube}.pe{pe}", unit)
        for cube in range(2)
        for pe in range(4)
        for unit in units
    }
    assert found == expected


def test_the_lanes_of_the_report_are_tracks_of_the_trace(slices, report):
    start = started(slices)
    assert report["lanes"]
    for lane in report["lanes"]:
        pe, unit = lane["name"].split(" ", 1)
        sip, cube, _ = pe.split(".")
        found = slices[(ROOT_NAME, sip, f"{sip}.{cube}", pe, unit)]
        spans = [(ps(s["start_ns"]), ps(s["end_ns"]) - ps(s["start_ns"])) for s in lane["slices"]]
        assert [(at - start, duration) for _, at, duration, *_ in found] == spans


def test_accesses_have_their_bytes_and_lines(slices, report):
    moved = {"DMA read": 0, "DMA write": 0}
    for path, of_track in slices.items():
        for name, _, _, command, place, size in of_track:
            if path[-1] in moved:
                moved[path[-1]] += size
                assert name.startswith(("load f16", "store f16"))
                assert place.startswith("vector_add.rs:") and command >= 0
    assert moved == {"DMA read": report["read_bytes"], "DMA write": report["written_bytes"]}


def test_arrows_follow_the_critical_path(trace, tracks, slices, report):
    found = rows(
        trace,
        """
        SELECT source.ts AS source_ts, target.ts AS target_ts, target.dur AS target_dur,
          target.track_id AS track
        FROM flow JOIN slice AS source ON source.id = slice_out
        JOIN slice AS target ON target.id = slice_in ORDER BY target.ts
        """,
    )
    assert len({tracks[track][3] for *_, track in found}) == 1
    assert all(before <= after for before, after, *_ in found)
    # Of an operation that streams, the step may be the first strip alone, or the last.
    steps = [s for s in report["critical"] if not s["what"].startswith("the scheduler")]
    assert len(found) == len(steps)
    starts = {ps(step["start_ns"]) for step in steps}
    ends = {ps(step["start_ns"]) + ps(step["duration_ns"]) for step in steps}
    start = started(slices)
    for _, at, duration, _ in found:
        assert at - start in starts or at + duration - start in ends
