"""A decode step of Llama 3 8B by `cubeyard model`, and by the model of transformers from shapes: parts beside each other.

    python python/tests/pytorch/decode_beside.py              # batch 1, 2048 tokens: the table of docs/pytorch-figures.md
    python python/tests/pytorch/decode_beside.py 512          # with another number of tokens

Both run on one SIP, in f16. The model of transformers has a cache that grows (`DynamicCache`, its default), or one of fixed
length (`StaticCache`).
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import torch
import transformers
from operator_models import LLAMA
from transformers.initialization import no_init_weights

import cubeyard.torch
from cubeyard import model as models
from cubeyard.machine.topology import Topology
from cubeyard.torch.profiling.records import Operation
from cubeyard.torch.profiling.report import Profile
from cubeyard.torch.profiling.tables import Sums, sums

DEVICE = "ahbm"

PARTS = {
    "embed_tokens": "embedding", "norm": "norm", "input_layernorm": "norm", "post_attention_layernorm": "norm",
    "q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "self_attn": "attention", "rotary_emb": "rotation, mask",
    "o_proj": "output", "gate_proj": "gate, up", "up_proj": "gate, up", "mlp": "gate, up", "act_fn": "gate, up",
    "down_proj": "down", "lm_head": "head", "model": "rotation, mask",
}  # fmt: skip
"""Parts of `cubeyard model` by the innermost module that has one; the sum and product of `mlp` belong to `gate, up`."""

ORDER = ("embedding", "rotation, mask", "norm", "qkv", "attention", "output", "all-reduce", "residual", "gate, up", "down", "head")


def part_of(operation: Operation) -> str:
    """Returns the part of an operation. Sums of the residual are operators of the layer itself."""
    name = operation.site.module.split(".")[-1]
    return "residual" if name.isdigit() else PARTS.get(name, f"other: {operation.name}")


def decoded(tokens: int, *, static: bool) -> Profile:
    """Returns the report of a step with one new token, which sees `tokens` tokens."""
    config = transformers.LlamaConfig(**LLAMA, max_position_embeddings=8192)
    torch.set_default_dtype(torch.float16)
    with cubeyard.torch.simulate(data=False), torch.no_grad():
        with no_init_weights(), torch.device(DEVICE):
            model = transformers.LlamaForCausalLM(config).eval()
        cache = filled(config, tokens, static)
        given = {"input_ids": torch.zeros(1, 1, dtype=torch.long, device=DEVICE), "past_key_values": cache}
        where = torch.full((1, 1), tokens - 1, device=DEVICE)
        return cubeyard.torch.profile(lambda: model(**given, position_ids=where))


def filled(config: Any, tokens: int, static: bool) -> Any:
    """Returns a cache with all tokens but the new one."""
    cache = transformers.StaticCache(config, max_cache_len=tokens) if static else transformers.DynamicCache(config=config)
    held = (1, config.num_key_value_heads, tokens - 1, config.hidden_size // config.num_attention_heads)
    for layer in range(config.num_hidden_layers):
        cache.update(torch.empty(held, device=DEVICE), torch.empty(held, device=DEVICE), layer)
    return cache


def main(tokens: int) -> None:
    """Prints the table, and the operators of the parts that differ."""
    warnings.filterwarnings("ignore")
    topology = Topology.from_yaml("sips: {count: 1}")
    ours = models.step("llama-8b", context=tokens, topology=topology)
    begin = time.perf_counter()
    runs = [decoded(tokens, static=static) for static in (False, True)]
    print(f"{time.perf_counter() - begin:.1f} s of the host for the runs from shapes")
    parts = [sums(run.operations, part_of) for run in runs]
    known = {one.part: one for one in ours.parts}
    print("| part | `cubeyard model`: count | µs | growing cache: operators | µs | of the bound | fixed cache: operators | µs | of the bound |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in (*ORDER, *sorted({name for found in parts for name in found} - set(ORDER))):
        one = known.get(name)
        first = f"{one.count} | {one.total_ns / 1e3:,.1f}" if one else " | "
        print(f"| {name} | {first} | {' | '.join(_cells(found.get(name)) for found in parts)} |")
    print(f"| launches | {ours.launches} | {ours.launching_ns / 1e3:,.1f} | | | | | | |")
    totals = " | ".join(f"{run.sums.calls} | {run.total_ps / 1e6:,.1f} | {run.sums.bound_share or 0:.0%}" for run in runs)
    print(f"| all | | {ours.total_ns / 1e3:,.1f} | {totals} |")
    for run in runs:
        _print_operators(run)


def _cells(found: Sums | None) -> str:
    if found is None:
        return " | | "
    return f"{found.calls} | {found.ps / 1e6:,.1f} | {found.bound_share or 0:.0%}"


def _print_operators(run: Profile) -> None:
    print(f"\nestimates {run.estimated_share:.2%}; the longest operators of each part:")
    for (part, name, shapes), found in list(sums(run.operations, lambda one: (part_of(one), one.name, one.shapes)).items())[:16]:
        print(f"  {part:14} {name:44} {shapes:60} {found.calls:3} {found.ps / 1e6:8.1f} µs {found.local_share or 0:4.0%} local")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2048)
