"""Models of `transformers`, compiled for the device and compared with the CPU without a compiler.

    python python/tests/pytorch/compiled_models.py               # all of them
    python python/tests/pytorch/compiled_models.py llama vit     # some

Each model has a tiny configuration, random weights and no dropout; nothing is downloaded. Compared are the loss, the
results with a random weight for each element, and the gradient of every parameter of that weighted loss.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
import warnings
from typing import Any

import torch
import transformers
from architectures import ARCHITECTURES, Architecture, Batch, _decoder
from compiled import DEVICE, weighted

MODELS = ("llama", "gpt2", "bert", "t5", "mixtral", "qwen3", "vit", "whisper", "mamba2", "resnet")
"""Names of the models of the table."""

ZERO = 1e-4
"""Gradients below this share of the model's largest are taken as rounding of 0."""

_MAMBA2 = {"num_heads": 4, "head_dim": 16, "expand": 2, "state_size": 8, "n_groups": 1, "chunk_size": 4, "conv_kernel": 3}


@dataclasses.dataclass(frozen=True)
class Row:
    """Comparison of one model."""

    loss: float
    """Relative error of the loss."""
    gradient: float
    """Largest error of a gradient, as a share of the gradient's largest value."""
    worst: str
    """Parameter with that error."""
    gradients: int
    """Number of compared gradients."""
    launches: int
    """Triton kernels of a forward and a backward pass."""
    simulated_us: float
    """Simulated time of both passes."""
    compiling_s: float
    """Seconds of the first pass, with cold or warm caches."""
    again_s: float
    """Seconds of the second pass."""


def architecture(name: str) -> Architecture:
    """Returns a model's architecture by its name."""
    return _decoder("Mamba2", **_MAMBA2) if name == "mamba2" else ARCHITECTURES[name]


def without_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Sets every rate of dropout of a model to 0."""
    for module in model.modules():
        for owner in (module, getattr(module, "config", None)):
            for name, value in list(vars(owner).items()) if owner is not None else []:
                if ("drop" in name or name == "p") and isinstance(value, float):
                    setattr(owner, name, 0.0)
    return model


def step(model: Any, batch: Batch) -> tuple[float, torch.Tensor]:
    """Runs a forward and a backward pass. Returns the loss and the results' weighted sum."""
    results = model(**batch)
    floats = [one for one in (results.loss, results.logits) if one is not None]
    total = weighted(floats)
    total.backward()
    return float(results.loss.detach()), total.detach()


def compare(name: str) -> Row:
    """Compares a model."""
    torch.manual_seed(0)
    of = architecture(name)
    model = without_dropout(of.make())
    batch = of.batch(torch.Generator().manual_seed(1))
    twin = copy.deepcopy(model).to(DEVICE)
    there = {key: value.to(DEVICE) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    compiled = torch.compile(twin)
    expected, _ = step(model, batch)
    begin = time.perf_counter()
    found, _ = step(compiled, there)
    middle = time.perf_counter()
    gradients = {key: one.grad for key, one in twin.named_parameters()}
    errors = gradient_errors(model, gradients)
    twin.zero_grad()
    torch.ahbm.synchronize()
    clock = torch.ahbm.clock()
    with torch.ahbm.record_timeline() as timeline:
        again = time.perf_counter()
        step(compiled, there)
        torch.ahbm.synchronize()
        end = time.perf_counter()
    launches = sum(span.kind == "launch" for span in timeline.spans)
    worst = max(errors, key=lambda key: errors[key])
    return Row(
        abs(found - expected) / abs(expected), errors[worst], worst, len(errors), launches, (torch.ahbm.clock() - clock) / 1e3,
        middle - begin, end - again,
    )  # fmt: skip


def gradient_errors(model: torch.nn.Module, found: dict[str, torch.Tensor | None]) -> dict[str, float]:
    """Returns the error of each gradient, as a share of its largest value.

    Some gradients are 0 but for rounding, such as those of the bias of keys. Their share is of `ZERO` of the largest gradient.
    """
    expected = {key: _gradient(one.grad, one) for key, one in model.named_parameters()}
    least = ZERO * max(float(one.abs().max()) for one in expected.values())
    differences = {key: float((_gradient(found[key], one) - one).abs().max()) for key, one in expected.items()}
    return {key: differences[key] / max(float(one.abs().max()), least) for key, one in expected.items()}


def _gradient(gradient: torch.Tensor | None, of: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(of, device="cpu") if gradient is None else gradient.cpu()


def main(names: list[str]) -> int:
    """Prints a row for each model. Returns 1 if one fails or differs by more than 1e-4."""
    import cubeyard.torch  # noqa: F401

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    failed = 0
    print("| model | error of the loss | largest error of a gradient | gradients | Triton launches | simulated µs | first step, s | next, s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or MODELS:
        torch._dynamo.reset()
        try:
            row = compare(name)
        except Exception as found:
            failed += 1
            text = next(iter(str(found).splitlines()), "")
            print(f"| {name} | {type(found).__name__}: {text} | | | | | | |", flush=True)
            continue
        failed += max(row.loss, row.gradient) > 1e-4
        times = f"{row.simulated_us:,.1f} | {row.compiling_s:.1f} | {row.again_s:.2f}"
        print(f"| {name} | {row.loss:.1e} | {row.gradient:.1e} (`{row.worst}`) | {row.gradients} | {row.launches} | {times} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
