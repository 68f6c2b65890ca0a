"""How fast the engine is, as a multiple of the slow reference, on the same scenarios.

    python scenarios.py --crowd 400 > crowd.jsonl
    python speed.py crowd.jsonl ../../target/dist/examples/scenario

The reference and the binary run in turn, each as a process of its own, and CPU time is compared,
the reading of the scenarios included on both sides. Each gets the scenarios as often as it takes to
make the start of its process small.

The traffic of a probe pattern over the whole default machine, every flit by itself:

    python traffic.py --transfers 512 --kib 16 > traffic.yaml
    ../../target/dist/examples/export_scenario traffic.yaml > traffic.jsonl
    python speed.py traffic.jsonl ../../target/dist/examples/scenario --flits
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from reference import Result

REFERENCE = Path(__file__).resolve().parent / "reference.py"

# Much more than it takes to start Python and import SimPy.
ENOUGH_CPU_S = 2.0
MOST_COPIES = 1 << 12


def cpu_of(command: list[str], scenarios: str) -> tuple[float, str]:
    """The CPU seconds of a command that reads the scenarios, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, input=scenarios, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def cpu_of_once(command: list[str], scenarios: str) -> tuple[float, list[Result]]:
    """The CPU seconds for the scenarios once, measured on enough copies, and their results."""
    seconds, printed = cpu_of(command, scenarios)
    copies = 1
    while seconds < ENOUGH_CPU_S and copies < MOST_COPIES:
        copies *= 4
        seconds, _ = cpu_of(command, scenarios * copies)
    return seconds / copies, [json.loads(line) for line in printed.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("scenarios", type=Path, help="a file with a scenario in each line")
    parser.add_argument("binary", nargs="?", help="the engine; without it, only the reference runs")
    parser.add_argument("--flits", action="store_true", help="the engine merges no runs of flits")
    arguments = parser.parse_args()
    scenarios = arguments.scenarios.read_text()
    reference_s, results = cpu_of_once([sys.executable, str(REFERENCE)], scenarios)
    hops = sum(result["flit_hops"] for result in results)
    print(f"reference {hops / reference_s:14,.0f} flit-hops/s  ({hops:,} in {reference_s:.6f} s)")
    if not arguments.binary:
        return 0
    engine_s, engine_results = cpu_of_once(
        [arguments.binary, *(["--flits"] if arguments.flits else [])], scenarios
    )
    print(f"engine    {hops / engine_s:14,.0f} flit-hops/s  ({hops:,} in {engine_s:.6f} s)")
    print(f"ratio     {reference_s / engine_s:14,.1f}")
    if engine_results != results:
        print("the two do not agree on the latencies, so the ratio says nothing", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
