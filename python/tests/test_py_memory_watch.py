"""Subscribers, tokens, launches and history of `cubeyard.memory`."""

from __future__ import annotations

import gc
import random
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from cubeyard import replay
from cubeyard.errors import CubeyardError, InputError, OutOfMemory
from cubeyard.memory import (
    AllocationToken,
    Card,
    Event,
    FlexAllocator,
    Streams,
)

MIB = 1 << 20


def small(**settings: Any) -> FlexAllocator:
    return FlexAllocator(Card(64 * MIB), fallback_sizes=[16 * MIB], **settings)


class Ledger:
    """The live blocks according to the events."""

    def __init__(self) -> None:
        self.owned: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.next: int | None = None

    def __call__(self, event: Event) -> None:
        assert self.next in (None, event.number)
        self.next = event.number + 1
        if event.action in ("alloc", "room_reserved"):
            assert event.flat not in self.used
            self.used[event.flat] = event.size
        if event.action == "alloc":
            self.owned[event.flat] = event.size
        elif event.action == "free_requested":
            assert self.owned.pop(event.flat) == event.size
        elif event.action == "move":
            self.owned[event.target_flat] = self.owned.pop(event.flat)
        elif event.action == "free_completed":
            assert self.used.pop(event.flat) == event.size

    def check(self, allocator: FlexAllocator) -> None:
        segments = allocator.snapshot().to_dict()["segments"]
        blocks = [block for segment in segments for block in segment["blocks"]]
        assert self.used == {block["address"]: block["size"] for block in blocks if block["state"] != "inactive"}
        assert self.owned == {block["address"]: block["size"] for block in blocks if block["state"] == "active_allocated"}


@pytest.mark.parametrize("seed", range(5))
def test_events_give_the_live_blocks_and_change_nothing(seed: int) -> None:
    ledger, places = Ledger(), []
    for watched in (True, False):
        chance = random.Random(seed)
        allocator, live, seen = small(history=50, clock=lambda: 0), [], []
        subscription = allocator.subscribe(ledger) if watched else None
        for _ in range(200):
            choice = chance.random()
            if choice < 0.55:
                try:
                    live.append(allocator.allocate(chance.randrange(1, 2 * MIB)))
                    seen.append(str(live[-1].address))
                except OutOfMemory as error:
                    seen.append(str(error))
            elif choice < 0.95 and live:
                live.pop(chance.randrange(len(live))).free()
            else:
                seen.append(str(allocator.compact().commit()))
            if watched:
                ledger.check(allocator)
            else:
                allocator.snapshot()
            seen.append(str(allocator.statistics().to_dict()))
        if subscription:
            subscription.unsubscribe()
        places.append((seen, [(entry.action, entry.address, entry.size) for entry in allocator.history()]))
    assert places[0] == places[1]


def test_events_of_threads_follow_each_other() -> None:
    allocator, ledger = small(max_regions=4), Ledger()
    failures: list[Any] = []

    def work(seed: int) -> None:
        chance, live = random.Random(seed), []
        for _ in range(300):
            live.append(allocator.allocate(chance.randrange(1, 100_000)))
            if len(live) > 10:
                live.pop(chance.randrange(10)).free()

    def record(unraisable: Any) -> None:
        failures.append(unraisable.exc_value)

    hook, sys.unraisablehook = sys.unraisablehook, record
    try:
        with allocator.subscribe(ledger):
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            ledger.check(allocator)
    finally:
        sys.unraisablehook = hook
    assert not failures
    assert ledger.owned == {}


def test_an_exception_of_a_subscriber_is_reported_and_goes_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))
    allocator, seen = small(), []
    with allocator.subscribe(lambda event: 1 / 0), allocator.subscribe(lambda event: seen.append(event.action)):
        allocator.allocate(1000).free()
    assert reported == [ZeroDivisionError] * 4
    assert seen == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    assert allocator.statistics().allocated_bytes.all.current == 0


def test_a_subscriber_may_use_the_allocator_and_end_itself() -> None:
    allocator, seen = small(), []

    def watch(event: Event) -> None:
        seen.append(event.requested)
        if event.action == "alloc" and event.requested == 1:
            assert allocator.statistics().allocation.all.current == 1
            allocator.allocate(2).free()
        elif event.action == "free_completed":
            subscription.unsubscribe()

    subscription = allocator.subscribe(watch)
    block = allocator.allocate(1)
    assert seen == [16 * MIB, 1, 2, 2, 2]
    assert not subscription.is_active
    block.free()
    assert len(seen) == 5
    with pytest.raises(InputError, match="ended before"):
        subscription.unsubscribe()


def test_a_subscriber_that_refers_to_its_allocator_is_collected() -> None:
    class Watcher:
        def __init__(self, allocator: FlexAllocator) -> None:
            self.allocator = allocator

        def __call__(self, event: Event) -> None:
            self.allocator.statistics()

    allocator = small()
    allocator.subscribe(Watcher(allocator))
    allocator.allocate(1000).free()
    gone = weakref.ref(allocator)
    del allocator
    gc.collect()
    assert gone() is None


def test_an_event_has_the_figures_of_its_block() -> None:
    events: list[Event] = []
    allocator = small(clock=lambda: 77)
    with allocator.subscribe(events.append):
        block = allocator.allocate(1000, stream=3, site=9)
        address = block.address
        with pytest.raises(OutOfMemory):
            allocator.allocate(20 * MIB)
    event, failed = events[1], events[-1]
    assert (event.action, event.address, event.size, event.requested) == ("alloc", address, 1024, 1000)
    assert (event.stream, event.site, event.time_us, event.number) == (3, 9, 77, 1)
    assert event.flat == allocator.flat_address(address)
    assert (event.target, event.target_flat, event.device_free) == (None, 0, 0)
    assert (failed.action, failed.requested, failed.address) == ("oom", 20 * MIB, None)
    assert repr(event) == "<Event alloc, 1.00 KiB at 0x400000000+0x0>"


def test_a_log_is_read_by_replay(tmp_path: Path) -> None:
    allocator, chance, live = small(), random.Random(1), []
    with allocator.subscribe_rmm_log(tmp_path / "log.csv"):
        for _ in range(300):
            live.append(allocator.allocate(128 * chance.randrange(1, 100)))
            if len(live) > 20:
                live.pop(chance.randrange(20)).free()
    (trace,) = replay.read(tmp_path / "log.csv")
    assert trace.allocations == 300
    sizes: dict[int, int] = {}
    peak = 0
    for event in trace:
        if event["action"] == "alloc":
            sizes[event["allocation"]] = event["bytes"]
        else:
            del sizes[event["allocation"]]
        peak = max(peak, sum(sizes.values()))
    assert peak == allocator.statistics().allocated_bytes.all.peak
    with pytest.raises(OSError, match="No such file"):
        allocator.subscribe_rmm_log(tmp_path / "none" / "log.csv")


def test_a_pressure_callback_is_taken_back() -> None:
    allocator, calls = small(), []
    first = allocator.on_pressure(lambda report: calls.append(1))
    with allocator.on_pressure(lambda report: calls.append(2)):
        with pytest.raises(OutOfMemory):
            allocator.allocate(20 * MIB)
        first.unsubscribe()
        with pytest.raises(OutOfMemory):
            allocator.allocate(20 * MIB)
    with pytest.raises(OutOfMemory):
        allocator.allocate(20 * MIB)
    assert calls == [1, 2, 2]


def test_a_token_names_its_block() -> None:
    allocator, other = small(), small()
    hole, block = allocator.allocate(1024), allocator.allocate(1000, kind="staging")
    token = block.into_token()
    assert not block.is_live
    assert {token: 1}[AllocationToken(*token.parts)] == 1
    hole.free()
    assert allocator.compact().commit() == 1
    found = allocator.block_of(token)
    assert (found.address, found.size, found.requested, found.kind) == (allocator.address_of(token), 1024, 1000, "staging")
    assert found.address.offset == 0
    with allocator.pin_token(token) as pin:
        assert pin.address == found.address
    allocator.record_stream_token(token, 1)
    with pytest.raises(InputError, match="belongs to another allocator"):
        other.free_token(token)
    owner = allocator.adopt(token)
    with pytest.raises(InputError, match="stale|belongs to a handle"):
        allocator.free_token(token)
    owner.free()
    for use in (allocator.free_token, allocator.adopt, allocator.block_of, allocator.address_of, allocator.pin_token):
        with pytest.raises(InputError, match="stale"):
            use(token)
    assert allocator.statistics().allocated_bytes.all.current == 0


def test_a_launch_pins_and_resolves_its_operands() -> None:
    allocator = small(own_regions=["program"])
    hole = allocator.allocate(1024)
    weights, batch = allocator.allocate(4096), allocator.allocate(8192).into_token()
    program = allocator.load_program(1000, 2)
    launch = allocator.launch(program, [weights, (batch, 256, 512)])
    hole.free()
    assert allocator.compact().commit() == 0, "operands stay in their places"
    first, second = launch.operands
    assert (first.flat, first.size) == (allocator.flat_address(weights.address), 4096)
    assert (second.flat, second.size) == (allocator.flat_address(allocator.address_of(batch)) + 256, 512)
    address, corrections = launch.corrections
    words = [int.from_bytes(corrections[at : at + 8], "little") for at in range(0, len(corrections), 8)]
    assert words == [first.flat, 4096, second.flat, 512]
    assert address.region_id == program.address.region_id == launch.program.region_id
    assert [segment and segment[0] for segment in launch.segment_table][: first.segment + 1][-1] == weights.address.region_id
    assert [tile.offset - second.offset for tile in launch.tiles(1, 256, 128)] == [0, 128, 256]
    weights.free()
    assert allocator.statistics().allocation.all.current == 4, "the launch keeps its operand"
    launch.end()
    program.unload()
    allocator.free_token(batch)
    assert allocator.statistics().allocation.all.current == 0


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda a, p, b: a.launch(p, []), "takes 1 operands, and 0 were given"),
        (lambda a, p, b: a.launch(p, [3]), "operand is 3: expected an Allocation, an AllocationToken"),
        (lambda a, p, b: a.launch(p, [(b, 1000, 100)]), "is not a part of a block of"),
        (lambda a, p, b: a.launch(p, [AllocationToken(0, 0)]), "operand 0: the token"),
        (lambda a, p, b: small().launch(p, [b]), "belongs to another allocator"),
        (lambda a, p, b: a.launch(p, [b]).tiles(1, 1, 1), "operand is 1: the launch has no such operand"),
        (lambda a, p, b: a.launch(p, [b]).tiles(0, 0, 1), "tiles of 0 B"),
        (lambda a, p, b: (p.unload(), p.unload()), "the program was unloaded"),
        (lambda a, p, b: a.load_program(-1, 1), "binary is -1: expected a number of bytes"),
        (lambda a, p, b: a.load_program(1, -1), "parameters is -1: expected a number of operands"),
        (lambda a, p, b: a.free_token(3), "token is 3: expected an AllocationToken"),
        (lambda a, p, b: a.subscribe(3), "callback is 3: expected a function"),
        (lambda a, p, b: a.record_history(-1), "limit is -1: expected a number of events"),
        (lambda a, p, b: AllocationToken(-1, 0), "place is -1: expected a number"),
    ],
)
def test_a_wrong_argument_is_named(act: Any, words: str) -> None:
    allocator = small()
    program, block = allocator.load_program(1000, 1), allocator.allocate(1000)
    with pytest.raises(CubeyardError, match=words):
        act(allocator, program, block)


def test_the_history_holds_the_last_events() -> None:
    class Now(Streams):
        def record(self, stream: int) -> int:
            return stream

        def is_complete(self, event: int) -> bool:
            return True

        def wait(self, event: int) -> None:
            pass

    allocator = FlexAllocator(Card(64 * MIB), fallback_sizes=[16 * MIB], streams=Now(), clock=lambda: 5)
    assert allocator.history() == []
    allocator.record_history(100)
    allocator.allocate(1000, stream=2, site=4).free()
    entries = allocator.history()
    assert [entry.action for entry in entries] == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    assert {(entry.size, entry.stream, entry.site, entry.time_us) for entry in entries[1:]} == {(1000, 2, 4, 5)}
    traced = allocator.snapshot().to_dict()["device_traces"][0]
    assert [(event["action"], event["addr"], event["size"]) for event in traced] == [
        (entry.action, entry.address, entry.size) for entry in entries
    ]
    allocator.record_history(0)
    assert allocator.history() == []
