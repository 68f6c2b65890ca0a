"""Benches written in Python."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import math
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from cubeyard import _native
from cubeyard._fingerprint import Source
from cubeyard.errors import CubeyardError, InputError, NoDataError, OutOfMemory, OutOfTime
from cubeyard.study import scripts
from cubeyard.study.context import BenchContext, DeclaredWork
from cubeyard.tensors.context import current

__all__ = ["Bench", "bench", "describe", "load"]

_loading: ContextVar[list[Bench] | None] = ContextVar("loading", default=None)
"""Benches of the file being loaded, in file order."""

_numbers = itertools.count()
"""Numbers for the module names of loaded files, so that two files of one name become different modules."""

_Called = tuple[str | None, DeclaredWork | None]
_Declared = tuple[str, str, str, tuple[int, int] | None, list[str], str]


class Bench:
    """Bench written in Python, made by `@cubeyard.bench`. Calling it calls the function."""

    name: str
    """Name on the command line and in reports."""
    description: str
    """One-line description of the computation."""
    function: Callable[..., object]
    """Function that the decorator received."""

    def __init__(
        self, function: Callable[..., object], name: str, description: str, place: tuple[str, int] | None = None
    ) -> None:
        """Makes a bench from a function. `place` is the file and line of its definition; by default, the function's own."""
        self.function, self.name, self.description = function, name, description
        file, self.line = place or (function.__code__.co_filename, function.__code__.co_firstlineno)
        self.file = os.path.abspath(file)
        self._declared, self._choices = _parameters(self)
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<cubeyard bench {self.name!r} of {_place(self)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if os.path.isfile(self.file):
            return _of_file, (self.file, self.name)
        return Bench, (self.function, self.name, self.description, (self.file, self.line))

    def __fingerprint__(self) -> Any:
        """Returns the function, which identifies this bench in a fingerprint."""
        return self.function

    @property
    def source(self) -> str:
        """Hash of the function and everything it reads. A sweep uses it to detect changes."""
        return Source.of(self.function).hash

    def _call(self, native: _native.Context, data: bool, sips: list[int], values: Mapping[str, Any]) -> _Called:
        """Calls the function. Returns the text of a failed assertion and the declared work, each or None."""
        context = BenchContext(native, data, tuple(sips))
        named = {name: self._choices.get(name, {}).get(value, value) for name, value in values.items()}
        token = current.set(context)
        try:
            returned = self.function(context, **named)
        except AssertionError as error:
            return _line(error, self.file), context._work
        finally:
            current.reset(token)
        if inspect.iscoroutine(returned):
            returned.close()
            raise InputError(f"{_place(self)}: expected a plain function as a bench, found an async one")
        return None, context._work


@typing.overload
def bench(function: Callable[..., object], /) -> Bench: ...
@typing.overload
def bench(*, name: str | None = None, description: str | None = None) -> Callable[[Callable[..., object]], Bench]: ...
def bench(
    function: Callable[..., object] | None = None, /, *, name: str | None = None, description: str | None = None
) -> Bench | Callable[[Callable[..., object]], Bench]:
    """Makes a function a bench. `cubeyard run FILE.py` and `cubeyard.run` run it with all options.

    The first parameter is the context of the run, by convention called `torch`. All others need defaults, which `--set`
    overrides: `int`, `float`, `str` or `bool`. `Literal` lists the choices of a parameter. `Annotated` with a `range` gives
    the bounds of an integer. `Annotated` with a string gives a description.

    Args:
        function: The function, if the decorator is used without parentheses.
        name: Name of the bench; by default, the name of the function.
        description: One-line description of the computation; by default, the first line of the docstring.

    Raises:
        InputError: A parameter has no default, or the default has the wrong type.

    >>> from typing import Annotated, Literal
    >>> import cubeyard
    >>> @cubeyard.bench(name="fill", description="writes a value everywhere")
    ... def run(torch, rows: Annotated[int, range(1, 4097), "rows"] = 64, dtype: Literal["f32", "f16"] = "f32"):
    ...     pass
    >>> run
    <cubeyard bench 'fill' of ...>
    >>> [parameter["expected"] for parameter in cubeyard.benches([run])[0]["parameters"]]
    ['a whole number from 1 to 4096', 'one of f32, f16']
    """

    def decorate(function: Callable[..., object]) -> Bench:
        if not inspect.isfunction(function):
            raise InputError(f"@cubeyard.bench: expected a function, found {type(function).__name__}")
        first = (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
        made = Bench(function, name or function.__name__, first if description is None else description)
        loading = _loading.get()
        if loading is not None:
            loading.append(made)
        return made

    return decorate if function is None else decorate(function)


def load(path: str | os.PathLike[str]) -> list[Bench]:
    """Imports a file and returns its benches in order.

    A file with Triton kernels is not imported. Each kernel becomes a bench that runs the file as a script.

    Raises:
        InputError: The file cannot be read or run, or two benches have the same name.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: the file does not exist; check the path")
    if kernels := scripts.kernels(path):
        return [Bench(*kernel) for kernel in kernels]
    folder = str(path.resolve().parent)
    with _collected() as collected, _first_in_path(folder):
        module = _execute(path)
    # Benches of imported modules do not belong to this file.
    benches = [bench for bench in collected if bench.function.__module__ == module]
    _check_names(path, benches)
    return benches


def _check_names(path: Path, benches: list[Bench]) -> None:
    for index, one in enumerate(benches):
        for other in benches[:index]:
            if one.name == other.name:
                text = f"two benches have the name {one.name!r}; the other is at {_place(other)}; rename one"
                raise InputError(f"{_place(one, path)}: {text}")


@contextmanager
def _collected() -> Iterator[list[Bench]]:
    benches: list[Bench] = []
    token = _loading.set(benches)
    try:
        yield benches
    finally:
        _loading.reset(token)


@contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    """Puts a folder first in `sys.path`, as for a script. The folder stays there, for imports inside functions."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    yield


def _execute(path: Path) -> str:
    """Executes a file as a module. Returns the name of the module."""
    name = f"_cubeyard_file_{next(_numbers)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: expected a Python file, with a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # Pickling and inspection need the module in `sys.modules`.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: SyntaxError: {error.msg}") from error
    except Exception as error:
        raise InputError(_line(error, str(path.resolve()))) from error
    return name


def _of_file(file: str, name: str) -> Bench:
    """Finds an unpickled bench in this process."""
    for found in _benches_of(file):
        if found.name == name:
            return found
    raise InputError(f"{file}: the bench {name!r} no longer exists")


_files: dict[str, list[Bench]] = {}


def _benches_of(file: str) -> list[Bench]:
    if file not in _files:
        _files[file] = load(file)
    return _files[file]


def describe(error: BaseException) -> tuple[str, bool, str | None]:
    """Returns the text and line of an error, whether memory or simulated time ran out, and a remedy or None."""
    exhausted = isinstance(error, (OutOfMemory, OutOfTime))
    if isinstance(error, NoDataError):
        return _line(error, None), False, "add --data, or read values only `if torch.data`"
    if isinstance(error, CubeyardError) and error.__traceback__ is None:
        return str(error), exhausted, None
    return _line(error, None), exhausted, None


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _line(error: BaseException, file: str | None) -> str:
    """Returns the file, line, class and text of an error: of the innermost line in `file`, or else outside this package."""
    frames = traceback.extract_tb(error.__traceback__)
    wanted = [frame for frame in frames if file is not None and os.path.abspath(frame.filename) == file]
    outside = [frame for frame in frames if not os.path.abspath(frame.filename).startswith(_PACKAGE)]
    named = [frame for frame in outside if "site-packages" not in frame.filename] or outside
    text = _text(error)
    if not (wanted or named):
        return text
    frame = (wanted or named)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {text}"


def _text(error: BaseException) -> str:
    """Returns the class and text of an error in one line. Only the first three lines of the text are kept."""
    if isinstance(error, CubeyardError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    shown = "; ".join(lines[:3])
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def _place(of: Bench, path: Path | None = None) -> str:
    return f"{path or os.path.basename(of.file)}:{of.line}"


def _parameters(of: Bench) -> tuple[list[_Declared], dict[str, dict[str, Any]]]:
    """Returns the parameters of a bench, and for each choice its value by its text."""
    taken = list(inspect.signature(of.function).parameters.values())
    if not taken or taken[0].kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
        raise InputError(f"{_place(of)}: expected the context as the bench's first parameter, as in def run(torch)")
    hints = _hints(of)
    declared, choices = [], {}
    for parameter in taken[1:]:
        one, words = _parameter(of, parameter, hints.get(parameter.name))
        declared.append(one)
        choices[parameter.name] = words
    return declared, choices


def _hints(of: Bench) -> dict[str, Any]:
    try:
        return typing.get_type_hints(of.function, include_extras=True)
    except Exception as error:
        raise InputError(f"{_place(of)}: cannot read the annotations of the bench: {error}") from error


def _parameter(of: Bench, parameter: inspect.Parameter, hint: Any) -> tuple[_Declared, dict[str, Any]]:
    name, default = parameter.name, parameter.default
    where = f"{_place(of)}: parameter {name!r}"
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise InputError(f"{where}: expected only named parameters, found *{name}")
    if default is inspect.Parameter.empty:
        raise InputError(f"{where}: expected a default, as in {name}=256")
    hint, bounds, text = _annotated(where, hint)
    words = _words(where, hint, default)
    if words:
        return (name, "choice", str(_word(default)), None, list(words), text), words
    kind = _kind(where, hint, default)
    if bounds and not bounds[0] <= default <= bounds[1]:
        raise InputError(f"{where}: expected a default from {bounds[0]} to {bounds[1]}, found {default}")
    return (name, kind, repr(default) if kind == "float" else str(default), bounds, [], text), {}


def _annotated(where: str, hint: Any) -> tuple[Any, tuple[int, int] | None, str]:
    """Returns the type, bounds and description in an annotation."""
    if typing.get_origin(hint) is not typing.Annotated:
        return hint, None, ""
    hint, *notes = typing.get_args(hint)
    bounds, text = None, ""
    for note in notes:
        if isinstance(note, range):
            if note.step != 1 or not len(note):
                raise InputError(f"{where}: expected a non-empty range with step 1, found {note}")
            bounds = note.start, note.stop - 1
        elif isinstance(note, str):
            text = note
    if bounds and hint is not int:
        raise InputError(f"{where}: expected int as the type of a parameter with a range, found {hint}")
    return hint, bounds, text


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(where: str, hint: Any, default: Any) -> dict[str, Any]:
    """Returns the choices by their text, or an empty dictionary if the parameter is not a choice."""
    is_literal = typing.get_origin(hint) is typing.Literal
    values = typing.get_args(hint) if is_literal else (True, False) if isinstance(default, bool) else ()
    if is_literal and default not in values:
        raise InputError(f"{where}: expected a default among {', '.join(map(repr, values))}, found {default!r}")
    return {_word(value): value for value in values}


def _kind(where: str, hint: Any, default: Any) -> str:
    kinds: dict[type, str] = {int: "int", float: "float", str: "str"}
    wanted = hint if isinstance(hint, type) else type(default)
    fits = isinstance(default, wanted) or (wanted is float and isinstance(default, int))
    if wanted not in kinds or not fits or isinstance(default, bool):
        named = "int, float, str, bool or Literal"
        raise InputError(f"{where}: expected a default of type {named}, found {default!r} of {types_name(hint, default)}")
    if wanted is int and not -(2**63) <= default < 2**63:
        raise InputError(f"{where}: expected a default that fits in 64 bits, found {default}")
    if wanted is float and not math.isfinite(default):
        raise InputError(f"{where}: expected a finite default, found {default}")
    return kinds[wanted]


def types_name(hint: Any, default: Any) -> str:
    """Returns the name of the annotated type or, without an annotation, of the default's type."""
    return hint.__name__ if isinstance(hint, type | types.GenericAlias) else type(default).__name__
