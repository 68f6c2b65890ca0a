"""Training scripts: DDP, FSDP2 and tensor parallelism, started in every way, against gloo and against one process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import dist_ranks
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import cubeyard
import cubeyard.torch.distributed as ahbm
from cubeyard.distributed import sweep

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "torch_ddp.py"
STEPS = 4
DEVICES = ["cpu", "ahbm"]


# Threads share PyTorch's random numbers.
DRAWING = threading.Lock()


def network() -> nn.Sequential:
    with DRAWING:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, 16, generator=generator), torch.randn(16, 8, generator=generator)


def train(model: nn.Module, place: int = 0, places: int = 1, device: str = "cpu") -> list[float]:
    """The losses of a part of each batch."""
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), []
    for step in range(STEPS):
        x, y = (tensor.chunk(places)[place].to(device) for tensor in batch(step))
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def select(device: str, rank: int) -> None:
    if device != "cpu":
        torch.accelerator.set_device_index(rank)


def data_parallel(rank: int, ranks: int, device: str = "cpu") -> Any:
    select(device, rank)
    model = DistributedDataParallel(network().to(device), bucket_cap_mb=0.005)
    losses = train(model, rank, ranks, device)
    report = ahbm.report() if dist.get_backend() == "ahbm" else None
    return losses, [parameter.detach().cpu() for parameter in model.parameters()], report and report.calls


@pytest.mark.parametrize("device", DEVICES)
def test_ddp_has_the_losses_of_gloo_and_the_times_of_cubeyard_ccl(device: str) -> None:
    ours = dist_ranks.processes(data_parallel, 2, device)
    gloo = dist_ranks.processes(data_parallel, 2, backend="gloo")
    alone = network()
    train(alone)
    for mine, theirs in zip(ours, gloo, strict=True):
        assert mine[0] == pytest.approx(theirs[0], abs=1e-6)
        for a, b in zip(mine[1], alone.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)
    assert ours[0][2] == ours[1][2]
    reduced = [call for call in ours[0][2] if call.operation == "all_reduce sum"]
    assert len(reduced) >= STEPS
    topology = cubeyard.Topology.from_yaml(dist_ranks.SMALL)
    for call in {call.bytes: call for call in reduced}.values():
        (row,) = sweep(topology=topology, world=2, sizes=[call.bytes], algorithm="auto", dtype="f32").rows()
        assert (row["bytes"], row["algorithm"]) == (call.bytes, call.algorithm)
        assert call.time_ns == pytest.approx(row["time_ns"], abs=0.0005)


def even_buckets(rank: int, ranks: int) -> Any:
    model = DistributedDataParallel(nn.Linear(512, 512, bias=False))
    model(torch.ones(1, 512)).sum().backward()
    return ahbm.report().calls


def test_an_all_reduce_of_1_mib_takes_as_long_as_cubeyard_ccl_says() -> None:
    found = dist_ranks.processes(even_buckets, 2, topology="sips: {count: 2}\n")[0]
    (call,) = [call for call in found if call.operation == "all_reduce sum"]
    (row,) = sweep(sizes=["1M"], algorithm="auto", dtype="f32", topology={"sips.count": 2}).rows()
    assert (call.bytes, call.algorithm) == (1 << 20, row["algorithm"])
    assert call.time_ns == pytest.approx(row["time_ns"], abs=0.0005)
    assert call.bus_gbs == pytest.approx(row["busbw_gbs"], rel=1e-3)


def overlapped(rank: int, ranks: int) -> Any:
    """A backward pass whose layers take 1 µs each, and whose gradients are reduced meanwhile."""
    net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4)))
    for layer in net:
        layer.register_full_backward_hook(lambda *_: ahbm.compute(1000))
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    for _ in range(2):
        start = ahbm.clock()
        model(torch.ones(1, 64)).sum().backward()
        end = ahbm.clock()
    return start, end, ahbm.report()


def test_reductions_overlap_with_the_backward_pass() -> None:
    start, end, report = dist_ranks.processes(overlapped, 2)[0]
    step = [call for call in report.calls if call.start_ns >= start and call.operation == "all_reduce sum"]
    assert len(step) >= 2
    communication = sum(call.time_ns for call in step)
    assert end - start < 4000 + communication, "work and communication take less than one after the other"
    assert end == pytest.approx(step[-1].start_ns + step[-1].time_ns), "the step ends with its last reduction"
    spans = [span for span in report.spans if span.rank == 0 and span.start_ns >= start]
    assert sum(span.end_ns - span.start_ns for span in spans if span.name == "compute") == pytest.approx(4000)
    assert [span.name for span in spans][-1] == "wait"
    first = step[0]
    assert any(span.name == "compute" and span.start_ns <= first.start_ns < span.end_ns for span in spans)


def test_the_example_of_overlap_draws_it(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE.parent / "torch_overlap.py"), str(tmp_path / "overlap.svg")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    steps = [float(step) for step in re.findall(r"a step of ([\d.]+) µs", done.stdout)]
    assert len(steps) == 2
    assert steps[1] < steps[0] - 4, "buckets are reduced during the backward pass"
    assert (tmp_path / "overlap.svg").read_text().count("all_reduce sum") == 8


def fully_sharded(rank: int, ranks: int, device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    select(device, rank)
    mesh, model = init_device_mesh(device, (ranks,)), network().to(device)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, rank, ranks, device)
    return [parameter.full_tensor().detach().cpu() for parameter in model.parameters()]


def tensor_parallel(rank: int, ranks: int, device: str) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    select(device, rank)
    model = network().to(device)
    parallelize_module(model, init_device_mesh(device, (ranks,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    losses = train(model, device=device)
    assert losses[0] > 0
    whole = [getattr(parameter, "full_tensor", lambda own=parameter: own)() for parameter in model.parameters()]
    return [parameter.detach().cpu() for parameter in whole]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("worker", [fully_sharded, tensor_parallel])
def test_sharded_models_have_the_weights_of_one_process(worker: Any, device: str) -> None:
    alone = network()
    train(alone)
    for found in dist_ranks.processes(worker, 4, device):
        for a, b in zip(found, alone.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def torchrun(ranks: int, *arguments: str, **variables: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *arguments]
    # A rank of gloo was seen to abort at its end: this names the thread, and what the others did.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def losses_of_gloo() -> list[float]:
    return [float(loss) for loss in re.findall(r"loss ([\d.]+)", torchrun(2, str(EXAMPLE), "cpu", "gloo"))]


@pytest.mark.parametrize("device", DEVICES)
def test_an_ordinary_script_runs_under_torchrun(device: str, losses_of_gloo: list[float]) -> None:
    found = torchrun(2, str(EXAMPLE), device, "ahbm", CUBEYARD_REPORT="1")
    losses, expected = [float(loss) for loss in re.findall(r"loss ([\d.]+)", found)], losses_of_gloo
    assert len(losses) == 2
    assert losses == pytest.approx(expected, abs=1e-6)
    assert len(re.findall(r"cubeyard: \d+ collectives, \d+ bytes, [\d.]+ µs in all", found)) == 1


def streams(rank: int, ranks: int) -> Any:
    """Times of the device's stream, in picoseconds: at an asynchronous call, after more work, and at its end."""
    select("ahbm", rank)
    time = dist.distributed_c10d.GroupMember.WORLD.ahbm_rank.clock.now
    tensor = torch.ones(64, device="ahbm")
    made = time(tensor.device)
    torch.ops.ahbm._sleep(5_000_000)
    work = dist.all_reduce(tensor, async_op=True)
    torch.ops.ahbm._sleep(100_000)
    before, host = time(tensor.device), torch.ahbm.clock()
    work.wait()
    after = time(tensor.device)
    (call,) = ahbm.report().calls
    return made, before, host, after, call, tensor.cpu().tolist()


def test_collectives_of_the_device_run_beside_its_stream() -> None:
    for made, before, host, after, call, values in dist_ranks.processes(streams, 2):
        assert (before, host) == (made + 5_100_000, 0.0), "the call waits for no stream"
        assert made > 0 and call.start_ns == (made + 5_000_000) / 1000
        assert after == max(before, round((call.start_ns + call.time_ns) * 1000))
        assert after > before
        assert values == [2.0] * 64


def strided_on_the_device(rank: int, ranks: int) -> Any:
    select("ahbm", rank)
    tensor = torch.arange(24, dtype=torch.float32).view(4, 6).to("ahbm")[1:, ::2].t()
    dist.all_reduce(tensor)
    outputs = [torch.zeros(3, device="ahbm", dtype=torch.int16) for _ in range(ranks)]
    dist.all_gather(outputs, torch.full((5,), rank, device="ahbm", dtype=torch.int16)[2:])
    return tensor.cpu(), [output.tolist() for output in outputs]


def test_tensors_of_the_device_may_be_parts_of_others() -> None:
    expected = 2 * torch.arange(24, dtype=torch.float32).view(4, 6)[1:, ::2].t()
    for tensor, outputs in dist_ranks.processes(strided_on_the_device, 2):
        assert torch.equal(tensor, expected)
        assert outputs == [[0] * 3, [1] * 3]


def plain(rank: int, ranks: int) -> list[float]:
    tensor = torch.full((10,), rank + 1.0)
    dist.all_reduce(tensor)
    return tensor.tolist()


def test_a_script_runs_under_spawn() -> None:
    assert dist_ranks.processes(plain, 2, method="spawn") == [[3.0] * 10] * 2


def test_ranks_may_be_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBEYARD_SIPS", "4")
    found = {}

    def worker(rank: int, ranks: int) -> None:
        ahbm.register()
        dist.init_process_group("ahbm")
        losses, parameters, calls = data_parallel(rank, ranks)
        found[rank] = (losses, parameters, len(calls))
        dist.destroy_process_group()

    ahbm.spawn(worker, (4,), 4)
    alone = network()
    train(alone)
    assert sorted(found) == [0, 1, 2, 3]
    assert DistributedDataParallel._get_active_ddp_module() is None, "torch.compile would split what follows into buckets"
    for _, parameters, _ in found.values():
        for a, b in zip(parameters, alone.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def test_an_error_of_a_thread_ends_the_others() -> None:
    def worker(rank: int) -> None:
        ahbm.register()
        dist.init_process_group("ahbm")
        if rank == 1:
            raise KeyError("mine")
        dist.barrier()

    with pytest.raises(KeyError, match="mine") as caught:
        ahbm.spawn(worker, (), 2)
    assert caught.value.__notes__ == ["raised by rank 1"]
