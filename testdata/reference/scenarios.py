"""Random small scenarios for holding two implementations of the rules of time against each other.

    python scenarios.py --seed 1 --count 2000 > scenarios.jsonl

The same seed gives the same scenarios. What is rare in real traffic is common here: half of all
scenarios have durations of a few picoseconds, so that nearly everything happens at an instant at
which something else happens, too, and the order of ties decides.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from reference import BufferSpec, LinkSpec, MemorySpec, NodeSpec, RequestSpec, Scenario

Edge = tuple[int, int]


@dataclass
class Scale:
    """The figures from which a scenario draws. Few of each, so that they meet."""

    bytes_per_second: list[int]
    propagation_ps: list[int]
    overhead_ps: list[int]
    burst_ps: list[int]
    turnaround_ps: list[int]
    at_ps: list[int]


def real_scale() -> Scale:
    """Figures as in a machine, and some that divide nothing."""
    return Scale(
        bytes_per_second=[256 * 10**9, 128 * 10**9, 512 * 10**9, 33_300_000_000, 7_777_777_777],
        propagation_ps=[0, 0, 1, 10, 500, 500_000],
        overhead_ps=[0, 0, 1, 2000, 2500, 8000],
        burst_ps=[8000, 8000, 1000, 7993],
        turnaround_ps=[0, 0, 1, 5000],
        at_ps=[0, 0, 0, 1, 1000, 2000, 8000, 9999, 100_000],
    )


def dense_scale(flit_bytes: int) -> Scale:
    """Every duration is a few picoseconds; one bandwidth makes a flit last two and a half."""
    a_picosecond = flit_bytes * 10**12
    return Scale(
        bytes_per_second=[
            a_picosecond,
            a_picosecond // 2,
            a_picosecond // 4,
            a_picosecond * 2 // 5,
        ],
        propagation_ps=[0, 0, 0, 1, 2],
        overhead_ps=[0, 0, 1, 2, 3, 5],
        burst_ps=[1, 2, 3, 4, 8],
        turnaround_ps=[0, 0, 1, 3],
        at_ps=list(range(12)),
    )


def narrowed(rng: Random, scale: Scale) -> Scale:
    """The same, with one or two choices for each figure in most scenarios: more of them meet."""
    kept = {}
    for name, choices in vars(scale).items():
        kept[name] = rng.choices(choices, k=rng.choice([1, 2, len(choices)]))
    return Scale(**kept)


def mesh(columns: int, rows: int) -> list[Edge]:
    across = [(n, n + 1) for n in range(columns * rows) if n % columns + 1 < columns]
    return across + [(n, n + columns) for n in range(columns * (rows - 1))]


def shape(rng: Random) -> tuple[int, list[Edge]]:
    """A connected graph of 2 to 12 nodes: how many, and which are neighbours."""
    match rng.choice(["chain", "star", "mesh", "ring"]):
        case "chain":
            nodes = rng.randint(2, 12)
            return nodes, [(n, n + 1) for n in range(nodes - 1)]
        case "star":
            nodes = rng.randint(3, 9)
            return nodes, [(0, n) for n in range(1, nodes)]
        case "ring":
            nodes = rng.randint(3, 12)
            return nodes, [(n, (n + 1) % nodes) for n in range(nodes)]
        case _:
            columns, rows = rng.choice([(2, 2), (3, 2), (3, 3), (4, 3)])
            return columns * rows, mesh(columns, rows)


def link_all(edges: list[Edge]) -> list[Edge]:
    """Both directions of every edge in the order of their numbers: all that end at a node in a row.

    The engine numbers its links like this.
    """
    both = [*edges, *((b, a) for a, b in edges)]
    return sorted(both, key=lambda edge: (edge[1], edge[0]))


def find_route(rng: Random, links: list[Edge], ends: set[int], start: int, goal: int) -> list[int]:
    """The links of a path without cycles that passes through no end: a short or a winding one."""
    depth_first = rng.random() < 0.4
    open_paths = [(start, [])]  # type: list[tuple[int, list[int]]]
    seen = set()
    while open_paths:
        node, path = open_paths.pop(-1 if depth_first else 0)
        if node == goal:
            return path
        if node in seen or (node in ends and node != start):
            continue
        seen.add(node)
        following = [(to, [*path, n]) for n, (a, to) in enumerate(links) if a == node]
        rng.shuffle(following)
        open_paths += following
    raise RuntimeError(f"no way from {start} to {goal}")


def random_memory(rng: Random, scale: Scale, flit_bytes: int) -> MemorySpec:
    return {
        "burst_bytes": flit_bytes // rng.choice([1, 1, 2, 4]),
        "channels": rng.choice([1, 2, 3, 8]),
        "burst_ps": rng.choice(scale.burst_ps),
        "turnaround_ps": rng.choice(scale.turnaround_ps),
    }


def random_links(rng: Random, scale: Scale, links: list[Edge]) -> list[LinkSpec]:
    return [
        {
            "from": a,
            "to": b,
            "bytes_per_second": rng.choice(scale.bytes_per_second),
            "propagation_ps": rng.choice(scale.propagation_ps),
            "reverse": links.index((b, a)),
        }
        for a, b in links
    ]


def random_nodes(
    rng: Random, scale: Scale, flit_bytes: int, inner: int, ends: int, mixed: bool
) -> list[NodeSpec]:
    """First the inner nodes, then the ends. The last has a memory, the first none, others may."""
    nodes: list[NodeSpec] = []
    stores = rng.choice([0.0, 0.0, 0.2, 0.6])
    for number in range(inner + ends):
        is_store = number < inner and rng.random() < stores
        may_have = 0 < number and (mixed or not is_store)
        likely = 1.0 if number == inner + ends - 1 else 0.15 if number < inner else 0.4
        has_memory = may_have and rng.random() < likely
        nodes.append(
            {
                "overhead_ps": rng.choice(scale.overhead_ps),
                "mode": "end" if number >= inner else "store" if is_store else "transit",
                "memory": random_memory(rng, scale, flit_bytes) if has_memory else None,
            }
        )
    return nodes


def random_size(rng: Random, flit_bytes: int) -> int:
    if rng.random() < 0.01:
        return 64 * 1024
    few = [flit_bytes, 2 * flit_bytes, 3 * flit_bytes + 1, 8 * flit_bytes, 12 * flit_bytes - 1]
    return rng.choice([1, 1, 255, 256, 257, 5000, *few])


def random_requests(
    rng: Random, scale: Scale, scenario: Scenario, links: list[Edge], mixed: bool
) -> list[RequestSpec]:
    nodes, flit_bytes = scenario["nodes"], scenario["flit_bytes"]
    ends = {n for n, node in enumerate(nodes) if node["mode"] == "end"}
    memories = {n: memory for n, node in enumerate(nodes) if (memory := node.get("memory"))}
    starts = [n for n in range(len(nodes)) if mixed or n not in memories]
    # Few starts and few goals make more routes overlap.
    starts = rng.sample(starts, min(len(starts), rng.choice([1, 2, 3, 99])))
    requests: list[RequestSpec] = []
    for _ in range(rng.choice([1, 2, 2, 3, 4, 6, 8])):
        goal = rng.choice(list(memories))
        start = rng.choice([n for n in starts if n != goal] or [0])
        burst_bytes = memories[goal]["burst_bytes"]
        requests.append(
            {
                "op": rng.choice(["read", "read", "write", "write", "posted_write"]),
                "route": find_route(rng, links, ends, start, goal),
                "bytes": random_size(rng, flit_bytes),
                "address": burst_bytes * rng.choice([0, 0, 1, 5, 1000]),
                "at_ps": rng.choice(scale.at_ps),
            }
        )
        if rng.random() < 0.2:
            requests.append(requests[-1].copy())
    return requests


def random_buffers(rng: Random) -> BufferSpec:
    """Few places in most scenarios, so that they run out; enough in some that nothing waits."""
    return {
        "flits": rng.choice([1, 1, 2, 3, 4, 8, 64]),
        "arbiter": rng.choice(["fifo", "round_robin", "oldest_first"]),
    }


def add_rates(rng: Random, scenario: Scenario) -> None:
    """Gives flits headers and makes nodes serial, in most scenarios."""
    scenario["header_bytes"] = rng.choice([0, 1, 16, scenario["flit_bytes"]])
    likely = rng.choice([0.0, 0.5, 1.0])
    for node in scenario["nodes"]:
        node["serial"] = rng.random() < likely


def random_scenario(
    rng: Random, mixed: bool = False, finite: bool = False, rates: bool = False
) -> Scenario:
    """A scenario. Only in a `mixed` one do requests start at memories, or memories store transfers.

    Then requests, answers and stored transfers begin at one node. Buffers are `finite`, or without
    limit. With `rates`, flits have headers and nodes are serial.
    """
    flit_bytes = rng.choice([256, 256, 256, 64, 1024])
    scale = narrowed(rng, rng.choice([real_scale(), dense_scale(flit_bytes)]))
    inner, edges = shape(rng)
    ends = rng.randint(1, 5)
    edges = edges + [(rng.randrange(inner), inner + end) for end in range(ends)]
    links = link_all(edges)
    scenario: Scenario = {
        "flit_bytes": flit_bytes,
        "nodes": random_nodes(rng, scale, flit_bytes, inner, ends, mixed),
        "links": random_links(rng, scale, links),
        "requests": [],
    }
    scenario["requests"] = random_requests(rng, scale, scenario, links, mixed)
    if finite:
        scenario["buffers"] = random_buffers(rng)
    if rates:
        add_rates(rng, scenario)
    return scenario


def random_scenarios(
    seed: int, count: int, mixed: bool = False, finite: bool = False, rates: bool = False
) -> Iterator[Scenario]:
    rng = Random(seed)
    for _ in range(count):
        yield random_scenario(rng, mixed, finite, rates)


def crowd(side: int, requests: int) -> Scenario:
    """A mesh of routers, each with a requester and a memory, and much traffic: for `speed.py`."""
    rng = Random(side)
    scale = Scale([256 * 10**9], [0], [2000], [8000], [0], [0])
    routers = side * side
    edges = mesh(side, side) + [(n % routers, routers + n) for n in range(2 * routers)]
    links = link_all(edges)
    memory: MemorySpec = {"burst_bytes": 256, "channels": 8, "burst_ps": 8000, "turnaround_ps": 0}
    ends = set(range(routers, 3 * routers))
    return {
        "flit_bytes": 256,
        "nodes": [
            {
                "overhead_ps": 0 if node in ends else 2000,
                "mode": "end" if node in ends else "transit",
                "memory": memory if node >= 2 * routers else None,
            }
            for node in range(3 * routers)
        ],
        "links": random_links(rng, scale, links),
        "requests": [
            {
                "op": rng.choice(["read", "write"]),
                "route": find_route(
                    rng,
                    links,
                    ends,
                    rng.randrange(routers, 2 * routers),
                    rng.randrange(2 * routers, 3 * routers),
                ),
                "bytes": 16 * 1024,
                "address": 256 * rng.randrange(1000),
                "at_ps": rng.randrange(1000) * 1000,
            }
            for _ in range(requests)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--mixed", action="store_true", help="requests start at memories, too")
    parser.add_argument("--finite", action="store_true", help="with finite buffers")
    parser.add_argument("--rates", action="store_true", help="with headers and serial nodes")
    parser.add_argument("--crowd", type=int, metavar="REQUESTS", help="instead, one large scenario")
    arguments = parser.parse_args()
    scenarios = (
        iter([crowd(4, arguments.crowd)])
        if arguments.crowd
        else random_scenarios(
            arguments.seed, arguments.count, arguments.mixed, arguments.finite, arguments.rates
        )
    )
    for scenario in scenarios:
        print(json.dumps(scenario))


if __name__ == "__main__":
    main()
