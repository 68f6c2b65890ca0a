"""Models compiled, without a compiler and from shapes alone: simulated times beside each other, with the reasons.

    python python/tests/pytorch/three_ways.py                # all of them: the table of docs/pytorch-figures.md
    python python/tests/pytorch/three_ways.py block llama    # some

Each model has a tiny configuration, random weights and no dropout; nothing is downloaded. A step is one forward and one
backward pass of a loss that weights every result at random. The loss and the gradient of every parameter are compared with
those of the CPU without a compiler. Needs transformers, and torchvision for the model `resnet`.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers
from architectures import images
from compiled import DEVICE
from compiled_models import architecture, gradient_errors, without_dropout
from torch import nn
from torch.utils._pytree import tree_map_only
from transformers.initialization import no_init_weights

import cubeyard.torch
from cubeyard.torch.profiling.report import Profile
from cubeyard.torch.profiling.tables import Sums

MODELS = ("block", "llama", "gpt2", "bert", "t5", "mixtral", "qwen3", "vit", "whisper", "mamba2", "resnet")
"""Names of the models."""

Batch = dict[str, Any]
Made = tuple[nn.Module, Batch]


class Block(nn.Module):
    """Transformer block: attention with 4 heads and a perceptron, each behind a norm and with a residual sum."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*parts.unbind(), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def make(name: str) -> Made:
    """Returns a model on the host, and its inputs."""
    torch.manual_seed(0)
    random = torch.Generator().manual_seed(1)
    if name == "block":
        return Block(), {"x": torch.randn(2, 32, 64, generator=random)}
    if name == "resnet":
        from torchvision.models.resnet import BasicBlock, ResNet

        return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=4), {"x": images(random)["pixel_values"]}
    of = architecture(name)
    model = without_dropout(of.make())
    model.tie_weights()  # a model without first weights is not tied yet
    if name == "gpt2":
        model.config.pad_token_id = None  # its tokens would be read to warn of padding, but not without data
    if name == "whisper":
        model.eval()  # in training it draws a number for each layer, to leave it out
    return model, of.batch(random)


def floats(results: Any) -> list[torch.Tensor]:
    """Returns the loss and the logits of a model of transformers, or the result of another."""
    return [results] if isinstance(results, torch.Tensor) else [one for one in (results.loss, results.logits) if one is not None]


def weights(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Returns a random weight for each element: sums and means hide errors that cancel."""
    random = torch.Generator().manual_seed(7)
    return [torch.randn(one.shape, generator=random) for one in results]


def step(model: Callable[..., Any], batch: Batch, by: list[torch.Tensor]) -> torch.Tensor:
    """Runs a forward and a backward pass. Returns the weighted loss."""
    results = floats(model(**batch))
    total = torch.stack([(one * weight).sum() for one, weight in zip(results, by, strict=True)]).sum()
    total.backward()
    return total.detach()


def there(value: Any) -> Any:
    """Returns tensors on the device."""
    return tree_map_only(torch.Tensor, lambda one: one.to(DEVICE), value)


@dataclasses.dataclass(frozen=True)
class Way:
    """Step of a model in one of the three ways."""

    profile: Profile
    """Report of the step."""
    host_s: float
    """Host time of the first step, with compilation where there is one."""
    loss: float = 0.0
    """Relative error of the loss."""
    gradient: float = 0.0
    """Largest error of a gradient, as a share of the gradient's largest value."""

    def part(self, belongs: Callable[[Any], bool]) -> Sums:
        """Returns the sums of some operations."""
        found = Sums()
        for one in self.profile.operations:
            if belongs(one):
                found.add(one)
        return found

    @property
    def products(self) -> Sums:
        """Products, attention and convolutions."""
        return self.part(lambda one: one.cost is not None and one.cost.flops > 0)

    @property
    def launches(self) -> Sums:
        """Triton kernels."""
        return self.part(lambda one: one.kind == "launch")

    @property
    def others(self) -> Sums:
        """All other operators, and copies."""
        return self.part(lambda one: one.kind != "launch" and not (one.cost is not None and one.cost.flops > 0))


def with_data(name: str, compiled: bool) -> Way:
    """Runs a model with data, and compares it with the CPU. The reported step is the second one: the first compiles."""
    model, batch = make(name)
    twin = copy.deepcopy(model).to(DEVICE)
    by = weights(floats(copy.deepcopy(model)(**batch)))
    expected = step(model, batch, by)
    called: Any = torch.compile(twin) if compiled else twin
    given, weight = there(batch), there(by)
    begin = time.perf_counter()
    found = step(called, given, weight)
    seconds = time.perf_counter() - begin
    errors = gradient_errors(model, {key: one.grad for key, one in twin.named_parameters()})
    twin.zero_grad()
    profile = cubeyard.torch.profile(step, called, given, weight)
    return Way(profile, seconds, abs(float(found) - float(expected)) / abs(float(expected)), max(errors.values()))


def from_shapes(name: str) -> Way:
    """Runs a model without data. The second step is reported, as with data."""
    model, batch = make(name)
    sizes = [one.shape for one in floats(model(**batch))]
    # Some models draw their first weights by the values of others.
    with cubeyard.torch.simulate(data=False), no_init_weights():
        model, batch = make(name)
        model, batch, by = model.to(DEVICE), there(batch), [torch.empty(size, device=DEVICE) for size in sizes]
        begin = time.perf_counter()
        step(model, batch, by)
        seconds = time.perf_counter() - begin
        model.zero_grad()
        return Way(cubeyard.torch.profile(step, model, batch, by), seconds)


TITLES = (
    "model", "eager, µs", "shapes, µs", "compiled, µs", "error of loss: eager", "compiled", "largest error of a gradient: eager",
    "compiled", "estimates: eager", "compiled", "first step on the host, s: eager", "shapes", "compiled",
)  # fmt: skip
PARTS = (
    "eager: products", "µs", "other operators", "µs", "compiled: products", "µs", "other operators", "µs",
    "Triton kernels", "µs",
)  # fmt: skip


def figures(name: str, eager: Way, shapes: Way, compiled: Way) -> list[str]:
    """Returns the cells of times and errors."""
    ways, run = (eager, shapes, compiled), (eager, compiled)
    times = [f"{one.profile.total_ps / 1e6:,.3f}" for one in ways]
    errors = [f"{one.loss:.1e}" for one in run] + [f"{one.gradient:.1e}" for one in run]
    return [name, *times, *errors, *(f"{one.profile.estimated_share:.2%}" for one in run), *(f"{one.host_s:.1f}" for one in ways)]


def parts(eager: Way, compiled: Way) -> list[str]:
    """Returns the cells that give the reason for a difference: numbers of operations, and their times."""
    sums = [eager.products, eager.others, compiled.products, compiled.others, compiled.launches]
    return [text for one in sums for text in (f"{one.calls}", f"{one.ps / 1e6:,.2f}")]


def faults(eager: Way, shapes: Way, compiled: Way) -> list[str]:
    """Returns what is wrong with the steps of a model, in words."""
    found = [f"error {one.loss:.1e} of the loss, {one.gradient:.1e} of a gradient" for one in (eager, compiled)
             if max(one.loss, one.gradient) > 1e-4]  # fmt: skip
    found += [f"estimates are {one.profile.estimated_share:.0%}" for one in (eager, compiled) if one.profile.estimated_share > 0.1]
    return found + differences(eager.profile, shapes.profile)


def differences(eager: Profile, shapes: Profile) -> list[str]:
    """Returns the first difference between a step with data and the step from shapes alone, in words; empty if there is none."""
    theirs, ours = ([(one.name, one.shapes, one.dtypes, one.begin_ps, one.end_ps) for one in run.operations] for run in (eager, shapes))
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return [f"operation {number}: {one} with data, {other} from shapes"]
    same = len(theirs) == len(ours) and eager.total_ps == shapes.total_ps
    return [] if same else [f"{len(theirs)} operations, {eager.total_ps} ps with data; {len(ours)}, {shapes.total_ps} ps from shapes"]


def row(cells: list[str] | tuple[str, ...]) -> str:
    """Returns a row of a table."""
    return f"| {' | '.join(cells)} |"


def main(names: list[str]) -> int:
    """Prints the table. Returns 1 if a model fails, differs from the CPU, or takes another time from shapes."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    unknown = sorted(set(names) - set(MODELS))
    if unknown:
        sys.exit(f"unknown models {', '.join(unknown)}; expected some of {', '.join(MODELS)}")
    titles, wrong = TITLES + PARTS, []
    print(row(titles), row(("---",) * len(titles)), sep="\n")
    for name in names or MODELS:
        torch._dynamo.reset()
        try:
            eager, shapes, compiled = with_data(name, False), from_shapes(name), with_data(name, True)
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc(limit=-3)}")
            continue
        print(row(figures(name, eager, shapes, compiled) + parts(eager, compiled)), flush=True)
        wrong += [f"{name}: {fault}" for fault in faults(eager, shapes, compiled)]
    print("", *wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
