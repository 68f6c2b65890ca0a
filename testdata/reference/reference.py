"""The rules of time, word by word: the slow model to which the engine is held.

`docs/machine-rules.md` says what a transfer costs; "rule 4" below is its rule 4. This model shares
nothing with the engine but that page. It is written as SimPy users write: a process for each
request and for each flit. Where it could be fast or plain, it is plain.

    python reference.py < scenarios.jsonl

reads one scenario a line and prints, a line each, what every request took and how many times a
flit crossed a link. With finite buffers requests can block each other for good: they took `null`.

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
    # Whether it processes the overhead of one transfer at a time ("Message rate").
    serial: NotRequired[bool]
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


class BufferSpec(TypedDict):
    flits: int
    arbiter: Literal["fifo", "round_robin", "oldest_first"]


class Scenario(TypedDict):
    flit_bytes: int
    # What each flit has on links beside its bytes ("Message rate").
    header_bytes: NotRequired[int]
    buffers: NotRequired[BufferSpec | None]
    nodes: list[NodeSpec]
    links: list[LinkSpec]
    requests: list[RequestSpec]


class Result(TypedDict):
    # None for a request that is not done when nothing is left to happen.
    latency_ps: list[int | None]
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

    def __init__(self, env: Clock, number: int, spec: LinkSpec, header_bytes: int) -> None:
        super().__init__(env)
        self.number = number
        self.spec = spec
        self.header_bytes = header_bytes
        self.free = 0
        self.served = 0

    def serve(self, asked: int) -> tuple[int, Arrival]:
        start = max(self.env.now, self.free)
        size = asked + self.header_bytes
        self.free = start + ceil_div(size * PS_PER_SECOND, self.spec["bytes_per_second"])
        arrives_at = max(self.free + self.spec["propagation_ps"], start + 1)
        self.served += 1
        return arrives_at, Arrival(self.number, self.served)


class Processor(Arbiter[int]):
    """A serial node ("Message rate"). A transfer asks with its overhead and is told when that ends."""

    def __init__(self, env: Clock) -> None:
        super().__init__(env)
        self.free = 0

    def serve(self, asked: int) -> int:
        self.free = max(self.env.now, self.free) + asked
        return self.free


# The input of a node for flits that begin there: before all links.
SOURCE = -1


@dataclass
class Standing:
    """A flit in a queue ("Finite buffers"), which wants a link."""

    place: Place
    wants: int
    came_by: int
    size: int
    since_ps: int
    began_ps: int
    # Whether it ends, or is stored, where the link leads.
    ends: bool
    given: simpy.Event


@dataclass
class Lane:
    """A link as the section "Finite buffers" sees it, and the queues at its two ends."""

    number: int
    spec: LinkSpec
    # Free places behind it, as far as its beginning knows.
    places: int
    free: int = 0
    served: int = 0
    served_last: int | None = None
    # The flits that came by it, and those that begin where it begins and want it.
    behind: list[Standing] = field(default_factory=list)
    source: list[Standing] = field(default_factory=list)

    def news_ps(self) -> int:
        """How long it takes until the beginning knows that a place is free."""
        return max(self.spec["propagation_ps"], 1)


class Buffers:
    """Links with so many places behind them: rules 3 and 4 as "Finite buffers" has them."""

    def __init__(
        self, env: Clock, links: list[LinkSpec], spec: BufferSpec, header_bytes: int
    ) -> None:
        self.env = env
        self.header_bytes = header_bytes
        self.arbiter = spec["arbiter"]
        self.lanes = [Lane(number, link, spec["flits"]) for number, link in enumerate(links)]
        # For each link those that lead to the node where it begins.
        self.inputs = [
            [other for other in self.lanes if other.spec["to"] == lane.spec["from"]]
            for lane in self.lanes
        ]
        self._new: list[Standing] = []
        self._looks_at = -1
        self._given_at = -1

    def ask(self, flit: Standing) -> simpy.Event:
        """Lets a flit stand. The event's value is when it arrives, and how."""
        self._new.append(flit)
        self._look()
        return flit.given

    def _look(self) -> None:
        """Gives links at the end of this instant."""
        if self._given_at == self.env.now:
            raise RuntimeError("asked after the end of the instant: some effect took no time")
        if self._looks_at != self.env.now:
            self._looks_at = self.env.now
            self.env.process(self._give_all())

    def _give_all(self) -> Process:
        yield EndOfInstant(self.env)
        self._given_at = self.env.now
        # Flits of one queue that stand at one instant do so in the order of rule 4.
        for flit in sorted(self._new, key=lambda flit: flit.place):
            self._queue(flit).append(flit)
        self._new = []
        while (lane := next(filter(self._can_be_given, self.lanes), None)) is not None:
            self._give(lane)

    def _queue(self, flit: Standing) -> list[Standing]:
        if flit.came_by == SOURCE:
            return self.lanes[flit.wants].source
        return self.lanes[flit.came_by].behind

    def _heads(self, lane: Lane) -> list[Standing]:
        """The heads of queues that want this link."""
        queues = [lane.source, *(other.behind for other in self.inputs[lane.number])]
        return [queue[0] for queue in queues if queue and queue[0].wants == lane.number]

    def _can_be_given(self, lane: Lane) -> bool:
        return lane.free <= self.env.now and lane.places > 0 and len(self._heads(lane)) > 0

    def _key(self, lane: Lane, head: Standing) -> tuple[int, int]:
        match self.arbiter:
            case "fifo":
                return head.since_ps, head.came_by
            case "oldest_first":
                return head.began_ps, head.came_by
            case _:
                last = lane.served_last
                return int(last is not None and head.came_by <= last), head.came_by

    def _give(self, lane: Lane) -> None:
        flit = min(self._heads(lane), key=lambda head: self._key(lane, head))
        self._queue(flit).pop(0)
        lane.served_last = flit.came_by
        lane.places -= 1
        lane.served += 1
        now = self.env.now
        size = flit.size + self.header_bytes
        lane.free = now + ceil_div(size * PS_PER_SECOND, lane.spec["bytes_per_second"])
        arrives_at = max(lane.free + lane.spec["propagation_ps"], now + 1)
        if flit.came_by != SOURCE:
            left = self.lanes[flit.came_by]
            self.env.process(self._free_place(left, now + left.news_ps()))
        if flit.ends:
            self.env.process(self._free_place(lane, arrives_at + lane.news_ps()))
        if lane.free > now:
            self.env.process(self._look_at(lane.free))
        flit.given.succeed((arrives_at, Arrival(lane.number, lane.served)))

    def _free_place(self, lane: Lane, known_at: int) -> Process:
        yield self.env.timeout(known_at - self.env.now)
        lane.places += 1
        self._look()

    def _look_at(self, at_ps: int) -> Process:
        yield self.env.timeout(at_ps - self.env.now)
        self._look()


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
    # When each node has spent its overhead; an event whose value is that time.
    processed: dict[int, simpy.Event] = field(default_factory=dict)
    collected: dict[int, Collected] = field(default_factory=dict)


class Machine:
    """Nodes, links and memories in one SimPy environment, and the requests made of them."""

    def __init__(self, scenario: Scenario) -> None:
        check(scenario)
        self.env = Clock()
        self.flit_bytes = scenario["flit_bytes"]
        self.nodes = scenario["nodes"]
        links, header = scenario["links"], scenario.get("header_bytes", 0)
        self.links = [Link(self.env, n, spec, header) for n, spec in enumerate(links)]
        buffers = scenario.get("buffers")
        self.buffers = Buffers(self.env, links, buffers, header) if buffers else None
        # Of each serial node one for transfers that come, and one for requests that start. A node
        # without overhead is never busy.
        serial = [
            number
            for number, node in enumerate(self.nodes)
            if node.get("serial") and node["overhead_ps"] > 0
        ]
        self.coming = {number: Processor(self.env) for number in serial}
        self.starting = {number: Processor(self.env) for number in serial}
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
        ends = yield from self._overhead(self.starting, start, beginning_here(beginning, 0))
        yield from self._wait_until(ends)
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
        arrival = yield from self._cross(transfer, 0, place, transfer.sizes[index])
        for hop, number in enumerate(transfer.route[1:], start=1):
            node = self.links[number].spec["from"]
            if self.nodes[node]["mode"] == "store":
                beginning = yield from self._store(transfer, node, arrival)
                place = beginning_here(beginning, index)
            else:
                yield from self._pass(transfer, node, arrival)
                place = passing_through(arrival)
            arrival = yield from self._cross(transfer, hop, place, transfer.sizes[index])
        yield from self._pass(transfer, self.links[transfer.route[-1]].spec["to"], arrival)
        return arrival

    def _cross(self, transfer: Transfer, hop: int, place: Place, size: int) -> Process:
        """Crosses one link (rule 3). How the flit came to the other end."""
        if self.buffers is None:
            served = self.links[transfer.route[hop]].ask(place, size)
        else:
            served = self.buffers.ask(self._standing(transfer, hop, place, size))
        arrives_at, arrival = yield served
        self.flit_hops += 1
        yield from self._wait_until(arrives_at)
        return arrival

    def _standing(self, transfer: Transfer, hop: int, place: Place, size: int) -> Standing:
        """A flit that stands before a link of its route."""
        number = transfer.route[hop]
        is_last = hop + 1 == len(transfer.route)
        stores = self.nodes[self.links[number].spec["to"]]["mode"] == "store"
        begins = place[0] == 0
        return Standing(
            place=place,
            wants=number,
            came_by=SOURCE if begins else transfer.route[hop - 1],
            size=size,
            since_ps=self.env.now,
            began_ps=transfer.beginning.at_ps,
            ends=is_last or stores,
            given=self.env.event(),
        )

    def _overhead(self, processors: dict[int, Processor], node: int, place: Place) -> Process:
        """When the node has spent its overhead on what comes now: a serial one on one at a time."""
        overhead = self.nodes[node]["overhead_ps"]
        if node not in processors:
            return self.env.now + overhead
        ends: int = yield processors[node].ask(place, overhead)
        return ends

    def _pass(self, transfer: Transfer, node: int, arrival: Arrival) -> Process:
        """Waits until the node has spent its overhead on this transfer (rules 5 and 7)."""
        if node not in transfer.processed:
            transfer.processed[node] = self.env.event()
            ends = yield from self._overhead(self.coming, node, passing_through(arrival))
            transfer.processed[node].succeed(ends)
        else:
            ends = yield transfer.processed[node]
        yield from self._wait_until(ends)

    def _store(self, transfer: Transfer, node: int, arrival: Arrival) -> Process:
        """Waits for all flits of the transfer (rule 6), which then begins at this node."""
        collected = transfer.collected.setdefault(node, Collected(self.env.event()))
        collected.flits += 1
        if collected.flits == len(transfer.sizes):
            began = Beginning(self.env.now, *arrival)
            ends = yield from self._overhead(self.coming, node, passing_through(arrival))
            collected.complete.succeed((began, ends))
        beginning: Beginning
        beginning, ends = yield collected.complete
        yield from self._wait_until(max(beginning.at_ps + 1, ends))
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
    if (buffers := scenario.get("buffers")) is not None:
        require(buffers["flits"] > 0, "buffers without a place")
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
    latency_ps = [machine.latency_ps.get(number) for number in range(len(scenario["requests"]))]
    return {"latency_ps": latency_ps, "flit_hops": machine.flit_hops}


def run_lines(lines: Iterable[str]) -> Iterable[str]:
    """One result for each scenario, both as lines of JSON."""
    return (json.dumps(run(json.loads(line))) for line in lines)


if __name__ == "__main__":
    for result in run_lines(sys.stdin):
        print(result)
