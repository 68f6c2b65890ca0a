"""Pooling and interpolation: operators between a small tensor and a large one, by windows."""

from __future__ import annotations

import math

from cubeyard.torch.operators.call import Call
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous


def shrink(call: Call, counts: Counts) -> list[Description]:
    """Describes a pooling: each element of the large tensor is read once, and used by each window that it is in."""
    given, result = call.tensor("self", "grad_output"), call.result
    wanted = [contiguous(spec, result.elements) for spec in call.writes]
    return [_shrunk(given, wanted, _scaled(call, given, result, counts))]


def shrink_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a pooling: each window's gradient is spread over its elements."""
    gradient, result = call.tensor("grad_output"), call.result
    indices = call.get("indices")
    smalls = [gradient, *([indices] if isinstance(indices, TensorSpec) else [])]
    return [_spread(smalls, result, _scaled(call, result, gradient, counts))]


def spread(call: Call, counts: Counts) -> list[Description]:
    """Describes an interpolation to a larger or smaller tensor."""
    given, result = call.tensor("self", "input"), call.result
    if given.elements > result.elements:
        return [_shrunk(given, [contiguous(result, result.elements)], counts)]
    return [_spread([given], result, counts)]


def spread_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of an interpolation."""
    gradient, result = call.tensor("grad_output"), call.result
    if gradient.elements < result.elements:
        return [_spread([gradient], result, counts)]
    return [_shrunk(gradient, [contiguous(result, result.elements)], counts)]


def _shrunk(large: TensorSpec, results: list[TensorSpec], counts: Counts) -> Description:
    """Describes a reduction of equal parts of a large tensor to one element each."""
    window = -(-large.elements // max(results[0].elements, 1))
    if window <= 1:
        return pointwise([contiguous(large, results[0].elements)], results, counts)
    return reduction([contiguous(large, results[0].elements, window)], results, [1], counts)


def _spread(smalls: list[TensorSpec], large: TensorSpec, counts: Counts) -> Description:
    """Describes elements that are written to equal parts of a large tensor."""
    count = smalls[0].elements
    window = max(-(-large.elements // max(count, 1)), 1)
    wide = [spec._replace(shape=(count, window), strides=(1, 0)) for spec in smalls]
    return pointwise(wide, [contiguous(large, count, window)], counts)


def _scaled(call: Call, large: TensorSpec, small: TensorSpec, counts: Counts) -> Counts:
    """Returns the operations for each element of the large tensor: one of the rule for each window that it is in."""
    kernel = call.get("kernel_size")
    if kernel is None:
        return counts
    sizes = call.integers("kernel_size", int(next(filter(str.isdigit, call.op))), 1)
    taps = math.prod(sizes) * small.elements
    return Counts(counts.simple * max(-(-taps // max(large.elements, 1)), 1), counts.special)


RULES: dict[str, Rule] = {
    **rows_of(
        shrink,
        {
            (1, 0): "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d",
            (2, 0): "max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d max_pool2d max_pool3d max_pool1d",
        },
    ),
    **rows_of(
        shrink_backward,
        {
            (1, 0): "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward",
            (2, 0): "max_pool2d_with_indices_backward max_pool3d_with_indices_backward adaptive_max_pool2d_backward"
            " adaptive_max_pool3d_backward",
        },
    ),
    **rows_of(
        spread,
        {
            (2, 0): "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d"
            " _upsample_nearest_exact3d",
            (5, 0): "upsample_linear1d",
            (11, 0): "upsample_bilinear2d",
            (23, 0): "upsample_trilinear3d",
            (48, 0): "upsample_bicubic2d",
        },
    ),
    **rows_of(
        spread_backward,
        {
            (2, 0): "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward"
            " _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward",
            (5, 0): "upsample_linear1d_backward",
            (11, 0): "upsample_bilinear2d_backward",
            (23, 0): "upsample_trilinear3d_backward",
            (48, 0): "upsample_bicubic2d_backward",
        },
    ),
}
"""Rules of pooling and interpolation."""
