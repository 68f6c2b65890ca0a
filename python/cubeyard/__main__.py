"""The `cubeyard` command, as a part of the package."""

from __future__ import annotations

import signal
import sys

from cubeyard import _native


def main() -> int:
    """Runs the command with the arguments of the process; returns its exit code."""
    # As in the binary: Ctrl-C ends the process, and a closed pipe is no error.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command(["cubeyard", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
