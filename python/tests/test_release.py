"""`scripts/release`: versions that disagree, crates that cannot be published, and libraries that do not fit their wheel are found."""

import importlib.machinery
import importlib.util
import io
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release():
    loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "scripts" / "release"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.fixture
def root(tmp_path):
    """A repository of version 0.1.0 with the files that state it."""
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_the_versions_of_this_repository_agree(release):
    assert release.versions(ROOT) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [
        ("CITATION.cff", "\nversion: ", "\nversion: 9", "CITATION.cff: version 9"),
        ("CHANGELOG.md", "## Unreleased (", "## Unreleased (9", "CHANGELOG.md, first section: version 9"),
        ("CHANGELOG.md", "## Unreleased (", "## Soon (", "CHANGELOG.md, first section: version None"),
        ("Cargo.toml", 'path = "crates/sim", version = "', 'path = "crates/sim", version = "9', "dependency cubeyard-sim: version 9"),
        ("Cargo.lock", 'name = "cubeyard-sim"\nversion = "', 'name = "cubeyard-sim"\nversion = "9', "package cubeyard-sim: version 9"),
        ("pyproject.toml", 'dynamic = ["version"]', 'version = "0.1.0"', "pyproject.toml: a version of its own"),
        ("CITATION.cff", "\nversion: ", "\ndate-released: 2030-01-02\nversion: ", "date-released 2030-01-02, expected None"),
    ],
)
def test_a_version_that_disagrees_is_named_with_its_file(release, root, file, old, new, fault):
    text = (root / file).read_text()
    assert text.count(old) == 1
    (root / file).write_text(text.replace(old, new))
    (found,) = release.versions(root)
    assert fault in found


def test_a_release_needs_a_date_in_changelog_and_citation(release, root):
    (fault,) = release.versions(root, final=True)
    assert "'0.1.0 (YYYY-MM-DD)' for a release" in fault
    changelog, citation = root / "CHANGELOG.md", root / "CITATION.cff"
    changelog.write_text(changelog.read_text().replace("## Unreleased (0.1.0)", "## 0.1.0 (2030-01-02)", 1))
    (fault,) = release.versions(root, final=True)
    assert "date-released None, expected 2030-01-02" in fault
    citation.write_text(citation.read_text() + "date-released: 2030-01-02\n")
    assert release.versions(root, final=True) == []


def package(*needs, publish=None, **changed):
    metadata = {"description": "d", "license": "l", "readme": "r", "keywords": ["k"], "categories": ["c"], "rust_version": "1"}
    return {**metadata, "publish": publish, "dependencies": [{"name": name} for name in (*needs, "serde")], **changed}


def test_crates_are_published_after_what_they_need(release):
    packages = {
        "cubeyard": package("cubeyard-b", "cubeyard-a"),
        "cubeyard-cli": package("cubeyard-b"),
        "cubeyard-b": package("cubeyard-a"),
        "cubeyard-a": package(),
        "cubeyard-python": package("cubeyard", publish=[]),
    }
    assert release.order(packages) == ["cubeyard-a", "cubeyard-b", "cubeyard", "cubeyard-cli"]
    assert release.crate_faults(packages) == []
    packages["cubeyard-a"] = package(publish=[])
    packages["cubeyard-python"] = package("cubeyard", description=None, keywords=["a-word-of-more-than-twenty-letters"])
    needed, unneeded, described, keywords = release.crate_faults(packages)
    assert needed == "cubeyard-a: is needed by cubeyard and cubeyard-cli: remove `publish = false`"
    assert unneeded.startswith("cubeyard-python: is not needed by") and "expected `publish = false`" in unneeded
    assert described == "cubeyard-python: no description in its Cargo.toml"
    assert keywords.startswith("cubeyard-python: keywords ['a-word-of")


def test_the_crates_of_this_repository_can_be_published(release):
    packages = release.metadata(ROOT)
    assert release.crate_faults(packages) == []
    assert release.order(packages)[-1] == "cubeyard" and len(packages) > 20


# As `readelf` prints them, cut to what is read.
HEADER = "  Class:   ELF64\n  Machine:                           {}\n"
NEEDS = "  0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 3\n  0x0020:   Name: {}  Flags: none  Version: 2\n"
SYMBOLS = "    12: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND {}\n"


@pytest.mark.parametrize(
    ("machine", "need", "symbol", "fault"),
    [
        ("Advanced Micro Devices X86-64", "GLIBC_2.28", "malloc@GLIBC_2.2.5 (3)", None),
        ("Advanced Micro Devices X86-64", "GLIBC_2.29", "malloc", "needs GLIBC_2.29, expected at most 2.28"),
        ("Advanced Micro Devices X86-64", "GLIBCXX_3.4.24", "malloc", None),
        ("Advanced Micro Devices X86-64", "GLIBCXX_3.4.25", "malloc", "needs GLIBCXX_3.4.25, expected at most 3.4.24"),
        ("AArch64", "GLIBC_2.17", "malloc", "for AArch64, expected x86_64"),
        ("Advanced Micro Devices X86-64", "GLIBC_2.17", "PyList_New", "calls functions of Python"),
    ],
)
def test_a_library_that_does_not_fit_its_wheel_is_named(release, monkeypatch, machine, need, symbol, fault):
    texts = {"--file-header": HEADER.format(machine), "--version-info": NEEDS.format(need), "--dyn-syms": SYMBOLS.format(symbol)}
    monkeypatch.setattr(release, "readelf", lambda _library, option: texts[option])
    found = release.library_faults("any", "torch/shims/one.so", "x86_64", (2, 28))
    assert len(found) == (fault is not None) and all(fault in one for one in found), found


def test_a_wheel_states_its_systems_and_has_the_native_module(release, tmp_path):
    (fault,) = release.wheel_faults(tmp_path / "cubeyard-0.1.0-cp311-abi3-linux_x86_64.whl")
    assert "expected a name that ends with manylinux_GLIBC_MACHINE.whl" in fault
    wheel = tmp_path / "cubeyard-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("cubeyard/__init__.py", "")
    (fault,) = release.wheel_faults(wheel)
    assert "no cubeyard/_native.*.so in it" in fault


def test_an_archive_without_a_file_that_a_build_reads_is_named(release, tmp_path):
    path = tmp_path / "cubeyard-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("Cargo.lock", "pyproject.toml", "README.md"):
            archive.addfile(tarfile.TarInfo(f"cubeyard-0.1.0/{name}"), io.BytesIO())
    missing = [fault.rsplit(": ", 1)[1] for fault in release.archive_faults(path) if fault.endswith(" is missing")]
    assert missing == ["LICENSE is missing", "python/cubeyard/py.typed is missing", "python/cubeyard/torch/csrc is missing"]
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("other/Cargo.lock"), io.BytesIO())
    (fault,) = release.archive_faults(path)
    assert "folders ['other'], expected one with the name of the archive" in fault
