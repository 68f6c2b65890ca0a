"""Tensors of PyTorch's device placed over PEs by rows, columns or copies."""

import os
import random
import warnings
from pathlib import Path

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import pytest
import torch
import triton
import triton_kernels as kernels
import triton_times

import cubeyard
import cubeyard.torch
import cubeyard.triton
from cubeyard import Placement
from cubeyard.triton.compiler import TESTED

ROWS = Placement(cube="row_wise", pe="row_wise")
COLUMNS = Placement(cube="row_wise", pe="column_wise")
COPIES = Placement()


def softmax(x, out):
    rows, columns = x.shape
    block = 1 << (columns - 1).bit_length()
    with cubeyard.triton.record() as run:
        kernels.softmax_row[(rows,)](out, x, columns, columns, columns, BLOCK=block)
    return run.launches[0]


@pytest.mark.parametrize("case", range(30))
def test_places_do_not_change_numbers(case):
    draw = random.Random(case)
    shape = draw.randint(1, 300), draw.randint(1, 300)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(case)).to("ahbm")
    out = torch.zeros_like(x)
    splits = ["replicate", "row_wise", "column_wise"]
    for tensor in (x, out):
        placement = Placement(
            cube=draw.choice(splits), pe=draw.choice(splits), cubes=draw.choice([None, 1, 3]), pes=draw.choice([None, 1, 5])
        )
        assert cubeyard.torch.place(tensor, draw.choice([placement, None])) is tensor
    before = x.cpu()
    assert softmax(x, out).ok
    assert torch.equal(x.cpu(), before)
    assert torch.allclose(out.cpu(), before.softmax(1), atol=1e-6)


def test_rows_are_where_the_context_places_them():
    """The same kernel on NumPy arrays by rows takes the same time to the picosecond."""
    x, out = torch.randn(823, 781).to("ahbm"), torch.zeros(823, 781, device="ahbm")
    dealt = softmax(x, out)
    for tensor in (x, out):
        cubeyard.torch.place(tensor, ROWS)
    placed = softmax(x, out)
    arrays = softmax(x.cpu().numpy(), out.cpu().numpy())
    assert placed.kernel_ns == arrays.kernel_ns < dealt.kernel_ns
    for tensor in (x, out):
        cubeyard.torch.place(tensor, None)
    assert softmax(x, out).kernel_ns == dealt.kernel_ns


@pytest.mark.parametrize("case", triton_times.EQUAL, ids=lambda case: case.__name__)
def test_kernels_on_shared_memory_take_the_time_of_our_own(case):
    """The same kernels on arrays are in the table of test_triton_docs.py."""
    placed, dealt = case(triton_times.Tensors(placed=True)), case(triton_times.Tensors(placed=False))
    for row in (placed, dealt):
        assert all(launch.ok for launch in row.launches) and max(row.errors) < 1e-3
    assert 0.9 * placed.own.kernel_ns <= placed.ns <= 1.1 * placed.own.kernel_ns
    if triton.__version__.startswith(TESTED[-1]):
        page = (Path(__file__).resolve().parent.parent.parent / "docs" / "triton-coverage.md").read_text()
        assert triton_times.shared_line(placed, dealt) in page, "write the output of python python/tests/triton_times.py into the page"


def test_copies_are_local():
    """Every program reads the same vector: from the first PE, or from its own copy."""
    x, y, out = torch.ones(128 * 1024, device="ahbm"), torch.ones(1024, device="ahbm"), torch.zeros(128 * 1024, device="ahbm")
    layer_norm = {"X": x, "Y": out, "W": y, "B": y, "Mean": torch.zeros(128, device="ahbm"), "Rstd": torch.zeros(128, device="ahbm")}

    def run():
        with cubeyard.triton.record() as recorded:
            kernels.layer_norm[(128,)](*layer_norm.values(), 1024, 1024, 1e-5, BLOCK=1024)
        return recorded.launches[0]

    dealt = run()
    cubeyard.torch.place(y, COPIES)
    copied = run()
    assert copied.kernel_ns < 0.8 * dealt.kernel_ns and copied.ok


def test_a_placement_ends_with_its_memory():
    """A tensor that gets the memory of a placed one has pages again."""
    x, out = torch.zeros(823, 781, device="ahbm"), torch.zeros(823, 781, device="ahbm")
    dealt, address = softmax(x, out).kernel_ns, x.data_ptr()
    cubeyard.torch.place(x, ROWS)
    assert softmax(x, out).kernel_ns != dealt
    del x
    x = torch.zeros(823, 781, device="ahbm")
    assert x.data_ptr() == address
    assert softmax(x, out).kernel_ns == dealt


def added_ps(x):
    with torch.ahbm.record_operators() as times:
        x + x
    return times.ps


def test_the_first_placement_warns_that_operators_ignore_it(monkeypatch):
    monkeypatch.setattr(cubeyard.torch._place, "_has_warned", False)
    x = torch.ones(512, 512, device="ahbm")
    dealt = added_ps(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cubeyard.torch.place(x, None)
    with pytest.warns(cubeyard.torch.PlacementWarning, match="as if the tensor were not placed") as warned:
        cubeyard.torch.place(x, Placement(cubes=1, pes=1))
    assert warned[0].filename == __file__
    assert added_ps(x) == dealt > 0, "if operators heed placements, nothing is to be warned of"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cubeyard.torch.place(x, COPIES)


def test_what_cannot_be_placed():
    x = torch.zeros(8, 8, device="ahbm")
    refused = cubeyard.errors.InputError
    with pytest.raises(refused, match="expected a tensor on ahbm, found a tensor on cpu"):
        cubeyard.torch.place(torch.zeros(8), ROWS)
    with pytest.raises(refused, match="contiguous, has elements and covers its storage"):
        cubeyard.torch.place(x[2:], ROWS)
    with pytest.raises(refused, match="contiguous, has elements and covers its storage"):
        cubeyard.torch.place(x.T, ROWS)
    with pytest.raises(refused, match=r"sips=\(1,\): expected the tensor's SIP, \(0,\)"):
        cubeyard.torch.place(x, Placement(sips=(1,)))
    with pytest.raises(refused, match="expected a Placement or None"):
        cubeyard.torch.place(x, "rows")
    with pytest.raises(cubeyard.errors.CubeyardError):
        cubeyard.torch.place(x, Placement(cube="row_wise", cubes=99))
    other = cubeyard.torch.place(torch.ones(256, 64, device="ahbm:1"), ROWS)
    out = torch.zeros(256, 64, device="ahbm:1")
    assert softmax(other, out).ok and torch.allclose(out.cpu(), torch.full((256, 64), 1 / 64))
