"""docs/pytorch.md: its code runs. docs/pytorch-coverage.md: its tests exist, and its tables are those of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_architectures
import test_modules
import test_opinfo
import torch

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[2] / "docs"
PAGE = (DOCS / "pytorch.md").read_text(encoding="utf-8")
COVERAGE = (DOCS / "pytorch-coverage.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return COVERAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)
    assert len(blocks) >= 5
    names: dict[str, object] = {"__name__": "page"}
    try:
        for block in blocks:
            exec(compile(block, "docs/pytorch.md", "exec"), names)
    finally:
        names["torch"].ahbm.memory._record_memory_history(enabled=None)  # type: ignore[attr-defined]


def test_the_tests_that_the_page_names_exist() -> None:
    named = re.findall(r"`(test_\w+)`", section("Behaviours and their tests"))
    files = [path.read_text(encoding="utf-8") for path in FOLDER.glob("test_*.py")]
    found = {name for text in files for name in re.findall(r"^def (test_\w+)", text, flags=re.M)}
    assert len(named) >= 90 and set(named) <= found, set(named) - found


def test_the_page_has_a_row_for_each_architecture() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| [\d,]+ \| (\d) \|", section("Architectures of transformers"), flags=re.M)
    architectures = test_architectures.ARCHITECTURES
    assert [(name, kind) for name, kind, _ in rows] == [(name, one.model) for name, one in architectures.items()]
    assert {name for name, _, tied in rows if int(tied)} == test_architectures.TIED


@pytest.mark.skipif(not torch.__version__.startswith("2.15."), reason="the page has the figures of PyTorch 2.15")
def test_the_page_names_the_operators_that_differ() -> None:
    text = section("Operators that differ")
    operators = [name for row in re.findall(r"^\| (`.*?) \|", text, flags=re.M) for name in re.findall(r"`(.*?)`", row)]
    assert sorted(operators) == sorted([*test_opinfo.KNOWN, *test_opinfo.ROUNDED])
    equal = len(test_opinfo.op_db) - len(operators)
    assert f"{len(test_opinfo.op_db)} entries" in text and f"{equal} are equal to the bit" in text
    assert all(f"`{name}`" in text for name in test_modules.ROUNDED)
