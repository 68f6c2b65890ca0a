"""Files of records."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from cubeyard._run import Record
from cubeyard.errors import InputError, VersionError

__all__ = ["Records"]


class Records:
    """Records by key, and the file to which they are written as they come."""

    def __init__(self, path: Path | None, found: dict[str, Record]) -> None:
        self._path, self._found = path, found
        self._file: IO[str] | None = None

    @staticmethod
    def open(path: str | os.PathLike[str] | None, resume: bool) -> Records:
        """Opens a file, with the records that it holds if `resume`; makes it if there is none.

        Raises:
            InputError: The file holds something else than records, or cannot be written.
        """
        if path is None:
            return Records(None, {})
        path = Path(path)
        try:
            found = _read(path) if resume and path.exists() else {}
            records = Records(path, found)
            records._file = path.open("a" if resume else "w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"path: {path}: {error.strerror}; name another file") from error
        return records

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def has(self, key: str) -> bool:
        """Returns whether there is a record of this key without an error."""
        return key in self._found and self._found[key].error is None

    def get(self, key: str) -> Record:
        """Returns the record of a key."""
        return self._found[key]

    def add(self, key: str, line: str) -> None:
        """Adds a record, and writes it at once."""
        self._found[key] = Record.read(line)
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def sort(self, keys: list[str]) -> None:
        """Writes the file again: records of these keys in order, then those of other sweeps."""
        if self._path is None or self._file is None:
            return
        ours = dict.fromkeys(keys)
        others = [key for key in self._found if key not in ours]
        lines = [self._found[key].line for key in [*ours, *others]]
        self._file.close()
        _replace(self._path, "".join(line + "\n" for line in lines))


def _replace(path: Path, text: str) -> None:
    """Writes a file under another name first, so that there is a whole one at any time."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise InputError(f"path: {path}: {error.strerror}; name another file") from error
        raise


def _read(path: Path) -> dict[str, Record]:
    """Reads records; the last line counts only if it is complete, and is cut off the file otherwise."""
    contents = path.read_bytes()
    whole = contents[: contents.rfind(b"\n") + 1]
    lines = whole.decode("utf-8", errors="replace").splitlines()
    found: dict[str, Record] = {}
    for number, line in enumerate(lines, start=1):
        record = _record(path, number, line)
        found.pop(record.key, None)
        found[record.key] = record
    if len(whole) < len(contents):
        _check_torn(path, len(lines) + 1, contents[len(whole) :])
        os.truncate(path, len(whole))
    return found


def _record(path: Path, number: int, line: str) -> Record:
    try:
        return Record.read(line)
    except VersionError as error:
        raise VersionError(f"{path}:{number}: {error}; resume=False makes all records again") from error
    except InputError as error:
        raise InputError(f"{path}:{number}: {error}; name another file, or resume=False") from error


def _check_torn(path: Path, number: int, torn: bytes) -> None:
    """Refuses a file that is no file of records at all, before anything is cut off."""
    beginning = b'{"format":'
    if not torn.startswith(beginning[: len(torn)]):
        raise InputError(f"{path}:{number}: not a record; name another file, or resume=False")
