"""Pools and tags of device memory, with memory that grows: a device of one region has no second region for a pool."""

from __future__ import annotations

import pytest
import torch
from conftest import Script

from cubeyard.errors import InputError

GROW = {"CUBEYARD_ALLOC_CONF": "preset:grow", "CUBEYARD_DEVICE_MEMORY": "1GiB"}
TENSOR = """
import gc, threading
MIB = 1 << 20
def tensor(mebibytes=1):
    return torch.zeros(mebibytes * MIB, dtype=torch.uint8, device="ahbm")
def refused(act):
    try:
        act()
    except torch.OutOfMemoryError as error:
        return str(error)
    raise AssertionError("it was not refused")
"""


def test_tensors_of_a_pool_lie_in_its_segments(script: Script) -> None:
    program = """
pool = torch.ahbm.MemPool("weights")
outside = tensor()
with torch.ahbm.use_mem_pool(pool):
    assert pool.use_count() == 2
    inside = tensor() + 1
after = tensor()
assert pool.use_count() == 1 and pool.allocator is None and pool.id[0] == 0 < pool.id[1]
segments = pool.snapshot()
assert segments and all(segment["segment_pool_id"] == pool.id for segment in segments)
assert pool.memory_stats()["allocated_bytes.all.current"] == MIB, "the temporary is gone"
live = [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]
assert [block["size"] for block in live] == [MIB]
assert (inside == 1).all() and not outside.any() and not after.any()
assert pool.device == torch.device("ahbm", 0) and "pool `weights`" in repr(pool)
"""
    script(TENSOR + program, **GROW)


def test_a_pool_that_is_gone_returns_its_memory(script: Script) -> None:
    program = """
keep = tensor()
before = torch.ahbm.memory_reserved()
pool = torch.ahbm.MemPool("phase")
with torch.ahbm.use_mem_pool(pool):
    kept = tensor(10)
assert torch.ahbm.memory_reserved() == before + 10 * MIB
del pool
gc.collect()
assert not kept.any(), "its tensors stay valid"
del kept
assert torch.ahbm.memory_reserved() == before
"""
    script(TENSOR + program, **GROW)


def test_a_limit_refuses_and_can_be_raised(script: Script) -> None:
    program = """
pool = torch.ahbm.MemPool("small", limit=16 * MIB)
with torch.ahbm.use_mem_pool(pool):
    assert "pool `small`" in refused(lambda: tensor(20))
    pool.limit = None
    tensor(20)
assert pool.limit is None
pool.empty_cache()
assert pool.memory_stats()["reserved_bytes.all.current"] == 0
"""
    script(TENSOR + program, **GROW)


def test_pools_belong_to_a_thread_and_a_device(script: Script) -> None:
    program = """
pool, found = torch.ahbm.MemPool(), []
with torch.ahbm.use_mem_pool(pool, "ahbm:0"):
    thread = threading.Thread(target=lambda: found.append(tensor()))
    thread.start()
    thread.join()
    elsewhere = torch.zeros(10, device="ahbm:1")
assert found and pool.snapshot() == [] and not elsewhere.any()
"""
    script(TENSOR + program, **GROW)
    pool = torch.ahbm.MemPool()
    with pytest.raises(InputError, match="expected ahbm:0, the device of the pool"), torch.ahbm.use_mem_pool(pool, 1):
        pass
    with pytest.raises(InputError, match="pool is 3"), torch.ahbm.use_mem_pool(3):
        pass


def test_training_inside_a_pool_is_the_same(script: Script) -> None:
    program = """
import contextlib
def train(place):
    with place:
        torch.manual_seed(3)
        model = torch.nn.Linear(16, 4).to("ahbm")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.ones(2, 16, device="ahbm")).sum().backward()
            optimizer.step()
        return model.weight.detach().cpu()
pool = torch.ahbm.MemPool("training")
assert torch.equal(train(torch.ahbm.use_mem_pool(pool)), train(contextlib.nullcontext()))
assert pool.memory_stats()["allocated_bytes.all.allocated"] > 0
"""
    script(TENSOR + program, **GROW)


def test_a_tag_counts_and_its_budget_refuses(device: str) -> None:
    mib = 1 << 20
    with torch.ahbm.memory_tag("cache", hard=4 * mib) as cache:
        first = torch.zeros(3 * mib, dtype=torch.uint8, device=device)
        with pytest.raises(torch.OutOfMemoryError, match="tag `cache` is over its hard budget of 4.00 MiB"):
            torch.zeros(2 * mib, dtype=torch.uint8, device=device)
    other = torch.zeros(2 * mib, dtype=torch.uint8, device=device)
    assert (cache.allocated, cache.blocks, cache.hard) == (3 * mib, 1, 4 * mib)
    del first, other
    assert cache.allocated == 0 and cache.peak == 3 * mib
    cache.set_budget()


def test_a_paused_pool_returns_its_memory_and_keeps_its_pointers(script: Script) -> None:
    program = """
pool = torch.ahbm.MemPool("weights")
with torch.ahbm.use_mem_pool(pool):
    weights = [tensor(64) for _ in range(8)]
pointers = [weight.data_ptr() for weight in weights]
assert "out of memory" in refused(lambda: tensor(700))
assert pool.pause() == 512 * MIB
rollout = tensor(700)
try:
    pool.resume()
except MemoryError as error:
    assert "512.00 MiB" in str(error)
else:
    raise AssertionError("there is no memory")
del rollout
assert pool.resume() == 512 * MIB
assert [weight.data_ptr() for weight in weights] == pointers
for number, weight in enumerate(weights):
    weight.fill_(number)
assert [int(weight[-1]) for weight in weights] == list(range(8))
"""
    script(TENSOR + program, **GROW)


def test_a_device_of_one_region_cannot_rest() -> None:
    with pytest.raises(InputError, match="growable"):
        torch.ahbm.MemPool().pause()
