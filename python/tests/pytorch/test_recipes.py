"""Recipes for training frameworks: the scripts of docs/pytorch-recipes.md run on the device, with the losses of the CPU."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cubeyard.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets accelerate choose a device anew."""
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "")
    monkeypatch.delenv("ACCELERATE_TORCH_DEVICE")
    yield
    forget()


def forget() -> None:
    os.environ.pop("ACCELERATE_TORCH_DEVICE", None)
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state(reset_partial_state=True)


def trained(recipe: str, device: str) -> list[float]:
    """Runs a recipe in this process."""
    try:
        losses: list[float] = runpy.run_path(str(EXAMPLES / f"recipe_{recipe}.py"))["train"](device)
    finally:
        forget()
    return losses


@pytest.mark.parametrize(("recipe", "package"), [("accelerate", "accelerate"), ("trainer", "accelerate"), ("lightning", "pytorch_lightning")])
def test_a_recipe_has_the_losses_of_the_cpu(recipe: str, package: str, device: str) -> None:
    pytest.importorskip(package)
    with torch.ahbm.record_operators() as times:
        losses = trained(recipe, device)
    names = {row.op for row in times.rows}
    assert {"aten::addmm", "copy from host"} <= names and any("adam" in name or "foreach" in name for name in names)
    assert losses == trained(recipe, "cpu")
    assert len(set(losses)) == len(losses) > 1


def test_accelerate_takes_the_cpu_without_the_call(device: str) -> None:
    accelerate = pytest.importorskip("accelerate")
    from cubeyard.torch.hugging_face import use_device

    assert accelerate.Accelerator().device.type == "cpu", "the call is needed no longer"
    with pytest.raises(InputError, match="already chosen device 'cpu'"):
        use_device()


def test_ranks_of_accelerate_are_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cubeyard.torch.hugging_face import use_device

    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="WORLD_SIZE is 2"):
        use_device()


def test_lightning_without_the_strategy_is_refused(device: str) -> None:
    pl = pytest.importorskip("pytorch_lightning")
    given: dict[str, Any] = {"accelerator": "ahbm", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    recipe = runpy.run_path(str(EXAMPLES / "recipe_lightning.py"))
    with pytest.raises(InputError, match="strategy='ahbm'"):
        pl.Trainer(**given).fit(recipe["Regression"](), [[torch.ones(1, 16), torch.ones(1, 4)]])
    with pytest.raises(InputError, match="devices is 2"):
        pl.Trainer(devices=2, **given)


def test_fsdp2_has_the_losses_of_gloo() -> None:
    """One rank, since tests of torch.distributed have several, and processes of `torchrun` take long to start."""
    command = [sys.executable, str(EXAMPLES / "recipe_fsdp2.py")]
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    runs = [
        subprocess.Popen([*command, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for given in (("ahbm", "ahbm"), ("cpu", "gloo"))
    ]
    told = [run.communicate(timeout=300) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    assert told[0][0] == told[1][0] and len(set(told[0][0].split())) == 3
