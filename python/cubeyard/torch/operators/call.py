"""One call of an operator, with its arguments by name."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from cubeyard.torch.operators.spec import TensorSpec, tensors

__all__ = ["Call", "NotDescribed"]


class NotDescribed(Exception):
    """Call whose arguments have no counterpart on the machine, with the reason."""


class Signature(NamedTuple):
    """Schema of an operator."""

    names: tuple[str, ...]
    """Names of the arguments."""
    defaults: tuple[Any, ...]
    """Values of arguments that are not given."""
    written: tuple[bool, ...]
    """True for each argument that the operator changes."""
    out: tuple[bool, ...]
    """True for each argument that only takes a result."""
    returns_views: bool
    """True if there is a result, and each is a view of an argument."""


@dataclass(frozen=True)
class Call:
    """Call of an operator."""

    op: str
    """Operator with its overload, such as `aten::add.Tensor`."""
    arguments: tuple[Any, ...]
    """Arguments in the order of the schema. Later ones may be missing and then have their defaults."""
    results: tuple[Any, ...]
    """Results, in the same form."""

    @property
    def signature(self) -> Signature:
        """Schema of the operator."""
        found = signature(self.op)
        if found is None:
            raise NotDescribed(f"PyTorch knows no operator {self.op}")
        return found

    def get(self, name: str, otherwise: Any = None) -> Any:
        """Returns an argument by its name; `otherwise` if the operator has none of this name."""
        names = self.signature.names
        if name not in names:
            return otherwise
        at = names.index(name)
        return self.arguments[at] if at < len(self.arguments) else self.signature.defaults[at]

    def tensor(self, *names: str) -> TensorSpec:
        """Returns the first tensor among the arguments of these names."""
        for name in names:
            if isinstance(found := self.get(name), TensorSpec):
                return found
        raise NotDescribed(f"{self.op} without a tensor for {' or '.join(names)}")

    def integers(self, name: str, count: int, otherwise: int) -> list[int]:
        """Returns an argument of one integer for each of `count` dimensions; one integer stands for all."""
        value = self.get(name)
        given = [value] if isinstance(value, int) else list(value or [otherwise])
        return given * count if len(given) == 1 else given

    def dim(self, name: str, rank: int) -> int:
        """Returns a dimension that counts from the front."""
        return int(self.get(name) or 0) % max(rank, 1)

    @property
    def reads(self) -> list[TensorSpec]:
        """Tensors of the arguments, in order, without those that only take a result."""
        given = zip(self.arguments, self.signature.out, strict=False)
        return list(tensors(value for value, is_out in given if not is_out))

    @property
    def changed(self) -> list[TensorSpec]:
        """Tensors of the arguments that the operator changes."""
        given = zip(self.arguments, self.signature.written, strict=False)
        return list(tensors(value for value, is_written in given if is_written))

    @property
    def writes(self) -> list[TensorSpec]:
        """Tensors that the operator writes: its results, or the arguments that it changes if it has no result."""
        return list(tensors(self.results)) or self.changed

    @property
    def result(self) -> TensorSpec:
        """First tensor that the operator writes."""
        if not (writes := self.writes):
            raise NotDescribed(f"{self.op} writes no tensor")
        return writes[0]

    @property
    def is_in_place(self) -> bool:
        """True if the operator changes one of its inputs."""
        return any(w and not o for w, o in zip(self.signature.written, self.signature.out, strict=True))


@functools.cache
def signature(op: str) -> Signature | None:
    """Returns the schema of an operator; None if PyTorch has none of this name."""
    name, _, overload = op.partition(".")
    try:
        schema = torch._C._get_schema(name, "" if overload == "default" else overload)
    except RuntimeError:
        return None
    given: Sequence[Any] = schema.arguments
    return Signature(
        names=tuple(a.name for a in given),
        defaults=tuple(a.default_value for a in given),
        written=tuple(bool(a.alias_info and a.alias_info.is_write) for a in given),
        out=tuple(bool(a.is_out) for a in given),
        returns_views=bool(schema.returns)
        and all(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns),
    )
