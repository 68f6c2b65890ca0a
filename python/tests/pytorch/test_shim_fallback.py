"""Operators that run the CPU's kernels: each kind of argument and result gives what it gives on the CPU."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from twins import compare, onto


def allocations() -> int:
    return torch.accelerator.memory_stats()["allocation.all.allocated"]


def same(operator: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """Compares results of an operator, and its arguments afterwards, with the CPU's to the bit."""
    moved, moved_keywords = onto(arguments), onto(keywords)
    torch.manual_seed(3)
    expected = operator(*arguments, **keywords)
    torch.manual_seed(3)
    found = operator(*moved, **moved_keywords)
    assert compare("result", expected, found) + compare("arguments", arguments, moved) > 0
    compare("keywords", keywords, moved_keywords)


def matrix(rows: int = 4, columns: int = 6) -> torch.Tensor:
    return torch.arange(rows * columns, dtype=torch.float32).view(rows, columns) / 7 - 1


# ---- Arguments ----


def test_lists_of_tensors() -> None:
    same(torch.cat, [matrix(), matrix(2)])
    same(torch.stack, [matrix(), matrix()], 1)
    same(torch.block_diag, matrix(2, 2), matrix(1, 3))


def test_lists_with_missing_tensors() -> None:
    same(lambda x, index: x[:, index], matrix(), torch.tensor([0, 3, 3]))
    same(lambda x, index: x[index, None, index], matrix(), torch.tensor([0, 3, 3]))
    same(lambda x, mask: x[mask], matrix(), matrix() > 0)


def test_missing_tensors() -> None:
    same(torch.nn.functional.layer_norm, matrix(), (6,))
    same(torch.nn.functional.layer_norm, matrix(), (6,), torch.ones(6), None)
    same(torch.clamp, matrix(), None, torch.ones(6))


def test_lists_that_are_written_to() -> None:
    same(torch._foreach_add_, [matrix(), matrix(1)], 2.0)
    same(torch._foreach_mul_, [matrix(), matrix(1)], [matrix(), matrix(1)])
    same(torch._foreach_sqrt, [matrix().abs(), matrix(1).abs()])


def test_fused_optimizers_write_to_all_their_lists() -> None:
    states = [[matrix().clone()] for _ in range(4)]
    steps = [torch.tensor(1.0)]
    keywords = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
    same(torch._fused_adamw_, *states[:2], [matrix().clone()], [matrix().abs()], [], steps, **keywords)


def test_the_same_tensor_twice() -> None:
    same(lambda x: torch.add(x, x, out=x), matrix())
    same(lambda x: x.mul_(x), matrix())
    same(lambda x: x[1:].copy_(x[:-1].clone()), matrix())


def test_overlapping_memory_is_seen(device: str) -> None:
    text = "more than one element of the written-to tensor refers to a single memory location"
    with pytest.raises(RuntimeError, match=text):
        torch.ones(1, device=device).expand(3).add_(1)
    shared = torch.ones(4, device=device)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to"):
        torch.add(shared[:-1], 1, out=shared[1:])


def test_generators() -> None:
    same(lambda x, generator: x.normal_(generator=generator), matrix(), torch.Generator().manual_seed(5))
    same(lambda x, generator: torch.multinomial(x, 3, generator=generator), matrix().abs(), torch.Generator().manual_seed(5))
    same(lambda x: x.uniform_(), matrix())
    same(lambda x: torch.nn.functional.dropout(x, 0.3), matrix())


def test_a_generator_goes_on_where_it_was(device: str) -> None:
    ours, theirs = torch.Generator(device).manual_seed(9), torch.Generator().manual_seed(9)
    for _ in range(3):
        assert torch.equal(torch.rand(5, device=device, generator=ours).cpu(), torch.rand(5, generator=theirs))
    state = ours.get_state()
    first = torch.rand(5, device=device, generator=ours)
    copy = ours.clone_state()
    assert torch.equal(ours.set_state(state).get_state(), state)
    assert torch.equal(first, torch.rand(5, device=device, generator=ours))
    assert torch.equal(torch.rand(2, device=device, generator=ours), torch.rand(2, device=device, generator=copy))


def test_generators_of_another_device_type_are_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'ahbm' device type for generator but found 'cpu'"):
        torch.rand(2, device=device, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'ahbm'"):
        torch.rand(2, generator=torch.Generator(device))


@pytest.mark.parametrize("index", [0, 1])
def test_devices_of_new_tensors(device: str, index: int) -> None:
    place = f"ahbm:{index}"
    made = [
        torch.tril_indices(3, 4, device=place),
        torch.arange(5, device=place),
        torch.randperm(6, device=place),
        torch.full((2, 2), 3.0, device=place),
        torch.eye(3, device=place),
        torch.hann_window(5, device=place),
        torch.zeros(2, device="cpu").to(place),
        torch.ops.aten._efficientzerotensor([3], device=place),
    ]
    assert [str(tensor.device) for tensor in made] == [place] * len(made)
    assert torch.equal(made[0].cpu(), torch.tril_indices(3, 4)) and made[-1].add(1).tolist() == [1, 1, 1]


def test_the_current_device_is_meant_where_no_number_is_given(device: str) -> None:
    with torch.accelerator.device_index(1):
        assert torch.tril_indices(2, 2, device=device).device.index == 1
        assert torch.ones(2, device=device).device.index == 1
    assert torch.tril_indices(2, 2, device=device).device.index == 0


def test_results_are_on_the_device_of_the_tensors_whatever_is_current(device: str) -> None:
    tensor = torch.ones(3, device="ahbm:1")
    assert (tensor.exp().device.index, torch.accelerator.current_device_index()) == (1, 0)


def test_numbers_keep_their_rank_in_type_promotion() -> None:
    same(lambda x: x + 1.5, torch.arange(3))
    same(lambda x: x * torch.tensor(2.5, dtype=torch.float64), torch.arange(3, dtype=torch.float32))
    same(lambda x, y: x + y, torch.tensor(1), torch.tensor(2.0))


# ---- Results ----


def test_several_results() -> None:
    same(torch.linalg.svd, matrix())
    same(torch.max, matrix(), 1)
    same(lambda x: tuple(x.sort(1, descending=True)), matrix())
    same(lambda x: torch.unique(x, return_inverse=True, return_counts=True), torch.tensor([3, 1, 3]))


def test_views_share_the_storage_of_their_base(device: str) -> None:
    base = matrix().to(device)
    views = [*base.unbind(), *base.split(2, 1), base.view(-1), base.t(), base.unfold(1, 2, 2), base.diagonal(), base[None]]
    assert {view.untyped_storage().data_ptr() for view in views} == {base.data_ptr()}
    base.fill_(2)
    assert all((view == 2).all().item() for view in views)
    complex_ = torch.view_as_complex(base.view(4, 3, 2))
    assert torch.view_as_real(complex_).data_ptr() == base.data_ptr() and complex_[0, 0].item() == 2 + 2j


def test_a_result_is_one_allocation_and_nothing_is_copied(device: str) -> None:
    tensor = torch.ones(1 << 20, device=device)
    before = allocations()
    for operator in (torch.exp, torch.neg, lambda x: x + x, lambda x: torch.nn.functional.gelu(x)):
        operator(tensor)
    assert allocations() == before + 4
    tensor.mul_(2)
    torch.add(tensor, 1, out=tensor)
    assert allocations() == before + 4


def test_an_output_is_resized() -> None:
    same(lambda x, out: torch.add(x, 1, out=out), matrix(), torch.empty(0))
    same(lambda x, out: torch.sort(x, out=out), matrix(), (torch.empty(0), torch.empty(0, dtype=torch.int64)))
    same(lambda x, out: torch.nonzero(x, out=out), torch.tensor([0, 1, 1]), torch.empty(0, dtype=torch.int64))


def test_views_of_a_resized_output_share_its_new_memory(device: str) -> None:
    out = torch.empty(0, device=device)
    storage = out.untyped_storage()
    torch.add(matrix().to(device), 1, out=out)
    assert storage.data_ptr() == out.data_ptr() != 0
    assert storage.nbytes() == 4 * 6 * 4


def test_changes_of_shape_in_place() -> None:
    same(lambda x: x.t_(), matrix())
    same(lambda x: x.squeeze_(), matrix(1))
    same(lambda x: x.resize_(2, 3), matrix())
    same(lambda x: x.resize_as_(torch.empty(9, 9)).fill_(1), matrix())
    same(lambda x, y: x.set_(y), matrix(), matrix(2))
    same(lambda x: x.set_(), matrix())
    same(lambda x: x.set_(x.untyped_storage(), 2, (2, 2), (1, 3)), matrix())
    same(lambda x: x.as_strided_((2, 2), (1, 2), 3), matrix())


def test_a_tensor_set_to_another_shares_its_memory(device: str) -> None:
    one, other = torch.zeros(3, device=device), torch.ones(5, device=device)
    one.set_(other)
    one.add_(1)
    assert other.tolist() == [2] * 5 and one.data_ptr() == other.data_ptr()
    with pytest.raises(RuntimeError, match="two devices, ahbm:0 and ahbm:1"):
        one.set_(torch.ones(5, device="ahbm:1"))


def test_complex_numbers_and_their_views() -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    same(lambda x: x.conj() + 1, numbers)
    same(lambda x: x.conj().resolve_conj(), numbers)
    same(lambda x: x.conj().imag * 2, numbers)
    same(lambda x: x.conj().clone(), numbers)
    same(lambda x: torch.empty(2, dtype=x.dtype, device=x.device).copy_(x.conj()), numbers)
    same(lambda x: x.conj().imag.resolve_neg(), numbers)


def test_copies_to_the_host_resolve_conjugates(device: str) -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    assert numbers.to(device).conj().cpu().tolist() == numbers.conj().tolist()
    assert torch.zeros(2, dtype=torch.complex64, device=device).copy_(numbers.conj()).tolist() == numbers.conj().tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int8, torch.bool, torch.complex64])
def test_copies_convert_types_and_strides(device: str, dtype: torch.dtype) -> None:
    source = matrix()
    expected = torch.empty(6, 4, dtype=dtype).t().copy_(source)
    for to in (device, "ahbm:1"):
        target = torch.empty(6, 4, dtype=dtype, device=to).t()
        assert torch.equal(target.copy_(source).cpu(), expected)
        assert torch.equal(torch.empty(6, 4, dtype=dtype).t().copy_(source.to(device)), expected)
        assert torch.equal(target.copy_(source.to(device)).cpu(), expected)
        assert torch.equal(target.zero_().copy_(source[0]).cpu(), expected.clone().copy_(source[0]))


# ---- Modes and threads ----


def test_inference_mode(device: str) -> None:
    tensor = matrix().to(device)
    with torch.inference_mode():
        made = tensor.exp()
        made.add_(1)
        out = torch.empty(0, device=device)
        torch.add(made, 1, out=out)
        assert made.is_inference() and out.is_inference() and made[0].is_inference()
        assert torch.equal(made.cpu(), matrix().exp() + 1)
    assert not tensor.exp().is_inference()
    assert torch.equal((made * 2).cpu(), (matrix().exp() + 1) * 2)


def test_gradients_are_made_on_the_threads_of_autograd() -> None:
    def step(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        loss = torch.nn.functional.gelu(x @ weight).cumsum(1).square().mean()
        return torch.autograd.grad(loss, (x, weight), create_graph=True)

    same(step, matrix().requires_grad_(), matrix(6, 3).requires_grad_())


def test_double_gradients() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    same(twice, matrix().requires_grad_())


def test_versions_count_for_saved_tensors(device: str) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    y = x.exp()
    version = y._version
    y.add_(1)
    assert y._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_many_threads_at_once(device: str) -> None:
    failed: list[int] = []

    def work(number: int) -> None:
        index = number % 2
        x = torch.full((100,), float(number), device=f"ahbm:{index}")
        for _ in range(50):
            if (x + 1).device.index != index or (x * 2).sum().item() != 200 * number:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# ---- Memory of kernels ----


def test_cpu_tensors_are_ordinary_after_a_kernel_and_after_its_error(device: str) -> None:
    tensor = torch.ones(3, device=device)
    tensor.exp()
    with pytest.raises(RuntimeError, match="must match the size"):
        tensor + torch.ones(4, device=device)
    before = allocations()
    kept = torch.ones(1000) + 1
    assert allocations() == before and kept.sum().item() == 2000


def test_temporary_memory_of_kernels_is_given_back(device: str) -> None:
    x = torch.randn(64, 64, device=device)
    before = torch.accelerator.memory_allocated()
    for operator in (torch.linalg.inv, torch.linalg.eigvals, torch.cumsum, torch.median, torch.fft.fft2):
        operator(x, 0) if operator is torch.cumsum else operator(x)
    assert torch.accelerator.memory_allocated() == before


def test_a_kernel_that_keeps_its_result_keeps_it(device: str, library: torch.library.Library) -> None:
    kept: list[torch.Tensor] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        kept.append(x + 1)
        return kept[-1]

    library.define("keeps_result(Tensor x) -> Tensor")
    library.impl("keeps_result", kernel, "CPU")
    result = torch.ops.cubeyard_tests.keeps_result(torch.ones(3, device=device))
    assert (result.device.type, kept[0].device.type) == ("ahbm", "cpu")
    result.add_(5)
    assert (result.tolist(), kept.pop().tolist()) == ([7, 7, 7], [2, 2, 2])


def test_a_kernel_that_keeps_its_argument_keeps_its_memory(device: str, library: torch.library.Library) -> None:
    kept: list[torch.Tensor] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x + 1

    library.define("keeps_argument(Tensor x) -> Tensor")
    library.impl("keeps_argument", kernel, "CPU")
    before = torch.accelerator.memory_allocated()
    torch.ops.cubeyard_tests.keeps_argument(torch.ones(3, device=device))
    gc.collect()
    assert torch.accelerator.memory_allocated() == before + 128
    assert kept.pop().tolist() == [1, 1, 1]


def test_results_that_share_a_storage_share_it_on_the_device(device: str, library: torch.library.Library) -> None:
    def kernel(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        made = x.repeat(2)
        return made[:3], [made[3:], made]

    library.define("shares(Tensor x) -> (Tensor, Tensor[])")
    library.impl("shares", kernel, "CPU")
    one, (other, whole) = torch.ops.cubeyard_tests.shares(torch.ones(3, device=device))
    one.add_(1)
    other.add_(2)
    assert whole.tolist() == [2, 2, 2, 3, 3, 3] and whole.device.type == "ahbm"


def test_results_in_other_memory_are_copied(device: str, library: torch.library.Library) -> None:
    pinned = torch.full((3,), 4.0).pin_memory()
    library.define("elsewhere(Tensor x) -> Tensor")
    library.impl("elsewhere", lambda x: pinned[:2], "CPU")
    result = torch.ops.cubeyard_tests.elsewhere(torch.ones(3, device=device))
    result.zero_()
    assert (result.device.type, pinned.tolist()) == ("ahbm", [4, 4, 4])


def test_many_tensors_in_one_call(device: str) -> None:
    tensors = [torch.full((2,), float(number), device=device) for number in range(300)]
    joined = torch.cat([*tensors, *tensors])
    assert joined.view(-1, 2)[:, 0].tolist() == [float(number) for number in range(300)] * 2


# ---- What cannot be ----


@pytest.mark.parametrize(
    ("operator", "one", "other"),
    [
        (lambda device: torch.ones(3, device=device) + torch.ones(3), "ahbm:0", "cpu"),
        (lambda device: torch.ones(3) * torch.ones(3, device=device), "ahbm:0", "cpu"),
        (lambda device: torch.ones(3, device=device) + torch.ones(3, device="ahbm:1"), "ahbm:0", "ahbm:1"),
        (lambda device: torch.cat([torch.ones(3, device=device), torch.ones(3)]), "ahbm:0", "cpu"),
        (lambda device: torch.mm(torch.ones(3, 3, device="ahbm:1"), torch.ones(3, 3)), "ahbm:1", "cpu"),
        (lambda device: torch.add(torch.ones(3, device=device), 1, out=torch.ones(3)), "ahbm:0", "cpu"),
        (lambda device: torch.tensor(1.0).add_(torch.tensor(1.0, device=device)), "ahbm:0", "cpu"),
        (lambda device: torch.ones(3)[torch.tensor([0], device=device)], "ahbm:0", "cpu"),
        (lambda device: torch.ones(3, device=device).index_select(0, torch.tensor([0])), "ahbm:0", "cpu"),
    ],
)
def test_devices_are_not_mixed(device: str, operator: Callable[[str], object], one: str, other: str) -> None:
    text = f"Expected all tensors to be on the same device, but found at least two devices, {one} and {other}!"
    with pytest.raises(RuntimeError, match=text):
        operator(device)


def test_numbers_and_indices_may_be_on_the_cpu(device: str) -> None:
    x = matrix().to(device)
    assert (x + torch.tensor(1.0)).device.type == "ahbm"
    assert (torch.tensor(1.0) - x).device.type == "ahbm"
    assert torch.equal(x[torch.tensor([2, 0])].cpu(), matrix()[[2, 0]])
    assert torch.equal(x[matrix() > 0].cpu(), matrix()[matrix() > 0])
    x[torch.tensor([1])] = 9
    assert x[1].tolist() == [9] * 6
    assert [part.tolist() for part in x[:, 0].tensor_split(torch.tensor([1, 2]))][1] == [9]


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (lambda x: x.to_sparse(), "aten::_to_sparse gives a tensor of layout Sparse"),
        (lambda x: x.to_sparse_csr(), "layout SparseCsr"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "aten::quantize_per_tensor gives a tensor .* c10::qint8"),
        (lambda x: x.to_mkldnn(), "layout Mkldnn"),
        (lambda x: torch.empty(3, device=x.device, layout=torch.sparse_coo), "not implemented for sparse"),
        (lambda x: torch.ops.aten._fused_dropout(x, 0.5), "aten::_fused_dropout is not implemented for device ahbm"),
    ],
)
def test_what_the_device_lacks_is_named(device: str, operator: Callable[[torch.Tensor], object], text: str) -> None:
    with pytest.raises(NotImplementedError, match=text):
        operator(matrix().to(device))


def test_outputs_of_a_wrong_size_are_warned_of_as_on_the_cpu(device: str) -> None:
    expected, out = torch.zeros(2), torch.zeros(2, device=device)
    for tensor in (expected, out):
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            torch.add(torch.ones(3, device=tensor.device), 1, out=tensor)
    assert out.tolist() == expected.tolist() == [2, 2, 2]
