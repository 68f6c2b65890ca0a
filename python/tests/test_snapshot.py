"""Our snapshots in PyTorch's own viewer: it reads them, and its figures are our statistics."""

import base64
import json
import pickle
import pickletools
import re
from collections import Counter

import pytest


def human(number):
    """A number of bytes as the viewer prints it."""
    for unit in ["", "Ki", "Mi", "Gi"]:
        if number < 1024:
            return f"{number:3.1f}{unit}B"
        number /= 1024
    raise ValueError(number)


def blocks(data, state):
    return [b for s in data["segments"] for b in s["blocks"] if b["state"] == state]


def test_the_summary_has_our_figures(viewer, snapshot):
    text = viewer.run("stats", snapshot.path)
    figures = dict(re.findall(r"^(\w+): (\S+)", text, re.MULTILINE))
    reserved = snapshot.stats["reserved_bytes.all.current"]
    requested = sum(b["requested_size"] for b in blocks(snapshot.data, "active_allocated"))
    assert figures["segments"] == str(len(snapshot.data["segments"]))
    assert figures["total_reserved"] == human(reserved)
    assert figures["total_allocated"] == human(requested)
    assert figures["total_free"] == human(reserved - requested)
    pending = sum(b["requested_size"] for b in blocks(snapshot.data, "active_pending_free"))
    assert requested + pending == snapshot.stats["requested_bytes.all.current"]


@pytest.mark.parametrize("command", ["segments", "memory"])
def test_the_flame_graphs_have_our_figures_to_the_byte(viewer, snapshot, tmp_path, command):
    viewer.run(command, snapshot.path, "--output", tmp_path / "graph")
    total = Counter()
    for line in (tmp_path / "graph").read_text().splitlines():
        stack, size = line.rsplit(" ", 1)
        state = next(part for part in stack.split(";") if part.startswith(("active", "inactive")))
        total[state] += int(size)
    kinds = ["allocated", "active", "reserved"]
    allocated, active, reserved = (snapshot.stats[f"{k}_bytes.all.current"] for k in kinds)
    assert total["active_allocated"] == allocated
    assert total["active_pending_free"] == active - allocated
    assert total["inactive"] == reserved - active
    assert sum(total.values()) == reserved


def test_what_is_free_beside_blocks_is_an_inactive_split(snapshot):
    split = 0
    for segment in snapshot.data["segments"]:
        # The parts of a growable region are one region, which is in use as a whole.
        if segment["is_expandable"] or segment["active_size"] > 0:
            split += segment["total_size"] - segment["active_size"]
    assert split == snapshot.stats["inactive_split_bytes.all.current"]


def test_the_trace_is_told_event_by_event(viewer, snapshot):
    entries = snapshot.data["device_traces"][0]
    text = viewer.run("trace", snapshot.path)
    assert f"{len(entries)} entries" in text
    told = Counter(entry["action"] for entry in entries)
    # An expandable segment has no name there, so its blocks have plain addresses.
    assert len(re.findall(r"^\w+ = (?:\w+)\[\d+:", text, re.MULTILINE)) == told["alloc"]
    assert len(re.findall(r"^del \w+ #", text, re.MULTILINE)) == told["free_requested"]
    assert text.count("# free completed for") == told["free_completed"]
    assert text.count("cudaMalloc(") == told["segment_alloc"]
    assert text.count("cudaFree(") == told["segment_free"]
    assert text.count("raise OutOfMemoryError") == told["oom"] == 1


@pytest.mark.parametrize(
    "command", [["trace_plot"], ["trace_plot", "--segments"], ["segment_plot"]], ids=" ".join
)
def test_the_plots_hold_the_snapshot(viewer, snapshot, tmp_path, command):
    page = tmp_path / "plot.html"
    viewer.run(*command, snapshot.path, "--output", page)
    files = re.search(r"const local_files = (.*)$", page.read_text(), re.MULTILINE)
    encoded = json.loads(files[1])[0]["base64"]
    assert pickle.loads(base64.b64decode(encoded)) == snapshot.data


def test_freed_blocks_can_be_left_out_of_the_plot(viewer, snapshot, tmp_path):
    page = tmp_path / "plot.html"
    # It prints a line for every free whose request it has not seen.
    assert viewer.run("trace_plot", "--filter_freed", snapshot.path, "--output", page) == ""
    assert page.stat().st_size > 0


def test_the_browser_can_read_the_pickle(snapshot):
    # MemoryViz.js knows these opcodes of protocols 2 to 4, and reads numbers as doubles.
    operations = list(pickletools.genops(snapshot.path.read_bytes()))
    assert {opcode.name for opcode, _, _ in operations} <= BROWSER
    assert all(opcode.proto <= 4 for opcode, _, _ in operations)
    numbers = [argument for _, argument, _ in operations if isinstance(argument, int)]
    assert len(numbers) > 100 and max(numbers) < 2**53


BROWSER = set(
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE"
    " SHORT_BINUNICODE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE APPEND APPENDS SETITEM SETITEMS TUPLE"
    " TUPLE1 TUPLE2 TUPLE3 BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE".split()
)


def test_segments_lie_apart_and_belong_to_their_device(snapshot):
    end = 0
    for segment in sorted(snapshot.data["segments"], key=lambda s: s["address"]):
        assert segment["device"] == 0
        assert segment["address"] >= end
        end = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == end
            end += block["size"]
        assert end == segment["address"] + segment["total_size"]


def test_the_browser_can_undo_every_event(snapshot):
    """The browser shows an earlier moment by undoing events from the last one on.

    It expects to find what each event was about: a block by its address, and one segment that
    holds all of what was mapped. Segments that an undone unmap brings back are not joined.
    """
    segments = {s["address"]: s["total_size"] for s in snapshot.data["segments"]}
    live = {b["address"] for b in blocks(snapshot.data, "active_allocated")}
    pending = {b["address"] for b in blocks(snapshot.data, "active_pending_free")}
    for event in reversed(snapshot.data["device_traces"][0]):
        match event["action"], event.get("addr"), event["size"]:
            case "free_completed", address, _:
                assert address not in live | pending
                pending.add(address)
            case "free_requested", address, _:
                pending.remove(address)
                live.add(address)
            case "alloc", address, _:
                live.remove(address)
            case "segment_free" | "segment_unmap", address, size:
                assert all(a + s <= address or address + size <= a for a, s in segments.items())
                segments[address] = size
            case "segment_alloc", address, size:
                assert segments.pop(address) == size
            case "segment_map", address, size:
                start = max(a for a in segments if a <= address)
                end = start + segments.pop(start)
                assert address + size <= end
                if start < address:
                    segments[start] = address - start
                if address + size < end:
                    segments[address + size] = end - address - size
    assert (segments, live, pending) == ({}, set(), set())


def test_the_examples_cover_what_there_is(snapshot_folder):
    seen = set()
    for path in snapshot_folder.glob("*.pickle"):
        data = pickle.loads(path.read_bytes())
        seen |= {entry["action"] for entry in data["device_traces"][0]}
        seen |= {block["state"] for segment in data["segments"] for block in segment["blocks"]}
        seen |= {segment["is_expandable"] for segment in data["segments"]}
    assert seen == {
        "alloc", "free_requested", "free_completed", "oom",
        "segment_alloc", "segment_free", "segment_map", "segment_unmap",
        "active_allocated", "active_pending_free", "inactive", True, False,
    }  # fmt: skip
