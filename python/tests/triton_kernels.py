"""Kernels in Triton, in the style of its tutorials; nothing of this package is in them."""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def softmax_row(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(in_ptr + row * in_stride + offsets, mask=mask, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + offsets, weights / tl.sum(weights, axis=0), mask=mask)


@triton.jit
def softmax(out_ptr, in_ptr, in_stride, out_stride, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(in_ptr + row * in_stride + offsets, mask=mask, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + offsets, weights / tl.sum(weights, axis=0), mask=mask)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * num_n
    group = pid // in_group
    first = group * GROUP_M
    size = min(num_m - first, GROUP_M)
    pid_m = first + ((pid % in_group) % size)
    pid_n = (pid % in_group) // size
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c = acc.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def layer_norm(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(X + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(X + columns, mask=columns < N, other=0.0).to(tl.float32)
        x = tl.where(columns < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < N
        w = tl.load(W + columns, mask=mask)
        b = tl.load(B + columns, mask=mask)
        x = tl.load(X + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + columns, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def layer_norm_backward(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP
    Lock += lock_id
    Count = Lock + GROUP
    DW = DW + lock_id * N + columns
    DB = DB + lock_id * N + columns
    x = tl.load(X + columns, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + columns, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + columns, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.0)
    wdy = tl.where(mask, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(DX + columns, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def layer_norm_weights(DW, DB, OUT_DW, OUT_DB, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        at = rows[:, None] * N + columns[None, :]
        dw += tl.load(DW + at, mask=mask, other=0.0)
        db += tl.load(DB + at, mask=mask, other=0.0)
    tl.store(OUT_DW + columns, tl.sum(dw, axis=0), mask=columns < N)
    tl.store(OUT_DB + columns, tl.sum(db, axis=0), mask=columns < N)


@triton.jit
def _attend(acc, l, m, q, K, V, start_m, scale, tokens, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            D: tl.constexpr, STAGE: tl.constexpr):  # fmt: skip
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    if STAGE == 1:
        low, high = 0, start_m * BLOCK_M
    elif STAGE == 2:
        low, high = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        low = tl.multiple_of(low, BLOCK_M)
    else:
        low, high = 0, tokens
    for start in tl.range(low, high, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        at = (start + offs_n)[:, None] * D + offs_d[None, :]
        inside = (start + offs_n)[:, None] < tokens
        k = tl.load(K + at, mask=inside, other=0.0)
        qk = tl.dot(q, tl.trans(k))
        visible = (start + offs_n)[None, :] < tokens
        if STAGE == 2:
            visible = visible & (offs_m[:, None] >= (start + offs_n)[None, :])
        qk = tl.where(visible, qk * scale, -1.0e6)
        new = tl.maximum(m, tl.max(qk, 1))
        p = tl.math.exp2(qk - new[:, None])
        alpha = tl.math.exp2(m - new)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + at, mask=inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = new
    return acc, l, m


@triton.jit
def attention(Q, K, V, Out, L, scale, stride_head, tokens, D: tl.constexpr, BLOCK_M: tl.constexpr,
              BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    Q += head.to(tl.int64) * stride_head
    K += head.to(tl.int64) * stride_head
    V += head.to(tl.int64) * stride_head
    Out += head.to(tl.int64) * stride_head
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    at = offs_m[:, None] * D + tl.arange(0, D)[None, :]
    inside = offs_m[:, None] < tokens
    q = tl.load(Q + at, mask=inside, other=0.0)
    m = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    scale *= 1.44269504
    if CAUSAL:
        acc, l, m = _attend(acc, l, m, q, K, V, start_m, scale, tokens, BLOCK_M, BLOCK_N, D, 1)
        acc, l, m = _attend(acc, l, m, q, K, V, start_m, scale, tokens, BLOCK_M, BLOCK_N, D, 2)
    else:
        acc, l, m = _attend(acc, l, m, q, K, V, start_m, scale, tokens, BLOCK_M, BLOCK_N, D, 3)
    m += tl.math.log2(l)
    tl.store(L + head * tokens + offs_m, m, mask=offs_m < tokens)
    tl.store(Out + at, (acc / l[:, None]).to(Out.dtype.element_ty), mask=inside)


@triton.jit
def attention_delta(O, DO, Delta, tokens, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(1)
    at = head * tokens * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    inside = rows[:, None] < tokens
    o = tl.load(O + at, mask=inside, other=0.0).to(tl.float32)
    do = tl.load(DO + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(Delta + head * tokens + rows, tl.sum(o * do, axis=1), mask=rows < tokens)


@triton.jit
def attention_backward(Q, K, V, DO, DQ, DK, DV, L, Delta, scale, tokens, D: tl.constexpr, BLOCK: tl.constexpr,
                       CAUSAL: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    base = tl.program_id(1) * tokens
    offs_d = tl.arange(0, D)
    own = block * BLOCK + tl.arange(0, BLOCK)
    at_own = (base + own)[:, None] * D + offs_d[None, :]
    inside_own = own[:, None] < tokens
    k = tl.load(K + at_own, mask=inside_own, other=0.0)
    v = tl.load(V + at_own, mask=inside_own, other=0.0)
    dk = tl.zeros([BLOCK, D], dtype=tl.float32)
    dv = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(0, tokens, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        at = (base + rows)[:, None] * D + offs_d[None, :]
        q = tl.load(Q + at, mask=rows[:, None] < tokens, other=0.0)
        do = tl.load(DO + at, mask=rows[:, None] < tokens, other=0.0)
        m = tl.load(L + base + rows, mask=rows < tokens, other=0.0)
        delta = tl.load(Delta + base + rows, mask=rows < tokens, other=0.0)
        p_t = tl.math.exp2(tl.dot(k, tl.trans(q)) * (scale * 1.44269504) - m[None, :])
        visible = (rows[None, :] < tokens) & (own[:, None] < tokens)
        if CAUSAL:
            visible = visible & (rows[None, :] >= own[:, None])
        p_t = tl.where(visible, p_t, 0.0)
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        ds_t = p_t * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds_t.to(q.dtype), q, dk)
    tl.store(DV + at_own, dv.to(DV.dtype.element_ty), mask=inside_own)
    tl.store(DK + at_own, (dk * scale).to(DK.dtype.element_ty), mask=inside_own)
    q = tl.load(Q + at_own, mask=inside_own, other=0.0)
    do = tl.load(DO + at_own, mask=inside_own, other=0.0)
    m = tl.load(L + base + own, mask=own < tokens, other=0.0)[:, None]
    delta = tl.load(Delta + base + own, mask=own < tokens, other=0.0)
    dq = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(0, tokens, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        at = (base + rows)[:, None] * D + offs_d[None, :]
        k = tl.load(K + at, mask=rows[:, None] < tokens, other=0.0)
        v = tl.load(V + at, mask=rows[:, None] < tokens, other=0.0)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) * (scale * 1.44269504) - m)
        visible = (rows[None, :] < tokens) & (own[:, None] < tokens)
        if CAUSAL:
            visible = visible & (own[:, None] >= rows[None, :])
        p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(DQ + at_own, (dq * scale).to(DQ.dtype.element_ty), mask=inside_own)


@triton.jit
def grouped_matmul(A_ptrs, B_ptrs, C_ptrs, sizes, leading, groups, PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr,
                   BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    last_end = 0
    for g in range(groups):
        gm = tl.load(sizes + g * 3)
        gn = tl.load(sizes + g * 3 + 1)
        gk = tl.load(sizes + g * 3 + 2)
        num_m, num_n = tl.cdiv(gm, BLOCK_M), tl.cdiv(gn, BLOCK_N)
        tiles = num_m * num_n
        while tile >= last_end and tile < last_end + tiles:
            lda = tl.load(leading + g * 3)
            ldb = tl.load(leading + g * 3 + 1)
            ldc = tl.load(leading + g * 3 + 2)
            a_ptr = tl.load(A_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(B_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(C_ptrs + g).to(tl.pointer_type(tl.float16))
            within = tile - last_end
            offs_m = (within // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_n = (within % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
            offs_k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + offs_m[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_n[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for _ in range(0, tl.cdiv(gk, BLOCK_K)):
                acc += tl.dot(tl.load(a_ptrs), tl.load(b_ptrs))
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * ldb
            tl.store(c_ptr + ldc * offs_m[:, None] + offs_n[None, :], acc.to(tl.float16))
            tile += PROGRAMS
        last_end += tiles


@triton.jit
def persistent_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr):  # fmt: skip
    num_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * num_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
        offs_m = (tile // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = (tile % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(tl.cdiv(K, BLOCK_K)):
            offs_k = ki * BLOCK_K + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :],
                        mask=(offs_m[:, None] < M) & (offs_k[None, :] < K), other=0.0)  # fmt: skip
            b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :],
                        mask=(offs_k[:, None] < K) & (offs_n[None, :] < N), other=0.0)  # fmt: skip
            acc = tl.dot(a, b, acc)
        c = acc.to(c_ptr.dtype.element_ty)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], c, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


@triton.jit
def descriptor_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                      BLOCK_K: tl.constexpr):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    at_m = tl.program_id(0) * BLOCK_M
    at_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a_desc.load([at_m, k]), b_desc.load([at_n, k]).T, acc)
    c_desc.store([at_m, at_n], acc.to(c_ptr.dtype.element_ty))


@triton.jit
def greater(x_ptr, y_ptr, out_ptr, most_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offsets), tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, tl.maximum(x, y))
    tl.store(out_ptr + BLOCK + offsets, tl.maximum(x, 0.0))
    tl.store(out_ptr + 2 * BLOCK + offsets, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(most_ptr, tl.max(x, 0))
    tl.store(most_ptr + 1, tl.min(x, 0))


@triton.jit
def _farther(x, i, y, j):
    takes = tl.abs(x) > tl.abs(y)
    return tl.where(takes, x, y), tl.where(takes, i, j)


@triton.jit
def farthest(x_ptr, out_ptr, at_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    value, place = tl.reduce((x, offsets), 0, _farther)
    tl.store(out_ptr, value)
    tl.store(at_ptr, place)


@triton.jit
def extremes(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.argmax(x, 0))
    tl.store(out_ptr + 1, tl.argmin(x, 0))
