"""The shim: the C++ part of the device, compiled against the headers of one PyTorch version.

A shim is looked up in the package (`_shims`), then in the user's cache, and is otherwise compiled into the cache. Processes
that need the same shim at once wait for the first of them. A cached shim that other users can change is not loaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _shims

FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unused-parameter")
"""Compiler flags, in addition to those that PyTorch requires."""

LIBRARIES = ("torch_cpu", "torch", "c10")
"""PyTorch libraries to link with. They are already loaded when the shim is loaded."""

NAME = "cubeyard_torch.so"
"""File name of a shim in the cache."""

SECONDS = 60
"""Expected duration of a compilation."""


@dataclass(frozen=True)
class Target:
    """All inputs of a shim's compilation."""

    torch_version: str
    """Version of PyTorch, such as "2.15.0+cu130"."""
    torch: Path
    """Folder of PyTorch, with its headers in `include` and its libraries in `lib`."""
    cxx11_abi: bool
    """Whether PyTorch was compiled with the new ABI of the C++ library."""
    version: str
    """Version of this package."""
    sources: Path
    """Folder with the C++ files."""
    headers: Mapping[str, str]
    """Texts of the native module's headers, by name."""

    @property
    def minor(self) -> str:
        """Version of PyTorch without the patch number, such as "2.15"."""
        return ".".join(self.torch_version.split("+")[0].split(".")[:2])

    @property
    def flags(self) -> list[str]:
        """Flags for every compilation."""
        return [*FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(self.cxx11_abi)}"]

    def files(self) -> list[Path]:
        """Returns the C++ files, including headers, sorted by name."""
        return sorted(path for path in self.sources.iterdir() if path.suffix in {".cpp", ".h"})

    def fingerprint(self) -> str:
        """Returns a hash of sources, headers, flags, and the platform."""
        digest = hashlib.sha256()
        for name, text in [(path.name, path.read_bytes()) for path in self.files()]:
            digest.update(f"{name} {len(text)}\n".encode() + text)
        for name, header in sorted(self.headers.items()):
            digest.update(f"{name} {len(header)}\n{header}".encode())
        digest.update(" ".join([*self.flags, *LIBRARIES, sys.platform, platform.machine()]).encode())
        return digest.hexdigest()[:16]

    def label(self) -> _shims.Label:
        """Returns the label of the shim."""
        return _shims.Label(self.minor, platform.machine(), self.cxx11_abi, self.fingerprint())

    def included(self) -> Path | None:
        """Returns the path of the shim in the package, or `None` if the package has none that can be used."""
        return _shims.included(self.label(), self.torch_version)

    def cached(self) -> Path:
        """Returns the path of the shim in the user's cache."""
        return cache() / f"{self.torch_version}-{self.version}-{self.fingerprint()}" / NAME


def cache() -> Path:
    """Returns the folder of shims in the user's cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError as error:
        raise TorchDeviceError(
            "there is no folder for the compiled device: neither XDG_CACHE_HOME nor HOME is set. "
            "Set XDG_CACHE_HOME to a writable folder"
        ) from error
    return home / "cubeyard" / "torch"


def find(target: Target, *, again: bool = False) -> Path:
    """Returns the path of the shim in the package or the cache, after compiling it if necessary.

    Args:
        target: All inputs of the compilation.
        again: Whether to retry a compilation that failed before with the same compiler.
    """
    return target.included() or compiled(target, again=again, reason=_shims.refusal(target.label(), target.torch_version))


def compiled(target: Target, *, again: bool = False, reason: str = "") -> Path:
    """Returns the path of the shim in the cache, after compiling it if necessary.

    Args:
        target: All inputs of the compilation.
        again: Whether to retry a compilation that failed before with the same compiler.
        reason: The reason why the package's shim is not used. It is told before a compilation.
    """
    shim = target.cached()
    try:
        if _is_usable(target, shim):
            return shim
        with locked(shim.parent):
            if not _is_usable(target, shim):
                if shim.exists():
                    tell(f"the compiled device {shim} is damaged and is compiled again")
                if reason:
                    tell(reason)
                _compile(target, shim, again)
    except OSError as error:
        raise TorchDeviceError(
            f"the device for torch {target.torch_version} cannot be compiled into {shim.parent}: {error}. "
            "Set XDG_CACHE_HOME to a writable folder"
        ) from error
    return shim


def origin(target: Target) -> str:
    """Returns where the shim is or will be, and why. Compiles nothing."""
    if found := target.included():
        return f"included in the package as {found.name}"
    reason = _shims.refusal(target.label(), target.torch_version) or "this package includes no compiled device"
    is_there = _is_usable(target, target.cached())
    return f"compiled in {target.cached().parent}; {reason}" if is_there else f"to be compiled; {reason}"


def _is_usable(target: Target, shim: Path) -> bool:
    """Returns whether the cache contains an undamaged shim.

    Raises:
        TorchDeviceError: Another user could have put the shim there.
    """
    for path in (shim.parent, shim):
        if not path.exists():
            return False
        _check_owner(path)
    return _shims.sealed_name(shim) == target.label().name


def _check_owner(path: Path) -> None:
    """Raises unless only this user and root can change a file or folder of the cache."""
    status = path.stat()
    if status.st_uid in {os.geteuid(), 0} and not status.st_mode & 0o022:
        return
    raise TorchDeviceError(
        f"the compiled device is not loaded, because others can change {path}: it belongs to user {status.st_uid} and "
        f"has mode {status.st_mode & 0o7777:04o}, expected user {os.geteuid()} or 0, and no write access for others. "
        "Remove it, or set XDG_CACHE_HOME to a folder of your own"
    )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Creates a folder and locks it against other processes. The lock ends with the process, in any case."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_owner(folder)
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another process that compiles the device into {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tell(text: str) -> None:
    """Prints one line to standard error."""
    print(f"cubeyard: {text}", file=sys.stderr, flush=True)


def compiler() -> list[str]:
    """Returns the command of the C++ compiler: the variable CXX, or the first of c++, g++ and clang++."""
    given = shlex.split(os.environ.get("CXX", ""))
    if given:
        found = shutil.which(given[0])
        if found is None:
            raise TorchDeviceError(
                f"CXX is {os.environ['CXX']!r}: the program does not exist. Set it to a C++ compiler, or unset it"
            )
        return [found, *given[1:]]
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise TorchDeviceError(
        "there is no C++ compiler; the device is compiled once for each version of PyTorch. Install g++ (the package "
        "g++ of Debian and Ubuntu, gcc-c++ of Fedora) or clang++, or set CXX to one; then import torch again"
    )


def _compile(target: Target, shim: Path, again: bool) -> None:
    """Compiles a shim into the cache. The caller holds the lock of the folder."""
    command = compiler()
    failed, log = shim.parent / "failed", shim.parent / "build.log"
    identity = _identity(command)
    if not again and failed.exists() and failed.read_text() == identity:
        raise _failure(target, log, "failed before, and is not tried again with the same compiler")
    tell(f"compiling the device for torch {target.torch_version}, about {SECONDS} s, once; kept in {shim.parent}")
    for left in shim.parent.glob("build-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=shim.parent, ignore_cleanup_errors=True) as folder:
        built = build(target, command, Path(folder), log)
        if built is None:
            failed.write_text(identity)
            raise _failure(target, log, "failed")
        _shims.seal(built, target.label())
        os.replace(built, shim)
    failed.unlink(missing_ok=True)


def build(target: Target, command: Sequence[str], folder: Path, log: Path) -> Path | None:
    """Compiles in a folder. Returns the shim, or `None` on failure; the log has the reason.

    All files are one unit: PyTorch's headers take most of the time, and are read once.
    """
    for name, text in target.headers.items():
        (folder / name).write_text(text)
    sources = [path.name for path in target.files() if path.suffix == ".cpp"]
    unit, library = folder / "all.cpp", folder / NAME
    unit.write_text("".join(f'#include "{name}"\n' for name in sources))
    include = target.torch / "include"
    flags = [*target.flags, f"-I{folder}", f"-I{target.sources}"]
    flags += [f"-isystem{path}" for path in (include, include / "torch" / "csrc" / "api" / "include", include / "kineto")]
    link = [f"-L{target.torch / 'lib'}", "-Wl,--no-as-needed", *(f"-l{name}" for name in LIBRARIES)]
    code, text = _run([*command, *flags, "-shared", str(unit), "-o", str(library), *link])
    log.write_text(text)
    return library if code == 0 else None


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command. Returns its exit code and its output, preceded by the command line."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ended = f"error: the compiler ended with status {done.returncode}\n" if done.returncode else ""
    return done.returncode, f"$ {shlex.join(command)}\n{done.stdout.decode(errors='replace')}{ended}"


def _identity(command: Sequence[str]) -> str:
    """Returns a string that changes with the compiler and its version."""
    status = os.stat(command[0])
    return f"{shlex.join(command)} {status.st_size} {status.st_mtime_ns}\n"


def _failure(target: Target, log: Path, how: str) -> TorchDeviceError:
    lines = log.read_text().splitlines() if log.exists() else []
    errors = [line for line in lines if "error" in line.lower() and not line.startswith("$ ")]
    return TorchDeviceError(
        f"compiling the device for torch {target.torch_version} {how}. The compiler said:\n"
        + "".join(f"    {line}\n" for line in errors[-5:])
        + f"The full log is {log}. After fixing the cause, run `python -m cubeyard.torch build` to try again",
        {"log": str(log)},
    )
