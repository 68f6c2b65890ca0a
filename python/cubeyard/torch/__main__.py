"""`python -m cubeyard.torch build`: compiles the device for the installed PyTorch and prints its path.

With `--into FOLDER`, a copy is placed in a folder, under the file name used in wheels.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cubeyard.errors import CubeyardError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m cubeyard.torch", description="PyTorch's device of this package.")
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build", help="compile the device for the installed PyTorch and print its path")
    build.add_argument(
        "--into", type=Path, metavar="FOLDER", help="copy the device there; a wheel includes python/cubeyard/torch/shims"
    )
    return _build(parser.parse_args(arguments).into)


def _build(into: Path | None) -> int:
    import cubeyard.torch
    from cubeyard.torch import _loader

    try:
        _loader.load(cubeyard.torch, cubeyard.torch._register, again=True)
    except CubeyardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    path = os.fspath(_loader.shim or "")
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        path = shutil.copy(path, into / _loader.target().shipped().name)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
