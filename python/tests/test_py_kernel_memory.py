"""Memory as kernels see it: stores before loads, views as arguments, and results beside their operands."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest

import cubeyard
from cubeyard import errors
from kernel_lab import HERE, ONE, failing, one

PES = {"cubes": [0], "pes": [0, 1, 2, 3]}
BY_ROWS = cubeyard.Placement(pe="row_wise", cubes=1, pes=4)
EVERYWHERE = cubeyard.Placement(cubes=1, pes=4)
CASES = 300 if os.environ.get("CUBEYARD_LONG_TESTS") == "1" else 60


def of_both_kinds(body: Any) -> list[Any]:
    """A kernel that is recorded, and one that runs live."""

    async def live(*arguments, tl):
        body(*arguments, tl=tl)

    return [cubeyard.jit(body), cubeyard.jit(live=True)(live)]


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


def test_a_load_of_several_accesses_sees_the_stores_before_it(context: cubeyard.Context) -> None:
    """It did not wait for them: four rounds gave 2.0."""

    def transposed(x, tl):
        for _ in range(4):
            tl.store(x.T, tl.load(x.T) + 1.0)

    def strided(x, tl):
        part = x.at(0, (4, 8, 8)).strided((1, 32, 4))
        for _ in range(4):
            tl.store(part, tl.load(part) + 1.0)

    def after_a_map(x, tl):
        tl.map("neg", [x]).store(x)
        tl.store(x.T, tl.load(x.T) + 4.0)

    for body in (transposed, strided, after_a_map):
        for kernel in of_both_kinds(body):
            x = one(context, np.zeros((16, 16)))
            context.launch(kernel, x, **HERE)
            np.testing.assert_array_equal(x.numpy(), np.full((16, 16), 4.0))


def test_an_integer_product_is_dequantised(context: cubeyard.Context) -> None:
    """A scale of an epilogue was converted to the type of the sum: 60 times 0.5 was 0."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-128, 128, (40, 96), dtype=np.int8), rng.integers(-128, 128, (96, 50), dtype=np.int8)
    rows, columns = rng.random((40, 1), np.float32), rng.random((1, 50), np.float32)
    out = context.empty((40, 50), "f4").to(ONE)

    def dequantise(a, b, rows, columns, out, tl):
        product = tl.gemm(a, b).after_tile("mul", tl.load(rows)).after_tile("mul", tl.load(columns))
        product.after_tile("mul", 0.5).store(out)

    tensors = [context.from_numpy(array).to(ONE) for array in (a, b, rows, columns)]
    context.launch(dequantise, *tensors, out, **HERE)
    product = (a.astype(np.int32) @ b.astype(np.int32)).astype(np.float32)
    np.testing.assert_array_equal(out.numpy(), product * rows * columns * np.float32(0.5))


def test_a_product_over_its_operand_is_refused(context: cubeyard.Context) -> None:
    """A third of the elements was wrong."""
    memory = one(context, np.ones((128, 64)))

    def over(a, b, tl):
        tl.gemm(a, b).store(a)

    error = str(failing(context, over, memory[0:64], memory[64:128]))
    assert "gemm f32[64, 64]: its result overlaps operand A, f32[64, 64], in memory" in error

    def over_another_view(a, b, to, tl):
        tl.gemm(a, b).store(to)

    error = str(failing(context, over_another_view, memory[0:64], memory[64:128], memory[32:96]))
    assert "overlaps operand A" in error


def test_a_view_has_its_own_shape_and_its_holders(context: cubeyard.Context) -> None:
    """`x.view(2, 8)` was 8 × 2 in a kernel, and `x[0:4]` was held by no PE."""
    shapes = []

    def look(x, tl):
        shapes.append((tl.program_id(0), x.held, tuple(x.shape) if x.held else None))

    x = context.zeros((8, 2), "f4")
    context.launch(look, x.to(ONE).view(2, 8), **HERE)
    context.launch(look, x.to(BY_ROWS)[1:4], **PES)
    assert shapes == [(0, True, (2, 8)), (0, True, (1, 2)), (1, True, (2, 2)), (2, False, None), (3, False, None)]


def test_a_part_without_a_shape_is_held_and_refused(context: cubeyard.Context) -> None:
    view = context.zeros((8, 3), "f4").to(BY_ROWS).view(6, 4)

    def held(x, tl):
        assert x.held and x.whole.shape == (6, 4)

    context.launch(held, view, **PES)

    def loads(x, tl):
        tl.load(x)

    with pytest.raises(errors.KernelError, match="argument `x`: sip0.cube0.pe0 holds elements 0 to 6 of a view of 6x4"):
        context.launch(loads, view, **PES)


def shapes_of(elements: int) -> list[tuple[int, ...]]:
    divisors = [by for by in range(1, elements + 1) if elements % by == 0]
    pairs = [(rows, elements // rows) for rows in divisors]
    return [(elements,), *pairs, *((rows, 1, columns) for rows, columns in pairs)]


def random_view(rng: np.random.Generator, tensor: Any, array: Any) -> tuple[Any, Any]:
    """Returns a random view of a tensor, and the same view of an array."""
    for _ in range(rng.integers(1, 4)):
        rows = len(array)
        start, stop = sorted(rng.integers(0, rows + 1, 2).tolist())
        if start == stop:
            start, stop = 0, rows
        match rng.integers(3):
            case 0:
                tensor, array = tensor[start:stop], array[start:stop]
            case 1:
                choice = shapes_of(array.size)
                shape = choice[rng.integers(len(choice))]
                tensor, array = tensor.view(*shape), array.reshape(shape)
            case _ if array.ndim > 1:
                tensor, array = tensor[start], array[start]
    return tensor, array


@pytest.mark.parametrize("placement", [ONE, EVERYWHERE, BY_ROWS], ids=["one", "everywhere", "by rows"])
def test_random_views_are_those_of_numpy(context: cubeyard.Context, placement: cubeyard.Placement) -> None:
    """Each PE adds to its part of a view, and to a transposed one after it; NumPy adds to the whole view."""

    def add(x, tl):
        if x.held:
            tl.store(x, tl.load(x) + 1000.0)
            part = x.T if len(x.shape) == 2 else x
            tl.store(part, tl.load(part) + 1000.0)

    done = 0
    rng = np.random.default_rng(5)
    for case, kernel in itertools.product(range(CASES // 3), of_both_kinds(add)):
        shape = tuple(rng.integers(1, 9, rng.integers(1, 4)).tolist())
        array = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        tensor = context.from_numpy(array).to(placement)
        view, expected = random_view(rng, tensor, array)
        assert view.shape == expected.shape
        try:
            context.launch(kernel, view, **PES)
        except (errors.KernelError, errors.MachineError) as error:
            assert placement is BY_ROWS and "no rectangle" in str(error), (case, shape, view.shape)
            continue
        expected += 2000.0
        np.testing.assert_array_equal(view.numpy(), expected, err_msg=f"{case}: {shape}, {view.shape}")
        np.testing.assert_array_equal(tensor.numpy(), array, err_msg=f"{case}: {shape}, {view.shape}")
        done += 1
    assert done > CASES // 3
