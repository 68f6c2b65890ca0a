"""Charts show the values of the JSON, zoom, and switch their lines."""

import pytest


@pytest.fixture
def chart(opened):
    page = opened("ccl")
    page.page.wait_for_selector("figure.chart.live")
    return page


def scale(page, key):
    return page.evaluate(
        "key => { const it = document.querySelector('figure.chart').chart.scales[key]; return [it.min, it.max]; }", key
    )


def test_values_are_those_of_the_json(chart, drawn):
    names = chart.page.locator(".lines li button").all_inner_texts()
    columns = chart.page.evaluate("document.querySelector('figure.chart').chart.data")
    _, printed = drawn("ccl")
    seen = 0
    for row in printed["rows"]:
        at = columns[0].index(row["bytes"])
        value = columns[1 + names.index(row["algorithm"])][at]
        assert value == pytest.approx(row["busbw_gbs"] * 1e9)
        seen += 1
    assert seen > 10
    assert columns[1 + names.index("bound")][0] == pytest.approx(printed["bound"]["busbw_gbs"] * 1e9)
    chart.check()


def test_probe_has_the_bandwidths_of_its_json(opened, drawn):
    page = opened("probe")
    page.page.wait_for_selector("figure.chart.live")
    names = [name.split(", ") for name in page.page.locator(".lines li button").all_inner_texts()]
    columns = page.page.evaluate("document.querySelector('figure.chart').chart.data")
    _, printed = drawn("probe")
    # Cases with the same bandwidths share a line.
    assert sum(map(len, names)) == len(printed["cases"]) > len(names)
    for case in printed["cases"]:
        [line] = [at for at, known in enumerate(names) if case["name"] in known]
        assert columns[0] == [point["bytes"] for point in case["sweep"]]
        assert columns[1 + line] == pytest.approx([point["bandwidth_gbs"] * 1e9 for point in case["sweep"]])
    page.check()


def test_the_front_of_a_grid_with_costs_is_a_line_through_its_designs(opened, drawn):
    page = opened("designs")
    page.page.wait_for_selector("figure.chart.live")
    figure = page.page.locator("figure.chart").first
    names = figure.locator(".lines li button").all_inner_texts()
    assert names == ["Pareto front", "other designs"]
    costs, *lines = page.page.evaluate("document.querySelector('figure.chart').chart.data")
    _, printed = drawn("designs")
    points = printed["points"]
    assert len(points) == 12 and {point["front"] for point in points} == {True, False}
    for line, on_front in zip(lines, (True, False), strict=True):
        shown = sorted((cost, time) for cost, time in zip(costs, line, strict=True) if time is not None)
        expected = sorted((point["cost"], point["time_ns"] / 1e3) for point in points if point["front"] == on_front)
        assert shown == [pytest.approx(pair) for pair in expected]
    assert page.page.locator("table").first.locator("tbody tr", has_text="●").count() == len([it for it in points if it["front"]])
    text = page.page.locator("body").inner_text()
    assert printed["verdict"].split(" (")[0] in text and printed["cost"] in text
    page.check()


def test_a_grid_is_a_chart_over_its_first_key(opened, drawn):
    page = opened("vary")
    page.page.wait_for_selector("figure.chart.live")
    names = page.page.locator(".lines li button").all_inner_texts()
    columns = page.page.evaluate("document.querySelector('figure.chart').chart.data")
    _, printed = drawn("vary")
    assert columns[0] == [32, 64, 128] and len(printed["points"]) == 6
    for point in printed["points"]:
        values = point["values"]
        line = names.index(f"hbm.channel_bandwidth_gbs={values['hbm.channel_bandwidth_gbs']}")
        shown = columns[1 + line][columns[0].index(int(values["m"]))]
        assert shown == pytest.approx(point["rows"][0]["time_ns"] / 1e3)
    page.check()


def test_values_that_are_no_numbers_are_names_of_positions(opened, drawn):
    page = opened("names")
    page.page.wait_for_selector("figure.chart.live")
    columns = page.page.evaluate("document.querySelector('figure.chart').chart.data")
    _, printed = drawn("names")
    assert columns == [[0, 1, 2], pytest.approx([point["rows"][0]["time_ns"] / 1e3 for point in printed["points"]])]
    page.page.locator(".u-over").focus()
    for name in ["f16", "f32", "bf16"]:
        page.page.keyboard.press("ArrowRight")
        assert page.page.locator(".at").inner_text() == name
    page.check()


def test_both_axes_are_logarithmic(chart):
    kinds = chart.page.evaluate(
        "['x', 'y'].map(key => document.querySelector('figure.chart').chart.scales[key].distr)"
    )
    assert kinds == [3, 3]


def test_lines_switch_off_and_on(chart):
    page = chart.page
    button = page.locator(".lines li button").first
    shown = "document.querySelector('figure.chart').chart.series[1].show"
    button.click()
    assert button.get_attribute("aria-pressed") == "false" and not page.evaluate(shown)
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true" and page.evaluate(shown)


def test_zooms_by_button_and_by_dragging_and_back(chart):
    page = chart.page
    whole = scale(page, "x")
    page.get_by_role("button", name="Zoom in").click()
    low, high = scale(page, "x")
    assert whole[0] < low < high < whole[1]
    page.get_by_role("button", name="Show everything").click()
    assert scale(page, "x") == whole
    box = page.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=5)
    page.mouse.up()
    low, high = scale(page, "x")
    assert whole[0] < low < high < whole[1]
    chart.check()


def test_values_are_read_with_the_pointer_and_with_keys(chart, drawn):
    page = chart.page
    page.locator(".u-over").hover()
    assert page.locator(".at").inner_text().endswith("iB")
    page.locator(".u-over").focus()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    _, printed = drawn("ccl")
    least = min(row["bytes"] for row in printed["rows"])
    assert page.locator(".at").inner_text() == f"{least / 1024:g} KiB"
    assert page.locator(".lines .value").first.inner_text().endswith("B/s")
    chart.keep("ccl-hover")


def test_lines_that_coincide_have_different_dashes(chart):
    items = chart.page.locator(".lines li").all()
    columns = chart.page.evaluate("document.querySelector('figure.chart').chart.data")[1:]
    dashes = [item.get_attribute("data-dash") for item in items]
    seen = 0
    for left in range(len(columns)):
        for right in range(left):
            pairs = zip(columns[left], columns[right], strict=True)
            same = [a is not None and b is not None and abs(a - b) < 1e-9 * a for a, b in pairs]
            if any(one and next_one for one, next_one in zip(same, same[1:], strict=False)):
                seen += 1
                assert dashes[left] != dashes[right]
    assert seen > 0, "no lines coincide: choose other sizes"


def test_print_has_the_picture(chart):
    chart.page.emulate_media(media="print")
    assert chart.page.locator("figure.chart svg.picture").is_visible()
    assert not chart.page.locator("figure.chart .u-over").is_visible()
