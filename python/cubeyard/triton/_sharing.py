"""Memory of a launch: arguments that share memory on the host share it on the machine.

Arrays whose ranges of addresses overlap are one tensor of the machine, in which each has its offset. The tensor is the array
that covers all others, if there is one, and otherwise a vector of all their bytes, from a multiple of 16 on. The range of a
view of PyTorch is that of its storage, which its kernels may reach as on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cubeyard._base import dtypes
from cubeyard.errors import InputError
from cubeyard.tensors.context import Context
from cubeyard.tensors.placement import Placement
from cubeyard.tensors.tensor import Tensor
from cubeyard.triton._arguments import Placed, memory

__all__ = ["Memory", "Part", "memories"]

Array = np.ndarray[Any, Any]
_ALIGNED = 16
_NOTHING: Array = np.zeros(0)


@dataclass(frozen=True)
class Part:
    """Memory of one argument."""

    position: int
    """Position among the arguments that are memory."""
    name: str
    given: Placed
    flat: Array
    """All elements that it may reach, in the order of their addresses."""

    @property
    def address(self) -> int:
        """Address of its first element on the host."""
        return _address(self.given.array)

    @property
    def start(self) -> int:
        """Address of the first element that it may reach."""
        return _address(self.flat)

    @property
    def end(self) -> int:
        """Address behind the last element that it may reach."""
        return self.start + self.flat.nbytes


class Memory:
    """One tensor of a launch: a tensor of this package, or the memory of arguments that share it."""

    def __init__(self, parts: list[Part], tensor: Tensor | None = None) -> None:
        """Takes the parts in the order of their addresses, or a tensor."""
        self.parts, self.tensor = parts, tensor
        self.start, self.array, self.element = (0, _NOTHING, None) if tensor is not None else _joined(parts)

    def offset(self, part: Part) -> int:
        """Returns the position of the first element of an argument, in bytes."""
        return part.address - self.start

    def deployed(self, context: Context, data: bool, placement: Placement) -> Tensor:
        """Places the memory on a machine, with its contents if there are any."""
        if self.tensor is not None:
            return self.tensor
        if data:
            made = context.from_numpy(self.array, self.element)
        else:
            made = context.empty(self.array.shape, self.element or dtypes.name_of(self.array.dtype))
        return made.to(placement)

    def placement(self) -> Placement | None:
        """Returns the placement that the caller gave; an error names parts with different ones."""
        placed = [part for part in self.parts if part.given.placement is not None]
        for part in placed[1:]:
            if part.given.placement != placed[0].given.placement:
                found = f"{placed[0].given.placement!r} and {part.given.placement!r}"
                names = " and ".join(one.name for one in sorted((placed[0], part), key=lambda one: one.position))
                raise InputError(f"arguments {names} share memory: expected one placement, found {found}")
        return placed[0].given.placement if placed else None

    def read_back(self, tensor: Tensor) -> None:
        """Writes the contents of the tensor into the arrays; an error names one that is read-only and was written."""
        contents = tensor.numpy().reshape(-1).view(np.uint8)
        for part in sorted(self.parts, key=lambda part: not part.flat.flags.writeable):
            at = part.start - self.start
            found = contents[at : at + part.flat.nbytes].view(part.flat.dtype).reshape(part.flat.shape)
            if part.flat.flags.writeable:
                part.flat[...] = found
            elif found.tobytes() != part.flat.tobytes():
                raise InputError(f"argument {part.name}: the kernel wrote into it, and the array is read-only")


def memories(names: Iterable[str], given: Iterable[Any]) -> tuple[list[Memory], list[tuple[int, int]]]:
    """Returns the memory of a launch, and for each argument the number of its memory and its offset in bytes."""
    arguments = list(enumerate(zip(names, given, strict=True)))
    parts = [Part(at, name, one, _reached(one)) for at, (name, one) in arguments if not isinstance(one, Tensor)]
    found = {at: Memory([], one) for at, (_, one) in arguments if isinstance(one, Tensor)}
    found |= {min(part.position for part in group): Memory(group) for group in _overlapping(parts)}
    places: dict[int, tuple[int, int]] = {}
    for number, at in enumerate(sorted(found)):
        offsets = {part.position: found[at].offset(part) for part in found[at].parts} or {at: 0}
        places |= {position: (number, offset) for position, offset in offsets.items()}
    return [found[at] for at in sorted(found)], [places[position] for position in sorted(places)]


def _reached(given: Placed) -> Array:
    return memory(given.array) if given.reach is None else given.reach


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _overlapping(parts: list[Part]) -> list[list[Part]]:
    """Returns the parts in groups, of which each has a range of addresses of its own."""
    groups: list[list[Part]] = []
    end = 0
    for part in sorted(parts, key=lambda part: (part.start, -part.end)):
        if groups and part.start < end and part.flat.nbytes:
            groups[-1].append(part)
        else:
            groups.append([part])
        end = max(end, part.end) if part.flat.nbytes else end
    return groups


def _joined(parts: list[Part]) -> tuple[int, Array, str | None]:
    """Returns the first address of parts, their contents, and the element type if NumPy has it not."""
    first, end = parts[0], max(part.end for part in parts)
    if first.end == end and all(_is_aligned(part, first.start) for part in parts):
        return first.start, first.flat, first.given.element
    start = first.start // _ALIGNED * _ALIGNED
    for part in parts:
        if not _is_aligned(part, start):
            other, size = next(one for one in parts if one is not part), part.flat.itemsize
            raise InputError(
                f"argument {part.name}: it shares memory with {other.name}, and begins {part.start % size} bytes after a "
                f"multiple of {size}: expected whole elements"
            )
    width = max(part.flat.itemsize for part in parts)
    contents = np.zeros(-(-(end - start) // width) * width, np.uint8)
    for part in parts:
        contents[part.start - start : part.end - start] = part.flat.reshape(-1).view(np.uint8)
    if len({(part.flat.dtype, part.given.element) for part in parts}) == 1:
        return start, contents.view(first.flat.dtype), first.given.element
    return start, contents.view(f"u{width}"), None


def _is_aligned(part: Part, start: int) -> bool:
    return (part.start - start) % part.flat.itemsize == 0
