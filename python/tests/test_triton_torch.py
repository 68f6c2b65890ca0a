"""Triton kernels on tensors of PyTorch."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import pytest
import torch
import triton
import triton.language as tl
import triton_kernels as kernels
from triton.tools.tensor_descriptor import TensorDescriptor

import cubeyard.torch  # noqa: F401
import cubeyard.triton


@triton.jit
def described_matmul(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr):
    at_m, at_n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        total = tl.dot(a_desc.load([at_m, k]), b_desc.load([at_n, k]).T, total)
    c_desc.store([at_m, at_n], total.to(tl.float16))


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_vectors_are_added(device, dtype):
    x, y = (torch.randn(5000).to(dtype).to(device) for _ in range(2))
    out = torch.zeros_like(x)
    with cubeyard.triton.record() as run:
        kernels.add[lambda meta: (triton.cdiv(5000, meta["BLOCK"]),)](x, y, out, 5000, BLOCK=1024)
    assert torch.equal(out.cpu(), (x + y).cpu()) and run.launches[0].ok


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
def test_strides_of_a_transposed_tensor_are_its_own(device):
    a, b = torch.randn(70, 90).half().to(device), torch.randn(50, 90).half().to(device).T
    c = torch.zeros(70, 50, dtype=torch.float16, device=device)
    blocks = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 8}
    strides = (*a.stride(), *b.stride(), *c.stride())
    kernels.matmul[(6,)](a, b, c, 70, 50, 90, *strides, **blocks, ACTIVATION="")
    wanted = a.cpu().double() @ b.cpu().double()
    assert (c.cpu().double() - wanted).abs().max() < 2e-3 * wanted.abs().max()


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
def test_descriptors_of_tensors(device):
    a, b = torch.randn(64, 96).half().to(device), torch.randn(32, 96).half().to(device)
    c = torch.zeros(64, 32, dtype=torch.float16, device=device)
    given = [TensorDescriptor.from_tensor(one, block) for one, block in ((a, [32, 32]), (b, [32, 32]), (c, [32, 32]))]
    described_matmul[(2, 1)](*given, 96, BLOCK=32)
    wanted = a.cpu().double() @ b.cpu().double().T
    assert (c.cpu().double() - wanted).abs().max() < 2e-3 * wanted.abs().max()


@triton.jit
def swapped(left, right, row, BLOCK: tl.constexpr):
    at = tl.program_id(0) * row + tl.arange(0, BLOCK)
    x, y = tl.load(left + at), tl.load(right + at)
    tl.store(left + at, y)
    tl.store(right + at, x)


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_that_share_memory(device, dtype):
    # Each argument had a copy of its own; the last that was written back won.
    both = torch.arange(8 * 32).reshape(8, 32).to(dtype).to(device)
    wanted = torch.cat([both[:, 16:], both[:, :16]], dim=1).cpu()
    swapped[(8,)](both[:, :16], both[:, 16:], 32, BLOCK=16)
    assert torch.equal(both.cpu(), wanted)
    bits = both.view(torch.int16 if dtype == torch.bfloat16 else torch.int32)
    kernels.add[(1,)](bits, bits, bits, 256, BLOCK=256)
    assert torch.equal(both.cpu(), (wanted.view(bits.dtype) * 2).view(dtype))


class Pointer:
    """What Triton asks of a tensor, at some distance in a storage."""

    def __init__(self, base, distance):
        self.base, self.distance, self.dtype = base, distance, base.dtype

    def data_ptr(self):
        return self.base.data_ptr() + self.distance * self.base.element_size()

    def untyped_storage(self):
        return self.base.untyped_storage()


@triton.jit
def reversed_copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x - at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
def test_a_kernel_reaches_all_of_a_storage(device):
    # Memory ended with the last element of a view: "outside every tensor".
    x, out = torch.arange(50.0).to(device), torch.zeros(40, device=device)
    reversed_copy[(1,)](x[39:40], out, 40, BLOCK=64)
    assert torch.equal(out.cpu(), torch.arange(39.0, -1, -1))
    reversed_copy[(1,)](Pointer(x, 45), out, 40, BLOCK=64)
    assert torch.equal(out.cpu(), torch.arange(45.0, 5, -1))


@pytest.mark.parametrize("device", ["cpu", "ahbm"])
def test_a_tensor_with_other_elements(device):
    # `triton.reinterpret` gives an object without a storage of its own, and with a type of Triton.
    bits, out = torch.arange(0x3F00, 0x3F80, dtype=torch.int16, device=device), torch.zeros(128, device=device)
    widened[(1,)](triton.reinterpret(bits, tl.bfloat16), out, BLOCK=128)
    assert torch.equal(out.cpu(), bits.cpu().view(torch.bfloat16).float())
    small = torch.arange(128, dtype=torch.uint8, device=device)
    widened[(1,)](triton.reinterpret(small, tl.float8e5), out, 128)
    wanted = small.cpu().view(torch.float8_e5m2).float()
    torch.testing.assert_close(out.cpu(), wanted, rtol=0, atol=0, equal_nan=True)


@triton.jit
def widened(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float32))


class Bare:
    """Pointer with a type and no storage."""

    def __init__(self, tensor, distance=0):
        self.dtype, self.pointer = tensor.dtype, tensor.data_ptr() + distance

    def data_ptr(self):
        return self.pointer


def test_objects_that_point_nowhere_are_refused():
    x, out = torch.zeros(128), torch.zeros(128)
    with pytest.raises(cubeyard.CubeyardError, match="an argument of Bare: expected a tensor, or an object with a tensor's storage"):
        widened[(1,)](Bare(x), out, BLOCK=128)
    for distance in (0.5, 128, -1):
        with pytest.raises(cubeyard.CubeyardError, match=r"an argument of Pointer: its pointer is at no element of torch\.float32"):
            widened[(1,)](Pointer(x, distance), out, BLOCK=128)


@triton.jit
def renamed(in_ptr0, in_ptr1, count, scale, out_ptr0, BLOCK: tl.constexpr):
    # Names of other arguments, as Inductor's kernels of many tensors have them.
    out_ptr, in_ptr = in_ptr1, in_ptr0
    in_ptr1, in_ptr0, limit = in_ptr, out_ptr, count
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(in_ptr1 + at, mask=at < limit), tl.load(in_ptr0 + at, mask=at < limit)
    tl.store(out_ptr0 + at, x - y * scale, mask=at < limit)


@pytest.mark.parametrize("constants", [(64,), ()])
def test_arguments_are_matched_by_position(constants):
    x, y, out = (torch.randn(100).to("ahbm") for _ in range(3))
    named = {} if constants else {"BLOCK": 64}
    renamed[(2,)](x, y, 100, 0.5, out, *constants, **named)
    assert torch.equal(out.cpu(), (x - y * 0.5).cpu())
    kept = x.clone()
    renamed[(2,)](x, y, out_ptr0=x, scale=1.0, count=100, BLOCK=64)
    assert torch.equal(x.cpu(), (kept - y).cpu())
