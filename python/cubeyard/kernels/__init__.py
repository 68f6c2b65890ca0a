"""Ready-made kernels written in Rust, launched like Python kernels.

`python/examples/kernels.py` implements the same kernels in Python, with the same commands and timing.

>>> import cubeyard, numpy as np
>>> from cubeyard import kernels
>>> context = cubeyard.Context()
>>> rows = cubeyard.Placement(cube="row_wise", pe="row_wise")
>>> a = np.linspace(-8, 8, 256 * 64, dtype=np.float32).reshape(256, 64)
>>> x, y = context.from_numpy(a).to(rows), context.zeros(a.shape).to(rows)
>>> report = context.launch(kernels.softmax, x, y, 2)
>>> bool(np.allclose(y.numpy().sum(1), 1))
True
"""

from __future__ import annotations

from cubeyard.errors import InputError
from cubeyard.kernels.kernel import RustKernel

__all__ = [
    "flash_attention",
    "gemm",
    "gemm_blocked",
    "layer_norm",
    "ring_all_reduce",
    "rms_norm",
    "softmax",
    "vector_add",
]

vector_add = RustKernel("vector_add")
"""z = x + y. Arguments: x, y, z, and the number of elements per block."""

softmax = RustKernel("softmax")
"""Softmax of each row. Arguments: x, y, and the number of rows per tile."""

layer_norm = RustKernel("layer_norm")
"""Layer norm of each row. Arguments: x, gamma, beta, y, and the number of rows per tile."""

rms_norm = RustKernel("rms_norm")
"""RMS norm of each row. Arguments: x, gamma, y, and the number of rows per tile."""

gemm = RustKernel("gemm")
"""c = a b on one PE, as one tiled operation. Arguments: a, b, c, and the sizes M, K and N."""

gemm_blocked = RustKernel("gemm_blocked")
"""c = a b on one PE, block by block. Arguments: a, b, c, and the block sizes M, K and N."""

flash_attention = RustKernel("flash_attention")
"""Attention over the heads of each PE.

Arguments: Q, K, V, the output, the head dimension, the tokens per block of Q, the tokens per block of K and V, and 1 for
causal masking.
"""


def ring_all_reduce(ranks: int, piece: int) -> RustKernel:
    """Returns a kernel that sums over a ring of PEs, connected by the channels of `cubeyard.channels.ring`.

    Arguments of the kernel: input, output, the rank of the first PE, and the rank increments per cube and per PE.

    Args:
        ranks: number of PEs.
        piece: maximum number of elements per message.
    """
    for name, number in (("ranks", ranks), ("piece", piece)):
        if not isinstance(number, int) or not 1 <= number < 2**63:
            raise InputError(f"{name}={number!r}: expected a whole number, 1 or more")
    return RustKernel("ring_all_reduce", (ranks, piece))
