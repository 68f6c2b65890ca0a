"""`torch.compile` on the device: Dynamo with the backend `aot_eager` works; Inductor has no code generator."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _imports, _loader

INTERFACES = "torch._dynamo.device_interface"
"""Dynamo's module of device interfaces. Loading it takes a second, so `import torch` must not load it."""


class _NoInductorType(type):
    @property
    def supports_caching(cls) -> bool:
        """Raises the error. Inductor reads this attribute first, and only for graphs on the device."""
        cls()
        return False


class NoInductor(metaclass=_NoInductorType):
    """Stand-in for a code generator. Raises an error that names the alternative to Inductor."""

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
    """Registers the device with Dynamo and Inductor as soon as they are loaded."""
    _imports.after(INTERFACES, lambda interfaces: _add_interface(interfaces, name, module))


def _add_interface(interfaces: ModuleType, name: str, module: Any) -> None:
    class Interface(interfaces.DeviceInterface):  # type: ignore[name-defined]
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

        class Worker:
            """The same interface for processes that compile for this one."""

            set_device = staticmethod(module.set_device)
            current_device = staticmethod(module.current_device)
            get_device_properties = staticmethod(module.get_device_properties)

        @staticmethod
        def get_compute_capability(device: Any = None) -> int:
            return 0

    interfaces.register_interface_for_device(name, Interface)
    for index in range(module.device_count() if module.is_available() else 0):
        interfaces.register_interface_for_device(f"{name}:{index}", Interface)
