"""Operators that reduce dimensions, and those that sort or select by passes over the data."""

from __future__ import annotations

from cubeyard.torch.operators.call import Call
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, reduction, rows, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, expanded, with_last

DIGIT_BITS = 8
"""Bits of a key that one pass of a radix sort or of a radix selection looks at."""


def reduce(call: Call, counts: Counts) -> list[Description]:
    """Describes a reduction over the dimensions of the argument `dim`, or over all."""
    given = call.tensor("self", "input")
    others = [spec for spec in call.reads[1:] if spec.shape == given.shape]
    dims = _dims(call, len(given.shape))
    if not dims or given.elements == call.result.elements:
        return [pointwise([given], [_shaped(spec, given) for spec in call.writes], counts)]
    return [reduction([given, *others], call.writes, dims, counts)]


def pair(call: Call, counts: Counts) -> list[Description]:
    """Describes a reduction of two tensors over all dimensions, such as `dot`."""
    reads = call.reads[:2]
    result = call.writes[0] if call.writes else contiguous(reads[0])
    return [reduction(reads, [result._replace(shape=(), strides=())], range(len(reads[0].shape)), counts)]


def scan(call: Call, counts: Counts) -> list[Description]:
    """Describes a running sum or product along one dimension."""
    given = call.tensor("self")
    if not given.shape:
        return [pointwise([given], call.writes, counts)]
    dim = call.dim("dim", len(given.shape))
    return [rows([with_last(given, dim)], [with_last(w, dim) for w in call.writes], given.shape[dim], counts)]


def sample(call: Call, counts: Counts) -> list[Description]:
    """Describes draws from rows of weights: a running sum that is kept, and a search in it."""
    given = call.tensor("self")
    kept = contiguous(given, *given.shape)
    return [rows([given], [kept], given.shape[-1], counts), pointwise([], [call.result], counts.plus(30))]


def sort(call: Call, counts: Counts) -> list[Description]:
    """Describes a radix sort: for each digit, a pass that reads and writes the keys and their indices."""
    values, indices = call.writes[0], call.writes[-1]
    passes = max(values.element_bytes * 8 // DIGIT_BITS, 1)
    if indices is values:
        return [pointwise([values], [values], counts, times=passes)]
    return [pointwise([values, indices], [values, indices], counts, times=passes)]


def select(call: Call, counts: Counts) -> list[Description]:
    """Describes a radix selection: for each digit, a pass that counts the keys; then a pass that writes the chosen ones."""
    given = call.tensor("self")
    dim = call.dim("dim", len(given.shape))
    row = with_last(given, dim) if given.shape else given
    passes = max(given.element_bytes * 8 // DIGIT_BITS, 1) + 1
    counted = reduction([row], [contiguous(given, *row.shape[:-1])], [len(row.shape) - 1] if row.shape else [], counts)
    return [counted._replace(times=passes), pointwise([], [_joint(call.writes)])]


def nonzero(call: Call, counts: Counts) -> list[Description]:
    """Describes a compaction: a pass that counts, and one that reads again and writes the kept elements."""
    given, kept = call.reads[0], call.result
    parts = [pointwise([given], [contiguous(given, *given.shape)], counts)] if given.elements else []
    return parts + ([pointwise([], [kept])] if kept.elements else [])


def _joint(writes: list[TensorSpec]) -> TensorSpec:
    return contiguous(writes[0]._replace(dtype="uint8", element_bytes=1), sum(spec.bytes for spec in writes))


def _dims(call: Call, rank: int) -> list[int]:
    given = call.get("dim", call.get("dims"))
    if given is None or given == ():
        return list(range(rank))
    return [d % max(rank, 1) for d in ([given] if isinstance(given, int) else given)] if rank else []


def _shaped(spec: TensorSpec, like: TensorSpec) -> TensorSpec:
    return expanded(spec, like.shape) or contiguous(spec, *like.shape)


RULES: dict[str, Rule] = {
    **rows_of(
        reduce,
        {
            (0, 0): "sum mean prod nansum nanmean _is_all_true _is_any_true",
            (1, 0): "amax amin aminmax _aminmax max min any all count_nonzero norm linalg_vector_norm linalg__powsum native_norm",
            (2, 0): "argmax argmin",
            (3, 0): "var std var_mean std_mean",
            (2, 1): "logsumexp",
        },
    ),
    **rows_of(pair, {(1, 0): "dot vdot equal", (3, 1): "dist"}),
    **rows_of(scan, {(2, 0, 1): "cumsum cumprod", (4, 0, 1): "cummax cummin _cummax_helper _cummin_helper", (5, 2, 1): "logcumsumexp _logcumsumexp"}),
    **rows_of(sort, {(6, 0): "sort argsort msort"}),
    **rows_of(select, {(3, 0): "topk kthvalue median nanmedian mode"}),
    **rows_of(nonzero, {(2, 0): "nonzero nonzero_static masked_select"}),
    **rows_of(sample, {(4, 1, 1): "multinomial"}),
}
"""Rules of reductions."""
