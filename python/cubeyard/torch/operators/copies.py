"""Operators that move elements from one layout to another: concatenations, pads, repeats, slices that are written."""

from __future__ import annotations

import math

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, flat, normal, tensors

MOST_PARTS = 4
"""Largest number of equal tensors that one kernel joins or splits with their own layouts."""


def flat_copy(reads: list[TensorSpec], writes: list[TensorSpec], counts: Counts = Counts()) -> Description:
    """Describes a copy of several tensors as one row of their elements."""
    length = sum(spec.elements for spec in writes)
    return pointwise([flat(reads)._replace(shape=(length,))], [flat(writes)], counts)


def join(call: Call, counts: Counts) -> list[Description]:
    """Describes a concatenation: a few equal tensors with their layouts, others as one row of elements."""
    parts = [spec for spec in tensors([call.get("tensors")]) if spec.elements]
    result = call.result
    if not 1 < len(parts) <= MOST_PARTS or len(set(map(normal, parts))) > 1:
        return [flat_copy(parts, [result], counts)]
    slots = [result._replace(shape=parts[0].shape)] * len(parts)
    if len(result.shape) > len(parts[0].shape):
        dim = call.dim("dim", len(result.shape))
        strides = tuple(stride for d, stride in enumerate(result.strides) if d != dim)
        slots = [slot._replace(strides=strides) for slot in slots]
    return [pointwise(parts, slots, counts)]


def cut(call: Call, counts: Counts) -> list[Description]:
    """Describes a copy of one tensor into several."""
    return [flat_copy(call.reads[:1], call.writes, counts)]


def filled(call: Call, counts: Counts) -> list[Description]:
    """Describes a tensor that gets another one in a part of it, and zeros or a constant elsewhere."""
    part, result = call.reads[0], call.result
    if len(part.shape) == len(result.shape):
        part = part._replace(shape=tuple(map(min, part.shape, result.shape)))
    inside = _slot(part, result)
    rest = result.elements - part.elements
    parts = [pointwise([part], [inside], counts)] if part.elements else []
    return parts + ([pointwise([], [contiguous(result, rest)])] if rest > 0 else [])


def replaced(call: Call, counts: Counts) -> list[Description]:
    """Describes a copy of a tensor with another one written over a part of it."""
    whole, part = call.tensor("self"), call.tensor("src", "source")
    rest = whole.elements - part.elements
    kept = [pointwise([contiguous(whole, rest)], [contiguous(call.result, rest)], counts)] if rest > 0 else []
    return [*kept, pointwise([part], [_slot(part, call.result)], counts)]


def repeat(call: Call, counts: Counts) -> list[Description]:
    """Describes a tiling: each dimension is a number of copies, of stride 0 in the operand, and the size of the operand."""
    given, result = call.tensor("self"), call.result
    missing = len(result.shape) - len(given.shape)
    sizes = (1,) * missing + given.shape
    strides = (0,) * missing + given.strides
    if 0 in sizes:
        return []
    shape = tuple(n for whole, size in zip(result.shape, sizes, strict=True) for n in (whole // size, size))
    inner = tuple(s for stride in strides for s in (0, stride))
    outer = tuple(s for stride, size in zip(result.strides, sizes, strict=True) for s in (stride * size, stride))
    return [pointwise([given._replace(shape=shape, strides=inner)], [result._replace(shape=shape, strides=outer)], counts)]


def reordered(call: Call, counts: Counts) -> list[Description]:
    """Describes a copy in another order of elements, such as `flip`; its layout is taken as the result's."""
    given, result = call.reads[0], call.result
    if given.elements != result.elements:
        raise NotDescribed(f"{given.elements} elements in the order of {result.elements}")
    source = given if given.shape == result.shape else given._replace(shape=result.shape, strides=result.strides)
    return [pointwise([source], [result], counts)]


def taken(call: Call, counts: Counts) -> list[Description]:
    """Describes a copy of a view, or of a tensor and its reflections; its layout is taken as the result's."""
    return [pointwise([contiguous(call.reads[0], *call.result.shape)], call.writes, counts)]


def folded(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a padding by reflection or repetition: each element of the gradient is added once."""
    gradient, result = call.tensor("grad_output"), call.result
    return [pointwise([contiguous(gradient, gradient.elements)], [contiguous(result, gradient.elements)], counts)]


def _slot(part: TensorSpec, whole: TensorSpec) -> TensorSpec:
    """Returns the place of a part in a tensor: the part's shape with the tensor's strides."""
    if len(part.shape) == len(whole.shape):
        return whole._replace(shape=part.shape)
    return contiguous(whole, *part.shape) if math.prod(part.shape) else part


RULES: dict[str, Rule] = {
    **rows_of(join, {(0, 0): "cat _cat stack _stack concat concatenate hstack vstack"}),
    **rows_of(cut, {(0, 0): "split_copy split_with_sizes_copy unbind_copy unsafe_split unsafe_split_with_sizes unsafe_chunk _chunk_cat"}),
    **rows_of(filled, {(0, 0): "constant_pad_nd slice_backward select_backward diagonal_backward diag_embed as_strided_scatter"}),
    **rows_of(replaced, {(0, 0): "slice_scatter select_scatter diagonal_scatter"}),
    **rows_of(repeat, {(0, 0): "repeat tile"}),
    **rows_of(reordered, {(0, 0): "roll pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle", (1, 0): "flip rot90"}),
    **rows_of(
        taken,
        {
            (0, 0): "view_copy permute_copy transpose_copy t_copy squeeze_copy unsqueeze_copy slice_copy select_copy diagonal_copy"
            " as_strided_copy _reshape_copy _reshape_alias_copy unfold_copy narrow_copy view_as_real_copy view_as_complex_copy im2col",
            (2, 0): "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
        },
    ),
    **rows_of(
        folded,
        {
            (2, 0): "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward"
            " replication_pad2d_backward replication_pad3d_backward"
        },
    ),
}
"""Rules of copies."""
