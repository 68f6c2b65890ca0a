"""Operators with indices. Rows are assumed to be spread uniformly, since indices are data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, options, pointwise, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, expanded, normal


def gathered(
    table: TensorSpec, indices: TensorSpec, result: TensorSpec, row: int, counts: Counts = Counts()
) -> list[Description]:
    """Describes rows of a table at indices."""
    if not result.elements:
        return []
    rows = contiguous(table, table.elements // row, row)
    written = contiguous(result, result.elements // row, row)
    counted = options(row=row, simple=counts.simple)
    return [Description("gather", (rows, normal(indices)), (written,), counted)]


def scattered(
    values: TensorSpec, indices: TensorSpec, table: TensorSpec, row: int, *, add: bool, count: int | None = None
) -> list[Description]:
    """Describes rows that are written or added to a table at indices."""
    wanted = values.elements // row if count is None else count
    if not wanted:
        return []
    rows = contiguous(values, wanted, row) if values.elements > 1 else values._replace(shape=(wanted, row), strides=(0, 0))
    target = contiguous(table, table.elements // row, row)
    return [Description("scatter", (rows, normal(indices)), (target,), options(row=row, add=add))]


def embedding(call: Call, counts: Counts) -> list[Description]:
    """Describes rows of a table of embeddings."""
    weight = call.tensor("weight")
    return gathered(weight, call.tensor("indices"), call.result, weight.shape[1], counts)


def embedding_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a table of embeddings: zeros, then rows that are added."""
    del counts
    table = call.result
    added = scattered(call.tensor("grad_output"), call.tensor("indices"), table, table.shape[1], add=True)
    return [pointwise([], [table]), *added]


def along(call: Call, counts: Counts) -> list[Description]:
    """Describes slices of a tensor along one dimension, such as `index_select`."""
    given, index = call.tensor("self"), call.tensor("index")
    dim = call.dim("dim", len(given.shape))
    row = max(math.prod(given.shape[dim + 1 :]), 1)
    return gathered(given, _repeated(index, math.prod(given.shape[:dim])), call.result, row, counts)


def along_written(call: Call, counts: Counts) -> list[Description]:
    """Describes slices that are written or added along one dimension, such as `index_add`."""
    del counts
    given, index = call.tensor("self"), call.tensor("index")
    dim = call.dim("dim", len(given.shape))
    row, outer = max(math.prod(given.shape[dim + 1 :]), 1), math.prod(given.shape[:dim])
    source = call.get("source")
    values = source if isinstance(source, TensorSpec) else contiguous(given, 1)
    copies = max(index.elements, 1) * outer
    adds = "add" in call.op or "reduce" in call.op
    return _kept(call) + scattered(values, _repeated(index, outer), call.result, row, add=adds, count=copies)


def single(call: Call, counts: Counts) -> list[Description]:
    """Describes single elements at indices: `gather`, `take`."""
    index = call.tensor("index")
    return gathered(call.tensor("self"), index, call.result, 1, counts)


def single_written(call: Call, counts: Counts) -> list[Description]:
    """Describes single elements that are written or added at indices: `scatter`, `scatter_add`."""
    del counts
    index, source = call.tensor("index"), call.get("src", call.get("source"))
    values = source if isinstance(source, TensorSpec) else contiguous(call.result, 1)
    adds = "add" in call.op or "reduce" in call.op
    values = contiguous(values, index.elements) if values.elements >= index.elements else values
    return _kept(call) + scattered(values, index, call.result, 1, add=adds, count=index.elements)


def advanced(call: Call, counts: Counts) -> list[Description]:
    """Describes `tensor[indices]`: rows are the dimensions behind the last index."""
    given, result = call.tensor("self"), call.result
    row, indices, extra = _indices(call, given, result)
    passes = [] if extra is None else [pointwise([extra], [contiguous(extra, *extra.shape)], Counts(2))]
    return passes + gathered(given, indices, result, row, counts)


def advanced_written(call: Call, counts: Counts) -> list[Description]:
    """Describes `tensor[indices] = values`, and `+=`; a mask of booleans is a selection in one pass."""
    del counts
    given, values = call.tensor("self"), call.tensor("values")
    masks = [spec for spec in _given(call) if spec.dtype in ("bool", "uint8")]
    if masks and (mask := expanded(_padded(masks[0], len(given.shape)), given.shape)) is not None:
        return [pointwise([given, mask], [call.result], Counts(3))]
    shape = _broadcast([spec.shape for spec in _given(call)])
    last = max(at for at, spec in enumerate(call.get("indices")) if isinstance(spec, TensorSpec))
    row = max(math.prod(given.shape[last + 1 :]), 1)
    skipped = [given.shape[at] for at, spec in enumerate(call.get("indices")[:last]) if spec is None]
    count = math.prod(shape) * math.prod(skipped)
    indices = contiguous(_given(call)[0], count)
    adds = bool(call.get("accumulate", False))
    source = contiguous(values, count * row) if values.elements == count * row else contiguous(values, 1)
    return _kept(call) + scattered(source, indices, call.result, row, add=adds, count=count)


def picked_loss(call: Call, counts: Counts) -> list[Description]:
    """Describes `nll_loss`: one element of each row, and their mean."""
    given, target = call.tensor("self"), call.tensor("target")
    losses = contiguous(given, target.elements)
    parts = gathered(given, target, losses, 1, counts)
    if call.get("reduction", 1) and target.elements > 1:
        parts.append(reduction([losses], [contiguous(given)], [0], Counts(1)))
    return parts


def picked_loss_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of `nll_loss`: zeros, and one element in each row."""
    del counts
    target, result = call.tensor("target"), call.result
    gradient = contiguous(result, 1)
    return [pointwise([], [result]), *scattered(gradient, target, result, 1, add=False, count=target.elements)]


def counted(call: Call, counts: Counts) -> list[Description]:
    """Describes a histogram: zeros, and one element that is added for each element."""
    given, result = call.reads[0], call.result
    if not given.elements:
        return [pointwise([], [result])]
    bins = pointwise([given], [contiguous(given, *given.shape)], counts)
    return [pointwise([], [result]), bins, *scattered(contiguous(result, 1), given, result, 1, add=True, count=given.elements)]


def _kept(call: Call) -> list[Description]:
    """Describes the copy of a tensor that is not changed in place."""
    return [] if call.is_in_place else [pointwise([call.tensor("self")], [call.result])]


def _given(call: Call) -> list[TensorSpec]:
    return [spec for spec in call.get("indices") if isinstance(spec, TensorSpec)]


def _indices(call: Call, given: TensorSpec, result: TensorSpec) -> tuple[int, TensorSpec, TensorSpec | None]:
    """Returns the size of a row, the indices of the rows, and a mask of booleans if it has to be compacted first."""
    specs = call.get("indices")
    found = _given(call)
    if not found:
        raise NotDescribed("an index without a tensor")
    masks = [spec for spec in found if spec.dtype in ("bool", "uint8")]
    behind = len(specs) + sum(len(mask.shape) - 1 for mask in masks)
    row = max(math.prod(given.shape[behind:]), 1)
    return row, contiguous(_wide(found[0]), result.elements // row), masks[0] if masks else None


def _wide(spec: TensorSpec) -> TensorSpec:
    return spec._replace(dtype="int64", element_bytes=8) if spec.element_bytes < 4 else spec


def _padded(spec: TensorSpec, rank: int) -> TensorSpec:
    missing = rank - len(spec.shape)
    return spec._replace(shape=spec.shape + (1,) * missing, strides=spec.strides + (0,) * missing)


def _repeated(index: TensorSpec, times: int) -> TensorSpec:
    """Returns indices that are used again for each of the outer dimensions."""
    whole = contiguous(index, max(index.elements, 1))
    return whole if times == 1 else whole._replace(shape=(times, *whole.shape), strides=(0, *whole.strides))


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True))


RULES: dict[str, Rule] = {
    **rows_of(embedding, {(): "embedding"}),
    **rows_of(embedding_backward, {(): "embedding_dense_backward"}),
    **rows_of(along, {(): "index_select"}),
    **rows_of(along_written, {(): "index_add index_copy index_fill index_reduce"}),
    **rows_of(single, {(): "gather take"}),
    **rows_of(single_written, {(): "scatter scatter_add scatter_reduce put"}),
    **rows_of(advanced, {(): "index _unsafe_index"}),
    **rows_of(advanced_written, {(): "index_put _index_put_impl _unsafe_index_put"}),
    **rows_of(picked_loss, {(): "nll_loss_forward nll_loss2d_forward nll_loss"}),
    **rows_of(picked_loss_backward, {(): "nll_loss_backward nll_loss2d_backward"}),
    **rows_of(counted, {(4, 0): "histc bincount"}),
}
"""Rules of operators with indices."""
