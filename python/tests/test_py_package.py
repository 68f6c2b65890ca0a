"""The installed package: its command, its size, its import, its licences, and its tag."""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

import cubeyard
import cubeyard.licences

WHEELS = pathlib.Path(__file__).parents[2] / "target" / "wheels"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_the_command_is_the_same_code() -> None:
    listed = python("-m", "cubeyard", "list")
    assert listed.returncode == 0 and "gemm" in listed.stdout
    wrong = python("-m", "cubeyard", "run", "gem")
    assert wrong.returncode == 2 and "the nearest is `gemm`" in wrong.stderr
    version = python("-m", "cubeyard", "--version").stdout.split()
    assert version == ["cubeyard", cubeyard.__version__] == ["cubeyard", importlib.metadata.version("cubeyard")]


def test_an_import_loads_neither_numpy_nor_anything_optional() -> None:
    script = "import sys, cubeyard; import json; print(json.dumps([name for name in sys.modules if '.' not in name]))"
    loaded = set(json.loads(python("-c", script).stdout))
    assert "cubeyard" in loaded
    assert not loaded & {"numpy", "torch", "pandas", "pyarrow", "matplotlib", "distributed", "ray", "tqdm", "ml_dtypes"}


def test_the_only_dependency_is_numpy() -> None:
    required = importlib.metadata.requires("cubeyard") or []
    always = [re.split(r"[<>=~! ;]", one)[0] for one in required if "extra ==" not in one]
    assert always == ["numpy"]
    extras = importlib.metadata.metadata("cubeyard").get_all("Provides-Extra")
    assert set(extras or []) >= {"torch", "triton", "dask", "ray", "plot", "parquet"}


def test_licences_of_what_is_linked_in() -> None:
    text = cubeyard.licences.text()
    names = set(re.findall(r"^([a-z0-9_-]+) \d", text, flags=re.MULTILINE))
    assert {"pyo3", "clap", "half", "ndarray", "serde_json"} <= names
    assert "Permission is hereby granted" in text and "Apache License" in text
    assert not {name for name in names if name.startswith("cubeyard")}


@pytest.mark.skipif(not list(WHEELS.glob("*.whl")), reason="scripts/test builds the wheel")
def test_the_wheel_is_small_and_tagged() -> None:
    (wheel,) = WHEELS.glob("*.whl")
    tag = wheel.stem.split("-", 2)[2]
    assert re.fullmatch(r"cp311-abi3-(manylinux_2_\d+_x86_64|linux_x86_64|macosx_.*|win_.*)", tag), tag
    assert wheel.stat().st_size < 15_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert "cubeyard/py.typed" in names and "cubeyard/_native.pyi" in names
    assert not [name for name in names if name.startswith(("tests/", "cubeyard/tests"))]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_results_of_the_command_are_json() -> None:
    told = python("-m", "cubeyard", "run", "vector-add", "--set", "elements=4096", "--format", "json")
    assert json.loads(told.stdout)["bench"] == "vector-add"
