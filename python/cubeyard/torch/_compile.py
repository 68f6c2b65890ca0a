"""`torch.compile` on the device: Dynamo and its backend `aot_eager` work, Inductor has no code generator for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _loader

INTERFACES = "torch._dynamo.device_interface"
"""Module of Dynamo that knows the devices. Loading it takes a second, which `import torch` must not."""


class _NoInductorType(type):
    @property
    def supports_caching(cls) -> bool:
        """Raises the error: Inductor asks this first, and only for graphs on the device."""
        cls()
        return False


class NoInductor(metaclass=_NoInductorType):
    """What Inductor finds in place of a code generator for the device: an error that says what works."""

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
    if loaded := sys.modules.get(INTERFACES):
        _add_interface(loaded, name, module)
    else:
        sys.meta_path.insert(0, _Finder(name, module))


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


class _Finder(importlib.abc.MetaPathFinder):
    """Adds the device to Dynamo's when these are loaded."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.name, self.module = name, module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != INTERFACES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(importlib.abc.Loader):
    """A loader that adds the device after the module was run."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self.loader, self.finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        _add_interface(module, self.finder.name, self.finder.module)

    def __getattr__(self, name: str) -> Any:
        """Returns what the loader of the file knows, such as its source."""
        return getattr(self.loader, name)
