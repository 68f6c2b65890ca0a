"""Operators on rows: softmax, norms, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, reduction, rows, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, split_last, with_last


def softmax(call: Call, counts: Counts) -> list[Description]:
    """Describes a softmax or its derivative along the dimension `dim`."""
    reads, result = call.reads, call.result
    if not result.shape:
        return [pointwise(reads, [result], counts)]
    dim = call.dim("dim", len(result.shape))
    whole = [with_last(spec, dim) for spec in reads if spec.shape == result.shape]
    return [rows(whole, [with_last(result, dim)], result.shape[dim], counts)]


def layer_norm(call: Call, counts: Counts) -> list[Description]:
    """Describes a norm over the last dimensions, with the weights and the statistics of each row."""
    given = call.tensor("input")
    last = len(call.get("normalized_shape"))
    columns = math.prod(given.shape[len(given.shape) - last :])
    weights = [_vector(spec) for spec in (call.get("weight"), call.get("bias")) if isinstance(spec, TensorSpec)]
    results = [_row(spec, given, last, columns) for spec in call.writes]
    return [rows([split_last(given, last), *weights], results, columns, counts)]


def layer_norm_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a norm over the last dimensions; those of its weights are sums over the rows."""
    given, gradient = call.tensor("input"), call.tensor("grad_out")
    last = len(call.get("normalized_shape"))
    columns = math.prod(given.shape[len(given.shape) - last :])
    weight = [_vector(spec) for spec in (call.get("weight"),) if isinstance(spec, TensorSpec)]
    saved = [_row(spec, given, last, columns) for name in ("mean", "rstd") if isinstance(spec := call.get(name), TensorSpec)]
    whole = [split_last(gradient, last), split_last(given, last)]
    parts = []
    wanted = list(call.results) + [None] * 3
    if isinstance(wanted[0], TensorSpec):
        parts.append(rows([*whole, *saved, *weight], [split_last(wanted[0], last)], columns, counts))
    sums = [_vector(spec) for spec in wanted[1:] if isinstance(spec, TensorSpec)]
    if sums and len(whole[0].shape) > 1:
        parts.append(reduction(whole, sums, range(len(whole[0].shape) - 1), Counts(3)))
    return parts


def group_norm(call: Call, counts: Counts) -> list[Description]:
    """Describes a norm over groups of channels. A row is a group of one sample; the weights are left out of its bytes."""
    given, result = call.tensor("input"), call.result
    shape = _groups(call, given)
    statistics = [_per_row(spec, shape) for spec in call.writes[1:]]
    return [rows([contiguous(given, *shape)], [contiguous(result, *shape), *statistics], shape[-1], counts)]


def group_norm_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a norm over groups; those of its weights are sums over samples and pixels."""
    given, gradient = call.tensor("input"), call.tensor("grad_out")
    shape = _groups(call, given)
    wanted = list(call.results)
    parts = []
    if isinstance(wanted[0], TensorSpec):
        whole = [contiguous(spec, *shape) for spec in (gradient, given)]
        saved = [_per_row(call.tensor(name), shape) for name in ("mean", "rstd")]
        parts.append(rows([*whole, *saved], [contiguous(wanted[0], *shape)], shape[-1], counts))
    sums = [spec for spec in wanted[1:] if isinstance(spec, TensorSpec)]
    if sums:
        parts.append(reduction([gradient, given], sums, _not_channels(given), Counts(3)))
    return parts


def batch_norm(call: Call, counts: Counts) -> list[Description]:
    """Describes a norm over all but the channels: a reduction in training, then operations on elements."""
    given = call.tensor("input")
    channels = [spec for spec in call.reads[1:] if spec.shape == given.shape[1:2]]
    parts = []
    if _trains(call) and given.elements > given.shape[1]:
        statistics = [contiguous(channels[0] if channels else given, given.shape[1])] * 2
        parts.append(reduction([given], statistics, _not_channels(given), Counts(3)))
    beside = [_channel(spec, given) for spec in channels]
    return [*parts, pointwise([given, *beside], [call.result], counts)]


def batch_norm_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a norm over all but the channels: two sums for each channel, then operations on elements."""
    gradient, given = call.tensor("grad_out"), call.tensor("input")
    statistics = [contiguous(given, given.shape[1])] * 2
    parts = [reduction([gradient, given], statistics, _not_channels(given), Counts(2))]
    if isinstance(call.results[0], TensorSpec):
        beside = [_channel(statistics[0], given)] * 3
        parts.append(pointwise([gradient, given, *beside], [call.results[0]], counts))
    return parts


def _trains(call: Call) -> bool:
    if "no_training" in call.op or "no_update" in call.op:
        return False
    return bool(call.get("training", True))


def _groups(call: Call, given: TensorSpec) -> tuple[int, int]:
    groups = int(call.get("group") or call.get("num_groups") or 1)
    if given.shape[1] % groups:
        raise NotDescribed(f"{given.shape[1]} channels in {groups} groups")
    count = given.shape[0] * groups
    return count, given.elements // max(count, 1)


def _not_channels(given: TensorSpec) -> list[int]:
    return [d for d in range(len(given.shape)) if d != 1]


def _channel(spec: TensorSpec, given: TensorSpec) -> TensorSpec:
    """Returns a tensor of the channels broadcast to the shape of the input."""
    strides = tuple(spec.strides[0] if d == 1 else 0 for d in range(len(given.shape)))
    return spec._replace(shape=given.shape, strides=strides)


def _vector(spec: TensorSpec) -> TensorSpec:
    return split_last(spec, len(spec.shape))


def _row(spec: TensorSpec, given: TensorSpec, last: int, columns: int) -> TensorSpec:
    """Returns a tensor of the input's shape as rows, and a statistic of each row as a vector."""
    if spec.shape == given.shape:
        return split_last(spec, last)
    return _per_row(spec, (*given.shape[: len(given.shape) - last], columns))


def _per_row(spec: TensorSpec, shape: Sequence[int]) -> TensorSpec:
    return contiguous(spec, math.prod(shape[:-1]))


RULES: dict[str, Rule] = {
    **rows_of(
        softmax,
        {
            (2, 1, 2): "_softmax _log_softmax softmax log_softmax",
            (4, 1, 2): "_safe_softmax",
            (3, 0, 1): "_softmax_backward_data",
            (2, 1, 1): "_log_softmax_backward_data",
        },
    ),
    **rows_of(layer_norm, {(6, 0, 2): "native_layer_norm layer_norm", (3, 0, 1): "_fused_rms_norm rms_norm"}),
    **rows_of(layer_norm_backward, {(8, 0, 2): "native_layer_norm_backward", (6, 0, 1): "_fused_rms_norm_backward"}),
    **rows_of(group_norm, {(6, 0, 2): "native_group_norm"}),
    **rows_of(group_norm_backward, {(8, 0, 2): "native_group_norm_backward"}),
    **rows_of(
        batch_norm,
        {
            (4, 0): "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training"
            " _batch_norm_with_update _batch_norm_with_update_functional _batch_norm_no_update"
        },
    ),
    **rows_of(batch_norm_backward, {(6, 0): "native_batch_norm_backward batch_norm_backward"}),
}
"""Rules of operators on rows."""
