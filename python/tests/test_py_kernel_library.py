"""Kernels of the library in Python: the numbers of NumPy, and the time of Rust to the picosecond."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cubeyard
import cubeyard.channels
import cubeyard.kernels
from cubeyard import errors
from kernel_lab import HERE, ROWS, load, one


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


# Kernels of the library: the same commands as in Rust, so the same time to the picosecond.

KERNELS = load("kernels")
RING = load("ring_all_reduce")


def both(kernel: str, place: Any, **where: Any) -> list[np.ndarray]:
    """Runs a kernel in Rust and in Python, on machines of their own; returns the outputs of the second.

    Both must take the same time on every PE, as the host sees it, and give the same bits. `place` makes the arguments
    on a context, the outputs last.
    """
    outcomes = []
    for of in (getattr(cubeyard.kernels, kernel), getattr(KERNELS, kernel)):
        context = cubeyard.Context()
        arguments, outputs = place(context)
        report = context.launch(of, *arguments, **where)
        assert not findings(context)
        times = (report.pes, report.done_ps - report.made_ps, report.started_ps - report.made_ps)
        outcomes.append((times, [output.numpy() for output in outputs]))
    (rust_times, rust), (python_times, python) = outcomes
    assert rust_times == python_times
    for one_, other in zip(rust, python, strict=True):
        np.testing.assert_array_equal(one_, other)
    return python


def findings(context: cubeyard.Context) -> Any:
    return context.findings()


@pytest.mark.parametrize(("length", "block"), [(128 * 1000, 384), (128 * 40, 40)])
def test_vector_add_is_that_of_rust(length: int, block: int) -> None:
    a, b = np.random.default_rng(1).random((2, length), dtype=np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y, z = (context.from_numpy(of).to(ROWS) for of in (a, b, 0 * a))
        return (x, y, z, block), [z]

    np.testing.assert_array_equal(both("vector_add", place)[0], a + b)


@pytest.mark.parametrize(("rows", "columns", "tile"), [(512, 256, 3), (256, 2048, 2), (128 * 40, 1024, 8)])
def test_softmax_is_that_of_rust(rows: int, columns: int, tile: int) -> None:
    a = np.random.default_rng(2).uniform(-8, 8, (rows, columns)).astype(np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape).to(ROWS)
        return (x, y, tile), [y]

    powers = np.exp(a.astype(np.float64))
    np.testing.assert_allclose(both("softmax", place)[0], powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("rows", "columns", "tile"), [(512, 256, 3), (128 * 24, 1024, 4)])
def test_layer_norm_is_that_of_rust(rows: int, columns: int, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-2, 2, (rows, columns)).astype(dtype)
    gamma, beta = rng.uniform(-1, 1, (2, columns)).astype(dtype)
    copies = cubeyard.Placement(cube="replicate", pe="replicate")

    def place(context: cubeyard.Context) -> Any:
        x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape, a.dtype).to(ROWS)
        return (x, context.from_numpy(gamma).to(copies), context.from_numpy(beta).to(copies), y, tile), [y]

    wide = a.astype(np.float64)
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    tolerance = 1e-5 if dtype == "f4" else 2e-3
    np.testing.assert_allclose(both("layer_norm", place)[0], normal * gamma + beta, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize(("rows", "columns", "tile"), [(512, 256, 3), (256, 3000, 1)])
def test_rms_norm_is_that_of_rust(rows: int, columns: int, tile: int, dtype: str) -> None:
    rng = np.random.default_rng(4)
    a = rng.uniform(-2, 2, (rows, columns)).astype(dtype)
    gamma = rng.uniform(-1, 1, columns).astype(dtype)
    copies = cubeyard.Placement(cube="replicate", pe="replicate")

    def place(context: cubeyard.Context) -> Any:
        x, y = context.from_numpy(a).to(ROWS), context.zeros(a.shape, a.dtype).to(ROWS)
        return (x, context.from_numpy(gamma).to(copies), y, tile), [y]

    wide = a.astype(np.float64)
    normal = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
    tolerance = 1e-5 if dtype == "f4" else 2e-3
    np.testing.assert_allclose(both("rms_norm", place)[0], normal * gamma, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("kernel", "shape", "numbers"),
    [
        ("gemm", (256, 192, 320), (256, 192, 320)),
        ("gemm_blocked", (256, 192, 320), (64, 64, 64)),
        ("gemm_blocked", (200, 136, 264), (64, 32, 128)),
    ],
)
def test_gemm_is_that_of_rust(kernel: str, shape: tuple[int, int, int], numbers: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(4)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)

    def place(context: cubeyard.Context) -> Any:
        x, y, z = one(context, a), one(context, b), one(context, np.zeros((m, n)))
        return (x, y, z, *numbers), [z]

    np.testing.assert_allclose(both(kernel, place, **HERE)[0], a @ b, rtol=1e-5)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("tokens", "q_block", "k_block"), [(256, 64, 64), (200, 64, 96)])
def test_flash_attention_is_that_of_rust(causal: int, tokens: int, q_block: int, k_block: int) -> None:
    heads, size = 4, 64
    rng = np.random.default_rng(5)
    q, k, v = rng.uniform(-1, 1, (3, heads, tokens, size)).astype(np.float16)
    blocks = [np.concatenate([of[at : at + k_block].T.ravel() for at in range(0, tokens, k_block)]) for of in k]
    two = cubeyard.Placement(pe="row_wise", cubes=1, pes=2)

    def place(context: cubeyard.Context) -> Any:
        flat = [q.reshape(heads, -1), np.stack(blocks), v.reshape(heads, -1), np.zeros((heads, tokens * size), "f2")]
        tensors = [context.from_numpy(of).to(two) for of in flat]
        return (*tensors, size, q_block, k_block, causal), tensors[-1:]

    found = both("flash_attention", place, cubes=[0], pes=[0, 1])[0].reshape(heads, tokens, size)
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) / math.sqrt(size)
    if causal:
        scores = np.where(np.tri(tokens) == 1, scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    expected = weights / weights.sum(2, keepdims=True) @ v.astype(float)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(("ranks", "elements", "piece"), [(8, 4096, 1024), (4, 1000, 64), (8, 100_000, 1024), (2, 7, 4)])
def test_ring_all_reduce_is_that_of_rust(ranks: int, elements: int, piece: int) -> None:
    a = np.random.default_rng(6).integers(-8, 8, (ranks, elements)).astype(np.float32)
    pes = [f"sip0.cube0.pe{pe}" for pe in range(ranks)]
    over = cubeyard.Placement(pe="row_wise", cubes=1, pes=ranks)
    outcomes = []
    for make in (cubeyard.kernels.ring_all_reduce, RING.ring_all_reduce):
        context = cubeyard.Context()
        x, y = context.from_numpy(a).to(over), context.zeros(a.shape).to(over)
        with cubeyard.channels.ring(context, pes) as ring:
            assert ring.latency_ps > 0 and ring.nbytes == 2 * ranks * 4 * 4096
            report = context.launch(make(ranks, piece), x, y, 0, 0, 1, cubes=[0], pes=range(ranks))
        assert not findings(context)
        np.testing.assert_array_equal(y.numpy(), np.broadcast_to(a.sum(0), a.shape))
        outcomes.append((report.pes, report.done_ps - report.made_ps))
        del x, y
        assert context.close().is_clean
    assert outcomes[0] == outcomes[1]


def test_kernels_of_rust_reuse_their_recordings_and_check_their_arguments(context: cubeyard.Context) -> None:
    x, y = one(context, np.eye(4)), one(context, np.eye(4))
    first = context.launch(cubeyard.kernels.softmax, x, y, 2, **HERE)
    assert context.launch(cubeyard.kernels.softmax, x, y, 2, **HERE).max_ps == first.max_ps
    with pytest.raises(errors.InputError, match=r"kernel softmax\(x, y, tile\) launched with 1 arguments"):
        context.launch(cubeyard.kernels.softmax, x)
    with pytest.raises(errors.InputError, match="argument `tile`: expected a tensor or a number, found str"):
        context.launch(cubeyard.kernels.softmax, x, y, "2")
    with pytest.raises(errors.InputError, match="kernel: expected one of vector_add"):
        cubeyard.kernel.RustKernel("nothing")
    with pytest.raises(errors.InputError, match="piece=0"):
        cubeyard.kernels.ring_all_reduce(4, 0)


def test_messages_between_two_pes(context: cubeyard.Context) -> None:
    two = cubeyard.Placement(pe="row_wise", cubes=1, pes=2)
    x = context.from_numpy(np.array([[1, 2], [3, 4]], dtype=np.float32)).to(two)
    seen: list[Any] = []

    @cubeyard.jit(live=True)
    async def swap(x, tl):
        tl.send(9, tl.load(x))
        tl.fence()
        tile, sender = tl.recv_any([9], x.shape, x.dtype)
        seen.append((await tl.value(sender)).tolist())
        tl.store(x, tile)

    with context.connect([(("sip0.cube0.pe0", 9), ("sip0.cube0.pe1", 9))]):
        context.launch(swap, x, cubes=[0], pes=[0, 1])
    assert x.numpy().tolist() == [[3, 4], [1, 2]] and seen == [[0], [0]]


PAIR = [(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "W"))]


def test_a_message_is_looked_at_and_used_in_its_slot(context: cubeyard.Context) -> None:
    x, out = one(context, np.arange(6).reshape(2, 3)), one(context, np.zeros((4, 3)))

    def pair(x, out, tl):
        if tl.program_id() == 0:
            for row in range(2):
                tl.send("E", tl.load(x.whole[row]))
            return
        for row in range(2):
            seen = tl.recv_no_consume("W", (3,), "f32")
            held = tl.recv_slot("W", (3,), "f32")
            tl.store(out.whole[2 * row], seen)
            tl.store(out.whole[2 * row + 1], held * 2)
            tl.release(held)

    with cubeyard.channels.connect(context, PAIR, slots=1):
        context.launch(pair, x, out, cubes=[0], pes=[0, 1])
    assert out.numpy().tolist() == [[0, 1, 2], [0, 2, 4], [3, 4, 5], [6, 8, 10]]


def test_slots_are_released_once_and_not_used_afterwards(context: cubeyard.Context) -> None:
    def pair(x, tl, late):
        if tl.program_id() == 0:
            return tl.send("E", tl.load(x.whole[0:1]))
        tile = tl.recv_slot("W", (1,), "f32")
        late(tl, tile)

    def uses(tl, tile):
        tl.release(tile)
        tl.exp(tile)

    def twice(tl, tile):
        tl.release(tile)
        tl.release(tile)

    texts = ["is never released", "in a slot of W that was released", "its slot was released before"]
    for late, text in zip([lambda tl, tile: None, uses, twice], texts, strict=True):

        def kernel(x, tl, late=late):
            pair(x, tl, late)

        with cubeyard.channels.connect(context, PAIR), pytest.raises(errors.KernelError, match=text):
            context.launch(kernel, one(context, [1, 2]), cubes=[0], pes=[0, 1])


@pytest.mark.parametrize(
    ("channels", "named", "text"),
    [
        ([(("sip0.cube0.pe0", "Q"), ("sip0.cube0.pe1", "W"))], {}, "port='Q': expected a number from 0 to 65535"),
        ([(("sip0.cube0.pe99", "E"), ("sip0.cube0.pe1", "W"))], {}, "pe99"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe0", "W"))], {}, "sip0.cube0.pe0"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "W"))], {"memory": "l2"}, "memory: expected one of tcm, sram, hbm"),
        ([(("sip0.cube0.pe0", "E"), ("sip0.cube0.pe1", "W"))], {"slots": 0}, "slots"),
    ],
)
def test_bad_channels_are_refused(context: cubeyard.Context, channels: Any, named: Any, text: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        cubeyard.channels.connect(context, channels, **named)
    assert text in str(caught.value)
    assert context._native.is_pristine()


def test_a_message_without_a_channel_is_an_error(context: cubeyard.Context) -> None:
    def sends(x, tl):
        tl.send("E", tl.load(x))

    with pytest.raises(errors.CubeyardError, match="E"):
        context.launch(sends, one(context, [1]), **HERE)


def test_closed_channels_say_so(context: cubeyard.Context) -> None:
    channels = cubeyard.channels.ring(context, ["sip0.cube0.pe0", "sip0.cube0.pe1"])
    channels.close()
    channels.close()
    with pytest.raises(errors.ClosedError):
        channels.select()
    assert context._native.is_pristine()
