"""A few tests of everything, for versions of PyTorch that are neither the oldest nor the newest."""

from __future__ import annotations

import copy
import io
import pathlib

import pytest
import torch


def test_a_model_trains_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)]
    model = torch.nn.Sequential(*layers)
    twin = copy.deepcopy(model).to("ahbm")
    inputs, targets = torch.randn(8, 16), torch.randint(4, (8,))
    losses: dict[str, list[float]] = {"cpu": [], "ahbm": []}
    for device, one in (("cpu", model), ("ahbm", twin)):
        optimizer = torch.optim.AdamW(one.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(one(inputs.to(device)), targets.to(device))
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["cpu"] == losses["ahbm"] and losses["cpu"][0] > losses["cpu"][-1]


def test_memory_is_given_back() -> None:
    before = torch.ahbm.memory_allocated()
    x = torch.ones(1000, device="ahbm")
    assert torch.ahbm.memory_allocated() == torch.accelerator.memory_allocated() == before + 4096
    view = x[10:20]
    del x
    assert view.sum().item() == 10
    del view
    assert torch.ahbm.memory_allocated() == before
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        torch.empty(1 << 50, device="ahbm")


def test_tensors_go_between_devices_and_files() -> None:
    x = torch.randn(5, device="ahbm")
    assert torch.equal(x.to("ahbm:1").cpu(), x.cpu()) and x.ahbm(1).device.index == 1
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    loaded = torch.load(file, map_location="ahbm:1")
    assert loaded.device == torch.device("ahbm:1") and torch.equal(loaded.cpu(), x.cpu())
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(5)


def test_streams_events_and_seeds() -> None:
    stream, event = torch.ahbm.Stream(), torch.ahbm.Event()
    with torch.ahbm.stream(stream):
        torch.ahbm._sleep(100)
        event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()
    torch.manual_seed(1)
    x = torch.rand(3, device="ahbm")
    torch.manual_seed(1)
    assert torch.equal(x, torch.rand(3, device="ahbm"))


def test_snapshots_and_programs(tmp_path: pathlib.Path) -> None:
    torch.ahbm.memory._record_memory_history()
    x = torch.ones(1000, device="ahbm")
    torch.ahbm.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    torch.ahbm.memory._record_memory_history(None)
    assert (tmp_path / "snapshot.pickle").stat().st_size > 100
    with torch.ahbm.load_program(b"binary", parameters=1) as program, program.launch(x) as launch:
        assert launch.operands[0].size == 4000


def test_compile_with_aot_eager() -> None:
    compiled = torch.compile(lambda x: (x * 2).relu().sum(), backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(4, device="ahbm")).item() == 8
