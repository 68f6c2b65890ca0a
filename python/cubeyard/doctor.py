"""What works on this computer: `python -m cubeyard.doctor` tries each part of the package, and says what is missing.

Each part runs in a process of its own, so that one that fails or crashes does not end the others. Nothing is installed. The
device of PyTorch is compiled only with `--compile`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cubeyard import _native

__all__ = ["Finding", "examine", "main"]

TIMEOUT_S = 600
"""Seconds after which a part that is tried has failed."""

MEMORY_MAX = Path("/sys/fs/cgroup/memory.max")
"""File with the memory limit of a container in bytes, or "max"."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
"""Commands of browsers that need a display."""

OPTIONAL = {
    "numpy": "tensors and kernels with data",
    "matplotlib": "plots of results",
    "pyarrow": "tables as Arrow and Parquet",
    "distributed": "sweeps over a Dask cluster",
    "ray": "sweeps over a Ray cluster",
}
"""Packages that some functions need, with what for."""

_SIMULATE = """
import cubeyard
run = cubeyard.run("gemm", m=32, k=256, n=32)
print(f"gemm of 32 x 256 x 32 in {run.kernel_ns:.0f} ns of simulated time")
"""

_COMPILER = """
import subprocess
from cubeyard.torch import _build
print(subprocess.check_output([*_build.compiler(), "--version"], text=True).splitlines()[0])
"""

_SHIM = """
import torch
from cubeyard.torch import _build, _loader
_loader._check_version(torch.__version__)
print(_build.origin(_loader.target()))
"""

_TORCH = """
import torch
from cubeyard.torch import _loader
total = torch.arange(5.0, device=_loader.name).sum().item()
assert total == 10, total
print(f"torch {torch.__version__}, {torch.accelerator.device_count()} devices {_loader.name!r}")
"""

_TRITON = """
import numpy as np, triton, cubeyard.triton
from cubeyard.triton.example import add
x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
with cubeyard.triton.record() as run:
    add[(1,)](x, x, out, 1000, BLOCK=1024)
assert (out == 2 * x).all()
print(f"triton {triton.__version__}: vector add in {run.launches[0].kernel_ns:.0f} ns of simulated time")
"""

State = Literal["works", "missing", "fails"]


@dataclass(frozen=True)
class Finding:
    """One part of the installation."""

    part: str
    """What was tried, such as "simulator"."""
    state: State
    """Whether it works; what is missing is optional, what fails is wrong."""
    detail: str
    """Versions and figures, or the reason."""


def examine(compile: bool = False) -> list[Finding]:
    """Tries every part of the package.

    Args:
        compile: Whether the device of PyTorch is compiled where it is not yet.

    >>> [found.state for found in examine() if found.part == "simulator"]
    ['works']
    """
    return [
        Finding("package", "works", f"cubeyard {_native.__version__}, Python {platform.python_version()}, {platform.platform()}"),
        _limits(),
        _tried("simulator", _SIMULATE),
        *_torch(compile),
        _of_package("triton", lambda: _tried("Triton", _TRITON, {"TRITON_DEFAULT_BACKEND": "ahbm"})),
        _browser(),
        *(_optional(name, purpose) for name, purpose in OPTIONAL.items()),
    ]


def _tried(part: str, program: str, variables: dict[str, str] | None = None) -> Finding:
    """Runs a program in a process of its own. Its last line is the detail."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, env={**os.environ, **(variables or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Finding(part, "fails", f"no result after {TIMEOUT_S} s")
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode == 0:
        return Finding(part, "works", lines[-1] if lines else "")
    return Finding(part, "fails", lines[-1] if lines else f"its process ended with status {done.returncode}")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _of_package(package: str, then: Callable[[], Finding]) -> Finding:
    return then() if _version(package) else Finding(package, "missing", f"pip install {package}")


def _optional(package: str, purpose: str) -> Finding:
    found = _version(package)
    return Finding(package, "works" if found else "missing", f"{found or f'pip install {package}'}; for {purpose}")


def _torch(compile: bool) -> list[Finding]:
    if _version("torch") is None:
        return [Finding("PyTorch", "missing", "pip install 'cubeyard[torch]', or a torch of version 2.11 to 2.15")]
    not_loaded = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    compiler = _tried("C++ compiler", _COMPILER, not_loaded)
    shim = _tried("device of PyTorch", _SHIM, not_loaded)
    if shim.state == "fails":
        return [compiler, shim]
    is_missing = shim.detail.startswith("to be compiled")
    if is_missing and not compile:
        about = "; this happens once, at the next `import torch`, in a minute or two, or now with --compile"
        return [compiler, Finding(shim.part, "missing", shim.detail + about)]
    used = _tried("PyTorch", _TORCH)
    return [compiler, _tried(shim.part, _SHIM, not_loaded) if is_missing else shim, used]


def _browser() -> Finding:
    import webbrowser

    try:
        found = webbrowser.get()
    except webbrowser.Error:
        without_display = next(filter(shutil.which, BROWSERS), None)
        why = f"{without_display} is found, but no display" if without_display else "none is found here"
        return Finding("browser", "missing", f"{why}; pages are files that any browser shows")
    return Finding("browser", "works", getattr(found, "name", type(found).__name__))


def _limits() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    free = shutil.disk_usage(os.path.expanduser("~")).free / 2**30
    said = [f"{cores} cores", f"{memory:.1f} GiB of memory", *_memory_limits(), f"{free:.1f} GiB free in the home folder"]
    return Finding("limits", "works", ", ".join(said))


def _memory_limits() -> list[str]:
    """Returns the limits under which processes of this user or container run, apart from the computer's memory."""
    import resource

    limits = {"address space (ulimit -v)": resource.getrlimit(resource.RLIMIT_AS)[0]}
    with contextlib.suppress(OSError, ValueError):  # No control groups of version 2, or "max".
        limits["memory of the container"] = int(MEMORY_MAX.read_text())
    return [f"{what} limited to {size / 2**30:.1f} GiB" for what, size in limits.items() if size != resource.RLIM_INFINITY]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the findings. Returns 1 if a part fails; what is optional and missing is no failure."""
    parser = argparse.ArgumentParser(prog="python -m cubeyard.doctor", description="Says what works on this computer.")
    parser.add_argument("--compile", action="store_true", help="compile the device of PyTorch where it is not yet")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    given = parser.parse_args(arguments)
    findings = examine(compile=given.compile)
    if given.json:
        print(json.dumps([asdict(found) for found in findings], indent=1))
    else:
        width = max(len(found.part) for found in findings)
        for found in findings:
            print(f"{found.state:7}  {found.part:{width}}  {found.detail}")
    return int(any(found.state == "fails" for found in findings))


if __name__ == "__main__":
    sys.exit(main())
