"""Loads and stores: address patterns and masks as DMA accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cubeyard.errors import CubeyardError
from cubeyard.triton import _pieces
from cubeyard.triton._along import fast_axis, with_last
from cubeyard.triton._chains import tile_of
from cubeyard.triton._elements import DTYPES, SIZES
from cubeyard.triton._frame import Builder, Flow, Frame, Step, lowers
from cubeyard.triton._ir import Operation
from cubeyard.triton._values import Bools, Index, Node, Uniform, array_of, of_elements

__all__ = ["Box", "boxes", "is_never", "known", "load", "load_boxes", "store", "store_boxes"]


@lowers("tt.load")
def loaded(build: Builder, operation: Operation) -> Step:
    """Lowers a load."""
    of, result = build.types[operation.results[0]], operation.results[0]
    element = build.types[operation.operands[0]].pointee
    operands, wanted = operation.operands, build.live and result in build.wanted
    patterns = Patterns(element, of.shape, True)

    def step(frame: Frame) -> Flow | None:
        given = [frame.env[one] for one in operands]
        whole = None if wanted else patterns.whole(frame, given[0], given[1] if len(given) > 1 else None)
        if whole is not None:
            frame.env[result] = Node(of.shape, element, tile=_load_whole(frame.tl, whole))
            return None
        if wanted or not (_is_plain(given[0]) and (len(given) == 1 or _is_plain(given[1]))):
            return waiting(frame, given)
        frame.env[result] = load(frame, element, of.shape, *given)
        return None

    def waiting(frame: Frame, given: list[Any]) -> Flow:
        for at, value in enumerate(given[:2]):
            given[at] = yield from known(value)
        value = load(frame, element, of.shape, *given)
        frame.env[result] = (yield from known(value)) if wanted else value

    return step


@lowers("tt.store")
def stored(build: Builder, operation: Operation) -> Step:
    """Lowers a store."""
    pointer = build.types[operation.operands[0]]
    operands = operation.operands
    patterns = Patterns(pointer.pointee, pointer.shape, False)

    def step(frame: Frame) -> Flow | None:
        given = [frame.env[one] for one in operands]
        whole = patterns.whole(frame, given[0], given[2] if len(given) > 2 else None)
        if whole is not None:
            _store_whole(frame.tl, whole, frame.whole(given[1], pointer.shape, pointer.pointee))
            return None
        if not all(_is_plain(one) for one in (given[0], *given[2:])):
            return waiting(frame, given)
        store(frame, pointer.pointee, pointer.shape, *given)
        return None

    def waiting(frame: Frame, given: list[Any]) -> Flow:
        given[0] = yield from known(given[0])
        if len(given) > 2:
            given[2] = yield from known(given[2])
        store(frame, pointer.pointee, pointer.shape, *given)

    return step


class Patterns:
    """Strided patterns of an access that one command moves as a whole, which is the most common case."""

    def __init__(self, element: str, shape: tuple[int, ...], shared: bool) -> None:
        self.element, self.shape, self.shared = element, shape, shared
        self.size = SIZES.get(element, 1)
        self.found: dict[tuple[int, ...], Any] = {}

    def whole(self, frame: Frame, pointer: Any, mask: Any) -> Any:
        """Returns the reference of an access to all elements by one command, or None for another access."""
        if type(pointer) is not Index or not pointer.is_affine or not (mask is None or (type(mask) is Uniform and mask.value)):
            return None
        if pointer.axes not in self.found:
            parts = _pieces.of_axes(self.shape, pointer.axes, (None,) * len(self.shape), self.size, self.shared)
            one = parts[0] if len(parts) == 1 and parts[0][4] is None else None
            self.found[pointer.axes] = None if one is None or (not self.shared and one[1] != self.shape) else one[1:4]
        pattern = self.found[pointer.axes]
        if pattern is None:
            return None
        lengths, offset, strides = pattern
        reference = _reference(frame, self.element, pointer.base + offset, lengths)
        return reference if strides == (1,) else reference.strided(strides)


def _load_whole(tl: Any, reference: Any) -> Any:
    return tl.load_along(reference)


def _store_whole(tl: Any, reference: Any, tile: Any) -> None:
    tl.store_along(reference, tile)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, Node) or value.known


def known(value: Any) -> Any:
    """Waits for the elements of a value, unless they are known. Use with `yield from`."""
    if _is_plain(value):
        return value
    elements = yield value
    if not value.shape:
        return elements.reshape(-1)[0].item()
    return of_elements(np.broadcast_to(elements, value.shape), value.element, value.tile)


@dataclass(frozen=True)
class Box:
    """Part of a tile that one command moves."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    reference: Any
    mask: Any
    covers: bool
    """Whether the box is the whole tile or broadcasts to it."""


def load(frame: Frame, element: str, shape: tuple[int, ...], pointer: Any, mask: Any = None, other: Any = None) -> Any:
    """Loads a tensor, with one command for a strided pattern and several for others."""
    fill, instead = (0, other) if isinstance(other, Node) else (_number(other, element), None)
    if is_never(mask):
        return Uniform(shape, element, fill) if instead is None and shape else _filled(frame, shape, element, fill, other)
    tile = _loaded(frame, element, shape, pointer, mask, fill)
    if instead is not None and mask is not None:
        tile = frame.tl.where(tile_of(mask, frame.tl), tile, tile_of(instead, frame.tl))
    return Node(shape, element, tile=tile)


def _loaded(frame: Frame, element: str, shape: tuple[int, ...], pointer: Any, mask: Any, fill: float) -> Any:
    """Loads boxes. Addresses without a strided pattern are loaded along the axis with the fewest runs, then permuted."""
    if len(shape) > 1 and (_mask_axes(mask, shape) is None or not isinstance(pointer, Index | Uniform)):
        addresses = np.broadcast_to(array_of(pointer), shape)
        chosen = np.broadcast_to(True if mask is None else array_of(mask), shape)
        order = with_last(len(shape), fast_axis(addresses, chosen))
        if order != sorted(order):
            pointer, mask = (of_elements(np.transpose(of, order), kind) for of, kind in ((addresses, "ptr"), (chosen, "i1")))
            turned = tuple(shape[axis] for axis in order)
            tile = load_boxes(frame, list(boxes(frame, element, turned, pointer, mask)), turned, element, fill)
            return frame.tl.permute(tile, [order.index(axis) for axis in range(len(order))])
    return load_boxes(frame, list(boxes(frame, element, shape, pointer, mask)), shape, element, fill)


def _filled(frame: Frame, shape: tuple[int, ...], element: str, fill: float, other: Any) -> Any:
    return other if isinstance(other, Node) else Node(shape, element, tile=frame.tl.full(shape, fill, DTYPES[element]))


def _number(other: Any, element: str) -> float:
    value = other.value if isinstance(other, Uniform) else other
    return 0 if value is None else value


def is_never(mask: Any) -> bool:
    """Returns whether a mask is known to select nothing."""
    value = mask.value if isinstance(mask, Uniform) else mask
    return isinstance(value, bool | int) and not value


def load_boxes(
    frame: Frame, parts: list[Box], shape: tuple[int, ...], element: str, fill: float = 0, into: Any = None,
    load_box: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Loads boxes into one tile. Its other elements come from `into`, or equal `fill`."""
    tl = frame.tl
    load_box = load_box or _load_box
    if len(parts) == 1 and parts[0].covers:
        return load_box(tl, parts[0], fill)
    total = tl.full(shape, fill, DTYPES[element]) if into is None else into
    for box in parts:
        total = tl.paste(total, box.start, load_box(tl, box, fill))
    return total


def _load_box(tl: Any, box: Box, fill: float) -> Any:
    return tl.load_along(box.reference) if box.mask is None else tl.load_along(box.reference, box.mask, fill)


def store(frame: Frame, element: str, shape: tuple[int, ...], pointer: Any, value: Any, mask: Any = None) -> None:
    """Stores a tensor, with one command for a strided pattern and several for others."""
    if is_never(mask):
        return
    tile = frame.whole(value, shape, element)
    store_boxes(frame, boxes(frame, element, shape, pointer, mask, shared=False), tile)


def store_boxes(frame: Frame, parts: Iterable[Box], tile: Any, store_box: Callable[..., Any] | None = None) -> None:
    """Stores the boxes of a tile."""
    tl, store_box = frame.tl, store_box or _store_box
    for box in parts:
        part = tile if tuple(box.shape) == tuple(tile.shape) else tl.slice(tile, box.start, box.shape)
        store_box(tl, box, part)


def _store_box(tl: Any, box: Box, part: Any) -> None:
    if box.mask is None:
        tl.store_along(box.reference, part)
    else:
        tl.store_along(box.reference, part, box.mask)


def boxes(
    frame: Frame, element: str, shape: tuple[int, ...], pointer: Any, mask: Any, shared: bool = True
) -> Iterator[Box]:
    """Splits an access into boxes with affine addresses."""
    if not shape:
        yield Box((), (), _reference(frame, element, int(pointer), ()), None, True)
        return
    axes = _mask_axes(mask, shape)
    if axes is None or not isinstance(pointer, Index | Uniform):
        yield from _gathered(frame, element, shape, pointer, mask)
        return
    base, steps = (pointer.base, pointer.axes) if isinstance(pointer, Index) else (pointer.value, (0,) * len(shape))
    parts = _pieces.of_axes(shape, steps, axes, SIZES[element], shared)
    if len(parts) > 1:
        frame.note("pieces", "addresses that wrap or jump: one access for each affine part")
        parts = _pieces.of_axes(shape, steps, axes, SIZES[element], False)
    for start, lengths, offset, strides, limits in parts:
        reference = _reference(frame, element, base + offset, lengths).strided(strides)
        yield Box(start, lengths, reference, _mask(frame, lengths, limits), len(parts) == 1)


def _reference(frame: Frame, element: str, address: int, shape: tuple[int, ...]) -> Any:
    if address % SIZES[element]:
        raise CubeyardError(f"{frame.tl.place}: an access to {element} at address {address:#x}: expected a multiple of {SIZES[element]}")
    return frame.reference(element, address, shape)


def _gathered(frame: Frame, element: str, shape: tuple[int, ...], pointer: Any, mask: Any) -> Iterator[Box]:
    """Splits arbitrary addresses into runs."""
    addresses = np.broadcast_to(array_of(pointer), shape)
    chosen = np.broadcast_to(True if mask is None else array_of(mask), shape)
    runs = list(_pieces.of_array(addresses, chosen, SIZES[element]))
    if len(runs) > 1:
        frame.note("gather", "addresses or mask without a strided pattern: one access for each run")
    for start, lengths, address, step in runs:
        reference = _reference(frame, element, address, lengths).strided([1] * (len(shape) - 1) + [step])
        yield Box(start, lengths, reference, None, lengths == tuple(shape))


def _mask_axes(mask: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Returns the mask of each axis, None for an axis that is true everywhere. Returns None for other masks."""
    if mask is None or isinstance(mask, Uniform):
        return (None,) * len(shape)
    if isinstance(mask, Bools):
        return mask.axes
    return None


def _mask(frame: Frame, lengths: tuple[int, ...], limits: Any) -> Any:
    """Returns the mask of a box, made from limits or from booleans."""
    if limits is None:
        return None
    if isinstance(limits, np.ndarray):
        return limits
    key = (lengths, limits)
    if key not in frame.masks:
        frame.masks[key] = frame.tl.mask(lengths, limits)
    return frame.masks[key]
