"""Architectures of `transformers`, trained for three steps on the device and on the CPU, and compared.

    python python/tests/pytorch/architectures.py              # all of them: the table of docs/pytorch-coverage.md
    python python/tests/pytorch/architectures.py gpt2 t5      # some

Each model has a tiny configuration and random weights; nothing is downloaded. Both runs have the same weights, batches
and seeds, dropout included. The losses of all steps, the parameters and buffers after them, and the parameters that are
the same tensor under several names are compared, to the bit.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

DEVICE = "ahbm"

STEPS = 3
"""Optimizer steps of each run."""

Batch = dict[str, torch.Tensor]

SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
"""Sizes under the names that most configurations give them."""

TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Tokens within the small vocabulary."""


@dataclass(frozen=True)
class Architecture:
    """A model of `transformers` with a tiny configuration."""

    model: str
    """Class of the model."""
    config: dict[str, Any]
    """Arguments of its class of configurations."""
    batch: Callable[[torch.Generator], Batch]
    """Makes the inputs of one step."""

    def make(self) -> torch.nn.Module:
        """Returns the model with random weights of the current seed, in training mode."""
        kind = getattr(transformers, self.model)
        return kind(kind.config_class(**self.config)).train()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Outcome:
    """Comparison of the two runs of an architecture."""

    parameters: int
    """Number of parameters; a tied one counts once."""
    tied: int
    """Names of parameters beyond the first of each tensor."""
    losses: list[float]
    """Losses of the CPU."""
    differences: list[str]
    """Results that differ, in words; empty if all are equal to the bit."""


# ---- Inputs -----------------------------------------------------------------------------------


def _ids(random: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randint(3, SIZES["vocab_size"], shape, generator=random)


def text(random: torch.Generator) -> Batch:
    """Tokens, each of which is also its own label: the causal models shift them."""
    tokens = _ids(random, 2, 12)
    return {"input_ids": tokens, "labels": tokens}


def pairs(random: torch.Generator) -> Batch:
    """Tokens of two languages."""
    return {"input_ids": _ids(random, 2, 10), "labels": _ids(random, 2, 7)}


def images(random: torch.Generator) -> Batch:
    """Pictures of 32 × 32 pixels, with one of four labels."""
    return {
        "pixel_values": torch.randn(2, 3, 32, 32, generator=random),
        "labels": torch.randint(4, (2,), generator=random),
    }


def captions(random: torch.Generator) -> Batch:
    """Pictures with texts."""
    tokens = _ids(random, 3, 8)
    tokens[:, -1] = TOKENS["eos_token_id"]
    pixels = torch.randn(3, 3, 32, 32, generator=random)
    return {"input_ids": tokens, "pixel_values": pixels, "return_loss": True}  # type: ignore[dict-item]


def spectra(random: torch.Generator) -> Batch:
    """Spectra of sound, with texts."""
    return {"input_features": torch.randn(2, 16, 40, generator=random), "labels": _ids(random, 2, 6)}


def sounds(random: torch.Generator) -> Batch:
    """Waves of sound, with texts."""
    return {"input_values": torch.randn(2, 400, generator=random), "labels": _ids(random, 2, 3)}


# ---- Architectures ----------------------------------------------------------------------------


def _decoder(model: str, **config: Any) -> Architecture:
    return Architecture(f"{model}ForCausalLM", {**SIZES, **TOKENS, "max_position_embeddings": 64, **config}, text)


def _encoder(model: str, **config: Any) -> Architecture:
    return Architecture(f"{model}ForMaskedLM", {**SIZES, **TOKENS, "max_position_embeddings": 64, **config}, text)


# These models draw from the host's generator whether to drop a layer, even if none is ever dropped. On the CPU that is the
# generator of dropout, too, whose numbers would then be others than the device's: they train without dropout.
_STILL = {"dropout": 0.0}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_GPT = {**TOKENS, "vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_SEQ2SEQ = {
    **TOKENS, "vocab_size": 96, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "decoder_start_token_id": 2,
}  # fmt: skip
_TOWER = {key: SIZES[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}

ARCHITECTURES = {
    "gpt2": Architecture("GPT2LMHeadModel", _GPT, text),
    "gpt_neo": Architecture(
        "GPTNeoForCausalLM",
        {**TOKENS, "vocab_size": 96, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "intermediate_size": 48,
         "max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]], "window_size": 4},
        text,
    ),
    "gptj": Architecture("GPTJForCausalLM", {**_GPT, "rotary_dim": 4}, text),
    "gpt_neox": _decoder("GPTNeoX"),
    "llama": _decoder("Llama", num_key_value_heads=2),
    "mistral": _decoder("Mistral", num_key_value_heads=2, sliding_window=6),
    "mixtral": _decoder("Mixtral", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": _decoder("Qwen2", num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2_moe": _decoder("Qwen2Moe", **_EXPERTS, num_key_value_heads=2, shared_expert_intermediate_size=24),
    "qwen3": _decoder("Qwen3", num_key_value_heads=2, head_dim=8, tie_word_embeddings=True),
    "qwen3_moe": _decoder("Qwen3Moe", **_EXPERTS, num_key_value_heads=2, head_dim=8),
    "gemma": _decoder("Gemma", num_key_value_heads=1, head_dim=8),
    "gemma2": _decoder("Gemma2", num_key_value_heads=2, head_dim=8, sliding_window=6),
    "phi": _decoder("Phi"),
    "opt": _decoder("OPT", **_STILL, ffn_dim=48, word_embed_proj_dim=32),
    "bloom": _decoder("Bloom", n_layer=2, n_head=4),
    "falcon": _decoder("Falcon"),
    "mamba": _decoder("Mamba", state_size=4, expand=2, conv_kernel=3),
    "olmoe": _decoder("Olmoe", num_experts=4, num_experts_per_tok=2),
    "gpt_oss": _decoder("GptOss", num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts_per_tok=2),
    "deepseek_v3": _decoder(
        "DeepseekV3", moe_intermediate_size=24, n_routed_experts=4, n_group=2, topk_group=1, num_experts_per_tok=2,
        n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=4,
        qk_nope_head_dim=4, v_head_dim=8,
    ),
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta"),
    "distilbert": Architecture(
        "DistilBertForMaskedLM",
        {"vocab_size": 96, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
        text,
    ),
    "albert": _encoder("Albert", embedding_size=16),
    "t5": Architecture(
        "T5ForConditionalGeneration",
        {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, **TOKENS,
         "decoder_start_token_id": 0},
        pairs,
    ),
    "bart": Architecture("BartForConditionalGeneration", {**_SEQ2SEQ, **_STILL, "max_position_embeddings": 64}, pairs),
    "whisper": Architecture(
        "WhisperForConditionalGeneration",
        {**_SEQ2SEQ, **_STILL, "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 24},
        spectra,
    ),
    "wav2vec2": Architecture(
        "Wav2Vec2ForCTC",
        {**SIZES, **TOKENS, "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3],
         "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4,
         "mask_time_prob": 0.0, "layerdrop": 0.0, "hidden_dropout": 0.0, "attention_dropout": 0.0,
         "activation_dropout": 0.0, "feat_proj_dropout": 0.0, "final_dropout": 0.0},
        sounds,
    ),
    "vit": Architecture("ViTForImageClassification", {**_TOWER, "image_size": 32, "patch_size": 8, "num_labels": 4}, images),
    "resnet": Architecture(
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic", "num_labels": 4},
        images,
    ),
    "convnext": Architecture(
        "ConvNextForImageClassification", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "num_labels": 4}, images
    ),
    "clip": Architecture(
        "CLIPModel",
        {"text_config": {**SIZES, **TOKENS, "max_position_embeddings": 16},
         "vision_config": {**_TOWER, "image_size": 32, "patch_size": 8}, "projection_dim": 16},
        captions,
    ),
}  # fmt: skip
"""The architectures, by the names of their configurations."""


# ---- Comparison -------------------------------------------------------------------------------


def compare(architecture: Architecture) -> Outcome:
    """Trains one model on the CPU, and a copy of it on the device."""
    torch.manual_seed(0)
    model = architecture.make()
    random = torch.Generator().manual_seed(1)
    batches = [architecture.batch(random) for _ in range(STEPS)]
    twin = copy.deepcopy(model)
    expected, found = train(model, "cpu", batches), train(twin, DEVICE, batches)
    differences = [f"loss of step {step}" for step in range(STEPS) if expected[step] != found[step]]
    differences += _differences(model.state_dict(), twin.state_dict())
    if _ties(model) != _ties(twin):
        differences.append("tied parameters")
    names = list(model.named_parameters(remove_duplicate=False))
    distinct = list(model.parameters())
    return Outcome(sum(p.numel() for p in distinct), len(names) - len(distinct), expected, differences)


def train(model: torch.nn.Module, device: str, batches: list[Batch]) -> list[float]:
    """Moves a model to a device and trains it there; returns the losses.

    The optimizer is made before the model moves, as many scripts do.
    """
    # PyTorch would update many tensors at a time on the device, and one after the other on the CPU.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    model.to(device)
    torch.manual_seed(2)
    losses = []
    for batch in batches:
        given = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        optimizer.zero_grad()
        loss = model(**given).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _differences(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> list[str]:
    """Returns the names of the tensors that differ, or are elsewhere than on the device."""
    wrong = [name for name, value in found.items() if value.device.type != DEVICE]
    return wrong + [name for name, value in expected.items() if not torch.equal(value, found[name].cpu())]


def _ties(model: torch.nn.Module) -> list[list[str]]:
    """Returns the names of parameters that are one tensor."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return sorted(group for group in names.values() if len(group) > 1)


def main(names: list[str]) -> int:
    """Prints a row for each architecture; returns 1 if one differs."""
    import cubeyard.torch  # noqa: F401

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    equal, chosen = 0, names or list(ARCHITECTURES)
    print("| architecture | class | parameters | tied | loss of steps 1 and 3 | against the CPU |\n|---|---|---|---|---|---|")
    for name in chosen:
        architecture = ARCHITECTURES[name]
        try:
            outcome = compare(architecture)
        except Exception as error:
            print(f"| {name} | `{architecture.model}` | | | | {type(error).__name__}: {str(error).splitlines()[:1]} |", flush=True)
            continue
        equal += not outcome.differences
        verdict = "equal to the bit" if not outcome.differences else "differs: " + ", ".join(outcome.differences[:3])
        losses = f"{outcome.losses[0]:.4f}, {outcome.losses[-1]:.4f}"
        print(f"| {name} | `{architecture.model}` | {outcome.parameters:,} | {outcome.tied} | {losses} | {verdict} |", flush=True)
    print(f"\n{equal} of {len(chosen)} are equal to the bit", file=sys.stderr)
    return int(equal < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
