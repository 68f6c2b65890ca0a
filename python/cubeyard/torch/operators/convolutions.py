"""Convolutions and their derivatives."""

from __future__ import annotations

import math

from cubeyard.torch.operators.call import Call
from cubeyard.torch.operators.description import Counts, Description, Rule, options, product, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, normal, transposed


def convolution(call: Call, counts: Counts) -> list[Description]:
    """Describes a convolution; a bias is added in its kernel."""
    del counts
    given, weight = call.tensor("input", "self"), call.tensor("weight")
    described = _described(call, given, weight, call.result, bool(call.get("transposed", False)))
    bias = call.get("bias")
    return [described._replace(operands=(*described.operands, bias)) if isinstance(bias, TensorSpec) else described]


def convolution_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivatives of a convolution that are wanted.

    The input's is a convolution of the other direction, the weight's a product, the bias's a sum.
    """
    del counts
    gradient, given, weight = call.tensor("grad_output"), call.tensor("input", "self"), call.tensor("weight")
    is_transposed = bool(call.get("transposed", False))
    wanted = [*call.results, None, None, None]
    parts = []
    if isinstance(wanted[0], TensorSpec):
        parts.append(_described(call, gradient, weight, wanted[0], not is_transposed))
    if isinstance(wanted[1], TensorSpec):
        parts.append(_weight(call, gradient, given, wanted[1]))
    if isinstance(wanted[2], TensorSpec):
        parts.append(reduction([gradient], [wanted[2]], [d for d in range(len(gradient.shape)) if d != 1]))
    return parts


def _described(call: Call, given: TensorSpec, weight: TensorSpec, result: TensorSpec, is_transposed: bool) -> Description:
    count = len(weight.shape) - 2
    described = options(
        stride=call.integers("stride", count, 1),
        padding=call.integers("padding", count, 0),
        dilation=call.integers("dilation", count, 1),
        groups=int(call.get("groups", 1)),
        transposed=is_transposed,
    )
    return Description("convolution", (normal(given), normal(weight)), (normal(result),), described)


def _weight(call: Call, gradient: TensorSpec, given: TensorSpec, result: TensorSpec) -> Description:
    """Describes the derivative of the weight: for each tap and group a product over all positions of all samples.

    The side with as many positions as there are windows is the output, or the input of a transposed convolution. The other
    side is read again for each tap, at these positions; its bytes count once.
    """
    small, large = (given, gradient) if call.get("transposed", False) else (gradient, given)
    groups, taps = int(call.get("groups", 1)), math.prod(result.shape[2:])
    positions = small.shape[0] * math.prod(small.shape[2:])
    rows, columns = result.shape[0] // groups, result.shape[1]
    a = _by_channels(small, (taps, groups, rows, positions))
    b = transposed(_by_channels(large, (taps, groups, columns, positions)))
    return product(a, b, contiguous(result, taps, groups, rows, columns))


def _by_channels(spec: TensorSpec, shape: tuple[int, int, int, int]) -> TensorSpec:
    """Returns [taps, groups, channels, positions] of a tensor, the same for each tap, with its fast axis kept."""
    _, groups, channels, positions = shape
    is_last = len(spec.shape) > 1 and spec.strides[1] == 1 and spec.shape[1] > 1
    inner = (channels, 1, groups * channels) if is_last else (channels * positions, positions, 1)
    return spec._replace(shape=shape, strides=(0, *inner))


RULES: dict[str, Rule] = {
    **rows_of(
        convolution,
        {
            (): "convolution _convolution convolution_overrideable mkldnn_convolution conv1d conv2d conv3d slow_conv3d_forward"
            " _slow_conv2d_forward _conv_depthwise2d thnn_conv2d conv_depthwise3d"
        },
    ),
    **rows_of(convolution_backward, {(): "convolution_backward convolution_backward_overrideable _slow_conv2d_backward"}),
}
"""Rules of convolutions."""
