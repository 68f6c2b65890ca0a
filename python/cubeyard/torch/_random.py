"""Random numbers: a generator for each device, of the numbers that the CPU's would give."""

from __future__ import annotations

from typing import Any

import torch

from cubeyard.torch import _device, _loader
from cubeyard.torch._device import Device


def _default_generator(device: Device = None) -> torch.Generator:
    """Returns the generator that operators on a device use if they are given none."""
    index = _device._index(device)
    if hasattr(torch.ops.ahbm, "_default_generator"):
        return torch.ops.ahbm._default_generator(index)
    return torch._C._accelerator_getDefaultGenerator(index)


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
    """Sets the seed of all devices. PyTorch calls this in `torch.manual_seed`."""
    if not _loader.is_loaded():
        return
    for index in range(_device.device_count()):
        _default_generator(index).manual_seed(int(seed))


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
