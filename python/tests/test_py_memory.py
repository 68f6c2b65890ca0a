"""`cubeyard.memory`: blocks, devices and streams in Python, threads, leaks, bad input."""

import copy
import doctest
import gc
import importlib
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
import traceback
import weakref

import pytest

memory = pytest.importorskip("cubeyard.memory")
from cubeyard import errors  # noqa: E402
from cubeyard.memory import Address, Card, Device, FlexAllocator, HostMemory, MemoryInfo, Streams  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


class Shelf(Device):
    """A device with regions in a dictionary; functions named in `failing` raise an exception."""

    def __init__(self, total=GIB, granule=None):
        self.total, self.regions, self.next, self.failing = total, {}, 1 << 32, {}
        self._granule, self.committed, self.calls = granule, {}, []

    def _call(self, name):
        self.calls.append(name)
        if name in self.failing:
            raise self.failing[name]

    def info(self):
        self._call("info")
        used = sum(self.regions.values()) + sum(self.committed.values())
        return MemoryInfo(self.total - used, self.total)

    def acquire(self, size):
        self._call("acquire")
        if size > self.total - sum(self.regions.values()):
            return None
        self.next += size
        self.regions[self.next] = size
        return self.next

    def release(self, region_id, size):
        self._call("release")
        self.regions.pop(region_id)
        self.committed = {place: length for place, length in self.committed.items() if place[0] != region_id}

    def granule(self):
        return self._granule

    def reserve(self, size):
        self._call("reserve")
        self.next += size
        self.regions[self.next] = 0
        return self.next

    def commit(self, region_id, offset, size):
        self._call("commit")
        if sum(self.committed.values()) + size > self.total:
            return False
        for start in range(offset, offset + size, self._granule):
            assert (region_id, start) not in self.committed
            self.committed[region_id, start] = self._granule
        return True

    def decommit(self, region_id, offset, size):
        self._call("decommit")
        for start in range(offset, offset + size, self._granule):
            del self.committed[region_id, start]


def small(device, **settings):
    return FlexAllocator(device, fallback_sizes=[64 * MIB], **settings)


def current(allocator, key):
    return allocator.statistics().to_dict()[f"{key}.all.current"]


# Blocks


def test_blocks_are_freed_by_free_with_and_del():
    allocator = FlexAllocator()
    for free in ["free", "with", "del"]:
        block = allocator.allocate(1000)
        assert current(allocator, "allocated_bytes") == 1024
        if free == "free":
            block.free()
        elif free == "with":
            with block:
                pass
        else:
            del block
        assert current(allocator, "allocated_bytes") == 0, free
    assert allocator.statistics().allocation.all.freed == 3


def test_a_freed_block_is_refused_everywhere():
    allocator = FlexAllocator()
    block = allocator.allocate(1000)
    assert block.is_live
    block.free()
    assert not block.is_live and "freed" in repr(block)
    for use in [block.free, block.leak, block.pin, lambda: block.address, lambda: block.record_stream(1)]:
        with pytest.raises(errors.InputError, match="the block was freed before"):
            use()
    with allocator.allocate(1) as twice:
        twice.free()
    assert current(allocator, "allocation") == 0


def test_a_leaked_block_is_freed_by_its_address_once():
    allocator = FlexAllocator()
    address = allocator.allocate(1000).leak()
    assert current(allocator, "allocation") == 1
    allocator.free(address)
    with pytest.raises(errors.InputError, match=r"no live block starts at 0x400000000\+0x0"):
        allocator.free(address)
    with pytest.raises(errors.InputError, match="is in no region of this allocator"):
        allocator.free(Address(7, 0))
    owned = allocator.allocate(1000)
    with pytest.raises(errors.InputError, match="belongs to a handle"):
        allocator.free(owned.address)


def test_addresses_compare_and_hash_by_value():
    first, same, other = Address(1, 2), Address(1, 2), Address(1, 3)
    assert first == same and hash(first) == hash(same) and len({first, same, other}) == 2
    assert first < other and (first.region_id, first.offset) == (1, 2)
    assert str(Address(0x400000000, 0x80)) == "0x400000000+0x80"


def test_alignment_kind_and_stream_reach_the_allocator():
    allocator = FlexAllocator(own_regions=["program"])
    allocator.allocate(100).leak()
    block = allocator.allocate(100, alignment=65536, stream=3, kind="program", site=9)
    assert block.address.offset % 65536 == 0 and block.kind == "program"
    assert len(allocator.regions()) == 2, "programs have regions of their own"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"size": 0}, "size is 0: expected at least 1 byte"),
        ({"size": -1}, r"size is -1: expected a number of bytes, 1 to 2\^64 - 1"),
        ({"size": "a"}, "size is 'a': expected a number of bytes"),
        ({"size": 2**64}, "size is 18446744073709551616"),
        ({"size": 1, "alignment": 3}, "alignment is 3: expected a power of two"),
        ({"size": 1, "alignment": None}, "alignment is None: expected a power of two"),
        ({"size": 1, "stream": -1}, "stream is -1"),
        ({"size": 1, "site": 2**32}, "site is 4294967296"),
        ({"size": 1, "kind": "blob"}, 'kind is "blob": expected one of tensor, program, staging'),
    ],
)
def test_bad_requests_name_argument_value_and_expectation(arguments, text):
    allocator = FlexAllocator()
    with pytest.raises(errors.InputError, match=text):
        allocator.allocate(**arguments)
    assert current(allocator, "allocation") == 0
    allocator.allocate(1)


def test_out_of_memory_has_the_numbers_and_the_text_of_the_report():
    allocator = FlexAllocator(Card(GIB), fallback_sizes=["1GiB"])
    held = [allocator.allocate(256 * MIB) for _ in range(4)]
    held[0].free()
    held[2].free()
    with pytest.raises(errors.OutOfMemory) as caught:
        allocator.allocate(300 * MIB)
    error = caught.value
    assert isinstance(error, MemoryError)
    region = {"size": GIB, "free": 512 * MIB, "largest_free": 256 * MIB, "blocks": 2, "id": 1 << 34}
    expected = {
        "requested": 300 * MIB, "rounded": 300 * MIB, "free": 512 * MIB, "largest_free": 256 * MIB,
        "longest_block": GIB, "pending": 0, "idle": 0, "device_free": 0, "capacity": GIB,
        "shortage": "fragmented", "regions": [region],
    }  # fmt: skip
    assert {key: error.details[key] for key in expected} == expected
    assert str(error).startswith("out of memory: wanted 300.00 MiB (314572800 B")
    assert "memory is fragmented: 512.00 MiB are free in all" in str(error)
    compact = error.details["remedies"][0]
    assert compact.startswith("compact(), which moves 256.00 MiB: 1.00 GiB reserved") and compact in str(error)
    with pytest.raises(errors.OutOfMemory) as caught:
        allocator.allocate(2 * GIB)
    assert caught.value.details["shortage"] == "too_large"
    assert allocator.statistics().num_ooms == 2


@pytest.mark.parametrize(
    "read",
    [str, repr, lambda error: error.args, lambda error: error.details, pickle.dumps, copy.copy,
     traceback.format_exception_only],
)  # fmt: skip
def test_remedies_are_tried_when_they_are_read(read):
    allocator = FlexAllocator(Card(GIB), fallback_sizes=["1GiB"])
    held = [allocator.allocate(256 * MIB) for _ in range(4)]
    held[0].free()
    held[2].free()
    with pytest.raises(errors.OutOfMemory) as caught:
        allocator.allocate(300 * MIB)
    error = caught.value
    assert error._report is not None, "the caller may not read it"
    read(error)
    assert error._report is None
    assert error.args == (str(error),) and "compact(), which moves 256.00 MiB" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.details) == (str(error), error.details) and again.details["remedies"]
    assert json.loads(json.dumps(error.details)) == error.details
    error.args = ("another text",)
    assert str(error) == "another text" and error.details["requested"] == 300 * MIB


# Configuration


def test_configurations_are_texts_mappings_and_keywords():
    text = FlexAllocator(None, "block:best-fit,growth:growable(4GiB),max_regions:3").config
    mapping = FlexAllocator(None, {"block": "best-fit", "growth": "growable(4GiB)", "max_regions": 3}).config
    words = FlexAllocator(block="best-fit", growth="growable(4GiB)", max_regions=3).config
    assert text == mapping == words
    assert (text["block"], text["growth"], text["max_regions"]) == ("best-fit", f"growable({4 * GIB})", 3)
    assert FlexAllocator().config["fallback_sizes"] == [12 * GIB, 8 * GIB, 4 * GIB]


def test_a_preset_is_a_configuration_that_other_keys_change():
    grow = FlexAllocator(preset="grow").config
    assert (grow["growth"], grow["sizes"], grow["block"]) == (f"growable({1024 * GIB})", "fitted", "best-fit")
    changed = FlexAllocator(None, "block:quick-fit", preset="grow", history=7).config
    assert changed == grow | {"block": "quick-fit", "history": 7}
    assert changed == FlexAllocator(None, "history:7,preset:grow,block:quick-fit").config
    assert FlexAllocator(preset="rfc").config == FlexAllocator().config | {"refusal": "lock"}


@pytest.mark.parametrize(("preset", "taken"), [("rfc", 12 * GIB), ("grow", 2 * MIB), ("card", 60 * GIB)])
def test_one_byte_takes_what_its_preset_says(preset, taken):
    allocator = FlexAllocator(Card(60 * GIB), preset=preset)
    block = allocator.allocate(1)
    assert allocator.info().total - allocator.info().free == taken
    block.free()
    allocator.trim()
    assert allocator.info().free == 60 * GIB


def test_a_device_that_refuses_once_is_asked_again():
    for preset, unlocked in [("", True), ("preset:rfc", False)]:
        shelf = Shelf()
        allocator = FlexAllocator(shelf, f"fallback_sizes:[64MiB],{preset}")
        shelf.total = 0
        with pytest.raises(errors.OutOfMemory):
            allocator.allocate(1)
        shelf.total = GIB
        assert allocator.regions_locked
        if not unlocked:
            with pytest.raises(errors.OutOfMemory):
                allocator.allocate(1)
            allocator.unlock_regions()
            assert not allocator.regions_locked
        allocator.allocate(1)


def test_one_statistic_is_that_of_all_statistics():
    allocator = FlexAllocator()
    block = allocator.allocate(1000)
    entries = allocator.statistics().to_dict()
    assert len(entries) == 122 and block.size == 1024
    assert {key: allocator.statistic(key) for key in entries} == entries
    with pytest.raises(errors.InputError, match="key is \"allocated_bytes\": expected a key of"):
        allocator.statistic("allocated_bytes")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: FlexAllocator(preset="rcf"), "config: `preset:rcf`: expected one of rfc, grow, card"),
        (lambda: FlexAllocator(None, "blocks:best-fit"), "config: unknown key `blocks`; the keys are fallback_sizes"),
        (lambda: FlexAllocator(block="worst-fit"), "`block:worst-fit`: expected one of first-fit, best-fit"),
        (lambda: FlexAllocator(max_regions=0), "`max_regions:0`: expected a number from 1 to 1024"),
        (lambda: FlexAllocator(alignment=1.5), "alignment is 1.5: expected a number"),
        (lambda: FlexAllocator(None, 7), "config is 7: expected a string such as"),
        (lambda: FlexAllocator(Shelf(), growth="growable(1GiB)"), "cannot commit memory in granules"),
        (lambda: FlexAllocator("gpu"), "device is 'gpu': expected a Card"),
        (lambda: FlexAllocator(streams=3), "streams is 3: expected Streams"),
        (lambda: FlexAllocator(clock=3), "clock is 3: expected a function"),
        (lambda: Card(-1), "memory is -1: expected a number of bytes"),
        (lambda: Card(1, mode="weird"), 'mode is "weird": expected "physical" or "virtual"'),
        (lambda: Card(1, mode="virtual", table=-1), "table is -1"),
        (lambda: HostMemory("much"), "limit is 'much'"),
        (lambda: FlexAllocator().snapshot(-1), "device is -1: expected a number of a device, 0 to 65535"),
        (lambda: FlexAllocator().free(3), "address is 3: expected an Address"),
        (lambda: HostMemory(1).read((1, 2), 3), "address is (1, 2): expected an Address"),
        (lambda: FlexAllocator().on_pressure(3), "callback is 3: expected a function"),
    ],
)
def test_bad_configurations_name_what_was_wrong(make, text):
    with pytest.raises(errors.InputError, match=re.escape(text)):
        make()


# Addresses


def test_physical_and_virtual_functions_resolve_addresses():
    physical = FlexAllocator(Card(16 * GIB))
    block = physical.allocate(1000)
    assert physical.physical_address(block.address) == block.address.region_id == 1 << 34
    virtual = FlexAllocator(Card(16 * GIB, mode="virtual", table=8), max_regions=4)
    first, second = virtual.allocate(1000), virtual.allocate(1000)
    assert second.address == Address(0, 1024)
    assert virtual.physical_address(second.address) == (1 << 34) + 1024
    [segment, *others] = virtual.segment_table()
    assert (segment.region_id, segment.size) == (0, 12 * GIB) and others == [None] * 7
    assert virtual.flat_address(second.address) == segment.base + 1024
    assert first.is_live
    with pytest.raises(errors.InputError, match="is in no region"):
        virtual.physical_address(Address(5, 0))


def test_host_memory_holds_what_was_written():
    host = HostMemory(64 * MIB)
    allocator = FlexAllocator(host, fallback_sizes=[16 * MIB])
    blocks = [allocator.allocate(1000) for _ in range(3)]
    for number, block in enumerate(blocks):
        host.write(block.address, bytearray([number]) * 1000)
    assert [host.read(block.address, 1000) for block in blocks] == [bytes([number]) * 1000 for number in range(3)]
    with pytest.raises(errors.InputError, match="are outside the memory of this device"):
        host.read(Address(4096, 0), 1)
    with pytest.raises(errors.InputError, match="are outside the memory of this device"):
        host.write(Address(blocks[0].address.region_id, 16 * MIB - 1), b"ab")
    address = blocks[0].address
    blocks.clear()
    del block
    allocator.trim()
    assert host.info() == (64 * MIB, 64 * MIB)
    with pytest.raises(errors.InputError):
        host.read(address, 1)


# Devices in Python


def test_a_device_in_python_gives_and_gets_back_every_region():
    shelf = Shelf()
    allocator = small(shelf)
    blocks = [allocator.allocate(40 * MIB) for _ in range(3)]
    assert sorted(shelf.regions) == [region.id for region in allocator.regions()]
    assert allocator.info() == (GIB - 3 * 64 * MIB, GIB)
    del blocks[1]
    assert allocator.trim() == 64 * MIB and len(shelf.regions) == 2
    blocks.clear()
    del allocator
    assert shelf.regions == {}, "the end of the allocator gives the rest back"


def test_a_growable_device_in_python_commits_and_decommits():
    shelf = Shelf(granule=2 * MIB)
    allocator = FlexAllocator(shelf, growth="growable(1GiB)", block="best-fit")
    block = allocator.allocate(5 * MIB)
    assert sum(shelf.committed.values()) == 6 * MIB == current(allocator, "reserved_bytes")
    block.free()
    assert allocator.trim() == 6 * MIB and shelf.committed == {}


@pytest.mark.parametrize("function", ["acquire", "reserve", "commit"])
def test_an_exception_of_a_device_is_the_cause_and_the_allocator_goes_on(function):
    shelf = Shelf(granule=2 * MIB)
    growth = "fixed" if function == "acquire" else "growable(1GiB)"
    allocator = small(shelf, growth=growth, release="when_idle(0)")
    shelf.failing[function] = OSError("the cable is out")
    with pytest.raises(errors.DeviceError, match=rf"{function}\(\) of the device raised OSError: the cable is out") as caught:
        allocator.allocate(MIB)
    assert caught.value.__cause__ is shelf.failing[function]
    assert current(allocator, "allocation") == 0
    assert shelf.calls.count(function) == 1, "it was not asked again in the same call"
    shelf.failing.clear()
    with allocator.allocate(MIB) as block:
        assert block.size == MIB
    allocator.trim()
    assert shelf.regions == {} and shelf.committed == {}


def test_exceptions_of_release_and_info_are_raised_by_the_call_that_made_them():
    shelf = Shelf()
    allocator = small(shelf, release="when_idle(0)")
    block = allocator.allocate(MIB)
    shelf.failing["release"] = ValueError("no")
    with pytest.raises(errors.DeviceError, match="release") as caught:
        block.free()
    assert isinstance(caught.value.__cause__, ValueError) and not block.is_live
    shelf.failing = {"info": ZeroDivisionError("x")}
    with pytest.raises(errors.DeviceError, match="info"):
        allocator.info()
    shelf.failing.clear()
    allocator.allocate(MIB).free()


def test_an_exception_in_a_block_that_is_dropped_goes_to_the_hook(monkeypatch):
    shelf, seen = Shelf(), []
    allocator = small(shelf, release="when_idle(0)")
    block = allocator.allocate(MIB)
    shelf.failing["release"] = ValueError("no")
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: seen.append(raised.exc_value))
    del block
    assert [type(error) for error in seen] == [errors.DeviceError]


def test_a_block_dropped_while_an_exception_is_on_its_way_leaves_it_alone():
    allocator = small(Shelf(), release="when_idle(0)")

    def fails():
        block = allocator.allocate(MIB)  # noqa: F841
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert current(allocator, "allocation") == 0


def test_keyboard_interrupts_in_a_device_stay_what_they_are():
    shelf = Shelf()
    shelf.failing["acquire"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        small(shelf).allocate(1)


@pytest.mark.parametrize(
    ("function", "answer", "text"),
    [
        ("acquire", "here", "acquire() returned 'here': expected the id of a region"),
        ("acquire", -1, "acquire() returned -1: expected the id of a region"),
        ("info", 3, "info() returned 3: expected a pair of numbers of bytes"),
        ("table", "x", "table() returned 'x': expected a pair, the numbers of entries and of free entries, or None"),
    ],
)
def test_answers_that_cannot_be_used_are_errors_of_the_device(function, answer, text):
    shelf = Shelf()
    setattr(shelf, function, lambda *_: answer)
    with pytest.raises(errors.DeviceError) as caught:
        small(shelf).allocate(2 * GIB if function == "info" else 1)
    assert text in str(caught.value.__cause__)


def test_a_device_that_gives_a_region_twice_is_refused():
    shelf = Shelf()
    shelf.acquire = lambda size: 7
    shelf.release = lambda region_id, size: None
    allocator = small(shelf)
    allocator.allocate(60 * MIB).leak()
    with pytest.raises(errors.DeviceError, match="expected the id of a new region"):
        allocator.allocate(60 * MIB)


def test_bad_granules_and_modes_are_refused_when_the_allocator_is_made():
    with pytest.raises(errors.InputError, match="granule"):
        small(Shelf(granule=3))
    shelf = Shelf()
    shelf.mode = lambda: "odd"
    with pytest.raises(errors.InputError, match="mode"):
        small(shelf)
    with pytest.raises(TypeError, match="abstract"):
        Device()


def test_a_device_may_use_its_allocator_but_not_ask_for_regions():
    class Nosy(Shelf):
        def acquire(self, size):
            if allocator is not None and self.regions:
                self.seen.append(current(allocator, "allocation"))
                self.held.pop().free()
                self.held.append(allocator.allocate(128))
                with pytest.raises(errors.BusyError):
                    allocator.allocate(64 * MIB)
            return super().acquire(size)

    allocator, device = None, Nosy()
    device.seen, device.held = [], []
    allocator = small(device)
    device.held.append(allocator.allocate(128))
    allocator.allocate(64 * MIB).leak()
    assert device.seen == [1] and device.held[0].is_live


# Pressure, trims, compaction, streams


def test_callbacks_make_room_and_see_the_report():
    allocator = FlexAllocator(Card(GIB), fallback_sizes=["1GiB"])
    cache, seen = [allocator.allocate(512 * MIB) for _ in range(2)], []

    def evict(report):
        seen.append((type(report), report.details["requested"], report.details["shortage"]))
        cache.pop().free()

    allocator.on_pressure(evict)
    with allocator.allocate(512 * MIB):
        pass
    assert seen == [(errors.OutOfMemory, 512 * MIB, "full")]
    allocator.on_pressure(lambda report: 1 / 0)
    allocator.allocate(512 * MIB).leak()
    with pytest.raises(ZeroDivisionError):
        allocator.allocate(512 * MIB)
    assert current(allocator, "allocation") == 1, "what the first callback made room for is not kept"


def test_compaction_moves_the_contents_with_the_blocks():
    host = HostMemory(64 * MIB)
    allocator = FlexAllocator(host, fallback_sizes=[16 * MIB])
    blocks = [allocator.allocate(1000) for _ in range(4)]
    for number, block in enumerate(blocks):
        host.write(block.address, bytes([number]) * 1000)
    blocks[0].free()
    pinned = blocks[3].pin()
    plan = allocator.compact()
    assert [size for *_, size in plan.moves] == [1000]
    for source, target, size in plan.moves:
        host.write(target, host.read(source, size))
    assert (len(plan), plan.commit()) == (1, 1)
    assert [host.read(block.address, 1)[0] for block in blocks[1:]] == [1, 2, 3]
    assert sorted(block.address.offset for block in blocks[1:]) == [0, 1024, 3072]
    for again in [plan.commit, plan.abandon]:
        with pytest.raises(errors.InputError, match="committed or abandoned before"):
            again()
    pinned.release()
    with pytest.raises(errors.InputError, match="released before"):
        pinned.release()


def test_a_plan_that_is_dropped_changes_nothing():
    allocator = FlexAllocator()
    first, second = allocator.allocate(1024), allocator.allocate(1024)
    first.free()
    plan = allocator.compact()
    assert len(plan) == 1
    del plan
    assert second.address.offset == 1024 and current(allocator, "active_bytes") == 1024


def test_a_pinned_block_outlives_its_free():
    allocator = FlexAllocator()
    block = allocator.allocate(1000)
    with block.pin() as pin:
        block.free()
        assert (pin.size, pin.address.offset) == (1024, 0)
        assert current(allocator, "active_bytes") == 1024
    assert current(allocator, "active_bytes") == 0


class Queues(Streams):
    """Streams that pass events when `done` says so."""

    def __init__(self):
        self.given, self.done, self.waited, self.failing = {}, {}, [], None

    def record(self, stream):
        if self.failing:
            raise self.failing
        self.given[stream] = self.given.get(stream, 0) + 1
        return (stream, self.given[stream])

    def is_complete(self, event):
        return self.done.get(event[0], 0) >= event[1]

    def wait(self, event):
        self.waited.append(event)
        self.done[event[0]] = max(self.done.get(event[0], 0), event[1])


def test_a_block_waits_for_the_streams_that_use_it():
    queues = Queues()
    allocator = FlexAllocator(streams=queues)
    block = allocator.allocate(1000)
    block.record_stream(5)
    block.free()
    statistics = allocator.statistics()
    assert (statistics.allocated_bytes.all.current, statistics.active_bytes.all.current) == (0, 1024)
    queues.done = {0: 1}
    assert current(allocator, "active_bytes") == 1024, "stream 5 has not passed"
    allocator.synchronize()
    assert (5, 1) in queues.waited and current(allocator, "active_bytes") == 0


def test_streams_that_raise_keep_the_block_until_they_work():
    queues = Queues()
    allocator = FlexAllocator(streams=queues)
    block = allocator.allocate(1000)
    block.record_stream(5)
    queues.failing = RuntimeError("lost")
    with pytest.raises(errors.DeviceError, match="record") as caught:
        block.free()
    assert caught.value.__cause__ is queues.failing
    assert current(allocator, "active_bytes") == 1024
    queues.failing = None
    allocator.synchronize()
    assert current(allocator, "active_bytes") == 0


# Statistics and snapshots


def test_statistics_have_pytorchs_keys():
    allocator = FlexAllocator()
    blocks = [allocator.allocate(1000), allocator.allocate(2 * MIB)]
    statistics = allocator.statistics()
    entries = statistics.to_dict()
    assert len(entries) == 122 and entries["max_split_size"] == -1
    assert statistics.allocated_bytes.large_pool.current == 2 * MIB == entries["allocated_bytes.large_pool.current"]
    assert statistics.num_device_alloc == entries["num_device_alloc"] == 1
    blocks.clear()
    allocator.reset_peak_statistics()
    allocator.reset_accumulated_statistics()
    cleared = allocator.statistics()
    assert (cleared.allocation.all.peak, cleared.allocation.all.freed) == (0, 0)


def test_a_snapshot_is_a_pickle_of_plain_data_with_our_figures(tmp_path):
    allocator = FlexAllocator(history=100, clock=iter(range(1000)).__next__)
    kept, freed = allocator.allocate(1000), allocator.allocate(3 * MIB)
    freed.free()
    snapshot = allocator.snapshot(device=1)
    snapshot.save(tmp_path / "snapshot.pickle")
    data = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert data == snapshot.to_dict()
    [segment] = data["segments"]
    assert (segment["device"], segment["allocated_size"]) == (1, 1024)
    assert segment["total_size"] == current(allocator, "reserved_bytes")
    assert data["device_traces"][0] == [] and kept.is_live
    events = data["device_traces"][1]
    assert [event["action"] for event in events] == [
        "segment_alloc", "alloc", "alloc", "free_requested", "free_completed"
    ]  # fmt: skip
    assert sorted(event["time_us"] for event in events) == [event["time_us"] for event in events]


def test_pytorchs_viewer_reads_a_snapshot_made_in_python(viewer, tmp_path):
    allocator = FlexAllocator(history=100)
    kept = allocator.allocate(3 * MIB)
    allocator.allocate(5 * MIB).free()
    allocator.snapshot().save(tmp_path / "snapshot.pickle")
    text = viewer.run("stats", tmp_path / "snapshot.pickle")
    assert "total_allocated: 3.0MiB" in text and kept.is_live
    assert viewer.run("trace", tmp_path / "snapshot.pickle").count("cudaMalloc(") == 1


@pytest.mark.parametrize("name", ["", "._allocator", "._device", "._statistics"])
def test_examples_in_docstrings_run(name):
    done = doctest.testmod(importlib.import_module(f"cubeyard.memory{name}"))
    assert done.failed == 0 and done.attempted > 0


def test_examples_of_the_native_base_run():
    [base] = FlexAllocator.__bases__
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder(exclude_empty=True).find(base, module=sys.modules[base.__module__]):
        runner.run(example)
    done = runner.summarize()
    assert done.failed == 0 and done.attempted > 5


# Threads, lifetimes, forks


@pytest.mark.parametrize("region", ["load-balancing", "thread-home"])
@pytest.mark.parametrize("python", [False, True], ids=["card", "python"])
def test_threads_hammer_one_allocator(region, python):
    device = Shelf(8 * GIB) if python else Card(8 * GIB)
    allocator = small(device, region=region, release="when_idle(64MiB)", block="best-fit", max_regions=64)
    wrong, shared, lock = [], [], threading.Lock()

    def work(seed):
        try:
            mine = []
            for step in range(400):
                size = (seed * 7919 + step * 104729) % (3 * MIB) + 1
                mine.append(allocator.allocate(size))
                assert mine[-1].size >= size
                if step % 3 == 0:
                    mine.pop(step % len(mine)).free()
                if step % 5 == 0 and mine:
                    with lock:
                        shared.append(mine.pop())
                if step % 7 == 0:
                    with lock:
                        taken = shared.pop() if shared else None
                    del taken
                if step % 50 == 0:
                    allocator.statistics()
                    allocator.trim()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    assert wrong == []
    shared.clear()
    allocator.trim()
    assert current(allocator, "active_bytes") == 0
    assert allocator.info() == (8 * GIB, 8 * GIB)


def test_one_of_many_threads_frees_a_block():
    allocator = FlexAllocator()
    for _ in range(50):
        block, outcomes = allocator.allocate(1000), []

        def free(block=block, outcomes=outcomes):
            try:
                block.free()
                outcomes.append("freed")
            except errors.InputError:
                outcomes.append("refused")

        threads = [threading.Thread(target=free) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["freed"] + ["refused"] * 3
    assert current(allocator, "allocation") == 0


def test_cycles_of_allocator_device_callback_and_blocks_are_collected():
    shelf = Shelf()
    allocator = small(shelf)
    allocator.on_pressure(lambda report: cache.clear())
    cache = [allocator.allocate(MIB)]
    shelf.allocator, shelf.cache = allocator, cache
    gone = weakref.ref(shelf)
    regions = shelf.regions
    del shelf, allocator, cache
    gc.collect()
    assert gone() is None
    assert len(regions) <= 1, "a device that is garbage itself need not get its regions back"


def test_blocks_keep_their_allocator_and_device_alive():
    shelf = Shelf()
    block = small(shelf).allocate(MIB)
    gc.collect()
    assert block.address.region_id in shelf.regions
    block.free()
    regions = shelf.regions
    del block
    assert regions == {}


def test_nothing_is_left_behind_by_many_allocators():
    def objects():
        gc.collect()
        return len(gc.get_objects())

    def once():
        shelf = Shelf()
        allocator = small(shelf, history=10)
        shelf.failing["acquire"] = OSError()
        with pytest.raises(errors.DeviceError):
            allocator.allocate(1)
        shelf.failing.clear()
        block = allocator.allocate(1000)
        pin, plan = block.pin(), allocator.compact()
        with pytest.raises(errors.OutOfMemory):
            allocator.allocate(GIB)
        allocator.snapshot().to_dict()
        assert pin.size and plan is not None

    for _ in range(3):
        once()
    before = objects()
    for _ in range(20):
        once()
    assert objects() - before < 20


def test_the_child_of_a_fork_is_refused_and_ends():
    if not hasattr(os, "fork"):
        pytest.skip("no forks here")
    script = """
import os
from cubeyard import errors
from cubeyard.memory import FlexAllocator
allocator = FlexAllocator()
block = allocator.allocate(1000)
child = os.fork()
if child == 0:
    try:
        allocator.allocate(1)
    except errors.BusyError as error:
        assert "made before a fork" in str(error)
        del block
        FlexAllocator().allocate(1).free()
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
block.free()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_allocator_that_lives_to_the_end_of_the_interpreter_is_no_trouble():
    script = """
from cubeyard.memory import Device, FlexAllocator
class Endless(Device):
    def acquire(self, size): return 1
    def release(self, region_id, size): pass
    def info(self): return (1 << 40, 1 << 40)
allocator = FlexAllocator(Endless())
block = allocator.allocate(1000)
allocator.on_pressure(lambda report: None)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True)
    assert done.stderr == ""


def test_the_module_is_loaded_in_spawned_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_allocated_elsewhere) == 1024


def _allocated_elsewhere():
    return FlexAllocator().allocate(1000).size
