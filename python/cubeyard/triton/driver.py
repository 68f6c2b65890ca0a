"""Driver `ahbm` of Triton's runtime: performs launches and measures them in simulated time."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

# The simulator is imported at the first launch: `import triton` loads this module, and must not wait for the simulator.

__all__ = ["AhbmDriver"]

_LIMIT = 2**31 - 1
_REGISTERS = 2**16
"""Registers of a PE for scripts that compute how many programs it runs at once: one, which has all of them."""
_CHANNEL_BITS = 64


class AhbmLauncher:
    """Launcher of a compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature, self.metadata = dict(source.signature), metadata
        declared = {one.name for one in getattr(getattr(source, "fn", None), "params", ()) if one.is_constexpr}
        self.without_constants = {name: kind for name, kind in self.signature.items() if name not in declared}

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Any, *rest: Any) -> None:
        """Performs a launch. Triton passes metadata and hooks before the arguments."""
        from cubeyard.triton import _record
        from cubeyard.triton._clock import place_of
        from cubeyard.triton._launch import prepared

        _, launch_metadata, enter, leave, *arguments = rest
        if enter is not None:
            enter(launch_metadata)
        signature = self._signature_of(function.name, len(arguments))
        given = [one for of in zip(signature.items(), arguments, strict=True) for one in _named(*of[0], of[1])]
        launch = prepared(function, (int(x), int(y), int(z)), _record.current(), given)
        _record.perform(launch, _options(self.metadata), place_of((one for _, one in given), stream))
        if leave is not None:
            leave(launch_metadata)

    def _signature_of(self, name: str, count: int) -> dict[Any, Any]:
        """Returns the types of `count` arguments by their names.

        Triton passes all arguments. A caller of the compiled kernel may leave out those that are declared as constants, since
        the kernel is compiled for their values.

        Raises:
            InputError: There are fewer or more arguments.
        """
        for signature in (self.signature, self.without_constants):
            if len(signature) == count:
                return signature
        from cubeyard.errors import InputError

        names = ", ".join(map(str, self.signature))
        constants = ", ".join(one for one in self.signature if one not in self.without_constants)
        left_out = f"; {constants} may be left out" if constants else ""
        raise InputError(f"kernel {name}: {count} arguments given, expected {names}{left_out}")


def _named(name: Any, kind: Any, argument: Any) -> Iterator[tuple[str, Any]]:
    """Yields an argument with its name, in the order of the compiled kernel. Expands tuples and omits constants."""
    if isinstance(kind, tuple):
        for at, (of, one) in enumerate(zip(kind, argument, strict=True)):
            yield from _named(f"{name}[{at}]", of, one)
    elif kind != "constexpr":
        yield str(name), argument


def _options(metadata: Any) -> list[str]:
    """Explains launch options that have a meaning only on GPUs."""
    warps = f"num_warps={metadata.num_warps}: a PE runs one program at a time and has no warps; no effect"
    stages = f"num_stages={metadata.num_stages}: loads run ahead as far as the PE's window of commands; no effect"
    return [warps, stages]


class _Utils:
    """Driver functions that Triton calls by name."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Returns the module, the function, and a GPU's registers of a thread, spills and most threads.

        A program has all registers of its PE, and a warp has one thread. So occupancy, as scripts compute it, is 1.
        """
        from cubeyard.triton._program import program_of

        warps, decoded = pickle.loads(kernel)
        program = program_of(name, decoded)
        return program, program, max(_REGISTERS // warps, 1), 0, _LIMIT

    def unload_module(self, module: Any) -> None:
        """Does nothing: a module needs no unloading."""

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """Returns device properties under the names that Triton's tutorials use, of a SIP.

        A PE counts as a multiprocessor. Its memory for tiles is `max_shared_mem`. The clock and width of memory, in kHz and
        bits, multiply to the bandwidth of the SIP's HBM.
        """
        from cubeyard.machine.topology import resolve
        from cubeyard.triton import _record

        machine = resolve(_record.current().topology)
        of = machine.figures()
        pes, bits = of.cubes_per_sip * of.pes_per_cube, of.cubes_per_sip * of.pes_per_cube * of.hbm_channels_per_pe * _CHANNEL_BITS
        return {
            "max_shared_mem": machine["pe.core.scratch_bytes"], "multiprocessor_count": pes, "max_num_regs": _REGISTERS, "warpSize": 1,
            "sm_clock_rate": round(machine["pe.core.clock_ghz"] * 1e6), "mem_bus_width": bits,
            "mem_clock_rate": round(pes * of.hbm_bytes_per_s_per_pe * 8 / 2 / bits / 1e3),
        }  # fmt: skip


class AhbmDriver(DriverBase):
    """Driver of the backend."""

    def __init__(self) -> None:
        """Makes the driver, and enables NumPy arrays as arguments."""
        import triton.compiler.compiler
        import triton.runtime.autotuner
        import triton.runtime.jit
        import triton.testing

        from cubeyard.triton._arguments import specialized
        from cubeyard.triton._clock import measured
        from cubeyard.triton._tuning import tuned, without_charge

        super().__init__()
        self.utils = _Utils()
        self.launcher_cls = AhbmLauncher
        native = triton.runtime.jit.native_specialize_impl
        if not hasattr(native, "__cubeyard__"):
            triton.runtime.jit.native_specialize_impl = specialized(native)
        # Triton's own function repeats a launch until enough host time has passed.
        triton.testing.do_bench = measured
        tuner = triton.runtime.autotuner.Autotuner
        if not hasattr(tuner._bench, "__cubeyard__"):
            tuner._bench = without_charge(tuner._bench)
            tuner.run = tuned(tuner.run)
        # Triton keeps the first answer, but each recording may have a machine of its own.
        compiler = triton.compiler.compiler
        compiler.max_shared_mem = getattr(compiler.max_shared_mem, "__wrapped__", compiler.max_shared_mem)

    @classmethod
    def is_active(cls) -> bool:
        """Returns whether the environment selects this backend, or no other backend is active."""
        wanted = os.environ.get("TRITON_DEFAULT_BACKEND")
        if wanted:
            return wanted == "ahbm"
        import triton.backends

        others = [one.driver for name, one in triton.backends.backends.items() if name != "ahbm"]
        return not any(one.is_active() for one in others)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Returns the type unchanged, because nothing is compiled to C++."""
        return ty

    def get_current_target(self) -> Any:
        """Returns the compilation target."""
        return GPUTarget("ahbm", "v1", 1)

    def get_active_torch_device(self) -> Any:
        """Returns the current PyTorch device of the backend."""
        import torch

        return torch.device("ahbm", self.get_current_device())

    def get_current_device(self) -> int:
        """Returns the number of PyTorch's current device; 0 if the device is not in use."""
        from cubeyard.triton._clock import current_device

        return current_device()

    def set_current_device(self, device: int) -> None:
        """Makes a device PyTorch's current device, if the device is in use."""
        from cubeyard.triton._clock import set_current_device

        set_current_device(device)

    def get_current_stream(self, device: int) -> int:
        """Returns the number of PyTorch's current stream on a device; 0 if the device is not in use."""
        from cubeyard.triton._clock import current_stream

        return current_stream(device)

    def get_device_interface(self) -> Any:
        """Returns PyTorch's module for the device."""
        import torch

        return torch.ahbm

    def get_empty_cache_for_benchmark(self) -> Any:
        """Returns None, because the machine has no cache that measurements must clear."""
        return None

    def clear_cache(self, cache: Any) -> None:
        """Does nothing, because there is no cache."""

    def get_benchmarker(self) -> Any:
        """Returns Triton's measuring function, which gives milliseconds of simulated time."""
        from cubeyard.triton._clock import measured

        return measured
