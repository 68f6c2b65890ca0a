"""The trace of `cubeyard probe --trace` in Perfetto's own trace processor, beside the probe's JSON."""

import json
import subprocess
from collections import Counter, defaultdict

import pytest
from conftest import ROOT, built
from trace_processor import Program

ROOT_NAME = "cubeyard (1 ns shown = 1 ps simulated)"

# A read of a neighbour's memory, and a host write that crosses its way; then one across SIPs, later.
PATTERN = """\
transfers:
  - {op: read, from: sip0.cube0.pe1, to: sip0.cube0.pe0.hbm, bytes: 16384, at_ns: 0}
  - {op: write, from: host, to: sip0.cube3.pe2.hbm, bytes: 65536}
  - {op: write, from: sip0.cube0.pe0, to: sip1.cube0.pe0.hbm, bytes: 1000, at_ns: 2000.5}
"""


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """The report, and the path of the trace."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "pattern.yaml").write_text(PATTERN)
    probe = [built("bin", "cubeyard"), "probe", "--explain"]
    files = ["--pattern", folder / "pattern.yaml", "--trace", folder / "probe.pftrace"]
    done = subprocess.run(
        [*probe, *files, "--format", "json", "--quiet"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout), folder / "probe.pftrace"


@pytest.fixture(scope="module")
def report(probed):
    return probed[0]


@pytest.fixture(scope="module")
def trace(probed):
    return Program().open(str(probed[1]))


def rows(trace, sql):
    """What a query gives, whose columns must have different names."""
    return [tuple(vars(row).values()) for row in trace.query(sql)]


def ps(ns):
    return round(ns * 1000)


@pytest.fixture(scope="module")
def slices(trace):
    """By track: name, start, duration, request, bytes."""
    found = rows(
        trace,
        """
        SELECT track.name AS track, slice.name AS slice, ts, dur,
          extract_arg(slice.arg_set_id, 'debug.request'), extract_arg(slice.arg_set_id, 'debug.bytes')
        FROM slice JOIN track ON track.id = slice.track_id ORDER BY track.id, ts
        """,
    )
    tracks = defaultdict(list)
    for track, *rest in found:
        tracks[track].append(tuple(rest))
    return tracks


def nodes_of(transfer, start):
    """Where a transfer's data passes, its start included."""
    return {start, *(hop["node"] for hop in transfer["route"])}


def passed(report):
    """The nodes that each transfer passed: data and commands go the same way."""
    starts = ["sip0.cube0.hbm_ctrl.pe0", "sip0.io0.pcie_ep", "sip0.cube0.pe0.pe_dma"]
    return [nodes_of(transfer, start) for transfer, start in zip(report["transfers"], starts)]


def memories(report):
    """The long names of the memories."""
    names = [transfer["to"].split(".") for transfer in report["transfers"]]
    return [f"{sip}.{cube}.hbm_ctrl.{pe}" for sip, cube, pe, _ in names]


def test_the_trace_processor_finds_nothing_wrong(trace):
    assert rows(trace, "SELECT name, value FROM stats WHERE value != 0") == []


def test_there_is_a_track_for_each_component_that_was_passed(trace, report):
    found = rows(
        trace,
        """
        SELECT child.name AS child, parent.name AS parent
        FROM track AS child LEFT JOIN track AS parent ON parent.id = child.parent_id
        """,
    )
    nodes = set().union(*passed(report))
    titles = {node: node for node in nodes} | {f"{m} bursts": m for m in memories(report)}
    # `sip0.cube0.r0c0` is under `sip0.cube0`, which is under `sip0`; the switch is outside of all.
    expected = {(ROOT_NAME, None), ("requests", ROOT_NAME)}
    for title, node in titles.items():
        above = ROOT_NAME
        for depth in range(1, min(node.count("."), 2) + 1):
            group = ".".join(node.split(".")[:depth])
            expected.add((group, above))
            above = group
        expected.add((title, above))
    # What overlaps on a track has more lanes below it.
    lanes = {(name, parent) for name, parent in found if " #" in name}
    assert set(found) - lanes == expected
    assert all(name.startswith(f"{parent} #") for name, parent in lanes)
    assert {"sip0.cube3.r1c4", "sip1.io0.pcie_ep", "fabric.switch0"} <= nodes


def test_requests_last_as_long_as_the_report_says(slices, report):
    found = [s for track in slices if track.split(" #")[0] == "requests" for s in slices[track]]
    names = ["DMA read", "MemoryWrite", "DMA write"]
    expected = [
        (name, ps(t["at_ns"]), ps(t["latency_ns"]), number, t["bytes"])
        for number, (name, t) in enumerate(zip(names, report["transfers"], strict=True))
    ]
    assert sorted(found, key=lambda found: found[3]) == expected


def test_every_node_has_the_slices_of_what_passed_it(slices, report):
    expected = defaultdict(Counter)
    kinds = [("command", "read data"), ("write data",), ("write data", "acknowledgement")]
    for number, (nodes, names) in enumerate(zip(passed(report), kinds, strict=True)):
        for node in nodes:
            expected[node].update((name, number) for name in names)
    found = defaultdict(Counter)
    for track, of_track in slices.items():
        name = track.split(" #")[0]
        if name != "requests" and not name.endswith(" bursts"):
            found[name].update((slice[0], slice[3]) for slice in of_track)
    assert found == expected


def test_bursts_are_where_the_explanation_has_them(slices, report):
    for number, (memory, transfer) in enumerate(zip(memories(report), report["transfers"])):
        [(name, start, duration, request, size)] = slices[f"{memory} bursts"]
        assert (name, request) == (f"{transfer['op']} bursts", number)
        # Bursts of 256 bytes are never short.
        assert size == -(-transfer["bytes"] // 256) * 256
        [service] = [step for step in transfer["explain"] if step["what"] == "service"]
        ends = ps(service["start_ns"]) + ps(service["duration_ns"])
        assert start <= ps(service["start_ns"]) and ends <= start + duration
        made, done = ps(transfer["at_ns"]), ps(transfer["at_ns"]) + ps(transfer["latency_ns"])
        assert made < start and start + duration <= done


def test_slices_lie_within_their_requests(slices, report):
    count = 0
    for of_track in slices.values():
        for _, start, duration, number, _ in of_track:
            transfer = report["transfers"][number]
            assert ps(transfer["at_ns"]) <= start
            assert start + duration <= ps(transfer["at_ns"]) + ps(transfer["latency_ns"])
            count += 1
    assert count > 50


def test_arrows_follow_each_request(trace, report):
    [(flows,)] = rows(trace, "SELECT count(*) AS flows FROM flow")
    [(count,)] = rows(trace, "SELECT count(*) AS slices FROM slice")
    # A chain through all slices of a request.
    assert flows == count - len(report["transfers"])
