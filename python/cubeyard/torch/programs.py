"""Programs in device memory and their launches: operand addresses, corrections and tiles.

A launch performs the host's work before a device runs. It keeps the program and its operands in place, resolves their
addresses through the segment table, and writes the block of corrections that passes them to the program. **It runs
nothing**: no device executes such binaries. A launch ends when it is closed.

>>> import torch
>>> x, y = torch.ones(1024, device="ahbm"), torch.empty(512, device="ahbm")
>>> with torch.ahbm.load_program(b"binary", parameters=2) as program:
...     with program.launch(x[256:], y) as launch:
...         first, second = launch.operands
...         tiles = launch.tiles(0, tile_bytes=1024)
>>> first.size, second.size                              # the given part of x, and y
(3072, 2048)
>>> [tile.flat - first.flat for tile in tiles]
[0, 1024, 2048]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from cubeyard.errors import InputError
from cubeyard.torch import _device, _loader, _streams
from cubeyard.torch._device import Device

__all__ = ["Launch", "Operand", "Program", "load_program"]


class Operand(NamedTuple):
    """Tensor, or tile of a tensor, as a program addresses it."""

    segment: int
    """Index of the region's entry in the segment table."""
    offset: int
    """Offset in the region, in bytes."""
    flat: int
    """Address in the flat address space of programs."""
    size: int
    """Size in bytes."""


def load_program(binary: bytes | bytearray | memoryview, *, parameters: int, device: Device = None) -> Program:
    """Loads a program: allocates device memory for its binary and copies the binary there.

    Args:
        binary: The binary, at least one byte.
        parameters: Number of operands in each launch.
        device: The device; the current device by default.
    """
    index = _device._index(device)
    if not isinstance(binary, bytes | bytearray | memoryview) or len(binary) == 0:
        raise InputError(f"binary is {binary!r}: expected at least one byte")
    if isinstance(parameters, bool) or not isinstance(parameters, int) or parameters < 0:
        raise InputError(f"parameters is {parameters!r}: expected the number of operands of a launch")
    return Program(_device._native_device(index).load_program(bytes(binary), parameters), index)


class Program:
    """Program in device memory. `unload`, the end of a `with` block or dropping the object frees the memory."""

    def __init__(self, native: Any, device: int) -> None:
        self._native = native
        self.device = torch.device(_loader.name, device)
        """Device of the program."""

    @property
    def address(self) -> Any:
        """Current address of the binary, as region and offset. It may change while no launch uses the program."""
        return self._native.address

    @property
    def size(self) -> int:
        """Size of the binary, in bytes."""
        return int(self._native.size)

    @property
    def parameters(self) -> int:
        """Number of operands in each launch."""
        return int(self._native.parameters)

    def launch(self, *tensors: torch.Tensor, stream: torch.Stream | None = None) -> Launch:
        """Prepares a launch: resolves the operands' addresses and writes them to the corrections on the device.

        Args:
            *tensors: The operands, one per parameter of the program. The operand of a view spans its first to its last
                element.
            stream: The stream of the launch; the current stream by default.
        """
        stream = _streams.current_stream(self.device) if stream is None else stream
        if not isinstance(stream, torch.Stream) or stream.device != self.device:
            raise InputError(f"stream is {stream!r}: expected a stream of {str(self.device)!r}, the program's device")
        operands = [_operand(number, tensor, self.device) for number, tensor in enumerate(tensors)]
        return Launch(self._native.launch(operands, stream.stream_id), stream)

    def unload(self) -> None:
        """Frees the memory of the program after its last launch has ended."""
        self._native.unload()

    close = unload

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_error: object) -> None:
        self.unload()


class Launch:
    """Prepared launch. Nothing runs it; `close`, `wait` or the end of a `with` block ends it.

    Until then, the program and its operands stay in place, even if they are freed.
    """

    def __init__(self, native: Any, stream: torch.Stream) -> None:
        self._native = native
        self.stream = stream
        """Stream of the launch."""

    @property
    def program(self) -> Any:
        """Address of the program, as region and offset."""
        return self._native.program

    @property
    def operands(self) -> list[Operand]:
        """Operands as the program addresses them."""
        return [Operand(*parts) for parts in self._native.operands]

    @property
    def corrections(self) -> bytes:
        """Bytes of the corrections: flat address and size of each operand, 8 bytes each, little-endian."""
        return bytes(self._native.corrections[1])

    @property
    def corrections_address(self) -> Any:
        """Address of the corrections on the device, as region and offset."""
        return self._native.corrections[0]

    @property
    def segment_table(self) -> tuple[Any, ...]:
        """Segment table of the launch: one `cubeyard.memory.Segment` per region, `None` for an empty entry."""
        from cubeyard.memory import Segment

        return tuple(None if entry is None else Segment(*entry) for entry in self._native.segment_table)

    def tiles(self, operand: int, tile_bytes: int, stride: int | None = None) -> list[Operand]:
        """Returns the tiles of an operand. All tiles are in one region and differ only in their offsets.

        Args:
            operand: Index of the operand, starting with 0.
            tile_bytes: Size of a tile in bytes.
            stride: Distance between the starts of consecutive tiles; the size of a tile by default.
        """
        for name, value, least in (("operand", operand, 0), ("tile_bytes", tile_bytes, 1), ("stride", stride, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(f"{name} is {value!r}: expected a number, {least} or more")
        places = self._native.tiles(operand, tile_bytes, tile_bytes if stride is None else stride)
        whole = self.operands[operand]
        return [
            Operand(whole.segment, place.offset, whole.flat + place.offset - whole.offset, tile_bytes) for place in places
        ]

    def wait(self) -> None:
        """Waits for the current work of the stream, then ends the launch."""
        self.stream.synchronize()
        self.close()

    def close(self) -> None:
        """Ends the launch: frees its corrections, and lets its operands be moved and freed."""
        self._native.end()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _operand(number: int, tensor: Any, device: torch.device) -> tuple[int, int, int, int]:
    """Returns the native form of an operand: the slot and key of its block, and its offset and size in the block."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"operand {number} is {tensor!r}: expected a tensor on {str(device)!r}")
    if tensor.device != device:
        raise InputError(f"operand {number} is on {str(tensor.device)!r}: expected {str(device)!r}, the program's device")
    block = torch.ops.ahbm._block(tensor)
    if not block or tensor.numel() == 0:
        raise InputError(f"operand {number} has no elements: expected a tensor with memory")
    slot, key, _device_number, offset, _storage_bytes = block
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return slot, key, offset, (last + 1) * tensor.element_size()
