"""Share of estimates in the times of models, from shapes alone.

    python python/tests/pytorch/operator_models.py              # all of them: the tables of docs/operators-coverage.md
    python python/tests/pytorch/operator_models.py llama t5     # some
    python python/tests/pytorch/operator_models.py --tiny       # small configurations of the same models

Each model runs one step of inference and one of training (forward, backward and AdamW) with fake tensors of a device, so
that nothing is allocated or downloaded. Each operator that reaches the device is priced by `cubeyard.torch.operators.cost`.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.initialization import no_init_weights

from cubeyard.torch.operators import Cost, cost, estimated
from cubeyard.torch.operators.dispatch import Calls

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Model:
    """Model of `transformers` in its published size and in a tiny one."""

    name: str
    """Name of the published size."""
    kind: str
    """Class of the model."""
    real: dict[str, Any]
    """Configuration of the published size, where it differs from the defaults of the class."""
    tiny: dict[str, Any]
    """Tiny configuration."""
    batch: Callable[[Any, bool, str], Batch]
    """Function from the configuration, tiny or not, and the device to the inputs of one step."""
    drops_layers: bool = False
    """True if the model draws a number to skip a layer, which fake tensors do not have. It then trains without dropout."""

    def config(self, tiny: bool) -> Any:
        """Returns the configuration of a size."""
        return getattr(transformers, self.kind).config_class(**(self.tiny if tiny else self.real))


@dataclass
class Times:
    """Times of one step by operator."""

    simulated: Counter[str] = field(default_factory=Counter)
    """Picoseconds of simulated kernels."""
    estimated: Counter[str] = field(default_factory=Counter)
    """Picoseconds of estimates."""
    calls: int = 0
    """Number of operators that take time."""
    different: set[Cost] = field(default_factory=set)
    """Different costs."""

    def add(self, op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        """Adds one call of an operator."""
        found = cost(op, arguments, results)
        if found is not None:
            self.calls += 1
            self.different.add(found)
            (self.estimated if found.is_estimate else self.simulated)[op] += found.ps

    @property
    def total(self) -> int:
        """Time of the step in picoseconds."""
        return self.simulated.total() + self.estimated.total()

    @property
    def share(self) -> float:
        """Share of estimates in the time of the step."""
        return self.estimated.total() / self.total


def _ids(config: Any, rows: int, columns: int, device: str) -> torch.Tensor:
    return torch.zeros(rows, columns, dtype=torch.long, device=device)


def _text(length: int) -> Callable[[Any, bool, str], Batch]:
    def batch(config: Any, tiny: bool, device: str) -> Batch:
        ids = _ids(config, 2 if tiny else 1, 16 if tiny else length, device)
        return {"input_ids": ids, "labels": ids}

    return batch


def _pictures(config: Any, tiny: bool, device: str) -> Batch:
    side = getattr(config, "image_size", 32 if tiny else 224)
    count = 2 if tiny else 8
    pixels = torch.zeros(count, config.num_channels, side, side, device=device, dtype=torch.get_default_dtype())
    return {"pixel_values": pixels, "labels": torch.zeros(count, dtype=torch.long, device=device)}


def _speech(config: Any, tiny: bool, device: str) -> Batch:
    frames = config.max_source_positions * 2
    sound = torch.zeros(1, config.num_mel_bins, frames, device=device, dtype=torch.get_default_dtype())
    return {"input_features": sound, "labels": _ids(config, 1, 8 if tiny else 256, device)}


SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}

LLAMA = {
    "vocab_size": 128_256,
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}

QWEN = LLAMA | {"vocab_size": 151_936, "intermediate_size": 12_288, "num_hidden_layers": 36, "head_dim": 128}

MIXTRAL = LLAMA | {"vocab_size": 32_000, "num_local_experts": 8, "num_experts_per_tok": 2}

T5 = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12}

WHISPER = {"d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
WHISPER |= {"encoder_attention_heads": 12, "decoder_attention_heads": 12}

MAMBA = {"hidden_size": 768, "num_hidden_layers": 24, "num_heads": 24, "head_dim": 64, "vocab_size": 50_288, "n_groups": 1}

MODELS: dict[str, Model] = {
    "llama": Model("Llama 3 8B", "LlamaForCausalLM", LLAMA, SIZES, _text(4096)),
    "gpt2": Model(
        "GPT-2 small", "GPT2LMHeadModel", {}, {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, _text(1024)
    ),
    "bert": Model("BERT base", "BertForMaskedLM", {}, SIZES, _text(512)),
    "t5": Model(
        "T5 base",
        "T5ForConditionalGeneration",
        T5,
        {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
        _text(512),
    ),
    "mixtral": Model("Mixtral 8x7B", "MixtralForCausalLM", MIXTRAL, SIZES | {"num_key_value_heads": 2, "num_local_experts": 4}, _text(4096)),
    "qwen3": Model("Qwen3 8B", "Qwen3ForCausalLM", QWEN, SIZES | {"num_key_value_heads": 2, "head_dim": 8}, _text(4096)),
    "vit": Model(
        "ViT base", "ViTForImageClassification", {}, SIZES | {"image_size": 32, "patch_size": 8}, _pictures
    ),
    "whisper": Model(
        "Whisper small",
        "WhisperForConditionalGeneration",
        WHISPER,
        {
            "vocab_size": 96,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "max_source_positions": 32,
            "max_target_positions": 32,
            "num_mel_bins": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "begin_suppress_tokens": None,
        },
        _speech,
        drops_layers=True,
    ),
    "mamba2": Model(
        "Mamba 2 130M",
        "Mamba2ForCausalLM",
        MAMBA,
        {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 1},
        _text(1024),
    ),
    "resnet": Model(
        "ResNet-50",
        "ResNetForImageClassification",
        {},
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 4},
        _pictures,
    ),
}
"""Models by the names that the command takes."""


def run(model: Model, *, train: bool, tiny: bool = False, device: str = "ahbm") -> Times:
    """Returns the times of one step of a model in bfloat16."""
    times = Times()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
            config = model.config(tiny)
            with no_init_weights():
                made = getattr(transformers, model.kind)(config).train(train and not model.drops_layers)
            made.tie_weights()
            batch = model.batch(config, tiny, device)
            optimizer = torch.optim.AdamW(made.parameters(), foreach=True)
            with Calls(times.add):
                _step(made, batch, optimizer if train else None)
    finally:
        torch.set_default_dtype(before)
    return times


def _step(model: torch.nn.Module, batch: Batch, optimizer: torch.optim.Optimizer | None) -> None:
    if optimizer is None:
        with torch.no_grad():
            model(**batch)
        return
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="ahbm")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    unknown = sorted(set(options.models) - set(MODELS))
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; expected some of {', '.join(MODELS)}")
    for line in table(options.models or list(MODELS), options.tiny, options.device):
        print(line, flush=True)


def table(names: list[str], tiny: bool, device: str) -> Iterator[str]:
    """Yields the lines of the tables."""
    yield "| model | step | operators that take time | different | time, µs | estimates | largest estimates |"
    yield "|---|---|---|---|---|---|---|"
    for name in names:
        for train in (False, True):
            times = run(MODELS[name], train=train, tiny=tiny, device=device)
            largest = ", ".join(f"`{op}` {ps / times.total:.2%}" for op, ps in times.estimated.most_common(4))
            step = "training" if train else "inference"
            figures = f"{times.calls:,} | {len(times.different):,} | {times.total / 1e6:,.0f} | {times.share:.2%}"
            yield f"| {MODELS[name].name} | {step} | {figures} | {largest} |"
    yield ""
    yield "| operator with an estimate | different calls | reason of the first |"
    yield "|---|---|---|"
    for op, found in sorted(estimated().items()):
        yield f"| `{op}` | {found.calls} | {found.reason} |"


if __name__ == "__main__":
    main()
