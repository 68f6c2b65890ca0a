"""`cubeyard.memory`: pools and tags, as arguments and in `with` blocks."""

import gc
import random
import threading

import pytest

pytest.importorskip("cubeyard.memory")
from cubeyard import errors  # noqa: E402
from cubeyard.memory import Card, FlexAllocator  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


def small(**settings):
    return FlexAllocator(Card(64 * MIB), fallback_sizes=["16MiB"], **settings)


# Pools


def test_blocks_of_a_pool_lie_in_its_regions():
    allocator = small()
    pool = allocator.pool("graph")
    ordinary = allocator.allocate(MIB)
    blocks = [pool.allocate(MIB), allocator.allocate(MIB, pool=pool)]
    with pool as entered:
        assert entered is pool
        blocks.append(allocator.allocate(MIB))
    again = allocator.allocate(MIB)
    assert {block.address.region_id for block in blocks}.isdisjoint({ordinary.address.region_id, again.address.region_id})
    assert pool.statistics().allocated_bytes.all.current == pool.statistic("allocated_bytes.all.current") == 3 * MIB
    figures = {figures.name: figures for figures in allocator.pools()}
    assert (figures["default"].allocated, figures["graph"].allocated, figures["graph"].id) == (2 * MIB, 3 * MIB, pool.id)
    assert sum(figures.reserved for figures in figures.values()) == allocator.statistics().reserved_bytes.all.current
    assert "pool `graph`: 3 blocks, 3.00 MiB allocated" in repr(pool)


def test_a_limit_is_named_and_can_be_changed():
    allocator = small()
    pool = allocator.pool("graph", limit=16 * MIB)
    held = [pool.allocate(10 * MIB)]
    with pytest.raises(errors.OutOfMemory) as caught:
        pool.allocate(10 * MIB)
    assert caught.value.details["pool"] == "graph" and "pool `graph`" in str(caught.value)
    assert pool.limit == 16 * MIB
    pool.limit = None
    assert pool.limit is None
    held.append(pool.allocate(10 * MIB))
    held.clear()
    assert pool.trim() == 32 * MIB
    with pytest.raises(errors.InputError, match="limit is -1"):
        pool.limit = -1


def test_a_pool_that_is_gone_returns_its_memory():
    allocator = small()
    pool = allocator.pool("phase")
    block = pool.allocate(MIB)
    del pool
    gc.collect()
    assert [(figures.name, figures.is_closed) for figures in allocator.pools()] == [("default", False), ("phase", True)]
    block.free()
    assert allocator.info().free == 64 * MIB and len(allocator.pools()) == 1


def test_with_blocks_nest_and_belong_to_a_thread():
    allocator, other = small(), small()
    outer, inner, foreign = allocator.pool("outer"), allocator.pool("inner"), other.pool("foreign")
    held, elsewhere = [], []
    with outer, inner, foreign:
        held.append(allocator.allocate(MIB))
        thread = threading.Thread(target=lambda: elsewhere.append(allocator.allocate(MIB)))
        thread.start()
        thread.join()
    with outer:
        with pytest.raises(ZeroDivisionError), inner:
            held.append(allocator.allocate(MIB))
            1 / 0  # noqa: B018
        held.append(allocator.allocate(MIB))
    allocated = {figures.name: figures.allocated for figures in allocator.pools()}
    assert allocated == {"default": MIB, "outer": MIB, "inner": 2 * MIB}
    assert foreign.statistic("allocated_bytes.all.current") == 0
    with pytest.raises(errors.InputError, match="not inside its `with` block"):
        inner.__exit__(None, None, None)


def test_random_with_blocks_route_as_a_list_does():
    """The pool in effect is the last one entered and not left, whatever the order in which they are left."""
    rng, allocator = random.Random(5), FlexAllocator(Card(8 * GIB), fallback_sizes=["64MiB"], max_regions=64)
    pools = [allocator.pool(str(number)) for number in range(4)]
    entered, expected, held = [], {pool.name: 0 for pool in pools} | {"default": 0}, []
    for _ in range(500):
        step = rng.random()
        if step < 0.3:
            entered.append(rng.choice(pools))
            entered[-1].__enter__()
        elif step < 0.6 and entered:
            pool = rng.choice(entered)
            pool.__exit__(None, None, None)
            del entered[len(entered) - 1 - entered[::-1].index(pool)]
        else:
            held.append(allocator.allocate(1024))
            expected[entered[-1].name if entered else "default"] += 1024
    assert {figures.name: figures.allocated for figures in allocator.pools()} == expected
    for pool in entered:
        pool.__exit__(None, None, None)


# Tags


def test_a_hard_budget_refuses_and_a_soft_one_notifies():
    allocator = small()
    cache = allocator.tag("cache", soft=2 * MIB, hard=4 * MIB)
    reports, events = [], []
    allocator.on_pressure(lambda report: reports.append(report.details))
    with allocator.subscribe(events.append), cache:
        first, second = allocator.allocate(2 * MIB), allocator.allocate(MIB)
    (event,) = [event for event in events if event.action == "budget_exceeded"]
    assert (event.tag, event.size) == (cache.id, 3 * MIB)
    assert [(report["tag"], report["budget"]) for report in reports] == [("cache", 2 * MIB)]
    with pytest.raises(errors.BudgetExceeded) as caught:
        allocator.allocate(2 * MIB, tag=cache)
    expected = {"tag": "cache", "budget": 4 * MIB, "allocated": 3 * MIB, "requested": 2 * MIB, "rounded": 2 * MIB}
    assert caught.value.details == expected and isinstance(caught.value, errors.OutOfMemory)
    assert "tag `cache` is over its hard budget of 4.00 MiB" in str(caught.value)
    assert (cache.name, cache.allocated, cache.peak, cache.blocks) == ("cache", 3 * MIB, 3 * MIB, 2)
    first.free()
    third = allocator.allocate(2 * MIB, tag=cache)
    assert (cache.soft, cache.hard) == (2 * MIB, 4 * MIB)
    cache.set_budget()
    assert (cache.soft, cache.hard) == (None, None)
    del second, third
    assert cache.allocated == 0


def test_a_name_is_one_tag():
    allocator = small()
    first, second = allocator.tag("cache", hard=MIB), allocator.tag("cache")
    assert first.id == second.id and second.hard == MIB
    allocator.tag("weights")
    assert [tag.name for tag in allocator.tags()] == ["cache", "weights"]
    pool = allocator.pool("pool")
    with first, pool:
        block = pool.allocate(1024)
    assert first.allocated == pool.statistic("allocated_bytes.all.current") == block.size


def test_pools_and_tags_of_another_allocator_are_refused():
    allocator, other = small(), small()
    allocator.pool("own"), allocator.tag("own")
    with pytest.raises(errors.InputError, match="pool belongs to another allocator"):
        allocator.allocate(1, pool=other.pool("foreign"))
    with pytest.raises(errors.InputError, match="tag belongs to another allocator"):
        allocator.allocate(1, tag=other.tag("foreign"))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: small().allocate(1, pool=3), "pool is 3: expected a Pool, or None"),
        (lambda: small().allocate(1, tag="cache"), "tag is 'cache': expected a Tag, or None"),
        (lambda: small().pool(3), "name is 3: expected a string"),
        (lambda: small().pool("pool", limit="all"), "limit is 'all': expected a number of bytes"),
        (lambda: small().tag("tag", soft=-1), "soft is -1: expected a number of bytes, or None"),
        (lambda: small().tag("tag", hard=0.5), "hard is 0.5: expected a number of bytes, or None"),
    ],
)
def test_wrong_arguments_are_named(call, text):
    with pytest.raises(errors.InputError) as caught:
        call()
    assert text in str(caught.value)


def test_a_pool_for_each_stream():
    allocator = small(pools="stream")
    held = [allocator.allocate(MIB, stream=stream) for stream in (1, 2)]
    assert len({block.address.region_id for block in held}) == 2
    assert allocator.config["pools"] == "stream"


# Moving and resting


def growing(memory=GIB, **settings):
    return FlexAllocator(Card(memory), growth="growable(4GiB)", **settings)


def test_compaction_in_steps_ends_where_a_whole_one_does():
    rng = random.Random(7)
    sizes = [rng.randrange(1, 64) * 128 for _ in range(60)]
    freed = rng.sample(range(60), 30)

    def fragmented():
        allocator = FlexAllocator(Card(64 * MIB), fallback_sizes=["64MiB"])
        blocks = [allocator.allocate(size) for size in sizes]
        for index in freed:
            blocks[index].free()
        return allocator, [block for block in blocks if block.is_live]

    whole, expected = fragmented()
    whole.compact().commit()
    for budget in (1, 4096, MIB):
        allocator, blocks = fragmented()
        steps = 0
        while step := allocator.compact_step(budget):
            assert step.bytes <= budget or len(step) == 1
            assert step.bytes == sum(size for _, _, size in step.moves)
            step.commit()
            steps += 1
        assert [block.address for block in blocks] == [block.address for block in expected]
        assert steps > 1 or budget == MIB
    with pytest.raises(errors.InputError, match="budget is -1"):
        allocator.compact_step(-1)


def test_a_block_grows_and_shrinks_in_place():
    allocator = FlexAllocator(Card(GIB), fallback_sizes=["1GiB"])
    block = allocator.allocate(MIB)
    address = block.address
    block.resize(3 * MIB)
    assert (block.size, block.requested, block.address) == (3 * MIB, 3 * MIB, address)
    behind = allocator.allocate(MIB)
    with pytest.raises(errors.OutOfMemory) as caught:
        block.resize(5 * MIB)
    assert caught.value.details == {"needed": 2 * MIB, "available": 0} and "another block" in str(caught.value)
    with block.pin(), pytest.raises(errors.BusyError, match="pinned"):
        block.resize(MIB)
    block.resize(MIB)
    assert allocator.statistic("allocated_bytes.all.current") == 2 * MIB
    with pytest.raises(errors.InputError, match="zero bytes"):
        block.resize(0)
    block.free()
    with pytest.raises(errors.InputError, match="freed before"):
        block.resize(MIB)
    behind.free()


def test_a_paused_pool_keeps_its_addresses_and_returns_its_memory():
    allocator = growing()
    weights = allocator.pool("weights")
    layers = [weights.allocate(100 * MIB) for _ in range(8)]
    addresses = [layer.address for layer in layers]
    with layers[0].pin(), pytest.raises(errors.BusyError, match="pinned"):
        weights.pause()
    assert not any(layer.is_paused for layer in layers), "all or none"
    assert weights.pause() == 800 * MIB and all(layer.is_paused for layer in layers)
    assert allocator.info().free == GIB
    assert {figures.name: figures.paused for figures in allocator.pools()} == {"default": 0, "weights": 800 * MIB}
    rollout = allocator.allocate(900 * MIB)
    with pytest.raises(errors.OutOfMemory) as caught:
        weights.resume()
    assert caught.value.details == {"needed": 800 * MIB, "device_free": 124 * MIB}
    assert all(layer.is_paused for layer in layers), "all or none"
    with pytest.raises(errors.InputError, match="paused"):
        layers[0].resize(MIB)
    layers.pop().free()
    rollout.free()
    assert weights.resume() == 700 * MIB
    assert [layer.address for layer in layers] == addresses[:7] and not any(layer.is_paused for layer in layers)
    assert allocator.statistic("allocated_bytes.all.current") == 700 * MIB


def test_a_paused_tag_rests_in_all_pools():
    allocator = growing()
    cache, pool = allocator.tag("cache"), allocator.pool("pool")
    tagged = [allocator.allocate(2 * MIB, tag=cache), pool.allocate(2 * MIB, tag=cache)]
    other = pool.allocate(2 * MIB)
    assert cache.pause() == 4 * MIB and [block.is_paused for block in [*tagged, other]] == [True, True, False]
    assert cache.allocated == 4 * MIB, "the budget counts them"
    assert cache.resume() == 4 * MIB and cache.resume() == 0


def test_regions_of_a_fixed_size_cannot_rest():
    pool = small().pool("pool")
    with pytest.raises(errors.InputError, match="growable"):
        pool.pause()
