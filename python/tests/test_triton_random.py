"""Random small kernels in Triton give the numbers of NumPy; CUBEYARD_TRITON_KERNELS is their number."""

import dataclasses
import importlib.util
import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import numpy as np
import pytest
import triton
import triton_random

import cubeyard.triton  # noqa: F401

COUNT = int(os.environ.get("CUBEYARD_TRITON_KERNELS", "100"))
BATCH = 25


def arrays_of(seed):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 40)), int(rng.integers(1, 33)))
    floats = {name: rng.standard_normal(shape).astype(np.float32) for name in "xy"}
    wholes = {name: rng.integers(-100, 100, shape).astype(np.int32) for name in "ij"}
    longs = {name: rng.integers(-(2**63), 2**63 - 1, shape, endpoint=True) for name in "kl"}
    for array in longs.values():
        # Some at the edges, and some beside the constants with which they are compared.
        chosen = rng.random(shape) < 0.3
        array[chosen] = rng.choice(np.array(triton_random.FAR), chosen.sum()) + rng.integers(-1, 2, chosen.sum())
    return {**floats, **wholes, **longs}


def block_of(seed):
    return (16, 32) if seed % 2 else (8, 64)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The kernels in a file, which Triton reads."""
    path = tmp_path_factory.mktemp("kernels") / "random_kernels.py"
    texts = [triton_random.source(seed, arrays_of(seed), block_of(seed)) for seed in range(COUNT)]
    path.write_text("import triton\nimport triton.language as tl\n" + "\n".join(texts))
    spec = importlib.util.spec_from_file_location("random_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launched(kernels, seed):
    """Launches a kernel; returns it as it was compiled, and the arrays that it wrote."""
    arrays, (m, n) = arrays_of(seed), block_of(seed)
    rows, columns = arrays["x"].shape
    written = [np.zeros((rows, columns), dtype) for dtype in (np.float32, np.int32, np.int64)]
    kernel = getattr(kernels, f"kernel_{seed}")[(triton.cdiv(rows, m),)]
    return kernel(*arrays.values(), *written, rows, columns, **triton_random.numbers_of(seed), M=m, N=n), written


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_kernels(kernels, first):
    for seed in range(first, min(first + BATCH, COUNT)):
        arrays, (m, n) = arrays_of(seed), block_of(seed)
        rows, columns = arrays["x"].shape
        _, (out, whole, long) = launched(kernels, seed)
        for start in range(0, rows, m):
            with np.errstate(all="ignore"):
                _, (_, floats), (_, wholes), (_, longs) = triton_random.written(seed, arrays, start, (m, n))
            count = min(m, rows - start)
            for found, numbers in ((whole, wholes), (long, longs)):
                part = np.broadcast_to(numbers, (m, n))[:count, :columns]
                assert (found[start : start + count] == part).all(), triton_random.source(seed, arrays, (m, n))
            wanted = floats[:count, :columns].astype(np.float64)
            scale = max(1.0, np.abs(wanted).max())
            difference = np.abs(out[start : start + count] - wanted).max()
            assert difference <= 1e-4 * scale, (difference, triton_random.source(seed, arrays, (m, n)))


@pytest.mark.parametrize("seed", range(0, COUNT, 20))
def test_kernels_that_are_recorded_and_that_run_live_have_the_same_places_and_times(kernels, seed, tmp_path):
    def traced():
        with cubeyard.triton.record() as run:
            compiled, written = launched(kernels, seed)
        [launch] = run.launches
        numbers = [array.tobytes() for array in written]
        return compiled.function, launch.trace(tmp_path / "run.pftrace").read_bytes(), numbers, set(launch.notes)

    program, *recorded = traced()
    assert b"random_kernels.py:" in recorded[0] and traced()[1:] == tuple(recorded)
    program.facts = dataclasses.replace(program.facts, live="forced")
    _, *live, notes = traced()
    assert live == recorded[:2] and notes - recorded[2] == {"runs live: forced"}
