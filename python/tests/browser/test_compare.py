"""The page of a comparison: verdict, both timelines on one axis, and percentages that add up."""

import pytest

SIZES = [pytest.param({"width": 1280}, id="desktop"), pytest.param({"width": 390, "height": 800}, id="phone")]


def activities(page):
    page.wait_for_function("[...document.querySelectorAll('figure.activity')].every(it => it.activity)")
    return page.evaluate(
        """[...document.querySelectorAll('figure.activity')].map(figure => {
            const data = figure.activity.data;
            const ends = lane => [...Array(lane.to - lane.from).keys()]
                .map(at => data.start[lane.from + at] + data.length[lane.from + at]);
            return {title: figure.getAttribute('aria-label'), end: Number(figure.dataset.end),
                lanes: data.lanes.map(lane => [lane.name, Math.max(0, ...ends(lane))])};
        })"""
    )


@pytest.mark.parametrize("size", SIZES)
def test_both_timelines_are_on_one_axis(opened, drawn, size):
    page = opened("machines", **size)
    _, printed = drawn("machines")
    [row] = printed["rows"]
    timelines, paths = activities(page.page)
    assert page.page.locator(".verdict").inner_text().replace("\xa0", " ") == printed["verdict"]
    assert {name.split()[0] for name, _ in timelines["lanes"]} == {"A", "B"}
    assert [name for name, _ in timelines["lanes"]] == sorted((name for name, _ in timelines["lanes"]), key=lambda it: it[0])
    for figure in (timelines, paths):
        for side in "AB":
            last = max(end for name, end in figure["lanes"] if name.split()[0] == side)
            assert last / 1000 <= row[f"{side.lower()}_ns"] + 0.001
        assert figure["end"] == max(end for _, end in figure["lanes"])
    assert dict(paths["lanes"]) == {side: pytest.approx(row[f"{side.lower()}_ns"] * 1000, abs=5) for side in "AB"}
    wide = page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    assert wide, "the page is wider than the window"
    page.check()
    page.keep(f"compare-machines-{size['width']}")


def test_percentages_add_up_to_a_hundred(opened, drawn):
    page = opened("machines")
    _, printed = drawn("machines")
    table = page.page.locator("table", has=page.page.locator("caption", has_text="Critical path"))
    rows = {row[0]: row[-1] for row in table.locator("tbody tr").evaluate_all("rows => rows.map(it => [...it.cells].map(c => c.innerText))")}
    assert rows.pop("all") == "100.0 %"
    number = {name: float(text.removesuffix(" %").replace("−", "-")) for name, text in rows.items()}
    assert sum(number.values()) == pytest.approx(100, abs=1e-6)
    for part in printed["rows"][0]["difference"]:
        assert number[part["name"]] == pytest.approx(part["share"] * 100, abs=0.1001)
