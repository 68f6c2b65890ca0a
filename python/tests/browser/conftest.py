"""A real browser, the pages that the command draws, and the JSON that it prints beside them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from drawn_pages import PAGES, ROOT, SCREENSHOTS
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def built():
    """Builds the command and returns its path, of which cargo tells, since the target folder can be anywhere."""
    # Of the workspace, whose features the tests of Rust have: nothing is compiled twice.
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bin", "cubeyard"], cwd=ROOT, check=True)
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    told = subprocess.run(metadata, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return Path(json.loads(told.stdout)["target_directory"]) / "debug" / "cubeyard"


def words(page, options):
    """Returns the command of a page with more options: at its end, or where it says."""
    at = page.index("{options}") if "{options}" in page else len(page)
    return [*page[:at], *options, *page[at + 1 :]]


@pytest.fixture(scope="session")
def command():
    """Runs the command and returns what it printed. `CUBEYARD_COMMAND` names one that is built already."""
    binary = os.environ.get("CUBEYARD_COMMAND") or built()

    def run(*arguments):
        done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.binary = binary
    return run


@pytest.fixture(scope="session")
def drawn(command, tmp_path_factory):
    """Draws the page of a command once; returns its path and the JSON of the same run."""
    folder, known = tmp_path_factory.mktemp("pages"), {}

    def draw(name):
        if name not in known:
            path = folder / f"{name}.html"
            printed = command(*words(PAGES[name], ["--report", path, "--format", "json", "--quiet"]))
            known[name] = path, json.loads(printed)
        return known[name]

    return draw


@pytest.fixture(scope="session")
def browser():
    path = os.environ.get("CUBEYARD_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not path:
        pytest.fail("no Chromium: install it (apt-get install chromium), or leave this step out: scripts/test --all --no-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


class Opened:
    """A page in the browser, offline, with what it complained of and what it asked for."""

    def __init__(self, context, address):
        self.page = context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda it: it.type in ("error", "warning") and self.complaints.append(it.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)

    def check(self):
        """Fails if the page complained, or asked for anything but itself."""
        assert self.complaints == []
        foreign = [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))]
        assert foreign == []

    def keep(self, name):
        """Keeps a picture of the whole page for people."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@pytest.fixture
def opened(browser, drawn):
    """Opens the page of a command from its file, without a network."""
    contexts = []

    def open_page(name, *, path=None, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        return Opened(context, (path or drawn(name)[0]).as_uri())

    yield open_page
    for context in contexts:
        context.close()
