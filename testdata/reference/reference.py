"""The rules of time, word by word: the slow model to which the engine is held.

`docs/machine-rules.md` says what a transfer costs; "rule 4" below is its rule 4. This model shares
nothing with the engine but that page. It is written as SimPy users write: a process for each
request and for each flit. Where it could be fast or plain, it is plain.

    python reference.py < scenarios.jsonl

reads one scenario a line and prints, a line each, what every request took and how many times a
flit crossed a link.

**Ties.** SimPy runs the events of one instant in the order in which they were scheduled. No answer
may hang on that, so nothing is served when it asks. Links and memories note what asks, and serve
all of it in rule 4's order at the end of the instant, when every other event of the instant has
run. This is safe because whatever is served has its effect at least 1 ps later (rules 3 and 8).
"""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import simpy
from simpy.events import EventPriority

PS_PER_SECOND = 10**12

# After SimPy's own priorities, which are 0 (urgent) and 1 (normal).
LAST = EventPriority(2)

NO_LINK = -1


class MemorySpec(TypedDict):
    burst_bytes: int
    channels: int
    burst_ps: int
    turnaround_ps: int


class NodeSpec(TypedDict):
    overhead_ps: int
    mode: Literal["transit", "store", "end"]
    memory: NotRequired[MemorySpec | None]


# `from` is a word of the language, so this one cannot be a class.
LinkSpec = TypedDict(
    "LinkSpec",
    {"from": int, "to": int, "bytes_per_second": int, "propagation_ps": int, "reverse": int},
)


class RequestSpec(TypedDict):
    op: Literal["read", "write", "posted_write"]
    route: list[int]
    bytes: int
    address: int
    at_ps: int


class Scenario(TypedDict):
    flit_bytes: int
    nodes: list[NodeSpec]
    links: list[LinkSpec]
    requests: list[RequestSpec]


class Result(TypedDict):
    latency_ps: list[int]
    flit_hops: int


class Arrival(NamedTuple):
    """How a flit came to a node: by which link, and as which of all that this link served."""

    link: int
    served: int


class Beginning(NamedTuple):
    """When a transfer began at a node. Those of one instant go by what brought them about.

    That is the arrival of a flit (a read's command, the last flit of a write, or the last flit of
    a transfer that was stored here) or else, before those, the making of a request, by its number.
    """

    at_ps: int
    link: int
    served: int


# Where a flit stands in rule 4's order among those that ask at the same instant: a tuple, so that
# Python compares it as the rule says. Those that begin at this node come before all others.
Place = tuple[int, ...]


def beginning_here(beginning: Beginning, index: int) -> Place:
    return (0, *beginning, index)


def passing_through(arrival: Arrival) -> Place:
    return (1, *arrival)


class Clock(simpy.Environment):
    """SimPy's environment, with time in whole picoseconds (rule 1)."""

    @property
    def now(self) -> int:
        if not isinstance(self._now, int):
            raise TypeError(f"not a whole picosecond: {self._now}")
        return self._now


class EndOfInstant(simpy.Event):
    """Happens in this instant, after everything else in it."""

    def __init__(self, env: Clock) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, LAST)


Asked = TypeVar("Asked")
Process = Generator[simpy.Event, Any, Any]


class Arbiter(ABC, Generic[Asked]):
    """Serves what asks at one instant in rule 4's order, at the end of that instant."""

    def __init__(self, env: Clock) -> None:
        self.env = env
        self._asking: dict[Place, tuple[Asked, simpy.Event]] = {}
        self._served_at = -1

    def ask(self, place: Place, asked: Asked) -> simpy.Event:
        """Returns an event of this same instant, whose value is what `serve` returned."""
        if self._served_at == self.env.now:
            raise RuntimeError("asked after the end of the instant: some effect took no time")
        if place in self._asking:
            raise RuntimeError(f"two ask from the same place in the order: {place}")
        if not self._asking:
            self.env.process(self._serve_all())
        served = self.env.event()
        self._asking[place] = (asked, served)
        return served

    def _serve_all(self) -> Process:
        yield EndOfInstant(self.env)
        asking, self._asking = self._asking, {}
        self._served_at = self.env.now
        for place in sorted(asking):
            asked, served = asking[place]
            served.succeed(self.serve(asked))

    @abstractmethod
    def serve(self, asked: Asked) -> object:
        """Reserves what was asked for, from now on. Called in the order of service."""


class Link(Arbiter[int]):
    """A directed wire (rule 3). A flit asks with its bytes and is told when it will arrive."""

    def __init__(self, env: Clock, number: int, spec: LinkSpec) -> None:
        super().__init__(env)
        self.number = number
        self.spec = spec
        self.free = 0
        self.served = 0

    def serve(self, asked: int) -> tuple[int, Arrival]:
        start = max(self.env.now, self.free)
        self.free = start + ceil_div(asked * PS_PER_SECOND, self.spec["bytes_per_second"])
        arrives_at = max(self.free + self.spec["propagation_ps"], start + 1)
        self.served += 1
        return arrives_at, Arrival(self.number, self.served)


Direction = Literal["read", "write"]


@dataclass
class Channel:
    """One channel of a memory, and which way its last burst went."""

    free: int = 0
    last: Direction | None = None


class Memory(Arbiter[tuple[Direction, range]]):
    """Channels of bursts (rule 8). One asks with bursts and is told when each will end.

    Bursts are numbered over the whole memory, so that the number says the channel.
    """

    def __init__(self, env: Clock, spec: MemorySpec) -> None:
        super().__init__(env)
        self.spec = spec
        self.channels = [Channel() for _ in range(spec["channels"])]

    def serve(self, asked: tuple[Direction, range]) -> list[int]:
        direction, bursts = asked
        return [self._burst(direction, burst) for burst in bursts]

    def _burst(self, direction: Direction, burst: int) -> int:
        channel = self.channels[burst % len(self.channels)]
        start = max(self.env.now, channel.free)
        if channel.last not in (None, direction):
            start += self.spec["turnaround_ps"]
        channel.free = start + self.spec["burst_ps"]
        channel.last = direction
        return channel.free

    def bursts(self, address: int, offset: int, size: int) -> range:
        """The bursts of `size` bytes at `offset` of a transfer; the last one may be partly used."""
        burst_bytes = self.spec["burst_bytes"]
        first = (address + offset) // burst_bytes
        return range(first, first + ceil_div(size, burst_bytes))


@dataclass
class Collected:
    """What a store-and-forward node has of a transfer."""

    complete: simpy.Event
    flits: int = 0


@dataclass
class Transfer:
    """A list of flits on a route (rule 2), and what the nodes on it know of it."""

    route: list[int]
    sizes: list[int]
    beginning: Beginning
    # When the first flit came to each node.
    first_arrival: dict[int, int] = field(default_factory=dict)
    collected: dict[int, Collected] = field(default_factory=dict)


class Machine:
    """Nodes, links and memories in one SimPy environment, and the requests made of them."""

    def __init__(self, scenario: Scenario) -> None:
        check(scenario)
        self.env = Clock()
        self.flit_bytes = scenario["flit_bytes"]
        self.nodes = scenario["nodes"]
        self.links = [Link(self.env, n, spec) for n, spec in enumerate(scenario["links"])]
        self.memories = {
            number: Memory(self.env, spec)
            for number, node in enumerate(self.nodes)
            if (spec := node.get("memory")) is not None
        }
        self.flit_hops = 0
        self.latency_ps: dict[int, int] = {}

    def request(self, number: int, spec: RequestSpec) -> Process:
        """One request, from when it is made to when it is done (rules 7 to 10)."""
        yield from self._wait_until(spec["at_ps"])
        beginning = Beginning(spec["at_ps"], NO_LINK, number)
        start = self.links[spec["route"][0]].spec["from"]
        yield from self._wait_until(spec["at_ps"] + self.nodes[start]["overhead_ps"])
        if spec["op"] == "read":
            yield from self._read(spec, beginning)
        else:
            yield from self._write(spec, beginning)
        self.latency_ps[number] = self.env.now - spec["at_ps"]

    def _read(self, spec: RequestSpec, beginning: Beginning) -> Process:
        """A command goes, and flits come back in order, each when its bursts have ended."""
        command = Transfer(spec["route"], [0], beginning)
        arrival = yield from self._send(command, 0)
        memory = self._memory(spec)
        sizes = self._flits(spec["bytes"])
        bursts = memory.bursts(spec["address"], 0, spec["bytes"])
        ends = yield memory.ask(passing_through(arrival), ("read", bursts))
        answer = Transfer(self._reverse(spec["route"]), sizes, Beginning(self.env.now, *arrival))
        a_flit = self.flit_bytes // memory.spec["burst_bytes"]
        flits = [
            self.env.process(self._send(answer, index, max(ends[: (index + 1) * a_flit])))
            for index in range(len(sizes))
        ]
        yield self.env.all_of(flits)

    def _write(self, spec: RequestSpec, beginning: Beginning) -> Process:
        """Flits go, and when all of their bursts have ended an acknowledgement comes back."""
        transfer = Transfer(spec["route"], self._flits(spec["bytes"]), beginning)
        flits = [
            self.env.process(self._write_flit(spec, transfer, index))
            for index in range(len(transfer.sizes))
        ]
        yield self.env.all_of(flits)
        delivered, ends = zip(*(flit.value for flit in flits), strict=True)
        yield from self._wait_until(max(ends))
        if spec["op"] == "write":
            route = self._reverse(spec["route"])
            yield from self._send(Transfer(route, [0], max(delivered)), 0)

    def _write_flit(self, spec: RequestSpec, transfer: Transfer, index: int) -> Process:
        """Sends one flit and writes it. When and how it was delivered, and when it is written."""
        arrival = yield from self._send(transfer, index)
        delivered = Beginning(self.env.now, *arrival)
        memory = self._memory(spec)
        offset = index * self.flit_bytes
        bursts = memory.bursts(spec["address"], offset, transfer.sizes[index])
        ends = yield memory.ask(passing_through(arrival), ("write", bursts))
        return delivered, max(ends)

    def _send(self, transfer: Transfer, index: int, at_ps: int = 0) -> Process:
        """Takes one flit along its route, until it is delivered at the end (rules 3 to 7)."""
        yield from self._wait_until(at_ps)
        place = beginning_here(transfer.beginning, index)
        arrival = yield from self._cross(transfer.route[0], place, transfer.sizes[index])
        for number in transfer.route[1:]:
            node = self.links[number].spec["from"]
            if self.nodes[node]["mode"] == "store":
                beginning = yield from self._store(transfer, node, arrival)
                place = beginning_here(beginning, index)
            else:
                yield from self._pass(transfer, node)
                place = passing_through(arrival)
            arrival = yield from self._cross(number, place, transfer.sizes[index])
        yield from self._pass(transfer, self.links[transfer.route[-1]].spec["to"])
        return arrival

    def _cross(self, number: int, place: Place, size: int) -> Process:
        """Crosses one link (rule 3). How the flit came to the other end."""
        self.flit_hops += 1
        arrives_at, arrival = yield self.links[number].ask(place, size)
        yield from self._wait_until(arrives_at)
        return arrival

    def _pass(self, transfer: Transfer, node: int) -> Process:
        """Waits until the node has spent its overhead on this transfer (rules 5 and 7)."""
        first = transfer.first_arrival.setdefault(node, self.env.now)
        yield from self._wait_until(first + self.nodes[node]["overhead_ps"])

    def _store(self, transfer: Transfer, node: int, arrival: Arrival) -> Process:
        """Waits for all flits of the transfer (rule 6), which then begins at this node."""
        collected = transfer.collected.setdefault(node, Collected(self.env.event()))
        collected.flits += 1
        if collected.flits == len(transfer.sizes):
            collected.complete.succeed(Beginning(self.env.now, *arrival))
        beginning: Beginning = yield collected.complete
        yield from self._wait_until(beginning.at_ps + max(1, self.nodes[node]["overhead_ps"]))
        return beginning

    def _wait_until(self, at_ps: int) -> Process:
        """Waits, if that instant is not now or past."""
        if at_ps > self.env.now:
            yield self.env.timeout(at_ps - self.env.now)

    def _flits(self, size: int) -> list[int]:
        """The bytes of each flit (rule 2)."""
        return [min(self.flit_bytes, size - at) for at in range(0, size, self.flit_bytes)]

    def _memory(self, spec: RequestSpec) -> Memory:
        return self.memories[self.links[spec["route"][-1]].spec["to"]]

    def _reverse(self, route: Sequence[int]) -> list[int]:
        return [self.links[number].spec["reverse"] for number in reversed(route)]


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def check(scenario: Scenario) -> None:
    """Raises a ValueError for a scenario of which the rules say nothing."""
    for number, link in enumerate(scenario["links"]):
        back = scenario["links"][link["reverse"]]
        opposite = (back["from"], back["to"], back["reverse"]) == (link["to"], link["from"], number)
        require(opposite, f"link {link['reverse']} is not the opposite of link {number}")
    for number, request in enumerate(scenario["requests"]):
        try:
            check_request(scenario, request)
        except ValueError as error:
            raise ValueError(f"request {number}: {error}") from None


def check_request(scenario: Scenario, request: RequestSpec) -> None:
    require(len(request["route"]) > 0, "no route")
    links = [scenario["links"][number] for number in request["route"]]
    path = [links[0]["from"], *(link["to"] for link in links)]
    require(path[:-1] == [link["from"] for link in links], f"links do not meet on {path}")
    require(len(set(path)) == len(path), f"comes to a node twice on {path}")
    inner = [scenario["nodes"][node]["mode"] for node in path[1:-1]]
    require("end" not in inner, f"passes through an end on {path}")
    memory = scenario["nodes"][path[-1]].get("memory")
    if memory is None:
        raise ValueError(f"no memory at node {path[-1]}")
    require(memory["burst_ps"] > 0, "a burst takes no time")
    require(scenario["flit_bytes"] % memory["burst_bytes"] == 0, "a flit is no number of bursts")
    require(request["address"] % memory["burst_bytes"] == 0, "the address is inside a burst")
    require(request["bytes"] > 0, "no bytes")


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def run(scenario: Scenario) -> Result:
    """What every request of the scenario took."""
    machine = Machine(scenario)
    for number, spec in enumerate(scenario["requests"]):
        machine.env.process(machine.request(number, spec))
    machine.env.run()
    latency_ps = [machine.latency_ps[number] for number in range(len(scenario["requests"]))]
    return {"latency_ps": latency_ps, "flit_hops": machine.flit_hops}


def run_lines(lines: Iterable[str]) -> Iterable[str]:
    """One result for each scenario, both as lines of JSON."""
    return (json.dumps(run(json.loads(line))) for line in lines)


if __name__ == "__main__":
    for result in run_lines(sys.stdin):
        print(result)
