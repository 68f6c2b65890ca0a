"""Implementation of the command `cubeyard sweep`."""

from __future__ import annotations

import importlib
import json
import sys
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cubeyard import _native
from cubeyard._base import inputs
from cubeyard.errors import CubeyardError, InputError
from cubeyard.study.sweep import Sweep, sweep

__all__ = ["command"]


def command(
    file: str, out: str | None, scheduler: str | None, workers: int | None, fresh: bool, quiet: bool
) -> bool:
    """Runs the sweep described in a file. Returns whether a configuration failed."""
    read = _read(Path(file))
    path = Path(out) if out is not None else _out(Path(file), read)
    with ExitStack() as stack:
        executor = None if scheduler is None else _dask(scheduler, stack)
        done = _run(read, Path(file), path, executor, workers, fresh, quiet)
    if not quiet:
        _tell(done, path)
    return not done.ok


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(_native.read_sweep(str(file), inputs.read("sweep", str(file)))))


def _out(file: Path, read: dict[str, Any]) -> Path:
    if "out" not in read:
        raise InputError(f"{file}: expected the key out, which names the file of records; or use --out")
    return _beside(file, read["out"])


def _beside(file: Path, name: str) -> Path:
    """Resolves a path relative to the file that contains it."""
    return file.parent / name


def _run(
    read: dict[str, Any],
    file: Path,
    path: Path,
    executor: Executor | None,
    workers: int | None,
    fresh: bool,
    quiet: bool,
) -> Sweep:
    bench, grid = read["bench"], read["grid"]
    if bench.partition("::")[0].endswith(".py"):
        bench = str(_beside(file, bench))
    topology = str(_beside(file, read["topology"])) if "topology" in read else None
    options = {name: read[name] for name in ("data", "live", "device") if name in read}
    return sweep(
        bench,
        dict(grid["product"]) if "product" in grid else grid["listed"],
        executor=executor,
        path=path,
        resume=not fresh,
        progress=False if quiet else None,
        topology=topology,
        workers=workers,
        **options,
    )


def _dask(scheduler: str, stack: ExitStack) -> Executor:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise CubeyardError("--scheduler needs Dask: pip install 'cubeyard[dask]'") from error
    try:
        client = stack.enter_context(distributed.Client(scheduler, timeout=10))
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler {scheduler}: {error}; expected an address such as tcp://host:8786") from error
    executor: Executor = client.get_executor()
    return executor


def _tell(done: Sweep, path: Path) -> None:
    for record in done.failed:
        inputs = ", ".join(f"{name}={value}" for name, value in record.inputs.items())
        print(f"failed: {inputs}: {record.error or 'a value is wrong'}", file=sys.stderr)
    if done.unknown is not None:
        print(f"kept no earlier records: the bench reads {done.unknown}, which cannot be compared", file=sys.stderr)
    print(f"wrote {path}: {done._summary()}", file=sys.stderr)
