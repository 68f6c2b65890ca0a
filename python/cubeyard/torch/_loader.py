"""Loading of the device: finds or compiles the shim, gives the device its name, and registers its module.

Within `import torch` nothing may fail. What goes wrong is kept there, and raised where the device is used first.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cubeyard.errors import InputError, TorchDeviceError

OLDEST, NEWEST = (2, 11), (2, 15)
"""Versions of PyTorch that are tested, from and to."""

DEFAULT_NAME = "ahbm"
"""Name of the device, unless the variable CUBEYARD_TORCH_DEVICE has another."""

PLACEHOLDER = "privateuseone"
"""Name of the device of a process that no package has given a name."""

name = DEFAULT_NAME
"""Name of the device in this process."""

shim: os.PathLike[str] | None = None
"""Path of the shim that is loaded."""

_problem: Exception | None = None
_kept: list[Any] = []


def torch_is_being_imported() -> bool:
    """Returns whether `import torch` is under way, which calls the entry point of this package at its end."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def load(module: ModuleType, registered: Callable[[str], None], *, again: bool = False) -> None:
    """Loads the device; raises what goes wrong.

    Args:
        module: The module that becomes `torch.ahbm`.
        registered: Called with the name of the device, once it is loaded.
        again: Whether to compile once more where that has failed before.
    """
    global name, shim
    if shim is not None:
        return
    name = _name()
    if sys.platform != "linux":
        raise TorchDeviceError(f"the platform is {sys.platform!r}: the device exists on Linux only")
    import torch

    from cubeyard.torch import _build

    _check_version(torch.__version__)
    _check_name_is_free(torch)
    found = _build.find(target(), again=again)
    _open(torch, found)
    _register(torch, module)
    shim = found
    registered(name)


def autoload(module: ModuleType, registered: Callable[[str], None]) -> None:
    """Loads the device; keeps what goes wrong for the first use of the device."""
    global _problem
    try:
        load(module, registered)
    except Exception as error:
        _problem = error
        try:
            _refuse(module)
        except Exception as second:
            _tell(f"the device {name!r} cannot be used: {error}; nor can it be registered: {second}")


def use() -> None:
    """Raises the reason if the device could not be loaded."""
    if _problem is not None:
        details = getattr(_problem, "details", None)
        raise TorchDeviceError(f"the device {name!r} cannot be used: {_problem}", details) from _problem


def is_loaded() -> bool:
    """Returns whether the device was loaded."""
    return shim is not None


def _name() -> str:
    given = os.environ.get("CUBEYARD_TORCH_DEVICE", "")
    if not given:
        return DEFAULT_NAME
    if not (given.isidentifier() and given.isascii() and given.islower()):
        raise InputError(
            f"CUBEYARD_TORCH_DEVICE is {given!r}: expected the name of a device in small letters, digits and "
            f"underscores, such as 'spyre'"
        )
    return given


def _check_version(version: str) -> None:
    parts = version.split("+")[0].split(".")
    if parts[0].isdigit() and parts[1].isdigit() and OLDEST <= (int(parts[0]), int(parts[1])) <= NEWEST:
        return
    oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
    raise TorchDeviceError(
        f"torch is version {version}: expected {oldest} to {newest}, with which this version of cubeyard is tested. "
        f"Install one of them, such as pip install 'torch=={newest}.*', or another version of cubeyard"
    )


def _check_name_is_free(torch: Any) -> None:
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in {PLACEHOLDER, name}:
        raise TorchDeviceError(
            f"the device {taken!r} of another package has the one place that PyTorch has for such devices. "
            "Uninstall that package, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only cubeyard.torch"
        )
    if hasattr(torch, name) and getattr(torch, name) is not sys.modules.get("cubeyard.torch"):
        raise InputError(
            f"CUBEYARD_TORCH_DEVICE is {name!r}, and PyTorch has a torch.{name} already: expected another name, "
            "such as 'spyre'"
        )


def target() -> Any:
    """Returns everything that the shim depends on."""
    from pathlib import Path

    import torch

    from cubeyard.torch import _build

    native = _native()
    return _build.Target(
        torch_version=torch.__version__,
        torch=Path(torch.__file__).parent,
        cxx11_abi=bool(torch._C._GLIBCXX_USE_CXX11_ABI),
        version=native.__version__,
        sources=Path(__file__).parent / "csrc",
        headers=native.torch_headers(),
    )


def _native() -> Any:
    try:
        from cubeyard import _native
    except ImportError as error:
        raise TorchDeviceError(
            f"the native module of cubeyard cannot be loaded: {error}. Install the package again, such as "
            "pip install --force-reinstall cubeyard"
        ) from error
    return _native


def _open(torch: Any, found: os.PathLike[str]) -> None:
    """Loads the shim, which finds the functions of the native module by their names."""
    import ctypes

    try:
        _kept.append(ctypes.CDLL(_native().__file__, mode=os.RTLD_GLOBAL | os.RTLD_NOW))
        torch.ops.load_library(os.fspath(found))
    except (OSError, RuntimeError) as error:
        raise TorchDeviceError(
            f"the compiled device {os.fspath(found)} cannot be loaded: {error}. Remove its folder and import torch again, "
            "which compiles it anew"
        ) from error
    atexit.register(_end_autograd, torch)


def _end_autograd(torch: Any) -> None:
    """Ends the threads of the autograd engine, and waits until they are gone.

    The thread that computes for the device releases Python objects after `backward` has returned. If the interpreter
    ended first, Python would end that thread within C++, which aborts the process ("terminate called without an active
    exception").
    """
    torch.ops.ahbm._stop_autograd()
    for _ in range(1000):
        if not any(_comm(task).startswith("pt_autograd") for task in Path("/proc/self/task").iterdir()):
            return
        time.sleep(0.001)


def _comm(task: Path) -> str:
    """Returns the name of a thread; nothing if it has ended."""
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""


def _register(torch: Any, module: ModuleType) -> None:
    """Makes the name known to PyTorch, and the module its `torch.NAME`."""
    if torch._C._get_privateuse1_backend_name() == PLACEHOLDER:
        torch.utils.rename_privateuse1_backend(name)
    if not hasattr(torch, name):
        torch._register_device_module(name, module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # Without these, `import torch.ahbm.memory` would load the file a second time.
    for part in ("amp", "memory", "programs"):
        if loaded := sys.modules.get(f"cubeyard.torch.{part}"):
            sys.modules[f"torch.{name}.{part}"] = loaded


def _refuse(module: ModuleType) -> None:
    """Registers a device whose every use raises what went wrong."""
    global name
    import torch

    if torch._C._get_privateuse1_backend_name() != PLACEHOLDER:
        return
    if torch.accelerator.current_accelerator(check_available=True) is not None:
        # A name that is registered takes the place of that accelerator in `torch.accelerator`, whether it works or not.
        _tell(f"the device {name!r} cannot be used: {_problem}")
        return
    if isinstance(_problem, InputError):
        name = DEFAULT_NAME
    _register(torch, module)
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for operator in ("empty.memory_format", "empty_strided"):
        library.impl(operator, _raise)
    # Its operators last as long as the library.
    _kept.append(library)


def _tell(text: str) -> None:
    """Writes to standard error: a warning could be turned into an error, which `import torch` must not raise."""
    print(f"cubeyard: {text}", file=sys.stderr, flush=True)


def _raise(*_arguments: Any, **_keywords: Any) -> Any:
    use()
    raise AssertionError("a device that refuses has a reason")
