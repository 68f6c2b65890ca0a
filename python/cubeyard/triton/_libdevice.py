"""Functions of libdevice, which kernels import from Triton, as operations of its IR that this machine has."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "counterpart"]

FUNCTIONS = {
    "tanh": "math.tanh", "erf": "math.erf", "exp": "math.exp", "exp2": "math.exp2", "log": "math.log", "log2": "math.log2",
    "sin": "math.sin", "cos": "math.cos", "sqrt": "math.sqrt", "rsqrt": "math.rsqrt", "fabs": "math.absf",
    "floor": "math.floor", "ceil": "math.ceil", "fma": "math.fma", "fmod": "arith.remf",
    "isnan": "ahbm.isnan", "isinf": "ahbm.isinf", "finite": "ahbm.isfinite",
}  # fmt: skip
"""Operations by the symbols of functions, without their ends; functions of `ahbm` belong to this package."""

_SYMBOLS = {
    "__nv_fdiv_rn": "tt.precise_divf", "__nv_ddiv_rn": "tt.precise_divf", "__nv_fsqrt_rn": "tt.precise_sqrt",
    "__nv_dsqrt_rn": "tt.precise_sqrt", "__nv_umulhi": "tt.mulhiui", "__nv_umul64hi": "tt.mulhiui",
    "__nv_isnand": "ahbm.isnan", "__nv_isinfd": "ahbm.isinf", "__nv_isfinited": "ahbm.isfinite",
}  # fmt: skip


def counterpart(symbol: str) -> str | None:
    """Returns the operation of a symbol of libdevice, for `f32` or `f64`; None if the machine has none."""
    name = symbol.removeprefix("__nv_")
    return _SYMBOLS.get(symbol) or FUNCTIONS.get(name) or FUNCTIONS.get(name.removesuffix("f"))
