"""Random numbers: a generator for each device, of the numbers that the CPU's would give.

The state of a generator begins with a seed and an offset, 8 bytes each, as on other accelerators. An
offset that was not set is 0, and stands for the numbers of the CPU.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from cubeyard.torch import _device, _imports
from cubeyard.torch._device import Device

DTENSOR = "torch.distributed.tensor._random"
"""Module of PyTorch that gives each shard of a DTensor random numbers of its own, by the offset of a state."""

SHORT = 16
"""Bytes of a state that is a seed and an offset."""

_asked: int | None = None


def _default_generator(device: Device = None) -> torch.Generator:
    """Returns the generator that operators on a device use if they are given none."""
    return _generator(_device._index(device))


def _generator(index: int) -> torch.Generator:
    return torch.ops.ahbm._default_generator(index)


class _Generators:
    """The default generators, by the numbers of their devices."""

    def __len__(self) -> int:
        return _device.device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < len(self):
            raise IndexError(f"index is {index}: there are {len(self)} devices")
        return _default_generator(index)


default_generators = _Generators()


def manual_seed(seed: int) -> None:
    """Sets the seed of the current device."""
    _default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Sets the seed of all devices. PyTorch calls this in `torch.manual_seed`.

    Devices that were not used yet stay so, and have the seed from their first use on.
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
    """Sets the seed of the current device to a random number; returns it."""
    return int(_default_generator().seed())


def seed_all() -> int:
    """Sets the seed of all devices to one random number; returns it."""
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
    """Lets random operators of DTensors work on the device, as soon as PyTorch's part for them is loaded."""
    _imports.after(DTENSOR, _add_states)


def _add_states(module: ModuleType) -> None:
    """Lets DTensor read and write seed and offset of states that go on after these, and others as before."""
    Philox: Any = module._PhiloxState

    class State(Philox):
        """A state, whose seed and offset are its first bytes."""

        def __init__(self, state: torch.Tensor) -> None:
            self._whole = state.to("cpu")
            # A view: what is written to it is written to the whole.
            super().__init__(self._whole[:SHORT])

        @property
        def state(self) -> torch.Tensor:
            return self._whole

    module._PhiloxState = State  # type: ignore[attr-defined]
