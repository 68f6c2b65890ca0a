"""Operators with kernels of their own: layers that PyTorch leaves to the device."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from twins import compare, onto


def trained(module: torch.nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Returns the result of a module and all gradients."""
    inputs = tuple(value.clone().requires_grad_() for value in inputs)
    result = module(*inputs)
    while isinstance(result, tuple):
        result = result[0]
    result.square().sum().backward()
    return [result.detach(), *[value.grad for value in (*inputs, *module.parameters())]]


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: torch.nn.Conv1d(4, 6, 3), (2, 4, 9)),
        (lambda: torch.nn.Conv2d(4, 6, 3, padding=1, stride=2, groups=2), (2, 4, 9, 8)),
        (lambda: torch.nn.Conv2d(4, 6, 3, bias=False, dilation=2), (2, 4, 9, 8)),
        (lambda: torch.nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (lambda: torch.nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2), (2, 4, 5, 5)),
        (lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0), (2, 5, 8)),
        (lambda: torch.nn.BatchNorm2d(4), (3, 4, 5, 5)),
        (lambda: torch.nn.GroupNorm(2, 4), (3, 4, 5)),
        (lambda: torch.nn.LayerNorm(5), (3, 4, 5)),
    ],
)
def test_layers_are_the_cpus_to_the_bit(device: str, make: Callable[[], torch.nn.Module], shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    module, data = make(), torch.randn(shape)
    assert compare("layer", trained(module, data), trained(copy.deepcopy(module).to(device), onto(data))) > 1


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers(device: str, kind: type[torch.nn.Module], bias: bool) -> None:
    torch.manual_seed(1)
    module, data = kind(5, 7, 2, bias=bias, bidirectional=True), torch.randn(4, 3, 5)
    expected = trained(module, data)
    found = trained(copy.deepcopy(module).to(device), data.to(device))
    assert len(expected) == len(found) > 8
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.cpu(), one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_gradients_of_recurrent_cells_are_their_derivatives(device: str, kind: type[torch.nn.Module]) -> None:
    torch.manual_seed(1)
    cell = kind(3, 4).to(torch.float64).to(device)
    data = torch.randn(2, 3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: cell(x), (data,))


def test_packed_sequences(device: str) -> None:
    torch.manual_seed(1)
    data, lengths = torch.randn(3, 5, 4), torch.tensor([5, 2, 1])
    module = torch.nn.LSTM(4, 6, batch_first=True)
    pack, unpack = torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence
    expected, _ = unpack(module(pack(data, lengths, batch_first=True))[0])
    found, sizes = unpack(module.to(device)(pack(data.to(device), lengths, batch_first=True))[0])
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-6)
    assert sizes.tolist() == [5, 2, 1]


@pytest.mark.parametrize("causal", [True, False])
def test_attention_takes_the_way_of_the_cpu(device: str, causal: bool) -> None:
    torch.manual_seed(1)
    data = [torch.randn(2, 4, 9, 16, requires_grad=True) for _ in range(3)]

    def attention(*parts: torch.Tensor) -> list[torch.Tensor]:
        result = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal)
        return [result, *torch.autograd.grad(result.square().sum(), parts)]

    assert compare("attention", attention(*data), attention(*onto(data))) == 4


def test_dropout_draws_from_the_generator_of_the_device(device: str) -> None:
    data = torch.ones(100, device=device)
    torch.manual_seed(4)
    first = torch.nn.functional.dropout(data, 0.4)
    torch.rand(5)  # The CPU's generator goes on, the device's does not.
    torch.ahbm.manual_seed(4)
    assert torch.equal(torch.nn.functional.dropout(data, 0.4), first)
    torch.manual_seed(4)
    assert torch.equal(torch.nn.functional.dropout(torch.ones(100), 0.4), first.cpu())
    assert torch.equal(torch.nn.functional.dropout(data, 0.4, training=False), data)
    assert torch.nn.functional.dropout(data, 1.0).sum().item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_lowers_and_raises_precision(device: str, dtype: torch.dtype) -> None:
    left, right = torch.randn(3, 4, device=device), torch.randn(4, 5, device=device)
    with torch.autocast(device, dtype=dtype):
        product = left @ right
        assert product.dtype == dtype
        assert product.exp().dtype == torch.float32
        assert torch.nn.functional.softmax(product, 0).dtype == torch.float32
        assert torch.cat([product, product.float()]).dtype == torch.float32
    assert torch.equal(product, left.to(dtype) @ right.to(dtype))
    assert (left @ right).dtype == torch.float32


def test_a_tensor_that_is_lazily_cloned_is_copied_when_it_is_written_to(device: str) -> None:
    tensor = torch.ones(3, device=device)
    clone = torch._lazy_clone(tensor)
    clone.add_(1)
    assert (tensor.tolist(), clone.tolist()) == ([1, 1, 1], [2, 2, 2])


def test_steps_of_training_are_the_cpus_to_the_bit(device: str) -> None:
    torch.manual_seed(2)
    model = torch.nn.Sequential(
        torch.nn.Embedding(11, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 11)
    )
    models = {"cpu": model, device: copy.deepcopy(model).to(device)}
    words = torch.randint(11, (4, 7))
    losses: dict[str, list[float]] = {}
    for place, module in models.items():
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        losses[place] = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(words.to(place)).flatten(0, 1), words.to(place).flatten())
            loss.backward()
            optimizer.step()
            losses[place].append(loss.item())
    assert losses[device] == losses["cpu"] and losses[device][-1] < losses[device][0]
