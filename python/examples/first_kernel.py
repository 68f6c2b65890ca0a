"""A first kernel: softmax of every row, its numbers beside NumPy's, and what limits it.

Cells are marked by `# %%`, so that it is a notebook in editors that know them.
"""

# %% A kernel is a function of the parts that a PE holds. It is recorded once for each PE.
import numpy as np

import cubeyard


@cubeyard.jit
def softmax(x, out, tl):
    for row in range(x.shape[0]):
        tile = tl.load(x[row])
        powers = tl.exp(tile - tl.max(tile, 0, keep=True))
        tl.store(out[row], powers / tl.sum(powers, 0, keep=True))


# %% Tensors are placed over the 128 PEs of a SIP, two rows each.
rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
values = np.random.default_rng(0).normal(size=(256, 512)).astype(np.float32)
with cubeyard.Context() as torch:
    x = torch.from_numpy(values).to(rows)
    out = torch.zeros(values.shape, dtype="f32").to(rows)
    report = torch.launch(softmax, x, out)
    found = out.numpy()

# %% The numbers are NumPy's, the time is the machine's.
powers = np.exp(values - values.max(axis=1, keepdims=True))
np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
print(f"{report.max_ps / 1000:.1f} ns on {len(report.pes)} PEs")
