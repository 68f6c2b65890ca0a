"""Kernels: Python functions that run on the PEs of a machine.

A kernel receives the arguments of its launch and `tl`. A tensor argument is the part of the tensor that the PE owns.
`tl` loads, computes and stores tiles. The function runs once per PE and is recorded; launches with the same arguments
reuse the recording. A kernel that reads elements of tiles runs live, step by step with its PE.

>>> import cubeyard, numpy as np
>>> @cubeyard.jit
... def scale(x, out, n, tl):
...     for row in range(x.shape[0]):
...         tl.store(out[row], tl.load(x[row]) * n)
>>> context = cubeyard.Context()
>>> rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
>>> a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
>>> x, out = context.from_numpy(a).to(rows), context.zeros(a.shape).to(rows)
>>> report = context.launch(scale, x, out, 3)
>>> bool((out.numpy() == a * 3).all()), len(report.pes)
(True, 128)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from cubeyard import _native
from cubeyard._fingerprint import fingerprint
from cubeyard._native import Composite, Handle, Lazy, Mask, Ref, Tile, Tl
from cubeyard.errors import InputError

__all__ = [
    "Composite",
    "Handle",
    "Kernel",
    "LaunchReport",
    "Lazy",
    "Mask",
    "Ref",
    "RustKernel",
    "Tile",
    "Tl",
    "jit",
    "launch",
]

# Maximum number of fingerprints per kernel whose recordings are kept.
_MOST_KEYS = 16

# Attributes that are the function itself or derive from it.
_OWN = frozenset(["function", "__wrapped__", "_signature", "_keys"])


@dataclass(frozen=True)
class LaunchReport:
    """Times of a launch, in picoseconds of simulated time."""

    kernel: str
    """Name of the kernel."""
    made_ps: int
    """Time at which the host issued the launch."""
    started_ps: int
    """Start time, common to all PEs."""
    done_ps: int
    """Time at which the host received the completion."""
    mean_ps: int
    """Mean working time of the PEs."""
    max_ps: int
    """Longest working time of a PE."""
    pes: dict[str, int]
    """Working time of each PE, by the PE's name."""

    @property
    def max_ns(self) -> float:
        """Longest working time of a PE, in nanoseconds."""
        return self.max_ps / 1000

    @property
    def mean_ns(self) -> float:
        """Mean working time of the PEs, in nanoseconds."""
        return self.mean_ps / 1000

    @property
    def duration_ps(self) -> int:
        """Time from the launch to its completion, observed by the host."""
        return self.done_ps - self.made_ps


@dataclass(frozen=True)
class _Program:
    """Kernel in the form that the native launch reads."""

    key: _native.KernelKey
    name: str
    function: Callable[..., Any]
    parameters: list[str]
    live: bool


class Kernel:
    """Kernel made from a Python function, usually by `jit`.

    `Context.launch` launches it. Calling the kernel calls the function, so one kernel can call another.
    """

    def __init__(self, function: Callable[..., Any], *, live: bool = False, name: str | None = None) -> None:
        """Checks a function and makes it a kernel.

        Args:
            function: a function of the launch arguments, whose last parameter is `tl`.
            live: whether the kernel runs step by step with its PE and may read elements. The function is then an `async def`.
            name: name in reports; by default, the name of the function.
        """
        if not inspect.isfunction(function):
            raise InputError(f"kernel={function!r}: expected a function, found {type(function).__name__}")
        self.function = function
        self.live = live
        self.name = function.__name__ if name is None else name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._signature = _checked(function, self.name, live)
        self._keys: dict[Hashable, _native.KernelKey] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function from another kernel."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"<kernel {self.name}{' (live)' if self.live else ''}>"

    def __fingerprint__(self) -> Any:
        """Returns the function and the other attributes, which identify this kernel to kernels that call it."""
        others = {name: value for name, value in vars(self).items() if name not in _OWN}
        return (self.function, *sorted(others.items(), key=lambda item: item[0]))

    def _program(self, arguments: int) -> _Program:
        """Returns the program for a launch with this number of arguments."""
        names = _bind(self, arguments)
        return _Program(self._key(), self.name, self.function, names, self.live)

    def _key(self) -> _native.KernelKey:
        """Returns the key of the reusable recordings, or a new key if the function's behaviour may have changed."""
        of = None if self.live else fingerprint(self.function)
        if of is None:
            return _native.KernelKey()
        key = self._keys.pop(of, None) or _native.KernelKey()
        self._keys[of] = key
        if len(self._keys) > _MOST_KEYS:
            del self._keys[next(iter(self._keys))]
        return key


class RustKernel:
    """Kernel of the Rust library; see `cubeyard.kernels`."""

    def __init__(self, name: str, numbers: tuple[int, ...] = ()) -> None:
        """Finds a kernel by name. `numbers` are its parameters, if it has any."""
        self._native = _native.RustKernel(name, list(numbers))
        self._numbers = numbers

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self._native.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return tuple(self._native.parameters)

    def __fingerprint__(self) -> Any:
        """Returns the name and the numbers, which identify the kernel."""
        return (self.name, self._numbers)

    def __repr__(self) -> str:
        return f"<kernel {self.name} in Rust>"


@overload
def jit(function: Callable[..., Any], /) -> Kernel: ...
@overload
def jit(*, live: bool = False, name: str | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
def jit(
    function: Callable[..., Any] | None = None, /, *, live: bool = False, name: str | None = None
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Makes a function a kernel. Usable as a decorator, with or without arguments.

    Args:
        function: a function of the launch arguments, whose last parameter is `tl`.
        live: whether the kernel runs step by step with its PE and may read elements. The function is then an `async def`.
        name: name in reports; by default, the name of the function.

    >>> import cubeyard, numpy as np
    >>> @cubeyard.jit(live=True)
    ... async def halve(x, tl):
    ...     tile = tl.load(x)
    ...     while (await tl.value(tile)).max() > 1:
    ...         tile = tile * 0.5
    ...     tl.store(x, tile)
    >>> context = cubeyard.Context()
    >>> x = context.from_numpy(np.array([3, 10], dtype=np.float32)).to(cubeyard.Placement(cubes=1, pes=1))
    >>> report = context.launch(halve, x, cubes=[0], pes=[0])
    >>> x.numpy().tolist()
    [0.1875, 0.625]
    """
    if function is None:
        return lambda function: Kernel(function, live=live, name=name)
    return Kernel(function, live=live, name=name)


def launch(
    context: _native.Context,
    kernel: Any,
    *arguments: Any,
    sip: int = 0,
    cubes: int | Iterable[int] | None = None,
    pes: int | Iterable[int] | None = None,
) -> LaunchReport:
    """Launches a kernel on PEs of one SIP and waits for its completion; see `Context.launch`.

    Args:
        context: the machine's context.
        kernel: a kernel or a plain function, or a name followed by a function.
        arguments: native tensors and numbers. Numbers keep their type: 2.0 stays a float and True a bool.
        sip: number of the SIP that runs the kernel.
        cubes: numbers of the cubes in the SIP; all by default.
        pes: numbers of the PEs in each cube; all by default.
    """
    name = None
    if isinstance(kernel, str):
        if not arguments:
            raise InputError(f"launch({kernel!r}): expected a function after the kernel's name")
        name, (kernel, *rest) = kernel, arguments
        arguments = tuple(rest)
    target = (numbers("sip", sip)[0], numbers("cubes", cubes), numbers("pes", pes))
    if isinstance(kernel, RustKernel):
        return _launch_rust(context, kernel, arguments, target)
    of = _kernel(kernel, name)
    times = _native.launch(context, of._program(len(arguments)), list(arguments), target)
    return _report(of.name, times)


def launch_together(
    context: _native.Context, kernel: Kernel, tensors: list[_native.Tensor], sips: tuple[int, ...], cubes: Any, pes: Any
) -> LaunchReport:
    """Launches a kernel on several SIPs at once. The kernel's last argument is the index of its SIP in `sips`."""
    targets = [(sip, numbers("cubes", cubes), numbers("pes", pes)) for sip in sips]
    program = kernel._program(len(tensors) + 1)
    times = _native.launch_together(context, program, tensors, targets)
    made, started, done, _, longest, pes_of = zip(*times, strict=True)
    working = [pe for of in pes_of for pe in of]
    mean = sum(one for _, one in working) // len(working)
    return _report(kernel.name, (min(made), min(started), max(done), mean, max(longest), working))


Target = tuple[int, list[int], list[int]]


def _launch_rust(context: _native.Context, kernel: RustKernel, given: Sequence[Any], target: Target) -> LaunchReport:
    if len(given) != len(kernel.parameters):
        names = ", ".join(kernel.parameters)
        raise InputError(f"kernel {kernel.name}({names}) launched with {len(given)} arguments")
    return _report(kernel.name, _native.launch_rust(context, kernel._native, list(given), target))


def _report(kernel: str, times: tuple[int, int, int, int, int, list[tuple[str, int]]]) -> LaunchReport:
    made, started, done, mean, longest, spans = times
    return LaunchReport(kernel, made, started, done, mean, longest, dict(spans))


def _kernel(kernel: Any, name: str | None) -> Kernel:
    """Returns the given kernel, or a kernel made from a plain function."""
    if isinstance(kernel, Kernel):
        if name is None or name == kernel.name:
            return kernel
        function, live = kernel.function, kernel.live
    else:
        function, live = kernel, False
    if not inspect.isfunction(function):
        raise InputError(f"kernel={kernel!r}: expected a kernel or a function, found {type(kernel).__name__}")
    # The function owns its kernels, so they are dropped together.
    kept: dict[str | None, Kernel] = vars(function).setdefault("__cubeyard_kernels__", {})
    if name not in kept:
        kept[name] = Kernel(function, live=live, name=name)
    return kept[name]


def _checked(function: Callable[..., Any], name: str, live: bool) -> inspect.Signature:
    """Checks the parameters of a kernel."""
    where = f"kernel {name}, {function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    signature = inspect.signature(function)
    own = signature.parameters.get("tl")
    if own is None or own.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise InputError(f"{where}: expected a parameter named tl after the launch arguments, found {signature}")
    if live and not inspect.iscoroutinefunction(function):
        raise InputError(f"{where}: expected an `async def` for a live kernel, so that it can await values; found a `def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InputError(f"{where}: expected a function without `yield`")
    return signature


def _bind(kernel: Kernel, arguments: int) -> list[str]:
    """Returns the parameter name of each launch argument."""
    try:
        bound = kernel._signature.bind(*range(arguments), tl=None)
    except TypeError as error:
        what = f"kernel {kernel.name}{kernel._signature} launched with {arguments} arguments: {error}"
        raise InputError(what) from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        if name != "tl":
            names.extend([name] if isinstance(value, int) else (f"{name}[{at}]" for at in range(len(value))))
    return names


def numbers(name: str, of: int | Iterable[int] | None) -> list[int]:
    """Returns the given numbers of cubes or PEs as a list. An empty list selects all."""
    found = [] if of is None else [of] if isinstance(of, int) else list(of)
    for number in found:
        if not isinstance(number, int) or not 0 <= number < 2**32:
            raise InputError(f"{name}={of!r}: expected one number or several, each 0 or more")
    if of is not None and not found:
        raise InputError(f"{name}={of!r}: expected at least one number, or None for all")
    return found
