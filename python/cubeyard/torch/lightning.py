"""The device for Lightning: `Trainer(accelerator="ahbm", strategy="ahbm")`, after this module was imported.

Lightning knows accelerators by name. For an accelerator that it does not know, the default strategy is the one for CPUs, so the
strategy has to be named, too.
"""

from __future__ import annotations

from typing import Any

import torch

from cubeyard.errors import InputError, TorchDeviceError
from cubeyard.torch import _device, _loader, memory

try:
    from pytorch_lightning.accelerators import AcceleratorRegistry
    from pytorch_lightning.accelerators.accelerator import Accelerator
    from pytorch_lightning.strategies import SingleDeviceStrategy, StrategyRegistry
except ModuleNotFoundError as error:
    if error.name != "pytorch_lightning":
        raise
    raise ModuleNotFoundError(
        "cubeyard.torch.lightning needs pytorch-lightning, which is not installed: pip install pytorch-lightning",
        name="pytorch_lightning",
    ) from None

__all__ = ["AhbmAccelerator", "AhbmStrategy"]


class AhbmAccelerator(Accelerator):
    """Device of this package as an accelerator of Lightning."""

    def setup_device(self, device: torch.device) -> None:
        """Makes the device current.

        Raises:
            InputError: The strategy has another device.
        """
        if device.type != _loader.name:
            raise InputError(
                f"the strategy's device is {str(device)!r}: expected {_loader.name!r}; use Trainer(accelerator={_loader.name!r}, "
                f"strategy={_loader.name!r})"
            )
        _device.set_device(device)

    def teardown(self) -> None:
        """Returns free memory to the device."""
        memory.empty_cache()

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        """Returns the statistics of the device's memory."""
        return dict(memory.memory_stats(device))

    @staticmethod
    def parse_devices(devices: Any) -> list[int]:
        """Returns the numbers of the devices.

        Raises:
            InputError: There is not exactly one device.
        """
        found = list(range(int(devices))) if isinstance(devices, int | str) else [int(device) for device in devices]
        if len(found) != 1:
            raise InputError(f"devices is {devices!r}: expected one device; ranks of torchrun use DistributedDataParallel of PyTorch")
        return found

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        """Returns the devices of numbers."""
        return [torch.device(_loader.name, device) for device in devices]

    @staticmethod
    def auto_device_count() -> int:
        """Returns 1: a trainer has one device."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """Returns whether the device can be used."""
        try:
            return _device.device_count() > 0
        except TorchDeviceError:
            return False

    @staticmethod
    def name() -> str:
        """Returns the name of the device."""
        return _loader.name


class AhbmStrategy(SingleDeviceStrategy):
    """Strategy of one device of this package.

    Args:
        device: The device; the first by default.
        **given: Keywords of Lightning's strategy of one device.
    """

    strategy_name = _loader.name

    def __init__(self, device: torch.device | str | None = None, **given: Any) -> None:
        super().__init__(device=torch.device(_loader.name, 0) if device is None else torch.device(device), **given)


if _loader.name not in AcceleratorRegistry:
    AcceleratorRegistry.register(_loader.name, AhbmAccelerator, description="memory and time of a simulated accelerator")
if _loader.name not in StrategyRegistry:
    StrategyRegistry.register(_loader.name, AhbmStrategy, description="one simulated device")
