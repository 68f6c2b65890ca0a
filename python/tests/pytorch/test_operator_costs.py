"""Descriptions of operators: against PyTorch's tags, its database of operators, its counter of FLOPs and tensors' bytes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operator_double import Recorder
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils.flop_counter import FlopCounterMode

from cubeyard.errors import InputError, KernelError
from cubeyard.torch import operators
from cubeyard.torch.operators import Cost, TensorSpec, cost, kernels
from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.cost import _cost, _estimated, describe
from cubeyard.torch.operators.dispatch import Calls
from cubeyard.torch.operators.table import FREE, TABLE, rule, takes_no_time

Seen = list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """A double in the place of the machine, with nothing remembered."""
    double = Recorder()
    monkeypatch.setattr(kernels, "simulator", double)
    _estimated.clear()
    for kept in (kernels.time, _cost):
        kept.cache_clear()
    yield double
    for kept in (kernels.time, _cost):
        kept.cache_clear()


def calls(program: Callable[[], Any]) -> Seen:
    """Returns the operators of a program in order."""
    seen: Seen = []
    with Calls(lambda *call: seen.append(call)):
        program()
    return seen


def spec(*shape: int, dtype: torch.dtype = torch.float32) -> TensorSpec:
    """Returns a tensor that lies row after row."""
    made = torch.empty(shape, dtype=dtype, device="meta")
    return TensorSpec(shape, made.stride(), str(dtype).removeprefix("torch."), made.element_size())


def names() -> dict[str, list[torch._ops.OpOverload]]:
    """Returns PyTorch's operators by name, with their overloads."""
    found: dict[str, list[torch._ops.OpOverload]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::"):
            name, _, overload = full.removeprefix("aten::").partition(".")
            packet = getattr(torch.ops.aten, name, None)
            if packet is not None and (overload or "default") in packet.overloads():
                found.setdefault(name, []).append(getattr(packet, overload or "default"))
    return found


def test_every_name_of_the_table_is_an_operator() -> None:
    known = names()
    missing = [key for key in TABLE if key.partition(".")[0] not in known and key.partition(".")[0] + "_" not in known]
    # Names that later or earlier versions of PyTorch have may be missing in this one, but not many.
    assert len(missing) <= len(TABLE) // 50, missing
    assert len(TABLE) > 500


def test_every_operator_that_pytorch_calls_pointwise_has_a_rule() -> None:
    tagged = [str(op._schema.name) for ops in names().values() for op in ops if torch.Tag.pointwise in op.tags]
    assert len(set(tagged)) > 250
    assert [name for name in sorted(set(tagged)) if rule(name) is None] == []


def test_every_reduction_and_random_operator_has_a_rule() -> None:
    tags = (torch.Tag.reduction,) if hasattr(torch.Tag, "reduction") else ()
    tagged = {str(op._schema.name) for ops in names().values() for op in ops if any(tag in op.tags for tag in tags)}
    assert [name for name in sorted(tagged) if rule(name) is None] == []


def test_lists_of_simple_operators_have_rules() -> None:
    listed = [f"aten::{name}" for name in names() if name.startswith("_foreach_")]
    assert len(listed) > 80
    assert [name for name in listed if rule(name) is None] == []


def test_no_operator_has_a_rule_and_takes_no_time() -> None:
    assert sorted(FREE & set(TABLE)) == []


def test_views_and_metadata_take_no_time(machine: Recorder) -> None:
    x = torch.zeros(4, 6)
    views = calls(
        lambda: (x.view(24), x.t(), x.permute(1, 0), x[1:], x[0], x.expand(2, 4, 6), x.detach(), x.unfold(0, 2, 1), torch.empty_like(x))
    )
    assert len(views) >= 9
    assert [cost(*call) for call in views] == [None] * len(views)
    assert machine.kernels == []


SKIPPED = ("linalg", "jiterator", "fft", "sparse", "to_sparse", "masked.", "ops.", "nn.functional.linear_cross_entropy")
"""Entries of the database that run operators of other packages, or linear algebra, which has no rule."""

EXACT = {"elements", "created", "_each", "gelu", "halves", "plain", "linear", "vector", "softmax", "scan", "layer_norm", "convolution"}
"""Functions that describe a call with all bytes of its tensors, and no more."""


@pytest.mark.parametrize("part", range(8))
def test_the_database_of_operators_is_described_with_the_bytes_of_its_tensors(machine: Recorder, part: int) -> None:
    """Runs each operator of PyTorch's database, forward and backward, and prices what reaches the device."""
    warnings.filterwarnings("ignore")
    refused: Counter[str] = Counter()
    exact: Counter[str] = Counter()

    def seen(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> None:
        if takes_no_time(op) or rule(op) is None or not op.startswith("aten::"):
            return
        try:
            found = cost(op, arguments, results)
            parts = describe(op, arguments, results)
        except NotDescribed as error:
            refused[f"{op}: {error}"] += 1
            return
        if parts and rule(op).describe.__name__ in EXACT:  # type: ignore[union-attr]
            moved = _moved(op, arguments, results)
            assert found is not None and found.bytes == moved, (op, arguments, results, parts)
            exact[op] += 1

    with Calls(seen):
        for entry in _entries(part):
            _sampled(entry)
    assert refused == {}
    assert sum(exact.values()) > 20


def _moved(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> int:
    """Returns the bytes of a call's tensors; those that it makes or overwrites are not read."""
    call = Call(op, arguments, results)
    reads = [] if rule(op).describe.__name__ == "created" else call.reads  # type: ignore[union-attr]
    return sum(one.bytes for one in (*reads, *call.writes))


def _entries(part: int) -> list[Any]:
    kept = [entry for entry in op_db if not entry.name.startswith(SKIPPED) and torch.float32 in entry.dtypes]
    return kept[part::8]


def _sampled(entry: Any) -> None:
    """Runs up to two samples of an entry, with a gradient of random numbers where it has one."""
    learns = entry.supports_autograd
    for number, sample in zip(range(2), entry.sample_inputs("cpu", torch.float32, requires_grad=learns), strict=False):
        del number
        try:
            out = entry.op(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, NotImplementedError):
            continue  # Some samples need a feature that this build of PyTorch does not have.
        listed = out if isinstance(out, tuple | list) else [out]
        ends = [one for one in listed if isinstance(one, torch.Tensor) and one.requires_grad and one.numel()]
        if ends:
            torch.autograd.backward(ends, [torch.randn_like(one) for one in ends])


def leaf(*shape: int) -> torch.Tensor:
    """Returns a random tensor that has a gradient."""
    return torch.randn(*shape, requires_grad=True)


def _convolution(groups: int, **options: Any) -> Callable[[], Any]:
    weight = leaf(8, 6 // groups, 3, 2)
    return lambda: torch.nn.functional.conv2d(leaf(3, 6, 11, 9), weight, leaf(8), groups=groups, **options).square().sum().backward()


PRODUCTS: dict[str, Callable[[], Any]] = {
    "mm": lambda: (leaf(3, 5) @ leaf(5, 7)).square().sum().backward(),
    "addmm": lambda: torch.addmm(leaf(7), leaf(3, 5), leaf(5, 7), alpha=2).square().sum().backward(),
    "bmm": lambda: (leaf(2, 3, 5) @ leaf(2, 5, 7)).square().sum().backward(),
    "baddbmm": lambda: torch.baddbmm(leaf(1, 3, 7), leaf(2, 3, 5), leaf(2, 5, 7)).square().sum().backward(),
    "linear": lambda: torch.nn.functional.linear(leaf(2, 4, 5), leaf(6, 5), leaf(6)).square().sum().backward(),
    "einsum": lambda: torch.einsum("abc,dc->abd", leaf(2, 3, 4), leaf(5, 4)).square().sum().backward(),
    "conv": _convolution(1),
    "conv stride": _convolution(1, stride=2, padding=1),
    "conv dilation": _convolution(1, dilation=(2, 3)),
    "conv1d": lambda: torch.nn.functional.conv1d(leaf(2, 4, 9), leaf(6, 4, 3), padding=2).square().sum().backward(),
    "conv3d": lambda: torch.nn.functional.conv3d(leaf(2, 4, 5, 6, 7), leaf(6, 4, 3, 2, 2)).square().sum().backward(),
    "conv transpose": lambda: torch.nn.functional.conv_transpose2d(leaf(2, 4, 5, 6), leaf(4, 6, 3, 2), stride=2).square().sum().backward(),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(leaf(2, 4, 6, 8), leaf(2, 4, 10, 8), leaf(2, 4, 10, 8)).square().sum().backward(),
    "causal": lambda: torch.nn.functional.scaled_dot_product_attention(
        leaf(2, 4, 6, 8), leaf(2, 4, 6, 8), leaf(2, 4, 6, 8), is_causal=True
    ).square().sum().backward(),
}
"""Programs of products, attention and convolutions, with their derivatives."""


@pytest.mark.parametrize("name", PRODUCTS)
def test_flops_are_those_of_pytorchs_counter(machine: Recorder, name: str) -> None:
    counter = FlopCounterMode(display=False)
    with counter:
        seen = calls(PRODUCTS[name])
    found = sum(one.flops for call in seen if (one := cost(*call)) is not None)
    assert found == counter.get_total_flops() > 0


def test_each_derivative_of_a_grouped_convolution_has_the_flops_of_the_forward(machine: Recorder) -> None:
    """PyTorch's counter is right for the forward only: it counts the derivative of the weight without groups."""
    counter = FlopCounterMode(display=False)
    seen = calls(_convolution(2, stride=(2, 1)))
    forward, backward = (call for call in seen if call[0].startswith("aten::convolution"))
    with counter:
        torch.nn.functional.conv2d(leaf(3, 6, 11, 9), leaf(8, 3, 3, 2), groups=2, stride=(2, 1))
    assert cost(*forward).flops == counter.get_total_flops() > 0  # type: ignore[union-attr]
    assert cost(*backward).flops == 2 * counter.get_total_flops()  # type: ignore[union-attr]


def test_equal_layouts_are_simulated_once(machine: Recorder) -> None:
    x = torch.zeros(4, 6, 8)
    for program in (lambda: x + x, lambda: x.view(24, 8) * x.view(24, 8), lambda: x.permute(2, 0, 1) - x.permute(2, 0, 1)):
        for call in calls(program):
            cost(*call)
    assert len(machine.kernels) == 1
    assert machine.kernels[0][1][0].shape == (192,)


def test_arguments_without_a_hash_are_priced_like_tuples(machine: Recorder) -> None:
    x, result = spec(4, 6), spec(4)
    listed = cost("aten::sum.dim_IntList", (x, [1], False, None), (result,))
    assert listed == cost("aten::sum.dim_IntList", (x, (1,), False, None), (result,))
    assert len(machine.kernels) == 1


def test_missing_arguments_have_their_defaults(machine: Recorder) -> None:
    x = spec(4, 6)
    assert cost("aten::sum", (x,), (spec(),)) == cost("aten::sum", (x, None), (spec(),))


def test_a_bool_and_an_integer_are_different_arguments(machine: Recorder) -> None:
    q = spec(1, 2, 8, 4)
    for causal in (False, True):
        cost("aten::_scaled_dot_product_flash_attention_for_cpu", (q, q, q, 0.0, causal), (q, spec(1, 2, 8)))
    assert [options["causal"] for *_, options in machine.kernels] == [False, True]


def test_an_operator_without_a_rule_is_an_estimate_and_is_counted(machine: Recorder) -> None:
    op = "aten::linalg_inv_ex"
    before = operators.estimated().get(op)
    found = cost(op, (spec(64, 64), False), (spec(64, 64), spec(dtype=torch.int32)))
    assert found is not None and found.is_estimate and found.bytes == 2 * 64 * 64 * 4 + 4
    after = operators.estimated()[op]
    assert after.calls == (before.calls if before else 0) + 1
    assert "no rule" in after.reason


@pytest.mark.parametrize("kind", [InputError, KernelError])
def test_a_refusal_of_the_machine_is_an_estimate_with_its_reason(
    machine: Recorder, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def refuse(*_: Any) -> Any:
        raise kind("columns: too many")

    monkeypatch.setattr(kernels, "simulator", refuse)
    found = cost("aten::mm", (spec(4, 4), spec(4, 4)), (spec(4, 4),))
    assert found is not None and found.is_estimate
    assert operators.estimated()["aten::mm"].reason == "columns: too many"


def test_long_rows_take_several_kernels(machine: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(family: str, *rest: Any) -> Any:
        if family == "rows":
            raise InputError("columns: too many")
        return machine(family, *rest)

    monkeypatch.setattr(kernels, "simulator", short)
    x, weight, row = spec(3, 5, 64), spec(64), spec(3, 5, 1)
    softmax = cost("aten::_softmax", (x, -1, False), (x,))
    norm = cost("aten::native_layer_norm", (x, (64,), weight, weight, 1e-5), (x, row, row))
    assert softmax is not None and norm is not None
    assert softmax.kernel == norm.kernel == "reduce + pointwise"
    assert softmax.bytes == 2 * (x.bytes + row.bytes) + 2 * x.bytes


def test_a_registered_cost_is_used(machine: Recorder) -> None:
    scaled = "cubeyard_tests_cost::scaled"

    @torch.library.custom_op(scaled, mutates_args=())
    def scale(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    call = next(call for call in calls(lambda: scale(torch.zeros(4, 6))) if call[0] == scaled)
    assert cost(*call).is_estimate  # type: ignore[union-attr]
    operators.register_cost(scaled, lambda given, results: [operators.pointwise(given[:1], results, operators.Counts(simple=1))])
    assert cost(*call).kernel == "pointwise"  # type: ignore[union-attr]
    operators.register_cost(scaled, lambda given, results: Cost(7, "mine", 8))
    assert cost(*call) == Cost(7, "mine", 8)
    operators.register_cost(scaled, lambda given, results: None)
    assert cost(*call) is None
    with pytest.raises(InputError, match="`scaled`: expected a name with its namespace"):
        operators.register_cost("scaled", lambda given, results: None)
