"""Operators on elements: arithmetic, comparisons, activations and their derivatives, random numbers, fills and copies."""

from __future__ import annotations

from cubeyard.torch.operators.call import Call
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, reduction, rows_of
from cubeyard.torch.operators.spec import TensorSpec

PHILOX = 25
"""Simple operations for one random number: ten rounds of Philox 4×32, each 10 operations for 4 numbers."""

SERIES = 24
"""Simple operations for a function that is computed as a polynomial or a series, in addition to its special ones."""


def elements(call: Call, counts: Counts) -> list[Description]:
    """Describes an operator that reads all of its tensors and writes its results."""
    return [pointwise(call.reads, call.writes, counts)]


def overwriting(call: Call, counts: Counts) -> list[Description]:
    """Describes an operator that writes its results and does not read its first tensor, which has their previous value."""
    return [pointwise(call.reads[1:], call.writes, counts)]


def created(call: Call, counts: Counts) -> list[Description]:
    """Describes an operator that writes its results and reads nothing, such as `zeros_like`."""
    return [pointwise([], call.writes, counts)]


def loss(call: Call, counts: Counts) -> list[Description]:
    """Describes a loss of each element, reduced as its argument `reduction` says (0 for none)."""
    if call.get("reduction", 1) == 0:
        return elements(call, counts)
    reads = [spec for spec in call.reads if spec.shape == call.reads[0].shape]
    return [reduction(reads, call.writes[:1], range(len(reads[0].shape)), counts)]


def gelu(call: Call, counts: Counts) -> list[Description]:
    """Describes GELU and its derivative; the approximation by tanh has a polynomial more."""
    return elements(call, counts.plus(4) if call.get("approximate") == "tanh" else counts)


def halves(call: Call, counts: Counts) -> list[Description]:
    """Describes a gated unit, whose input has both halves along one dimension."""
    whole = call.tensor("self")
    dim = call.dim("dim", len(whole.shape))
    half = _half(whole, dim)
    if "grad_output" in call.signature.names:
        return [pointwise([call.tensor("grad_output"), half, half], [_half(call.result, dim)] * 2, counts)]
    return [pointwise([half, half], call.writes, counts)]


def spread(call: Call, counts: Counts) -> list[Description]:
    """Describes a search of each element in sorted boundaries: a comparison and a selection for each halving."""
    sorted_one = call.tensor("boundaries", "sorted_sequence")
    steps = max(sorted_one.shape[-1] if sorted_one.shape else 1, 1).bit_length()
    return [pointwise([_values(call)], call.writes, counts.plus(2 * steps))]


def _values(call: Call) -> TensorSpec:
    value = call.get("self")
    return value if isinstance(value, TensorSpec) else call.result


def _half(spec: TensorSpec, dim: int) -> TensorSpec:
    shape = list(spec.shape)
    shape[dim] //= 2
    return spec._replace(shape=tuple(shape))


POINTWISE: dict[tuple[int, ...], str] = {
    (0, 0): "clone contiguous _to_copy positive alias_copy detach_copy expand_copy lift_fresh_copy _conj_copy _neg_view_copy resolve_conj"
    " resolve_neg _pin_memory to complex type_as _lazy_clone",
    (1, 0): "abs add sub rsub mul neg maximum minimum fmax fmin max.other min.other eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor"
    " bitwise_not bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __ilshift__ __irshift__ __and__ __or__ __xor__ __iand__"
    " __ior__ __ixor__ logical_and logical_or logical_xor logical_not relu clamp_min clamp_max floor ceil round trunc square isnan"
    " signbit where masked_fill conj_physical _conj_physical deg2rad rad2deg subtract multiply negative absolute greater greater_equal"
    " less less_equal not_equal fix _masked_scale",
    (2, 0): "clamp clip hardtanh threshold threshold_backward leaky_relu relu6 sign sgn frac copysign addcmul native_dropout_backward"
    " heaviside isinf isposinf isneginf isfinite hardshrink softshrink tanh_backward sigmoid_backward rrelu isreal _prelu_kernel"
    " nextafter _add_relu ldexp",
    (3, 0): "lerp nan_to_num hardtanh_backward leaky_relu_backward hardshrink_backward softshrink_backward mse_loss_backward"
    " native_batch_norm_elemt frexp _prelu_kernel_backward rrelu_with_noise_backward isclose",
    (4, 0): "hardsigmoid hardswish hardsigmoid_backward smooth_l1_loss_backward huber_loss_backward",
    (6, 0): "hardswish_backward",
    (0, 1): "sqrt rsqrt reciprocal exp exp2 log log2 log10 sin cos div true_divide divide",
    (1, 1): "expm1 log1p addcdiv floor_divide xlogy special_xlog1py angle tan atan sinc",
    (2, 1): "tanh fmod remainder elu celu selu elu_backward special_entr",
    (1, 2): "sinh cosh hypot pow float_power asin acos",
    (2, 2): "sigmoid silu logit atanh asinh acosh log_sigmoid_forward logaddexp logaddexp2 softplus softplus_backward atan2 polar"
    " soft_margin_loss_backward log_sigmoid_backward",
    (3, 2): "logit_backward binary_cross_entropy_backward",
    (6, 2): "silu_backward mish _standard_gamma_grad",
    (10, 3): "mish_backward",
    (8, 1): "erf erfc",
    (SERIES, 2): "erfinv lgamma digamma i0 igamma igammac mvlgamma polygamma special_i0e special_i1 special_i1e special_erfcx special_log_ndtr"
    " special_ndtri special_zeta special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1"
    " special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1"
    " special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_spherical_bessel_j0 special_chebyshev_polynomial_t"
    " special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_hermite_polynomial_h"
    " special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t"
    " special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w gcd lcm",
}
"""Operators that read all of their tensors, by (simple, special) operations for each element."""

RANDOM_READS: dict[tuple[int, ...], str] = {
    (PHILOX + 3, 0): "bernoulli native_dropout _fused_dropout rrelu_with_noise",
    (PHILOX + 4, 3): "normal",
    (PHILOX + SERIES, 2): "poisson binomial _standard_gamma _sample_dirichlet",
}
"""Random operators that read their tensors."""

OVERWRITING = "copy_ copy fill_ fill zero_ zero"
"""Operators that do not read their first tensor, and copy the second, if any."""

CREATED: dict[tuple[int, ...], str] = {
    (0, 0): "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor _efficientzerotensor",
    (2, 0): "arange range linspace eye tril_indices triu_indices",
    (3, 1): "logspace hann_window hamming_window bartlett_window blackman_window kaiser_window",
    (PHILOX + 2, 0): "uniform_ random_ randperm uniform random randint randint_like rand rand_like _philox_uniform _philox_randint",
    (PHILOX + 3, 0): "bernoulli_",
    (PHILOX + 4, 3): "normal_ randn randn_like normal_functional _philox_normal",
    (PHILOX + 3, 1): "exponential_ exponential geometric_ geometric",
    (PHILOX + 4, 2): "cauchy_ cauchy log_normal_ log_normal",
}
"""Operators that read no tensor."""

RULES: dict[str, Rule] = {
    **rows_of(elements, POINTWISE),
    **rows_of(elements, RANDOM_READS),
    **rows_of(overwriting, {(0, 0): OVERWRITING}),
    **rows_of(created, CREATED),
    **rows_of(elements, {(2, 0): "triu tril"}),
    **rows_of(loss, {(2, 0): "mse_loss", (5, 0): "smooth_l1_loss huber_loss", (4, 2): "binary_cross_entropy", (3, 2): "soft_margin_loss", (6, 3): "binary_cross_entropy_with_logits"}),
    **rows_of(gelu, {(4, 1): "gelu", (9, 2): "gelu_backward"}),
    **rows_of(halves, {(3, 2): "glu", (7, 2): "glu_backward"}),
    **rows_of(spread, {(1, 0): "bucketize searchsorted"}),
}
"""Rules of operators on elements."""
