"""The tutorials: each has one program that runs, a picture, an exercise with its answer, and figures that are printed.

`test_py_examples.py` runs the programs, `test_pages.py` compares the outputs. Programs with PyTorch: `pytorch/test_tutorials.py`.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
LINK = re.compile(r"\]\((?!http)([^)#]+)(?:#[^)]*)?\)")


def links_of(path: pathlib.Path) -> list[str]:
    """Returns the files that a page links to; code has none."""
    return LINK.findall(re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S))


def words(command: list[str]) -> str:
    """Runs a program of an example as a reader does, and returns its output."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_five_tutorials() -> None:
    assert [page.stem for page in PAGES] == ["allocator", "kernel", "machine", "memory", "pytorch"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_has_a_program_a_picture_and_an_exercise_with_its_answer(page: pathlib.Path) -> None:
    text, links = page.read_text(encoding="utf-8"), links_of(page)
    assert [link for link in links if "/examples/" in link], "no program"
    assert re.search(r"^!\[.{20,}\]\(\.\./img/", text, flags=re.M), "no picture with a text"
    exercise = text.split("\n## Exercise\n", 1)[1]
    assert "<summary>Answer</summary>" in exercise and "<!-- output: " in exercise, "no answer that is run"
    # Each link of the page leads to a file.
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("index", ["README.md", "docs/README.md", "docs/tutorials/README.md"])
def test_links_of_an_index_lead_to_files_and_to_each_tutorial(index: str) -> None:
    path = ROOT / index
    links = links_of(path)
    assert [link for link in links if not (path.parent / link).exists()] == []
    if index != "README.md":
        reached = {(path.parent / link).resolve() for link in links}
        assert [page.stem for page in PAGES if page not in reached] == []


def test_the_index_names_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in ("README.md", "operators-coverage.md")]
    assert len(pages) > 30
    assert [name for name in pages if f"({name})" not in text] == []


def test_the_answer_about_the_kernel_saves_with_both_levers_alone_neither() -> None:
    told = words(["python/examples/tutorial_kernel.py", "--exercise"])
    saved = [float(share) for share in re.findall(r"saves ([\d.]+)%", told)]
    assert len(saved) == 3 and saved[0] < 10 and saved[1] < 10 and saved[2] > 40, told


def test_the_first_screen_shows_the_levers_of_the_tutorial() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = (FOLDER / "machine.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| [\w ]+ \| ([\d.]+ µs) \| ([\d.]+ %) \|$", readme, flags=re.M)
    for lever, figures in zip(("message.latency", "hbm.bandwidth", "pe.gemm"), shown, strict=True):
        assert re.search(rf"^  {re.escape(lever)} +{figures[0]} +{figures[1]} ", block, flags=re.M), (lever, figures)
    assert "model takes 150.3 µs" in block and "takes 150.3 µs for a token" in readme


def test_the_first_screen_has_no_word_of_the_glossary() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## For whom")[0]
    # Names in the links and in code are not read as words.
    text = re.sub(r"\]\([^)]*\)|```.*?```|`[^`]*`", " ", text, flags=re.S)
    assert "![" in text
    abbreviations = ("PE", "HBM", "TCM", "SIP", "UCIe", "DMA", "GEMM", "NoC", "chiplet", "cube", "collective", "topology", "lever")
    assert [word for word in abbreviations if re.search(rf"\b{word}s?\b", text)] == []
