"""PyTorch's database of operators, on the device and on the CPU: results and gradients are equal to the bit.

Each operator is called as a function, under autograd, in place and with `out=`, as far as it can be, with samples of
several types. Types, shapes, strides and devices of all results are compared, and their bits.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from twins import compare, onto, seed, tensors

pytestmark = pytest.mark.usefixtures("without_time")

SAMPLES = {torch.float32: 6, torch.int64: 2, torch.complex64: 2, torch.bool: 2, torch.bfloat16: 2, torch.float64: 1}
"""Number of samples of each type."""

UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
"""Operators whose results have no defined values."""

HOST = {"tensor_split"}
"""Operators that take indices in host memory, on every device."""


@dataclass(frozen=True)
class Known:
    """An operator that is not equal to the CPU's: why, in which ways to call it, and what is said."""

    reason: str
    said: str
    ways: frozenset[str] = frozenset({"call", "gradient"})


DENSE = Known("the device has dense tensors only", "has dense tensors only")
CUDA = Known("kernels that are compiled at run time exist for GPUs only", "Jiterator is only supported", frozenset({"call"}))
NO_SAMPLES = Known("the database has no sample for the CPU", "nothing was compared", frozenset({"call"}))

KNOWN: dict[str, Known] = {
    "jiterator_2inputs_2outputs": CUDA,
    "jiterator_4inputs_with_extra_args": CUDA,
    "jiterator_binary": CUDA,
    "jiterator_binary_return_by_ref": CUDA,
    "jiterator_unary": CUDA,
    "nn.functional.batch_norm without_cudnn": NO_SAMPLES,
    "sparse.mm reduce": DENSE,
    "sparse.sampled_addmm": DENSE,
    "to_sparse": DENSE,
    "torch._scaled_mm": NO_SAMPLES,
    "torch._scaled_mm_v2": NO_SAMPLES,
    "torch.ops.aten._efficient_attention_forward": NO_SAMPLES,
    "torch.ops.aten._flash_attention_forward": NO_SAMPLES,
}
"""Operators that are not equal. The test fails for one that is."""

CHOICE = "PyTorch composes it of others, chosen by the type of the device: the order of sums is another"

ROUNDED: dict[str, str] = {
    "nn.functional.linear_cross_entropy chunked": CHOICE,
    "nn.functional.linear_cross_entropy chunked_none": CHOICE,
}
"""Operators that are equal but for rounding. The test fails for one that is equal to the bit."""

VARYING = {"linalg.lstsq", "linalg.lstsq grad_oriented"} if torch.__version__.startswith("2.11.") else set()
"""Operators whose bits differ from call to call on the CPU itself."""


def name(op: Any) -> str:
    """Returns the name of an entry of the database, with its variant."""
    return f"{op.name} {op.variant_test_name}".strip()


# ---- Ways to call an operator -----------------------------------------------------------------


def call(op: Any, sample: Any) -> Any:
    return op(sample.input, *sample.args, **sample.kwargs)


def gradient(op: Any, sample: Any) -> Any:
    result = call(op, sample)
    outputs = [tensor for tensor in tensors(sample.output_process_fn_grad(result)) if tensor.requires_grad]
    inputs = [tensor for tensor in tensors([sample.input, sample.args, sample.kwargs]) if tensor.requires_grad]
    if not outputs or not inputs:
        return result
    return [result, list(torch.autograd.grad(outputs, inputs, [torch.ones_like(one) for one in outputs], allow_unused=True))]


def in_place(op: Any, sample: Any) -> Any:
    target = sample.input.clone()
    return [op.inplace_variant(target, *sample.args, **sample.kwargs), target]


def into(op: Any, sample: Any) -> Any:
    result = call(op, sample)
    seed(1)
    if isinstance(result, torch.Tensor):
        out: Any = result.new_empty(0)
    else:
        out = tuple(part.new_empty(0) for part in result)
    return [op(sample.input, *sample.args, out=out, **sample.kwargs), out]


WAYS: dict[str, Callable[[Any, Any], Any]] = {"call": call, "gradient": gradient, "in place": in_place, "out=": into}


def ways(op: Any, dtype: torch.dtype) -> Iterator[str]:
    """Yields the ways in which an operator can be called with a type."""
    yield "call"
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        yield "gradient"
    if op.inplace_variant is not None:
        yield "in place"
    if op.supports_out:
        yield "out="


def samples(op: Any, dtype: torch.dtype, requires_grad: bool, count: int) -> list[Any]:
    """Returns the first samples of an operator. `OpInfo.sample_inputs` looks for a test in the stack each time."""
    seed(0)
    with torch.no_grad():
        return list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, requires_grad), count))


# ---- The comparison ---------------------------------------------------------------------------


class Sweep:
    """Calls of one operator on both devices."""

    def __init__(self, op: Any, exact: bool = True) -> None:
        self.op, self.exact = op, exact
        self.compared = 0
        self.failures: list[tuple[str, str]] = []

    def run(self) -> None:
        """Compares all ways and types. Failures are noted, in words."""
        for dtype, count in SAMPLES.items():
            if dtype in self.op.supported_dtypes("cpu"):
                for way in ways(self.op, dtype):
                    self._compare(way, dtype, count)
        if not self.compared and not self.failures:
            self.failures.append(("call", "nothing was compared"))

    def _compare(self, way: str, dtype: torch.dtype, count: int) -> None:
        for number, sample in enumerate(samples(self.op, dtype, way == "gradient", count)):
            if way == "in place" and sample.broadcasts_input:
                continue
            place = f"{way}, {dtype}, sample {number}"
            copy = self._copy(sample)
            seed(1)
            try:
                expected = WAYS[way](self.op, sample)
            except Exception as error:
                # The database has a few samples that the CPU refuses, most of them where a result's type is another.
                if way in ("call", "gradient"):
                    self.failures.append((way, f"{place}: on the CPU: {error}"))
                continue
            seed(1)
            try:
                compare(place, expected, WAYS[way](self.op, copy), self._values())
                self.compared += 1
            except Exception as error:
                self.failures.append((way, f"{place}: {type(error).__name__}: {error}"))

    def _values(self) -> str:
        return "unset" if self.op.name in UNSET else "bits" if self.exact else "close"

    def _copy(self, sample: Any) -> Any:
        copy = type(sample)(
            onto(sample.input),
            args=sample.args if self.op.name in HOST else onto(sample.args),
            kwargs=onto(sample.kwargs),
        )
        copy.output_process_fn_grad = sample.output_process_fn_grad
        return copy


@pytest.mark.parametrize("op", op_db, ids=name)
def test_an_operator_is_equal_to_the_cpus(op: Any) -> None:
    sweep = swept(op, exact=name(op) not in VARYING)
    if reason := ROUNDED.get(name(op)):
        assert sweep.failures, f"it is equal: take it from the table ({reason})"
        sweep = swept(op, exact=False)
    if known := KNOWN.get(name(op)):
        assert sweep.failures, f"it is equal: take it from the table ({known.reason})"
        other = [text for _way, text in sweep.failures if not re.search(known.said, text)]
        assert not other, "\n".join(other)
        assert {way for way, _text in sweep.failures} == known.ways, "other ways than the table says"
    else:
        assert not sweep.failures, "\n".join(text for _way, text in sweep.failures)


def swept(op: Any, exact: bool = True) -> Sweep:
    sweep = Sweep(op, exact)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sweep.run()
    return sweep


@pytest.mark.skipif(not torch.__version__.startswith("2.15."), reason="the table is that of PyTorch 2.15")
def test_at_least_665_operators_are_equal_and_the_table_names_only_operators() -> None:
    assert {*KNOWN, *ROUNDED} <= {name(op) for op in op_db}
    assert len(op_db) - len(KNOWN) - len(ROUNDED) >= 665
