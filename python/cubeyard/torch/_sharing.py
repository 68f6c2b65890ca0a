"""Memory that other processes share: the device has none, and says so where it is asked for."""

from __future__ import annotations

import functools
from typing import Any

import torch

from cubeyard.errors import TorchDeviceError


def refuse(name: str) -> None:
    """Lets `share_memory_` raise for tensors and modules of the device.

    PyTorch takes every device but the CPU for one whose memory is shared by itself, as CUDA's is. A queue would then
    pickle the tensor on a thread of its own, and whoever waits for it would wait forever.

    Args:
        name: Name of the device.
    """
    original = torch.UntypedStorage.share_memory_

    @functools.wraps(original)
    def share_memory_(self: torch.UntypedStorage, *arguments: Any, **keywords: Any) -> Any:
        if self.device.type == name:
            raise TorchDeviceError(
                f"memory of the device {name!r} cannot be shared with other processes: "
                "share a copy on the CPU, such as tensor.cpu().share_memory_()"
            )
        return original(self, *arguments, **keywords)

    torch.UntypedStorage.share_memory_ = share_memory_
