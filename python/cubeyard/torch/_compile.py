"""`torch.compile` on the device: Dynamo and its backend `aot_eager` work, Inductor has no code generator for it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _imports, _loader

INTERFACES = "torch._dynamo.device_interface"
"""Module of Dynamo that knows the devices. Loading it takes a second, which `import torch` must not."""


class _NoInductorType(type):
    @property
    def supports_caching(cls) -> bool:
        """Raises the error: Inductor asks this first, and only for graphs on the device."""
        cls()
        return False


class NoInductor(metaclass=_NoInductorType):
    """Place of a code generator for the device: an error that says what works instead of Inductor."""

    def __init__(self, *_arguments: Any, **_keywords: Any) -> None:
        raise TorchDeviceError(
            f"Inductor, the default backend of torch.compile, generates no code for the device {_loader.name!r}: "
            'use torch.compile(..., backend="aot_eager"), which runs the operators of the compiled graph on the device'
        )

    @classmethod
    def create(cls, *_arguments: Any, **_keywords: Any) -> NoInductor:
        """Raises the error."""
        return cls()


def register(name: str, module: ModuleType) -> None:
    """Makes the device known to Dynamo and Inductor, as soon as these are loaded."""
    _imports.after(INTERFACES, lambda interfaces: _add_interface(interfaces, name, module))


def _add_interface(interfaces: ModuleType, name: str, module: Any) -> None:
    class Interface(interfaces.DeviceInterface):  # type: ignore[name-defined]
        """The device as Dynamo sees it."""

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

        class Worker:
            """The same for processes that compile for this one."""

            set_device = staticmethod(module.set_device)
            current_device = staticmethod(module.current_device)
            get_device_properties = staticmethod(module.get_device_properties)

        @staticmethod
        def get_compute_capability(device: Any = None) -> int:
            return 0

    interfaces.register_interface_for_device(name, Interface)
    for index in range(module.device_count() if module.is_available() else 0):
        interfaces.register_interface_for_device(f"{name}:{index}", Interface)
