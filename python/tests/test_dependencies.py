"""`scripts/dependencies`: advisories are found in a copy of their database, and a check that was left out is named."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "dependencies"


@pytest.fixture(scope="module")
def dependencies():
    loader = importlib.machinery.SourceFileLoader("dependencies", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dependencies", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


# As Cargo reads requirements: https://doc.rust-lang.org/cargo/reference/specifying-dependencies.html
@pytest.mark.parametrize(
    ("version", "requirement", "expected"),
    [
        ("1.2.3", ">=1.2.3", True),
        ("1.2.2", ">= 1.2.3", False),
        ("1.2.3", ">1.2.3", False),
        ("1.2.3", "<=1.2.3", True),
        ("1.2.3", "<1.2.3", False),
        ("1.10.0", ">=1.9.0", True),
        ("1.5.0", ">=1.2.0, <1.4.0", False),
        ("1.3.0", ">=1.2.0, <1.4.0", True),
        ("1.9.9", "^1.2.3", True),
        ("2.0.0", "^1.2.3", False),
        ("0.2.9", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("0.0.4", "^0.0.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("1.2.3", "=1.2.3", True),
        ("1.2.4", "=1.2.3", False),
        ("2.0.0-beta.1", ">=2.0.0", False),
        ("2.0.0", ">2.0.0-beta.1", True),
        ("0.9.40+upstream.0.9.44", ">=0.9.40", True),
    ],
)
def test_versions_are_compared_as_cargo_does(dependencies, version, requirement, expected):
    assert dependencies.satisfies(version, requirement) is expected


def advisory(folder, package, number, extra="", patched=">=99.0.0"):
    path = folder / "crates" / package / f"RUSTSEC-2020-{number}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f'[advisory]\nid = "{path.stem}"\npackage = "{package}"\ndate = "2020-01-01"\n{extra}'
    path.write_text(f'```toml\n{head}\n[versions]\npatched = ["{patched}"]\n```\n\n# A title\n')


def run(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_a_vulnerability_is_a_finding_and_others_are_remarks(tmp_path):
    advisory(tmp_path, "half", "0001")
    advisory(tmp_path, "libc", "0002", patched=">=0.0.1")
    advisory(tmp_path, "clap", "0003", 'withdrawn = "2020-02-02"\n')
    advisory(tmp_path, "anyhow", "0004", 'informational = "unmaintained"\n')
    advisory(tmp_path, "not-used-by-us", "0005")
    code, text = run("--advisories", tmp_path)
    assert code == 1 and "RUSTSEC-2020-0001, vulnerability" in text, text
    assert "advisories: anyhow" in text and "RUSTSEC-2020-0004, unmaintained" in text
    assert not any(number in text for number in ("0002", "0003", "0005")), text


def test_advisories_that_are_not_checked_are_named(tmp_path):
    code, text = run("--advisories", tmp_path)
    assert code == 1 and "expected a copy of RustSec's advisory database" in text
    home = tmp_path / "home"
    (home / "advisory-db").mkdir(parents=True)
    advisory(home / "advisory-db", "half", "0001")
    real = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for name in ("registry", "config.toml"):
        if (real / name).exists():
            (home / name).symlink_to(real / name)
    code, text = run(CARGO_HOME=str(home))
    assert code == 1 and "RUSTSEC-2020-0001" in text, text
    (home / "advisory-db" / "crates" / "half" / "RUSTSEC-2020-0001.md").unlink()
    (home / "advisory-db" / "crates" / "half").rmdir()
    (home / "advisory-db" / "crates").rmdir()
    code, text = run(CARGO_HOME=str(home))
    assert code == 0 and text.endswith("--advisories names one\n") and "advisories: NOT CHECKED" in text, text
