"""Runs of shapes alone: their time and memory are those of the run with data."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

import cubeyard.torch
from cubeyard import _native
from cubeyard.errors import InputError
from cubeyard.torch.profiling.tables import Sums

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGE = 128
"""Granule of blocks, in bytes."""


class Mlp(nn.Module):
    """Two layers behind a norm, with a residual sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Some blocks with a head."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mlp(width) for _ in range(layers))
        self.head = nn.Linear(width, 8)

    def forward(self, x: torch.Tensor) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def trained(data: bool, steps: int = 2, make: Callable[[], nn.Module] = Net, optimizer: Any = torch.optim.AdamW) -> Any:
    """Returns the run of a training loop."""
    with cubeyard.torch.simulate(data=data) as run:
        torch.manual_seed(0)
        model = make().to("ahbm")
        chosen = optimizer(model.parameters(), lr=0.01)
        x, y = torch.randn(16, 32).to("ahbm"), torch.zeros(16, dtype=torch.long, device="ahbm")
        for _ in range(steps):
            chosen.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            chosen.step()
    return run


def seen(profile: Any) -> list[tuple[Any, ...]]:
    """Returns what must be equal with data and without."""
    return [(one.name, one.shapes, one.dtypes, one.site, one.begin_ps, one.end_ps, one.cost) for one in profile.operations]


def without_lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "line"} for row in rows]


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_shapes_and_data_have_equal_times_and_peaks(device: str, optimizer: Any) -> None:
    shapes, data = trained(False, optimizer=optimizer), trained(True, optimizer=optimizer)
    assert shapes.profile.total_ps == data.profile.total_ps > 0
    assert seen(shapes.profile) == seen(data.profile)
    assert len(shapes.steps) == len(data.steps) == 2
    for ours, theirs in zip(shapes.steps, data.steps, strict=True):
        assert ours.total_ps == theirs.total_ps > 0
        assert ours.memory.peak_bytes == theirs.memory.peak_bytes > 0
        assert ours.memory.kinds == theirs.memory.kinds
        assert ours.memory.over_time == theirs.memory.over_time
        assert ours.holders() == theirs.holders()
    del shapes, data


def test_attention_dropout_and_clipping_are_equal_too(device: str) -> None:
    sys.path.insert(0, str(EXAMPLES))
    from torch_profile import Model

    def of(data: bool) -> Any:
        with cubeyard.torch.simulate(data=data) as run:
            model = Model(200, 64, 2, 4).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            tokens = torch.zeros(2, 16, dtype=torch.long, device=device)
            for _ in range(2):
                optimizer.zero_grad()
                logits = nn.functional.dropout(model(tokens), 0.1)
                nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        return run.profile

    shapes, data = of(False), of(True)
    assert seen(shapes) == seen(data)
    assert (shapes.total_ps, shapes.memory.peak_bytes) == (data.total_ps, data.memory.peak_bytes)


def seen_by(data: bool, program: Callable[[], Any]) -> Any:
    """Returns the operations of a program and its time, without the lines."""
    with cubeyard.torch.simulate(data=data) as run:
        held = program()
    del held
    rows = [(one.name, one.kind, one.track, one.shapes, one.begin_ps, one.end_ps, one.cost) for one in run.profile.operations]
    return rows, run.profile.total_ps


def test_copies_over_the_link_are_equal_with_their_waits(device: str) -> None:
    def copies() -> Any:
        x = torch.ones(1 << 16, device=device)
        blocking, other = x.to("cpu"), (x * 2).to("cpu", non_blocking=True)
        y = torch.ones(1 << 14, dtype=torch.float64).to(device=device, dtype=torch.float32)
        x[: 1 << 14].copy_(torch.ones(1 << 14))
        # PyTorch makes this one with data. It would not wait for a link that a copy without data on another stream has.
        made = torch.tensor([1.0, 2.0], device=device)
        side = torch.ahbm.Stream()
        with side:
            z = torch.ones(1 << 18).to(device, non_blocking=True)
        w = torch.ones(1 << 10).to(device, non_blocking=True)
        return blocking, other, y, z + 1, w, x.half(), made + 1

    shapes, data = seen_by(False, copies), seen_by(True, copies)
    # Streams of two runs have other numbers, and all else is equal.
    assert [row[:2] + row[3:] for row in shapes[0]] == [row[:2] + row[3:] for row in data[0]]
    assert shapes[1] == data[1]
    made = [row for row in shapes[0] if row[1] == "copy"]
    assert [row[0] for row in made] == ["copy to host"] * 2 + ["copy from host"] * 5
    assert [row[6].bytes for row in made] == [1 << 18, 1 << 18, 1 << 16, 1 << 16, 8, 1 << 20, 1 << 12]
    assert made[-1][4] == made[-2][5], "copies of two streams take the link in turn"


def test_operators_that_call_others_are_one_operation(device: str) -> None:
    def composed() -> Any:
        x = torch.ones(64, 64, device=device)
        parts = torch._foreach_mul([x, x[0], x.t()], 3.0)
        return parts, torch.full((8, 1, 8), 0.25, device=device), x.roll(3), nn.functional.dropout(x, 0.3), x.new_zeros(5), torch.addmm(x, x, x, beta=0.5)

    shapes, data = seen_by(False, composed), seen_by(True, composed)
    assert shapes == data and len(shapes[0]) >= 6
    assert len([row for row in shapes[0] if "_foreach_mul" in row[0]]) == 1


def test_convolutions_counters_and_repetitions_are_equal_too(device: str) -> None:
    """The counter of a BatchNorm has a value that PyTorch knows also without data."""

    def program() -> Any:
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3)).to(device)
        net(torch.empty(2, 3, 8, 8, device=device)).sum().backward()
        return net, torch.arange(3, device=device).repeat(2, 1), torch.tensor(3).to(device) + 1

    shapes, data = seen_by(False, program), seen_by(True, program)
    assert shapes == data
    assert len([row for row in shapes[0] if "convolution" in row[0]]) == 4


def test_the_host_computes_without_data_and_without_time(device: str) -> None:
    with cubeyard.torch.simulate(data=False) as run:
        assert nn.Conv2d(3, 4, 3)(torch.empty(2, 3, 8, 8)).shape == (2, 4, 6, 6)
    assert not run.profile.operations and run.profile.total_ps == 0


def test_a_run_takes_time_also_where_operators_take_none(device: str) -> None:
    timed = trained(True, steps=1).profile.total_ps
    _native.torch_set_timed(False)
    try:
        assert trained(True, steps=1).profile.total_ps == timed > 0
        assert not _native.torch_is_timed()
    finally:
        _native.torch_set_timed(True)


def test_without_data_the_device_holds_nothing(device: str) -> None:
    before = torch.ahbm.max_memory_allocated()
    with cubeyard.torch.simulate(data=False) as run:
        weights = torch.empty(1 << 18, 1 << 12, device=device)
        assert torch.ahbm.memory_allocated() <= before
        del weights
    assert run.profile.memory.peak_bytes == 1 << 32


def test_the_time_is_the_sum_of_costs_on_one_stream(device: str) -> None:
    profile = trained(False).profile
    costs = [one.cost for one in profile.operations]
    assert all(cost is not None for cost in costs)
    # The default machine launches in no time, and one stream has no gaps.
    assert profile.total_ps == sum(cost.ps for cost in costs) == profile.busy_ps
    rows = profile.rows("operation")
    assert [row["begin_ns"] for row in rows[1:]] == [row["end_ns"] for row in rows[:-1]]


def test_all_tables_have_the_same_sums(device: str) -> None:
    profile = trained(False).profile
    whole = profile.sums
    for by in ("operator", "line", "shape", "phase", "operation"):
        rows = profile.rows(by)
        assert sum(row["calls"] for row in rows) == whole.calls
        assert sum(row["bytes"] for row in rows) == whole.bytes
        assert sum(row["ns"] for row in rows) == pytest.approx(whole.ps / 1000)
    tops = [row for row in profile.rows("module") if row["depth"] <= 1]
    assert sum(row["calls"] for row in tops) == whole.calls
    with pytest.raises(InputError, match="by='colour': expected one of operator, module"):
        profile.rows("colour")


def test_the_allocator_is_the_peak_of_the_data(device: str) -> None:
    gc.collect()
    torch.ahbm.reset_peak_memory_stats()
    run = trained(True)
    assert run.profile.memory.peak_bytes == torch.ahbm.max_memory_allocated()


def test_the_peak_is_the_closed_form_of_parameters_gradients_and_states(device: str) -> None:
    with cubeyard.torch.simulate(data=False) as run:
        model = nn.Linear(1024, 1024, bias=False, device=device)
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        for _ in range(2):
            model(torch.empty(1, 1024, device=device)).sum().backward()
            optimizer.step()
    [memory] = run.profile.memories
    weights = 4 * 1024 * 1024
    assert memory.kinds["parameter"] == memory.kinds["gradient"] == weights
    assert memory.kinds["optimizer state"] == 2 * weights
    # Adam computes a denominator of the size of the weights, and its square root.
    assert 5 * weights <= memory.peak_bytes < 6.01 * weights


def test_the_peak_is_that_of_pytorch_s_own_tracker(device: str) -> None:
    """MemTracker rounds each storage to 512 bytes, unless it is told the granule of the device."""
    with cubeyard.torch.simulate(data=False) as run:
        model = Net(64, 3).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        x = torch.randn(16, 64, device=device)
        start = sum(_blocks(tensor) for tensor in [*model.parameters(), *model.buffers()])
        with tracker:
            model(x).sum().backward()
            optimizer.step()
    theirs = tracker.get_tracker_snapshot("peak")[torch.device(device, 0)]["Total"]
    ours = run.profile.memory.peak_bytes
    assert start < theirs
    # Ours has the input, which exists before the tracker, and blocks of 128 bytes instead of exact sizes.
    assert theirs <= ours <= theirs + _blocks(x) + 128 * 200


def _blocks(tensor: torch.Tensor) -> int:
    return -(-tensor.untyped_storage().nbytes() // PAGE) * PAGE


def test_tied_weights_count_once_and_views_count_nothing(device: str) -> None:
    with cubeyard.torch.simulate(data=False) as run:
        table = nn.Embedding(1024, 256, device=device)
        head = nn.Linear(256, 1024, bias=False, device=device)
        head.weight = table.weight
        gc.collect()
        tied = run.profile.memory.over_time[-1][1]
        views = [table.weight.t(), table.weight.view(-1), table.weight[3:7], table.weight.detach()]
        assert run.profile.memory.over_time[-1][1] == tied == 1024 * 256 * 4
        del views


def test_the_order_of_modules_does_not_change_a_module(device: str) -> None:
    def of(order: list[str]) -> dict[str, Any]:
        with cubeyard.torch.simulate(data=False) as run:
            parts = {"a": Mlp(32).to(device), "b": nn.Linear(32, 32).to(device)}
            x = torch.empty(8, 32, device=device)
            begin = len(run.profile.operations)
            for name in order:
                parts[name](x)
        profile = run.profile
        rows = {}
        for one in profile.operations[begin:]:
            if one.site.modules:
                rows.setdefault(one.site.modules[0], Sums()).add(one)
        return rows

    assert of(["a", "b"]) == of(["b", "a"])


def test_backward_has_the_module_and_the_line_of_its_forward(device: str) -> None:
    profile = trained(False, steps=1).profile
    forward = {one.site.module for one in profile.operations if one.site.phase == "forward" and one.name.endswith(("mm", "gelu"))}
    backward = {one.site.module for one in profile.operations if one.site.phase == "backward" and one.name.endswith(("mm", "gelu_backward"))}
    assert forward == backward == {*(f"Net.layers.{layer}{part}" for layer in (0, 1) for part in ("", ".up", ".down")), "Net.head"}
    [gelu] = {one.site.line for one in profile.operations if one.name == "aten::gelu"}
    [back] = {one.site.line for one in profile.operations if one.name == "aten::gelu_backward"}
    assert gelu == back and gelu.startswith("test_simulate.py:")
    assert {one.site.phase for one in profile.operations} == {"forward", "backward", "optimizer"}


def test_recomputation_takes_time_and_saves_memory(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    def of(recompute: bool) -> Any:
        with cubeyard.torch.simulate(data=False) as run:
            layers = [Mlp(64).to(device) for _ in range(4)]
            x = torch.empty(512, 64, device=device, requires_grad=True)
            y = x
            for layer in layers:
                y = checkpoint(layer, y, use_reentrant=False) if recompute else layer(y)
            y.sum().backward()
        return run.profile

    plain, saved = of(False), of(True)
    assert saved.total_ps > plain.total_ps
    assert saved.memory.peak_bytes < plain.memory.peak_bytes


def test_more_work_is_never_faster(device: str) -> None:
    def of(rows: int) -> Any:
        with cubeyard.torch.simulate(data=False) as run:
            Net().to(device)(torch.empty(rows, 32, device=device))
        return run.profile

    times = [of(rows).total_ps for rows in (16, 32, 64, 1024)]
    assert times == sorted(times) and times[0] < times[-1]


def test_a_model_that_is_too_large_names_its_holders(device: str) -> None:
    with pytest.raises(torch.OutOfMemoryError) as raised, cubeyard.torch.simulate(data=False, capacity=1 << 20) as run:
        model = Net(64, 2).to(device)
        model(torch.empty(1024, 64, device=device))
    text = str(raised.value)
    assert "holders of the most bytes" in text and "activation, Net.layers.0.norm, " in text and "test_simulate.py:" in text
    assert "parameter, outside of modules" in text
    assert run.profile.memory.peak_bytes <= 1 << 20
    with cubeyard.torch.simulate(data=False, capacity=1 << 20, enforce=False) as run:
        model = Net(64, 2).to(device)
        model(torch.empty(1024, 64, device=device))
    assert not run.profile.memory.fits and run.profile.memory.peak_bytes > 1 << 20
    assert "does not fit in 1 MiB" in run.profile.explain()


def test_an_exception_leaves_everything_usable(device: str) -> None:
    with pytest.raises(ZeroDivisionError), cubeyard.torch.simulate(data=False) as run:
        layer = nn.Linear(8, 8, device=device)
        layer.register_forward_hook(lambda *_: 1 / 0)
        layer(torch.empty(1, 8, device=device))
    assert [one.site.modules for one in run.profile.operations][-1] == ("Linear",)
    x = torch.ones(3, device=device)
    assert type(x + 1) is torch.Tensor and (x + 1).sum().item() == 6
    assert not nn.modules.module._global_forward_hooks
    with cubeyard.torch.simulate(data=False) as run:
        torch.empty(8, device=device) + 1
    assert [one.site.modules for one in run.profile.operations][-1] == ()


def test_a_run_within_a_run_is_refused(device: str) -> None:
    with cubeyard.torch.simulate(data=False):
        with pytest.raises(InputError, match=r"simulate\(\) is already running"), cubeyard.torch.simulate():
            pass
        x = torch.empty(3, device=device) + 1
        assert x.shape == (3,)
    with cubeyard.torch.simulate() as run:
        pass
    with pytest.raises(InputError, match="this run has ended"), run:
        pass


def test_values_without_data_are_refused_with_the_line(device: str) -> None:
    with cubeyard.torch.simulate(data=False):
        x = torch.empty(3, device=device)
        with pytest.raises(InputError, match=r"test_simulate.py:\d+: aten::_local_scalar_dense needs the value of a tensor"):
            x.sum().item()


def test_tensors_with_data_are_refused_in_a_run_without(device: str) -> None:
    x = torch.ones(3, device=device)
    with cubeyard.torch.simulate(data=False), pytest.raises(InputError, match=r"aten::add.Tensor has a tensor of \(3,\) with data"):
        x + 1


@pytest.mark.parametrize("given", [{"capacity": 1 << 30}, {"enforce": False}])
def test_settings_of_shapes_are_refused_with_data(device: str, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="for a run without data"):
        cubeyard.torch.simulate(**given)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "8GiB", True])
def test_a_capacity_is_a_number_of_bytes(device: str, capacity: Any) -> None:
    with pytest.raises(InputError, match="capacity="):
        cubeyard.torch.simulate(data=False, capacity=capacity)


def test_streams_overlap_with_the_host_as_launches_do(device: str) -> None:
    side = torch.ahbm.Stream()
    with cubeyard.torch.simulate(data=False) as run:
        x = torch.empty(1 << 20, device=device)
        first = x + 1
        with side:
            second = x * 2
        side.synchronize()
    tracks = {one.name: one.track for one in run.profile.operations}
    assert tracks["aten::add.Tensor"] == "ahbm:0 stream 0"
    assert tracks["aten::mul.Tensor"] == f"ahbm:0 stream {side.stream_id}"
    ends = {one.name: one for one in run.profile.operations}
    assert ends["aten::mul.Tensor"].begin_ps >= ends["aten::add.Tensor"].end_ps, "both use all PEs"
    del first, second
