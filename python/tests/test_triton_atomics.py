"""Atomic operations on tiles whose lanes share addresses: every lane counts, in row-major order.

CUBEYARD_TRITON_ATOMICS is the number of random cases.
"""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton.language as tl

import cubeyard
import cubeyard.triton

COUNT = int(os.environ.get("CUBEYARD_TRITON_ATOMICS", "300"))
BATCH = 50


@triton.jit
def change(memory, index, value, compared, chosen, before, M: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    at = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    place, new, wanted = memory + tl.load(index + at), tl.load(value + at), tl.load(chosen + at) != 0
    if KIND == "add":
        old = tl.atomic_add(place, new, mask=wanted)
    elif KIND == "max":
        old = tl.atomic_max(place, new, mask=wanted)
    elif KIND == "min":
        old = tl.atomic_min(place, new, mask=wanted)
    elif KIND == "and":
        old = tl.atomic_and(place, new, mask=wanted)
    elif KIND == "or":
        old = tl.atomic_or(place, new, mask=wanted)
    elif KIND == "xor":
        old = tl.atomic_xor(place, new, mask=wanted)
    elif KIND == "xchg":
        old = tl.atomic_xchg(place, new, mask=wanted)
    else:
        old = tl.atomic_cas(place, tl.load(compared + at), new)
    tl.store(before + at, old)


@triton.jit
def count(x, bins, BLOCK: tl.constexpr):
    tl.atomic_add(bins + tl.load(x + tl.arange(0, BLOCK)), 1)


@triton.jit
def exchange_loaded(memory, expected, value, before):
    tl.store(before, tl.atomic_cas(memory, tl.load(expected), tl.load(value)))


@triton.jit
def known_lanes(memory, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(memory + at // 4, at, mask=at < BLOCK - 1)


@triton.jit
def greatest_of_loaded(memory, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.atomic_max(memory + at // 4, value, mask=value > 3)


INTEGERS = (np.int32, np.uint32, np.int64, np.uint64)
FLOATS = (np.float32, np.float64)
TYPES = {
    "add": (*INTEGERS, np.float16, *FLOATS), "max": (*INTEGERS, *FLOATS), "min": (*INTEGERS, *FLOATS), "and": INTEGERS,
    "or": INTEGERS, "xor": INTEGERS, "xchg": (*INTEGERS, *FLOATS), "cas": (*INTEGERS, np.int16, *FLOATS),
}  # fmt: skip
COMMUTE = ("add", "max", "min", "and", "or", "xor")
ORDER = {"key": lambda number: (number, not np.signbit(number))}
"""Order of numbers in which -0.0 is below 0.0."""
COMBINED = {
    "add": lambda old, new: old + new, "max": lambda old, new: max(old, new, **ORDER),
    "min": lambda old, new: min(old, new, **ORDER), "and": lambda old, new: old & new,
    "or": lambda old, new: old | new, "xor": lambda old, new: old ^ new, "xchg": lambda old, new: new,
}  # fmt: skip


def lanes_in_order(kind, value):
    """Lanes of a program in the order of their changes: Triton makes two operations of a float's maximum, by its sign."""
    lanes = range(len(value))
    if kind in ("max", "min") and value.dtype.kind == "f":
        return [*(at for at in lanes if not np.signbit(value[at])), *(at for at in lanes if np.signbit(value[at]))]
    return lanes


def one_by_one(kind, memory, index, value, compared, chosen):
    """Changes memory lane by lane; returns the elements before each change, 0 for lanes that change nothing."""
    before = np.zeros_like(value)
    with np.errstate(over="ignore"):
        for at in lanes_in_order(kind, value):
            if kind != "cas" and not chosen[at]:
                continue
            before[at] = memory[index[at]]
            if kind != "cas":
                memory[index[at]] = COMBINED[kind](before[at], value[at])
            elif before[at].tobytes() == compared[at].tobytes():
                memory[index[at]] = value[at]
    return before


def numbers(rng, dtype, shape):
    """Random elements: few different ones, so that exchanges find what they compare, or any."""
    if np.dtype(dtype).kind == "f":
        few = np.array([0.0, -0.0, 1.0, -2.5])
        return (rng.choice(few, shape) if rng.random() < 0.5 else rng.standard_normal(shape) * 100).astype(dtype)
    if rng.random() < 0.5:
        return rng.integers(0, 4, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def case_of(seed):
    rng = np.random.default_rng(seed)
    kind = list(TYPES)[seed % len(TYPES)]
    dtype = TYPES[kind][int(rng.integers(len(TYPES[kind])))]
    m, n = 2 ** int(rng.integers(0, 4)), 2 ** int(rng.integers(0, 6))
    programs = int(rng.choice([1, 1, 3])) if kind in COMMUTE and np.dtype(dtype).kind != "f" else 1
    lanes = m * n * programs
    memory = numbers(rng, dtype, int(rng.integers(1, 20)))
    index = rng.integers(0, len(memory), lanes).astype(np.int32)
    chosen = (rng.random(lanes) < rng.choice([0.0, 0.5, 1.0, 1.0])).astype(np.int8)
    return kind, (m, n), programs, memory, index, numbers(rng, dtype, lanes), numbers(rng, dtype, lanes), chosen


def assert_equal(found, wanted, what):
    assert found.tobytes() == wanted.tobytes(), (what, found, wanted)


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_changes_are_those_of_one_lane_after_the_other(first):
    repeated = 0
    for seed in range(first, min(first + BATCH, COUNT)):
        kind, (m, n), programs, memory, index, value, compared, chosen = case_of(seed)
        found, before = memory.copy(), np.zeros_like(value)
        change[(programs,)](found, index, value, compared, chosen, before, M=m, N=n, KIND=kind)
        wanted = memory.copy()
        olds = one_by_one(kind, wanted, index, value, compared, chosen)
        assert_equal(found, wanted, (seed, kind))
        if programs == 1:
            active = slice(None) if kind == "cas" else chosen != 0
            assert_equal(before[active], olds[active], (seed, kind))
        elif kind == "add":
            assert_a_chain(memory, found, index, value, before, chosen)
        repeated += len(set(index.tolist())) < len(index)
    assert repeated > BATCH // 2


def assert_a_chain(memory, found, index, value, before, chosen):
    """Programs take turns in any order: at each address, the changes follow each other from the first element to the last."""
    with np.errstate(over="ignore"):
        for place in range(len(memory)):
            lanes = np.flatnonzero((index == place) & (chosen != 0))
            starts = sorted([*before[lanes].tolist(), found[place].item()])
            ends = sorted([memory[place].item(), *(before[lanes] + value[lanes]).tolist()])
            assert starts == ends


def test_a_histogram_counts_every_lane():
    # Lanes of one address read the same element and wrote over each other: [1 1 1 1].
    bins = np.zeros(4, np.int32)
    count[(1,)](np.array([0, 0, 0, 1, 1, 2, 3, 3], np.int32), bins, BLOCK=8)
    assert bins.tolist() == [3, 2, 1, 2]


def test_an_exchange_compares_with_a_loaded_element():
    # The loaded number was not waited for, and equalled nothing.
    memory, before = np.array([7], np.int32), np.zeros(1, np.int32)
    exchange_loaded[(1,)](memory, np.array([7], np.int32), np.array([9], np.int32), before)
    assert memory[0] == 9 and before[0] == 7


def test_lanes_that_share_addresses_take_turns_without_data_too():
    times = {}
    for data in (True, False):
        memory = np.zeros(8, np.int32)
        with cubeyard.triton.record(data=data) as run:
            known_lanes[(1,)](memory, BLOCK=32)
        times[data] = run.launches[0].kernel_ns
        wanted = np.bincount(np.arange(31) // 4, np.arange(31))
        assert (memory == (wanted if data else 0)).all()
    with cubeyard.triton.record(data=False) as run:
        known_lanes[(1,)](np.zeros(8, np.int32), BLOCK=4)
    assert times[False] > 2 * run.launches[0].kernel_ns


def test_a_mask_of_loaded_values_is_refused_without_data():
    # The recording waited for elements that there are not: an AssertionError.
    memory, x = np.zeros(8, np.int32), np.arange(32, dtype=np.int32)
    with cubeyard.triton.record(data=False), pytest.raises(cubeyard.errors.InputError, match=r"test_triton_atomics\.py:\d+.*data=True"):
        greatest_of_loaded[(1,)](memory, x, BLOCK=32)
    greatest_of_loaded[(1,)](memory, x, BLOCK=32)
    assert memory.tolist() == [0, *range(7, 32, 4)]


@triton.jit
def locked(lock, total, x, SEM: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * BLOCK + at)
    while tl.atomic_cas(lock, 0, 1, sem=SEM) == 1:
        pass
    tl.store(total + at, tl.load(total + at) + value)
    tl.atomic_xchg(lock, 0, sem=SEM)


@triton.jit
def careless(counter, total, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(counter, 1)
    tl.store(total + at, tl.load(x + tl.program_id(0) * BLOCK + at))


@triton.jit
def both_ways(counter, out):
    tl.atomic_add(counter, 1)
    tl.store(out + tl.program_id(0), tl.load(counter))


@triton.jit
def last_adds_up(parts, counter, total, x, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    pid = tl.program_id(0)
    tl.store(parts + pid * BLOCK + at, tl.load(x + pid * BLOCK + at) * 2)
    if tl.atomic_add(counter, 1) == PROGRAMS - 1:
        rows = tl.arange(0, PROGRAMS)[:, None] * BLOCK + at[None, :]
        tl.store(total + at, tl.sum(tl.load(parts + rows), 0))


def findings_of(kernel, programs, *given, topology=None, **named):
    with cubeyard.triton.record(topology=topology) as run:
        kernel[(programs,)](*given, **named)
    return [finding["what"] for finding in run.launches[0].findings], run.launches[0]


@pytest.mark.parametrize("topology", [None, {"pe": {"core": {"atomics": "acknowledged"}}}])
def test_a_lock_orders_the_accesses_that_it_guards(topology):
    x, total = np.arange(16 * 32, dtype=np.float32), np.zeros(32, np.float32)
    found, _ = findings_of(locked, 16, np.zeros(1, np.int32), total, x, SEM="acq_rel", BLOCK=32, topology=topology)
    assert found == []
    np.testing.assert_array_equal(total, x.reshape(16, 32).sum(0))
    found, _ = findings_of(last_adds_up, 16, np.zeros_like(x), np.zeros(1, np.int32), total, x, PROGRAMS=16, BLOCK=32, topology=topology)
    assert found == []
    np.testing.assert_array_equal(total, 2 * x.reshape(16, 32).sum(0))


def test_accesses_that_atomic_operations_do_not_order_are_races():
    x, total = np.arange(16 * 32, dtype=np.float32), np.zeros(32, np.float32)
    found, _ = findings_of(locked, 16, np.zeros(1, np.int32), total, x, SEM="relaxed", BLOCK=32)
    assert found and all(what.endswith("with no order between the two") for what in found)
    found, _ = findings_of(careless, 16, np.zeros(1, np.int32), total, x, BLOCK=32)
    assert any("store f32[32]" in what for what in found), found
    found, _ = findings_of(both_ways, 16, np.zeros(1, np.int32), np.zeros(16, np.int32))
    assert any("load i32[]" in what for what in found), found


def test_atomic_operations_alone_are_no_races():
    found, _ = findings_of(known_lanes, 16, np.zeros(8, np.int32), BLOCK=32)
    assert found == []


def test_what_an_atomic_operation_costs_is_a_key_of_the_topology():
    times = {}
    for atomics in ("read_back", "acknowledged"):
        memory = np.zeros(8, np.int32)
        found, run = findings_of(known_lanes, 16, memory, BLOCK=32, topology={"pe": {"core": {"atomics": atomics}}})
        assert found == []
        assert (memory == 16 * np.bincount(np.arange(31) // 4, np.arange(31))).all()
        times[atomics] = run.kernel_ns
    _, run = findings_of(known_lanes, 16, np.zeros(8, np.int32), BLOCK=32)
    assert times["acknowledged"] < times["read_back"] == run.kernel_ns
    with pytest.raises(cubeyard.CubeyardError, match=r"pe.core.atomics.*read_back"):
        cubeyard.Topology({"pe": {"core": {"atomics": "none"}}})


@triton.jit
def handed_on(flag, data, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data + at, at * 3)
        tl.atomic_store(flag, 7)
    else:
        tl.atomic_poll(flag, 7)
        tl.store(out + at, tl.load(data + at) + tl.atomic_load(flag))


@triton.jit
def loaded_atomically(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_store(out + at // 2, tl.atomic_load(x + at, mask=at % 3 != 0), mask=at != 5)


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="new in Triton 3.9")
def test_atomic_loads_stores_and_polls_order_programs():
    data, out = np.zeros(32, np.int32), np.zeros(32, np.int32)
    found, _ = findings_of(handed_on, 2, np.zeros(1, np.int32), data, out, BLOCK=32)
    assert found == [] and (out == 3 * np.arange(32) + 7).all()
    x, out = np.arange(1, 17, dtype=np.int64), np.zeros(8, np.int64)
    loaded_atomically[(1,)](x, out, BLOCK=16)
    wanted = np.zeros(8, np.int64)
    for at in (at for at in range(16) if at != 5):
        wanted[at // 2] = x[at] if at % 3 else 0
    assert out.tolist() == wanted.tolist()
