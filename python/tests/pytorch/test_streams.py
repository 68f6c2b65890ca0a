"""Streams and events: their order, in simulated time."""

from __future__ import annotations

import threading

import pytest
import torch

from cubeyard.errors import InputError


def test_simulated_work_takes_time_of_its_stream_only() -> None:
    busy, idle = torch.ahbm.Stream(), torch.ahbm.Stream()
    assert busy != idle and busy.query()
    start = torch.ahbm.clock()
    with torch.ahbm.stream(busy):
        torch.ahbm._sleep(500)
    assert not busy.query() and idle.query() and torch.ahbm.clock() == start, "the host does not wait"
    idle.synchronize()
    assert torch.ahbm.clock() == start
    busy.synchronize()
    assert busy.query() and torch.ahbm.clock() == start + 500


def test_an_event_is_complete_exactly_when_the_clock_has_passed_it() -> None:
    first, second = torch.ahbm.Stream(), torch.ahbm.Stream()
    with torch.ahbm.stream(first):
        torch.ahbm._sleep(1000)
    event = first.record_event()
    assert isinstance(event, torch.ahbm.Event) and not event.query()
    with torch.ahbm.stream(second):
        torch.ahbm._sleep(999.999)
    second.synchronize()
    assert not event.query(), "one picosecond before"
    with torch.ahbm.stream(second):
        torch.ahbm._sleep(0.001)
    second.synchronize()
    assert event.query()


def test_waits_order_streams() -> None:
    one, other = torch.ahbm.Stream(), torch.ahbm.Stream(priority=-1)
    begin, end = torch.ahbm.Event(enable_timing=True), torch.ahbm.Event(enable_timing=True)
    begin.record(one)
    with torch.ahbm.stream(one):
        torch.ahbm._sleep(3000)
    other.wait_stream(one)
    with torch.ahbm.stream(other):
        torch.ahbm._sleep(2000)
        end.record()
    end.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(0.005, rel=1e-12), "milliseconds: the second begins after the first"
    event = torch.ahbm.Event()
    with torch.ahbm.stream(one):
        torch.ahbm._sleep(100)
        event.record()
    start = torch.ahbm.clock()
    other.wait_event(event)
    other.synchronize()
    assert torch.ahbm.clock() == start + 100


def test_synchronize_waits_for_all_streams_of_one_device() -> None:
    start = torch.ahbm.clock()
    for device, nanoseconds in ((0, 700), (1, 5000)):
        with torch.ahbm.stream(torch.ahbm.Stream(device)):
            torch.ahbm._sleep(nanoseconds)
    torch.ahbm.synchronize(0)
    assert torch.ahbm.clock() == start + 700
    torch.ahbm.synchronize("ahbm:1")
    assert torch.ahbm.clock() == start + 5000


def test_reading_a_value_waits_for_the_current_stream() -> None:
    x = torch.ones(3, device="ahbm")
    stream = torch.ahbm.Stream()
    start = torch.ahbm.clock()
    with torch.ahbm.stream(stream):
        torch.ahbm._sleep(250)
        with torch.ahbm.record_operators() as times:
            assert x.sum().item() == 3
    assert {row.op for row in times.rows} == {"aten::sum", "copy to host"}
    assert torch.ahbm.clock() == pytest.approx(start + 250 + times.ps / 1000, abs=1e-6)


def test_the_current_stream_and_device_are_set_and_restored() -> None:
    default = torch.ahbm.default_stream()
    assert torch.ahbm.current_stream() == default and default.stream_id == 0
    stream = torch.ahbm.Stream("ahbm:1")
    assert stream.device == torch.device("ahbm:1")
    with torch.ahbm.stream(stream) as entered:
        assert entered is stream and torch.ahbm.current_device() == 1 and torch.ahbm.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
        assert torch.ahbm.current_stream(0) == default
        with torch.ahbm.stream(None):
            assert torch.ahbm.current_stream() == stream
    assert torch.ahbm.current_device() == 0 and torch.ahbm.current_stream() == default
    assert torch.ahbm.current_stream(1) == torch.ahbm.default_stream(1)
    with stream:
        assert torch.ahbm.current_stream(1) == stream
    torch.ahbm.set_stream(stream)
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.ahbm.current_stream(1)))
    thread.start()
    thread.join()
    assert found == [torch.ahbm.default_stream(1)], "threads have streams of their own"
    torch.ahbm.set_stream(torch.ahbm.default_stream(1))
    torch.ahbm.set_device(0)


def test_a_stream_is_made_of_its_numbers() -> None:
    stream = torch.ahbm.Stream()
    given = {"stream_id": stream.stream_id, "device_index": stream.device_index, "device_type": stream.device_type}
    assert torch.ahbm.Stream(**given) == stream and isinstance(stream, torch.Stream)
    assert repr(stream) == f"<torch.ahbm.Stream {stream.stream_id} of ahbm:0>"


def test_a_freed_block_is_not_used_again_before_the_stream_has_passed() -> None:
    stream = torch.ahbm.Stream()
    before = torch.ahbm.memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="ahbm")
    with torch.ahbm.stream(stream):
        torch.ahbm._sleep(1000)
    x.record_stream(stream)
    del x
    stats = torch.ahbm.memory_stats()
    assert stats["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert stats["active_bytes.all.current"] == before["active_bytes.all.current"] + (1 << 20), "it waits for the stream"
    stream.synchronize()
    y = torch.empty(1 << 20, dtype=torch.uint8, device="ahbm")
    assert torch.ahbm.memory_stats()["active_bytes.all.current"] == before["active_bytes.all.current"] + (1 << 20)
    del y


@pytest.mark.parametrize("nanoseconds", [-1, True, "1", float("nan"), 1 << 50])
def test_a_time_that_cannot_be_is_named(nanoseconds: object) -> None:
    with pytest.raises(InputError, match="nanoseconds is"):
        torch.ahbm._sleep(nanoseconds)


def test_events_for_other_processes_are_refused() -> None:
    with pytest.raises(InputError, match="interprocess is True"):
        torch.ahbm.Event(interprocess=True)
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        torch.ahbm.Event().elapsed_time(torch.ahbm.Event())
