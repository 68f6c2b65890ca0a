"""`python -m cubeyard.collectives.world MEMBERS SIPS TIMEOUT`: the server process of one world.

The process reads the world's token from standard input. It prints one line of JSON: the address at which the ranks reach
the machine, or the error in the settings.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys

from cubeyard.collectives.world import wire
from cubeyard.collectives.world.machine import from_environment
from cubeyard.collectives.world.server import Server
from cubeyard.errors import CubeyardError


def main() -> int:
    """Serves a world. Returns the exit code of the process."""
    # Ctrl-C reaches all processes of the terminal. This process ends when the ranks have ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    members, size, timeout = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    token = sys.stdin.readline().strip()
    try:
        machine = from_environment(size)
    except CubeyardError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    address = f"cubeyard-{os.getpid()}-{secrets.token_hex(8)}"
    with wire.listen(address) as listener:
        print(json.dumps({"address": address}), flush=True)
        silence = os.open(os.devnull, os.O_RDWR)
        os.dup2(silence, 0)
        os.dup2(silence, 1)
        Server(machine, members, listener, token, timeout).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
