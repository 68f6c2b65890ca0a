"""Streams and events through PyTorch's own classes, for any accelerator."""

from __future__ import annotations

import math
import threading

import pytest
import torch

from cubeyard import _native
from cubeyard.machine.topology import Topology


def clock() -> int:
    return _native.torch_now()


def link_ps(size: int) -> int:
    """Time of bytes over the PCIe link of a SIP."""
    figures = Topology._of(_native.torch_topology()).figures()
    return math.ceil(size * 10**12 / figures.pcie_bytes_per_s_per_sip)


def test_elapsed_time_is_exact_to_the_picosecond(device: str) -> None:
    first, second = (torch.Event(device, enable_timing=True) for _ in range(2))
    first.record()
    torch.ops.ahbm._sleep(1_500_000_001)
    second.record()
    assert not second.query()
    second.synchronize()
    assert second.query() and first.elapsed_time(second) == 1.500000001
    assert second.elapsed_time(first) == -1.500000001


def test_an_event_that_was_not_recorded_is_complete_and_holds_nobody(device: str) -> None:
    event, stream = torch.Event(device), torch.Stream(device)
    assert event.query()
    stream.wait_event(event)
    event.synchronize()
    assert stream.query()


def test_a_stream_waits_for_an_event_of_another_device(device: str) -> None:
    one, other = torch.Stream("ahbm:0"), torch.Stream("ahbm:1")
    with one:
        torch.ops.ahbm._sleep(3000)
    event = one.record_event()
    other.wait_event(event)
    assert _native.torch_stream_time(1, other.stream_id) == _native.torch_stream_time(0, one.stream_id)
    assert not other.query()
    other.synchronize()
    assert one.query()


def test_a_copy_between_devices_orders_their_streams(device: str) -> None:
    source, target = torch.ones(4, device="ahbm:0"), torch.zeros(4, device="ahbm:1")
    torch.accelerator.synchronize(0)
    torch.accelerator.synchronize(1)
    start = clock()
    torch.ops.ahbm._sleep(500)
    target.copy_(source)
    assert clock() == start
    assert _native.torch_stream_time(1, 0) == start + 500 + link_ps(16)
    assert target.tolist() == [1, 1, 1, 1]
    assert clock() == start + 500 + 2 * link_ps(16)


def test_an_item_waits_for_the_current_stream(device: str) -> None:
    value, stream = torch.ones(1, device=device), torch.Stream(device)
    torch.accelerator.synchronize()
    start = clock()
    with stream:
        torch.ops.ahbm._sleep(900)
    assert (value.item(), clock()) == (1, start + link_ps(4))
    with stream:
        assert (value.item(), clock()) == (1, start + 900 + link_ps(4))


def test_a_device_is_synchronized_with_all_its_streams(device: str) -> None:
    streams = [torch.Stream(device) for _ in range(3)]
    start = clock()
    for number, stream in enumerate(streams):
        with stream:
            torch.ops.ahbm._sleep(100 * number)
    torch.accelerator.synchronize()
    assert clock() == start + 200 and all(stream.query() for stream in streams)


def test_streams_are_current_for_their_thread_and_device_only(device: str) -> None:
    stream = torch.Stream("ahbm:1")
    seen = []
    with stream:
        assert torch.accelerator.current_stream(1) == stream
        assert torch.accelerator.current_stream(0).stream_id == 0
        thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream(1).stream_id))
        thread.start()
        thread.join()
    assert seen == [0] and torch.accelerator.current_stream(1).stream_id == 0


def overlaps(tensors: list[torch.Tensor], first: int, bytes_: int) -> bool:
    """Whether a tensor lies in part at the addresses from `first` on."""
    return any(tensor.data_ptr() < first + bytes_ and first < tensor.data_ptr() + tensor.nbytes for tensor in tensors)


def test_a_recorded_stream_keeps_a_freed_block(device: str) -> None:
    stream = torch.Stream(device)
    torch.accelerator.synchronize()
    used = torch.ones(3000, device=device)
    first, bytes_ = used.data_ptr(), used.nbytes
    with stream:
        torch.ops.ahbm._sleep(1000)
    used.record_stream(stream)
    del used
    held = [torch.empty(3000, device=device) for _ in range(3)]
    assert not overlaps(held, first, bytes_)
    stream.synchronize()
    # The block may have joined free memory before it: its addresses come back, not its first one.
    held += [torch.empty(3000, device=device) for _ in range(3)]
    assert overlaps(held, first, bytes_)


def test_work_of_a_negative_duration_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="picoseconds is -1: expected 0 or more"):
        torch.ops.ahbm._sleep(-1)


def test_a_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(RuntimeError, match="Device index is 99: expected 0 to 1"):
        torch.ops.ahbm._default_generator(99)
    with pytest.raises(RuntimeError, match="Device index is 9: expected 0 to 1"):
        torch.empty(1, device="ahbm:9")
