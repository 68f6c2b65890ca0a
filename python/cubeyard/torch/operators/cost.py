"""Time of an operator, from the shapes, strides and types of its tensors.

Nothing here reads a tensor, so the same function serves programs with data and programs of shapes alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cubeyard.errors import InputError, KernelError
from cubeyard.torch.operators import kernels
from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Description, passes
from cubeyard.torch.operators.forms import forms
from cubeyard.torch.operators.spec import TensorSpec, normal, tensors
from cubeyard.torch.operators.table import rule, takes_no_time

__all__ = ["Cost", "Estimated", "TensorSpec", "cost", "describe", "estimated", "register_cost"]

KEPT = 65_536
"""Number of different calls whose costs are kept."""


SLOW = 4
"""Multiple of the bound from which on kernels on rows are also tried in other forms."""


@dataclass(frozen=True)
class Cost:
    """Time of an operator on all PEs of a SIP, and the reason for it."""

    ps: int
    """Time in picoseconds, without the host's launch."""
    kernel: str | None
    """Kernel that was simulated. None for an estimate, the bytes over the bandwidth of the HBM."""
    bytes: int
    """Bytes that are read and written."""
    flops: int = 0
    """Multiplications and additions of matrix products; 0 for other operators."""
    bound_ps: int = 0
    """Least time that the machine's peak rates allow for these bytes and FLOPs."""
    local_share: float | None = None
    """Share of the bytes that a PE moves from or to its own slice of HBM. None if it was not simulated."""

    @property
    def is_estimate(self) -> bool:
        """True if no kernel was simulated."""
        return self.kernel is None


class Estimated(NamedTuple):
    """Operator whose time is an estimate."""

    calls: int
    """Number of calls with different arguments."""
    reason: str
    """Reason for the first of them."""


CostFunction = Callable[[tuple[Any, ...], tuple[Any, ...]], "Sequence[Description] | Cost | None"]
"""Function from arguments and results to kernels, to a cost, or to None for no time."""

_registered: dict[str, CostFunction] = {}
_estimated: dict[str, Estimated] = {}


def cost(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> Cost | None:
    """Returns the time of an operator; None if it takes no time of a device, as a view does.

    Equal calls are simulated once.

    Args:
        op: The operator with its overload, such as `aten::add.Tensor`.
        arguments: Its arguments in the order of the schema, with a `TensorSpec` for each tensor and tuples for lists.
            Arguments at the end that have their defaults may be missing.
        results: Its results, in the same form.
    """
    try:
        return _cost(op, arguments, results)
    except TypeError:
        # A list, a dictionary or another argument that cannot be a key; an error of a function of a user comes again.
        return _cost(op, _hashable(arguments), _hashable(results))


def register_cost(op: str, function: CostFunction) -> None:
    """Registers the cost of an operator of your own, such as a `torch.library.custom_op`, or of one that is only estimated.

    Args:
        op: Name with the namespace, `mylib::scale`, for all overloads, or with an overload for this one, `aten::add.Tensor`.
        function: Function of the arguments and the results, as `cost` takes them. It returns the kernels that the operator
            runs on the machine, made by `pointwise`, `reduction`, `rows` or `product`; or a `Cost`; or None for no time.
            It is called once for equal arguments.

    Raises:
        InputError: The name has no namespace.
    """
    if "::" not in op:
        raise InputError(f"operator `{op}`: expected a name with its namespace, such as `mylib::{op}`")
    _registered[op] = function
    _cost.cache_clear()


def estimated() -> dict[str, Estimated]:
    """Returns the operators whose times are estimates so far, by name."""
    return dict(_estimated)


def describe(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> list[Description]:
    """Returns the kernels of an operator of the table.

    Raises:
        NotDescribed: The table has no rule, or the arguments have no counterpart on the machine.
    """
    found = rule(op)
    if found is None:
        raise NotDescribed("no rule in the table of operators")
    return [kernel for kernel in found.describe(Call(op, arguments, results), found.counts) if _has_work(kernel)]


@functools.lru_cache(KEPT)
def _cost(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> Cost | None:
    function = _registered.get(op) or _registered.get(op.partition(".")[0])
    if function is None:
        return None if takes_no_time(op) else _tabled(op, arguments, results)
    answer = function(arguments, results)
    return answer if answer is None or isinstance(answer, Cost) else _sum(list(answer))


def _tabled(op: str, arguments: tuple[Any, ...], results: tuple[Any, ...]) -> Cost | None:
    moved = sum(spec.bytes for spec in tensors((arguments, results)))
    if moved == 0:
        return None
    try:
        return _sum(describe(op, arguments, results))
    except (NotDescribed, InputError, KernelError) as error:
        before = _estimated.get(op)
        _estimated[op] = Estimated(1, str(error)) if before is None else before._replace(calls=before.calls + 1)
        return _estimate(moved)


def _sum(parts: list[Description]) -> Cost | None:
    """Returns the cost of kernels that run one after the other."""
    if not parts:
        return None
    done = [one for part in parts for one in _timed(part)]
    moved = sum(times * fields["bytes"] for fields, times in done)
    local = sum(times * fields["bytes"] * (fields["local_share"] or 0.0) for fields, times in done)
    return Cost(
        ps=sum(times * fields["ps"] for fields, times in done),
        kernel=" + ".join(dict.fromkeys(fields["kernel"] for fields, _ in done)),
        bytes=moved,
        flops=sum(times * fields["flops"] for fields, times in done),
        bound_ps=sum(times * fields["bound_ps"] for fields, times in done),
        local_share=local / moved if moved else None,
    )


def _timed(part: Description) -> list[tuple[Mapping[str, Any], int]]:
    """Returns the fields of a kernel's cost and the number of its runs.

    Rows that do not fit in a PE, or that the kernel cannot read across the fast axis, take several kernels. Of slow kernels on rows the
    fastest of several is taken.
    """
    try:
        whole = [(kernels.time(part._replace(times=1)), part.times)]
    except (InputError, KernelError):
        if part.family != "rows":
            raise
        return _in_passes(part)
    if part.family not in ("rows", "reduce") or whole[0][0]["ps"] < SLOW * whole[0][0]["bound_ps"]:
        return whole
    choices = [whole, *(_as_asked(form, *whole[0]) for form in forms(part._replace(times=1)))]
    if part.family == "rows":
        choices.append(_in_passes(part))
    return min(choices, key=_picoseconds)


def _picoseconds(done: list[tuple[Mapping[str, Any], int]]) -> int:
    return sum(times * fields["ps"] for fields, times in done)


def _as_asked(form: list[Description], asked: Mapping[str, Any], times: int) -> list[tuple[Mapping[str, Any], int]]:
    """Returns the time of other kernels with the bytes, the FLOPs and the bound of the one that is asked for."""
    done = [kernels.time(one) for one in form]
    names = " + ".join(fields["kernel"] for fields in done)
    fields = {**asked, "ps": sum(one["ps"] for one in done), "kernel": names, "local_share": done[0]["local_share"]}
    return [(fields, times)]


def _in_passes(part: Description) -> list[tuple[Mapping[str, Any], int]]:
    return [(kernels.time(one._replace(times=1)), part.times * one.times) for one in passes(part)]


def _has_work(kernel: Description) -> bool:
    return all(spec.elements for spec in (*kernel.results, *kernel.operands))


def _estimate(moved: int) -> Cost:
    """Returns the time of bytes at the bandwidth of a SIP's HBM."""
    picoseconds = -(-moved * 10**12 // kernels.bandwidth())
    return Cost(picoseconds, None, moved, bound_ps=picoseconds)


def _hashable(value: Any) -> Any:
    """Returns a value that can be a key: lists as tuples, and what has no hash as its text."""
    if isinstance(value, TensorSpec):
        return normal(value)
    if isinstance(value, tuple | list):
        return tuple(_hashable(one) for one in value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
