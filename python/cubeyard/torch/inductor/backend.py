"""Code generation for the device: Triton kernels, and a Python program that launches them."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen.common import DeviceOpOverrides, register_backend_for_device, register_device_op_overrides
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _loader
from cubeyard.torch.inductor import lines
from cubeyard.torch.inductor.benchmarks import without_charge

__all__ = ["DeviceCode", "DeviceScheduling", "DeviceWrapper", "NoCppWrapper", "register"]


class DeviceScheduling(TritonScheduling):
    """Scheduling of a graph as Triton kernels. Each launch names the lines of the user's program."""

    def codegen_comment(self, node_schedule: Any, *rest: Any, **named: Any) -> None:
        """Writes the comment of a launch, and the lines of the program that it stands for."""
        super().codegen_comment(node_schedule, *rest, **named)
        lines.write(node_schedule)

    # Inductor launches a kernel once before it measures it, here to decide whether to fuse it with another.
    benchmark_codegened_module = without_charge(TritonScheduling.benchmark_codegened_module)
    benchmark_combo_kernel = without_charge(TritonScheduling.benchmark_combo_kernel)


class DeviceWrapper(PythonWrapperCodegen):
    """Python program of a graph. Each operator names the lines of the user's program."""

    @staticmethod
    def create(is_subgraph: bool, *rest: Any, **named: Any) -> Any:
        """Returns the generator of a graph, or of a part of another graph."""
        return PythonWrapperCodegen.create(is_subgraph, *rest, **named) if is_subgraph else DeviceWrapper()

    def generate_extern_kernel_alloc(self, node: Any, *rest: Any) -> Any:
        """Writes the call of an operator that allocates its result."""
        lines.write(node)
        return super().generate_extern_kernel_alloc(node, *rest)

    def generate_extern_kernel_out(self, node: Any, *rest: Any) -> Any:
        """Writes the call of an operator that writes into given memory."""
        lines.write(node)
        return super().generate_extern_kernel_out(node, *rest)

    def generate_fallback_kernel(self, node: Any, *rest: Any) -> Any:
        """Writes the call of an operator without a lowering of its own."""
        lines.write(node)
        return super().generate_fallback_kernel(node, *rest)


class _NoCppType(type):
    @property
    def supports_caching(cls) -> bool:
        """Raises the error. Inductor reads this attribute before it generates code."""
        cls()
        return False


class NoCppWrapper(metaclass=_NoCppType):
    """Stand-in for generators of C++. Raises an error that names the alternative."""

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        raise TorchDeviceError(
            f"cpp_wrapper and AOTInductor generate C++, which cannot launch kernels on the device {_loader.name!r}: "
            "compile with torch.compile and without torch._inductor.config.cpp_wrapper"
        )

    @classmethod
    def create(cls, *_arguments: Any, **_keywords: Any) -> NoCppWrapper:
        """Raises the error."""
        return cls()


class DeviceCode(DeviceOpOverrides):
    """Python expressions for the device in generated programs."""

    def import_get_raw_stream_as(self, name: str) -> str:
        """Returns the import of the function that gives the number of a device's current stream."""
        return f"from cubeyard.torch._streams import _get_current_raw_stream as {name}"

    def set_device(self, device_idx: Any) -> str:
        """Returns the statement that makes a device current."""
        return f"torch.{_loader.name}.set_device({device_idx})"

    def synchronize(self) -> str:
        """Returns the statement that waits for the device."""
        return f"torch.{_loader.name}.synchronize()"

    def device_guard(self, device_idx: Any) -> str:
        """Returns the context manager that makes a device current."""
        return f"torch.{_loader.name}.device({device_idx})"

    def current_device_idx_expr(self) -> str:
        """Returns the expression for the number of the current device."""
        return f"torch.{_loader.name}.current_device()"

    def current_stream(self) -> str:
        """Returns the expression for the current stream."""
        return f"torch.{_loader.name}.current_stream()"


def register(name: str) -> None:
    """Registers the code generators of the device."""
    register_device_op_overrides(name, DeviceCode())
    register_backend_for_device(name, DeviceScheduling, DeviceWrapper, NoCppWrapper, NoCppWrapper)
