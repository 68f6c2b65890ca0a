"""Entry point of the `cubeyard` command."""

from __future__ import annotations

import signal
import sys

from cubeyard import _native


def main() -> int:
    """Runs the command with the arguments of the process. Returns its exit code."""
    # As in the binary: Ctrl-C ends the process, and a closed pipe is not an error.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["cubeyard", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
