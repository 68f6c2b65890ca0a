"""Results: frozen dataclasses that convert to plain data, tables, HTML pages and plots."""

from __future__ import annotations

import dataclasses
import functools
import html
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, cast, get_args, get_type_hints

from cubeyard import _native
from cubeyard.errors import CubeyardError, InputError

__all__ = ["HIDDEN", "OPTIONAL", "Printed", "Result", "arrow_types", "build", "columns", "new_axes", "plain", "table", "write"]

HIDDEN: Mapping[str, Any] = {"hidden": True}
"""Metadata of a dataclass field that `to_dict()` omits."""

OPTIONAL: Mapping[str, Any] = {"optional": True}
"""Metadata of a dataclass field that `to_dict()` omits if its value is None."""

Made = TypeVar("Made")

HEIGHT = 640
"""Initial height of a page in a notebook, in pixels. The user can resize the frame."""


class Result(ABC):
    """Base class of results.

    A subclass is a frozen dataclass. Its fields have the names of the keys in the command's JSON. A trailing underscore,
    as in `from_`, is removed in the JSON.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Times(Result):
    ...     times_ns: tuple[float, ...]
    ...     def rows(self):
    ...         return [{"run": run, "ns": ns} for run, ns in enumerate(self.times_ns)]
    ...     def _draw(self, axes):
    ...         axes.plot(self.times_ns)
    >>> times = Times((77.0, 79.5))
    >>> times.to_dict()
    {'times_ns': [77.0, 79.5]}
    >>> times.rows()[1]
    {'run': 1, 'ns': 79.5}
    """

    _title: ClassVar[str] = ""
    """Title of the page; by default, the name of the class."""
    _types: ClassVar[Mapping[str, str]] = {}
    """Arrow types of columns that may hold no value at all: `bool`, `int64`, `float64` or `utf8`."""

    def to_dict(self) -> Any:
        """Returns the plain data that `--format json` prints, without the version and the hash of the machine."""
        return plain(self)

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Returns the table as one dictionary of plain values per row."""

    def page(self) -> str:
        """Returns a self-contained HTML report."""
        title = self._title or type(self).__name__
        return _native.table_page(title, self._summary(), self._tables())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the HTML report to a file and returns the path.

        Raises:
            InputError: The file cannot be written.
        """
        return write(path, self.page().encode())

    def plot(self, axes: Any = None) -> Any:
        """Draws the result with matplotlib and returns the axes.

        Args:
            axes: matplotlib axes to draw on; by default, the axes of a new figure.

        Raises:
            CubeyardError: matplotlib is not installed.
        """
        if axes is None:
            axes = new_axes()
        self._draw(axes)
        return axes

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the table as an Arrow stream for pandas, polars and pyarrow.

        The requested schema is ignored, which the protocol permits.
        """
        rows = self.rows()
        return _native.arrow_stream(columns(rows, self._types), len(rows))

    def _repr_html_(self) -> str:
        """Shows the page in a notebook. An iframe isolates its style."""
        page = html.escape(self.page())
        style = f"width:100%;height:{HEIGHT}px;border:0;resize:vertical"
        return f'<iframe srcdoc="{page}" style="{style}"></iframe>'

    def _summary(self) -> str:
        """Returns the line below the title of the page."""
        return ""

    def _tables(self) -> list[tuple[str, list[str], list[list[tuple[str, bool]]]]]:
        """Returns the tables of the page, each made by `table`."""
        return [table("Results", self.rows())]

    @abstractmethod
    def _draw(self, axes: Any) -> None:
        """Draws the result on matplotlib axes."""


@dataclasses.dataclass(frozen=True)
class Printed(Result):
    """Base class of results that include the text tables of the command."""

    text: str = dataclasses.field(kw_only=True, repr=False, compare=False, metadata=HIDDEN)
    """Text tables that the command prints."""

    def __str__(self) -> str:
        return self.text


def plain(value: Any) -> Any:
    """Converts a value to JSON types: dataclasses become dictionaries, tuples become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name.rstrip("_"): plain(item) for name, item in _shown(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _shown(value: Any) -> Iterable[tuple[str, Any]]:
    """Yields the name and value of each field that `to_dict()` includes."""
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if not (field.metadata.get("hidden") or (field.metadata.get("optional") and item is None)):
            yield field.name, item


def build(made: type[Made], data: Mapping[str, Any], **hidden: Any) -> Made:
    """Builds a dataclass from the data that its `to_dict()` returns, plus the values of its hidden fields.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Hop:
    ...     from_: str
    ...     wires_ns: tuple[float, ...]
    >>> build(Hop, {"from": "host", "wires_ns": [1.5]})
    Hop(from_='host', wires_ns=(1.5,))
    """
    parts: dict[str, Any] = _parts(cast(Any, made))
    left = data.keys() - {name.rstrip("_") for name in parts}
    if left:
        raise TypeError(f"{made.__name__} has no field for {', '.join(sorted(left))}")
    given = {name: data[name.rstrip("_")] for name in parts if name.rstrip("_") in data}
    return made(**{name: _built(value, parts[name]) for name, value in given.items()}, **hidden)


@functools.cache
def _parts(made: Any) -> dict[str, Any]:
    """Returns the visible fields of a dataclass, each with the dataclass in its type annotation, or None."""
    hints = get_type_hints(made)
    fields = [field.name for field in dataclasses.fields(made) if not field.metadata.get("hidden")]
    return {name: next(filter(dataclasses.is_dataclass, _types_in(hints[name])), None) for name in fields}


def _types_in(hint: Any) -> Iterable[Any]:
    """Returns a type followed by all of its type arguments, recursively."""
    return [hint, *(inner for argument in get_args(hint) for inner in _types_in(argument))]


def _built(value: Any, of: type | None) -> Any:
    if isinstance(value, list):
        return tuple(_built(item, of) for item in value)
    return value if of is None or value is None else build(of, value)


ARROW = {bool: "bool", int: "int64", float: "float64", str: "utf8"}
"""Arrow type of each Python type."""


def arrow_types(made: Any) -> dict[str, str]:
    """Returns the Arrow types of the scalar fields of a dataclass: numbers, strings and booleans, optional or not.

    >>> @dataclasses.dataclass
    ... class Row:
    ...     bytes: int
    ...     ns: float | None
    ...     names: tuple[str, ...]
    >>> arrow_types(Row)
    {'bytes': 'int64', 'ns': 'float64'}
    """
    hints = get_type_hints(made)
    kinds = {field.name: _present(hints[field.name]) for field in dataclasses.fields(made)}
    return {name.rstrip("_"): ARROW[kind] for name, kind in kinds.items() if kind in ARROW}


def _present(hint: Any) -> Any:
    """Returns the type without None, e.g. `int` for `int | None`."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if isinstance(hint, UnionType) and len(kinds) == 1 else hint


def columns(rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> list[tuple[str, str, list[Any]]]:
    """Returns the columns of a table as (name, Arrow type, values). `types` overrides the inferred types.

    >>> columns([{"name": "a", "ns": 1}, {"name": "b", "ns": 0.5, "ok": None}], {"ok": "bool"})
    [('name', 'utf8', ['a', 'b']), ('ns', 'float64', [1, 0.5]), ('ok', 'bool', [None, None])]
    """
    names = dict.fromkeys(name for row in rows for name in row) if rows else dict.fromkeys(types)
    found = []
    for name in names:
        values = [row.get(name) for row in rows]
        found.append((name, types.get(name) or _type(name, values), values))
    return found


def _type(name: str, values: Iterable[Any]) -> str:
    """Infers the Arrow type of a column from its values."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "bool"
    if kinds == {int}:
        return "int64"
    if kinds and kinds <= {int, float}:
        return "float64"
    if kinds <= {str}:
        return "utf8"
    kind = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"column {name}: expected only numbers, only text or only booleans, found {kind}")


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str], list[list[tuple[str, bool]]]]:
    """Returns a table for a page: its title, column names and cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return title, names, [[_cell(row.get(name)) for name in names] for row in rows]


def _cell(value: Any) -> tuple[str, bool]:
    """Returns the text of a cell, and whether the value is a number.

    >>> _cell(1234567), _cell(0.123456), _cell(True), _cell(None)
    (('1,234,567', True), ('0.1235', True), ('yes', False), ('', False))
    """
    if value is None:
        return "", False
    if isinstance(value, bool):
        return ("yes" if value else "no"), False
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, float):
        return (f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"), True
    return str(value), False


def write(path: str | os.PathLike[str], data: bytes) -> Path:
    """Writes a file and returns its path.

    Raises:
        InputError: The file cannot be written.
    """
    path = Path(path)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise InputError(f"path: {path}: cannot be written: {error.strerror}; name another file") from error
    return path


def new_axes() -> Any:
    """Returns the axes of a new matplotlib figure.

    Raises:
        CubeyardError: matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise CubeyardError("plot() needs matplotlib: pip install 'cubeyard[plot]'") from error
    return pyplot.subplots()[1]
