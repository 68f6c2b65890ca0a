"""Shims in the package: which one is taken, and what is told where none can be. Nothing is compiled here."""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _build, _loader, _shims

LABEL = _shims.Label("2.15", "x86_64", True, "0123456789abcdef")


@pytest.fixture
def shims(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(_shims, "SHIPPED", tmp_path / "shims")
    (tmp_path / "shims").mkdir()
    return tmp_path / "shims"


def put(folder: pathlib.Path, label: _shims.Label, under: _shims.Label | None = None) -> pathlib.Path:
    """Puts a sealed file into a folder, under the name of its label or of another one."""
    path = folder / (under or label).name
    path.write_bytes(b"a library")
    _shims.seal(path, label)
    return path


def target(tmp_path: pathlib.Path, version: str = "2.15.0+cu130") -> _build.Target:
    sources = tmp_path / "csrc"
    sources.mkdir(exist_ok=True)
    (sources / "one.cpp").write_text("int one() { return 1; }")
    return _build.Target(version, tmp_path / "torch", True, "1.2.3", sources, {"answer.h": "#define ANSWER 42\n"})


def test_a_name_is_read_as_the_label_that_wrote_it() -> None:
    for label in (LABEL, _shims.Label("2.9", "aarch64", False, "ff")):
        assert _shims.Label.parse(label.name) == label
    for name in ("torch-2.15.so", "libother.so", LABEL.name + ".part", "README"):
        assert _shims.Label.parse(name) is None


def test_the_fingerprint_is_that_of_sources_headers_and_flags_not_of_pytorch(tmp_path: pathlib.Path) -> None:
    first = target(tmp_path)
    assert replace(first, torch_version="2.15.3").label() == first.label()
    assert replace(first, torch_version="2.14.0").label() == replace(first.label(), minor="2.14")
    others = [replace(first, headers={"answer.h": ""}), replace(first, cxx11_abi=False)]
    assert len({first.fingerprint(), *(other.fingerprint() for other in others)}) == 3


@pytest.mark.parametrize("version", ["2.15.0", "2.15.7", "2.15.0+cu130", "2.15.1+cpu"])
def test_a_shim_serves_all_releases_of_its_minor_version(shims: pathlib.Path, version: str) -> None:
    path = put(shims, LABEL)
    assert _shims.included(LABEL, version) == path


@pytest.mark.parametrize(
    ("version", "label", "reason"),
    [
        ("2.12.0", replace(LABEL, minor="2.12"), "has the compiled device for torch 2.9, 2.15, not for 2.12.0"),
        ("2.15.0a0+git1234", LABEL, "for torch 2.15, not for its development version 2.15.0a0+git1234"),
        ("2.15.0rc1", LABEL, "for torch 2.15, not for its development version 2.15.0rc1"),
        ("2.15.0", replace(LABEL, machine="aarch64"), "for torch 2.15 on x86_64, not on aarch64"),
        ("2.15.0", replace(LABEL, cxx11_abi=False), "for torch 2.15 with _GLIBCXX_USE_CXX11_ABI=1, not 0"),
        ("2.15.0", replace(LABEL, fingerprint="ff"), "for torch 2.15, but of other sources than those of this package"),
    ],
)
def test_a_shim_for_something_else_is_left_with_the_reason(
    shims: pathlib.Path, version: str, label: _shims.Label, reason: str
) -> None:
    for there in (LABEL, replace(LABEL, minor="2.9")):
        put(shims, there)
    (shims / "README").write_text("not a shim")
    assert _shims.included(label, version) is None
    assert _shims.refusal(label, version).endswith(reason)


def test_a_package_without_shims_gives_no_reason(shims: pathlib.Path) -> None:
    assert _shims.included(LABEL, "2.15.0") is None and _shims.refusal(LABEL, "2.15.0") == ""
    shims.rmdir()
    assert _shims.included(LABEL, "2.15.0") is None and _shims.refusal(LABEL, "2.15.0") == ""


@pytest.mark.parametrize("damage", ["cut off", "one byte", "other name", "without a seal", "empty"])
def test_a_damaged_shim_of_the_package_is_refused(shims: pathlib.Path, damage: str) -> None:
    path = put(shims, LABEL)
    good = path.read_bytes()
    bad = {
        "cut off": good[:-1],
        "one byte": b"A" + good[1:],
        "other name": good.replace(b"torch-2.15", b"torch-2.14"),
        "without a seal": b"a library",
        "empty": b"",
    }[damage]
    assert bad != good
    path.write_bytes(bad)
    with pytest.raises(TorchDeviceError, match=r"torch-.*\.so of this package is damaged. Install the package again"):
        _shims.included(LABEL, "2.15.0")


def test_a_shim_under_the_name_of_another_is_refused(shims: pathlib.Path) -> None:
    other = replace(LABEL, minor="2.14")
    put(shims, other, under=LABEL)
    with pytest.raises(TorchDeviceError, match=rf"of this package is {other.name} under another name. Install"):
        _shims.included(LABEL, "2.15.0")


def test_the_package_comes_before_the_cache_and_the_origin_is_told(
    shims: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compilations: list[str] = []

    def compile(wanted: _build.Target, shim: pathlib.Path, again: bool) -> None:
        compilations.append(wanted.torch_version)
        shim.write_bytes(b"compiled")
        _shims.seal(shim, wanted.label())

    monkeypatch.setattr(_build, "_compile", compile)
    wanted = target(tmp_path)
    assert _build.origin(wanted) == "to be compiled; this package includes no compiled device"
    put(shims, replace(wanted.label(), minor="2.11"))
    reason = "this package has the compiled device for torch 2.11, not for 2.15.0+cu130"
    assert _build.origin(wanted) == f"to be compiled; {reason}"
    assert _build.find(wanted) == wanted.cached() and compilations == ["2.15.0+cu130"]
    assert capfd.readouterr().err == f"cubeyard: {reason}\n"
    assert _build.origin(wanted) == f"compiled in {wanted.cached().parent}; {reason}"
    assert _build.find(wanted) == wanted.cached() and len(compilations) == 1 and capfd.readouterr().err == ""
    included = put(shims, wanted.label())
    assert _build.find(wanted) == included and len(compilations) == 1
    assert _build.origin(wanted) == f"included in the package as {included.name}"


def test_a_shim_of_the_package_that_cannot_be_loaded_here_is_compiled(
    shims: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = target(tmp_path)
    included, told = put(shims, wanted.label()), []

    def open(_torch: object, found: pathlib.Path) -> None:
        if found == included:
            raise TorchDeviceError("the compiled device cannot be loaded") from OSError("version `GLIBCXX_9' not found")

    def compiled(wanted: _build.Target, *, again: bool, reason: str) -> pathlib.Path:
        told.append(reason)
        return wanted.cached()

    monkeypatch.setattr(_loader, "_open", open)
    monkeypatch.setattr(_build, "compiled", compiled)
    assert _loader._opened(None, wanted, False) == wanted.cached()
    assert told == ["the compiled device of this package cannot be loaded on this computer: version `GLIBCXX_9' not found"]
    included.unlink()
    monkeypatch.setattr(_loader, "_open", lambda _torch, found: (_ for _ in ()).throw(TorchDeviceError(f"no {found}")))
    with pytest.raises(TorchDeviceError, match="^no "):
        _loader._opened(None, wanted, False)
