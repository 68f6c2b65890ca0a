"""Inductor, the default backend of `torch.compile`, for the device.

Inductor generates Triton kernels, which `cubeyard.triton` runs in simulated time. Products, attention and convolutions
remain operators of the device, unless `max_autotune` chooses a Triton template by its simulated time.

Nothing here is imported before Dynamo or Inductor is: `import torch` must not wait for them.
"""

from __future__ import annotations

from types import ModuleType

from cubeyard.torch import _imports

__all__ = ["generator", "register"]


def register(name: str, module: ModuleType) -> None:
    """Registers the device with Dynamo and Inductor as soon as they are loaded.

    Args:
        name: Name of the device.
        module: Module of the device, `torch.ahbm`.
    """
    _imports.after("torch._dynamo.device_interface", lambda interfaces: _add_interface(interfaces, name, module))
    _imports.after("torch._subclasses.fake_impls", lambda fakes: _predict(fakes, name))
    _imports.after("torch.nn.attention.flex_attention", lambda flex: _allow(flex, name))
    _imports.after("torch.utils._triton", lambda finder: _allow_triton(finder, name))
    _imports.after("torch._inductor.utils", lambda utils: _add_device(utils, name))
    _imports.after("torch._inductor.compile_fx", _compile_without_charge)


def _add_interface(interfaces: ModuleType, name: str, module: ModuleType) -> None:
    from cubeyard.torch.inductor import interface

    interface.register(interfaces, name, module)


def _predict(fakes: ModuleType, name: str) -> None:
    from cubeyard.torch.inductor.fakes import register

    register(fakes, name)


def _allow(flex: ModuleType, name: str) -> None:
    from cubeyard.torch.inductor.attention import allow

    allow(flex, name)


def _add_device(utils: ModuleType, name: str) -> None:
    from cubeyard.torch.inductor import versions

    versions.add_device(utils, name)


def _allow_triton(finder: ModuleType, name: str) -> None:
    from cubeyard.torch.inductor import versions

    versions.allow_triton(finder, name)


def _compile_without_charge(compiler: ModuleType) -> None:
    """Makes the clocks forget what compilation runs on the device: patterns, inputs of trials, constants.

    A backward graph may be compiled later than its forward graph, so both functions are wrapped.
    """
    from cubeyard.torch.inductor.benchmarks import without_charge

    for function in ("compile_fx", "fx_codegen_and_compile"):
        setattr(compiler, function, without_charge(getattr(compiler, function)))


def generator(name: str) -> object:
    """Returns a code generator of the device, after registering the rest of the device with Inductor.

    Args:
        name: Name under which Inductor looks up the generator in the module of the device.
    """
    from cubeyard.torch import _loader
    from cubeyard.torch.inductor import backend, registration

    registration.register(_loader.name)
    return {"Scheduling": backend.DeviceScheduling, "PythonWrapperCodegen": backend.DeviceWrapper}.get(name, backend.NoCppWrapper)
