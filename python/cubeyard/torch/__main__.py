"""`python -m cubeyard.torch build`: compiles the device for the installed PyTorch and prints its path.

With `--into FOLDER`, a copy is placed in a folder, under the file name used in wheels. `scripts/release shims` does so for every
supported version.

`python -m cubeyard.torch run train.py`: runs a script and reports its steps. `cubeyard run train.py` does the same for a file that has
neither benches nor Triton kernels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cubeyard.errors import CubeyardError


def main(arguments: Sequence[str] | None = None, prog: str = "python -m cubeyard.torch") -> int:
    """Runs the command and returns its exit code.

    Args:
        arguments: The arguments; by default those of the process.
        prog: Name of the command in its help and errors.
    """
    parser = argparse.ArgumentParser(prog=prog, description="PyTorch's device of this package.")
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build", help="compile the device for the installed PyTorch and print its path")
    build.add_argument(
        "--into", type=Path, metavar="FOLDER", help="copy the device there; a wheel includes python/cubeyard/torch/shims"
    )
    build.set_defaults(command=lambda given: _build(given.into))
    run = commands.add_parser("run", help="run a script that uses PyTorch, and report its steps")
    run.add_argument("--shapes", action="store_true", help="run without data: tensors have shapes alone")
    run.add_argument("--report", type=Path, metavar="FILE.html", help="write the page of the last step")
    run.add_argument("script", type=Path, help="the script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    run.set_defaults(command=_run)
    given = parser.parse_args(arguments)
    try:
        _load()
        return int(given.command(given))
    except CubeyardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _load() -> None:
    import cubeyard.torch
    from cubeyard.torch import _loader

    _loader.load(cubeyard.torch, cubeyard.torch._register, again=True)


def _run(given: argparse.Namespace) -> int:
    from cubeyard.torch.profiling.scripts import run_script

    print(run_script(given.script, given.arguments, data=not given.shapes, report=given.report))
    return 0


def _build(into: Path | None) -> int:
    from cubeyard.torch import _loader

    path = os.fspath(_loader.shim or "")
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        path = shutil.copy(path, into / _loader.target().label().name)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
