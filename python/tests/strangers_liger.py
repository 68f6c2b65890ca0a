"""Functions of Liger: results, and gradients where a function has them."""

import torch
from torch.nn import functional

ROWS, WIDTH = 6, 40


def tensor(*shape, low=None, high=None, gradient=True):
    """Makes a function that returns random numbers, normal or in a range."""
    def make():
        made = torch.randn(shape) if low is None else torch.rand(shape) * (high - low) + low
        return made.requires_grad_(gradient)

    return make


def fixed(*shape, **named):
    return tensor(*shape, gradient=False, **named)


def labels(count, classes):
    return lambda: torch.randint(0, classes, (count,))


def log_probabilities(*shape):
    return lambda: torch.randn(shape).log_softmax(-1).requires_grad_(True)


def probabilities(*shape):
    return lambda: torch.randn(shape).softmax(-1)


def angles(batch, tokens, width):
    """Makes the cosines or the sines of positions, as models of transformers do."""
    def of(function):
        def make():
            rate = 1.0 / 10000 ** (torch.arange(0, width, 2) / width)
            both = torch.outer(torch.arange(tokens).float(), rate).repeat(1, 2)
            return function(both)[None].repeat(batch, 1, 1)

        return make

    return of


def halves_turned(x):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def rope(q, k, cos, sin):
    cos, sin = cos[:, None], sin[:, None]
    return tuple(x * cos + halves_turned(x) * sin for x in (q, k))


def pairs_turned(q, k, turns):
    def turned(x):
        shaped = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(shaped * turns[None, :, None, :]).flatten(3)

    return turned(q), turned(k)


def turns(tokens, half):
    return lambda: torch.polar(torch.ones(tokens, half), torch.rand(tokens, half) * 6)


def rms(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def poly(x, weight, bias):
    def norm(u):
        return u / torch.sqrt(u.pow(2).mean(-1, keepdim=True) + 1e-6)

    return weight[0] * norm(x**3) + weight[1] * norm(x**2) + weight[2] * norm(x) + bias


def jensen_shannon(student, teacher):
    middle = torch.log(0.5 * student.exp() + 0.5 * teacher.exp())
    both = 0.5 * functional.kl_div(middle, teacher, log_target=True, reduction="sum")
    both = both + 0.5 * functional.kl_div(middle, student, log_target=True, reduction="sum")
    return both / student.shape[0]


def attention_over_blocks(values, query, weight):
    scores = torch.einsum("d,nbtd->nbt", query, rms(values, weight))
    return torch.einsum("nbt,nbtd->btd", scores.softmax(0), values)


def sparsemax(x):
    """The projection onto the simplex, by its definition."""
    ordered, _ = x.sort(-1, descending=True)
    count = torch.arange(1, x.shape[-1] + 1)
    inside = 1 + count * ordered > ordered.cumsum(-1)
    size = inside.sum(-1, keepdim=True)
    threshold = ((ordered * inside).sum(-1, keepdim=True) - 1) / size
    return (x - threshold).clamp(min=0)


def policy_loss(logits, old, reference, ids, advantages):
    chosen = logits[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    ratio = (chosen - old).exp()
    clipped = ratio.clamp(0.8, 1.2)
    loss = -torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    loss = loss + 0.04 * ((reference - chosen).exp() - (reference - chosen) - 1)
    return loss.mean(-1).mean()


def linear_cross_entropy(x, weight, target):
    return functional.cross_entropy(x @ weight.T, target)


def linear_jensen_shannon(x, weight, teacher, teacher_weight):
    return jensen_shannon((x @ weight.T).log_softmax(-1), (teacher @ teacher_weight.T).log_softmax(-1))


def linear_divergence(x, weight, target):
    return functional.kl_div((x @ weight.T).log_softmax(-1), target, reduction="batchmean")


def total_variation(p, q):
    return 0.5 * (p - q).abs().sum() / p.shape[0]


def entropy_and_variation(student, teacher, target):
    variation = 0.5 * (student.softmax(-1) - teacher.softmax(-1)).abs().sum(-1)
    return functional.cross_entropy(student, target, reduction="none"), variation


def gate_up(y):
    gate, up = y.chunk(2, -1)
    return functional.silu(gate) * up


X, Y, W = tensor(ROWS, WIDTH), tensor(ROWS, WIDTH), tensor(WIDTH)
LOGITS, TARGET = tensor(ROWS, 50), labels(ROWS, 50)
QUERIES, KEYS = tensor(2, 4, 7, 16), tensor(2, 2, 7, 16)
COSINES, SINES = (angles(2, 7, 16)(function) for function in (torch.cos, torch.sin))

# Name of the function, arguments that are tensors, arguments behind them, and the same of PyTorch.
CASES = [
    ("LigerCrossEntropyFunction", [LOGITS, TARGET], [None], functional.cross_entropy),
    ("LigerCrossEntropyFunction", [LOGITS, TARGET], [None, -100, 0.0, 0.1, "sum"],
     lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1, reduction="sum")),
    ("LigerDyTFunction", [fixed(ROWS, WIDTH), fixed(1), fixed(WIDTH), fixed(WIDTH)], [], lambda x, a, w, b: w * torch.tanh(a * x) + b),
    ("LigerFusedAddRMSNormFunction", [X, Y, W], [1e-6], lambda x, r, w: (rms(x + r, w), x + r)),
    ("LigerGELUMulFunction", [X, Y], [], lambda a, b: functional.gelu(a, approximate="tanh") * b),
    ("LigerSiLUMulFunction", [X, Y], [], lambda a, b: functional.silu(a) * b),
    ("LigerFusedGateUpSiLUMulFunction", [tensor(ROWS, 80)], [], gate_up),
    ("LigerGroupNormFunction", [tensor(2, 6, 10), tensor(6), tensor(6)], [6, 3, 1e-5], lambda x, w, b: functional.group_norm(x, 3, w, b)),
    ("LigerLayerNormFunction", [X, W, tensor(WIDTH)], [1e-5], lambda x, w, b: functional.layer_norm(x, (WIDTH,), w, b)),
    ("LigerRMSNormFunction", [X, W], [1e-6], rms),
    ("LigerRMSNormFunction", [X, W], [1e-6, 1.0, "gemma"], lambda x, w: rms(x, 1 + w)),
    ("LigerModulatedRMSNormFunction", [X, W, tensor(WIDTH), tensor(WIDTH)], [1e-6], lambda x, w, s, h: (1 + s) * rms(x, w) + h),
    ("LigerModulatedRMSNormFunction", [tensor(2, 3, WIDTH), W, tensor(2, WIDTH), tensor(2, WIDTH)], [1e-6],
     lambda x, w, s, h: (1 + s[:, None]) * rms(x, w) + h[:, None]),
    ("LigerPolyNormFunction", [X, tensor(3), tensor()], [1e-6], poly),
    ("LigerReLUSquaredFunction", [X], [], lambda x: functional.relu(x) ** 2),
    ("LigerSoftmaxFunction", [X], [], lambda x: x.softmax(-1)),
    ("LigerSparsemaxFunction", [X], [-1], sparsemax),
    ("LigerRopeFunction", [QUERIES, KEYS, COSINES, SINES], [], rope),
    ("LigerLlama4RopeFunction", [tensor(2, 7, 4, 16), tensor(2, 7, 2, 16), turns(7, 8)], [], pairs_turned),
    ("LigerKLDivLossFunction", [log_probabilities(ROWS, 50), probabilities(ROWS, 50)], [],
     lambda x, y: functional.kl_div(x, y, reduction="batchmean")),
    ("LigerJSDFunction", [log_probabilities(ROWS, 50), lambda: torch.randn(ROWS, 50).log_softmax(-1)], [], jensen_shannon),
    ("LigerTVDLossFunction", [lambda: torch.rand(ROWS, 50).requires_grad_(True), probabilities(ROWS, 50)], [], total_variation),
    ("LigerFusedCETVDFunction", [LOGITS, fixed(ROWS, 50), TARGET], [], entropy_and_variation),
    ("LigerFusedLinearCrossEntropyFunction", [X, tensor(50, WIDTH), TARGET], [], linear_cross_entropy),
    ("LigerFusedLinearJSDFunction", [X, tensor(50, WIDTH), fixed(ROWS, WIDTH), fixed(50, WIDTH)], [], linear_jensen_shannon),
    ("LigerFusedLinearKLDivFunction", [X, tensor(50, WIDTH), probabilities(ROWS, 50)], [], linear_divergence),
    ("LigerAttnResFunction", [tensor(3, 2, 5, WIDTH), W, tensor(WIDTH)], [1e-6], attention_over_blocks),
    ("LigerMHCPreFunction", [tensor(5, 4, 32), tensor(5, 4)], [], lambda x, h: torch.einsum("nhc,nh->nc", x, h)),
    ("LigerMHCPostResFunction", [tensor(5, 4, 32), tensor(5, 32), tensor(5, 4), tensor(5, 4, 4)], [],
     lambda x, f, post, res: torch.einsum("noi,nic->noc", res, x) + post[..., None] * f[:, None]),
    ("GrpoLossFunction", [tensor(2, 6, 50), fixed(2, 5, low=-4, high=-3), fixed(2, 5, low=-4, high=-3), lambda: torch.randint(0, 50, (2, 5)),
                          fixed(2)], [None, 1.0, 0.04, 0.2, 0.2, False], policy_loss),
]  # fmt: skip

RESULTS = {"GrpoLossFunction": 1, "LigerCrossEntropyFunction": 1, "LigerFusedLinearCrossEntropyFunction": 1}


def case(Case, module, name, tensors, behind, reference):
    apply = getattr(module, name).apply

    def function(*given):
        found = apply(*given, *behind)
        # Some also return figures for a log, after their results.
        return found[:RESULTS.get(name)] if isinstance(found, tuple) else found

    # The gradients of DyT need the number of processors of a GPU.
    differentiable = name != "LigerDyTFunction"
    return Case("Liger", name, lambda: [make() for make in tensors], function, reference, differentiable)


def cases(Case):
    import liger_kernel.ops

    return [case(Case, liger_kernel.ops, *one) for one in CASES]
