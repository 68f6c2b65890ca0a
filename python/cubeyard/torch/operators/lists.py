"""Operators on lists of tensors: `_foreach_*`, and the fused steps of optimizers.

Such an operator is one kernel on the machine. It is described as one row of all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, flat

Group = tuple[list[TensorSpec], list[TensorSpec]]
"""Operands and results of all tensors of one combination of types, each as one row of elements."""


def each(counts: Counts) -> Rule:
    """Returns the rule of an operator on each element of each tensor."""
    return Rule(_each, counts)


def _each(call: Call, counts: Counts) -> list[Description]:
    return [pointwise(operands, results, counts) for operands, results in _groups(call)]


def _overwritten(call: Call, counts: Counts) -> list[Description]:
    """Describes copies and zeros: the first list is not read."""
    return [pointwise(operands[1:], results, counts) for operands, results in _groups(call)]


def _reduced(call: Call, counts: Counts) -> list[Description]:
    """Describes a reduction of each tensor; all of them are one row, since their results are few."""
    return [reduction(operands[:1], [contiguous(operands[0])], [0], counts) for operands, _ in _groups(call)]


def _step(read: str, written: str) -> Callable[[Call, Counts], list[Description]]:
    """Returns the function that describes a fused step: the lists that it reads, and those of them that it writes."""

    def describe(call: Call, counts: Counts) -> list[Description]:
        lists = {name: list(value) for name in read.split() if (value := call.get(name))}
        outputs = {name: list(value) for name in written.split() if (value := call.get(name))}
        if not lists:
            raise NotDescribed(f"{call.op} without tensors")
        return [pointwise(*group, counts) for group in _typed(list(lists.values()), list(outputs.values()))]

    return describe


def _groups(call: Call) -> Iterator[Group]:
    """Yields the operands and results of each combination of types; tensors beside the lists are broadcast."""
    inputs = [list(value) for value in call.arguments if _is_list(value)]
    if not inputs:
        raise NotDescribed(f"{call.op} without lists of tensors")
    results = [list(value) for value in call.results if _is_list(value)]
    written = zip(call.arguments, call.signature.written, strict=False)
    outputs = results or [list(value) for value, changes in written if changes and _is_list(value)]
    yield from _typed(inputs, outputs)


def _typed(inputs: list[list[TensorSpec]], outputs: list[list[TensorSpec]]) -> Iterator[Group]:
    count = len(inputs[0])
    inputs = [one for one in inputs if len(one) == count]
    outputs = [one for one in outputs if len(one) == count]
    kinds: dict[tuple[str, ...], list[int]] = {}
    for at in range(count):
        if inputs[0][at].elements:
            kinds.setdefault(tuple(one[at].dtype for one in (*inputs, *outputs)), []).append(at)
    for chosen in kinds.values():
        wanted = [inputs[0][at] for at in chosen]
        length = sum(spec.elements for spec in wanted)
        rows = [[_row([one[at] for at in chosen], length) for one in group] for group in (inputs, outputs)]
        yield rows[0], rows[1]


def _row(specs: list[TensorSpec], length: int) -> TensorSpec:
    """Returns one row of the elements; one of scalars is broadcast."""
    whole = flat(specs)
    return whole if whole.shape[0] == length else whole._replace(shape=(length,), strides=(0,))


def _is_list(value: object) -> bool:
    return isinstance(value, tuple | list) and not isinstance(value, TensorSpec) and any(isinstance(v, TensorSpec) for v in value)


_ADAM = _step("self grads exp_avgs exp_avg_sqs max_exp_avg_sqs", "self exp_avgs exp_avg_sqs max_exp_avg_sqs")
_SGD = _step("self grads momentum_buffer_list", "self momentum_buffer_list")
_ADAGRAD = _step("self grads state_sums", "self state_sums")

RULES: dict[str, Rule] = {
    **rows_of(_overwritten, {(): "_foreach_copy _foreach_zero"}),
    **rows_of(_reduced, {(1, 0): "_foreach_norm _foreach_max _foreach_powsum"}),
    **rows_of(_each, {(2, 0): "_amp_foreach_non_finite_check_and_unscale"}),
    **rows_of(_ADAM, {(13, 2): "_fused_adam _fused_adamw"}),
    **rows_of(_SGD, {(4, 0): "_fused_sgd"}),
    **rows_of(_ADAGRAD, {(5, 2): "_fused_adagrad"}),
}
"""Rules of operators on lists that are no list of a simple operator."""
