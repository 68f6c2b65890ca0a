"""Compiled programs in simulated time: launches on streams, lines of the program, choices by time, and errors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compiled import DEVICE, error
from conftest import Script

import cubeyard.errors
import cubeyard.triton


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forgets the graphs of other tests, and seeds the random numbers."""
    torch._dynamo.reset()
    torch.manual_seed(0)


def spread(x: torch.Tensor) -> torch.Tensor:
    """A function of two lines that Inductor fuses."""
    y = torch.sin(x) * 2
    return y.sum(1)


def lines_of(function: object) -> list[str]:
    """Returns the last two lines of a function, as `file:line`."""
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return [f"{Path(__file__)}:{first + len(lines) - back}" for back in (2, 1)]


def test_launches_take_time_and_name_the_lines_of_the_program() -> None:
    compiled, x = torch.compile(spread), torch.randn(64, 32, device=DEVICE)
    compiled(x)
    torch.ahbm.synchronize()
    start, end = (torch.Event(DEVICE, enable_timing=True) for _ in range(2))
    with torch.ahbm.record_timeline() as timeline:
        start.record()
        compiled(x)
        end.record()
    end.synchronize()
    launches = [span for span in timeline.spans if span.kind == "launch"]
    assert launches and start.elapsed_time(end) * 1e6 >= sum(span.duration_ns for span in launches) > 0
    assert [*launches[0].lines] == lines_of(spread)
    assert timeline.rows()[0]["lines"] == ", ".join(lines_of(spread))
    with cubeyard.triton.record() as recording:
        compiled(x)
    assert all(line in recording.launches[0].summary for line in lines_of(spread))


def test_an_observer_changes_no_time() -> None:
    compiled, x = torch.compile(spread), torch.randn(64, 32, device=DEVICE)
    compiled(x)

    def passed() -> float:
        torch.ahbm.synchronize()
        before = torch.ahbm.clock()
        compiled(x)
        torch.ahbm.synchronize()
        return round(torch.ahbm.clock() - before, 3)

    plain = passed()
    with torch.ahbm.record_timeline():
        assert passed() == plain > 0


def test_templates_are_chosen_by_simulated_time_which_is_not_charged() -> None:
    a, b = torch.randn(48, 64), torch.randn(32, 64)
    options = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    compiled = torch.compile(lambda a, b: torch.relu(a @ b.mT), options=options)
    given = a.to(DEVICE), b.to(DEVICE)

    torch.ahbm.synchronize()
    # Without caches, so that there are trials. Not all versions have it among the options of a function.
    with torch.compiler.config.patch(force_disable_caches=True), torch.ahbm.record_timeline() as timeline:
        result = compiled(*given)
        torch.ahbm.synchronize()
    assert [span.kind for span in timeline.spans] == ["launch"] and "mm" in timeline.spans[0].name
    assert torch.ahbm.clock() == timeline.spans[0].end_ns, "the trials of the first call took time"
    assert error(result, torch.relu(a @ b.mT)) < 1e-5


def test_cpp_wrappers_are_refused() -> None:
    with pytest.raises(Exception, match="cpp_wrapper and AOTInductor generate C"):
        torch.compile(lambda x: x.exp() * 3, options={"cpp_wrapper": True})(torch.randn(3, device=DEVICE))


def test_import_of_torch_loads_no_compiler(script: Script) -> None:
    script(
        "import sys, torch; torch.ones(1, device='ahbm')\n"
        "assert not [name for name in sys.modules if name.startswith(('torch._inductor', 'torch._dynamo', 'cubeyard.torch.inductor.b'))]",
        anew=True,
    )


def test_blocks_of_products_fit_the_memory_for_tiles() -> None:
    from cubeyard.torch.inductor import templates

    room = templates._tile_bytes()
    assert len([block for block in templates.BLOCKS if templates.fits(*block, 4, room)]) >= 2
    assert not templates.fits(4096, 4096, 64, 4, room)


def test_another_backend_of_triton_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton
    from torch._dynamo.device_interface import get_interface_for_device

    get_interface_for_device(DEVICE).raise_if_triton_unavailable()
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    monkeypatch.setattr(type(triton.runtime.driver.active), "get_current_target", lambda driver: target)
    with pytest.raises(cubeyard.errors.TorchDeviceError, match="'cuda' is active: set .*TRITON_DEFAULT_BACKEND=ahbm"):
        get_interface_for_device(DEVICE).raise_if_triton_unavailable()


def test_cached_programs_name_no_old_lines(tmp_path: Path) -> None:
    program, x = "def moved_function(x):\n    return (x * 5).cosh()\n", torch.randn(16, device=DEVICE)
    file = tmp_path / "moved.py"
    for blank in (0, 3):
        torch._dynamo.reset()
        file.write_text("\n" * blank + program)
        scope: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
        exec(compile(file.read_text(), str(file), "exec"), scope)
        with torch.ahbm.record_timeline() as timeline:
            torch.compile(scope["moved_function"])(x)
        assert [span.lines for span in timeline.spans if span.kind == "launch"] == [(f"{file}:{blank + 2}",)]


def test_an_operator_without_time_is_told_in_autotuning() -> None:
    from cubeyard.torch.inductor.benchmarks import _telling

    times = iter([0.0, 0.5, 0.0])
    benchmark, there, here = _telling(lambda *_, out: next(times), DEVICE), torch.ones(1, device=DEVICE), torch.ones(1)
    with pytest.warns(UserWarning, match="took no simulated time"):
        assert benchmark(None, there, out=there) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert benchmark(None, there, out=there) == 0.5 and benchmark(None, here, out=here) == 0
