"""docs/triton.md shows the operations of the code, and docs/triton-coverage.md the times of the machine."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

from pathlib import Path

import pytest
import triton
import triton_times

from cubeyard.triton import __main__ as operations
from cubeyard.triton._frame import LOWERINGS
from cubeyard.triton.compiler import TESTED

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_the_table_of_functions_is_that_of_the_code():
    assert operations.functions() in (DOCS / "triton.md").read_text(), "write the output of python -m cubeyard.triton into docs/triton.md"


def test_the_table_of_operations_is_that_of_the_code():
    assert operations.table() in (DOCS / "triton.md").read_text(), "write the output of python -m cubeyard.triton into docs/triton.md"


def test_no_operation_is_both_supported_and_not():
    operations.table()
    assert len(LOWERINGS) > 80 and not set(operations.MISSING) & set(LOWERINGS)


@pytest.mark.parametrize("case", triton_times.CASES, ids=lambda case: case.__name__)
def test_the_table_of_times_is_that_of_the_machine(case):
    row = case()
    # Versions of Triton differ in their IR, by little; the page has the newest.
    if triton.__version__.startswith(TESTED[-1]):
        page = (DOCS / "triton-coverage.md").read_text()
        assert row.text() in page, "write the output of python python/tests/triton_times.py into docs/triton-coverage.md"
    assert all(launch.ok for launch in row.launches) and max(row.errors) < 1e-3
    if case in triton_times.EQUAL:
        assert row.ns <= 1.1 * row.own.kernel_ns
