"""Services of language models: latencies, throughput, and what makes requests wait."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from cubeyard import _native as native
from cubeyard._base import checks, dtypes
from cubeyard._base.inputs import text_of
from cubeyard._base.results import HIDDEN, Printed, build, plain, table
from cubeyard.errors import InputError
from cubeyard.machine.topology import TopologyLike, native_of
from cubeyard.model import configuration_of

__all__ = ["BlockUse", "Latency", "Service", "serve"]

_LATENCIES = ("ttft", "tpot", "itl", "e2el", "queue")
_STATISTICS = ("mean", "std", "median", "p90", "p99", "max")


@dataclass(frozen=True)
class Latency:
    """Statistics of a latency, in milliseconds."""

    mean: float
    std: float
    """Standard deviation."""
    median: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class BlockUse:
    """Use of the blocks of the KV cache."""

    count: int
    peak: int
    """Maximum number of blocks in use."""
    mean: float
    """Mean number of blocks in use over time."""
    bytes_each: int
    """Bytes of a block on all PEs together."""
    allocated_bytes: int
    """Bytes that the allocator has handed out."""


@dataclass(frozen=True)
class Service(Printed):
    """Results of a service. The table has one row per latency, or one per rate if several were run."""

    model: str
    parameters: int
    dtype: str
    weights: str
    load: str
    """Description of the requests."""
    rate: float | None
    """Mean number of requests a second, or None if all arrive at once."""
    verdict: str
    """Result in a few sentences."""
    duration: float
    """Time from the start to the end of the last step, in seconds."""
    completed: int
    rejected: int
    """Number of requests that can never be served."""
    good: int | None
    """Number of answered requests within the limits, or None without limits."""
    total_input_tokens: int
    total_output_tokens: int
    cached_input_tokens: int
    request_throughput: float
    request_goodput: float | None
    output_throughput: float
    total_token_throughput: float
    ttft_ms: Latency
    """Time to first token."""
    tpot_ms: Latency
    """Time per output token of each request."""
    itl_ms: Latency
    """Inter-token latency of all requests together."""
    e2el_ms: Latency
    """End-to-end latency."""
    queue_ms: Latency
    """Time from sending to the first step."""
    steps: int
    mean_batch_tokens: float
    busy_share: float
    """Share of the duration in which steps ran."""
    mean_unanswered: float
    preemptions: int
    kv_blocks: BlockUse
    waited_by_reason: Mapping[str, float]
    """Share of the waiting time by its reason: step, sequences, tokens, memory, preemption."""
    scheduler: Mapping[str, Any]
    step_overhead_ns: float
    max_concurrency: int | None
    limits: Mapping[str, float | None]
    memory_per_pe: Mapping[str, float]
    step_times: Mapping[str, Any]
    """Number of simulations, and error of interpolated times."""
    rates: tuple[Mapping[str, Any], ...]
    """Results at each rate that was run, by rate; empty if only the load's own rate was."""
    highest_rate: float | None
    """Highest rate within the limits that a search found."""
    lowest_rate_beyond: float | None
    """Lowest rate beyond the limits that a search found."""
    notes: tuple[str, ...]
    """Features of the model that are not simulated."""
    html: str = field(kw_only=True, repr=False, compare=False, metadata=HIDDEN)
    """HTML page of the command."""

    _title: ClassVar[str] = "Service of a model"
    _types: ClassVar[Mapping[str, str]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per latency, or one per rate if several were run."""
        if self.rates:
            return [{name: value for name, value in row.items() if not isinstance(value, dict)} for row in self.rates]
        return [{"latency": name} | plain(getattr(self, f"{name}_ms")) for name in _LATENCIES]

    def page(self) -> str:
        """Returns the page of `cubeyard serve --report`."""
        return self.html

    def _summary(self) -> str:
        return f"{self.model}: {self.verdict}"

    def _tables(self) -> list[tuple[str, list[str], list[list[tuple[str, bool]]]]]:
        return [table("Rates" if self.rates else "Latencies in ms", self.rows())]

    def _draw(self, axes: Any) -> None:
        if not self.rates:
            axes.bar(_LATENCIES, [getattr(self, f"{name}_ms").p99 for name in _LATENCIES], label="p99")
            axes.bar(_LATENCIES, [getattr(self, f"{name}_ms").median for name in _LATENCIES], label="median")
            axes.set_ylabel("ms")
        else:
            rates = [row["rate"] for row in self.rates]
            for name in ("p99_ttft_ms", "p99_tpot_ms"):
                axes.plot(rates, [row[name] for row in self.rates], marker="o", label=name)
            axes.set_xlabel("requests a second")
            axes.set_ylabel("ms")
            axes.set_yscale("log")
        axes.legend()


def serve(
    model: str | os.PathLike[str] | Mapping[str, Any] = "llama-8b",
    *,
    hf: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    trace: str | os.PathLike[str] | None = None,
    rate: float | None = None,
    requests: int | None = None,
    prompt: int | str = 1024,
    answer: int | str = 128,
    burstiness: float = 1.0,
    seed: int = 0,
    limits: Mapping[str, float] | None = None,
    rates: Sequence[float] = (),
    find_rate: float | None = None,
    dtype: Any = None,
    weights: Any = None,
    kv_dtype: Any = None,
    experts: Literal["split", "sip", "cube"] = "split",
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 2048,
    block_size: int = 16,
    enable_prefix_caching: bool = True,
    enable_chunked_prefill: bool = True,
    policy: Literal["fcfs", "priority"] = "fcfs",
    kv_blocks: int | None = None,
    memory_share: float = 0.92,
    step_overhead_us: float = 0.0,
    max_concurrency: int | None = None,
    hash_tokens: int = 512,
    steps: Literal["interpolated", "exact"] = "interpolated",
    check_steps: int = 2,
    topology: TopologyLike = None,
) -> Service:
    """Simulates a service of a language model, as `cubeyard serve` does; docs/serving.md has its rules.

    Args:
        model: Name of a known model, the path of a YAML file, or a dictionary, as in `cubeyard.model.step`.
        hf: Hugging Face configuration instead of `model`.
        trace: File of recorded requests: Azure's, BurstGPT's or Mooncake's, or CSV with `arrival_s,prompt_tokens,output_tokens`.
        rate: Mean number of requests a second; 10 without a trace. A trace is run at its own rate if None.
        requests: Number of requests; 500 without a trace, all of a trace if None.
        prompt: Tokens of the prompts: a number, "LOW-HIGH", or "lognormal:MEAN:VARIATION".
        answer: Tokens of the answers, in the same forms.
        burstiness: Shape of the gamma distribution of the gaps between arrivals: 1 for a Poisson process.
        seed: Seed of the random numbers.
        limits: Limits on the latencies of a request in milliseconds, such as `{"ttft": 500, "tpot": 30}`.
        rates: Rates to run in turn.
        find_rate: Searches the highest rate at which this share of the requests is within the limits.
        dtype: Element type of activations, caches and weights; if None, the type in `hf`, else f16.
        weights: Element type of the layers' weights, such as "fp8".
        kv_dtype: Element type of the caches of K and V, such as "fp8"; that of activations if None.
        experts: Placement of experts, as in `cubeyard.model.step`.
        max_num_seqs: Maximum number of sequences of a batch.
        max_num_batched_tokens: Maximum number of tokens of a batch.
        block_size: Number of tokens of a block of the KV cache.
        enable_prefix_caching: Whether requests reuse the blocks of equal prefixes.
        enable_chunked_prefill: Whether a prompt may be computed in several steps.
        policy: Order in which waiting requests are admitted.
        kv_blocks: Number of blocks of the KV cache, at most as many as the memory holds, which is the default.
        memory_share: Share of the memory of a PE that weights, activations and cache may use.
        step_overhead_us: Time of the host before each step, in microseconds.
        max_concurrency: Maximum number of unanswered requests.
        hash_tokens: Number of tokens of each of the `hash_ids` of a trace.
        steps: Times of steps: "interpolated" between simulated ones, or each of them simulated ("exact").
        check_steps: Number of batches whose interpolated times are compared with simulated ones.
        topology: The machine; see `Topology`.

    >>> import cubeyard
    >>> tiny = {"name": "tiny", "layers": 2, "hidden": 64, "ffn": 128, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 128}
    >>> machine = {"sips.count": 1, "cubes": {"w": 1, "h": 1}}
    >>> service = cubeyard.serve(tiny, rate=1000, requests=20, prompt=16, answer=4, topology=machine)
    >>> service.completed, service.total_output_tokens
    (20, 80)

    Raises:
        InputError: An argument or a line of the trace is invalid.
        OutOfMemory: The weights leave no memory for the KV cache.
    """
    for name, given, allowed in (("policy", policy, ("fcfs", "priority")), ("steps", steps, ("interpolated", "exact"))):
        if given not in allowed:
            raise InputError(f"{name}={given!r}: expected {allowed[0]!r} or {allowed[1]!r}")
    if find_rate is not None and not 0 < find_rate <= 1:
        raise InputError(f"find_rate={find_rate!r}: expected a share of the requests above 0 and up to 1")
    counts = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens, "block_size": block_size}
    counts |= {"hash_tokens": hash_tokens}
    optional = {"requests": requests, "kv_blocks": kv_blocks, "max_concurrency": max_concurrency}
    known, file = (model, None) if isinstance(model, str) else ("", text_of("model", model))
    arguments: dict[str, Any] = {name: checks.count(name, number, least=1) for name, number in counts.items()}
    for name, number in optional.items():
        arguments[name] = None if number is None else checks.count(name, number, least=1)
    arguments |= {
        "model": known,
        "file": file,
        "hf": None if hf is None else configuration_of(hf),
        "dtype": None if dtype is None else dtypes.name_of(dtype),
        "weights": weights if weights is None or isinstance(weights, str) else dtypes.name_of(weights),
        "kv_dtype": kv_dtype if kv_dtype is None or isinstance(kv_dtype, str) else dtypes.name_of(kv_dtype),
        "experts": str(experts),
        "trace": None if trace is None else _bytes_of(trace),
        "rate": None if rate is None else float(rate),
        "burstiness": float(burstiness),
        "prompt": str(prompt),
        "answer": str(answer),
        "seed": checks.count("seed", seed, least=0),
        "rates": [float(rate) for rate in rates],
        "find_rate": find_rate,
        "limits": [f"{name}:{limit}" for name, limit in (limits or {}).items()],
        "prefix_caching": bool(enable_prefix_caching),
        "chunked_prefill": bool(enable_chunked_prefill),
        "priority": policy == "priority",
        "memory_share": float(memory_share),
        "step_overhead_us": float(step_overhead_us),
        "exact": steps == "exact",
        "check_steps": checks.count("check_steps", check_steps, least=0),
    }
    data, text, html = native.serve_model(native_of(topology), arguments)
    for name in _LATENCIES:
        data[f"{name}_ms"] = {statistic: data.pop(f"{statistic}_{name}_ms") for statistic in _STATISTICS}
    return build(Service, data, text=text, html=html)


def _bytes_of(trace: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Returns the name and the bytes of a trace."""
    try:
        with open(trace, "rb") as file:
            return os.fspath(trace), file.read()
    except OSError as error:
        raise InputError(f"trace: {os.fspath(trace)}: {error.strerror}") from None
