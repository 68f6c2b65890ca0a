"""Functions of Liger: attention, experts, layers of models, and other modes of its losses and norms."""

import os
import types
from unittest import mock

import torch
from strangers_liger import (
    KEYS,
    LOGITS,
    QUERIES,
    ROWS,
    TARGET,
    WIDTH,
    W,
    X,
    Y,
    angles,
    fixed,
    halves_turned,
    jensen_shannon,
    log_probabilities,
    pairs_turned,
    probabilities,
    rms,
    sparsemax,
    tensor,
    turns,
)
from torch.nn import functional

CONFIG = types.SimpleNamespace(
    hidden_size=WIDTH, intermediate_size=24, moe_intermediate_size=24, num_experts=4, hidden_act="silu", rms_norm_eps=1e-6,
    hidden_activation="gelu_pytorch_tanh", pretraining_tp=1, mlp_multipliers=(0.5, 2.0),
)  # fmt: skip


def mixture(x, gate_up, down, chosen, weights):
    """Each token through its experts, one after the other."""
    rows = []
    for token, experts, shares in zip(x, chosen.long(), weights, strict=True):
        parts = []
        for expert, share in zip(experts, shares, strict=True):
            gate, up = (gate_up[expert] @ token).chunk(2)
            parts.append(share * (down[expert] @ (functional.silu(gate) * up)))
        rows.append(sum(parts))
    return torch.stack(rows)


def experts(tokens, count, each):
    return lambda: torch.stack([torch.randperm(count)[:each] for _ in range(tokens)]).to(torch.int32)


def neighbours(q, k, v):
    """Attention over the three tokens on each side."""
    at = torch.arange(q.shape[-2])
    near = (at[:, None] - at[None, :]).abs() <= 3
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~near, -float("inf"))
    return scores.softmax(-1) @ v


def coefficients(x, phi, bias, pre, post, rest):
    """The three results of manifold-constrained hyper-connections, by their definition."""
    count = x.shape[-2]
    flat = x.flatten(-2)
    mixed = rms(flat, 1.0) @ phi
    first, second, third = mixed.split([count, count, count * count], -1)
    bias_first, bias_second, bias_third = bias.split([count, count, count * count])
    matrix = (third * rest + bias_third).unflatten(-1, (count, count)).softmax(-1) + 1e-6
    matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    for _ in range(4):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + 1e-6)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + 1e-6)
    return torch.sigmoid(first * pre + bias_first), 2 * torch.sigmoid(second * post + bias_second), matrix


def token_attention(activation):
    """Softmax of the scores before each token, a convolution, and zeros behind the token."""
    def of(scores, weight, bias):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        shares = activation(scores.masked_fill(later, -1e9))
        return functional.conv2d(shares, weight, bias, padding=1).masked_fill(later, 0.0)

    return of


def sections_turned(q, k, cosines, sines):
    """Rotary positions of three kinds, for sections of 4, 2 and 2 elements of a half."""
    def chosen(angles_of):
        parts = angles_of.split([4, 2, 2] * 2, -1)
        return torch.cat([part[at % 3] for at, part in enumerate(parts)], -1)[:, None]

    return tuple(x * chosen(cosines) + halves_turned(x) * chosen(sines) for x in (q, k))


def three_angles(function):
    one = angles(2, 7, 16)(function)
    return lambda: torch.stack([one(), one() * 0.5, one() * 0.25])


def smoothed(logits, target):
    flat = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1, reduction="none")
    return flat.reshape(target.shape)


def gated(x, gate, up, down):
    return functional.linear(functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down)


def swiglu_product(module):
    """The kernels of its fused layer, which asks for CUDA by name: results and gradients of gate and up."""
    def of(x, gate, up, down, dout):
        made, config = module.gemm_swiglu(x, gate, up, 1.0)
        activated = made[..., : gate.shape[0]].clone()
        module.swiglu_backward_dGU(dout, down, made, config, 1.0, 1.0)
        gradients = made[..., gate.shape[0] :].clone()
        return activated, gradients, module.swiglu_backward_dI(gate, up, made)

    return of


def swiglu_gradients(x, gate, up, down, dout):
    x = x.requires_grad_(True)
    first, second = functional.linear(x, gate), functional.linear(x, up)
    activated = functional.silu(first) * second
    found = torch.autograd.grad(functional.linear(activated, down), (first, second, x), dout)
    return activated.detach(), torch.cat(found[:2], -1), found[2]


def capped(logits, target):
    return functional.cross_entropy(5 * torch.tanh(logits / 5), target)


def with_square(logits, target):
    return functional.cross_entropy(logits, target) + 0.01 * logits.logsumexp(-1).square().mean()


def divergence(beta):
    """The one-sided divergences, at the ends of the range of Jensen and Shannon's."""
    def of(student, teacher):
        first, second = (student, teacher) if beta == 0 else (teacher, student)
        return functional.kl_div(first, second, log_target=True, reduction="batchmean")

    return of


def policy(kind):
    """The losses of policies that differ in how they clip a token's ratio, and in how they average."""
    def of(logits, old, ids, advantages):
        chosen = logits[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio, gain = (chosen - old).exp(), advantages[:, None]
        if kind == "cispo":
            return (-ratio.clamp(max=0.2).detach() * gain * chosen).mean()
        if kind == "sapo":
            heat = torch.where(gain > 0, 1.0, 1.05)
            return (-torch.sigmoid(heat * (ratio - 1)) * 4 / heat * gain).mean(-1).mean()
        loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        return loss.sum() / (ids.shape[0] * 8) if kind == "dr_grpo" else loss.mean()

    return of


def policy_case(kind):
    tensors = [tensor(2, 6, 50), fixed(2, 5, low=-4, high=-3), lambda: torch.randint(0, 50, (2, 5)), lambda: torch.tensor([0.5, -1.5])]
    return (f"GrpoLossFunction ({kind})", tensors, policy(kind))


def functions(ops):
    """Cases beside `strangers_liger`: name, inputs, function under test, and reference in PyTorch."""
    loss = ops.LigerCrossEntropyFunction.apply
    three = types.SimpleNamespace(cos=three_angles(torch.cos), sin=three_angles(torch.sin))
    scores, filters = tensor(2, 3, 8, 8), tensor(3, 3, 3, 3)
    mixing = [tensor(5, 4, 16), lambda: (0.1 * torch.randn(64, 24)).requires_grad_(True), tensor(24), tensor(), tensor(), tensor()]
    layer = [tensor(2, 9, WIDTH), tensor(24, WIDTH), tensor(24, WIDTH), tensor(WIDTH, 24)]
    return [
        ("LigerEmbeddingFunction", [tensor(20, 16), lambda: torch.randint(0, 6, (3, 7))], ops.LigerEmbeddingFunction.apply,
         lambda table, at: table[at]),
        ("LigerFusedMoEFunction", [tensor(9, WIDTH), tensor(4, 48, WIDTH), tensor(4, WIDTH, 24), experts(9, 4, 2),
                                   lambda: torch.rand(9, 2).requires_grad_(True)], ops.LigerFusedMoEFunction.apply, mixture),
        ("LigerFusedNeighborhoodAttentionFunction", [tensor(1, 2, 20, 16)] * 3, ops.LigerFusedNeighborhoodAttentionFunction.apply, neighbours),
        ("LigerMHCCoeffsFunction", mixing, lambda *given: ops.LigerMHCCoeffsFunction.apply(*given, True, 5, 1e-6, 0.0, 1e-6, 2.0), coefficients),
        ("LigerMultiTokenAttentionFunction", [scores, filters, tensor(3)], lambda *given: ops.LigerMultiTokenAttentionFunction.apply(*given, 1, 1),
         token_attention(lambda x: x.softmax(-1))),
        ("LigerMultiTokenAttentionFunction (sparse)", [scores, filters, tensor(3)],
         lambda *given: ops.LigerMultiTokenAttentionFunction.apply(*given, 1, 1, 1, 1, True), token_attention(sparsemax)),
        ("LigerQwen2VLMRopeFunction", [QUERIES, KEYS, three.cos, three.sin],
         lambda *given: ops.LigerQwen2VLMRopeFunction.apply(*given, [4, 2, 2]), sections_turned),
        ("LigerVocabParallelCEFunction", [tensor(3, 2, 50), lambda: torch.randint(0, 50, (3, 2))],
         lambda *given: ops.LigerVocabParallelCEFunction.apply(*given, None, -100, 0.1, "pytorch", "global"), smoothed),
        ("swiglu kernels of LigerMLPFunction", [fixed(2, 9, WIDTH), fixed(24, WIDTH), fixed(24, WIDTH), fixed(WIDTH, 24), fixed(2, 9, WIDTH)],
         swiglu_product(__import__("liger_kernel.ops.mlp", fromlist=["mlp"])), swiglu_gradients),
        ("LigerTiledMLPFunction", layer, tiled(ops), gated),
        ("LigerCrossEntropyFunction (softcap)", [LOGITS, TARGET], lambda *given: loss(*given, None, -100, 0.0, 0.0, "mean", 5.0)[0], capped),
        ("LigerCrossEntropyFunction (square of the logarithm)", [LOGITS, TARGET], lambda *given: loss(*given, None, -100, 0.01)[0], with_square),
        ("LigerCrossEntropyFunction (weights)", [LOGITS, TARGET, fixed(50, low=0.5, high=2)], lambda *given: loss(*given)[0],
         functional.cross_entropy),
        ("LigerCrossEntropyFunction (ignored)", [LOGITS, lambda: torch.randint(0, 3, (ROWS,))], lambda *given: loss(*given, None, 1)[0],
         lambda x, y: functional.cross_entropy(x, y, ignore_index=1)),
        ("LigerRMSNormFunction (no casts)", [X, W], lambda *given: ops.LigerRMSNormFunction.apply(*given, 1e-6, 0.0, "none"), rms),
        ("LigerSiLUMulFunction (multipliers)", [X, Y], lambda *given: ops.LigerSiLUMulFunction.apply(*given, 0.5, 2.0),
         lambda a, b: 2 * functional.silu(0.5 * a) * b),
        ("LigerJSDFunction (forward)", [log_probabilities(ROWS, 50), lambda: torch.randn(ROWS, 50).log_softmax(-1)],
         lambda *given: ops.LigerJSDFunction.apply(*given, None, 0.0), divergence(0)),
        ("LigerJSDFunction (reverse)", [log_probabilities(ROWS, 50), lambda: torch.randn(ROWS, 50).log_softmax(-1)],
         lambda *given: ops.LigerJSDFunction.apply(*given, None, 1.0), divergence(1)),
        ("LigerKLDivLossFunction (logarithms)", [log_probabilities(ROWS, 50), lambda: torch.randn(ROWS, 50).log_softmax(-1)],
         lambda *given: ops.LigerKLDivLossFunction.apply(*given, "sum", True),
         lambda x, y: functional.kl_div(x, y, log_target=True, reduction="sum")),
        ("LigerTVDLossFunction (sum)", [lambda: torch.rand(ROWS, 50).requires_grad_(True), probabilities(ROWS, 50)],
         lambda *given: ops.LigerTVDLossFunction.apply(*given, None, "sum"), lambda p, q: 0.5 * (p - q).abs().sum()),
        ("LigerFusedLinearCrossEntropyFunction (bias)", [X, tensor(50, WIDTH), TARGET, tensor(50)],
         lambda *given: ops.LigerFusedLinearCrossEntropyFunction.apply(*given)[0],
         lambda x, w, y, b: functional.cross_entropy(functional.linear(x, w, b), y)),
        ("LigerFusedLinearJSDFunction (temperature)", [X, tensor(50, WIDTH), fixed(ROWS, WIDTH), fixed(50, WIDTH)],
         lambda *given: ops.LigerFusedLinearJSDFunction.apply(*given, None, 0.5, -100, 2.0),
         lambda x, w, t, v: jensen_shannon((x @ w.T / 2).log_softmax(-1), (t @ v.T / 2).log_softmax(-1))),
        *((name, tensors, policy_called(ops, name), reference) for name, tensors, reference in map(policy_case, POLICIES)),
        ("LigerDyTFunction (gradients)", [X, tensor(1), W, tensor(WIDTH)], processors_known(ops.LigerDyTFunction.apply),
         lambda x, a, w, b: w * torch.tanh(a * x) + b),
    ]  # fmt: skip


POLICIES = ("bnpo", "dr_grpo", "cispo", "sapo")


def policy_called(ops, name):
    kind = name.split("(")[1][:-1]

    def of(logits, old, ids, advantages):
        return ops.GrpoLossFunction.apply(logits, old, None, ids, advantages, None, 1.0, 0.0, 0.2, 0.2, False, kind, 8)[0]

    return of


def processors_known(function):
    """Answers the question for the number of processors, which knows CUDA and two others by their names."""
    def of(*given):
        return _Asked.apply(function, *given)

    return of


class _Asked(torch.autograd.Function):
    """A function whose gradients are computed while `torch.cuda` answers for `ahbm`."""

    @staticmethod
    def forward(ctx, function, *given):
        ctx.function, ctx.given = function, [one.detach().requires_grad_(True) for one in given]
        with torch.enable_grad():
            ctx.found = function(*ctx.given)
        return ctx.found.detach()

    @staticmethod
    def backward(ctx, gradient):
        import liger_kernel.ops.dyt as module

        known = mock.patch.object(torch.cuda, "get_device_properties", torch.ahbm.get_device_properties)
        with known, mock.patch.object(module, "infer_device", lambda: "cuda"):
            return None, *torch.autograd.grad(ctx.found, ctx.given, gradient)


def tiled(ops):
    """A layer of SwiGLU in two parts of its tokens."""
    def of(x, gate, up, down):
        module = types.SimpleNamespace()
        fn = lambda _, part: functional.linear(  # noqa: E731
            ops.LigerSiLUMulFunction.apply(functional.linear(part, gate), functional.linear(part, up)), down)
        return ops.LigerTiledMLPFunction.apply(fn, module, x, 2)

    return of


class Layer:
    """A module of Liger as a function of its input and its parameters."""

    def __init__(self, make):
        self.make = make

    def __call__(self, x, *parameters):
        module = self.make()
        names = [name for name, _ in module.named_parameters()]
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))


def layers(transformers):
    """Modules that take the place of those of models: name, shapes of parameters, and the same of PyTorch."""
    wide = [(24, WIDTH), (24, WIDTH), (WIDTH, 24)]
    tanh = lambda x: functional.gelu(x, approximate="tanh")  # noqa: E731

    def packed(x, gate_up, down):
        gate, up = functional.linear(x, gate_up).chunk(2, -1)
        return functional.linear(functional.silu(gate) * up, down)

    def mixtral(x, first, second, third):
        return gated(x, first, third, second)

    def scaled(x, gate, up, down):
        return 2 * functional.linear(functional.silu(0.5 * functional.linear(x, gate)) * functional.linear(x, up), down)

    def tanh_gated(x, gate, up, down):
        return functional.linear(tanh(functional.linear(x, gate)) * functional.linear(x, up), down)

    name = transformers
    return [
        ("LigerSwiGLUMLP", wide, lambda: name.swiglu.LigerSwiGLUMLP(CONFIG), gated),
        ("LigerBlockSparseTop2MLP", [(24, WIDTH), (WIDTH, 24), (24, WIDTH)], lambda: name.swiglu.LigerBlockSparseTop2MLP(CONFIG), mixtral),
        ("LigerPhi3SwiGLUMLP", [(48, WIDTH), (WIDTH, 24)], lambda: name.swiglu.LigerPhi3SwiGLUMLP(CONFIG), packed),
        ("LigerQwen3MoeSwiGLUMLP", wide, lambda: name.swiglu.LigerQwen3MoeSwiGLUMLP(CONFIG), gated),
        ("LigerGEGLUMLP", wide, lambda: name.geglu.LigerGEGLUMLP(CONFIG), tanh_gated),
        ("LigerFalconH1SwiGLUMLP", wide, lambda: name.swiglu.LigerFalconH1SwiGLUMLP(CONFIG), scaled),
        ("LigerRMSNormForGemma4", [(WIDTH,)], lambda: name.rms_norm.LigerRMSNormForGemma4(WIDTH), rms),
        ("LigerRMSNormForGemma3", [(WIDTH,)], lambda: name.rms_norm.LigerRMSNormForGemma3(WIDTH), lambda x, w: rms(x, 1 + w)),
        ("LigerRMSNormForOlmo2", [(WIDTH,)], lambda: name.rms_norm.LigerRMSNormForOlmo2(WIDTH), rms),
    ]  # fmt: skip


def positions(transformers):
    """Rotary positions of pictures, whose heads are beside each other, and experts that are chosen outside of their layer."""
    def experts_of(x, chosen, weights, gate_up, down):
        module = transformers.swiglu.LigerExperts(CONFIG)
        return torch.func.functional_call(module, {"gate_up_proj": gate_up, "down_proj": down}, (x, chosen, weights))

    def mixed(x, chosen, weights, gate_up, down):
        return mixture(x.flatten(0, 1), gate_up, down, chosen.flatten(0, 1), weights.flatten(0, 1)).reshape(x.shape)

    def turned(q, k, cosines, sines):
        return tuple(x * cosines[:, None] + halves_turned(x) * sines[:, None] for x in (q, k))

    flat = [lambda function=function: angles(1, 7, 16)(function)()[0] for function in (torch.cos, torch.sin)]
    given = [tensor(3, 3, WIDTH), lambda: experts(9, 4, 2)().reshape(3, 3, 2), lambda: torch.rand(3, 3, 2).requires_grad_(True)]
    return [
        ("LigerExperts", [*given, tensor(4, 48, WIDTH), tensor(4, WIDTH, 24)], experts_of, mixed),
        ("liger_rotary_pos_emb_vision", [tensor(7, 4, 16), tensor(7, 4, 16), *flat], transformers.rope.liger_rotary_pos_emb_vision, turned),
        ("liger_llama4_vision_rotary_pos_emb", [tensor(2, 7, 4, 16), tensor(2, 7, 4, 16), lambda: turns(7, 8)()[None, :, None]],
         transformers.llama4_rope.liger_llama4_vision_rotary_pos_emb, lambda q, k, of: pairs_turned(q, k, of[0, :, 0])),
    ]  # fmt: skip


def _layer_case(Case, name, shapes, make, reference):
    inputs = [tensor(2, 6, WIDTH), *(tensor(*shape) for shape in shapes)]
    return Case("Liger", name, lambda: [one() for one in inputs], Layer(make), reference, True)


def cases(Case):
    # Tuning would run each of many configurations.
    os.environ["LIGER_FUSED_MOE_AUTOTUNE"] = "0"
    import liger_kernel.ops as ops
    import liger_kernel.transformers as transformers
    from liger_kernel.transformers import geglu, llama4_rope, rms_norm, rope, swiglu  # noqa: F401

    made = []
    for name, tensors, called, reference in (*functions(ops), *positions(transformers)):
        inputs = lambda tensors=tensors: [make() for make in tensors]  # noqa: E731
        made.append(Case("Liger", name, inputs, called, reference, not name.startswith("swiglu kernels")))
    return made + [_layer_case(Case, *one) for one in layers(transformers)]
