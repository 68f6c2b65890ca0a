"""Code that takes every device but the CPU for one like CUDA: types of operators, states of generators, names.

Libraries ask whether a device is the CPU, and else use what CUDA has. transformers counts the tokens of its experts with
an integer `histc` there, which the CPU lacks, so no mixture of experts could be trained; torch.distributed takes the state
of a generator for a seed and an offset, so no DTensor could be filled with random numbers.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import dist_ranks
import pytest
import torch
import torch.multiprocessing
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from twins import seed, tensors

from cubeyard.errors import InputError, TorchDeviceError

LONG = os.environ.get("CUBEYARD_LONG_TESTS") == "1"
CASES = int(os.environ.get("CUBEYARD_CASES", 300 if LONG else 60))
"""Random histograms; CUBEYARD_CASES sets another number of them."""


# ---- Types of operators -----------------------------------------------------------------------


def counted(values: list[int], bins: int, low: int, high: int) -> list[int]:
    """The definition: equal intervals, each with its lower end, the last with its upper one as well."""
    if low == high:
        low, high = (min(values), max(values)) if values else (low, high)
    if low == high:
        low, high = low - 1, high + 1
    edges = [low + Fraction(high - low, bins) * place for place in range(bins + 1)]
    counts = [0] * bins
    for value in values:
        if low <= value <= high:
            counts[max(place for place in range(bins) if edges[place] <= value)] += 1
    return counts


TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def histogram(number: int) -> None:
    """Compares one random histogram."""
    draw = random.Random(number)
    dtype = draw.choice(TYPES)
    info = torch.iinfo(dtype)
    reach = draw.choice([3, 20, 100, info.max])
    least, most = max(info.min, -reach), min(info.max, reach)
    values = [draw.randint(least, most) for _ in range(draw.choice([0, 1, 7, 100]))]
    low, high = (0, 0) if draw.random() < 0.3 else sorted((draw.randint(least, most), draw.randint(least, most)))
    bins = draw.choice([1, 2, 5, 16, 61])
    given = torch.tensor(values, dtype=dtype, device="ahbm")
    found = torch.histc(given, bins, low, high)
    wanted = [count % 256 if dtype == torch.uint8 else count for count in counted(values, bins, low, high)]
    assert found.dtype == dtype and found.device == given.device
    assert found.tolist() == wanted, f"case {number}: {values} in {bins} from {low} to {high}"
    out = torch.empty(draw.choice([0, bins]), dtype=dtype, device="ahbm")
    assert torch.histc(given, bins=bins, min=low, max=high, out=out) is out and out.tolist() == wanted


def test_histograms_of_whole_numbers_are_exact(device: str) -> None:
    for number in range(CASES):
        histogram(number)


def test_histograms_of_floating_point_numbers_are_the_cpus(device: str) -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.histc(values.to(device), 13, -2, 2).cpu(), torch.histc(values, 13, -2, 2))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0, 0, 4), "bins is 0: expected 1 or more"), ((4, 5, 2), "max is 2: expected 5, which is min, or more")],
)
def test_histograms_that_cannot_be_are_refused(device: str, arguments: tuple[int, int, int], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        torch.histc(torch.arange(4, device=device), *arguments)
    with pytest.raises(RuntimeError, match="out has the type Float: expected Long"):
        torch.histc(torch.arange(4, device=device), 4, out=torch.empty(4, device=device))


SHORT = (torch.float16, torch.bfloat16)

MISSING = {
    "fft": "Unsupported dtype|MKL FFT doesn't support",
    "nn.functional.rrelu": "not implemented for 'Half'",
    "sparse.sampled_addmm": "dense tensors only",
    "stft": "MKL FFT doesn't support",
    "torch.ops.aten._efficient_attention_forward": "neither for the CPU",
    "torch.ops.aten._flash_attention_forward": "neither for the CPU",
}
"""Operators that neither the CPU nor the device has in such a type: the beginnings of their names, and what is said."""


def gaps() -> list[tuple[Any, torch.dtype]]:
    """The operators of PyTorch's database that CUDA has in a short floating-point type, and the CPU has not."""
    return [
        (op, dtype)
        for op in op_db
        for dtype in SHORT
        if dtype in (op.dtypesIfCUDA or ()) and dtype not in (op.dtypes or ())
    ]


def name(case: Any) -> str:
    return f"{case.name} {case.variant_test_name}".strip() if hasattr(case, "variant_test_name") else str(case)


@pytest.mark.parametrize(("op", "dtype"), gaps(), ids=name)
def test_types_that_only_cuda_has_are_computed_in_longer_ones(device: str, op: Any, dtype: torch.dtype) -> None:
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))[:6]
    if reason := [said for start, said in MISSING.items() if name(op).startswith(start)]:
        with pytest.raises(RuntimeError, match=reason[0]):
            for sample in samples:
                run(op, sample, dtype, device)
        return
    compared = 0
    for sample in samples:
        found, expected = run(op, sample, dtype, device), on_the_cpu(op, sample, dtype)
        assert len(found) == len(expected)
        for one, other in zip(expected, found, strict=True):
            assert other.dtype == dtype and other.device.type == device and torch.equal(one, other.cpu())
            compared += 1
    assert compared > 0


def on_the_cpu(op: Any, sample: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    """The CPU's results: in the type itself, where the database errs and it can do that, else in float32, rounded once."""
    try:
        return run(op, sample, dtype, "cpu")
    except NotImplementedError:
        return [value.to(dtype) for value in run(op, sample, dtype, "cpu", wide=torch.float32)]


def run(op: Any, sample: Any, dtype: torch.dtype, device: str, wide: torch.dtype | None = None) -> list[torch.Tensor]:
    """The results of an operator and its gradients, of inputs that are rounded to a type."""

    def change(leaf: torch.Tensor) -> torch.Tensor:
        if not leaf.is_floating_point():
            return leaf.to(device)
        return leaf.detach().to(dtype).to(wide or dtype).to(device).requires_grad_(leaf.requires_grad)

    seed(1)
    given = sample.transform(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)
    result = op(given.input, *given.args, **given.kwargs)
    outputs = [value for value in tensors(result) if value.is_floating_point()]
    inputs = [value for value in tensors([given.input, given.args, given.kwargs]) if value.requires_grad]
    if not inputs or not any(value.requires_grad for value in outputs):
        return [value.detach() for value in outputs]
    # In the short type the gradient of a result has that type, too.
    starts = [torch.ones_like(value) for value in outputs]
    return [value.detach() for value in outputs] + list(torch.autograd.grad(outputs, inputs, starts))


def test_every_gap_is_known() -> None:
    assert len(gaps()) > 20


# ---- Generators -------------------------------------------------------------------------------


def draws(generator: torch.Generator) -> list[float]:
    return torch.randn(5, device="ahbm", generator=generator).tolist() + torch.rand(3, device="ahbm", generator=generator).tolist()


def test_a_state_begins_with_seed_and_offset(device: str) -> None:
    generator = torch.Generator(device).manual_seed(1234567890123)
    header = generator.get_state()[:16].view(torch.int64)
    assert header.tolist() == [1234567890123, 0] and generator.initial_seed() == 1234567890123
    host = torch.Generator().manual_seed(1234567890123)
    expected = torch.randn(5, generator=host).tolist() + torch.rand(3, generator=host).tolist()
    assert draws(generator) == expected, "an offset of 0 is the CPU's numbers"
    state = generator.get_state()
    later = draws(generator)
    generator.set_state(state)
    assert draws(generator) == later, "a state is restored exactly, with half of a pair of normal numbers"


def test_offsets_have_numbers_of_their_own_that_are_the_same_again(device: str) -> None:
    found: dict[tuple[int, int], list[float]] = {}
    for first in (0, 5):
        for offset in (0, 4, 8, 1 << 40):
            state = torch.tensor([first, offset]).view(torch.uint8)
            one, other = torch.Generator(device), torch.Generator(device).manual_seed(99)
            draws(other)
            one.set_state(state)
            whole = other.manual_seed(first).get_state()
            whole[:16] = state
            other.set_state(whole)
            assert torch.equal(one.get_state(), other.get_state())
            assert one.get_state()[:16].view(torch.int64).tolist() == [first, offset] and one.initial_seed() == first
            found[first, offset] = draws(one)
            assert draws(other) == found[first, offset]
    values = [value for row in found.values() for value in row]
    assert len(set(values)) == len(values), "no two sequences have a number in common"


def test_numbers_of_an_offset_are_uniform_and_normal(device: str) -> None:
    generator = torch.Generator(device)
    generator.set_state(torch.tensor([7, 12]).view(torch.uint8))
    uniform = torch.rand(100_000, device=device, generator=generator)
    assert abs(uniform.mean().item() - 0.5) < 0.005 and abs(uniform.var().item() - 1 / 12) < 0.002
    counts = torch.histc(uniform, 100, 0, 1)
    assert ((counts - 1000) ** 2 / 1000).sum().item() < 160, "chi-squared of 99 degrees of freedom: 1 in 10,000 is above 161"
    normal = torch.randn(100_000, device=device, generator=generator)
    assert abs(normal.mean().item()) < 0.015 and abs(normal.std().item() - 1) < 0.01


def test_a_state_that_cannot_be_is_refused(device: str) -> None:
    generator = torch.Generator(device)
    with pytest.raises(RuntimeError, match="17"):
        generator.set_state(torch.zeros(17, dtype=torch.uint8))
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        generator.set_state(torch.zeros(16))


def random_tensors(rank: int, ranks: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, empty, randn

    mesh = init_device_mesh("ahbm", (ranks,))
    torch.manual_seed(3)
    sharded = randn(8, 6, device_mesh=mesh, placements=[Shard(0)])
    filled = empty(8, 6, device_mesh=mesh, placements=[Shard(1)])
    nn.init.trunc_normal_(filled)
    copied = randn(8, 6, device_mesh=mesh, placements=[Replicate()])
    dropped = nn.functional.dropout(torch.ones_like(sharded), 0.5)
    found = [one.full_tensor().cpu() for one in (sharded, filled, copied, dropped)]
    return found, copied.to_local().cpu(), torch.randn(3, device="ahbm").cpu()


def test_random_dtensors_differ_by_shard_and_agree_between_ranks() -> None:
    results = dist_ranks.processes(random_tensors, 2)
    (found, copied, after), (again, copied_there, after_there) = results
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))
    assert torch.equal(copied, copied_there), "a replica is the same everywhere"
    assert torch.equal(after, after_there), "later numbers of the device are the same on all ranks"
    values = torch.cat([one.flatten() for one in found[:3]])
    assert len(values.unique()) == len(values), "no number occurs twice, in another shard or in another tensor"
    kept = found[3] != 0
    assert 0 < kept.sum() < kept.numel() and not torch.equal(kept[:4], kept[4:])


class Initialised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(self.inner(x).relu())  # type: ignore[no-any-return]


def initialised_after_sharding(rank: int, ranks: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("ahbm", (ranks,))
    with torch.device("meta"):
        model = Initialised()
    for layer in (model.inner, model.outer, model):
        fully_shard(layer, mesh=mesh)
    model.to_empty(device="ahbm")
    torch.manual_seed(11)
    model.inner.reset_parameters()
    model.outer.reset_parameters()
    whole = {name: value.full_tensor().detach().cpu() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 8, device="ahbm")).square().mean()
    loss.backward()
    optimizer.step()
    return whole, loss.item()


def test_a_model_without_memory_is_sharded_and_then_initialised() -> None:
    (whole, loss), (there, other) = dist_ranks.processes(initialised_after_sharding, 2)
    assert loss == other and all(torch.equal(whole[name], there[name]) for name in whole)
    weight = whole["inner.weight"]
    assert len(weight.unique()) == weight.numel(), "the shards have other numbers"
    bound = 1 / 8**0.5
    assert weight.abs().max() <= bound and weight.abs().max() > bound / 2


# ---- Processes --------------------------------------------------------------------------------


def test_memory_that_is_to_be_shared_is_refused_at_once(device: str) -> None:
    shares: list[Callable[[], Any]] = [
        lambda: torch.ones(3, device=device).share_memory_(),
        lambda: torch.ones(3, device=device).untyped_storage().share_memory_(),
        lambda: nn.Linear(2, 2).to(device).share_memory(),
    ]
    for share in shares:
        with pytest.raises(TorchDeviceError, match=r"cannot be shared with other processes.*cpu\(\)\.share_memory_"):
            share()
    assert torch.ones(3).share_memory_().is_shared() and nn.Linear(2, 2).share_memory().weight.is_shared()


def test_a_queue_that_pickles_at_once_refuses_a_tensor(device: str) -> None:
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        queue.put(torch.ones(3, device=device))


# ---- Names ------------------------------------------------------------------------------------


def test_mixed_precision_has_the_names_of_cuda(device: str) -> None:
    from torch.ahbm.amp import GradScaler, autocast  # type: ignore[import-not-found]

    left = torch.randn(4, 4, device=device, requires_grad=True)
    with autocast(dtype=torch.bfloat16):
        product = left @ left
    with torch.autocast(device, torch.bfloat16):
        assert torch.equal(product, left @ left) and product.dtype == torch.bfloat16
    scaler = GradScaler(init_scale=4.0)
    assert isinstance(scaler, torch.amp.GradScaler) and scaler.scale(left.sum()).item() == 4 * left.sum().item()

    class Square(torch.autograd.Function):
        @staticmethod
        @torch.ahbm.amp.custom_fwd(cast_inputs=torch.float32)  # type: ignore[attr-defined]
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            assert not torch.is_autocast_enabled(device)
            return x * x

        @staticmethod
        @torch.ahbm.amp.custom_bwd  # type: ignore[attr-defined]
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    with autocast(dtype=torch.bfloat16):
        result = Square.apply(left.to(torch.bfloat16))
    result.sum().backward()
    assert result.dtype == torch.float32 and left.grad is not None


def test_capability_and_processors_are_told(device: str) -> None:
    assert torch.ahbm.get_device_capability() == torch.ahbm.get_device_capability("ahbm:1") == (0, 0)
    # 16 cubes of 8 PEs: the machine that is built in.
    assert torch.ahbm.get_device_properties(1).multi_processor_count == 128


def test_a_device_beyond_the_last_names_the_variable() -> None:
    with pytest.raises(InputError, match=r"device is 2: expected 0 to 1.*CUBEYARD_SIPS"):
        torch.ahbm.set_device(2)


def test_a_machine_with_more_sips_has_more_devices(script: Any) -> None:
    script("torch.ahbm.set_device(3); assert torch.ahbm.device_count() == 4", CUBEYARD_SIPS="4")


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
