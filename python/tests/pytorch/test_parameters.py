"""Parameters stay themselves on their way to the device: tied ones stay tied, and optimizers that exist keep theirs.

PyTorch exchanges the data of a parameter between devices that it knows by name, and made new parameters for this one. So
GPT-2, BERT, T5 and every other model with tied weights became another model by `to("ahbm")`, without a word, and an
optimizer that was made before trained parameters that nothing used any more.
"""

from __future__ import annotations

import copy
import io
import weakref
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

VOCABULARY, CONTEXT, WIDTH = 24, 8, 16


class TiedGPT(nn.Module):
    """A language model with one block, whose output layer has the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ids.device)
        x = self.tokens(ids) + self.places(torch.arange(length, device=ids.device))
        return self.head(self.block(x, src_mask=mask, is_causal=True))  # type: ignore[no-any-return]


def model() -> TiedGPT:
    torch.manual_seed(0)
    return TiedGPT()


def optimizer_of(module: nn.Module) -> torch.optim.Optimizer:
    # PyTorch would update many tensors at a time on the device, and one after the other on the CPU.
    return torch.optim.AdamW(module.parameters(), lr=1e-2, foreach=False)


def train(module: nn.Module, optimizer: Any, device: str, steps: range) -> list[float]:
    """The losses of steps, whose numbers are the seeds of their batches and of dropout."""
    losses = []
    for step in steps:
        torch.manual_seed(step)
        ids = torch.randint(VOCABULARY, (2, CONTEXT + 1), generator=torch.Generator().manual_seed(step)).to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_equal(expected: nn.Module, found: nn.Module) -> None:
    other = found.state_dict()
    assert list(expected.state_dict()) == list(other)
    for name, value in expected.state_dict().items():
        assert other[name].device.type == "ahbm" and torch.equal(value, other[name].cpu()), name


def test_parameters_stay_themselves_when_a_module_moves(device: str) -> None:
    module = nn.Linear(3, 3)
    module(torch.ones(1, 3)).sum().backward()
    weight, gradient, watched = module.weight, module.weight.grad, weakref.ref(module.weight)
    values = weight.detach().clone()
    for where in (device, "ahbm:1", "cpu", device):
        assert module.to(where).weight is weight is watched() and weight.device.type == torch.device(where).type
        assert weight.grad is gradient and gradient is not None and gradient.device == weight.device
        assert torch.equal(weight.detach().cpu(), values)
    module(torch.ones(1, 3, device=device)).sum().backward()
    assert torch.equal(gradient.cpu(), torch.full((3, 3), 2.0)), "a backward pass of the CPU, then one of the device"
    assert module.to(torch.float64).weight is weight and weight.dtype == torch.float64


def test_tied_parameters_stay_tied_and_train_as_on_the_cpu(device: str) -> None:
    expected, found = model(), model().to(device)
    assert found.tokens.weight is found.head.weight and len(list(found.parameters())) == len(list(expected.parameters()))
    losses = train(expected, optimizer_of(expected), "cpu", range(5))
    assert train(found, optimizer_of(found), device, range(5)) == losses
    assert found.tokens.weight is found.head.weight
    assert_equal(expected, found)


def test_an_optimizer_that_was_made_before_the_move_trains_the_module(device: str) -> None:
    expected, found = model(), model()
    optimizer = optimizer_of(found)
    found.to(device)
    losses = train(expected, optimizer_of(expected), "cpu", range(4))
    assert train(found, optimizer, device, range(4)) == losses
    assert_equal(expected, found)


def test_training_is_resumed_from_a_file_as_nanogpt_does(device: str) -> None:
    whole = model()
    losses = train(whole, optimizer_of(whole), "cpu", range(6))

    begun = model().to(device)
    optimizer = optimizer_of(begun)
    first = train(begun, optimizer, device, range(3))
    file = io.BytesIO()
    torch.save({"model": begun.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)

    checkpoint = torch.load(file, map_location=device)
    resumed = TiedGPT()
    resumed.load_state_dict(checkpoint["model"])
    resumed.to(device)
    optimizer = optimizer_of(resumed)
    optimizer.load_state_dict(checkpoint["optimizer"])
    second = train(resumed, optimizer, device, range(3, 6))
    assert [*first, *second] == losses
    assert_equal(whole, resumed)


def test_a_copy_of_a_tied_module_is_tied(device: str) -> None:
    twin = copy.deepcopy(model().to(device))
    assert twin.tokens.weight is twin.head.weight


def test_the_data_of_a_parameter_can_be_assigned(device: str) -> None:
    parameter = nn.Parameter(torch.arange(4.0))
    parameter.data = parameter.data.to(device)
    parameter.sum().backward()
    assert parameter.device.type == device and parameter.grad is not None and parameter.grad.device.type == device
    parameter.data = torch.ones(2)
    assert parameter.tolist() == [1.0, 1.0] and parameter.device.type == "cpu"


def test_lazy_modules_and_subclasses_of_tensors_move(device: str) -> None:
    lazy = nn.LazyLinear(3).to(device)
    assert lazy(torch.ones(2, 5, device=device)).shape == (2, 3) and lazy.weight.device.type == device
    module = nn.Linear(3, 3)
    module.weight = nn.Parameter(TwoTensor(torch.ones(3, 3), torch.zeros(3, 3)))
    weight = module.weight
    assert module.to(device).weight is weight and weight.a.device.type == device  # type: ignore[attr-defined]


def test_other_devices_do_as_before(device: str) -> None:
    assert not torch.__future__.get_swap_module_params_on_conversion()
    assert not torch.__future__.get_overwrite_module_params_on_conversion()
    module = nn.Linear(2, 2)
    weight = module.weight
    assert module.to(torch.float64).weight is weight and module.to("meta").weight is not weight
    # PyTorch's own rule: dense tensors of devices that it knows exchange data, those without memory do not.
    dense, sparse, none = torch.ones(2), torch.ones(2).to_sparse(), torch.ones(2, device="meta")
    here = dense.to(device)
    kinds = {"dense": dense, "sparse": sparse, "none": none, "device": here}
    found = {(a, b) for a in kinds for b in kinds if torch._has_compatible_shallow_copy_type(kinds[a], kinds[b])}
    assert found == {(kind, kind) for kind in kinds} | {("dense", "device"), ("device", "dense")}
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        here.data = none
