"""The device for Hugging Face accelerate, and so for the `Trainer` of transformers.

accelerate knows devices by name, and takes the CPU on a machine without one of them. Its variable ACCELERATE_TORCH_DEVICE names
another device, and is read when the first `Accelerator`, `PartialState` or `TrainingArguments` is made.
"""

from __future__ import annotations

import os
import sys

from cubeyard.errors import InputError
from cubeyard.torch import _device, _loader

__all__ = ["use_device"]

VARIABLE = "ACCELERATE_TORCH_DEVICE"


def use_device(index: int = 0) -> None:
    """Lets accelerate and the `Trainer` of transformers use the device. Call it before the first of their objects is made.

    Args:
        index: Number of the device.

    Raises:
        InputError: accelerate has already chosen a device; or the process is one of several ranks, for which accelerate has a
            fixed list of devices and would train each of them alone.
    """
    _device.set_device(index)
    if "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}: accelerate trains several ranks on devices of its own list alone; use "
            "DistributedDataParallel or fully_shard of PyTorch with the backend 'ahbm'"
        )
    name = f"{_loader.name}:{index}"
    state = sys.modules.get("accelerate.state")
    chosen = state.PartialState._shared_state.get("device") if state is not None else None
    if chosen is not None and str(chosen) != name:
        raise InputError(f"accelerate has already chosen device {str(chosen)!r}: call use_device before its first object is made")
    os.environ[VARIABLE] = name
