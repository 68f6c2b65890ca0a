"""Traces of collectives, read field by field as perfetto's messages define them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cubeyard._world import perfetto


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes of texts and messages."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, data[place : place + length]
            place += length


def slices(trace: bytes) -> list[tuple[str, str, int, int]]:
    """The slices of a trace: track, name, start and end."""
    tracks: dict[int, str] = {}
    open_: dict[int, tuple[str, int]] = {}
    found = []
    for number, body in fields(trace):
        assert number == 1
        packet = dict(fields(body))
        if 60 in packet:
            track = dict(fields(packet[60]))
            tracks[track[1]] = track[2].decode()
            continue
        event = dict(fields(packet[11]))
        if event[9] == 1:
            open_[event[11]] = (event[23].decode(), packet[8])
        else:
            name, start = open_.pop(event[11])
            found.append((tracks[event[11]], name, start, packet[8]))
    assert not open_
    return found


def test_slices_are_on_their_tracks_in_the_order_of_time() -> None:
    made = [
        perfetto.Slice("b", "second", 300, 400, {"bytes": 5, "algorithm": "ring"}),
        perfetto.Slice("b", "first", 0, 300, {}),
        perfetto.Slice("a", "long", 0, 1 << 40, {}),
    ]
    trace = perfetto.encode(made)
    assert slices(trace) == [("a", "long", 0, 1 << 40), ("b", "first", 0, 300), ("b", "second", 300, 400)]
    assert perfetto.encode(made) == trace
