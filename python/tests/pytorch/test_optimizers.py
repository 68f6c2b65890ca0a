"""PyTorch's database of optimizers, on the device and on the CPU: parameters and states are equal to the bit."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db
from twins import compare, onto

pytestmark = pytest.mark.usefixtures("without_time")

STEPS = 4
"""Steps of each optimizer."""

KNOWN: dict[tuple[str, str], tuple[str, str]] = {
    ("SparseAdam", "loop"): ("the device has dense tensors only", "has dense tensors only"),
}
"""Optimizers and implementations that are not equal: why, and what is said. The test fails for one that is."""


def implementations() -> list[tuple[Any, str]]:
    """Returns all optimizers with each of their implementations."""
    found = []
    for info in optim_db:
        found.append((info, "loop"))
        found += [(info, kind) for kind in ("foreach", "fused") if kind in info.supported_impls]
    return found


def keywords(info: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Yields the settings of an optimizer in the database, for one implementation."""
    for sample in info.optim_inputs_func(device="cpu"):
        given = dict(sample.kwargs)
        if any(given.get(other) for other in ("foreach", "fused", "differentiable", "capturable")):
            continue
        if kind == "loop" and "foreach" in info.supported_impls:
            given["foreach"] = False
        elif kind != "loop":
            given[kind] = True
        yield given


def parameters(info: Any) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (5, 2)] if info.optim_cls.__name__ == "Muon" else [(3, 4), (7,), ()]
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def run(info: Any, weights: list[torch.nn.Parameter], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters and the optimizer's state after some steps."""
    optimizer = info.optim_cls(weights, **given)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = sum(((weight - 1) ** 2).sum() for weight in weights)
        loss.backward()
        if info.only_supports_sparse_grads:
            for weight in weights:
                weight.grad = weight.grad.to_sparse()
        return loss

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    state = {
        f"{number}.{name}": value
        for number, weight in enumerate(weights)
        for name, value in sorted(optimizer.state[weight].items())
        # What only depends on the number of steps is on the CPU, unless an optimizer is asked to keep it on the device.
        if isinstance(value, torch.Tensor) and name not in ("step", "mu_product")
    }
    return {"parameters": [weight.data for weight in weights], "state": state}


def sweep(info: Any, kind: str) -> tuple[int, list[str]]:
    compared, failures = 0, []
    for given in keywords(info, kind):
        place = ", ".join(f"{name}={value}" for name, value in given.items()) or "defaults"
        weights = parameters(info)
        twins = [torch.nn.Parameter(onto(weight.data)) for weight in weights]
        try:
            expected = run(info, weights, copy.deepcopy(given))
        except Exception as error:
            failures.append(f"{place}: on the CPU: {error}")
            continue
        try:
            compare(place, expected, run(info, twins, onto(copy.deepcopy(given))))
            compared += 1
        except Exception as error:
            failures.append(f"{place}: {type(error).__name__}: {error}")
    return compared, failures


@pytest.mark.parametrize(
    ("info", "kind"), implementations(), ids=[f"{info.optim_cls.__name__}-{kind}" for info, kind in implementations()]
)
def test_an_optimizer_is_equal_to_the_cpus(info: Any, kind: str, device: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared, failures = sweep(info, kind)
    known = KNOWN.get((info.optim_cls.__name__, kind))
    if known is None:
        assert not failures, "\n".join(failures)
        assert compared, "nothing was compared"
        return
    reason, said = known
    assert failures, f"it is equal: take it from the table ({reason})"
    assert not [text for text in failures if not re.search(said, text)], "\n".join(failures)


def test_the_table_names_only_optimizers() -> None:
    assert set(KNOWN) <= {(info.optim_cls.__name__, kind) for info, kind in implementations()}
