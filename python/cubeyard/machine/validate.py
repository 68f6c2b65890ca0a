"""Comparison of simulated figures with known ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cubeyard import _native as native
from cubeyard._base import progress as _progress
from cubeyard._base.inputs import names
from cubeyard._base.results import Printed, arrow_types, build, plain, table
from cubeyard.machine.topology import TopologyLike, native_of

__all__ = ["Check", "Validation", "validate"]

Verdict = Literal["passed", "failed", "shown", "left out"]


@dataclass(frozen=True)
class Check:
    """Comparison of one simulated figure with a known one."""

    family: str
    name: str
    unit: str
    relation: str
    """Required relation of our figure to the expected one: "equal", "at_most" or "at_least"."""
    expected: float
    ours: float | None
    """Simulated figure, or None if the check was left out."""
    deviation: float | None
    """Relative deviation, or None if there is nothing to compare."""
    kind: str
    """Kind of tolerance: "exact", "calibrated", "predicted" or "indicative"."""
    ok: bool | None
    """Whether the check passed, or None if it is indicative or was left out."""
    source: str
    own: bool
    """Whether the expected figure is our own calculation from our own rules."""
    reason: str | None
    """Reason why the check is indicative or was left out, or another remark."""

    @property
    def verdict(self) -> Verdict:
        """Outcome of the check."""
        if self.ok is not None:
            return "passed" if self.ok else "failed"
        return "left out" if self.ours is None else "shown"


@dataclass(frozen=True)
class Validation(Printed):
    """Comparison of simulated figures with published figures, closed forms and golden values."""

    checks: tuple[Check, ...]

    _title: ClassVar[str] = "Known figures and ours"
    _types: ClassVar[Mapping[str, str]] = arrow_types(Check)

    @property
    def ok(self) -> bool:
        """Whether every judged figure is within its tolerance."""
        return all(check.ok is not False for check in self.checks)

    def to_dict(self) -> list[dict[str, Any]]:
        """Returns a list with one dictionary per check.

        The list equals the output of `--format json`, without the version and the hash of the machine.
        """
        checks: list[dict[str, Any]] = plain(self.checks)
        return checks

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per check, with its verdict."""
        return [plain(check) | {"verdict": check.verdict} for check in self.checks]

    def _summary(self) -> str:
        verdicts = [check.verdict for check in self.checks]
        known: list[Verdict] = ["passed", "failed", "shown", "left out"]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in known)

    def _tables(self) -> list[tuple[str, list[str], list[list[tuple[str, bool]]]]]:
        families = dict.fromkeys(check.family for check in self.checks)
        shown = ("verdict", "name", "expected", "ours", "unit", "deviation", "kind", "source", "reason")
        rows = {family: [row for row in self.rows() if row["family"] == family] for family in families}
        return [table(family, [{name: row[name] for name in shown} for row in rows[family]]) for family in families]

    def _draw(self, axes: Any) -> None:
        judged = [check for check in self.checks if check.deviation is not None]
        axes.barh([check.name for check in judged], [100 * (check.deviation or 0.0) for check in judged])
        axes.invert_yaxis()
        axes.set_xlabel("deviation, %")


def validate(
    topology: TopologyLike = None, *, family: str | Sequence[str] | None = None, progress: bool = False
) -> Validation:
    """Compares known figures with simulated ones, as `cubeyard validate` does.

    With another machine, the checks of the default machine are left out.

    Args:
        topology: The machine; see `Topology`.
        family: Families of checks to run, such as "published figures"; all if None.
        progress: Whether to show a progress bar, which needs tqdm.

    >>> import cubeyard
    >>> golden = cubeyard.validate(family="ASTRA-sim golden values")
    >>> golden.ok, len(golden.checks) > 5
    (True, True)
    """
    families = names("family", family)
    with _progress.shown(progress) as tell:
        data, text = native.validate(native_of(topology), families, tell)
    return Validation(tuple(build(Check, row) for row in data), text=text)
