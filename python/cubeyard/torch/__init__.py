"""PyTorch's device `ahbm`: tensors in the memory of a simulated accelerator, served by this package's allocator.

`import torch` finds the device, which needs PyTorch 2.11 to 2.15. Device-independent code runs on it:

>>> import torch
>>> x = torch.ones(3, device="ahbm")
>>> (x + 1).sum().item()
6.0

This module is `torch.ahbm`, with the functions of PyTorch's other device modules:

>>> torch.ahbm.is_available()
True
>>> torch.ahbm.memory_allocated() >= 128
True

Every SIP of the machine is a device. The CPU computes the operators in the memory of the device, immediately and in
program order. Time is simulated: operators, copies, launches of Triton kernels, collectives and sleeps take time of their
stream. See `Stream`. With CUBEYARD_TIME=off in the environment, operators and copies take none.

A wheel may include the compiled device for this version of PyTorch. Otherwise it is compiled when `import torch` first finds
it, and kept in the user's cache. `python -m cubeyard.torch build` compiles it beforehand. If compilation fails, `import torch` still succeeds, and the first use of the device gives the
remedy. With TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment, only `import cubeyard.torch` loads the device. The variable
CUBEYARD_TORCH_DEVICE gives the device another name, such as `spyre`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cubeyard.torch import _loader

_complete = False


def _autoload() -> None:
    """Loads the device. Called by `import torch`. Raises nothing."""
    if _complete:
        _loader.autoload(sys.modules[__name__], _register)


def _register(name: str) -> None:
    """Registers a loaded device with the parts of PyTorch that keep lists of devices."""
    inductor.register(name, sys.modules[__name__])
    _costs.register()
    _kineto.register()
    _random.register()
    memory._refuse_sharing(name)
    # PyTorch looks up an accelerator's backend by this name. Only PyTorch 2.15 and later look up its entry point.
    distributed.register()


# `python -m cubeyard.torch` loads the device itself.
_command = sys.argv[:1] == ["-m"] and "cubeyard.torch" in sys.orig_argv
_explicit = not _loader.torch_is_being_imported() and not _command

try:
    # If this is the first import, it calls `_autoload`, which leaves the loading to the end of this file.
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "cubeyard.torch needs PyTorch 2.11 to 2.15, which is not installed: pip install 'cubeyard[torch]'", name="torch"
    ) from None

from cubeyard.torch import _costs, _kineto, _random, amp, distributed, inductor, memory, programs
from cubeyard.torch._costs import OperatorRow, OperatorTimes, operator_times, record_operators
from cubeyard.torch._device import (
    DeviceProperties,
    _exchange_device,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
)
from cubeyard.torch._place import PlacementWarning, place
from cubeyard.torch._pools import MemPool, memory_tag, use_mem_pool
from cubeyard.torch._random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from cubeyard.torch._streams import (
    Event,
    Stream,
    StreamContext,
    _get_current_raw_stream,
    _set_stream_by_id,
    _sleep,
    clock,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from cubeyard.torch._timeline import Timeline, TimelineSpan, record_timeline
from cubeyard.torch.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    empty_host_cache,
    get_memory_info,
    get_per_process_memory_fraction,
    host_memory_stats,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    on_pressure,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    subscribe,
    subscribe_rmm_log,
    unlock_regions,
)
from cubeyard.torch.programs import Launch, Operand, Program, load_program

if TYPE_CHECKING:
    from cubeyard.torch.profiling import Profile, Simulation, profile, simulate

__all__ = [
    "DeviceProperties",
    "Event",
    "Launch",
    "MemPool",
    "Operand",
    "OperatorRow",
    "OperatorTimes",
    "PlacementWarning",
    "Profile",
    "Program",
    "Simulation",
    "Stream",
    "StreamContext",
    "Timeline",
    "TimelineSpan",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "clock",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "empty_host_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_memory_info",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "load_program",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_tag",
    "on_pressure",
    "operator_times",
    "place",
    "profile",
    "programs",
    "record_operators",
    "record_timeline",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "simulate",
    "stream",
    "subscribe",
    "subscribe_rmm_log",
    "synchronize",
    "unlock_regions",
    "use_mem_pool",
]


def __getattr__(name: str) -> object:
    # torch.utils.checkpoint reads this attribute, and saves the random state of a device that has been used.
    if name == "_initialized":
        return is_initialized()
    # Before PyTorch 2.15, Inductor looks up code generators by these names.
    if name in ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen"):
        return inductor.generator(name)
    # Reports need parts of PyTorch that `import torch` must not load.
    if name in ("Profile", "Simulation", "profile", "simulate"):
        from cubeyard.torch import profiling

        return getattr(profiling, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _inductor_backend_init() -> None:
    """Registers the device with Inductor, which calls this before it compiles."""
    from cubeyard.torch.inductor import registration

    registration.register(_loader.name)


_complete = True
if _explicit:
    _loader.load(sys.modules[__name__], _register, again=True)
