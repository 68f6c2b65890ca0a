"""PyTorch's database of modules, on the device and on the CPU: results and gradients are equal to the bit."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from twins import compare, onto, seed, tensors

pytestmark = pytest.mark.usefixtures("without_time")

ROUNDED: dict[str, str] = {
    name: "the CPU has code of its own for whole layers, chosen by the type of the device: the order of sums is another"
    for name in ("nn.GRU", "nn.GRUCell", "nn.LSTM", "nn.LSTMCell", "nn.RNN")
}
"""Modules that are equal but for rounding, and why. The test fails for one that is equal to the bit."""


def inputs(info: Any, training: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yields the samples of a module that can be computed, with their names and the module of each."""
    seed(0)
    samples = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    for number, sample in enumerate(samples):
        if sample.forward_input is not None:
            given = sample.constructor_input
            module = info.module_cls(*given.args, **given.kwargs).to(torch.float32).train(training)
            yield f"sample {number} {sample.desc}".strip(), module, sample


def lazy(info: Any, sample: Any, training: bool) -> Any:
    """Returns a module whose parameters are made at its first call. `to` would make others, without that."""
    given = sample.constructor_input
    return info.module_cls(*given.args, **given.kwargs, device="ahbm").train(training)


def steps(module: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns the results of a module, the gradients of its inputs and parameters, and its state."""
    seed(1)
    result = module(*args, **kwargs)
    outputs = [tensor for tensor in tensors([result]) if tensor.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    leaves = [tensor for tensor in tensors([args, kwargs]) if tensor.is_leaf and tensor.requires_grad]
    return {
        "result": result,
        "gradients": [leaf.grad for leaf in leaves],
        "parameters": {name: parameter.grad for name, parameter in module.named_parameters()},
        "state": {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)},
    }


def sweep(info: Any, values: str) -> tuple[int, list[str]]:
    """Compares all samples of a module, in training and evaluation; returns their number and the failures."""
    compared, failures = 0, []
    for training in (True, False):
        for name, module, sample in inputs(info, training):
            given = sample.forward_input
            place = f"{'train' if training else 'eval'}, {name}"
            twin = lazy(info, sample, training) if info.is_lazy else copy.deepcopy(module).to("ahbm")
            try:
                # Both get copies, whose tensors are leaves of autograd.
                expected = steps(module, onto(given.args, "cpu"), onto(given.kwargs, "cpu"))
                compare(place, expected, steps(twin, onto(given.args), onto(given.kwargs)), values)
                compared += 1
            except Exception as error:
                failures.append(f"{place}: {type(error).__name__}: {error}")
    return compared, failures


@pytest.mark.parametrize("info", module_db, ids=lambda info: info.name)
def test_a_module_is_equal_to_the_cpus(info: Any, device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared, failures = sweep(info, "bits")
        if info.name in ROUNDED:
            assert failures, f"it is equal: take it from the table ({ROUNDED[info.name]})"
            compared, failures = sweep(info, "close")
    assert not failures, "\n".join(failures)
    assert compared, "nothing was compared"


def test_the_table_names_only_modules() -> None:
    assert len(module_db) >= 100 and set(ROUNDED) <= {info.name for info in module_db}
