"""Programs in device memory, and launches of them: addresses of operands, corrections, tiles.

A launch does everything that the host does before a device runs: it keeps the program and its operands where they are,
finds their addresses through the segment table, and makes the block of corrections that tells the program about them.
**It runs nothing**: no device executes such binaries. A launch ends when it is closed.

>>> import torch
>>> x, y = torch.ones(1024, device="ahbm"), torch.empty(512, device="ahbm")
>>> with torch.ahbm.load_program(b"binary", parameters=2) as program:
...     with program.launch(x[256:], y) as launch:
...         first, second = launch.operands
...         tiles = launch.tiles(0, tile_bytes=1024)
>>> first.size, second.size                              # the part of x that is given, and y
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
    """A tensor, or a tile of one, as a program finds it."""

    segment: int
    """Number of its region's entry in the segment table."""
    offset: int
    """Place in the region, in bytes."""
    flat: int
    """Place in the flat address space of programs."""
    size: int
    """Number of bytes."""


def load_program(binary: bytes | bytearray | memoryview, *, parameters: int, device: Device = None) -> Program:
    """Loads a program: allocates device memory for its binary and copies it there.

    Args:
        binary: The binary, at least one byte.
        parameters: Number of operands that a launch gives it.
        device: The device; the current one if omitted.
    """
    index = _device._index(device)
    if not isinstance(binary, bytes | bytearray | memoryview) or len(binary) == 0:
        raise InputError(f"binary is {binary!r}: expected bytes, at least one")
    if isinstance(parameters, bool) or not isinstance(parameters, int) or parameters < 0:
        raise InputError(f"parameters is {parameters!r}: expected the number of operands of a launch")
    return Program(_device._native_device(index).load_program(bytes(binary), parameters), index)


class Program:
    """A program in the memory of a device. Its memory is freed by `unload`, `with`, or when it is dropped."""

    def __init__(self, native: Any, device: int) -> None:
        self._native = native
        self.device = torch.device(_loader.name, device)
        """Device of the program."""

    @property
    def address(self) -> Any:
        """Present address of the binary, as region and offset. It may change while no launch uses the program."""
        return self._native.address

    @property
    def size(self) -> int:
        """Length of the binary, in bytes."""
        return int(self._native.size)

    @property
    def parameters(self) -> int:
        """Number of operands that a launch takes."""
        return int(self._native.parameters)

    def launch(self, *tensors: torch.Tensor, stream: torch.Stream | None = None) -> Launch:
        """Prepares a launch: finds the operands' addresses and writes them to the corrections on the device.

        Args:
            *tensors: The operands, as many as the program has parameters. Of a view, the part is given that it spans, from
                its first element to its last.
            stream: The stream of the launch; the current one if omitted.
        """
        stream = _streams.current_stream(self.device) if stream is None else stream
        if not isinstance(stream, torch.Stream) or stream.device != self.device:
            raise InputError(f"stream is {stream!r}: expected a stream of {str(self.device)!r}, where the program is")
        operands = [_operand(number, tensor, self.device) for number, tensor in enumerate(tensors)]
        return Launch(self._native.launch(operands, stream.stream_id), stream)

    def unload(self) -> None:
        """Frees the memory of the program, when the last launch of it has ended."""
        self._native.unload()

    close = unload

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_error: object) -> None:
        self.unload()


class Launch:
    """A launch that is ready to run. Nothing runs it: it lasts until `close`, `with` or `wait` ends it.

    Until then, the program and its operands stay where they are, even if they are freed.
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
        """Operands as the program finds them."""
        return [Operand(*parts) for parts in self._native.operands]

    @property
    def corrections(self) -> bytes:
        """Bytes of the corrections: for each operand its flat address and its size, 8 bytes each, the low byte first."""
        return bytes(self._native.corrections[1])

    @property
    def corrections_address(self) -> Any:
        """Address of the corrections on the device, as region and offset."""
        return self._native.corrections[0]

    @property
    def segment_table(self) -> tuple[Any, ...]:
        """Segment table of the launch: a `cubeyard.memory.Segment` for each region; `None` for an entry without one."""
        from cubeyard.memory import Segment

        return tuple(None if entry is None else Segment(*entry) for entry in self._native.segment_table)

    def tiles(self, operand: int, tile_bytes: int, stride: int | None = None) -> list[Operand]:
        """Returns the tiles of an operand. They are in one region: only the offset changes from tile to tile.

        Args:
            operand: Number of the operand, from 0 on.
            tile_bytes: Length of a tile.
            stride: Distance from the start of a tile to that of the next; the length of a tile if omitted.
        """
        for name, value, least in (("operand", operand, 0), ("tile_bytes", tile_bytes, 1), ("stride", stride, 1)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(f"{name} is {value!r}: expected a number from {least} on")
        places = self._native.tiles(operand, tile_bytes, tile_bytes if stride is None else stride)
        whole = self.operands[operand]
        return [
            Operand(whole.segment, place.offset, whole.flat + place.offset - whole.offset, tile_bytes) for place in places
        ]

    def wait(self) -> None:
        """Waits until the stream has done its present work, then ends the launch."""
        self.stream.synchronize()
        self.close()

    def close(self) -> None:
        """Ends the launch: its corrections are freed, and its operands may be moved and freed."""
        self._native.end()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _operand(number: int, tensor: Any, device: torch.device) -> tuple[int, int, int, int]:
    """Returns a tensor as the native module takes it: the two numbers of its block, and its part of that."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"operand {number} is {tensor!r}: expected a tensor on {str(device)!r}")
    if tensor.device != device:
        raise InputError(f"operand {number} is on {str(tensor.device)!r}: expected {str(device)!r}, where the program is")
    block = torch.ops.ahbm._block(tensor)
    if not block or tensor.numel() == 0:
        raise InputError(f"operand {number} has no elements: expected a tensor with memory")
    slot, key, _device_number, offset, _storage_bytes = block
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return slot, key, offset, (last + 1) * tensor.element_size()
