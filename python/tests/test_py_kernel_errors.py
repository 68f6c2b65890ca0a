"""Errors of kernels in Python: they name kernel, PE and line, and the context goes on."""

from __future__ import annotations

import gc
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cubeyard
from cubeyard import errors
from kernel_lab import HERE, failing, line_of, one, works


@pytest.fixture
def context() -> cubeyard.Context:
    return cubeyard.Context()


# Errors.


@pytest.mark.parametrize(
    "look",
    [lambda t: bool(t > 1), lambda t: float(t), lambda t: int(t), lambda t: [0, 1][t], lambda t: list(t), np.asarray],
)
def test_reading_elements_while_recording_names_live(context: cubeyard.Context, look: Any) -> None:
    def looks(x, tl):
        look(tl.load(x))

    error = failing(context, looks, one(context, [1, 2]))
    assert "live=True" in str(error) and "looks on sip0.cube0.pe0, test_py_kernel_errors.py:" in str(error)


def test_an_error_of_tl_names_kernel_pe_and_line(context: cubeyard.Context) -> None:
    def adds(x, y, tl):
        left = tl.load(x)
        left + tl.load(y)  # here

    error = failing(context, adds, one(context, [1, 2]), one(context, [1, 2, 3]))
    assert str(error).startswith(f"adds on sip0.cube0.pe0, {line_of(adds, '# here')}: "), error
    assert isinstance(error.__cause__, errors.KernelError)


def test_a_kernel_that_catches_an_error_of_tl_has_failed(context: cubeyard.Context) -> None:
    def catches(x, tl):
        try:
            tl.cdiv(1, 0)  # here
        except errors.KernelError:
            pass
        tl.store(x, tl.load(x))

    error = failing(context, catches, one(context, [1]))
    assert "cdiv by 0" in str(error) and line_of(catches, "# here") in str(error)


def test_an_exception_is_the_cause_and_has_its_traceback(context: cubeyard.Context) -> None:
    def inner(n):
        return 1 // n  # here

    def divides(x, n, tl):
        tl.load(x)
        inner(n)

    error = failing(context, divides, one(context, [1]), 0)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert f"divides on sip0.cube0.pe0, {line_of(inner, '# here')}: ZeroDivisionError" in str(error)
    frames = []
    trace = error.__cause__.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert frames == ["divides", "inner"]


def test_an_exception_in_a_live_kernel_is_the_cause_too(context: cubeyard.Context) -> None:
    @cubeyard.jit(live=True)
    async def raises(x, tl):
        await tl.value(tl.load(x))
        raise KeyError("x")  # here

    error = failing(context, raises, one(context, [1]))
    assert isinstance(error.__cause__, KeyError) and line_of(raises, "# here") in str(error)


@pytest.mark.parametrize("is_live", [False, True])
def test_ctrl_c_in_a_kernel_is_raised_as_it_is(context: cubeyard.Context, is_live: bool) -> None:
    async def interrupted(x, tl):
        tl.load(x)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        context.launch(cubeyard.jit(live=is_live)(interrupted), one(context, [1]), **HERE)
    assert works(context)


def test_a_kernel_returns_nothing(context: cubeyard.Context) -> None:
    def gives(x, tl):
        return tl.load(x)

    error = failing(context, gives, one(context, [1]))
    assert "the kernel returns a Tile" in str(error) and line_of(gives, "def gives") in str(error)


def test_a_kernel_keeps_no_tile(context: cubeyard.Context) -> None:
    kept: list[Any] = []

    def keeps(x, tl):
        kept.append(tl.load(x))  # here

    error = failing(context, keeps, one(context, [1]))
    assert f"the tile f32[1] of {line_of(keeps, '# here')} is kept beyond the end" in str(error)

    def uses(x, tl):
        tl.store(x, kept[0])

    error = failing(context, uses, one(context, [1]))
    assert "used outside its run of keeps on sip0.cube0.pe0, which has ended" in str(error)
    with pytest.raises(errors.KernelError, match="which has ended"):
        kept[0] + 1
    kept.clear()


def test_tiles_in_cycles_of_references_are_not_kept(context: cubeyard.Context) -> None:
    def cycles(x, tl):
        held: list[Any] = [tl.load(x)]
        held.append(held)

    context.launch(cycles, one(context, [1]), **HERE)


def test_tl_and_tiles_belong_to_their_thread(context: cubeyard.Context) -> None:
    caught: list[str] = []

    def threads(x, tl):
        tile = tl.load(x)

        def use() -> None:
            try:
                tile + 1
            except errors.KernelError as error:
                caught.append(str(error))

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    context.launch(threads, one(context, [1]), **HERE)
    assert "which does not run here" in caught[0]


def test_the_context_is_busy_within_its_kernel(context: cubeyard.Context) -> None:
    def nests(x, tl):
        context.launch(nests, 1)

    error = failing(context, nests, one(context, [1]))
    assert isinstance(error.__cause__, errors.BusyError)


def test_another_context_runs_within_a_kernel(context: cubeyard.Context) -> None:
    other = cubeyard.Context()

    def nests(x, tl):
        tile = tl.load(x)
        assert works(other)
        tl.store(x, tile * 2)

    x = one(context, [4])
    context.launch(nests, x, **HERE)
    assert x.numpy().tolist() == [8]


def test_a_pe_without_a_part_says_so(context: cubeyard.Context) -> None:
    x = one(context, [1, 2])

    def kernel(x, tl):
        if not x.held:
            assert tl.load(x.whole).shape == (2,)
            x.shape

    with pytest.raises(errors.KernelError, match="argument `x`: sip0.cube0.pe1 holds no part of it"):
        context.launch(kernel, x, cubes=[0], pes=[0, 1])


def test_a_tensor_that_is_not_one_range_has_no_whole(context: cubeyard.Context) -> None:
    columns = context.zeros((128, 128)).to(cubeyard.Placement(cube="column_wise", pe="column_wise"))

    def kernel(x, tl):
        x.whole

    with pytest.raises(errors.KernelError, match="argument `x`: it is not one contiguous row-major range"):
        context.launch(kernel, columns)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda x, tl: x[2], "index: expected a whole number from -2 to 2 - 1"),
        (lambda x, tl: x[::2], "a slice with step 1"),
        (lambda x, tl: x[0, 0], "an index of at most 1 dimensions"),
        (lambda x, tl: x["a"], "index: expected"),
        (lambda x, tl: x.block(-1, 1), "start: expected whole numbers, 0 or more; found -1"),
        (lambda x, tl: x.block((0, 0), (1, 1)), "start: expected 1 numbers"),
        (lambda x, tl: tl.zeros(4, "f31"), "dtype: expected one of"),
        (lambda x, tl: tl.zeros(4, object()), "dtype: expected the name of an element type"),
        (lambda x, tl: tl.zeros((1, -4), "f32"), "shape: expected whole numbers, 0 or more; found (1, -4)"),
        (lambda x, tl: tl.sum(tl.load(x), -2), "axis: expected a number from -1"),
        (lambda x, tl: tl.sum(tl.load(x), 1), "axis"),
        (lambda x, tl: tl.add(tl.load(x), "1"), "y: expected a tile or a number, found str"),
        (lambda x, tl: tl.add(1, 2), "one operand must be a tile"),
        (lambda x, tl: tl.load(x) + "1", "TypeError"),
        (lambda x, tl: tl.load(x, mask=[1, 2]), "mask: expected a mask"),
        (lambda x, tl: tl.send("Q", tl.load(x)), "port: expected a number from 0 to 65535, or one of N, E, S, W"),
        (lambda x, tl: tl.gemm(x, 3), "b: expected a Ref or a tile; found 3"),
        (lambda x, tl: tl.map("mul", [x]), "operands: mul takes 2, found 1"),
        (lambda x, tl: tl.map("nothing", [x]), "`nothing` is no elementwise operation"),
        (lambda x, tl: tl.reduce_rows("mean", x), "op: expected one of sum, max"),
        (lambda x, tl: x[0:1].whole, "whole: expected an argument of the kernel, found a part of one"),
        (lambda x, tl: tl.program_id(2), "axis 2: expected 0"),
        (lambda x, tl: tl.load(tl.ref(0, 4, "f32")), "outside every tensor"),
        (lambda x, tl: tl.zeros(1 << 26, "f32"), "TCM"),
    ],
)
def test_bad_arguments_are_named(context: cubeyard.Context, act: Any, text: str) -> None:
    def kernel(x, tl):
        act(x, tl)

    assert text in str(failing(context, kernel, one(context, [1, 2])))


def test_a_tiled_operation_is_issued_once(context: cubeyard.Context) -> None:
    def kernel(x, out, tl):
        product = tl.gemm(x, x)
        product.store(out)
        product.store(out)

    x, out = one(context, np.eye(4)), one(context, np.eye(4))
    assert "issued twice" in str(failing(context, kernel, x, out))


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        ((lambda x, tl: None,), {}, "launched with 0 arguments: missing a required argument: 'x'"),
        ((lambda tl: None, 1), {}, "launched with 1 arguments"),
        ((3,), {}, "kernel=3: expected a kernel or a function, found int"),
        (("name",), {}, "expected a function after the kernel's name"),
        ((lambda x: None, 1), {}, "expected a parameter named tl"),
        ((lambda x, tl: None, 2**127), {}, "argument `x`: expected a whole number of at most 127 bits"),
        ((lambda x, tl: None, "one"), {}, "argument `x`: expected a tensor or a number, found str"),
        ((lambda tl: None,), {"cubes": [-1]}, "cubes=[-1]: expected"),
        ((lambda tl: None,), {"pes": []}, "pes=[]: expected at least one number"),
        ((lambda tl: None,), {"sip": 99}, "99"),
    ],
)
def test_bad_launches_are_refused(context: cubeyard.Context, arguments: Any, named: Any, text: str) -> None:
    with pytest.raises(errors.InputError) as caught:
        context.launch(*arguments, **named)
    assert text in str(caught.value)


def test_a_race_names_both_lines(context: cubeyard.Context) -> None:
    x = one(context, [1, 2])

    def races(x, tl):
        tl.store(x.whole, tl.full(2, tl.program_id(), "f32"))  # here

    context.launch(races, x, cubes=[0], pes=[0, 1])
    (finding,) = context.findings()
    assert (finding.kernel, finding.place) == ("races", line_of(races, "# here"))
    assert finding.what.count(line_of(races, "# here")) == 1 and "no order between the two" in finding.what


PLACE = SimpleNamespace(file="/home/author/language.txt", line=7)


def test_a_place_that_a_kernel_gives_is_that_of_its_commands(context: cubeyard.Context) -> None:
    def races(x, tl):
        tile = tl.full(2, tl.program_id(), "f32")
        tl.place = PLACE
        assert tl.place is PLACE
        tl.store(x.whole, tile)
        tl.place = None
        tl.store(x.whole, tile)  # here

    context.launch(races, one(context, [1, 2]), cubes=[0], pes=[0, 1])
    assert {finding.place for finding in context.findings()} == {"language.txt:7", line_of(races, "# here")}


@pytest.mark.parametrize("act", [lambda tl, x: tl.cdiv(1, 0), lambda tl, x: 1 // 0, lambda tl, x: x + tl.full(3, 0, "f32")])
def test_an_error_is_at_the_place_that_the_kernel_gave(context: cubeyard.Context, act: Any) -> None:
    def fails(x, tl):
        tl.place = PLACE
        act(tl, tl.load(x))

    assert "fails on sip0.cube0.pe0, language.txt:7: " in str(failing(context, fails, one(context, [1, 2])))


def test_a_place_has_a_file_and_a_line(context: cubeyard.Context) -> None:
    def wrong(x, tl):
        tl.place = 7  # here

    assert line_of(wrong, "# here") in str(failing(context, wrong, one(context, [1])))


def test_an_endless_kernel_is_ended(context: cubeyard.Context) -> None:
    def endless(tl):
        while True:
            tl.cdiv(1, 1)

    assert "more than 4194304 calls of tl: the kernel seems not to end" in str(failing(context, endless))


@pytest.mark.parametrize("is_live", [False, True])
def test_ctrl_c_ends_a_long_kernel_soon(context: cubeyard.Context, is_live: bool) -> None:
    async def long(x, tl):
        tile = tl.load(x)
        while True:
            tile = tile + 1
            if is_live:
                await tl.value(tile)

    pressed = []

    def press() -> None:
        pressed.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    x, timer = one(context, [1]), threading.Timer(0.3, press)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        context.launch(cubeyard.jit(live=is_live)(long), x, **HERE)
    assert time.monotonic() - pressed[0] < 1.0  # 0.1 s on a machine that is not busy
    timer.join()
    assert works(context)


def test_two_threads_launch_on_one_context(context: cubeyard.Context) -> None:
    tensors = [one(context, [0.0]) for _ in range(2)]

    def adds(x, tl):
        tl.store(x, tl.load(x) + 1)

    def run(x: cubeyard.Tensor) -> None:
        for _ in range(20):
            context.launch(adds, x, **HERE)

    threads = [threading.Thread(target=run, args=(x,)) for x in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.numpy().tolist() for x in tensors] == [[20], [20]]


def test_tiles_dropped_elsewhere_are_freed_before_the_kernel_ends(context: cubeyard.Context) -> None:
    def hands_over(x, tl):
        held = [tl.load(x)]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()

    context.launch(hands_over, one(context, [1]), **HERE)


def test_scratch_memory_follows_references(context: cubeyard.Context) -> None:
    def fits(x, tl):
        size = tl.scratch_bytes() // 4
        for _ in range(10):
            first = tl.zeros(size // 2, "f32")
            del first

    def overflows(x, tl):
        size = tl.scratch_bytes() // 4
        tiles = [tl.zeros(size // 2, "f32") for _ in range(3)]  # here
        del tiles

    x = one(context, [1])
    context.launch(fits, x, **HERE)
    error = failing(context, overflows, x)
    assert "no room for a tile" in str(error) and line_of(overflows, "# here") in str(error)
