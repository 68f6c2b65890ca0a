"""Every page opens from its file, offline, and can be used with a keyboard, a phone and a screen reader."""

import pytest
from drawn_pages import PAGES

NAMES = sorted(PAGES)


@pytest.mark.parametrize("name", NAMES)
def test_opens_offline_without_a_complaint(opened, name):
    page = opened(name)
    assert page.page.title().endswith("– Cubeyard")
    page.keep(f"{name}-light")
    page.check()


@pytest.mark.parametrize("name", NAMES)
def test_is_dark_where_the_reader_wants_it(opened, name):
    light = opened(name, color_scheme="light")
    dark = opened(name, color_scheme="dark")
    brightness = "[0, 1, 2].map(at => +getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[at])"
    assert min(light.page.evaluate(brightness)) > 200
    assert max(dark.page.evaluate(brightness)) < 60
    dark.keep(f"{name}-dark")
    dark.check()


@pytest.mark.parametrize("name", NAMES)
def test_fits_a_phone(opened, name):
    page = opened(name, width=390, height=844)
    wide = page.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    page.keep(f"{name}-phone")
    page.check()


@pytest.mark.parametrize("name", NAMES)
def test_has_landmarks_headings_and_table_headers(opened, name):
    page = opened(name).page
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("contentinfo").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    tables = page.locator("table")
    for table in tables.all():
        assert table.locator("caption").text_content().strip(), table.inner_html()[:200]
        assert table.locator("thead th:not([scope=col])").count() == 0
    for picture in page.locator("svg[role=img]").all():
        named = picture.get_attribute("aria-label") or picture.locator("title").first.text_content()
        assert named


@pytest.mark.parametrize("name", NAMES)
def test_reads_without_scripts(opened, name):
    page = opened(name, java_script_enabled=False)
    assert page.page.locator("h1").inner_text()
    assert page.page.locator("table, svg").count() > 0


def test_needs_no_mouse(opened):
    page = opened("probe").page
    for _ in range(30):  # past the tools of the chart
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "sort":
            break
    assert page.evaluate("document.activeElement.className") == "sort"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    head = page.locator("th[aria-sort]")
    assert head.get_attribute("aria-sort") == "ascending"
