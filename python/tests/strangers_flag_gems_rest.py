"""More functions of FlagGems: in place, with numbers, gradients of operators, losses, pools, and layers of language models."""

import torch
from strangers_flag_gems import SHAPE, B, F, I, P, floats, made, odd, truths, wholes
from torch.nn import functional

aten = torch.ops.aten
INDEX = {"dtype": torch.int64}


def unit(*shape):
    """Makes numbers between -0.9 and 0.9, where inverse functions are defined."""
    return lambda: torch.rand(shape or SHAPE) * 1.8 - 0.9


def in_place():
    """Functions that change their first argument: the kind of it, the others, and names."""
    names = {
        F: "abs_ neg_ exp_ exp2_ sin_ cos_ tanh_ sigmoid_ relu_ silu_ gelu_ erf_ square_ ceil_ round_ reciprocal_ selu_ elu_ celu_ "
           "cosh_ tan_ atan_ expm1_ arcsinh_ asinh_ zero_",
        P: "log10_ sqrt_ rsqrt_ digamma_", unit(): "arctanh_", I: "bitwise_not_",
    }  # fmt: skip
    every = [(name, [make], _named(name)) for make, text in names.items() for name in text.split()]
    return every + [
        ("add_", [F, F], torch.add), ("sub_", [F, F], torch.sub), ("mul_", [F, F], torch.mul), ("true_divide_", [F, P], torch.div),
        ("logical_and_", [B, B], torch.logical_and), ("logical_or_", [B, B], torch.logical_or), ("clamp_", [F, -0.5, 0.5], torch.clamp),
        ("clamp_min_", [F, -0.5], torch.clamp_min), ("clip_", [F, -0.5, 0.5], torch.clip), ("masked_fill_", [F, B, 3.0], torch.masked_fill),
        ("bitwise_and_tensor_", [I, I], torch.bitwise_and), ("bitwise_or_tensor_", [I, I], torch.bitwise_or),
        ("bitwise_and_scalar_", [I, 12], torch.bitwise_and), ("bitwise_or_scalar_", [I, 12], torch.bitwise_or),
        ("pow_tensor_scalar_", [P, 2.5], torch.pow), ("pow_tensor_tensor_", [P, F], torch.pow), ("remainder_", [F, P], torch.remainder),
        ("floor_divide_", [F, P], torch.floor_divide), ("lerp_scalar_", [F, F, 0.3], torch.lerp), ("lerp_tensor_", [F, F, P], torch.lerp),
        ("fill_scalar_", [F, 2.0], torch.full_like), ("triu_", [F, 1], torch.triu), ("copy_", [F, F], lambda a, b: b),
        ("index_add_", [F, 1, wholes(20, low=0, high=9, **INDEX), floats(5, 20)], torch.index_add),
        ("masked_scatter_", [F, B, floats(5 * 37)], torch.masked_scatter),
        ("scatter_", [F, 1, wholes(5, 1, low=0, high=37, **INDEX), F], torch.scatter),
        ("index_put_", [F, [wholes(6, low=0, high=5, **INDEX)], floats(6, 37), True], torch.index_put),
    ]  # fmt: skip


def _named(name):
    """PyTorch's function of the same name, without the change in place."""
    found = getattr(torch, name[:-1], None) or getattr(functional, name[:-1], None)
    return found or (torch.zeros_like if name == "zero_" else None)


def elementwise():
    compared = [(f"{name}_scalar", [F, 0.3], getattr(torch, name)) for name in "eq ne lt le gt ge greater".split()]
    return compared + [
        ("absolute", [F], torch.abs), ("angle", [F], torch.angle), ("greater", [F, F], torch.gt),
        ("i0", [F], torch.i0),
        ("clip", [F, -0.5, 0.5], torch.clip), ("clamp_min", [F, -0.5], torch.clamp_min), ("clamp_tensor", [F, F, F], torch.clamp),
        ("div_mode", [F, P, "floor"], lambda a, b, mode: torch.div(a, b, rounding_mode=mode)), ("floor_divide", [F, P], torch.floor_divide),
        ("floor_divide", [I, wholes(low=1)], torch.floor_divide), ("remainder", [I, wholes(low=1)], torch.remainder),
        ("pow_scalar", [2.0, F], torch.pow), ("pow_tensor_scalar", [P, -1.5], torch.pow), ("isclose", [odd, odd], torch.isclose),
        ("allclose", [F, F], torch.allclose), ("equal", [F, F], torch.equal), ("lerp_tensor", [F, F, P], torch.lerp),
        ("bitwise_and_scalar", [I, 12], torch.bitwise_and), ("bitwise_or_scalar", [I, 12], torch.bitwise_or),
        ("where_scalar_self", [B, 2.0, F], torch.where), ("where_scalar_other", [B, F, 2.0], torch.where),
        ("polar", [P, F], lambda size, turn: torch.polar(size, turn)),
        ("zeros_like", [F], torch.zeros_like), ("ones_like", [F], torch.ones_like), ("full_like", [F, 1.5], torch.full_like),
        ("to_copy", [F], torch.clone), ("contiguous", [lambda: torch.randn(37, 5).T], torch.clone),
        ("fill_tensor", [F, lambda: torch.tensor(2.5)], lambda x, value: torch.full_like(x, value.item())),
    ]  # fmt: skip


def shaped():
    return [
        ("diag_embed", [F], torch.diag_embed), ("diagonal_backward", [floats(5), [5, 9], 0, 0, 1], aten.diagonal_backward),
        ("select_scatter", [F, floats(37), 0, 2], torch.select_scatter), ("slice_scatter", [F, floats(5, 4), 1, 3, 11, 2], torch.slice_scatter),
        ("slice_backward", [floats(5, 4), [5, 37], 1, 3, 11, 2], aten.slice_backward),
        ("scatter", [F, 1, wholes(5, 1, low=0, high=37, **INDEX), F], torch.scatter), ("masked_scatter", [F, B, floats(5 * 37)], torch.masked_scatter),
        ("index", [F, [wholes(6, low=0, high=5, **INDEX), wholes(6, low=0, high=37, **INDEX)]], lambda x, at: x[at[0], at[1]]),
        ("index_put", [F, [wholes(6, low=0, high=5, **INDEX)], floats(6, 37), True], torch.index_put),
        ("gather_backward", [floats(5, 9), F, 1, wholes(5, 9, low=0, high=37, **INDEX), False], aten.gather_backward),
        ("repeat_interleave_self_int", [F, 3, 1], torch.repeat_interleave),
        ("repeat_interleave_self_tensor", [F, wholes(5, low=1, high=4, **INDEX), 0], torch.repeat_interleave),
        ("repeat_interleave_tensor", [wholes(5, low=1, high=4, **INDEX)], torch.repeat_interleave),
        ("pixel_unshuffle", [floats(2, 3, 8, 8), 2], torch.pixel_unshuffle), ("unfold_backward", [floats(5, 9, 4), [5, 36], 1, 4, 4], aten.unfold_backward),
        ("replication_pad1d", [floats(2, 3, 9), [2, 3]], lambda x, by: functional.pad(x, by, mode="replicate")),
        ("replication_pad3d", [floats(2, 3, 4, 4, 4), [1, 2, 1, 0, 2, 1]], lambda x, by: functional.pad(x, by, mode="replicate")),
        ("pad", [F, [1, 2], "constant", 0.5], functional.pad),
    ]  # fmt: skip


def reduced():
    return [
        ("aminmax", [F], torch.aminmax), ("all_dim", [B, 1], torch.all), ("all_dims", [B, [0, 1]], torch.all), ("any_dims", [B, [1]], torch.any),
        ("any", [B], torch.any), ("min", [F], torch.min), ("prod", [F], torch.prod), ("mean_dim", [F, [1]], torch.mean), ("var", [F, [1]], torch.var),
        ("var_dim", [F, [1]], torch.var), ("var_correction", [F, [1]], torch.var), ("_is_all_true", [truths(9)], lambda x: x.all()),
        ("quantile", [F, 0.3, 1], torch.quantile), ("normed_cumsum", [P, 1], lambda x, dim: x.cumsum(dim) / x.sum(dim, keepdim=True)),
        ("bincount", [wholes(60, low=0, high=9, **INDEX)], torch.bincount),
        ("addmv", [floats(20), floats(20, 33), floats(33)], torch.addmv), ("addr", [floats(20, 33), floats(20), floats(33)], torch.addr),
        ("_unique2", [wholes(60, low=0, high=5), True, True, True], aten._unique2),
    ]  # fmt: skip


def gradients():
    """Functions of a gradient and of what the operator kept."""
    classes = [floats(6, 9), wholes(6, low=0, high=9, **INDEX)]
    images = [floats(2, 5, 4, 4), wholes(2, 4, 4, low=0, high=5, **INDEX)]
    return [
        ("gelu_backward", [F, F], aten.gelu_backward), ("silu_backward", [F, F], aten.silu_backward), ("glu_backward", [F, floats(5, 74), 1], aten.glu_backward),
        ("sigmoid_backward", [F, P], aten.sigmoid_backward), ("tanh_backward", [F, P], aten.tanh_backward),
        ("elu_backward", [F, 1.0, 1.0, 1.0, False, F], aten.elu_backward), ("threshold_backward", [F, F, 0.1], aten.threshold_backward),
        ("dropout_backward", [F, B, 2.0], lambda g, kept, scale: g * kept * scale),
        ("softmax_backward", [F, P, 1, torch.float32], aten._softmax_backward_data),
        ("log_softmax_backward", [F, F, 1, torch.float32], aten._log_softmax_backward_data),
        ("embedding_backward", [floats(3, 7, 16), wholes(3, 7, low=0, high=4, **INDEX), 20], lambda g, at, rows: aten.embedding_dense_backward(g, at, rows, -1, False)),
        ("nll_loss_forward", [*classes, None, 1, -100], aten.nll_loss_forward),
        ("nll_loss2d_forward", [*images, None, 1, -100], aten.nll_loss2d_forward),
        ("nll_loss_backward", [lambda: torch.tensor(1.5), *classes, None, 1, -100, lambda: torch.tensor(6.0)], aten.nll_loss_backward),
        ("nll_loss2d_backward", [lambda: torch.tensor(1.5), *images, None, 1, -100, lambda: torch.tensor(32.0)], aten.nll_loss2d_backward),
        ("margin_ranking_loss", [F, F, lambda: torch.randint(0, 2, SHAPE).float() * 2 - 1], functional.margin_ranking_loss),
        ("avg_pool2d_backward", [floats(2, 3, 6, 6), floats(2, 3, 12, 12), [2, 2], [2, 2], [0, 0], False, True, None], aten.avg_pool2d_backward),
        ("max_pool2d_with_indices", [floats(2, 3, 12, 12), [2, 2]], aten.max_pool2d_with_indices),
        ("max_pool2d_backward", [floats(2, 3, 6, 6), *pooled(), [2, 2], [2, 2], [0, 0], [1, 1], False],
         lambda gradient, x, at, *sizes: aten.max_pool2d_with_indices_backward(gradient, x, *sizes, at)),
    ]  # fmt: skip


def pooled():
    """The input of a pool, and where its greatest elements are."""
    x = torch.arange(2 * 3 * 144).mul(37).remainder(101).reshape(2, 3, 12, 12).float()
    return [lambda: x, lambda: aten.max_pool2d_with_indices(x, [2, 2])[1]]


def layers():
    three = [floats(2, 6, 10), floats(6), floats(6)]
    return [
        ("group_norm", [*three, 2, 6, 10, 3, 1e-5], aten.native_group_norm), ("batch_norm", [floats(4, 6, 5), floats(6), floats(6)], _batch_norm),
        ("instance_norm", three, lambda x, w, b: functional.instance_norm(x, weight=w, bias=b)),
        ("layer_norm_backward", [F, F, [37], floats(5, 1), lambda: torch.rand(5, 1) + 0.5, floats(37), floats(37), [True, True, True]],
         aten.native_layer_norm_backward),
        ("weight_norm_interface", [floats(6, 20), floats(6, 1)], aten._weight_norm_interface), ("weight_norm", [floats(6, 20), floats(6, 1)], torch._weight_norm),
        ("fused_add_rms_norm", [F, F, [37], floats(37)], lambda x, r, shape, w: (functional.rms_norm(x + r, shape, w, 1e-5), x + r)),
        ("skip_layer_norm", [F, F, [37], floats(37), floats(37)], lambda x, r, shape, w, b: functional.layer_norm(x + r, shape, w, b)),
        ("silu_and_mul", [F, F], lambda a, b: functional.silu(a) * b), ("gelu_and_mul", [F, F], lambda a, b: functional.gelu(a) * b),
        ("reglu", [floats(5, 36)], lambda x: functional.relu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
        ("geglu", [floats(5, 36)], lambda x: functional.gelu(x.chunk(2, -1)[0], approximate="tanh") * x.chunk(2, -1)[1]),
        ("cross_entropy_loss", [floats(6, 50), wholes(6, low=0, high=50, **INDEX)], functional.cross_entropy),
        ("moe_sum", [floats(7, 3, 40), lambda: torch.zeros(7, 40)], lambda x, out: x.sum(1)),
        ("conv3d", [floats(1, 2, 6, 6, 6), floats(4, 2, 3, 3, 3)], torch.conv3d),
        ("_conv_depthwise2d", [floats(2, 4, 9, 9), floats(4, 1, 3, 3), [3, 3], None, [1, 1], [1, 1], [1, 1]],
         lambda x, w, size, bias, stride, padding, dilation: functional.conv2d(x, w, bias, stride, padding, dilation, 4)),
        ("upsample_nearest2d", [floats(2, 3, 5, 5), [10, 15]], lambda x, size: functional.interpolate(x, size)),
        ("upsample_nearest3d", [floats(1, 2, 3, 4, 5), [6, 8, 10]], lambda x, size: functional.interpolate(x, size)),
        ("upsample_linear1d", [floats(2, 3, 9), [18], False], aten.upsample_linear1d),
        ("scaled_dot_product_attention", [floats(1, 2, 128, 64)] * 3, functional.scaled_dot_product_attention),
        ("hadamard_transform", [floats(4, 16)], _hadamard), ("sort_stable", [F], torch.sort),
        ("rwkv_mm_sparsity", [lambda: torch.relu(torch.randn(64)), floats(64, 32)], lambda k, v: k @ v),
    ]  # fmt: skip


def _batch_norm(x, weight, bias):
    return functional.batch_norm(x, torch.zeros(6), torch.ones(6), weight, bias)


def _hadamard(x):
    matrix = torch.ones(1, 1)
    for _ in range(4):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return x @ matrix


# Called as PyTorch's own, where the arguments or the results differ.
CALLS = {
    "sort_stable": lambda function: lambda x: function(x, stable=True),
    "batch_norm": lambda function: lambda x, w, b: function(x, w, b, torch.zeros(6).to(x.device), torch.ones(6).to(x.device))[0],
    "moe_sum": lambda function: lambda x, out: (function(x, out), out)[1],
    "scatter_": lambda function: lambda x, *given: (function(x, *given), x)[1],
}


def cases(Case, module):
    every = in_place() + elementwise() + shaped() + reduced() + gradients() + layers()
    return [
        Case("FlagGems", name, lambda inputs=inputs: [made(one) for one in inputs],
             CALLS.get(name, lambda called: called)(getattr(module, name)), reference)
        for name, inputs, reference in every
    ]  # fmt: skip
