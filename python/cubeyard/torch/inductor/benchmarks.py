"""Measurements of Inductor's autotuning, in simulated time. The clocks forget the launches of a measurement."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["register", "without_charge"]

_NO_TIME = (
    "an operator took no simulated time, so autotuning prefers it to every Triton template: let operators take time, or "
    "leave them out with torch._inductor.config.max_autotune_gemm_backends = 'TRITON'"
)


def register(name: str) -> None:
    """Makes Inductor measure calls on the device in simulated time."""
    from torch._inductor.runtime import benchmarking

    # PyTorch 2.11 has no registry. Later versions call the method directly, too.
    if hasattr(benchmarking, "register_benchmarker"):
        benchmarking.register_benchmarker(name, _registered, override=True)
    for owner in (benchmarking.TritonBenchmarker, benchmarking.InductorBenchmarker):
        if "benchmark_gpu" in vars(owner):
            owner.benchmark_gpu = _instead(owner.benchmark_gpu, name)
    from torch._inductor.select_algorithm import ExternKernelCaller

    ExternKernelCaller.benchmark = _telling(ExternKernelCaller.benchmark, name)


def _telling(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wraps the measurement of an operator. A warning tells that the operator took no time on the device."""

    @functools.wraps(plain)
    def benchmark(caller: Any, *tensors: Any, out: Any) -> Any:
        milliseconds = plain(caller, *tensors, out=out)
        if milliseconds == 0 and any(one.device.type == name for one in tensors):
            warnings.warn(_NO_TIME, stacklevel=2)
        return milliseconds

    return benchmark


def without_charge(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that tries kernels. The clocks forget the time of its launches when it returns."""

    @functools.wraps(function)
    def tried(*arguments: Any, **named: Any) -> Any:
        from cubeyard import _native

        _native.torch_begin_trial()
        try:
            return function(*arguments, **named)
        finally:
            _native.torch_end_trial()

    return tried


def _registered(_benchmarker: Any, call: Callable[[], Any], **named: Any) -> Any:
    return _simulated(call, **named)


@without_charge
def _simulated(call: Callable[[], Any], **named: Any) -> Any:
    """Returns the simulated milliseconds of one call. A list if all measurements are wanted."""
    import triton

    measure = triton.runtime.driver.active.get_benchmarker()
    milliseconds = measure(call, grad_to_none=named.get("grad_to_none"))
    return [milliseconds] if named.get("return_mode") == "all" else milliseconds


def _instead(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Returns a function that measures on the device, and calls the plain one for other devices."""

    @functools.wraps(plain)
    def benchmark_gpu(benchmarker: Any, call: Callable[[], Any], *rest: Any, **named: Any) -> Any:
        from torch._inductor.utils import get_gpu_type

        device = named.get("device_type")
        kind = get_gpu_type() if device is None else str(getattr(device, "type", device)).split(":")[0]
        if kind == name:
            return _simulated(call, **named)
        return plain(benchmarker, call, *rest, **named)

    return benchmark_gpu
