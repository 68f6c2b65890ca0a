"""What the tests of PyTorch's device share: the device, its memory as it was, and programs in processes of their own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Where other packages of the environment may not be loaded by `import torch`, this loads the device.
import cubeyard.torch  # noqa: F401
import torch

sys.path.insert(0, str(Path(__file__).parent))

# Tensors of the tests are small, so that more threads only wait for each other. It is set before autograd starts a thread
# for the device, which keeps the number that it finds: sums in another number of threads have another order.
torch.set_num_threads(1)

Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def device() -> Iterator[str]:
    """The name of the device, on whose current memory the test leaves nothing."""
    gc.collect()
    torch.ahbm.set_device(0)
    before = [torch.ahbm.memory_allocated(index) for index in range(torch.ahbm.device_count())]
    yield "ahbm"
    gc.collect()
    torch.ahbm.set_device(0)
    torch.ahbm.synchronize(0)
    torch.ahbm.synchronize(1)
    after = [torch.ahbm.memory_allocated(index) for index in range(torch.ahbm.device_count())]
    assert after == before, "the test has left tensors in device memory"


@pytest.fixture(scope="session")
def library() -> torch.library.Library:
    """Operators of the tests, in a namespace of their own. PyTorch 2.11 compiles nothing after a library has ended."""
    return torch.library.Library("cubeyard_tests", "FRAGMENT")


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs a program in a process of its own; its keywords are variables of the environment, `None` for none."""

    def run(text: str, *arguments: str, timeout: float = 120, status: int = 0, **variables: str | None) -> (
        subprocess.CompletedProcess[str]
    ):
        environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
        for name, value in variables.items():
            if value is None:
                environment.pop(name, None)
        program = "import torch, cubeyard.torch\n" + textwrap.dedent(text)
        file = tmp_path / "program.py"
        file.write_text(program)
        command = [sys.executable, "-W", "error::RuntimeWarning", str(file), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
