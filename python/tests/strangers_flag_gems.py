"""Functions of FlagGems, which have the names and arguments of PyTorch's operators."""

import importlib.util
import os
import sys
import types

import torch
from torch.nn import functional

SHAPE = (5, 37)


def imported():
    """Imports the package for the device `ahbm`.

    It knows devices by vendors. This one takes the place of the general one, with the files of configurations that it has.
    """
    folder = importlib.util.find_spec("flag_gems").submodule_search_locations[0]
    os.environ["GEMS_VENDOR"] = "nvidia"
    sys.path.append(os.path.join(folder, "runtime", "backend"))
    import _nvidia

    _nvidia.vendor_info.device_name = "ahbm"
    _nvidia.vendor_info.triton_extra_name = "cuda"
    _nvidia.vendor_info.dispatch_key = "PrivateUse1"
    sys.modules["torch.backends.ahbm"] = types.ModuleType("torch.backends.ahbm")
    import flag_gems
    from flag_gems.utils import codegen_config_utils

    # Triton 3.9 has no block pointers any more.
    codegen_config_utils.get_codegen_config().prefer_block_pointer = False
    return flag_gems


def floats(*shape, dtype=torch.float32):
    return lambda: torch.randn(shape or SHAPE).to(dtype)


def positive(*shape):
    return lambda: torch.rand(shape or SHAPE) + 0.1


def wholes(*shape, low=-50, high=50, dtype=torch.int32):
    return lambda: torch.randint(low, high, shape or SHAPE, dtype=dtype)


def truths(*shape):
    return lambda: torch.rand(shape or SHAPE) > 0.5


def odd():
    return torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -2.5] * 6)


F, P, I, B = floats(), positive(), wholes(), truths()


def unary():
    """Functions of one tensor, by its kind."""
    names = {
        F: "abs neg exp exp2 sin cos tanh sigmoid relu silu gelu erf square floor_ ceil round isfinite reciprocal softplus "
           "log_sigmoid relu6 selu elu celu hardsigmoid hardswish_ softshrink cosh sinh_ tan atan expm1 logical_not sgn_ signbit",
        P: "log log10 log1p_ sqrt rsqrt logit acos",
        I: "bitwise_not",
    }  # fmt: skip
    return [(name, [make]) for make, text in names.items() for name in text.split()]


CASES = [
    *unary(),
    ("isnan", [lambda: odd()]), ("isinf", [lambda: odd()]), ("isneginf", [lambda: odd()]), ("nan_to_num", [lambda: odd()]),
    *((name, [F, F]) for name in "add sub mul maximum minimum fmin eq ne lt le gt ge atan2 hypot logaddexp copysign".split()),
    *((name, [B, B]) for name in "logical_and logical_or logical_xor".split()),
    ("pow", [P, F], "pow_tensor_tensor"), ("bitwise_and", [I, I], "bitwise_and_tensor"), ("bitwise_or", [I, I], "bitwise_or_tensor"),
    ("add", [F, 2.5]), ("mul", [F, -0.5]), ("clamp", [F, -0.5, 0.5]), ("where", [B, F, F], "where_self"),
    ("masked_fill", [F, B, 3.0]), ("lerp", [F, F, 0.3], "lerp_scalar"), ("addcmul", [F, F, F]), ("addcdiv", [F, F, P]),
    ("threshold", [F, 0.1, -1.0]), ("glu", [floats(5, 36)]), ("fill", [F, 2.0], "fill_scalar"), ("flip", [F, [0, 1]]),
    ("tril", [F]), ("triu", [F, 1]), ("diag", [floats(7)]), ("repeat", [F, [2, 3]]), ("tile", [F, [2, 1]]), ("roll", [F, 3, 1]),
    ("cat", [[F, F], 1]), ("stack", [[F, F], 0]), ("hstack", [[F, F]]), ("vstack", [[F, F]]), ("kron", [floats(3, 4), floats(2, 5)]),
    ("constant_pad_nd", [F, [1, 2, 3, 0], 0.5]), ("index_select", [F, 1, wholes(9, low=0, high=37, dtype=torch.int64)]),
    ("gather", [F, 1, wholes(5, 9, low=0, high=37, dtype=torch.int64)]), ("sum", [F]), ("sum", [F, [1]], "sum_dim"), ("mean", [F]),
    ("prod", [F, 1], "prod_dim"), ("amax", [F, [1]]), ("max", [F]), ("max", [F, 1], "max_dim"),
    ("min", [F, 0], "min_dim"), ("argmax", [F, 1]), ("argmin", [F, 1]), ("all", [B]), ("any", [B, 1], "any_dim"),
    ("unique_consecutive", [wholes(60, low=0, high=3), True, True]),
    ("count_nonzero", [I]), ("cumsum", [F, 1]), ("cummax", [F, 1]), ("cummin", [F, 1]), ("var_mean", [F, [1]]),
    ("std", [F]), ("softmax", [F, 1]), ("log_softmax", [F, 1]), ("topk", [F, 4]), ("sort", [F]), ("nonzero", [I]),
    ("masked_select", [F, B]), ("mm", [floats(20, 33), floats(33, 17)]), ("bmm", [floats(3, 20, 33), floats(3, 33, 17)]),
    ("addmm", [floats(17), floats(20, 33), floats(33, 17)]), ("baddbmm", [floats(3, 20, 17), floats(3, 20, 33), floats(3, 33, 17)]),
    ("mv", [floats(20, 33), floats(33)]), ("dot", [floats(100), floats(100)]), ("vdot", [floats(100), floats(100)]),
    ("outer", [floats(20), floats(33)]), ("trace", [floats(9, 9)]), ("mse_loss", [F, F]),
    ("embedding", [floats(20, 16), wholes(3, 7, low=0, high=20, dtype=torch.int64)]),
    ("scatter_add_", [floats(5, 37), 1, wholes(5, 37, low=0, high=5, dtype=torch.int64), F]),
    ("index_add", [F, 1, wholes(20, low=0, high=9, dtype=torch.int64), floats(5, 20)]),
    ("embedding_dense_backward", [floats(3, 7, 16), wholes(3, 7, low=0, high=4, dtype=torch.int64), 20, -1, False]),
    ("div", [F, P], "true_divide"), ("div", [F, 3.0], "true_divide"), ("isin", [wholes(40), wholes(7)]),
    ("avg_pool2d", [floats(2, 3, 12, 12), 2]), ("reflection_pad1d", [F, [2, 3]]), ("upsample_nearest1d", [floats(2, 3, 9), [18]]),
    ("conv1d", [floats(2, 4, 20), floats(6, 4, 3)]), ("conv2d", [floats(2, 4, 9, 9), floats(6, 4, 3, 3)]), ("vector_norm", [F]),
    ("layer_norm", [F, [37], floats(37), floats(37)]), ("rms_norm", [F, [37], floats(37)]),
]  # fmt: skip

REFERENCES = {
    "add": torch.add, "pow": torch.pow, "where": torch.where, "lerp": torch.lerp, "gelu": functional.gelu, "silu": functional.silu,
    "softplus": functional.softplus, "log_sigmoid": functional.logsigmoid, "relu6": functional.relu6, "elu": functional.elu,
    "hardsigmoid": functional.hardsigmoid, "hardswish_": functional.hardswish, "softshrink": functional.softshrink,
    "glu": functional.glu, "layer_norm": lambda *given: torch.native_layer_norm(*given, 1e-5)[0],
    "rms_norm": lambda x, shape, weight: functional.rms_norm(x, shape, weight, 1e-5), "mse_loss": functional.mse_loss, "embedding": lambda weight, at: weight[at],
    "constant_pad_nd": lambda x, by, value: functional.pad(x, by, value=value), "avg_pool2d": functional.avg_pool2d,
    "reflection_pad1d": lambda x, by: functional.pad(x[None], by, mode="reflect")[0], "repeat": lambda x, by: x.repeat(by),
    "upsample_nearest1d": lambda x, size: functional.interpolate(x, size), "vector_norm": torch.linalg.vector_norm,
    "scatter_add_": lambda x, *given: x.scatter_add(*given), "floor_": torch.floor, "sinh_": torch.sinh, "log1p_": torch.log1p,
    "sgn_": torch.sgn, "fill": torch.full_like, "topk": torch.topk, "selu": functional.selu, "celu": functional.celu,
    "threshold": functional.threshold, "embedding_dense_backward": torch.ops.aten.embedding_dense_backward,
}  # fmt: skip


def made(value):
    if isinstance(value, list):
        return [made(one) for one in value]
    return value() if callable(value) else value


def case(Case, module, name, inputs, function=None):
    called, reference = getattr(module, function or name), REFERENCES.get(name) or getattr(torch, name)
    # What else the function of layer norm returns has another shape than PyTorch's.
    first = (lambda *given: called(*given)[0]) if name == "layer_norm" else called
    return Case("FlagGems", function or name, lambda: [made(one) for one in inputs], first, reference)


def cases(Case):
    import strangers_flag_gems_rest

    module = imported()
    return [case(Case, module, *one) for one in CASES] + strangers_flag_gems_rest.cases(Case, module)
