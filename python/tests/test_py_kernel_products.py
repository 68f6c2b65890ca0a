"""Matrix products of kernels in Python: types, scales, batches, epilogues and reductions of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cubeyard
from kernel_lab import compute, failing, one


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


def whole(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, which every type here has."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("f4")


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [("fp8_e4m3", "fp8_e5m2", "f32"), ("fp8_e5m2", "bf16", "f32"), ("f16", "fp8_e4m3", "f32"), ("i8", "i8", "i32")],
)
def test_products_of_two_types(a: str, b: str, out: str) -> None:
    x, y = whole(1, (6, 40)), whole(2, (40, 5))

    def body(tl, x, y):
        product = tl.dot(tl.cast(x, a), tl.cast(y, b))
        assert product.dtype == out
        return tl.cast(product, "f32")

    np.testing.assert_array_equal(compute(body, x, y, shape=(6, 5)), x @ y)


@pytest.mark.parametrize(("name", "dtype"), [("f16", "float16"), ("bf16", "bfloat16")])
def test_a_product_is_rounded_once_to_the_type_asked_for(name: str, dtype: str) -> None:
    to = getattr(pytest.importorskip("ml_dtypes"), dtype, np.float16)
    x, y, z = whole(3, (6, 900)), whole(4, (900, 5)), whole(5, (6, 5))
    x, y = x + 0.5, y + 0.25
    body = lambda tl, x, y: tl.cast(tl.dot(tl.cast(x, "f16"), tl.cast(y, "f16"), out_dtype=name), "f32")  # noqa: E731
    np.testing.assert_array_equal(compute(body, x, y, shape=(6, 5)), (x @ y).astype(to).astype("f4"))

    def adding(tl, x, y, z):
        sum = tl.dot(tl.cast(x, "f16"), tl.cast(y, "f16"), acc=tl.cast(z, name), out_dtype=name)
        return tl.cast(sum, "f32")

    np.testing.assert_array_equal(compute(adding, x, y, z, shape=(6, 5)), (x @ y + z).astype(to).astype("f4"))


@pytest.mark.parametrize("types", [("i8", "i8"), ("fp8_e4m3", "fp8_e4m3"), ("f16", "i8")])
@pytest.mark.parametrize("shapes", [((6, 1), (1, 8)), ((6, 4), (4, 8)), ((2, 1), (2, 4)), (None, (1, 8))])
def test_scales_of_rows_and_blocks(types: tuple[str, str], shapes: tuple[Any, Any]) -> None:
    x, y = whole(6, (6, 16)), whole(7, (16, 8))
    scales = [2.0 ** whole(8 + at, shape or (1, 1)) for at, shape in enumerate(shapes)]

    def body(tl, x, y, *scales):
        of = [scale if shape else None for scale, shape in zip(scales, shapes, strict=True)]
        return tl.dot_scaled(tl.cast(x, types[0]), of[0], tl.cast(y, types[1]), of[1])

    def spread(matrix, scale, shape):
        if shape is None:
            return matrix
        return matrix * np.kron(scale, np.ones([whole // part for whole, part in zip(matrix.shape, shape, strict=True)]))

    wanted = spread(x, scales[0], shapes[0]) @ spread(y, scales[1], shapes[1])
    np.testing.assert_array_equal(compute(body, x, y, *scales, shape=(6, 8)), wanted.astype("f4"))


def test_a_batch_of_products() -> None:
    x, y = whole(9, (3, 5, 7)), whole(10, (3, 7, 4))

    def body(tl, x, y):
        return tl.reshape(tl.dot(tl.reshape(x, (3, 5, 7)), tl.reshape(y, (3, 7, 4))), (15, 4))

    np.testing.assert_array_equal(compute(body, x.reshape(15, 7), y.reshape(21, 4), shape=(15, 4)), (x @ y).reshape(15, 4))


def test_composites_with_columns_products_and_reductions_of_rows() -> None:
    a, b, column, matrix = whole(11, (40, 70)), whole(12, (70, 36)), whole(13, (40, 1)), whole(14, (40, 36))
    wanted = (a @ b) * column + matrix * column

    def composite(tl, a, b, column, matrix):
        gemm = tl.gemm(a, b).after_tile("mul", column).after_tile("add_product", (matrix, column))
        return gemm.rows("max").rows("sum").tile_and_rows("f32")

    for at, expected in enumerate([wanted, wanted.max(1, keepdims=True), wanted.sum(1, keepdims=True)]):

        def body(tl, *tiles, at=at):
            result, rows = composite(tl, *tiles)
            return [result, *rows][at]

        np.testing.assert_array_equal(compute(body, a, b, column, matrix, shape=expected.shape), expected)


def test_rows_are_a_second_result(context: cubeyard.Context) -> None:
    x = one(context, np.ones((64, 64)))

    def forgets(x, tl):
        tl.gemm(tl.load(x), tl.load(x)).rows("max").tile("f32")

    assert "use tile_and_rows or store_and_rows" in str(failing(context, forgets, x))

    def no_pair(x, tl):
        tl.gemm(tl.load(x), tl.load(x)).after_tile("add_product", 3)

    assert "add_product expects a pair of tiles" in str(failing(context, no_pair, x))
