"""README.md and docs/ show what the commands print: `scripts/pages --check`."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "scripts/pages"


def pages(*arguments):
    command = [sys.executable, str(PAGES), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


def test_pages_show_what_is_printed():
    done = pages("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = int(done.stdout.split()[0])
    assert outputs >= 30, done.stdout


@pytest.fixture
def page():
    """A page of the repository that is gone after the test."""
    path = ROOT / "docs" / "page-of-a-test.md"
    yield path
    path.unlink(missing_ok=True)


def test_an_output_that_changed_is_refused_and_then_written(page):
    page.write_text("<!-- output: cubeyard list -->\n```text\nsomething else\n```\n")
    done = pages("--check", page)
    assert done.returncode == 1 and "-something else" in done.stdout and "run scripts/pages" in done.stderr
    assert pages(page).returncode == 0
    assert "vector-add" in page.read_text()
    assert pages("--check", page).returncode == 0


def test_host_times_alone_are_no_difference(page):
    text = "<!-- output: cubeyard probe -q\n     keep: ^  h2d-near\n     times: [\\d.]+ -->\n```text\n{}\n```\n"
    page.write_text(text.format("nothing"))
    assert pages(page).returncode == 0
    old = page.read_text()
    page.write_text(old.replace("289.54", "123.45"))
    assert pages("--check", page).returncode == 0
    page.write_text(old.replace("h2d-near", "h2d-far"))
    assert pages("--check", page).returncode == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```text\n$ cubeyard list\n```\n", "a block of text without a mark"),
        ("The kernel at softmax.rs:17 says so.\n", "`softmax.rs:17` is named by hand"),
        ("<!-- output: rm -rf x -->\n```text\n```\n", "expected `cubeyard ...`"),
        ("<!-- output: cargo run -p cubeyard-sim --example flex -->\n```text\n```\n", "cubeyard-sim has no example flex"),
        ("<!-- output: cubeyard list\n     kepe: x -->\n```text\n```\n", "expected one of exit, from, keep"),
        ("<!-- output: cubeyard nothing -->\n```text\n```\n", "exits with 2, expected 0"),
        ("<!-- output: cubeyard list\n     keep: zzz -->\n```text\n```\n", "prints nothing of what is to be shown"),
        ("<!-- table: nothing -->\n| a |\n|---|\n", "table `nothing`: expected one of benches"),
    ],
)
def test_a_page_that_cannot_be_made_says_why(page, text, words):
    page.write_text(text)
    done = pages("--check", page)
    assert done.returncode == 1 and words in done.stderr, done.stdout + done.stderr
