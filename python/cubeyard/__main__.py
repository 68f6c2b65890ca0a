"""Entry point of the `cubeyard` command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cubeyard import _native


def main() -> int:
    """Runs the command with the arguments of the process. Returns its exit code."""
    if sys.argv[1:2] == ["run"] and _is_torch_script(sys.argv[2:]):
        from cubeyard.torch.__main__ import main as torch_main

        return torch_main(sys.argv[1:], prog="cubeyard")
    if any(".py::" in argument or argument.endswith(".py") for argument in sys.argv[1:]):
        from cubeyard.study.scripts import print_once

        print_once(sys.stderr if {"json", "--format=json"} & set(sys.argv) else sys.stdout)
    # As in the binary: Ctrl-C ends the process, and a closed pipe is not an error.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["cubeyard", *sys.argv[1:]])


def _is_torch_script(arguments: Sequence[str]) -> bool:
    """Returns whether the first Python file among arguments is a script that uses PyTorch."""
    script = next((Path(one) for one in arguments if one.endswith(".py")), None)
    if script is None or not script.is_file():
        return False
    from cubeyard.study.scripts import uses_torch

    return uses_torch(script)


if __name__ == "__main__":
    sys.exit(main())
