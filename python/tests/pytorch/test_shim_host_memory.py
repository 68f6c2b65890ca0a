"""Page-locked host memory: which memory it is, and when it is used again."""

from __future__ import annotations

import torch

from cubeyard import _native
from cubeyard.machine.topology import Topology

PAGE = 4096
FIGURES = ("active_requests", "active_bytes", "allocations", "allocated_bytes")


def figures() -> dict[str, int]:
    """Returns the current figures of page-locked memory."""
    return dict(zip(FIGURES, torch.ops.ahbm._host_statistics()[::4], strict=True))


def test_memory_is_known_by_all_its_addresses(device: str) -> None:
    pinned = torch.arange(1000.0).pin_memory()
    assert pinned.is_pinned() and pinned[999:].is_pinned() and pinned.tolist() == list(range(1000))
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not torch.empty(3).is_pinned()
    assert not torch.empty(3, device=device).is_pinned()


def test_no_bytes_are_pinned_without_memory(device: str) -> None:
    before = figures()
    assert torch.empty(0, pin_memory=True).numel() == 0
    assert figures() == before


def test_freed_memory_is_used_again_by_size(device: str) -> None:
    torch.accelerator.synchronize()
    first = torch.empty(3 * PAGE, dtype=torch.uint8, pin_memory=True)
    pointer, mapped = first.data_ptr(), figures()["allocations"]
    del first
    second = torch.empty(4 * PAGE, dtype=torch.uint8, pin_memory=True)
    assert (second.data_ptr(), figures()["allocations"]) == (pointer, mapped)


def test_memory_of_a_copy_is_not_used_again_before_its_stream_has_passed(device: str) -> None:
    torch.accelerator.synchronize()
    size = 5 * PAGE
    stream = torch.Stream(device)
    target = torch.empty(size, dtype=torch.uint8, device=device)
    source = torch.ones(size, dtype=torch.uint8).pin_memory()
    pointer = source.data_ptr()
    with stream:
        torch.ops.ahbm._sleep(1000)
        target.copy_(source, non_blocking=True)
    del source
    other = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    assert other.data_ptr() != pointer and not stream.query()
    stream.synchronize()
    third = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    assert third.data_ptr() == pointer
    assert target.sum().item() == size


def test_the_cache_is_bounded_and_can_be_emptied(device: str) -> None:
    torch.accelerator.synchronize()
    torch.ops.ahbm._empty_host_cache()
    before = figures()
    kept = [torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(6)]
    assert figures()["active_bytes"] == before["active_bytes"] + (384 << 20)
    del kept
    after = figures()
    assert after["active_bytes"] == before["active_bytes"]
    assert after["allocated_bytes"] == before["allocated_bytes"] + (256 << 20)
    torch.ops.ahbm._empty_host_cache()
    assert figures() == before


def test_a_copy_that_does_not_block_does_not_move_the_clock(device: str) -> None:
    target = torch.zeros(4, device=device)
    torch.accelerator.synchronize()
    start = _native.torch_now()
    torch.ops.ahbm._sleep(700)
    pinned = torch.ones(4).pin_memory()
    target.copy_(pinned, non_blocking=True)
    pinned.copy_(target, non_blocking=True)
    assert _native.torch_now() == start
    pinned.copy_(target)
    rate = Topology._of(_native.torch_topology()).figures().pcie_bytes_per_s_per_sip
    assert _native.torch_now() == start + 700 + 3 * -(-16 * 10**12 // rate), "three copies after the sleep"
