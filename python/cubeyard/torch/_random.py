"""Random numbers: one generator per device, with the same numbers as the CPU's generator.

The state of a generator starts with a seed and an offset, 8 bytes each, as on other accelerators. The offset is 0 unless
it was set; 0 selects the CPU's numbers.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from cubeyard.torch import _device, _imports
from cubeyard.torch._device import Device

DTENSOR = "torch.distributed.tensor._random"
"""PyTorch module that gives each shard of a DTensor different random numbers, through the offset in the state."""

SHORT = 16
"""Size in bytes of a state with only a seed and an offset."""

_asked: int | None = None


def _default_generator(device: Device = None) -> torch.Generator:
    """Returns the default generator of operators on a device."""
    return _generator(_device._index(device))


def _generator(index: int) -> torch.Generator:
    return torch.ops.ahbm._default_generator(index)


class _Generators:
    """Default generators by device number."""

    def __len__(self) -> int:
        return _device.device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < len(self):
            raise IndexError(f"index is {index}: expected an index below {len(self)}")
        return _default_generator(index)


default_generators = _Generators()


def manual_seed(seed: int) -> None:
    """Sets the seed of the current device's generator."""
    _default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Sets the seed of all devices. Called by `torch.manual_seed`.

    Unused devices stay unused. They get the seed at their first use.
    """
    global _asked
    if _device.is_initialized():
        _seed_all(int(seed))
    else:
        _asked = int(seed)


def _seed_as_asked() -> None:
    if _asked is not None:
        _seed_all(_asked)


_device._after_init.append(_seed_as_asked)

def _seed_all(seed: int) -> None:
    for index in range(_device.device_count()):
        _generator(index).manual_seed(seed)


def seed() -> int:
    """Sets the seed of the current device to a random number and returns it."""
    return int(_default_generator().seed())


def seed_all() -> int:
    """Sets the seed of all devices to one random number and returns it."""
    number = seed()
    manual_seed_all(number)
    return number


def initial_seed() -> int:
    """Returns the seed of the current device."""
    return int(_default_generator().initial_seed())


def get_rng_state(device: Device = None) -> torch.Tensor:
    """Returns the state of a device's generator."""
    return _default_generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Device = None) -> None:
    """Sets the state of a device's generator."""
    _default_generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Returns the states of the generators of all devices."""
    return [get_rng_state(index) for index in range(_device.device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Sets the states of the generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def register() -> None:
    """Enables random operators of DTensors on the device, once PyTorch's module for them is loaded."""
    _imports.after(DTENSOR, _add_states)


def _add_states(module: ModuleType) -> None:
    """Makes DTensor accept states that are longer than a seed and an offset."""
    Philox: Any = module._PhiloxState

    class State(Philox):
        """State whose first bytes are the seed and the offset."""

        def __init__(self, state: torch.Tensor) -> None:
            self._whole = state.to("cpu")
            # A view: writes to it change the whole state.
            super().__init__(self._whole[:SHORT])

        @property
        def state(self) -> torch.Tensor:
            return self._whole

    module._PhiloxState = State  # type: ignore[attr-defined]
