"""The command on a terminal of 80 columns: progress, and rows as they come."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(*arguments):
    """Runs the command; returns what it writes with the time at which it came, and its whole time."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "cubeyard", *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    found = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # The terminal is gone.
            break
        if not part:
            break
        found.append((time.monotonic() - begin, ESCAPES.sub("", part.decode("utf-8", errors="replace"))))
    os.close(ours)
    assert process.wait() == 0, found[-3:]
    return found, time.monotonic() - begin


# Each takes seconds, most of them in its first step.
LONG = [
    (["run", "gemm-multi", "--set", "m=8192", "--set", "k=2048", "--set", "n=2048", "--set", "cubes=16"], "simulating gemm-multi"),
    (["compare", "--with", "cubes.h=2", "--", "model", "--llm", "llama-70b", "--context", "4096", "--batch", "64"], "running A"),
    (["model", "--llm", "llama-70b", "--context", "4096", "--batch", "128"], "llama-70b, run"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), LONG)
def test_long_work_shows_that_it_is_under_way(arguments, text):
    found, took = on_terminal(*arguments)
    if took < 2:
        pytest.skip(f"took only {took:.2f} s here")
    # Progress appears after half a second of work. A share of the whole holds on a busy machine too.
    shown = next(at for at, part in found if text in part)
    assert shown < took / 2, f"shown after {shown:.2f} s of {took:.2f} s"


def test_rows_come_one_by_one_and_fit():
    found, took = on_terminal("ccl", "--sizes", "1K:1M:4", "--ranks", "sip")
    rows = [at for at, part in found if re.search(r"^  (ring|direct) ", part, re.M)]
    assert len(rows) > 2 and rows[0] < took / 2
    lines = "".join(part for _, part in found).replace("\r\n", "\n").split("\n")
    assert max(len(line.split("\r")[-1]) for line in lines) <= 80
