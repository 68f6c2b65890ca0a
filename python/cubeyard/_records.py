"""Files of records."""

from __future__ import annotations

import fcntl
import io
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from cubeyard._run import Record
from cubeyard.errors import InputError, VersionError

__all__ = ["Records"]


class Records:
    """Records by key, and the file to which they are written as they come. A file is held by one writer at a time."""

    def __init__(self, path: Path | None, file: io.FileIO | None, found: dict[str, Record]) -> None:
        self._path, self._file, self._found = path, file, found

    @staticmethod
    def open(path: str | os.PathLike[str] | None, resume: bool) -> Records:
        """Opens a file, with the records that it holds if `resume`; makes it if there is none.

        Raises:
            InputError: The file holds something else than records, is being written by another sweep, or cannot be
                written.
        """
        if path is None:
            return Records(None, None, {})
        path = Path(path)
        try:
            file = _held(path)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            return Records(path, file, _read(path, file, resume))
        except BaseException:
            file.close()
            raise

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
        """Adds a record, and writes it at once.

        Raises:
            InputError: The file cannot be written, as on a full disk; it has the records before this one.
        """
        self._found[key] = Record.read(line)
        if self._path is not None and self._file is not None:
            _append(self._path, self._file, line + "\n")

    def sort(self, keys: list[str]) -> None:
        """Writes the file again: records of these keys in order, then records of other sweeps.

        Raises:
            InputError: The file cannot be written, as on a full disk; it is as it was.
        """
        if self._path is None:
            return
        ours = dict.fromkeys(keys)
        others = [key for key in self._found if key not in ours]
        lines = [self._found[key].line for key in [*ours, *others]]
        _replace(self._path, "".join(line + "\n" for line in lines))


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"path: {path}: {error.strerror}; name another file")


def _held(path: Path) -> io.FileIO:
    """Opens a file that no other process writes, and holds it until it is closed.

    Raises:
        InputError: Another sweep holds it, or it is no plain file.
    """
    while True:
        if path.exists() and not path.is_file():
            raise InputError(f"path: {path}: expected a plain file, which can be read again; name another file")
        file = io.FileIO(path, "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                return file
        except BlockingIOError as error:
            file.close()
            help = "wait for its end, or name another file"
            raise InputError(f"path: {path}: another sweep is writing this file; {help}") from error
        except BaseException:
            file.close()
            raise
        # The other sweep has ended just now, and has put a sorted file in its place.
        file.close()


def _is_at(file: io.FileIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def _append(path: Path, file: io.FileIO, text: str) -> None:
    """Writes a text at the end of a file, all of it or nothing."""
    before, rest = os.fstat(file.fileno()).st_size, memoryview(text.encode())
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        with suppress(OSError):
            file.truncate(before)
        help = "earlier records are kept, and the same call goes on when there is room"
        raise InputError(f"path: {path}: {error.strerror}; {help}") from error


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
            raise _unwritable(path, error) from error
        raise


def _read(path: Path, file: io.FileIO, resume: bool) -> dict[str, Record]:
    """Reads records; the last line counts only if it is complete, and is cut off the file otherwise."""
    if not resume:
        file.truncate(0)
        return {}
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
        file.truncate(len(whole))
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
