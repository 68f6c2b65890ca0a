"""The page of a replay shows who holds the memory: a flame graph and the blocks over time."""

import re

import pytest


@pytest.fixture
def memory(opened):
    return opened("memory")


def peak(drawn):
    return drawn("memory")[1][0]["peak"]


def boxes(page):
    """Left edge, width and label of each box, by its row."""
    return page.evaluate(
        """Array.from(document.querySelectorAll('svg.flame')[0].querySelectorAll('g.box')).map(box => {
          const at = box.querySelector('rect');
          return {level: +box.getAttribute('aria-level'), x: +at.getAttribute('x'), width: +at.getAttribute('width'),
            label: box.getAttribute('aria-label')};
        })"""
    )


def test_holders_are_those_of_the_json(memory, drawn):
    names = memory.page.locator("table.holders").first.locator("tbody tr td:last-child").all_inner_texts()
    assert names == [holder["name"] for holder in peak(drawn)["holders"]]
    memory.check()


def test_boxes_of_the_flame_graph_are_as_wide_as_their_bytes(memory, drawn):
    found = boxes(memory.page)
    assert len(found) > 20
    live = peak(drawn)["live_bytes"]
    root = next(box for box in found if box["level"] == 1)
    # Every holder of a frame at the innermost level of the user: its boxes together are as wide as its share.
    seen = 0
    for holder in peak(drawn)["holders"]:
        if holder["bytes"] < live / 50 or holder["name"].startswith("("):
            continue
        mine = [box for box in found if box["label"].startswith(holder["name"] + ":")]
        width = sum(box["width"] for box in mine)
        assert width == pytest.approx(holder["bytes"] / live * root["width"], abs=3)
        seen += 1
    assert seen > 0


def test_boxes_do_not_overlap_and_stand_below_their_parents(memory):
    rows = {}
    for box in boxes(memory.page):
        rows.setdefault(box["level"], []).append((box["x"], box["x"] + box["width"]))
    assert len(rows) > 5
    for level, row in rows.items():
        row.sort()
        assert all(left[1] <= right[0] + 0.01 for left, right in zip(row, row[1:], strict=False))
        above = rows.get(level - 1, [(0, 1000)])
        assert all(any(left <= box[0] + 0.01 and box[1] <= right + 1.01 for left, right in above) for box in row)


def test_a_box_tells_its_frame_with_the_pointer_and_with_keys(memory):
    page = memory.page
    told = page.locator(".told").first
    box = page.locator("svg.flame g.box").nth(2)
    box.hover()
    assert told.inner_text() == box.get_attribute("aria-label")
    assert re.search(r": [\d.]+ [KMG]iB, \d+", told.inner_text())
    page.locator("svg.flame g.box").first.focus()
    root = told.inner_text()
    page.keyboard.press("ArrowDown")
    below = told.inner_text()
    assert below != root and page.evaluate("document.activeElement.getAttribute('aria-level')") == "2"
    page.keyboard.press("ArrowRight")
    beside = told.inner_text()
    assert beside not in (root, below)
    page.keyboard.press("ArrowUp")
    assert told.inner_text() == root
    memory.keep("memory-flame")
    memory.check()
