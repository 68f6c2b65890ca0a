"""Benches in a file: a kernel, and workers that read as in a DDP script.

    cubeyard list benches.py
    cubeyard run benches.py::scale --data --set n=5 --explain --report scale.html
    cubeyard run benches.py::gradients --data --trace gradients.pftrace
"""

import numpy as np

import cubeyard
import cubeyard.distributed as dist


@cubeyard.jit
def scale(x, out, n, tl):
    for row in range(x.shape[0]):
        tl.store(out[row], tl.load(x[row]) * n)


@cubeyard.bench(name="scale", description="each row times n")
def run_scale(torch, n: int = 3):
    rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
    a = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    x, y = torch.from_numpy(a).to(rows), torch.zeros(a.shape, dtype="f32").to(rows)
    torch.launch(scale, x, y, n)
    if torch.data:
        np.testing.assert_array_equal(y.numpy(), a * n)


def worker(rank, elements):
    dist.init_process_group("ahbm")
    torch = dist.context()
    gradient = torch.full((elements,), float(rank + 1), dtype="f32").to(dist.placement())
    dist.all_reduce(gradient)
    if torch.data:
        size = dist.get_world_size()
        np.testing.assert_array_equal(gradient.numpy(), np.full(elements, size * (size + 1) / 2, dtype=np.float32))


@cubeyard.bench(name="gradients", description="the sum of every rank's gradients, on every rank")
def run_gradients(torch, elements: int = 65536):
    dist.spawn(worker, args=(elements,), context=torch)
