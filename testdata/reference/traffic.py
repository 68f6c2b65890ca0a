"""Random traffic as a pattern for `cubeyard probe --pattern`: reads and writes between PEs of SIP 0.

    python traffic.py --transfers 512 --kib 16 > traffic.yaml

Every PE of the default machine's first SIP asks in turn, for the HBM of any PE of the SIP, all in the
first microsecond.
"""

import argparse
from random import Random

CUBES, PES = 16, 8


def traffic(transfers: int, size: int, seed: int) -> str:
    """The text of a pattern."""
    rng = Random(seed)
    lines = ["transfers:"]
    for number in range(transfers):
        asks = f"sip0.cube{number // PES % CUBES}.pe{number % PES}"
        holds = f"sip0.cube{rng.randrange(CUBES)}.pe{rng.randrange(PES)}.hbm"
        fields = {
            "op": rng.choice(["read", "write"]),
            "from": asks,
            "to": holds,
            "bytes": size,
            "at_ns": rng.randrange(1000),
        }
        lines.append("  - {" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--transfers", type=int, default=512)
    parser.add_argument("--kib", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(traffic(arguments.transfers, arguments.kib << 10, arguments.seed), end="")


if __name__ == "__main__":
    main()
