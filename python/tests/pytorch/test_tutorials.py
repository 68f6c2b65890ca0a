"""The tutorials with PyTorch: what their pages show is what their programs print, exercises included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["memory", "pytorch"])
def test_a_page_shows_what_its_program_prints(page: str) -> None:
    command = [sys.executable, ROOT / "scripts" / "pages", "--check", f"docs/tutorials/{page}.md"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
