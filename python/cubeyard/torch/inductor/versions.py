"""Differences between the versions of Inductor, from PyTorch 2.11 to 2.15."""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

import torch

from cubeyard.errors import TorchDeviceError

__all__ = ["OLDEST", "TESTED", "VERSION", "add_device", "allow_triton", "check", "heuristic_modules"]

OLDEST, TESTED = (2, 11), (2, 15)
"""First and last version whose hooks are known. Compiled programs are tested with these two."""


def _parsed(version: str) -> tuple[int, int]:
    major, minor = version.split("+")[0].split(".")[:2]
    return int(major), int(minor)


VERSION = _parsed(str(torch.__version__))


def check() -> None:
    """Raises unless this version of Inductor has the hooks that the device needs."""
    if not OLDEST <= VERSION <= TESTED:
        raise TorchDeviceError(
            f"torch.compile with Inductor needs PyTorch {OLDEST[0]}.{OLDEST[1]} to {TESTED[0]}.{TESTED[1]}, found {torch.__version__}: "
            f"pip install 'torch=={TESTED[0]}.{TESTED[1]}.*', or use torch.compile(..., backend=\"aot_eager\")"
        )


def add_device(utils: Any, name: str) -> None:
    """Adds the device to Inductor's list of GPUs, which PyTorch 2.15 makes from the interfaces of the devices.

    Inductor tries templates only on a GPU with many multiprocessors. A small machine may use them, too.
    """
    if name not in utils.GPU_TYPES:
        utils.GPU_TYPES.append(name)
        utils.get_gpu_type.cache_clear()
    plain = utils.is_big_gpu

    def is_big_gpu(index_or_device: Any = 0) -> bool:
        device = index_or_device if isinstance(index_or_device, torch.device) else None
        return (device.type if device else utils.get_gpu_type()) == name or bool(plain(index_or_device))

    utils.is_big_gpu = is_big_gpu


def allow_triton(finder: Any, name: str) -> None:
    """Makes PyTorch find Triton for the device. Before 2.15 it asks a fixed list of devices, which others cannot join.

    Args:
        finder: PyTorch's module that looks for Triton.
        name: Name of the device.
    """
    if VERSION >= (2, 15):
        return
    plain = finder.has_triton

    @functools.cache
    def has_triton() -> bool:
        from torch._inductor import config

        may_look = finder.has_triton_package() and not config.triton_disable_device_detection
        return bool(plain() or (may_look and getattr(torch, name).is_available()))

    for module in [finder, *sys.modules.values()]:  # Modules that are loaded have imported the plain one.
        if getattr(module, "__dict__", {}).get("has_triton") is plain:
            module.has_triton = has_triton


def heuristic_modules() -> tuple[ModuleType, ModuleType]:
    """Returns the registry of template heuristics, and the module of the heuristics for Triton."""
    if VERSION >= (2, 14):
        package, of = "torch._inductor.heuristics", "torch._inductor.heuristics.template.triton"
    else:
        package, of = "torch._inductor.template_heuristics", "torch._inductor.template_heuristics.triton"
    return importlib.import_module(f"{package}.registry"), importlib.import_module(of)
