"""Loading of the device: finds or compiles the shim, names the device, and registers its module.

Errors must not escape from `import torch`. They are kept and raised at the first use of the device.
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
"""Oldest and newest tested version of PyTorch."""

DEFAULT_NAME = "ahbm"
"""Name of the device, unless the variable CUBEYARD_TORCH_DEVICE is set."""

PLACEHOLDER = "privateuseone"
"""PyTorch's name for the device while no package has renamed it."""

name = DEFAULT_NAME
"""Name of the device in this process."""

shim: os.PathLike[str] | None = None
"""Path of the loaded shim."""

_problem: Exception | None = None
_kept: list[Any] = []


def torch_is_being_imported() -> bool:
    """Returns whether `import torch` is in progress. At its end, it calls the entry point of this package."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def load(module: ModuleType, registered: Callable[[str], None], *, again: bool = False) -> None:
    """Loads the device and raises any error.

    Args:
        module: The module that becomes `torch.ahbm`.
        registered: Callback for the name of the loaded device.
        again: Whether to retry a failed compilation.
    """
    global name, shim
    if shim is not None:
        return
    name = _name()
    if sys.platform != "linux":
        raise TorchDeviceError(f"the platform is {sys.platform!r}: the device exists on Linux only")
    import torch

    _check_version(torch.__version__)
    _check_name_is_free(torch)
    found = _opened(torch, target(), again)
    _register(torch, module)
    shim = found
    registered(name)


def autoload(module: ModuleType, registered: Callable[[str], None]) -> None:
    """Loads the device and keeps any error for its first use."""
    global _problem
    try:
        load(module, registered)
    except Exception as error:
        _problem = error
        try:
            _refuse(module)
        except Exception as second:
            _tell(f"the device {name!r} cannot be used: {error}; it cannot be registered either: {second}")


def use() -> None:
    """Raises the reason if loading the device failed."""
    if _problem is not None:
        details = getattr(_problem, "details", None)
        raise TorchDeviceError(f"the device {name!r} cannot be used: {_problem}", details) from _problem


def is_loaded() -> bool:
    """Returns whether the device is loaded."""
    return shim is not None


def _name() -> str:
    given = os.environ.get("CUBEYARD_TORCH_DEVICE", "")
    if not given:
        return DEFAULT_NAME
    if not (given.isidentifier() and given.isascii() and given.islower()):
        raise InputError(
            f"CUBEYARD_TORCH_DEVICE is {given!r}: expected a device name in lower-case letters, digits and "
            f"underscores, such as 'spyre'"
        )
    return given


def _check_version(version: str) -> None:
    parts = version.split("+")[0].split(".")
    if parts[0].isdigit() and parts[1].isdigit() and OLDEST <= (int(parts[0]), int(parts[1])) <= NEWEST:
        return
    oldest, newest = (".".join(map(str, one)) for one in (OLDEST, NEWEST))
    raise TorchDeviceError(
        f"torch is version {version}: expected {oldest} to {newest}, the versions tested with this version of cubeyard. "
        f"Install one of them, such as pip install 'torch=={newest}.*', or another version of cubeyard"
    )


def _check_name_is_free(torch: Any) -> None:
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in {PLACEHOLDER, name}:
        raise TorchDeviceError(
            f"the device {taken!r} of another package occupies PyTorch's only place for such devices. "
            "Uninstall that package, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import only cubeyard.torch"
        )
    if hasattr(torch, name) and getattr(torch, name) is not sys.modules.get("cubeyard.torch"):
        raise InputError(
            f"CUBEYARD_TORCH_DEVICE is {name!r}, but torch.{name} already exists: expected another name, "
            "such as 'spyre'"
        )


def target() -> Any:
    """Returns all inputs of the shim's compilation."""
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


def _opened(torch: Any, wanted: Any, again: bool) -> Path:
    """Loads the shim and returns its path. If the package's shim needs newer libraries than this computer has, the shim is
    compiled."""
    from cubeyard.torch import _build

    found: Path = _build.find(wanted, again=again)
    try:
        _open(torch, found)
    except TorchDeviceError as error:
        if found == wanted.cached() or not isinstance(error.__cause__, OSError):
            raise
        reason = f"the compiled device of this package cannot be loaded on this computer: {error.__cause__}"
        found = _build.compiled(wanted, again=again, reason=reason)
        _open(torch, found)
    return found


def _open(torch: Any, found: os.PathLike[str]) -> None:
    """Loads the shim, which looks up the native module's functions by name."""
    import ctypes

    try:
        _kept.append(ctypes.CDLL(_native().__file__, mode=os.RTLD_GLOBAL | os.RTLD_NOW))
        torch.ops.load_library(os.fspath(found))
    except (OSError, RuntimeError) as error:
        raise TorchDeviceError(
            f"the compiled device {os.fspath(found)} cannot be loaded: {error}. Remove its folder and import torch again "
            "to compile it again"
        ) from error
    atexit.register(_end_autograd, torch)


def _end_autograd(torch: Any) -> None:
    """Stops the threads of the autograd engine and waits for their end.

    The device's autograd thread releases Python objects after `backward` has returned. If the interpreter finished first,
    Python would kill the thread inside C++ code, which aborts the process ("terminate called without an active
    exception").
    """
    torch.ops.ahbm._stop_autograd()
    for _ in range(1000):
        if not any(_comm(task).startswith("pt_autograd") for task in Path("/proc/self/task").iterdir()):
            return
        time.sleep(0.001)


def _comm(task: Path) -> str:
    """Returns the name of a thread, or an empty string if the thread has ended."""
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""


def _register(torch: Any, module: ModuleType) -> None:
    """Registers the device's name with PyTorch, and the module as `torch.NAME`."""
    if torch._C._get_privateuse1_backend_name() == PLACEHOLDER:
        torch.utils.rename_privateuse1_backend(name)
    if not hasattr(torch, name):
        torch._register_device_module(name, module)
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # Otherwise, `import torch.ahbm.memory` would load the file a second time.
    for part in ("amp", "memory", "programs"):
        if loaded := sys.modules.get(f"cubeyard.torch.{part}"):
            sys.modules[f"torch.{name}.{part}"] = loaded


def _refuse(module: ModuleType) -> None:
    """Registers a device that raises the error at every use."""
    global name
    import torch

    if torch._C._get_privateuse1_backend_name() != PLACEHOLDER:
        return
    if torch.accelerator.current_accelerator(check_available=True) is not None:
        # A registered device replaces that accelerator in `torch.accelerator`, even if it does not work.
        _tell(f"the device {name!r} cannot be used: {_problem}")
        return
    if isinstance(_problem, InputError):
        name = DEFAULT_NAME
    _register(torch, module)
    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    for operator in ("empty.memory_format", "empty_strided"):
        library.impl(operator, _raise)
    # The operators live as long as the library.
    _kept.append(library)


def _tell(text: str) -> None:
    """Prints to standard error. A warning could become an error, which `import torch` must not raise."""
    print(f"cubeyard: {text}", file=sys.stderr, flush=True)


def _raise(*_arguments: Any, **_keywords: Any) -> Any:
    use()
    raise AssertionError("a device that refuses has a reason")
