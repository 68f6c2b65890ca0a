"""Traces that ui.perfetto.dev opens: slices on named tracks. A picosecond is shown as a nanosecond."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Slice", "encode"]

ROOT = "cubeyard (1 ns shown = 1 ps simulated)"

# Numbers of fields of perfetto's messages.
PACKET, TIMESTAMP, SEQUENCE_ID, TRACK_EVENT, TRACK_DESCRIPTOR = 1, 8, 10, 11, 60
UUID, NAME, PARENT_UUID, CHILD_ORDERING, SIBLING_RANK = 1, 2, 5, 11, 12
ANNOTATIONS, TYPE, TRACK_UUID, EVENT_NAME = 4, 9, 11, 23
ANNOTATION_NAME, ANNOTATION_UINT, ANNOTATION_STRING = 10, 3, 6
BEGIN, END, EXPLICIT = 1, 2, 3


@dataclass(frozen=True)
class Slice:
    """A named interval on a track."""

    track: str
    name: str
    start: int
    end: int
    details: dict[str, int | str]


def encode(slices: Iterable[Slice]) -> bytes:
    """Returns a trace of slices; tracks are in the order of their names."""
    slices = sorted(slices, key=lambda one: (one.track, one.start, -one.end))
    tracks = {name: number for number, name in enumerate(sorted({one.track for one in slices}), 2)}
    packets = [_packet(_track(1, ROOT))]
    packets += [_packet(_track(number, name, 1)) for name, number in tracks.items()]
    for one in slices:
        begin = _whole(TYPE, BEGIN) + _whole(TRACK_UUID, tracks[one.track]) + _text(EVENT_NAME, one.name)
        for key, value in one.details.items():
            kept = _text(ANNOTATION_STRING, value) if isinstance(value, str) else _whole(ANNOTATION_UINT, value)
            begin += _bytes(ANNOTATIONS, _text(ANNOTATION_NAME, key) + kept)
        packets.append(_event(one.start, begin))
        packets.append(_event(one.end, _whole(TYPE, END) + _whole(TRACK_UUID, tracks[one.track])))
    return b"".join(packets)


def _track(uuid: int, name: str, parent: int | None = None) -> bytes:
    track = _whole(UUID, uuid) + _text(NAME, name)
    if parent is None:
        track += _whole(CHILD_ORDERING, EXPLICIT)
    else:
        track += _whole(PARENT_UUID, parent) + _whole(SIBLING_RANK, uuid)
    return _bytes(TRACK_DESCRIPTOR, track)


def _event(time: int, event: bytes) -> bytes:
    return _packet(_whole(TIMESTAMP, time) + _bytes(TRACK_EVENT, event))


def _packet(body: bytes) -> bytes:
    return _bytes(PACKET, body + _whole(SEQUENCE_ID, 1))


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    """Returns seven bits in each byte, the lowest first.

    >>> _varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
