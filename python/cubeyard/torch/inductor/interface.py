"""Interface of Dynamo and Inductor to the device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cubeyard.errors import TorchDeviceError

__all__ = ["register"]


def register(interfaces: ModuleType, name: str, module: Any) -> None:
    """Registers the device's interface under the name of the device, and of each device.

    Args:
        interfaces: Dynamo's module of interfaces.
        name: Name of the device.
        module: Module of the device.
    """
    found = _interface(interfaces, name, module)
    interfaces.register_interface_for_device(name, found)
    for index in range(module.device_count() if module.is_available() else 0):
        interfaces.register_interface_for_device(f"{name}:{index}", found)


def _interface(interfaces: Any, name: str, module: Any) -> Any:
    class Interface(interfaces.DeviceInterface):
        """Dynamo's interface to the device."""

        device = module.device
        Stream = module.Stream
        Event = module.Event
        current_device = staticmethod(module.current_device)
        set_device = staticmethod(module.set_device)
        device_count = staticmethod(module.device_count)
        is_available = staticmethod(module.is_available)
        exchange_device = staticmethod(module._exchange_device)
        maybe_exchange_device = staticmethod(module._maybe_exchange_device)
        stream = staticmethod(module.stream)
        current_stream = staticmethod(module.current_stream)
        set_stream = staticmethod(module.set_stream)
        _set_stream_by_id = staticmethod(module._set_stream_by_id)
        get_raw_stream = staticmethod(module._get_current_raw_stream)
        synchronize = staticmethod(module.synchronize)
        memory_allocated = staticmethod(module.memory_allocated)
        is_bf16_supported = staticmethod(module.is_bf16_supported)
        get_device_properties = staticmethod(module.get_device_properties)

        class Worker:
            """The same interface for processes that compile for this one."""

            set_device = staticmethod(module.set_device)
            current_device = staticmethod(module.current_device)
            get_device_properties = staticmethod(module.get_device_properties)

        @staticmethod
        def get_compute_capability(device: Any = None) -> int:
            """Returns 0: the device has no generations that code is compiled for."""
            return 0

        @staticmethod
        def is_gpu() -> bool:
            """Returns True: Inductor generates Triton kernels for devices of this class."""
            return True

        @staticmethod
        def is_triton_capable(device: Any = None) -> bool:
            return True

        @staticmethod
        def raise_if_triton_unavailable(device: Any = None) -> None:
            _check_triton(name)

    return Interface


def _check_triton(name: str) -> None:
    """Raises unless Triton's driver is the device's."""
    import triton

    active = triton.runtime.driver.active.get_current_target().backend
    if active != "ahbm":
        raise TorchDeviceError(
            f"torch.compile on {name!r} needs Triton's backend 'ahbm', but the backend {active!r} is active: "
            "set the environment variable TRITON_DEFAULT_BACKEND=ahbm before the program starts"
        )
