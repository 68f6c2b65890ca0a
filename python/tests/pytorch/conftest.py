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
from cubeyard import _native

sys.path.insert(0, str(Path(__file__).parent))
from template import Template  # noqa: E402

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


@pytest.fixture
def without_time() -> Iterator[None]:
    """Lets operators take no simulated time. Databases of operators have thousands of shapes, each of which would be simulated."""
    was = _native.torch_is_timed()
    _native.torch_set_timed(False)
    yield
    _native.torch_set_timed(was)


@pytest.fixture(scope="session")
def library() -> torch.library.Library:
    """Operators of the tests, in a namespace of their own. PyTorch 2.11 compiles nothing after a library has ended."""
    return torch.library.Library("cubeyard_tests", "FRAGMENT")


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    """The process that programs are forked from; it is started by the first test that needs one."""
    made = Template()
    yield made
    made.close()


@pytest.fixture
def script(template: Template, tmp_path: Path) -> Script:
    """Runs a program in a process of its own; its keywords are variables of the environment, `None` for none.

    The process is forked from the template, or started anew where that is what the test is about.
    """

    def run(
        text: str, *arguments: str, timeout: float = 120, status: int = 0, anew: bool = False, **variables: str | None
    ) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, **variables}
        environment = {name: value for name, value in given.items() if value is not None}
        program = "import torch, cubeyard.torch\n" + textwrap.dedent(text)
        file = tmp_path / "program.py"
        file.write_text(program)
        if anew:
            command = [sys.executable, "-W", "error::RuntimeWarning", str(file), *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        else:
            done = template.run(tmp_path, program, *arguments, file=file, environment=environment, timeout=timeout)
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
