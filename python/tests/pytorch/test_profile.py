"""Reports of calls: tables, explanation and page; the program runs as it does without."""

from __future__ import annotations

import gc
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"

import pytest
import torch
import triton
import triton.language as tl
from torch import nn

import cubeyard.torch
from cubeyard.errors import InputError


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


class Tower(nn.Module):
    """Layers of one width."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def losses(steps: int, profiled: bool) -> list[float]:
    """Returns the losses of a training loop; each step may be profiled."""
    torch.manual_seed(0)
    model = Tower(16, 2).to("ahbm")
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(8, 16).to("ahbm")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [(cubeyard.torch.profile(step).value if profiled else step()).item() for _ in range(steps)]


def test_a_profile_changes_no_result(device: str) -> None:
    assert losses(3, True) == losses(3, False)


def test_the_value_and_the_arguments_are_the_function_s(device: str) -> None:
    x = torch.ones(4, device=device)
    profile = cubeyard.torch.profile(lambda a, *, b: a + b, x, b=2)
    assert profile.value.tolist() == [3] * 4
    assert [row["operator"] for row in profile.rows()] == ["aten::add.Tensor"]
    assert profile.rows()[0]["bytes"] > 0


def test_compiled_models_are_not_compiled_again(device: str) -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    x = torch.ones(4, 8, device=device)
    with torch.no_grad():
        layers = nn.Linear(8, 8), nn.GELU()
        before, first = (torch.compile(nn.Sequential(*of).to(device), backend=counter) for of in (layers, layers[::-1]))
        before(x)
        assert counter.frame_count == 1
        reports = [cubeyard.torch.profile(before, x) for _ in range(2)]
        assert counter.frame_count == 1
        reports += [cubeyard.torch.profile(first, x), cubeyard.torch.profile(first, x)]
        assert counter.frame_count == 2, "a model that is compiled in a run has no graphs of the run's own calls"
    assert len({report.total_ps for report in reports}) == 1, "the operators have the same shapes in either order"
    assert all({"aten::addmm", "aten::gelu"} == {one.name for one in report.operations} for report in reports)
    del layers, before, first, reports
    torch._dynamo.reset()


def test_an_exception_of_the_function_ends_the_profile(device: str) -> None:
    with pytest.raises(ZeroDivisionError):
        cubeyard.torch.profile(lambda: 1 / 0)
    assert cubeyard.torch.profile(lambda: None).operations == ()


def test_a_profile_within_a_profile_is_refused(device: str) -> None:
    with pytest.raises(InputError, match="is called by a function that is being profiled"):
        cubeyard.torch.profile(lambda: cubeyard.torch.profile(lambda: None))
    assert cubeyard.torch.profile(lambda: None).total_ps == 0


def test_a_profile_within_a_run_is_a_part_of_it(device: str) -> None:
    with cubeyard.torch.simulate(data=False) as run:
        model = Tower(64, 3).to(device)
        x = torch.empty(32, 64, device=device)
        first, second = cubeyard.torch.profile(model, x), cubeyard.torch.profile(model, x)
    assert first.total_ps == second.total_ps > 0
    assert first.rows() == second.rows()
    assert run.profile.total_ps >= first.total_ps + second.total_ps
    assert {row["module"] for row in first.rows("module")} == {"Tower", "Tower.layers.0", "Tower.layers.1", "Tower.layers.2"}
    [layer] = [row for row in first.rows("layer") if row["module"] == "Tower.layers.*"]
    assert layer["calls"] == sum(row["calls"] for row in first.rows("module") if row["depth"] == 2)


def test_launches_and_sleeps_are_in_the_report(device: str) -> None:
    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            double[(triton.cdiv(len(x), 128),)](x, len(x), BLOCK=128)
            return x

    x = torch.ones(1000, device=device)
    torch.ahbm.synchronize()

    def step() -> None:
        Doubled()(x)
        torch.ahbm._sleep(50)

    profile = cubeyard.torch.profile(step)
    launch, sleep = profile.operations
    assert (launch.name, launch.kind, launch.site.module) == ("double", "launch", "Doubled")
    assert launch.site.line.startswith("test_profile.py:")
    assert (sleep.kind, sleep.ps) == ("sleep", 50_000)
    assert profile.total_ps == launch.ps + sleep.ps
    assert x[0].item() == 2
    with torch.ahbm.record_timeline() as timeline:
        double[(8,)](x, len(x), BLOCK=128)
    assert timeline.spans[0].end_ps - timeline.spans[0].begin_ps == launch.ps


def trained(width: int = 64, dtype: torch.dtype = torch.float32) -> Any:
    with cubeyard.torch.simulate(data=False):
        model = Tower(width, 4).to(device="ahbm", dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.empty(128, width, device="ahbm", dtype=dtype)

        def step() -> None:
            model(x).sum().backward()
            optimizer.step()

        return cubeyard.torch.profile(step)


def test_the_explanation_has_the_figures_of_the_report(device: str) -> None:
    profile = trained()
    text = profile.explain()
    top = profile.rows()[0]
    assert f"{len(profile.operations):,} operations" in text
    assert top["operator"] in text and f"{top['share']:.1%}" in text
    assert "memory: at most" in text and "parameter" in text and "gradient" in text
    assert f"{profile.estimated_share:.1%} of the time is estimated" in text or profile.estimated_share == 0
    assert str(profile) == text


def test_levers_have_the_figure_that_supports_them(device: str) -> None:
    for profile in (trained(), trained(512)):
        for lever in profile.levers():
            assert 0 <= lever["most_ns"] <= profile.total_ns
            assert re.search(r"\d", lever["reason"]), lever
    assert cubeyard.torch.profile(lambda: None).levers() == []


def test_plain_data_and_arrow_have_the_tables(device: str) -> None:
    profile = trained()
    data = profile.to_dict()
    assert data["operators"] == profile.rows() and data["total_ps"] == profile.total_ps
    assert data["memory"][0]["peak_bytes"] == profile.memory.peak_bytes
    assert profile.__arrow_c_stream__() is not None


def test_the_page_has_every_operator_and_module(device: str, tmp_path: Path) -> None:
    profile = trained()
    page = profile.save(tmp_path / "step.html").read_text()
    root = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    cells = {"".join(cell.itertext()) for cell in root.iter("td")}
    for row in profile.rows():
        assert row["operator"] in cells, row
    for row in profile.rows("layer"):
        assert row["module"] in cells, row
    for holder in profile.holders():
        assert holder["operator"] in cells and holder["kind"] in cells
    labels = [box.get("aria-label", "") for box in root.iter("{http://www.w3.org/2000/svg}g") if box.get("role") == "treeitem"]
    assert any(label.startswith("all operations › backward › Tower") for label in labels)
    assert "Tower.layers.0" in page or "layers.0" in page
    assert not re.search(r"(src|href)=\"http", page), "a page requests nothing"
    for figure in ("activity", "flame"):
        assert f'class="{figure}"' in page or f'class="picture {figure}"' in page


def test_the_page_of_nothing_is_a_page(device: str, tmp_path: Path) -> None:
    page = cubeyard.torch.profile(lambda: None).save(tmp_path / "step.html").read_text()
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def test_half_the_bytes_take_less_time(device: str) -> None:
    wide, narrow = trained(512), trained(512, torch.bfloat16)
    assert narrow.total_ps < wide.total_ps
    assert narrow.memory.peak_bytes < wide.memory.peak_bytes


def test_memory_after_a_profile_is_what_it_was(device: str) -> None:
    gc.collect()
    before = torch.ahbm.memory_allocated()
    profile = cubeyard.torch.profile(lambda: torch.ones(1000, device=device).sum().item())
    assert profile.value == 1000
    assert torch.ahbm.memory_allocated() == before
    assert profile.memory.peak_bytes >= before + 4096


TRAIN = """
import sys
import torch

model = torch.nn.Linear(32, 32).to("ahbm")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model(torch.ones(8, 32, device="ahbm")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
sys.exit(0)
"""


@pytest.mark.parametrize("data", [True, False])
def test_a_script_is_reported_by_its_steps(device: str, tmp_path: Path, data: bool) -> None:
    from cubeyard.torch.profiling.scripts import run_script

    (tmp_path / "train.py").write_text(TRAIN)
    argv = list(sys.argv)
    text = run_script(tmp_path / "train.py", ["3"], data=data, report=tmp_path / "step.html")
    assert re.findall(r"^step (\d):", text, re.MULTILINE) == ["1", "2", "3"]
    assert "step 3 explained:" in text and "train.py:8" in text
    assert (tmp_path / "step.html").read_text().startswith("<!DOCTYPE html>")
    assert sys.argv == argv
    with pytest.raises(InputError, match="expected a Python script, found no such file"):
        run_script(tmp_path / "none.py", [])
    gc.collect()


def test_a_script_tells_its_tokens(device: str, tmp_path: Path) -> None:
    from cubeyard.torch.profiling.scripts import run_script

    (tmp_path / "words.py").write_text("""
import torch

words, places, head = torch.nn.Embedding(64, 16).to("ahbm"), torch.nn.Embedding(8, 16).to("ahbm"), torch.nn.Linear(16, 64).to("ahbm")
optimizer = torch.optim.SGD([*words.parameters(), *places.parameters(), *head.parameters()], lr=0.1)
for passes in (1, 2):
    for _ in range(passes):
        rows = torch.zeros(4, 8, dtype=torch.int64, device="ahbm")
        head(words(rows) + places(torch.arange(8, device="ahbm"))).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    text = run_script(tmp_path / "words.py", [])
    assert re.findall(r"^step \d: .*, (\d+) tokens, ", text, re.MULTILINE) == ["32", "64"]
    gc.collect()


def test_a_script_on_the_cpu_is_an_error(device: str, tmp_path: Path) -> None:
    from cubeyard.torch.profiling.scripts import run_script

    (tmp_path / "host.py").write_text("import torch\ntorch.ones(3).sum()\n")
    with pytest.raises(InputError, match="host.py: the script ran to its end, and did nothing on device 'ahbm'"):
        run_script(tmp_path / "host.py", [])


def test_the_command_runs_a_script(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cubeyard.__main__ import main

    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.setattr(sys, "argv", ["cubeyard", "run", "--shapes", str(tmp_path / "train.py"), "2"])
    assert main() == 0
    assert re.findall(r"^step (\d):", capsys.readouterr().out, re.MULTILINE) == ["1", "2"]
    monkeypatch.setattr(sys, "argv", ["cubeyard", "run", "--pes", "4", str(tmp_path / "train.py")])
    with pytest.raises(SystemExit):
        main()
    assert "--pes" in capsys.readouterr().err
    gc.collect()


def test_the_command_tells_scripts_from_benches(tmp_path: Path) -> None:
    from cubeyard.study.scripts import uses_torch

    def told(text: str) -> bool:
        (tmp_path / "x.py").write_text(text)
        return uses_torch(tmp_path / "x.py")

    assert told("import torch.nn as nn\n") and told("from transformers import Trainer\n")
    assert told("def f():\n    from torch import nn\n")
    assert not told("import numpy\n") and not told("import torchvision_of_mine\n") and not told("import torch(")
    assert not told("import torch, cubeyard\n@cubeyard.bench\ndef f(torch): ...\n")
    for one, other in (("one", "other"), ("other", "one")):  # They import each other.
        (tmp_path / "pair").mkdir(exist_ok=True)
        (tmp_path / "pair" / f"{one}.py").write_text(f"from .{other} import x\nimport triton\n@triton.jit\ndef {one}_kernel(p): ...\n")
    assert told("import torch\nfrom pair.one import x\n")
    assert not told("import torch\nfrom pair.one import one_kernel\n")
    assert not told("import torch, triton\n@triton.jit\ndef f(x): ...\n")


def test_the_optimizer_s_share_suggests_a_larger_batch(device: str) -> None:
    """A table of words has many parameters and little work, so the optimizer takes most of a step with few words.

    A product of one row takes about as long as one of many, which leaves the optimizer of a plain tower too small a share.
    """

    def of(words: int) -> Any:
        with cubeyard.torch.simulate(data=False):
            model = nn.Sequential(nn.Embedding(1 << 16, 512), Tower(512, 2)).to(device)
            optimizer = torch.optim.Adam(model.parameters())

            def step() -> None:
                model(torch.empty(words, dtype=torch.long, device=device)).sum().backward()
                optimizer.step()

            step()
            return cubeyard.torch.profile(step)

    small, large = of(1), of(1 << 16)
    assert "larger batch" in small.explain() and "larger batch" not in large.explain()
    assert small.total_ps < large.total_ps < 65536 * small.total_ps
