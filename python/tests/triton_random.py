"""Random kernels in Triton, each with the same computation in NumPy."""

import random

import numpy as np

HEAD = """
@triton.jit
def {name}(x_ptr, y_ptr, i_ptr, j_ptr, k_ptr, l_ptr, out_ptr, whole_ptr, long_ptr, rows, columns, far, share, flag,
           M: tl.constexpr, N: tl.constexpr):
    r = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.arange(0, N)
    at = r[:, None] * columns + c[None, :]
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + at, mask=inside, other=0.5)
    y = tl.load(y_ptr + at, mask=inside, other=-2.0)
    i = tl.load(i_ptr + at, mask=inside, other=3)
    j = tl.load(j_ptr + at, mask=inside, other=-4)
    k = tl.load(k_ptr + at, mask=inside, other=9223372036854775807)
    l = tl.load(l_ptr + at, mask=inside, other=-9007199254740993)
{body}
    tl.store(out_ptr + at, {out}, mask=inside)
    tl.store(whole_ptr + at, {whole}, mask=inside)
    tl.store(long_ptr + at, {long}, mask=inside)
"""

LOAD = "r[:, None] + 0 * c[None, :]", "c[None, :] + 0 * r[:, None]"


FILLED = {"x": 0.5, "y": -2.0, "i": 3, "j": -4, "k": 2**63 - 1, "l": -(2**53) - 1}
"""Elements of the arrays that a mask leaves out."""

FAR = [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 6364136223846793005, 1442695040888963407, -(2**31) - 1, 2**32, -1, 5]
"""Constants beside numbers of 64 bits."""


class Writer:
    """Writes statements, and computes their values for one program."""

    def __init__(self, seed, arrays, numbers, start, shape):
        self.random = random.Random(seed)
        self.numbers = numbers
        (m, n), (rows, columns) = shape, arrays["x"].shape
        self.shape, self.start, self.limits = shape, start, (rows, columns)
        self.floats, self.wholes, self.longs, self.lines = {}, {}, {}, []
        kinds = {"f4": self.floats, "i4": self.wholes, "i8": self.longs}
        for name, array in arrays.items():
            block = np.full(shape, FILLED[name], array.dtype)
            part = array[start : start + m, :n]
            block[: part.shape[0], : part.shape[1]] = part
            kinds[array.dtype.str[1:]][name] = block
        self.wholes["(r[:, None] + 0 * c[None, :])"] = np.broadcast_to(start + np.arange(m, dtype=np.int32)[:, None], shape)
        self.wholes["(c[None, :] + 0 * r[:, None])"] = np.broadcast_to(np.arange(n, dtype=np.int32)[None, :], shape)

    def pick(self, of):
        name = self.random.choice(list(of))
        return name, of[name]

    def float(self, depth):
        """Returns an expression of floats, as text and as an array."""
        choose = self.random.random()
        if depth == 0 or choose < 0.1:
            if choose < 0.03:
                value = self.random.choice([0.5, -1.25, 3.0])
                return f"{value}", np.float32(value)
            if choose < 0.05:
                return "share", np.float32(self.numbers["share"])
            return self.pick(self.floats)
        if choose < 0.55:
            (a, x), (b, y) = self.float(depth - 1), self.float(depth - 1)
            kind = self.random.choice("+-*mM")
            texts = {"m": f"tl.minimum({a}, {b})", "M": f"tl.maximum({a}, {b})"}
            compute = {"+": np.add, "-": np.subtract, "*": np.multiply, "m": np.minimum, "M": np.maximum}[kind]
            if kind in "mM" and not (np.ndim(x) and np.ndim(y)):
                return self.pick(self.floats)
            return texts.get(kind, f"({a} {kind} {b})"), compute(x, y).astype(np.float32)
        if choose < 0.7:
            a, x = self.float(depth - 1)
            if not np.ndim(x):
                return self.pick(self.floats)
            kind = self.random.choice(["abs", "exp", "sqrt", "div"])
            if kind == "abs":
                return f"tl.abs({a})", np.abs(x)
            if kind == "exp":
                return f"tl.exp(tl.minimum({a}, 2.0))", np.exp(np.minimum(x, np.float32(2)))
            if kind == "sqrt":
                return f"tl.sqrt(tl.abs({a}))", np.sqrt(np.abs(x))
            return f"({a} / (tl.abs({a}) + 1.0))", x / (np.abs(x) + np.float32(1))
        if choose < 0.85:
            (a, x), (b, y), (t, truth) = self.float(depth - 1), self.float(depth - 1), self.truth(depth - 1)
            return f"tl.where({t}, {a}, {b})", np.where(truth, x, y).astype(np.float32)
        a, x = self.whole(depth - 1)
        return (f"{a}.to(tl.float32)", x.astype(np.float32)) if np.ndim(x) else self.pick(self.floats)

    def whole(self, depth):
        """Returns an expression of whole numbers."""
        choose = self.random.random()
        if depth == 0 or choose < 0.15:
            return self.pick(self.wholes)
        a, x = self.whole(depth - 1)
        if choose < 0.45:
            b, y = self.whole(depth - 1)
            kind = self.random.choice("+-*&|^")
            compute = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or}
            return f"({a} {kind} {b})", compute.get(kind, np.bitwise_xor)(x, y)
        number = self.random.choice([1, 2, 3, 7, 16])
        kind = self.random.choice(["//", "%", ">>", "<<", "min", "where", "cut"])
        if kind == "cut":
            b, y = self.long(depth - 1)
            return f"{b}.to(tl.int32)", y.astype(np.int32)
        if kind == "//":
            return f"({a} // {number})", (np.abs(x.astype(np.int64)) // number * np.sign(x)).astype(np.int32)
        if kind == "%":
            return f"({a} % {number})", np.fmod(x, np.int32(number))
        if kind in (">>", "<<"):
            shift = np.right_shift if kind == ">>" else np.left_shift
            return f"({a} {kind} {number % 5})", shift(x, np.int32(number % 5))
        if kind == "min":
            return f"tl.minimum({a}, {number})", np.minimum(x, np.int32(number))
        t, truth = self.truth(depth - 1)
        return f"tl.where({t}, {a}, {number})", np.where(truth, x, np.int32(number))

    def far(self):
        """Returns a number of 64 bits: a constant, an argument of the launch, or what a program computes of it."""
        constant = self.random.choice([*FAR, self.random.getrandbits(64) - 2**63])
        kind = self.random.random()
        if kind < 0.6:
            return f"{constant}", np.int64(constant)
        far = np.int64(self.numbers["far"])
        if kind < 0.8:
            return "far", far
        return f"(far * {constant} + 7)", far * np.int64(constant) + np.int64(7)

    def long(self, depth):
        """Returns an expression of whole numbers of 64 bits, beside numbers as large."""
        choose = self.random.random()
        if depth <= 0 or choose < 0.15:
            return self.pick(self.longs)
        a, x = self.long(depth - 1)
        b, y = self.long(depth - 1) if choose < 0.35 else self.far()
        kind = self.random.choice(["+", "-", "*", "&", "|", "^", "min", "where", "shift", "//", "%", "wide"])
        compute = {"+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
        if kind in compute:
            return f"({a} {kind} {b})", compute[kind](x, y)
        if kind == "min":
            return f"tl.minimum({a}, {b})", np.minimum(x, y)
        if kind == "where":
            t, truth = self.truth(depth - 1)
            return f"tl.where({t}, {a}, {b})", np.where(truth, x, y)
        if kind == "shift":
            by, left = self.random.choice([1, 31, 33, 63]), self.random.random() < 0.5
            return f"({a} {'<<' if left else '>>'} {by})", (np.left_shift if left else np.right_shift)(x, np.int64(by))
        if kind == "wide":
            b, y = self.whole(depth - 1)
            return f"({b}.to(tl.int64) + {a})", y.astype(np.int64) + x
        number = np.int64(self.random.choice([3, -7, 10**10, 2**53 + 1]))
        rest = np.fmod(x, number)
        return (f"({a} % {number})", rest) if kind == "%" else (f"({a} // {number})", (x - rest) // number)

    def truth(self, depth):
        """Returns a condition."""
        choose = self.random.random()
        if choose < 0.1:
            return "flag", np.bool_(self.numbers["flag"])
        if choose < 0.3:
            (a, x), (b, y) = self.long(max(depth - 1, 0)), self.far()
        elif choose < 0.6:
            (a, x), (b, y) = self.whole(max(depth - 1, 0)), self.whole(max(depth - 1, 0))
        else:
            (a, x), (b, y) = self.pick(self.floats), self.pick(self.floats)
        kind = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        compute = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal}
        found = compute.get(kind, np.not_equal)(x, y)
        if self.random.random() < 0.2:
            return f"(({a} {kind} {b}) & (c[None, :] < columns - 1))", found & (np.arange(self.shape[1]) < self.limits[1] - 1)
        return f"({a} {kind} {b})", found

    def statement(self, number):
        """Writes a statement that names a new value."""
        kind = self.random.choice(["float", "float", "whole", "long", "long", "far", "reduce", "loop", "branch"])
        name = f"t{number}"
        if kind == "long":
            text, value = self.long(3)
            self.lines.append(f"{name} = {text}")
            self.longs[name] = value
        elif kind == "far":
            source, x = self.pick(self.longs)
            axis, op = self.random.choice([0, 1]), self.random.choice(["max", "min", "sum", "xor_sum"])
            value = np.bitwise_xor.reduce(x, axis, keepdims=True) if op == "xor_sum" else getattr(x, op)(axis=axis, keepdims=True)
            self.lines.append(f"{name} = {source} + tl.{op}({source}, axis={axis}){'[:, None]' if axis else '[None, :]'}")
            self.longs[name] = x + value
        elif kind == "whole":
            text, value = self.whole(3)
            self.lines.append(f"{name} = {text}")
            self.wholes[name] = value
        elif kind == "reduce":
            source, x = self.pick(self.floats)
            axis, op = self.random.choice([0, 1]), self.random.choice(["max", "min", "sum"])
            value = getattr(x, op)(axis=axis, keepdims=True)
            at = "[:, None]" if axis else "[None, :]"
            scale = 1 / 64 if op == "sum" else 1
            self.lines.append(f"{name} = {source} * 0.5 + tl.{op}({source}, axis={axis}){at} * {scale}")
            self.floats[name] = (x * np.float32(0.5) + value * np.float32(scale)).astype(np.float32)
        elif kind == "loop":
            self.loop(name)
        elif kind == "branch":
            (a, x), (b, y) = self.float(2), self.pick(self.floats)
            if not np.ndim(x):
                (a, x) = self.pick(self.floats)
            limit = self.random.choice([0, 8, 16])
            self.lines += [f"{name} = {b} + 0.0", f"if tl.program_id(0) * M >= {limit}:", f"    {name} = {a} * 1.0"]
            self.floats[name] = x if self.start >= limit else y
        else:
            text, value = self.float(4)
            if np.ndim(value):
                self.lines.append(f"{name} = {text}")
                self.floats[name] = value

    def loop(self, name):
        first, value = self.pick(self.floats)
        count = self.random.randint(0, 4)
        self.lines += [f"{name} = {first} + 0.0", f"for s in range({count}):"]
        text, factor = self.float(2)
        self.lines.append(f"    {name} = {name} * 0.5 + {text} + s")
        for step in range(count):
            value = (value * np.float32(0.5) + factor + np.float32(step)).astype(np.float32)
        self.floats[name] = value


def numbers_of(seed):
    """Returns the numbers that are arguments of a launch."""
    rand = random.Random(-1 - seed)
    far = rand.choice([*FAR[:-2], rand.getrandbits(63), -rand.getrandbits(63)])
    return {"far": far, "share": rand.choice([0.5, -2.0, 2.0, -0.0]), "flag": rand.random() < 0.5}


def written(seed, arrays, start, shape):
    """Returns the writer of a random kernel, and the values that a program stores: floats, whole numbers, and whole numbers of 64 bits."""
    writer = Writer(seed, arrays, numbers_of(seed), start, shape)
    for number in range(writer.random.randint(1, 6)):
        writer.statement(number)
    return writer, *(list(of.items())[-1] for of in (writer.floats, writer.wholes, writer.longs))


def source(seed, arrays, shape):
    """Returns the text of a kernel."""
    with np.errstate(all="ignore"):
        writer, (out, _), (whole, _), (long, _) = written(seed, arrays, 0, shape)
    body = "\n".join("    " + line for line in writer.lines)
    return HEAD.format(name=f"kernel_{seed}", body=body, out=out, whole=whole, long=long)
