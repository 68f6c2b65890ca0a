"""Lines of the user's program are found wherever its Python environment lies."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import torch
from torch import nn

import cubeyard.torch

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to("ahbm")
x = torch.ones(2, 8, device="ahbm")
with cubeyard.torch.simulate() as report:
    model(x).sum()
print([row["line"] for row in report.profile.rows("line")])
"""


def reported(python: Path, program: Path) -> str:
    done = subprocess.run([python, program], capture_output=True, text=True, check=True)
    return done.stdout


def test_an_environment_behind_a_link_gives_the_same_lines(tmp_path):
    program = tmp_path / "user.py"
    program.write_text(PROGRAM)
    link = tmp_path / "environment"
    link.symlink_to(sys.prefix)
    plain = reported(Path(sys.prefix) / "bin" / "python", program)
    assert "user.py:9" in plain
    assert reported(link / "bin" / "python", program) == plain
