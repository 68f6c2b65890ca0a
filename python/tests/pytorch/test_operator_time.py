"""Operators take simulated time: each takes its cost, in one place, and changes no number."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cubeyard import _native
from cubeyard.torch.operators import TensorSpec, cost

from conftest import Script

FREE = ("aten::empty", "aten::new_empty", "aten::resize", "aten::set_")


@pytest.fixture(autouse=True)
def timed(device: str) -> Iterator[None]:
    """Time is on, and all work has ended."""
    was = _native.torch_is_timed()
    _native.torch_set_timed(True)
    for index in range(torch.ahbm.device_count()):
        torch.ahbm.synchronize(index)
    yield
    _native.torch_set_timed(was)


def spec(value: Any) -> Any:
    if isinstance(value, Tensor):
        return TensorSpec(tuple(value.shape), value.stride(), str(value.dtype).removeprefix("torch."), value.element_size())
    return tuple(spec(one) for one in value) if isinstance(value, list | tuple) else value


class Costs(TorchDispatchMode):
    """Sums the costs of operators as PyTorch's dispatcher shows them, without the shim."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.each: list[int] = []

    @property
    def ps(self) -> int:
        return sum(self.each)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        # Before the call: it may change the shape of `out`.
        given = [args[at] if at < len(args) else kwargs.get(one.name, one.default_value) for at, one in enumerate(schema.arguments)]
        arguments = spec(given)
        result = func(*args, **kwargs)
        name = func.name()
        if not func.is_view and not name.startswith(FREE):
            found = cost(name, arguments, (spec(result),) if len(schema.returns) == 1 else spec(result))
            if found is not None:
                self.names.append(name)
                self.each.append(found.ps)
        return result


def elapsed_ps(function: Callable[[], Any], stream: Any = None) -> int:
    """Picoseconds between events around a call on the current stream."""
    begin, end = (torch.Event("ahbm", enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return round(begin.elapsed_time(end) * 1e9)


# ---- Random programs ----

Step = Callable[[list[Tensor]], Tensor]


def _unary(of: random.Random) -> Step:
    act = of.choice([torch.relu, torch.exp, torch.neg, lambda x: torch.softmax(x, -1), torch.clone, lambda x: x.to(torch.float64).float()])
    at = of.randrange(4)
    return lambda pool: act(pool[at])


def _binary(of: random.Random) -> Step:
    act = of.choice([torch.add, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, b), lambda a, b: torch.add(a, b, alpha=3)])
    a, b = of.randrange(4), of.randrange(4)
    return lambda pool: act(pool[a], pool[b])


def _scalar(of: random.Random) -> Step:
    at, number = of.randrange(4), of.choice([0, 1, 2.5, -3])
    return of.choice([lambda pool: pool[at] * number, lambda pool: pool[at].add(number), lambda pool: torch.full_like(pool[at], number)])


def _product(of: random.Random) -> Step:
    a, b = of.randrange(4), of.randrange(4)
    return lambda pool: pool[a] @ pool[b].t() @ pool[a] / 64


def _in_place(of: random.Random) -> Step:
    at, by = of.randrange(4), of.randrange(4)
    act = of.choice([lambda a, b: a.mul_(b), lambda a, b: a.copy_(b), lambda a, b: a[::2].add_(b[::2]), lambda a, b: a.t().zero_().t()])
    return lambda pool: act(pool[at], pool[by]).sum() * 0 + pool[at]


def _out(of: random.Random) -> Step:
    a, b = of.randrange(4), of.randrange(4)

    def step(pool: list[Tensor]) -> Tensor:
        out = torch.empty_like(pool[a])
        return torch.sub(pool[a], pool[b], out=out)

    return step


def _view(of: random.Random) -> Step:
    at, of_rows = of.randrange(4), of.randrange(1, 5)
    return lambda pool: torch.cat([pool[at][of_rows:], pool[at][:of_rows]]).contiguous()


def _several(of: random.Random) -> Step:
    a, b = of.randrange(4), of.randrange(4)
    return lambda pool: torch._foreach_add([pool[a], pool[b]], 1.0)[1].clamp(-4, 4)


STEPS = [_unary, _binary, _scalar, _product, _in_place, _out, _view, _several]


def program(seed: int, length: int, more_at: int | None = None) -> Any:
    """A program on four tensors, with one operator more before a step if that is given."""
    of = random.Random(seed)
    rows, columns = of.randrange(5, 40), of.randrange(1, 70)
    steps = [(of.choice(STEPS)(of), of.randrange(4)) for _ in range(length)]

    def start(device: Any) -> list[Tensor]:
        torch.manual_seed(seed)
        return [torch.rand(rows, columns).to(device) for _ in range(4)]

    def run(pool: list[Tensor]) -> list[Tensor]:
        for number, (step, at) in enumerate(steps):
            if number == more_at:
                torch.relu(pool[0])
            pool[at] = step(pool).clamp(-8, 8)
        return pool

    run.start = start
    return run


@pytest.mark.parametrize("seed", range(12))
def test_a_program_takes_the_sum_of_its_operators_and_has_the_numbers_of_the_cpu(seed: int) -> None:
    run = program(seed, 25)
    expected = run(run.start("cpu"))
    costs, pool = Costs(), run.start("ahbm")
    with costs:
        run(pool)
    assert all(torch.equal(one.cpu(), other) for one, other in zip(pool, expected, strict=True))
    assert len(costs.names) > 25 and costs.ps > 0
    pool = run.start("ahbm")
    assert elapsed_ps(lambda: run(pool)) == costs.ps
    assert all(torch.equal(one.cpu(), other) for one, other in zip(pool, expected, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_observers_change_no_time(seed: int) -> None:
    run = program(seed, 15)

    def once(around: Any) -> tuple[int, Any]:
        pool = run.start("ahbm")
        with around as seen:
            return elapsed_ps(lambda: run(pool)), seen

    alone, _ = once(nullcontext())
    watched, timeline = once(torch.ahbm.record_timeline())
    summed, times = once(torch.ahbm.record_operators())
    profiled, _ = once(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]))
    assert alone == watched == summed == profiled > 0
    assert {span.kind for span in timeline.spans} == {"operator"}
    assert sum(span.end_ps - span.begin_ps for span in timeline.spans) == alone == times.ps
    assert all(len(span.pes) == 128 and span.source for span in timeline.spans)
    assert sum(row.count for row in times.rows) == len(timeline.spans)
    names = {span.name for span in timeline.spans}
    assert names == {row.op for row in times.rows} and all(name.startswith("aten::") for name in names)


@pytest.mark.parametrize("seed", range(6))
def test_one_more_operator_is_never_earlier(seed: int) -> None:
    of, taken = random.Random(seed), []
    length = of.randrange(1, 20)
    for more_at in (None, of.randrange(length)):
        run = program(seed, length, more_at)
        pool = run.start("ahbm")
        taken.append(elapsed_ps(lambda run=run, pool=pool: run(pool)))
    assert 0 < taken[0] < taken[1]


def test_streams_take_the_pes_in_turn_and_copies_overlap_operators() -> None:
    x, side = torch.rand(512, 512).to("ahbm"), torch.ahbm.Stream()
    pinned, y = torch.rand(512, 512).pin_memory(), torch.empty(512, 512, device="ahbm")
    torch.ahbm.synchronize()
    with torch.ahbm.record_timeline() as timeline:
        x + x
        with torch.ahbm.stream(side):
            x * x
            y.copy_(pinned, non_blocking=True)
        x - x
    first, second, copy, third = timeline.spans
    assert (second.begin_ps, third.begin_ps) == (first.end_ps, second.end_ps), "operators take all PEs"
    assert copy.kind == "copy" and copy.begin_ps == second.end_ps == third.begin_ps, "a copy takes no PEs"
    assert (first.track, second.track) == ("ahbm:0 stream 0", f"ahbm:0 stream {side.stream_id}")


def test_operators_of_other_devices_run_at_the_same_time() -> None:
    one, other = torch.rand(300, 300).to("ahbm:0"), torch.rand(300, 300).to("ahbm:1")
    for index in range(2):
        torch.ahbm.synchronize(index)
    with torch.ahbm.record_timeline() as timeline:
        one + one
        other + other
    first, second = timeline.spans
    assert first.begin_ps == second.begin_ps and first.end_ps == second.end_ps
    assert second.track.startswith("ahbm:1") and {pe[0] for pe in second.pes} == {1}


def test_backward_takes_time_on_its_own_thread() -> None:
    weight = torch.rand(64, 64).to("ahbm").requires_grad_()
    x = torch.rand(16, 64).to("ahbm")
    torch.ahbm.synchronize()
    threads: set[str] = set()
    from cubeyard.torch import _costs

    loss = (x @ weight).relu().sum()
    with _costs.observed(lambda *_: threads.add(threading.current_thread().name)), torch.ahbm.record_operators() as times:
        taken = elapsed_ps(loss.backward)
    assert taken == times.ps > 0
    assert "aten::mm" in {row.op for row in times.rows}
    assert threads - {threading.current_thread().name}, "autograd has a thread for the device"


def test_views_and_new_tensors_take_no_time() -> None:
    x = torch.rand(40, 50).to("ahbm")
    torch.ahbm.synchronize()
    views = [
        lambda: x.t(), lambda: x[3:, ::2], lambda: x.view(50, 40), lambda: x.expand(3, 40, 50), lambda: x.unfold(0, 3, 1),
        lambda: x.detach(), lambda: torch.empty_like(x), lambda: x.new_empty(7), lambda: torch.empty(9, device="ahbm"),
        lambda: x.unsqueeze(0).squeeze(), lambda: x.split(7), lambda: x.diagonal(), lambda: x.is_contiguous(), lambda: x.size(),
        lambda: torch.empty(3, device="ahbm").resize_(12),
    ]  # fmt: skip
    with torch.ahbm.record_operators() as times:
        assert [elapsed_ps(view) for view in views] == [0] * len(views)
    assert times.rows == []


def test_a_view_takes_the_time_of_its_elements_and_out_takes_that_of_its_own() -> None:
    x = torch.rand(4096, 64).to("ahbm")  # two pages in each PE
    half = torch.empty(2048, 64, device="ahbm")
    whole, part = elapsed_ps(lambda: x + x), elapsed_ps(lambda: x[:2048] + x[:2048])
    assert 0 < part < whole
    assert elapsed_ps(lambda: torch.add(x[:2048], x[:2048], out=half)) > 0
    assert elapsed_ps(lambda: x.mul_(1)) > 0


# ---- Copies ----


def pcie_ps(size: int) -> int:
    from cubeyard.machine.topology import Topology

    return math.ceil(size * 10**12 / Topology._of(_native.torch_topology()).figures().pcie_bytes_per_s_per_sip)


@pytest.mark.parametrize("shape", [(1,), (1000,), (300, 77)])
def test_copies_take_their_bytes_over_the_link_and_the_host_waits(shape: tuple[int, ...]) -> None:
    x = torch.rand(*shape).half()
    wanted = pcie_ps(2 * x.numel())
    start = _native.torch_now()
    on_device = x.to("ahbm")
    assert _native.torch_now() - start == wanted
    on_device.cpu()
    assert _native.torch_now() - start == 2 * wanted
    on_device.float().cpu()
    between = _native.torch_now()
    on_device.to("cpu", non_blocking=True)
    assert _native.torch_now() == between, "the host does not wait"
    torch.ahbm.synchronize()
    assert _native.torch_now() - between == wanted
    start = _native.torch_now()
    there = on_device.to("ahbm:1")
    assert _native.torch_now() == start
    assert _native.torch_stream_time(0, 0) == _native.torch_stream_time(1, 0) == start + wanted
    assert torch.equal(there.cpu(), x)


def test_an_item_and_a_size_that_depends_on_data_make_the_host_wait() -> None:
    x = torch.arange(100.0).to("ahbm")
    torch.ahbm.synchronize()
    start = _native.torch_now()
    y = x + x
    assert _native.torch_now() == start
    y[3].item()
    after = _native.torch_stream_time(0, 0)
    assert _native.torch_now() == after > start
    for ask in (lambda: torch.equal(x, y), lambda: x.nonzero(), lambda: x[x > 3], lambda: x.masked_select(x > 5)):
        before = _native.torch_now()
        ask()
        assert _native.torch_now() == _native.torch_stream_time(0, 0) > before
    now = _native.torch_now()
    x[torch.tensor([1, 2], device="cpu")]
    assert _native.torch_now() == now, "numbers as indices make nobody wait"


# ---- Settings and errors ----


def test_off_takes_no_time_and_says_so_once() -> None:
    x = torch.rand(100).to("ahbm")
    torch.ahbm.synchronize()
    _native.torch_set_timed(False)
    with torch.ahbm.record_operators() as times, torch.ahbm.record_timeline() as timeline:
        assert elapsed_ps(lambda: (x + x).cpu()) == 0
    assert times.rows == [] and timeline.spans == []


def test_the_variable_turns_time_off(script: Script) -> None:
    text = """
        import warnings
        x = torch.ones(100, device="ahbm")
        begin, end = (torch.Event("ahbm", enable_timing=True) for _ in range(2))
        begin.record()
        x + x
        end.record()
        end.synchronize()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(begin.elapsed_time(end) == 0, begin.elapsed_time(end) == 0, torch.ahbm.clock() == 0)
        print([str(one.message).split(".")[0] for one in seen])
    """
    off = script(text, CUBEYARD_TIME="off").stdout.splitlines()
    assert off[0] == "True True True" and "CUBEYARD_TIME is off" in off[1] and off[1].count("CUBEYARD_TIME") == 1
    for value in ("on", None):
        assert script(text, CUBEYARD_TIME=value).stdout.splitlines() == ["False False False", "[]"]


def test_a_bad_value_is_named(script: Script) -> None:
    done = script("torch.ones(1, device='ahbm')", CUBEYARD_TIME="maybe", status=1)
    assert "CUBEYARD_TIME: `maybe`: expected on or off" in done.stderr


@pytest.mark.parametrize("nanoseconds", [700, 0.001])
def test_the_host_spends_time_on_each_operator(nanoseconds: float, script: Script, tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text(f"host: {{launch_ns: {nanoseconds}}}\n")
    script(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        host = round(1000 * float(sys.argv[2]))
        import test_operator_time as of
        run = of.program(3, 10)
        pool, costs = run.start("ahbm"), of.Costs()
        with costs:
            run(pool)
        pool = run.start("ahbm")
        torch.ahbm.synchronize()
        wanted = submitted = 0
        for picoseconds in costs.each:
            submitted += host
            wanted = max(wanted, submitted) + picoseconds
        assert of.elapsed_ps(lambda: run(pool)) == wanted > len(costs.each) * host, wanted
        """,
        str(Path(__file__).parent),
        str(nanoseconds),
        anew=True,
        CUBEYARD_TOPOLOGY=str(tmp_path / "machine.yaml"),
        CUBEYARD_TIME="on",
    )


def test_an_error_of_the_cost_is_raised_with_the_name_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    from cubeyard.torch import operators

    def refuse(op: str, arguments: Any, results: Any) -> Any:
        raise ValueError("no time today")

    x = torch.rand(13, 3).to("ahbm")
    monkeypatch.setattr(operators, "cost", refuse)
    before = _native.torch_stream_time(0, 0)
    with pytest.raises(RuntimeError, match=r"aten::cosh.*no time today"):
        torch.cosh(x)
    assert _native.torch_stream_time(0, 0) == before
    monkeypatch.undo()
    assert elapsed_ps(lambda: torch.cosh(x)) > 0, "an error is not remembered"


def test_a_cost_is_asked_for_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    from cubeyard.torch import operators

    asked: list[tuple[str, Any]] = []

    def ask(op: str, arguments: Any, results: Any) -> Any:
        asked.append((op, arguments))
        return cost(op, arguments, results)

    monkeypatch.setattr(operators, "cost", ask)
    torch.ops.ahbm._forget_costs()
    x = torch.rand(6, 1, 5).to("ahbm")
    other = torch.empty_strided((6, 1, 5), (5, 99, 1), device="ahbm").copy_(x)
    asked.clear()
    for step in range(3):
        x * (0.1 + step)
        other * 0.7
    threading.Thread(target=lambda: x * 0.9).start()
    assert [op for op, _ in asked] == ["aten::mul.Tensor"]
    (_, (operand, number)) = asked[0]
    assert operand == TensorSpec((6, 1, 5), (5, 5, 1), "float32", 4) and math.isnan(number)
    x.transpose(0, 2) * 0.5
    x.half() * 0.5
    assert [op for op, _ in asked][1:] == ["aten::mul.Tensor", "aten::_to_copy", "aten::mul.Tensor"]


def test_nested_operators_are_charged_once() -> None:
    x = torch.rand(50, 20).to("ahbm")
    half = x.half()
    with torch.ahbm.record_operators() as times:
        torch.nn.functional.dropout(x, 0.5, training=True)
        torch._foreach_mul([x, x], 2.0)
        torch.trace(half[:20])
        x.clone()
        torch.nn.functional.conv1d(x[None], torch.rand(3, 50, 3).to("ahbm"))
    found = {row.op: row.count for row in times.rows}
    copies = found.pop("copy from host")
    assert copies == 1
    assert found == {"aten::native_dropout": 1, "aten::_foreach_mul.Scalar": 1, "aten::trace": 1, "aten::clone": 1, "aten::convolution": 1}


def test_estimates_are_counted() -> None:
    x = torch.rand(33, 21).to("ahbm")
    with torch.ahbm.record_operators() as times:
        torch.cosh(x)
    [row] = times.rows
    spent = cost("aten::cosh", (spec(x),), (spec(x),))
    assert spent is not None
    assert (row.op, row.kernel, row.count, row.ps, row.bytes) == ("aten::cosh", spent.kernel, 1, spent.ps, spent.bytes)
    assert times.estimated_share == float(spent.is_estimate)
    assert torch.ahbm.operator_times().ps >= row.ps


def test_a_trial_is_forgotten() -> None:
    x = torch.rand(33, 22).to("ahbm")
    torch.ahbm.synchronize()
    start = _native.torch_now(), _native.torch_stream_time(0, 0)
    with torch.ahbm.record_operators() as times, torch.ahbm.record_timeline() as timeline:
        _native.torch_begin_trial()
        try:
            assert elapsed_ps(lambda: x + x) > 0
            x.cpu()
        finally:
            _native.torch_end_trial()
    assert (_native.torch_now(), _native.torch_stream_time(0, 0)) == start
    assert times.rows == [] and timeline.spans == []


def test_arguments_are_read_as_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    from cubeyard.torch import operators

    seen: dict[str, Any] = {}
    monkeypatch.setattr(operators, "cost", lambda op, arguments, results: seen.setdefault(op, (arguments, results)) and None)
    torch.ops.ahbm._forget_costs()
    x = torch.rand(3, 4).to("ahbm")
    torch.nn.functional.gelu(x, approximate="tanh")
    torch.sum(x, dim=-1, keepdim=True, dtype=torch.float64)
    torch.topk(x, 2)
    torch.add(x, x, alpha=2)
    monkeypatch.undo()
    torch.ops.ahbm._forget_costs()
    tensor = TensorSpec((3, 4), (4, 1), "float32", 4)
    assert seen["aten::gelu"] == ((tensor, "tanh"), (tensor,))
    assert seen["aten::sum.dim_IntList"] == ((tensor, (-1,), True, "float64"), (TensorSpec((3, 1), (1, 1), "float64", 8),))
    two = TensorSpec((3, 2), (2, 1), "float32", 4)
    assert seen["aten::topk"] == ((tensor, 2, -1, True, True), (two, two._replace(dtype="int64", element_bytes=8)))
    assert seen["aten::add.Tensor"] == ((tensor, tensor, 2), (tensor,))
