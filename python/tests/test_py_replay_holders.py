"""Holders of memory in snapshots, against PyTorch's viewer and a walk over the recorded entries."""

import collections
import gzip
import pickle
import shutil
from pathlib import Path

import pytest

replay = pytest.importorskip("cubeyard.replay")
from cubeyard import errors  # noqa: E402

TRACES = Path(__file__).resolve().parent.parent.parent / "testdata" / "traces"
RECORDED = TRACES / "resnet_train_stacks.pickle.gz"
ALL = 1 << 20


@pytest.fixture(scope="module")
def recorded():
    return pickle.loads(gzip.decompress(RECORDED.read_bytes()))


def rounded(size):
    return -(-size // 128) * 128


def frames_of(entry):
    """Frames of an entry, outermost first, as the result has them."""
    return tuple(f"{frame['filename']}:{frame['line']} {frame['name']}" for frame in reversed(entry["frames"]))


def walk(entries):
    """The live blocks at the first moment with most live bytes, and the number of entries until then."""
    live, held, most, at_peak, moment = {}, 0, 0, {}, 0
    for number, entry in enumerate(entries):
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry
            held += rounded(entry["size"])
        elif entry["action"] == "free_completed":
            held -= rounded(live.pop(entry["addr"])["size"])
        if held > most:
            most, at_peak, moment = held, dict(live), number + 1
    return at_peak, moment


def added_up(blocks):
    """Requested bytes by stack."""
    found = collections.Counter()
    for block in blocks:
        found[frames_of(block)] += block["size"]
    return found


def test_holders_by_stack_are_those_of_a_plain_walk(recorded):
    blocks, _ = walk(recorded["device_traces"][0])
    peak = replay.compare(RECORDED, policies="pytorch", by="stack", holders=ALL).results[0].peak
    assert {holder.stack: holder.requested_bytes for holder in peak.holders} == added_up(blocks.values())
    assert peak.blocks == len(blocks)
    assert peak.live_bytes == sum(rounded(block["size"]) for block in blocks.values())


def taken_at_its_peak(recorded):
    """The snapshot as it would have been taken at the peak, with a segment for each live block."""
    entries = recorded["device_traces"][0]
    blocks, moment = walk(entries)
    segments = [
        {
            "device": 0, "address": address, "total_size": block["size"], "stream": 0,
            "blocks": [{
                "address": address, "size": block["size"], "requested_size": block["size"],
                "state": "active_allocated", "frames": block["frames"],
            }],
        }
        for address, block in blocks.items()
    ]  # fmt: skip
    return {**recorded, "segments": segments, "device_traces": [entries[:moment]]}


def test_the_holder_of_most_bytes_is_that_of_pytorchs_viewer(recorded, viewer, tmp_path):
    path = tmp_path / "peak.pickle"
    path.write_bytes(pickle.dumps(taken_at_its_peak(recorded)))
    out = tmp_path / "memory.svg"
    viewer.run("memory", str(path), "-o", str(out))
    theirs = collections.Counter()
    for line in out.read_text().splitlines():
        stack, size = line.rsplit(" ", 1)
        _, state, *frames = stack.split(";")
        assert state == "active_allocated"
        theirs[tuple(frames)] += int(size)
    ours = replay.compare(path, policies="pytorch", by="stack", holders=ALL).results[0].peak.holders
    as_theirs = {named(holder.stack): holder.requested_bytes for holder in ours}
    assert as_theirs == theirs
    assert max(as_theirs.values()) == ours[0].requested_bytes


def named(stack):
    """A stack as the viewer writes it: files without folders, and colons between all parts."""
    if not stack:
        return ("<non-python>",)
    frames = (frame.rsplit("/", 1)[-1].split(" ", 1) for frame in stack)
    return tuple(f"{place}:{function}" for place, function in frames)


def test_holders_when_memory_ran_out_are_those_of_a_plain_walk():
    path = TRACES / "out_of_memory.pickle.gz"
    entries = pickle.loads(gzip.decompress(path.read_bytes()))["device_traces"][0]
    [moment] = [number for number, entry in enumerate(entries) if entry["action"] == "oom"]
    live = {}
    for entry in entries[:moment]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry
        elif entry["action"] == "free_completed":
            del live[entry["addr"]]
    failed = replay.compare(path, policies="pytorch", by="stack", holders=ALL).results[0].out_of_memory
    assert {holder.stack: holder.requested_bytes for holder in failed.holders} == added_up(live.values())
    assert (failed.failed_bytes, failed.blocks) == (entries[moment]["size"], len(live))


def test_frames_of_your_own_code_hold_the_memory():
    peak = replay.compare(RECORDED, policies="pytorch").results[0].peak
    assert peak.by == "frame"
    assert peak.holders[0].name == "record.py:87 resnet_train"
    assert peak.holders[0].stack[:2] == ("raw.py:7 <module>", "record.py:113 <module>")
    assert peak.cache.reserved_bytes == peak.cache.allocated_bytes + peak.cache.cached_bytes + peak.cache.gap_bytes


def test_a_folder_of_snapshots_is_a_trace_for_each(tmp_path):
    for rank in (0, 2, 10):
        shutil.copy(RECORDED, tmp_path / f"rank{rank}.pickle.gz")
    (tmp_path / "notes.txt").write_text("no trace")
    assert [trace.name for trace in replay.read(tmp_path)] == ["rank0", "rank2", "rank10"]
    with pytest.raises(errors.InputError, match="no file in this folder is named like a trace"):
        replay.read(Path(__file__).parent / "pytorch")


def test_the_least_memory_is_between_the_live_bytes_and_those_reserved():
    for row in replay.compare(RECORDED, policies=["pytorch", "pytorch-expandable", "recycle"]):
        assert row.peak_live_bytes <= max(row.least_bytes, row.least_reserved_bytes) <= row.peak_reserved_bytes
        assert row.least_fails_bytes == row.least_bytes - (2 << 20)


def test_options_are_checked():
    with pytest.raises(errors.InputError, match="by: `age` is no grouping: expected frame, stack or size"):
        replay.compare(RECORDED, by="age")
    with pytest.raises(errors.InputError, match="holders is -1"):
        replay.compare(RECORDED, holders=-1)
