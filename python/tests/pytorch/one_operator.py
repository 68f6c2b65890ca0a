"""One product and one attention in several ways: simulated times and shares of one bound beside each other.

    python python/tests/pytorch/one_operator.py [product] [attention]

    CUBEYARD_TOPOLOGY=balanced.yaml python python/tests/pytorch/one_operator.py     # with `ucie: {balance: true}`

The tables are in docs/pytorch-figures.md. The bound is the operator's: its FLOPs, vector operations and bytes at the
peak rates of a SIP. Benches and shapes are f16. Runs with data are bf16, which the host computes ten times as fast as f16;
the machine has the same rates for both.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_BACKEND", "ahbm")

import torch
import triton
from torch import nn
from torch.nn import functional

import cubeyard
import cubeyard.torch
from cubeyard.torch.profiling.records import Operation

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import triton_kernels as kernels

DEVICE = "ahbm"
ROWS, TERMS, COLUMNS = 1024, 4096, 4096
HEADS, TOKENS, FEATURES = 128, 512, 128
TEMPLATES = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}

Row = tuple[str, float, str]
"""Name, time in nanoseconds, and what is known of its bytes."""


def longest(function: Callable[..., Any], *given: Any, named: str = "") -> Operation:
    """Returns the longest operation of a call of a function, of those whose name contains a word. Compilation takes no time."""
    with torch.no_grad():
        found = cubeyard.torch.profile(function, *given)
    return max((one for one in found.operations if named in one.name), key=lambda one: one.ps)


def of(name: str, operation: Operation) -> Row:
    """Returns the row of an operation."""
    cost = operation.cost
    local = "" if cost is None or cost.local_share is None else f"{cost.local_share:.0%} of the bytes are local"
    return name, operation.ps / 1000, f"`{operation.name if cost is None else cost.kernel}` {local}"


def random(*shape: int) -> torch.Tensor:
    """Returns random numbers on the device, as bf16."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16().to(DEVICE)


def shaped(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Operation:
    """Returns the longest operation of a call with tensors of these shapes, f16 and without data."""
    with cubeyard.torch.simulate(data=False):
        return longest(function, *(torch.empty(shape, dtype=torch.float16, device=DEVICE) for shape in shapes))


def by_hand(bench: str, **given: Any) -> Row:
    """Runs one of the benches on a SIP."""
    topology = os.environ.get("CUBEYARD_TOPOLOGY")
    run = cubeyard.run(bench, cubes=16, pes=8, **given, **({"topology": topology} if topology else {}))
    return f"`cubeyard run {bench}`", run.kernel_ns, f"{run.share_of_bound:.0%} of its own bound"


def product() -> tuple[str, int, Iterator[Row]]:
    """Returns the title, the bound in picoseconds and the rows of the product."""
    a, b = random(ROWS, TERMS), random(TERMS, COLUMNS)
    eager = longest(torch.mm, a, b)
    assert eager.cost is not None
    return f"product {ROWS} × {TERMS} × {COLUMNS}, f16", eager.cost.bound_ps, _products(a, b, eager)


def _products(a: torch.Tensor, b: torch.Tensor, eager: Operation) -> Iterator[Row]:
    yield by_hand("gemm-multi", m=ROWS, k=TERMS, n=COLUMNS, split="grid")
    yield of("`mm` from shapes", shaped(torch.mm, (ROWS, TERMS), (TERMS, COLUMNS)))
    yield of("`nn.functional.linear` from shapes", shaped(functional.linear, (ROWS, TERMS), (COLUMNS, TERMS)))
    yield of("eager `mm`", eager)
    layers = nn.Sequential(nn.Linear(TERMS, COLUMNS), nn.GELU(), nn.Linear(COLUMNS, TERMS)).bfloat16().to(DEVICE)
    yield of("in a compiled perceptron", longest(torch.compile(layers), a, named="mm"))
    yield of("Triton template, `max_autotune`", longest(torch.compile(torch.mm, options=TEMPLATES), a, b, named="triton"))
    yield of("Triton kernel `matmul`, blocks of 128 × 128 × 64", longest(_launch_product, a, b))


def _launch_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty(ROWS, COLUMNS, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(ROWS, 128) * triton.cdiv(COLUMNS, 128),)
    strides = (*a.stride(), *b.stride(), *c.stride())
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 4}
    kernels.matmul[grid](a, b, c, ROWS, COLUMNS, TERMS, *strides, **blocks, ACTIVATION="")
    return c


def attention() -> tuple[str, int, Iterator[Row]]:
    """Returns the title, the bound in picoseconds and the rows of the attention."""
    given = [random(4, HEADS // 4, TOKENS, FEATURES) + 0.1 * number for number in range(3)]
    eager = longest(_attention, *given)
    assert eager.cost is not None
    return f"causal attention, {HEADS} heads of {FEATURES}, {TOKENS} tokens, f16", eager.cost.bound_ps, _attentions(given, eager)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _attentions(given: list[torch.Tensor], eager: Operation) -> Iterator[Row]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    yield by_hand("flash-attention", heads=HEADS, sequence=TOKENS, head_dim=FEATURES)
    yield of("eager `scaled_dot_product_attention`", eager)
    yield of("from shapes", shaped(_attention, *(tuple(one.shape) for one in given)))
    yield of("compiled", longest(torch.compile(_attention), *given))
    mask = create_block_mask(lambda _b, _h, q, k: q >= k, None, None, TOKENS, TOKENS, device="cpu").to(DEVICE)
    yield of("compiled `flex_attention`", longest(torch.compile(flex_attention), *given, None, mask, named="triton"))
    yield of("Triton kernel `attention`, blocks of 64", longest(_launch_attention, *given))


def _launch_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out, sums = torch.empty_like(q), torch.empty(HEADS, TOKENS, device=q.device)
    sizes = (FEATURES**-0.5, TOKENS * FEATURES, TOKENS)
    kernels.attention[(TOKENS // 64, HEADS)](q, k, v, out, sums, *sizes, D=FEATURES, BLOCK_M=64, BLOCK_N=64, CAUSAL=True)
    return out


def main(names: list[str]) -> None:
    """Prints a table for each operator."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    chosen = {"product": product, "attention": attention}
    unknown = sorted(set(names) - set(chosen))
    if unknown:
        sys.exit(f"unknown operators {', '.join(unknown)}; expected some of {', '.join(chosen)}")
    for name in names or chosen:
        title, bound, rows = chosen[name]()
        print(f"\n{title}; bound {bound / 1e6:,.2f} µs\n\n| by | time, µs | of the bound | kernel | host, s |\n|---|---|---|---|---|")
        begin = time.perf_counter()
        for by, nanoseconds, kernel in rows:
            seconds, begin = time.perf_counter() - begin, time.perf_counter()
            print(f"| {by} | {nanoseconds / 1000:,.2f} | {bound / 1000 / nanoseconds:.0%} | {kernel} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
