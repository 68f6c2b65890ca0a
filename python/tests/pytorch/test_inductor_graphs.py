"""`torch.compile` with Inductor on the device: graphs whose results and gradients are those of the CPU without a compiler."""

from __future__ import annotations

import copy

import pytest
import torch
from compiled import DEVICE, error, moved, same, same_module, weighted
from torch import nn
from torch.nn import functional


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forgets the graphs of other tests, and seeds the random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.ahbm.manual_seed(0)


def leaf(*shape: int) -> torch.Tensor:
    """Returns random numbers that want a gradient."""
    return torch.randn(*shape).requires_grad_()


class Block(nn.Module):
    """A block of a transformer, without dropout."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attends causally, then transforms each position."""
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.mix(self.first(x)).chunk(3, -1))
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Words(nn.Module):
    """A model of words whose first and last weights are one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(12, 16), nn.Linear(16, 12, bias=False)
        self.norm, self.head.weight = nn.LayerNorm(16), self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns a score for each word after each position."""
        return self.head(torch.tanh(self.norm(self.table(tokens)).cumsum(1)))


def test_perceptron() -> None:
    same_module(nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.Linear(24, 5), nn.Softmax(-1)), torch.randn(7, 8))


def test_block_of_a_transformer() -> None:
    same_module(Block(), torch.randn(2, 9, 16))


def test_repeated_tokens_add_their_gradients_to_a_tied_table() -> None:
    tokens = torch.randint(0, 4, (3, 20))
    compiled = same_module(Words(), tokens)
    assert compiled.head.weight is compiled.table.weight


def test_dropout_has_one_mask_for_both_directions() -> None:
    x = torch.ones(64, 256, device=DEVICE, requires_grad=True)
    drop = torch.compile(lambda x: functional.dropout(x * 1.0, 0.25) * 3)
    y = drop(x)
    y.backward(torch.ones_like(y))
    assert torch.equal(y.detach(), x.grad), "the mask of the backward pass is that of the forward pass"
    kept = float((y != 0).float().mean())
    assert abs(kept - 0.75) < 0.01 and torch.equal(y[y != 0].unique(), torch.full((1,), 4.0, device=DEVICE))
    assert not torch.equal(drop(x), y), "each call draws anew"
    torch.ahbm.manual_seed(5)
    first = drop(x)
    torch.ahbm.manual_seed(5)
    assert torch.equal(drop(x), first)


def test_random_numbers_have_their_distribution() -> None:
    normal, uniform = torch.compile(lambda x: (torch.randn_like(x), torch.rand_like(x)))(torch.empty(128, 128, device=DEVICE))
    assert abs(float(normal.mean())) < 0.03 and abs(float(normal.std()) - 1) < 0.03
    assert abs(float(uniform.mean()) - 0.5) < 0.01 and 0 <= float(uniform.min()) and float(uniform.max()) < 1


def test_optimizer_with_many_tensors_at_a_time() -> None:
    model = nn.Linear(5, 3)
    twin, x = copy.deepcopy(model).to(DEVICE), torch.randn(4, 5)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.1, foreach=True) for one in (model, twin)]
    for one, given in ((model, x), (twin, x.to(DEVICE))):
        weighted(one(given)).backward()
    for optimizer, step in zip(optimizers, (optimizers[0].step, torch.compile(optimizers[1].step)), strict=True):
        step()
        step()
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        assert error(one, other) < 1e-5


def test_dynamic_sizes_compile_once() -> None:
    from torch._dynamo.utils import counters

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * x.shape[0], -1).cumsum(0)

    counters.clear()
    compiled = torch.compile(scaled, dynamic=True)
    for rows, columns in ((3, 5), (8, 17), (33, 6)):
        x = torch.randn(rows, columns)
        assert error(compiled(x.to(DEVICE)), scaled(x)) < 1e-5
    assert counters["stats"]["unique_graphs"] == 1


def test_autocast_computes_in_bfloat16() -> None:
    model, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(8, 16)
    twin = copy.deepcopy(model).to(DEVICE)
    with torch.autocast("cpu", torch.bfloat16):
        expected = model(x)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = torch.compile(twin)(x.to(DEVICE))
    assert found.dtype == torch.bfloat16 == expected.dtype and error(found, expected) < 2e-2
    weighted(expected).backward()
    weighted(found).backward()
    for one, other in zip(twin.parameters(), model.parameters(), strict=True):
        assert error(one.grad, other.grad) < 3e-2


def test_views_and_other_strides_as_inputs() -> None:
    base = torch.randn(12, 10)
    same(lambda a, b: (a * b.exp()).sum(-1), base.t(), torch.randn(10, 12))
    same(lambda a: a[1:, ::2] + 1, base)
    same(lambda a, b: a @ b.mT + a.sum(), leaf(4, 6), leaf(5, 6))
    same(lambda a: a.expand(3, 4).contiguous() + 1, torch.randn(4))


def test_changed_inputs_and_aliases() -> None:
    def change(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(b)
        b[0].mul_(2)
        return a.view(-1)[:3]

    same(change, torch.randn(4, 5), torch.randn(4, 5))
    x = torch.randn(4, 5).to(DEVICE)
    expected = x.clone()
    view = torch.compile(lambda a: a.view(-1))(x)
    view.add_(1)
    assert torch.equal(x, expected + 1), "a view of an input is an alias"

    def both(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(3)
        return b + 1

    assert error(torch.compile(both)(x, x[1:]), (expected[1:] + 1) * 3 + 1) < 1e-6, "inputs share memory"


def test_two_graphs_share_memory() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2)
        torch._dynamo.graph_break()
        y.add_(x)
        return y.sum(0) * y

    same(halves, torch.randn(6, 7))


def test_empty_tensors() -> None:
    found = same(lambda a: (a.exp().sum(0), a * 2), torch.randn(0, 4))
    assert found[1].shape == (0, 4)


def test_reductions_scans_sorts_and_scatters() -> None:
    x, index = torch.randn(17, 9), torch.randint(0, 4, (17,))
    same(lambda a: (a.var(0), a.argmax(1), a.amin(), a.logsumexp(1), a.prod(0)), x)
    same(lambda a: (a.cumprod(0), a.cummax(1)[0], torch.sort(a, dim=1)[0]), x)
    same(lambda a, i: torch.zeros(4, 9, device=a.device).index_add(0, i, a), leaf(17, 9), index)
    same(lambda a, i: a.gather(0, i[:, None].expand(17, 9)).masked_fill(a > 1, 0.5), leaf(17, 9), index)


def test_convolutions_agree_with_the_strides_that_were_predicted() -> None:
    # The gradient of a bias before a normalization is 0, so there is none.
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1))
    same_module(model, torch.randn(2, 3, 8, 8))


def test_functions_of_the_vector_unit() -> None:
    x = torch.rand(64) * 0.9 + 0.05
    same(lambda a: (a.tanh(), a.erf(), a.log1p(), a.expm1(), a.asin(), a.lgamma(), a.sinh(), a.atan2(a + 1), a.pow(1.7)), x)
    same(lambda a: (a // 0.3, a % 0.3, a.round(), a.frac(), torch.fmod(a, 0.4), a.sign(), a.nan_to_num()), x)


def test_integers_and_booleans() -> None:
    i = torch.randint(-50, 50, (40,))
    same(lambda a: (a // 7, a % 7, a << 2, a ^ 5, ~a, (a > 3) & (a < 9), a.abs().bitwise_and(6), a.sum(), a.max()), i)


def test_an_input_on_the_cpu_is_refused_or_right() -> None:
    x = torch.randn(4, device=DEVICE)
    assert error(torch.compile(lambda a, b: a * b)(x, torch.tensor(3.0)), x.cpu() * 3) == 0.0


def test_moved_copies_have_the_same_strides() -> None:
    assert moved(torch.randn(3, 4).t()).stride() == (1, 4)
