"""Memory of a launch: arguments that share memory on the host also share it on the machine.

Arrays with overlapping address ranges become one tensor on the machine, each with its offset. If one array covers all
others, it is the tensor. Otherwise, the tensor is a vector of all their bytes, starting at a multiple of 16. The range of a
PyTorch view is its whole storage, which a kernel may reach as on a GPU.
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
    """Index among the memory arguments."""
    name: str
    given: Placed
    flat: Array
    """All reachable elements, in address order."""

    @property
    def address(self) -> int:
        """Host address of the first element."""
        return _address(self.given.array)

    @property
    def start(self) -> int:
        """Host address of the first reachable element."""
        return _address(self.flat)

    @property
    def end(self) -> int:
        """Host address after the last reachable element."""
        return self.start + self.flat.nbytes


class Memory:
    """One tensor of a launch: a tensor of this package, or memory shared by arguments."""

    def __init__(self, parts: list[Part], tensor: Tensor | None = None) -> None:
        """Takes the parts in address order, or a tensor."""
        self.parts, self.tensor = parts, tensor
        self.start, self.array, self.element = (0, _NOTHING, None) if tensor is not None else _joined(parts)

    def offset(self, part: Part) -> int:
        """Returns the offset of an argument's first element, in bytes."""
        return part.address - self.start

    def deployed(self, context: Context, data: bool, placement: Placement) -> Tensor:
        """Places the memory on a machine, with its contents if `data` is true."""
        if self.tensor is not None:
            return self.tensor
        if data:
            made = context.from_numpy(self.array, self.element)
        else:
            made = context.empty(self.array.shape, self.element or dtypes.name_of(self.array.dtype))
        return made.to(placement)

    def placement(self) -> Placement | None:
        """Returns the placement given by the caller, or None. Raises if parts have different placements."""
        placed = [part for part in self.parts if part.given.placement is not None]
        for part in placed[1:]:
            if part.given.placement != placed[0].given.placement:
                found = f"{placed[0].given.placement!r} and {part.given.placement!r}"
                names = " and ".join(one.name for one in sorted((placed[0], part), key=lambda one: one.position))
                raise InputError(f"arguments {names} share memory: expected one placement, found {found}")
        return placed[0].given.placement if placed else None

    def read_back(self, tensor: Tensor) -> None:
        """Writes the tensor's contents into the arrays. Raises if the kernel wrote to a read-only array."""
        contents = tensor.numpy().reshape(-1).view(np.uint8)
        for part in sorted(self.parts, key=lambda part: not part.flat.flags.writeable):
            at = part.start - self.start
            found = contents[at : at + part.flat.nbytes].view(part.flat.dtype).reshape(part.flat.shape)
            if part.flat.flags.writeable:
                part.flat[...] = found
            elif found.tobytes() != part.flat.tobytes():
                raise InputError(f"argument {part.name}: the kernel wrote into it, but the array is read-only")


def memories(names: Iterable[str], given: Iterable[Any]) -> tuple[list[Memory], list[tuple[int, int]]]:
    """Returns the memories of a launch, and for each argument the index of its memory and its offset in bytes."""
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
    """Groups parts with overlapping addresses. Different groups do not overlap."""
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
    """Returns the first address of parts, their contents, and the element type if NumPy lacks it."""
    first, end = parts[0], max(part.end for part in parts)
    if first.end == end and all(_is_aligned(part, first.start) for part in parts):
        return first.start, first.flat, first.given.element
    start = first.start // _ALIGNED * _ALIGNED
    for part in parts:
        if not _is_aligned(part, start):
            other, size = next(one for one in parts if one is not part), part.flat.itemsize
            raise InputError(
                f"argument {part.name}: it shares memory with {other.name} but starts {part.start % size} bytes after a "
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
