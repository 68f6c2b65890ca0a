"""Inference steps of language models: time, tokens per second, and memory per PE."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cubeyard import _native as native
from cubeyard._base import checks, dtypes
from cubeyard._base import progress as _progress
from cubeyard._base.inputs import text_of
from cubeyard._base.results import Printed, arrow_types, build, plain, table
from cubeyard.errors import InputError
from cubeyard.machine.topology import TopologyLike, native_of

__all__ = ["Configuration", "MemoryUse", "Step", "StepMemory", "StepPart", "names", "read", "step"]


@dataclass(frozen=True)
class StepPart:
    """Times of one part of a step, such as attention."""

    part: str
    count: int
    """Number of times the part runs in a step."""
    each_ns: float
    total_ns: float
    bytes: int
    flop: int
    limited_by: str | None
    """Resource with the larger bound, HBM or GEMM; None without a bound."""
    memory_bound_ns: float
    gemm_bound_ns: float
    share_of_bound: float | None


@dataclass(frozen=True)
class MemoryUse:
    """Memory usage: maximum over the PEs, mean over the PEs, and total."""

    most_bytes: int
    mean_bytes: int
    all_bytes: int


@dataclass(frozen=True)
class StepMemory:
    """Memory usage of the PEs, by purpose."""

    capacity_bytes: int
    weights: MemoryUse
    caches: MemoryUse
    activations: MemoryUse
    all: MemoryUse


@dataclass(frozen=True)
class Step(Printed):
    """Measurement of one step of a model. The table has one row per part."""

    model: str
    parameters: int
    layers: int
    phase: str
    batch: int
    context: int
    dtype: str
    weights: str
    kv_dtype: str
    """Element type of the caches of K and V."""
    experts_used: int | None
    """Number of distinct experts used by the tokens of a step; None if the model is dense."""
    expert_places: int | None
    """Number of parts of the machine over which the experts are distributed; None if the model is dense."""
    sips: int
    cubes: int
    pes: int
    verdict: str
    """Time, bound, longest part and largest loss against a bound, in one sentence."""
    parts: tuple[StepPart, ...]
    launches: int
    launching_ns: float
    total_ns: float
    tokens: int
    tokens_per_second: float
    bandwidth_bound_ns: float
    share_of_bandwidth_bound: float
    bound_ns: float
    share_of_bound: float
    positions_run: int
    positions: int
    all_reduces: tuple[str, ...]
    """Algorithms of the all-reduces: one, or a second one for the leftover sequences in prefill."""
    placement: tuple[str, ...]
    """Remarks about dimensions that are padded, replicated or divided unevenly."""
    notes: tuple[str, ...]
    """Features of the model that are not simulated."""
    memory_per_pe: StepMemory

    _title: ClassVar[str] = "Step of a model"
    _types: ClassVar[Mapping[str, str]] = arrow_types(StepPart)

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per part."""
        rows: list[dict[str, Any]] = plain(self.parts)
        return rows

    def _summary(self) -> str:
        rate = f"{self.total_ns / 1e3:,.1f} µs, {self.tokens_per_second:,.0f} tokens/s"
        return f"{self.model}, {self.phase} of batch {self.batch} with {self.context} tokens: {rate}"

    def _tables(self) -> list[tuple[str, list[str], list[list[tuple[str, bool]]]]]:
        memory = [{"what": name} | use for name, use in plain(self.memory_per_pe).items() if isinstance(use, dict)]
        return [table("Parts", self.rows()), table("Memory", memory)]

    def _draw(self, axes: Any) -> None:
        names = [of.part for of in self.parts]
        axes.barh(names, [of.total_ns / 1e3 for of in self.parts], label="measured")
        bounds = [max(of.memory_bound_ns, of.gemm_bound_ns) / 1e3 for of in self.parts]
        axes.barh(names, bounds, height=0.3, label="bound")
        axes.invert_yaxis()
        axes.set_xlabel("µs")
        axes.legend()


def step(
    model: str | os.PathLike[str] | Mapping[str, Any] = "llama-8b",
    *,
    hf: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    phase: Literal["decode", "prefill"] = "decode",
    batch: int = 1,
    context: int = 2048,
    chunk: int = 512,
    dtype: Any = None,
    weights: Any = None,
    kv_dtype: Any = None,
    experts: Literal["split", "sip", "cube"] = "split",
    layers: int = 1,
    positions: int | None = None,
    topology: TopologyLike = None,
    progress: bool = False,
) -> Step:
    """Measures a step of a language model, as `cubeyard model` does.

    All weights and caches are allocated over all SIPs. The step is simulated with one layer of each kind, since layers of
    a kind are alike.

    Args:
        model: Name of a known model (see `names()`), the path (`pathlib.Path`) of a YAML file, or a dictionary with the
            keys name, layers, hidden, ffn, heads, kv_heads, head_dim and vocab. Missing keys have the values of llama-8b.
        hf: Hugging Face configuration instead of `model`: the path of a `config.json`, or a dictionary, e.g. from
            `to_dict()` of a `transformers` configuration.
        phase: "decode" (one new token per sequence) or "prefill" (whole prompts, in chunks).
        batch: Number of sequences.
        context: Number of tokens in each sequence.
        chunk: Number of tokens in a prefill step, over all sequences.
        dtype: Element type of activations, caches and weights; if None, the type in `hf`, else f16.
        weights: Element type of the layers' weights, with one scale per column: "fp8", "int8" or "fp8_e5m2". The type of
            the activations stores them without scales. None: as `hf` says, else the type of the activations.
        kv_dtype: Element type of the caches of K and V: "fp8" or "fp8_e5m2"; None for the type of the activations.
        experts: Placement of experts: each divided over all PEs ("split"), or different experts for each SIP ("sip") or
            for each cube or group of cubes ("cube").
        layers: Number of layers of each kind to simulate, one after the other.
        positions: Maximum number of positions at which prefill attention is simulated; 9 if None.
        topology: The machine; see `Topology`.
        progress: Whether to show a progress bar, which needs tqdm.

    >>> import cubeyard
    >>> tiny = {"name": "tiny", "layers": 2, "hidden": 512, "ffn": 1024, "heads": 8, "kv_heads": 1, "vocab": 4096}
    >>> cubeyard.model.step(tiny, context=256, topology={"sips.count": 1, "cubes": {"w": 1, "h": 1}}).tokens
    1

    Raises:
        InputError: An argument is invalid, or the model cannot be divided over the machine.
        OutOfMemory: The model needs more memory than the machine has, or the run more than the host has.
    """
    if phase not in ("decode", "prefill"):
        raise InputError(f"phase={phase!r}: expected 'decode' or 'prefill'")
    numbers = {"batch": batch, "context": context, "chunk": chunk, "layers": layers}
    numbers = {name: checks.count(name, number, least=1) for name, number in numbers.items()}
    positions = None if positions is None else checks.count("positions", positions, least=1)
    known, file = (model, None) if isinstance(model, str) else ("", text_of("model", model))
    arguments = {"model": known, "file": file, "prefill": phase == "prefill", "positions": positions, **numbers}
    arguments["experts"] = str(experts)
    arguments["hf"] = None if hf is None else configuration_of(hf)
    arguments["dtype"] = None if dtype is None else dtypes.name_of(dtype)
    arguments["weights"] = weights if weights is None or isinstance(weights, str) else dtypes.name_of(weights)
    arguments["kv_dtype"] = kv_dtype if kv_dtype is None or isinstance(kv_dtype, str) else dtypes.name_of(kv_dtype)
    with _progress.shown(progress) as tell:
        data, text = native.model_step(native_of(topology), arguments, tell)
    return build(Step, data, text=text)


@dataclass(frozen=True)
class Configuration:
    """Model described by a Hugging Face configuration."""

    name: str
    parameters: int
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    experts: int | None
    """Number of experts per layer, or None if the layer is dense."""
    active_experts: int | None
    """Number of experts used by each token."""
    kv_bytes_per_token: int
    """Bytes that a token adds to the caches of K and V of all layers, before any window is full."""
    dtype: str | None
    weights: str | None
    """Element type of the layers' weights, if they are quantised to 8 bits."""
    notes: tuple[str, ...]
    """Keys whose effect is not simulated."""


def configuration_of(hf: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, str]:
    """Returns the name and JSON text of a configuration, from its file or from a dictionary."""
    if not isinstance(hf, Mapping):
        return text_of("hf", hf)
    try:
        return "hf", json.dumps(dict(hf))
    except (TypeError, ValueError) as error:
        raise InputError(f"hf: expected a dictionary of JSON values: {error}") from None


def read(hf: str | os.PathLike[str] | Mapping[str, Any]) -> Configuration:
    """Reads a Hugging Face configuration of type llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gemma2, gemma3, phi3,
    granite, gpt_oss or llama4.

    Args:
        hf: Path of a `config.json`, or a dictionary, e.g. from `to_dict()` of a `transformers` configuration.

    >>> keys = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256}
    >>> heads = {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    >>> read(keys | heads).parameters
    8030261248

    Raises:
        InputError: A key is missing or has an invalid value.
    """
    return build(Configuration, native.model_read(configuration_of(hf)))


def names() -> list[str]:
    """Returns the names of the known models.

    >>> names()
    ['llama-8b', 'llama-70b']
    """
    return native.model_names()
