"""A training step of a small transformer, timed without data: what limits it, and the change that helps.

    python python/examples/torch_profile.py step.html
    python python/examples/torch_profile.py --exercise     # the answer of the exercise

`docs/tutorials/pytorch.md` goes through it.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import cubeyard.torch


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Model(nn.Module):
    """Embedding, blocks and head of a language model."""

    def __init__(self, vocabulary: int = 32_000, width: int = 1024, layers: int = 8, heads: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def measured(dtype: torch.dtype, batch: int) -> cubeyard.torch.Profile:
    """Returns the report of one training step. Nothing has data, so any size runs on a laptop."""
    with cubeyard.torch.simulate(data=False):
        model = Model().to(device="ahbm", dtype=dtype)
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.zeros(batch, 1024, dtype=torch.long, device="ahbm")

        def step() -> None:
            logits = model(tokens)
            nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

        step()  # the first step makes the optimizer's state
        return cubeyard.torch.profile(step)


def shown(step: cubeyard.torch.Profile, name: str, batch: int) -> None:
    """Prints time, tokens and memory of a step."""
    print(f"{name}: {step.total_ms:8.3f} ms a step, {batch * 1024 / step.total_ms:9,.0f} tokens/ms, {step.memory.peak_bytes / 2**30:6.2f} GiB")


def steps() -> None:
    """Prints what limits the step, then the same step with the changes."""
    first = measured(torch.float32, batch=1)
    print(first.explain())
    if len(sys.argv) > 1:
        print("\nwritten:", first.save(sys.argv[1]))
    print()
    shown(first, "float32, batch 1", 1)
    second = measured(torch.bfloat16, batch=1)
    shown(second, "bfloat16, batch 1", 1)
    shown(measured(torch.bfloat16, batch=8), "bfloat16, batch 8", 8)
    assert first.total_ms > 1.5 * second.total_ms


def exercise() -> None:
    """Prints steps of two and four sequences."""
    for batch in (2, 4):
        shown(measured(torch.bfloat16, batch), f"bfloat16, batch {batch}", batch)


if __name__ == "__main__":
    exercise() if sys.argv[1:] == ["--exercise"] else steps()
