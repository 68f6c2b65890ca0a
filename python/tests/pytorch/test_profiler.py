"""`torch.profiler`: work of the devices in simulated time, linked to operators."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from doubling import doubled
from torch.profiler import ProfilerActivity, profile, record_function, schedule

import cubeyard.torch.distributed as ahbm
from cubeyard.torch import _kineto

pytestmark = pytest.mark.skipif(_kineto._library is None, reason="PyTorch 2.11 has no interface for profilers of other devices")

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
WORK = ("kernel", "gpu_memcpy")


def parameters(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    w, x = (torch.rand(24, 24, generator=generator).to(device) for _ in range(2))
    return w.requires_grad_(), x


def step(w: torch.Tensor, x: torch.Tensor) -> float:
    """Products, pointwise operators and a reduction, forward and backward, and a copy to the host."""
    w.grad = None
    loss = (w @ x).mul(2.0).sum()
    loss.backward()
    return float(loss.item())


def trace(profiler: Any, folder: Path) -> list[dict[str, Any]]:
    """Returns the events of the Chrome trace."""
    profiler.export_chrome_trace(str(folder / "trace.json"))
    return list(json.loads((folder / "trace.json").read_text())["traceEvents"])


def work(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") in WORK]


def kernels(profiler: Any) -> list[Any]:
    """Returns the device's events, without annotated ranges."""
    found = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]
    return [event for event in found if not event.is_user_annotation]


def test_work_agrees_with_the_timeline_the_clock_and_events(device: str, tmp_path: Path) -> None:
    w, x = parameters(device)
    flat, side = torch.ones(1000, device=device), torch.ahbm.Stream()
    first, last = (torch.ahbm.Event(enable_timing=True) for _ in range(2))
    torch.ahbm.synchronize()
    with profile(activities=BOTH) as profiler, torch.ahbm.record_timeline() as timeline:
        begin_ns = torch.ahbm.clock()
        first.record()
        step(w, x)
        doubled(flat)
        torch.ahbm._sleep(50)
        last.record()
        with torch.ahbm.stream(side):
            flat.to("ahbm:1")
    found = work(trace(profiler, tmp_path))
    assert {span.kind for span in timeline.spans} == {"operator", "copy", "launch", "sleep"}
    assert [(one["args"]["begin_ps"], one["args"]["end_ps"]) for one in found] == [(one.begin_ps, one.end_ps) for one in timeline.spans]
    assert [one["args"]["kind"] for one in found] == [one.kind for one in timeline.spans]
    assert [one["name"].split(" (")[0] for one in found] == [one.name for one in timeline.spans]
    assert [f"ahbm:{one['pid']} stream {one['tid']}" for one in found] == [one.track for one in timeline.spans]
    on_stream = [event for event in kernels(profiler) if event.device_resource_id == 0 and event.device_index == 0]
    wall = on_stream[-1].time_range.end - on_stream[0].time_range.start
    assert wall == pytest.approx((timeline.spans[-2].end_ps - timeline.spans[0].begin_ps) / 1e6, abs=0.0011)
    # The first record waits for nothing: the first operator begins after the host's launch.
    before = timeline.spans[0].begin_ps / 1e6 - begin_ns / 1e3
    assert first.elapsed_time(last) * 1000 == pytest.approx(wall + before, abs=0.0011)


def test_the_default_activities_have_the_device(device: str) -> None:
    w, x = parameters(device)
    with profile() as profiler:
        step(w, x)
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["aten::mm"].self_device_time_total > 0
    assert "Self AHBM" in profiler.key_averages().table(sort_by="self_device_time_total")
    with profile(activities=[ProfilerActivity.CPU]) as host:
        step(w, x)
    assert kernels(host) == [], "nobody asked for the device's work"


def test_every_kernel_belongs_to_an_operator(device: str) -> None:
    w, x = parameters(device)
    with profile(activities=BOTH) as profiler:
        step(w, x)
        torch.ops.aten.mul.Scalar(w, 2.0)  # calls aten::mul.Tensor within
    found = kernels(profiler)
    total = sum(event.device_time_total for event in found)
    rows = [row for row in profiler.key_averages() if row.device_type == torch.autograd.DeviceType.CPU]
    assert sum(row.self_device_time_total for row in rows) == pytest.approx(total)
    by_name = {row.key: row.self_device_time_total for row in rows}
    products = sum(event.device_time_total for event in found if event.name.startswith("aten::mm "))
    assert by_name["aten::mm"] == pytest.approx(products) and products > 0
    multiplied = sum(event.device_time_total for event in found if event.name.startswith("aten::mul."))
    assert by_name["aten::mul"] == pytest.approx(multiplied)


def test_memory_flops_and_stacks(device: str) -> None:
    w, x = parameters(device)
    wanted = {"profile_memory": True, "with_flops": True, "with_stack": True, "record_shapes": True}
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)  # PyTorch gives events their stacks with it alone
    with profile(activities=BOTH, experimental_config=verbose, **wanted) as profiler:
        product = w.detach() @ x
    [mm] = [event for event in profiler.events() if event.name == "aten::mm"]
    assert mm.device_memory_usage == 2304 == product.numel() * 4
    assert mm.flops == 2 * 24**3
    assert any("test_profiler.py" in line for line in mm.stack)
    [kernel] = mm.kernels
    assert kernel.duration == pytest.approx(mm.self_device_time_total) and kernel.duration > 0
    grouped = profiler.key_averages(group_by_stack_n=20)
    [row] = [row for row in grouped if row.key == "aten::mm" and row.self_device_time_total > 0]
    assert any("test_memory_flops_and_stacks" in line for line in row.stack)


def test_a_profiler_changes_neither_numbers_nor_times(device: str) -> None:
    def timed(watch: Any) -> tuple[list[float], list[tuple[int, int]]]:
        w, x = parameters(device)
        torch.ahbm.synchronize()
        start = torch.ahbm.clock() * 1000
        with torch.ahbm.record_timeline() as timeline:
            with watch:
                losses = [step(w, x) for _ in range(2)]
            torch.ahbm.synchronize()  # as the profiler does at its end
            losses.append(step(w, x))
        assert w.grad is not None
        spans = [(round(span.begin_ps - start), round(span.end_ps - start)) for span in timeline.spans]
        return [*losses, *w.grad.flatten().tolist()], spans

    plain = timed(contextlib.nullcontext())
    assert timed(profile(activities=BOTH, profile_memory=True, with_stack=True)) == plain
    assert timed(profile(activities=[ProfilerActivity.PrivateUse1])) == plain


def test_cycles_of_a_schedule_have_their_own_steps(device: str, tmp_path: Path) -> None:
    w, x = parameters(device)
    counts = []

    def ready(profiler: Any) -> None:
        counts.append(len(work(trace(profiler, tmp_path))))

    with torch.ahbm.record_timeline() as timeline:
        step(w, x)
    each = len(timeline.spans)
    with profile(activities=BOTH, schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as profiler:
        for _ in range(8):
            step(w, x)
            profiler.step()
    assert counts == [2 * each, 2 * each]


def test_annotated_ranges_are_on_the_device(device: str, tmp_path: Path) -> None:
    w, x = parameters(device)
    with profile(activities=BOTH) as profiler:
        with record_function("two products"):
            first = w @ x
            first @ x
        step(w, x)
    events = trace(profiler, tmp_path)
    found = [event for event in events if event.get("cat") == "gpu_user_annotation"]
    [one] = [event for event in found if event["name"] == "two products"]
    products = [event for event in work(events) if event["name"].startswith("aten::mm ")][:2]
    # Kineto draws such a range from 1 ns before its work to 1 ns after it.
    assert one["ts"] + 0.001 == pytest.approx(products[0]["ts"], abs=0.0021, rel=0)
    span_ps = products[1]["args"]["end_ps"] - products[0]["args"]["begin_ps"]
    assert one["dur"] - 0.002 == pytest.approx(span_ps / 1e6, abs=0.0011, rel=0)


def test_collectives_are_linked_to_their_calls(tmp_path: Path) -> None:
    def worker(rank: int) -> None:
        ahbm.init_process_group("ahbm")
        x = torch.ones(1000, device=f"ahbm:{rank}")
        ahbm.all_reduce(x)
        ahbm.destroy_process_group()

    with profile(activities=BOTH) as profiler:
        report = ahbm.spawn(worker, nprocs=2)
    [call] = report.calls
    found = [event for event in work(trace(profiler, tmp_path)) if event["args"]["kind"] == "collective"]
    assert sorted(event["pid"] for event in found) == [0, 1]
    for event in found:
        assert event["name"] == "all_reduce"
        span = event["args"]["end_ps"] - event["args"]["begin_ps"]
        assert span / 1000 == pytest.approx(call.time_ns)


def test_without_kineto_operators_have_whole_microseconds(device: str) -> None:
    torch.ahbm.synchronize()
    with torch.autograd.profiler.profile(use_device="ahbm", use_kineto=False) as profiler:
        torch.ahbm._sleep(5_000)
        torch.ahbm._sleep(7_999)
    found = [event.device_time_total for event in profiler.function_events if event.name == "ahbm::_sleep"]
    assert found == [5, 7], "PyTorch drops the rest"
