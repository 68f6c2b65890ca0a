"""docs/triton.md shows the operations of the code."""

import os

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

from pathlib import Path

from cubeyard.triton import _table
from cubeyard.triton._frame import LOWERINGS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "triton.md"


def test_the_table_of_operations_is_that_of_the_code():
    assert _table.table() in PAGE.read_text(), "write the output of python -m cubeyard.triton into docs/triton.md"


def test_no_operation_is_both_supported_and_not():
    _table.table()
    assert len(LOWERINGS) > 80 and not set(_table.MISSING) & set(LOWERINGS)
