"""Finds 3 GB in a training step: who holds the memory at the peak, and the change that needs less. Nothing has data.

    python python/examples/tutorial_memory.py step.html       # the step before and after, and the page of the step before
    python python/examples/tutorial_memory.py --exercise      # the answer of the exercise

`docs/tutorials/memory.md` goes through it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import cubeyard.torch

WIDTH, VOCABULARY, BATCH, TOKENS = 512, 8192, 12, 3300

Loss = Callable[[nn.Linear, torch.Tensor, torch.Tensor], torch.Tensor]


def whole_loss(head: nn.Linear, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the loss of all tokens at once."""
    logits = head(hidden)
    return nn.functional.cross_entropy(logits, tokens)


def loss_in_parts(head: nn.Linear, hidden: torch.Tensor, tokens: torch.Tensor, rows: int = 8192) -> torch.Tensor:
    """Returns the same loss, `rows` tokens at a time; backward computes the logits of a part again."""

    def part(hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(head(hidden), tokens, reduction="sum")

    parts = zip(hidden.split(rows), tokens.split(rows), strict=True)
    return sum(checkpoint(part, *one, use_reentrant=False) for one in parts) / len(tokens)


def measured(loss: Loss) -> cubeyard.torch.Profile:
    """Returns the report of one training step of a transformer with two layers."""
    with cubeyard.torch.simulate(data=False):
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        network = nn.ModuleList([nn.Embedding(VOCABULARY, WIDTH), layers, nn.Linear(WIDTH, VOCABULARY)]).to("ahbm")
        embedding, layers, head = network
        tokens = torch.zeros(BATCH, TOKENS, dtype=torch.long, device="ahbm")

        def step() -> None:
            hidden = layers(embedding(tokens))
            loss(head, hidden.flatten(0, 1), tokens.flatten()).backward()

        return cubeyard.torch.profile(step)


def shown(name: str, report: cubeyard.torch.Profile) -> None:
    """Prints the time, the peak and its largest holders."""
    print(f"{name}: {report.total_ms:.1f} ms, {report.memory.peak_bytes / 2**30:.2f} GiB at the peak, held by")
    for holder in report.holders()[:4]:
        print(f"  {holder['bytes'] / 2**20:8.1f} MiB  {holder['operator']} at {holder['line']}")


def equal_losses() -> None:
    """Checks on the CPU that both losses, and their gradients, are equal."""
    torch.manual_seed(0)
    head, hidden, tokens = nn.Linear(8, 16), torch.randn(20, 8, requires_grad=True), torch.randint(16, (20,))
    for loss in (whole_loss, partial(loss_in_parts, rows=7)):
        gradients = torch.autograd.grad(loss(head, hidden, tokens), (hidden, head.weight))
        if loss is whole_loss:
            wanted = gradients
    torch.testing.assert_close(gradients, wanted)


def steps() -> None:
    """Prints the step before and after the change."""
    equal_losses()
    before, after = measured(whole_loss), measured(loss_in_parts)
    shown("whole loss", before)
    shown("loss in parts of 8192", after)
    saved = before.memory.peak_bytes - after.memory.peak_bytes
    print(f"{saved / 1e9:.2f} GB less, {after.total_ms / before.total_ms - 1:.0%} more time")
    assert saved > 2.5e9
    if len(sys.argv) > 1:
        print("written:", before.save(sys.argv[1]))


def exercise() -> None:
    """Prints the step with larger and smaller parts."""
    for rows in (2048, 20_000):
        report = measured(partial(loss_in_parts, rows=rows))
        print(f"parts of {rows}: {report.total_ms:.1f} ms, {report.memory.peak_bytes / 2**30:.2f} GiB")


if __name__ == "__main__":
    exercise() if sys.argv[1:] == ["--exercise"] else steps()
