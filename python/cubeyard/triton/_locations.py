"""Locations in the text of Triton's IR, as lines of the author's file."""

from __future__ import annotations

import os
import re
from typing import Any

from cubeyard.triton._ir import Line

__all__ = ["Locations", "of_line"]

_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_FILE = re.compile(r'^"([^"]*)":(\d+):(\d+)')
_CALL = re.compile(r"^callsite\((.*) at (#loc\d*)\)$")
_NAMED = re.compile(r'^"[^"]*"\((.*)\)$')
UNKNOWN = Line("", 0, 0)


class Locations:
    """Locations by name."""

    def __init__(self, text: str) -> None:
        self.texts = dict(_DEFINITION.findall(text))
        self.known: dict[str, Line] = {}

    def line(self, location: str) -> Line:
        """Returns the line of a location: where a function of Triton's own was called, that of the call."""
        if location not in self.known:
            self.known[location] = self._resolved(location)
        return self.known[location]

    def _resolved(self, location: str) -> Line:
        text = self.texts.get(location, location)
        if text.startswith("#"):
            return self.line(text)
        if found := _FILE.match(text):
            return Line(found[1], int(found[2]), int(found[3]))
        if found := _CALL.match(text):
            inner = self.line(found[1])
            return self.line(found[2]) if inner == UNKNOWN or _is_of_triton(inner.file) else inner
        if found := _NAMED.match(text):
            return self.line(found[1])
        return UNKNOWN


def _is_of_triton(file: str) -> bool:
    return f"{os.sep}triton{os.sep}language{os.sep}" in file


def of_line(decoder: Any, row: str) -> str:
    """Returns the place of the operation that a line of the text begins, found where its regions end."""
    depth = 0
    for text in decoder.rows[decoder.at - 1 :]:
        depth += text.count("{") - text.count("}")
        if depth <= 0 and " loc(" in text:
            return str(decoder.locations.line(text[text.rfind(" loc(") + 5 : -1]))
    return row
