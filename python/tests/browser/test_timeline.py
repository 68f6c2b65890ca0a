"""The timeline of a run has every operation of every PE, zooms, and tells what is under the pointer."""

import time

import pytest
from drawn_pages import SCREENSHOTS

DATA = "document.querySelector('figure.operations').timeline.data"


@pytest.fixture
def timeline(opened):
    page = opened("run")
    page.page.wait_for_selector("figure.operations.live")
    page.page.wait_for_function("document.querySelector('figure.operations').dataset.to")
    return page


def seen(page):
    """The range of time that is shown, in ps."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    data = "document.querySelector('figure.operations').dataset"
    return float(page.evaluate(f"{data}.from")), float(page.evaluate(f"{data}.to"))


def colours(page):
    """Number of different colours on the canvas: more than text and lines if blocks are drawn."""
    return page.evaluate(
        """() => {
          const canvas = document.querySelector('.operations canvas');
          const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
          const counts = new Map();
          pixels.forEach(it => counts.set(it, (counts.get(it) || 0) + 1));
          return Array.from(counts.values()).filter(it => it > 300).length;
        }"""
    )


def test_has_the_operations_and_the_path_of_the_json(timeline, command):
    page = timeline.page
    lanes = page.evaluate(f"{DATA}.lanes")
    units = {lane["unit"] for lane in lanes}
    assert {"critical path", "GEMM", "DMA read"} <= units
    pes = {lane["pe"] for lane in lanes} - {""}
    assert page.locator(".tools select option").count() == len(pes) + 2
    ends = page.evaluate(f"Math.max(...{DATA}.end)")
    assert ends == pytest.approx(float(page.locator("figure.operations").get_attribute("data-end")), rel=1e-9)
    timeline.check()


def test_names_of_launches_and_operations_are_there(timeline, drawn):
    _, printed = drawn("run")
    names = timeline.page.evaluate(f"{DATA}.launches.map(it => it.name)")
    assert set(names) == {launch["kernel"] for launch in printed["launches"]}
    operations = timeline.page.evaluate(f"{DATA}.names")
    assert any("load f16" in name for name in operations)


def test_any_pe_can_be_chosen(timeline):
    page = timeline.page
    options = page.locator(".tools select option").all()
    last = options[-1].get_attribute("value")
    page.locator(".tools select").select_option(last)
    rows = page.evaluate("document.querySelector('figure.operations').timeline.rows.map(it => it.text).filter(Boolean)")
    assert rows == [last]
    seen(page)
    assert colours(page) > 3
    timeline.keep("run-one-pe")
    page.locator(".tools select").select_option("all")
    rows = page.evaluate("document.querySelector('figure.operations').timeline.rows.map(it => it.text).filter(Boolean)")
    assert len(rows) == len(options) - 2


def test_zooms_by_buttons_keys_and_wheel(timeline):
    page = timeline.page
    whole = seen(page)
    page.get_by_role("button", name="Zoom in").click()
    low, high = seen(page)
    assert high - low == pytest.approx((whole[1] - whole[0]) / 2)
    page.locator(".operations canvas").focus()
    page.keyboard.press("ArrowRight")
    assert seen(page)[0] > low
    page.keyboard.press("0")
    assert seen(page) == whole
    page.locator(".operations canvas").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_timeout(100)
    low, high = seen(page)
    assert high - low < whole[1] - whole[0]
    timeline.check()


def test_drags(timeline):
    page = timeline.page
    for _ in range(2):
        page.get_by_role("button", name="Zoom in").click()
    before = seen(page)
    box = page.locator(".operations canvas").bounding_box()
    page.mouse.move(box["x"] + 700, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 200, steps=4)
    page.mouse.up()
    after = seen(page)
    assert after[0] > before[0]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0])


def test_tells_what_is_under_the_pointer(timeline, drawn):
    page = timeline.page
    box = page.locator(".operations canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    text = page.locator("figure.operations .tools output").inner_text()
    assert " to " in text and text != ""
    _, printed = drawn("run")
    middle = page.evaluate(
        f"""() => {{ const data = {DATA}, lane = data.lanes.find(it => it.pe === '');
        const it = document.querySelector('figure.operations').timeline;
        const box = it.canvas.getBoundingClientRect();
        const at = cubeyard.operationAt(data, lane, it.range.at((box.width / 2 - it.left) / (it.width - it.left)), 1);
        return data.names[data.name[at]]; }}"""
    )
    assert text.startswith(middle + ":")
    timeline.keep("run-hover")


def test_launches_follow_each_other(opened):
    page = opened("layer").page
    page.wait_for_selector("figure.operations.live")
    launches = page.evaluate(f"{DATA}.launches")
    assert len({launch["name"] for launch in launches}) > 3
    assert page.locator(".tools select option").count() == 256 + 2
    launched = page.evaluate(f"new Set({DATA}.launch).size")
    assert launched == len(launches) + 1, "every launch has operations, and the critical path has no launch"


def test_a_million_operations_open_quickly_and_move_at_ease(browser, command, tmp_path):
    path = tmp_path / "million.html"
    sizes = ["m=2048", "k=2048", "n=4096", "cubes=16"]
    command("run", "gemm-multi", *(word for size in sizes for word in ("--set", size)), "--report", path, "--quiet")
    assert path.stat().st_size < 30e6
    page = browser.new_page()
    begin = time.monotonic()
    page.goto(path.as_uri())
    page.wait_for_function("(document.querySelector('figure.operations').dataset || {}).to", timeout=60_000)
    opened_in = time.monotonic() - begin
    count = page.evaluate(f"{DATA}.count")
    assert count > 1_000_000
    page.locator(".tools select").select_option("all")
    frame = page.evaluate(
        """() => {
          const it = document.querySelector('figure.operations').timeline, times = [];
          for (let step = 0; step < 30; step += 1) {
            const begin = performance.now(), share = Math.pow(0.8, step % 15);
            it.painter.draw({from: 0, to: it.range.end * share, rows: it.rows, path: it.path, left: 132, width: 1200,
              height: 560, scrolled: step * 200});
            times.push(performance.now() - begin);
          }
          return times.sort((a, b) => a - b)[15];
        }"""
    )
    page.screenshot(path=SCREENSHOTS / "run-million.png")
    page.close()
    size = path.stat().st_size / 1e6
    print(f"{count} operations: {size:.1f} MB, opened in {opened_in:.2f} s, a frame takes {frame:.1f} ms")
    # About 2 s and 16 ms where nothing else runs; tests may share the machine.
    assert opened_in < 10
    assert frame < 100
