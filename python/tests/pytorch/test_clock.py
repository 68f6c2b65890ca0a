"""One clock: launches of Triton kernels take time of PyTorch's streams."""

from __future__ import annotations

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
import triton.testing
from triton.tools.tensor_descriptor import TensorDescriptor

import cubeyard.triton
from cubeyard import _native
from cubeyard.errors import CubeyardError, InputError
from cubeyard.triton import _launch

from conftest import Script

# These tests are about launches; test_operator_time.py has the times of operators beside them.
pytestmark = pytest.mark.usefixtures("without_time")


@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 3, mask=at < n)


@triton.jit
def described(desc, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), desc.load([0]) * 2)


@triton.jit
def outside(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + 1000000 + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


class Pointer:
    """What Triton asks of a tensor."""

    def __init__(self, base: torch.Tensor) -> None:
        self.base, self.dtype = base, base.dtype

    def __len__(self) -> int:
        return len(self.base)

    def data_ptr(self) -> int:
        return self.base.data_ptr()

    def untyped_storage(self) -> Any:
        return self.base.untyped_storage()


def scaled(x: Any, out: Any, block: int = 256) -> None:
    n = len(x)
    scale[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)


def pair(n: int = 1000, device: Any = "ahbm") -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(float(n)).to(device), torch.zeros(n, device=device)


def kernel_ps(n: int = 1000, block: int = 256, **settings: Any) -> int:
    """The time of a launch on tensors in the same places, as its record says it, in picoseconds. The clocks forget it."""
    _native.torch_begin_trial()
    try:
        return recorded_ps(pair(n), block, **settings)
    finally:
        _native.torch_end_trial()


def array_ps(n: int = 1000, block: int = 256) -> int:
    """The time of a launch on arrays, which take no time of the clocks, in picoseconds."""
    return recorded_ps((np.arange(n, dtype=np.float32), np.zeros(n, np.float32)), block)


def recorded_ps(arguments: Any, block: int, **settings: Any) -> int:
    with cubeyard.triton.record(**settings) as run:
        scaled(*arguments, block)
    return round(run.launches[0].kernel_ns * 1000)


def now() -> int:
    return _native.torch_now()


def between_events(function: Callable[[], Any]) -> float:
    """Milliseconds between events around a call on the current stream."""
    begin, end = (torch.Event("ahbm", enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 3, mask=at < n)

x, out = torch.arange({n}.0).to("ahbm"), torch.zeros({n}, device="ahbm")
scale[(triton.cdiv({n}, {block}),)](x, out, {n}, BLOCK={block})
torch.ahbm.synchronize()
assert torch.equal(out.cpu(), 3 * torch.arange({n}.0))
open({file!r}, "w").write(str(torch.ahbm.clock()))
"""


@pytest.mark.parametrize("seed", range(6))
def test_everything_gives_a_kernel_the_same_time(seed: int) -> None:
    of = random.Random(seed)
    n, block = of.randrange(1, 40_000), 2 ** of.randrange(5, 11)
    picoseconds = kernel_ps(n, block)
    x, out = pair(n)
    torch.ahbm.synchronize()
    start = now()
    scaled(x, out, block)
    assert now() == start, "the host does not wait"
    torch.ahbm.synchronize()
    assert now() - start == picoseconds
    assert torch.equal(out, 3 * x)
    milliseconds = picoseconds / 1e9
    assert between_events(lambda: scaled(x, out, block)) == milliseconds
    assert triton.testing.do_bench(lambda: scaled(x, out, block)) == milliseconds
    with cubeyard.triton.record() as run, torch.ahbm.record_timeline() as timeline:
        scaled(x, out, block)
    assert run.launches[0].kernel_ns * 1000 == picoseconds
    assert [span.end_ps - span.begin_ps for span in timeline.spans] == [picoseconds]


def test_a_script_that_is_a_bench_has_the_same_time(tmp_path: Path) -> None:
    n, block, file = 3000, 128, tmp_path / "script.py"
    file.write_text(SCRIPT.format(n=n, block=block, file=str(tmp_path / "clock")))
    command = [sys.executable, "-m", "cubeyard", "run", f"{file}::scale", "--data", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "CUBEYARD_TIME": "off"})
    assert done.returncode == 0, done.stderr
    milli = kernel_ps(n, block) / 1000
    assert float((tmp_path / "clock").read_text()) == milli
    assert f'"kernel_ns": {milli}' in done.stdout


def test_launches_on_other_arrays_take_no_time_of_the_clock() -> None:
    pair()  # the device is in use
    torch.ahbm.synchronize()
    start, x, out = now(), np.ones(1000, np.float32), np.zeros(1000, np.float32)
    on_cpu = (torch.ones(1000), torch.zeros(1000))
    for given in ((x, out), on_cpu):
        assert triton.testing.do_bench(lambda given=given: scaled(*given)) == array_ps() / 1e9  # type: ignore[misc]
    torch.ahbm.synchronize()
    assert now() == start


def test_a_function_may_use_both() -> None:
    x, out = pair()
    other = (np.ones(500, np.float32), np.zeros(500, np.float32))

    def both() -> None:
        scaled(x, out)
        scaled(*other)
        torch.ahbm._sleep(5)

    wanted = (kernel_ps() + array_ps(500) + 5000) / 1e9
    assert triton.testing.do_bench(both) == wanted
    inner: list[float] = []
    outer = triton.testing.do_bench(lambda: inner.append(triton.testing.do_bench(both)))
    assert inner == [wanted] and outer == pytest.approx(wanted, rel=1e-12), "an inner measurement hides nothing"


def test_measurements_have_the_forms_of_triton() -> None:
    x, out = pair()
    x.grad = torch.ones_like(x)
    seen: list[Any] = []
    milliseconds = kernel_ps() / 1e9

    def call() -> None:
        seen.append(x.grad)
        scaled(x, out)

    measure = triton.testing.do_bench
    assert measure(call, warmup=25, rep=100) == milliseconds and seen.pop() is not None
    assert measure(call, grad_to_none=[x]) == milliseconds and seen.pop() is None
    assert measure(call, quantiles=[0.5, 0.2, 0.8]) == [milliseconds] * 3
    assert measure(call, quantiles=[0.5]) == milliseconds
    for mode in ("min", "max", "mean", "median"):
        assert measure(call, return_mode=mode) == milliseconds
    assert measure(call, return_mode="all") == [milliseconds]
    assert measure(lambda: x + x) == 0.0, "operators take no time yet"
    with pytest.raises(InputError, match="return_mode='mode': expected one of min, max, mean, median, all"):
        measure(call, return_mode="mode")


def test_a_measurement_begins_when_the_device_is_idle() -> None:
    x, out = pair()
    with torch.ahbm.stream(torch.ahbm.Stream()):
        scaled(x, out)
    assert triton.testing.do_bench(lambda: scaled(x, out)) == kernel_ps() / 1e9


BLOCKS = (32, 512, 128)
tries: list[float] = []


def by_events(call: Callable[[], None], quantiles: Any) -> Any:
    tries.append(between_events(call))
    return [tries[-1]] * len(quantiles)


@pytest.mark.parametrize("how", ["default", "warmup and rep", "by events"])
def test_trials_of_the_tuner_take_no_time(how: str) -> None:
    more: dict[str, Any] = {"default": {}, "warmup and rep": {"warmup": 1, "rep": 2}, "by events": {"do_bench": by_events}}[how]
    configs = [triton.Config({"BLOCK": block}) for block in BLOCKS]
    with pytest.warns(DeprecationWarning) if "warmup" in more else torch.no_grad():
        tuned = triton.autotune(configs=configs, key=["n"], **more)(scale)
    n = 30_000
    x, out = pair(n)
    torch.ahbm.synchronize()
    start = now()
    with torch.ahbm.record_timeline() as timeline:
        tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    assert now() == start
    torch.ahbm.synchronize()
    times = {block: kernel_ps(n, block) for block in BLOCKS}
    assert now() - start == min(times.values()), times
    assert tuned.best_config.kwargs["BLOCK"] == min(times, key=lambda block: times[block])
    assert len(timeline.spans) == 1, "trials are on no timeline"
    if how == "by events":
        assert tries == [times[block] / 1e9 for block in BLOCKS]


def test_configurations_that_differ_in_options_without_effect_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them was compiled, recorded and simulated: 24 times in the tutorial of persistent products, 4 of them different."""
    # The first launch of a process makes the driver, which makes trials its own.
    scaled(*pair())
    runs: list[Any] = []
    plain = _launch.Launch.run
    monkeypatch.setattr(_launch.Launch, "run", lambda launch, *given: (runs.append(launch.program), plain(launch, *given))[1])
    configs = [triton.Config({"BLOCK": block}, num_warps=warps, num_stages=warps) for block in (512, 128) for warps in (4, 1, 8)]
    tuned = triton.autotune(configs=configs, key=["n"])(scale)
    for n in (30_000, 20_000):
        x, out = pair(n)
        torch.ahbm.synchronize()
        start = now()
        tuned[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        torch.ahbm.synchronize()
        assert len(runs) == 3 and len(set(runs)) == 2, "two trials and the launch itself"
        runs.clear()
        times = {block: kernel_ps(n, block) for block in (512, 128)}
        assert now() - start >= min(times.values())
        found = {(config.kwargs["BLOCK"], milliseconds[0]) for config, milliseconds in tuned.configs_timings.items()}
        assert found == {(block, picoseconds / 1e9) for block, picoseconds in times.items()} and len(tuned.configs_timings) == 6
        assert torch.equal(out.cpu(), x.cpu() * 3)
        runs.clear()
    tuned[lambda meta: (triton.cdiv(20_000, meta["BLOCK"]),)](x, out, 20_000)
    assert len(runs) == 1, "outside of trials every launch is run"


def test_launches_of_streams_share_the_pes() -> None:
    x, out = pair()
    torch.ahbm.synchronize()
    start, streams = now(), [torch.ahbm.Stream() for _ in range(2)]
    times = []
    for cubes in (range(8), range(8, 16), range(4, 12)):
        with cubeyard.triton.record(cubes=cubes) as run, torch.ahbm.stream(streams[len(times) % 2]):
            scaled(x, out)
        times.append(round(run.launches[0].kernel_ns * 1000))
    ends = [_native.torch_stream_time(0, stream.stream_id) - start for stream in streams]
    assert ends == [max(times[:2]) + times[2], times[1]], "apart, then after both"
    torch.ahbm.synchronize()


def test_the_device_of_the_tensors_is_the_device_of_the_launch() -> None:
    kernel = kernel_ps()
    x, out = pair(device="ahbm:1")
    torch.ahbm.synchronize(0)
    torch.ahbm.synchronize(1)
    start, stream = now(), torch.ahbm.Stream(1)
    scaled(x, out)
    assert _native.torch_stream_time(1, 0) == start + kernel and _native.torch_stream_time(0, 0) == start
    torch._C._accelerator_setStream(stream)  # of device 1, which is not current
    scaled(x, out)
    assert _native.torch_stream_time(1, stream.stream_id) == start + 2 * kernel, "after the first, which has all PEs"
    torch._C._accelerator_setStream(torch.ahbm.default_stream(1))
    torch.ahbm.set_device(0)
    y, result = pair()
    with torch.ahbm.device(0):
        scaled(y, result)
    assert _native.torch_stream_time(0, 0) == start + kernel, "the PEs of the other SIP were free"
    torch.ahbm.synchronize(1)


def test_a_launch_on_several_sips_takes_the_pes_of_all() -> None:
    x, out = pair()
    y, result = pair(device="ahbm:1")
    torch.ahbm.synchronize(0)
    torch.ahbm.synchronize(1)
    start = now()
    with cubeyard.triton.record(sips=(0, 1)) as run:
        scaled(x, out)
    both = round(run.launches[0].kernel_ns * 1000)
    assert _native.torch_stream_time(0, 0) == start + both and _native.torch_stream_time(1, 0) == start
    scaled(y, result)
    assert _native.torch_stream_time(1, 0) == start + both + kernel_ps()
    torch.ahbm.synchronize(1)


def test_views_descriptors_and_pointers_take_time() -> None:
    x, out = pair(512)
    torch.ahbm.synchronize()
    before = _native.torch_stream_time(0, 0)
    scaled(x[256:], out[:256])
    after = _native.torch_stream_time(0, 0)
    described[(1,)](TensorDescriptor.from_tensor(x, [64]), torch.zeros(64, device="ahbm"), BLOCK=64)
    last = _native.torch_stream_time(0, 0)
    scaled(Pointer(x), torch.zeros(512, device="ahbm"))
    assert before < after < last < _native.torch_stream_time(0, 0)


def test_a_launch_that_fails_takes_no_time() -> None:
    x, _ = pair()
    torch.ahbm.synchronize()
    start = now()
    with pytest.raises(CubeyardError):
        outside[(1,)](x, BLOCK=64)
    kernel = scale[(4,)](x, torch.zeros_like(x), 1000, BLOCK=256)
    torch.ahbm.synchronize()
    start = now()
    rest = (kernel.packed_metadata, None, None, None, x, torch.zeros_like(x), 1000, 256)
    kernel.run(4, 1, 1, torch.ahbm.Stream().stream_id, kernel.function, *rest)
    with pytest.raises(InputError, match="stream 60000: device 0 has no such stream"):
        kernel.run(4, 1, 1, 60000, kernel.function, *rest)
    torch.ahbm.synchronize()
    assert now() - start == kernel_ps()


def test_a_freed_block_waits_for_the_launch_of_another_stream(device: str) -> None:
    side, n = torch.ahbm.Stream(), 1000
    x, out = pair(n)
    with torch.ahbm.stream(side):
        torch.zeros(1, device="ahbm")  # the allocator has seen both streams
        torch.ahbm.synchronize()
        scaled(x, out)
    address, end = out.data_ptr(), _native.torch_stream_time(0, side.stream_id)
    out.record_stream(side)
    active = torch.ahbm.memory_stats()["active_bytes.all.current"]
    del out
    assert torch.ahbm.memory_stats()["active_bytes.all.current"] == active, "its stream has not passed"
    assert torch.empty(n, device="ahbm").data_ptr() != address
    torch.ahbm.synchronize()
    assert now() == end
    assert torch.empty(n, device="ahbm").data_ptr() == address
    assert torch.ahbm.memory_stats()["active_bytes.all.current"] == active - 4096


def test_a_block_freed_on_its_own_stream_is_free_for_it_at_once(device: str) -> None:
    x, out = pair()
    scaled(x, out)
    address = out.data_ptr()
    del out
    assert torch.empty(1000, device="ahbm").data_ptr() == address, "the next work of the stream comes after the launch"


def test_the_host_spends_time_on_each_launch(script: Script, tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("host: {launch_ns: 700}\n")
    script(
        """
        import os
        os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"
        import sys
        sys.path.insert(0, sys.argv[1])
        import test_clock as of, cubeyard.triton, triton
        x, out = of.pair()
        kernel = of.kernel_ps()
        start = of.now()
        of.scaled(x, out)
        assert of.now() - start == 700_000
        of.scaled(x, out)
        assert of.now() - start == 1_400_000
        torch.ahbm.synchronize()
        first = 700_000 + kernel
        assert of.now() - start == max(first, 1_400_000) + kernel
        assert of.between_events(lambda: of.scaled(x, out)) == (700_000 + kernel) / 1e9
        assert triton.testing.do_bench(lambda: of.scaled(x, out)) == (700_000 + kernel) / 1e9
        torch.ahbm.synchronize()
        with cubeyard.triton.record(topology={"host.launch_ns": 50}):
            assert of.between_events(lambda: of.scaled(x, out)) == (50_000 + kernel) / 1e9
        """,
        str(Path(__file__).parent),
        anew=True,
        CUBEYARD_TOPOLOGY=str(tmp_path / "machine.yaml"),
    )


# ---- Random programs against a slow model ----


@dataclass
class Work:
    """Work of the model: it begins when everything before it has ended."""

    after: list[Work]
    picoseconds: int = 0
    at: int = 0
    pes: frozenset[int] = frozenset()

    @cached_property
    def begin(self) -> int:
        return max([self.at, *(one.end for one in self.after)])

    @property
    def end(self) -> int:
        return self.begin + self.picoseconds


@dataclass
class Model:
    """Every work of a program, by stream: each waits for all earlier launches that share a PE."""

    streams: list[list[Work]]
    launches: list[Work] = field(default_factory=list)
    host: int = 0

    def add(self, stream: int, after: list[Work], **more: Any) -> Work:
        work = Work([*self.streams[stream][-1:], *after], at=self.host, **more)
        self.streams[stream].append(work)
        return work

    def launch(self, stream: int, pes: frozenset[int], picoseconds: int, host: int) -> Work:
        self.host += host
        shared = [one for one in self.launches if one.pes & pes]
        self.launches.append(self.add(stream, shared, picoseconds=picoseconds, pes=pes))
        return self.launches[-1]

    def end(self, stream: int) -> int:
        return max([self.host, *(one.end for one in self.streams[stream][-1:])])


def program(seed: int) -> tuple[int, list[tuple[Any, ...]]]:
    """A random program: a number of streams, and steps of a kind, a stream and more."""
    of = random.Random(seed)
    count, steps, events = of.randint(1, 4), [], 0
    for _ in range(of.randint(1, 25)):
        kind, stream = of.choice(("launch", "launch", "launch", "sleep", "record", "wait", "synchronize")), of.randrange(count)
        if kind == "launch":
            pes = frozenset(of.sample(range(6), of.randint(1, 3)))
            steps.append((kind, stream, pes, of.randrange(1000), of.choice((0, 0, of.randrange(300)))))
        elif kind == "sleep":
            steps.append((kind, stream, of.randrange(1000)))
        elif kind == "record":
            events += 1
            steps.append((kind, stream))
        elif kind == "synchronize" or events:
            steps.append((kind, stream) if kind == "synchronize" else (kind, stream, of.randrange(events)))
    return count, steps


def performed(count: int, steps: list[tuple[Any, ...]]) -> list[int]:
    """Runs a program on new streams. Returns the begins and ends of launches, and the ends of streams."""
    torch.ahbm.synchronize(0)
    start, seen, events = now(), [], []
    streams = [torch.ahbm.Stream(0) for _ in range(count)]
    for kind, number, *more in steps:
        stream = streams[number]
        if kind == "launch":
            pes = [(0, pe // 3, pe % 3) for pe in sorted(more[0])]
            seen += _native.torch_launch(0, stream.stream_id, pes, more[1], more[2])
        elif kind == "sleep":
            with torch.ahbm.stream(stream):
                torch.ahbm._sleep(more[0] / 1000)
        elif kind == "record":
            events.append(stream.record_event())
        elif kind == "wait":
            stream.wait_event(events[more[0]])
        else:
            stream.synchronize()
        seen += [now(), *(_native.torch_stream_time(0, one.stream_id) for one in streams)]
    torch.ahbm.synchronize(0)
    return [time - start for time in seen]


def modelled(count: int, steps: list[tuple[Any, ...]]) -> list[int]:
    """What `performed` should return, by the slow model."""
    model, seen, events = Model([[] for _ in range(count)]), [], []
    for kind, number, *more in steps:
        if kind == "launch":
            work = model.launch(number, *more)
            seen += [work.begin, work.end]
        elif kind == "sleep":
            model.add(number, [], picoseconds=more[0])
        elif kind == "record":
            events.append(model.add(number, []))
        elif kind == "wait":
            model.add(number, [events[more[0]]])
        else:
            model.host = model.end(number)
        seen += [model.host, *map(model.end, range(count))]
    return seen


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_have_the_times_of_the_model(seed: int) -> None:
    count, steps = program(seed)
    assert performed(count, steps) == modelled(count, steps)


@pytest.mark.parametrize("seed", range(30))
def test_an_observer_changes_no_time(seed: int) -> None:
    count, steps = program(1000 + seed)
    alone = performed(count, steps)
    with torch.ahbm.record_timeline() as timeline, cubeyard.triton.record():
        assert performed(count, steps) == alone
    assert len(timeline.spans) == sum(step[0] == "sleep" for step in steps)


def test_kernels_have_the_same_times_with_observers_and_without() -> None:
    x, out = pair()

    def run() -> list[int]:
        torch.ahbm.synchronize()
        start, side = now(), torch.ahbm.Stream()
        scaled(x, out)
        with torch.ahbm.stream(side):
            scaled(x, out, 64)
        return [_native.torch_stream_time(0, stream) - start for stream in (0, side.stream_id)]

    alone = run()
    with cubeyard.triton.record():
        recorded = run()
    with torch.ahbm.record_timeline():
        assert alone == recorded == run()
