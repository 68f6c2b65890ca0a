"""Runs kernels that nobody here wrote, from FlagGems and Liger, and compares their results with PyTorch's on the CPU.

    pip install --no-deps -r python/requirements-strangers.txt
    python python/tests/strangers.py              all cases, and the table of docs/triton-coverage.md
    python python/tests/strangers.py softmax rope  the cases whose names contain one of these words

A case is right if all its results equal PyTorch's, refused if the error names the line of the kernel and what the
machine has not, and wrong otherwise. The exit code is 1 if one is wrong, or ran no kernel.
"""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import cubeyard
import cubeyard.torch  # noqa: F401
import cubeyard.triton
from cubeyard.triton import _record

TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-6, torch.complex64: 1e-4}


@dataclass
class Case:
    """One function of a package with its inputs."""

    package: str
    name: str
    inputs: Callable[[], list[Any]]
    function: Callable[..., Any]
    reference: Callable[..., Any]
    """The same of PyTorch."""
    differentiable: bool = False
    """Whether gradients with respect to the inputs that require them are compared, too."""


@dataclass
class Outcome:
    """What became of a case."""

    verdict: str
    detail: str = ""
    kernels: set[str] = field(default_factory=set)


def results_of(function, inputs, differentiable):
    """Calls a function; returns its results, and the gradients of a weighted sum of them, all on the CPU."""
    found = function(*inputs)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    results = [one.detach().cpu().clone() if isinstance(one, torch.Tensor) else one for one in found]
    if differentiable:
        weighted = [one for one in found if isinstance(one, torch.Tensor) and one.requires_grad]
        sum((one.float() * weights_of(one)).sum() for one in weighted).backward()
        results += [one.grad.cpu() for one in inputs if isinstance(one, torch.Tensor) and one.requires_grad]
    return results


def weights_of(tensor):
    """Different numbers near 1, the same on every device."""
    return (1 + torch.arange(tensor.numel()).remainder(7).sub(3) / 16).reshape(tensor.shape).to(tensor.device)


def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device).requires_grad_(value.requires_grad)
    return [moved(one, device) for one in value] if isinstance(value, list) else value


def difference(found, wanted):
    """The first difference of two lists of results, as text; nothing if there is none."""
    if len(found) != len(wanted):
        return f"{len(found)} results, expected {len(wanted)}"
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not isinstance(other, torch.Tensor):
            if one != other:
                return f"result {at}: {one}, expected {other}"
            continue
        share = TOLERANCES.get(one.dtype, 0)
        try:
            torch.testing.assert_close(one, other, rtol=share, atol=share, equal_nan=True, check_dtype=False)
        except AssertionError as error:
            return f"result {at}: " + " ".join(str(error).split())
    return ""


def run(case):
    """Runs a case."""
    torch.manual_seed(len(case.name))
    inputs, kernels = case.inputs(), set()
    wanted = results_of(case.reference, moved(inputs, "cpu"), case.differentiable)
    plain = _record.perform

    def perform(launch, *given, **named):
        kernels.add(launch.program.name)
        return plain(launch, *given, **named)

    _record.perform = perform
    try:
        found = results_of(case.function, moved(inputs, "ahbm"), case.differentiable)
    except cubeyard.CubeyardError as error:
        return Outcome("refused", str(error), kernels)
    except Exception as error:
        if os.environ.get("STRANGERS_TRACE"):
            traceback.print_exc()
        return Outcome("wrong", f"{type(error).__name__}: {error}", kernels)
    finally:
        _record.perform = plain
    if not kernels:
        return Outcome("wrong", "ran no kernel", kernels)
    text = difference(found, wanted)
    return Outcome("wrong" if text else "right", text, kernels)


def cases():
    """All cases of both packages."""
    import strangers_flag_gems
    import strangers_liger
    import strangers_liger_layers

    return [*strangers_flag_gems.cases(Case), *strangers_liger.cases(Case), *strangers_liger_layers.cases(Case)]


def table(outcomes):
    """The table of docs/triton-coverage.md: counts by package, and what was refused."""
    lines = ["| package | functions | cases | their kernels | right | refused by name | wrong |", "|---|---|---|---|---|---|---|"]
    for package in dict.fromkeys(case.package for case, _ in outcomes):
        own = [outcome for case, outcome in outcomes if case.package == package]
        counts, kernels = Counter(one.verdict for one in own), set().union(*(one.kernels for one in own))
        functions = {case.name.split(" (")[0] for case, _ in outcomes if case.package == package}
        numbers = (len(functions), len(own), len(kernels), counts["right"], counts["refused"], counts["wrong"])
        lines.append(f"| {package} | " + " | ".join(map(str, numbers)) + " |")
    refused = [(case, outcome) for case, outcome in outcomes if outcome.verdict == "refused"]
    lines += ["", "| refused | with |", "|---|---|"] if refused else []
    lines += [f"| {case.package}'s `{case.name}` | {brief(outcome.detail)} |" for case, outcome in refused]
    return "\n".join(lines)


def brief(text):
    """An error without its line and addresses, which change with versions."""
    return re.sub(r"^.*\.py:\d+: | from 0x\w+ on: 0x\w+|Triton's operation ", "", " ".join(text.split()))


def main(words):
    chosen = [case for case in cases() if not words or any(word in case.name for word in words)]
    outcomes = []
    for case in chosen:
        outcome = run(case)
        outcomes.append((case, outcome))
        text = " ".join(outcome.detail.split())[:300]
        print(f"{outcome.verdict:8} {case.package}.{case.name} {sorted(outcome.kernels)} {text}".rstrip(), flush=True)
    print("\n" + table(outcomes))
    return int(any(outcome.verdict == "wrong" for _, outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
