"""Our traces in Perfetto's own trace processor: its tables have what we wrote, to the picosecond."""

import io
import subprocess
from collections import defaultdict

import pytest
from conftest import ROOT, built
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket
from trace_processor import Program

ROOT_NAME = "cubeyard (1 ns shown = 1 ps simulated)"
HOUR = 3_600_000_000_000_000


def write_traces(folder):
    subprocess.run([built("example", "perfetto_sample"), folder], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_traces(tmp_path_factory.mktemp("traces"))


@pytest.fixture(scope="module")
def program():
    return Program()


@pytest.fixture(scope="module")
def sample(program, traces):
    return program.open(str(traces / "sample.pftrace"))


@pytest.fixture(scope="module")
def many(program, traces):
    return program.open(str(traces / "many.pftrace"))


def rows(trace, sql):
    """What a query gives, whose columns must have different names."""
    return [tuple(vars(row).values()) for row in trace.query(sql)]


def complaints(trace):
    """What the trace processor found wrong with a trace.

    Every count: it says of broken track events, which it skips, that they are for information only.
    """
    return dict(rows(trace, "SELECT name, value FROM stats WHERE value != 0"))


@pytest.mark.parametrize("name", ["sample", "many"])
def test_the_trace_processor_finds_nothing_wrong(request, name):
    assert complaints(request.getfixturevalue(name)) == {}


def test_it_does_find_what_is_wrong(program, traces):
    trace = Trace.FromString((traces / "sample.pftrace").read_bytes())
    for packet in trace.packet:
        packet.ClearField("interned_data")
    found = complaints(program.open(io.BytesIO(trace.SerializeToString())))
    assert found["interned_data_tokenizer_errors"] > 0


def test_tracks_are_a_tree_in_the_order_they_were_made(sample):
    found = rows(
        sample,
        """
        SELECT child.id, child.name, child.parent_id,
          extract_arg(parent.source_arg_set_id, 'child_ordering'),
          extract_arg(child.source_arg_set_id, 'sibling_order_rank')
        FROM track AS child LEFT JOIN track AS parent ON parent.id = child.parent_id
        """,
    )
    children = defaultdict(list)
    for track, name, parent, ordering, rank in found:
        assert ordering == ("explicit" if parent is not None else None)
        children[parent].append((rank, name, track))

    def tree(parent):
        # Sorted by rank alone: two tracks of one name are two tracks.
        ranked = sorted(children[parent], key=lambda child: child[0] or 0)
        return [(name, tree(track)) if children[track] else name for _, name, track in ranked]

    dma = ("DMA", ["DMA #2", "DMA #3"])
    cube = ("cube 0", ["PE 10", "PE 2", "PE 2", dma, "live", "traffic", "waiting"])
    assert tree(None) == [(ROOT_NAME, ["host", cube])]


def test_slices_are_where_we_put_them(sample):
    found = rows(
        sample,
        """
        SELECT track.name AS track, slice.name AS slice, ts, dur, depth
        FROM slice JOIN track ON track.id = slice.track_id ORDER BY ts, slice.id
        """,
    )
    expected = [
        ("host", "launch", 0, 999, 0),
        ("DMA", "read", 0, 30, 0),
        ("PE 2", "left", 10, 10, 0),
        ("PE 2", "right", 10, 10, 0),
        ("DMA #2", "read", 10, 10, 0),
        ("DMA #3", "read", 15, 25, 0),
        ("DMA #2", "read", 20, 30, 0),
        ("DMA", "read", 30, 5, 0),
        ("PE 10", "kernel", 999, 4002, 0),
        ("PE 10", "load", 999, 501, 1),
        ("PE 10", "dot", 1500, 3501, 1),
        ("PE 10", "nothing", 2000, 0, 2),
        ("PE 10", "store", 5001, 1, 0),
        ("host", "interrupt", 6000, 0, 0),
        ("host", "x" * 300, HOUR, 1, 0),
    ]
    assert found == expected


def test_arguments_keep_their_types(sample):
    found = rows(
        sample,
        """
        SELECT args.key, value_type, coalesce(int_value, real_value, string_value)
        FROM slice JOIN args USING (arg_set_id) WHERE slice.name = 'launch' ORDER BY args.id
        """,
    )
    assert found == [
        ("debug.bytes", "uint", 1 << 40),
        ("debug.offset", "int", -3),
        ("debug.share", "real", 0.25),
        ("debug.posted", "bool", 1),
        ("debug.path", "string", "PCIe → NOC → HBM"),
    ]


def test_flows_go_from_slice_to_slice(sample):
    found = rows(
        sample,
        """
        SELECT source.name AS source, target.name AS target FROM flow
        JOIN slice AS source ON source.id = slice_out
        JOIN slice AS target ON target.id = slice_in
        ORDER BY source.ts
        """,
    )
    assert found == [("launch", "kernel"), ("kernel", "store")]


def test_counters_have_our_values_and_units(sample):
    found = rows(
        sample,
        """
        SELECT track.name, unit, ts, value
        FROM counter JOIN counter_track AS track ON track.id = counter.track_id
        ORDER BY track.name, ts
        """,
    )
    assert found == [
        ("live", "bytes", 0, 0.0),
        ("live", "bytes", 1000, 4096.0),
        ("live", "bytes", 2000, float(1 << 40)),
        ("traffic", "GB/s", 1, 25.6),
        ("waiting", "count", 1, -1.0),
    ]


def test_slices_that_nest_and_touch_are_not_taken_for_each_other(many):
    found = rows(
        many,
        """
        SELECT ts, ts + dur, depth, extract_arg(arg_set_id, 'debug.start'),
          extract_arg(arg_set_id, 'debug.end')
        FROM slice
        """,
    )
    assert len(found) > 10_000
    assert max(depth for _, _, depth, _, _ in found) > 5
    assert [row for row in found if row[0:2] != row[3:5]] == []
    # Lanes hold whole operations, of which 5000 were written.
    assert sum(depth == 0 for _, _, depth, _, _ in found) >= 5000


def messages(message):
    """A message and all that are in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else [value]:
                yield from messages(inner)


@pytest.mark.parametrize("name", ["sample.pftrace", "many.pftrace"])
def test_packets_are_as_the_format_asks(traces, name):
    trace = Trace.FromString((traces / name).read_bytes())
    first, *others = trace.packet
    assert first.sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert all(p.sequence_flags in (0, TracePacket.SEQ_NEEDS_INCREMENTAL_STATE) for p in others)
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    assert [m for m in messages(trace) if len(UnknownFieldSet(m)) > 0] == []
    known = set()
    for packet in others:
        new = {entry.iid for entry in packet.interned_data.event_names}
        assert not new & known
        known |= new
        if packet.track_event.HasField("name_iid"):
            assert packet.sequence_flags == TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            assert packet.track_event.name_iid in known
    assert known


def test_the_same_traces_have_the_same_bytes(traces, tmp_path):
    write_traces(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (traces / path.name).read_bytes()
    assert len(list(tmp_path.iterdir())) == 2
