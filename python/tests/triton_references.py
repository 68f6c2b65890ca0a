"""NumPy's answers to the kernels of `triton_kernels`, in 64 bits."""

import numpy as np


def wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


def softmax(x):
    (x,) = wide(x)
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def leaky_relu(x):
    return np.where(x >= 0, x, 0.01 * x)


def layer_norm(x, w, b, eps):
    x, w, b = wide(x, w, b)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + eps)
    return (x - mean[:, None]) * rstd[:, None] * w + b, mean, rstd


def layer_norm_backward(dy, x, w, eps):
    dy, x, w = wide(dy, x, w)
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    xhat = (x - x.mean(1, keepdims=True)) * rstd
    wdy = w * dy
    c1, c2 = (xhat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    return (wdy - (xhat * c1 + c2)) * rstd, (dy * xhat).sum(0), dy.sum(0)


def scores(q, k, scale, causal):
    s = np.einsum("hid,hjd->hij", *wide(q, k)) * scale
    return np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf) if causal else s


def attention(q, k, v, scale, causal):
    """Returns the output, and the logarithm to base 2 of the sum of weights of each row."""
    s = scores(q, k, scale, causal)
    top = s.max(-1, keepdims=True)
    weights = np.exp(s - top)
    total = weights.sum(-1, keepdims=True)
    logarithm = (np.log2(total) + top * np.log2(np.e))[..., 0]
    return weights / total @ wide(v)[0], logarithm


def attention_backward(q, k, v, do, scale, causal):
    p = softmax(scores(q, k, scale, causal))
    q, k, v, do = wide(q, k, v, do)
    dp = np.einsum("hid,hjd->hij", do, v)
    ds = p * (dp - (do * (p @ v)).sum(-1, keepdims=True))
    dq, dk = np.einsum("hij,hjd->hid", ds, k) * scale, np.einsum("hij,hid->hjd", ds, q) * scale
    return dq, dk, np.einsum("hij,hid->hjd", p, do)


def philox(seed, offsets):
    """Returns the uniform numbers of Triton's generator: ten rounds of Philox with four words of 32 bits."""
    word = np.uint64(0xFFFFFFFF)
    c = [offsets.astype(np.uint64) & word, *(np.zeros(len(offsets), np.uint64) for _ in range(3))]
    keys = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ keys[0], b & word, a >> np.uint64(32) ^ c[3] ^ keys[1], a & word]
        keys = [keys[0] + np.uint64(0x9E3779B9) & word, keys[1] + np.uint64(0xBB67AE85) & word]
    signed = c[0].astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)
