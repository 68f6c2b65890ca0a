"""The installed package: its command, its size, its import, its licences, and its tag."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import webbrowser
import zipfile

import pytest

import cubeyard
import cubeyard.licences
from cubeyard import doctor

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


def test_the_citation_has_the_version_and_the_licence() -> None:
    lines = (pathlib.Path(__file__).parents[2] / "CITATION.cff").read_text().splitlines()
    stated = dict(line.split(": ", 1) for line in lines if re.match(r"\w+: \S", line))
    assert stated["version"] == cubeyard.__version__
    assert stated["license"] == importlib.metadata.metadata("cubeyard")["License-Expression"]


def test_the_doctor_says_what_works() -> None:
    done = python("-m", "cubeyard.doctor", "--json")
    found = {each["part"]: each for each in json.loads(done.stdout)}
    assert found["simulator"]["state"] == "works" and "ns of simulated time" in found["simulator"]["detail"]
    assert f"cubeyard {cubeyard.__version__}" in found["package"]["detail"]
    assert done.returncode == any(each["state"] == "fails" for each in found.values())


def test_the_doctor_names_a_part_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_SIMULATE", "import os; os.abort()")
    assert doctor.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == "fails simulator its process ended with status -6".split() for line in lines)


def test_the_doctor_names_limits_of_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(doctor, "MEMORY_MAX", tmp_path / "memory.max")
    assert "container" not in doctor._limits().detail
    for text, expected in (("max\n", False), (f"{3 << 30}\n", True)):
        doctor.MEMORY_MAX.write_text(text)
        assert ("memory of the container limited to 3.0 GiB" in doctor._limits().detail) == expected


def test_the_doctor_tells_a_browser_without_display_from_none(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    def no_browser() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", no_browser)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor._browser().detail.startswith("none is found here; ")
    (tmp_path / "firefox").write_text("#!/bin/sh\n")
    (tmp_path / "firefox").chmod(0o755)
    assert doctor._browser().detail.startswith("firefox is found, but no display; ")


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


def test_pytorch_finds_its_device_by_the_entry_point() -> None:
    (found,) = importlib.metadata.entry_points(group="torch.backends", name="cubeyard")
    assert found.value == "cubeyard.torch:_autoload"


def test_the_device_of_pytorch_says_that_it_needs_pytorch() -> None:
    done = python("-c", "import sys; sys.modules['torch'] = None; import cubeyard.torch")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: cubeyard.torch needs PyTorch 2.11 to 2.15") and "pip install" in last


def test_names_are_imported_at_their_first_use() -> None:
    script = """
import sys, cubeyard
print([name for name in sys.modules if name.startswith("cubeyard.")])
values = [getattr(cubeyard, name) for name in cubeyard.__all__]
assert set(cubeyard.__all__) <= set(dir(cubeyard)) and cubeyard.tensors.context.Context is cubeyard.Context
try:
    cubeyard.no_such_name
except AttributeError as error:
    print(error)
"""
    done = python("-c", script)
    assert done.stdout.splitlines() == ["[]", "module 'cubeyard' has no attribute 'no_such_name'"], done.stderr


def test_licences_of_what_is_linked_in() -> None:
    text = cubeyard.licences.text()
    names = set(re.findall(r"^([a-z0-9_-]+) \d", text, flags=re.MULTILINE))
    assert {"pyo3", "clap", "half", "ndarray", "serde_json"} <= names
    assert "Permission is hereby granted" in text and "Apache License" in text
    assert re.search(r"^uPlot 1\.\d+\.\d+: MIT$", text, flags=re.MULTILINE), "pages hold uPlot, which is no crate"
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert not {name for name in names if name.startswith("cubeyard")}


@pytest.mark.skipif(not list(WHEELS.glob("*.whl")), reason="scripts/test --all builds the wheel")
def test_the_wheel_is_small_and_tagged() -> None:
    (wheel,) = WHEELS.glob("*.whl")
    tag = wheel.stem.split("-", 2)[2]
    assert re.fullmatch(r"cp311-abi3-(manylinux_2_\d+_x86_64|linux_x86_64|macosx_.*|win_.*)", tag), tag
    assert wheel.stat().st_size < 15_000_000
    names = zipfile.ZipFile(wheel).namelist()
    assert "cubeyard/py.typed" in names and "cubeyard/_native.pyi" in names
    assert not [name for name in names if name.startswith(("tests/", "cubeyard/tests"))]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


@pytest.mark.skipif(not list(WHEELS.glob("*.whl")), reason="scripts/test --all builds the wheel")
def test_the_wheel_names_no_path_of_the_machine_that_built_it() -> None:
    """Panics named the files of crates in the folder of whoever had built the wheel."""
    (wheel,) = WHEELS.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (native,) = [name for name in archive.namelist() if name.startswith("cubeyard/_native") and name.endswith(".so")]
        contents = archive.read(native)
    assert b"crates/" in contents, "files of ours are named, by which a panic is found"
    home = os.environ.get("CARGO_HOME", str(pathlib.Path.home() / ".cargo"))
    for path in (str(WHEELS.parents[1]), home, "/.cargo/", "/.rustup/", str(pathlib.Path.home()) + "/"):
        assert path.encode() not in contents, path


def test_results_of_the_command_are_json() -> None:
    told = python("-m", "cubeyard", "run", "vector-add", "--set", "elements=4096", "--format", "json")
    assert json.loads(told.stdout)["bench"] == "vector-add"
