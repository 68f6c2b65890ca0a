"""Tables sort by any column and are copied as CSV; their figures are those of the JSON."""

import csv
import io

import pytest


def column(table, index):
    return [row.locator("th, td").nth(index).inner_text() for row in table.locator("tbody tr").all()]


def head(table, index):
    return table.locator("thead th").nth(index)


def copied(page, table):
    """Returns the records that the button below a table copies."""
    tools = table.locator("xpath=ancestor::div[contains(@class, 'wide')]/following-sibling::div[1]")
    tools.get_by_role("button", name="Copy as CSV").click()
    tools.get_by_text("rows copied").wait_for()
    return list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()"))))


def times_of_probe(page):
    """Returns the table of all cases, which follows the picture of the bandwidths and its values."""
    return page.get_by_role("table", name="each alone on a fresh machine")


def test_a_header_sorts_up_down_and_back(opened):
    page = opened("probe").page
    table = times_of_probe(page)
    before = column(table, 4)
    assert before != sorted(before, key=float)
    head(table, 4).get_by_role("button").click()
    assert head(table, 4).get_attribute("aria-sort") == "ascending"
    assert column(table, 4) == sorted(before, key=float)
    head(table, 4).get_by_role("button").click()
    assert column(table, 4) == sorted(before, key=float, reverse=True)
    head(table, 4).get_by_role("button").click()
    assert head(table, 4).get_attribute("aria-sort") is None
    assert column(table, 4) == before


def test_another_header_takes_over(opened):
    page = opened("probe").page
    table = times_of_probe(page)
    head(table, 4).get_by_role("button").click()
    head(table, 0).get_by_role("button").click()
    assert page.locator("th[aria-sort]").count() == 1
    assert column(table, 0) == sorted(column(table, 0))


def test_figures_with_units_sort_by_size(opened):
    table = opened("topology").page.get_by_role("table").first
    head(table, 2).get_by_role("button").click()
    sizes = column(table, 2)
    factor = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    values = [float(size.split()[0]) * factor[size.split()[1]] for size in sizes]
    assert values == sorted(values) and len({size.split()[1] for size in sizes}) > 1


def test_probe_shows_the_figures_of_its_json(opened, drawn):
    page = opened("probe").page
    _, printed = drawn("probe")
    rows = copied(page, times_of_probe(page))
    assert len(rows) == len(printed["cases"]) > 5
    for row, case in zip(rows, printed["cases"], strict=True):
        assert row["case"] == case["name"]
        assert float(row["actual"]) == pytest.approx(case["latency_ns"], abs=0.006)
        assert float(row["formula"]) == pytest.approx(case["formula_ns"], abs=0.006)
        assert float(row["GB/s"]) == pytest.approx(case["bandwidth_gbs"], abs=0.06)


def test_compare_shows_the_figures_of_its_json(opened, drawn):
    page = opened("compare").page
    _, printed = drawn("compare")
    factor = {"ns": 1, "µs": 1e3, "ms": 1e6}

    def nanoseconds(text):
        number, unit = text.split()
        return float(number) * factor[unit]

    rows = copied(page, page.get_by_role("table", name="Times of A and B"))
    assert len(rows) == len(printed["rows"]) == 3
    for row, times in zip(rows, printed["rows"], strict=True):
        assert row["time"] == times["name"]
        assert nanoseconds(row["A"]) == pytest.approx(times["a_ns"], rel=1e-3)
        assert nanoseconds(row["B"]) == pytest.approx(times["b_ns"], rel=1e-3)
        assert float(row["B / A"]) == pytest.approx(times["b_over_a"], abs=0.0006)
    [changed] = copied(page, page.get_by_role("table", name="Differences in the input"))
    assert changed == {"input": "hbm.channel_bandwidth_gbs", "A": "32", "B": "16"}
    # One figure of the critical paths for each size: the bars are as long as the parts, A above B.
    page.wait_for_function("[...document.querySelectorAll('figure.activity')].every(it => it.activity)")
    figures = page.evaluate(
        "[...document.querySelectorAll('figure.activity')].map(it => [it.activity.data.names, [...it.activity.data.name],"
        " [...it.activity.data.length], it.activity.data.lanes.map(lane => lane.to - lane.from)])"
    )
    assert len(figures) == 3
    for times, (names, name, length, lanes) in zip(printed["rows"], figures, strict=True):
        bars = [(names[at], ps) for at, ps in zip(name, length, strict=True)]
        sides = bars[: lanes[0]], bars[lanes[0] :]
        for side, shown in zip("ab", sides, strict=True):
            parts = [(part["name"], part[side] * 1e3) for part in times["path_ns"] if part[side]]
            assert [name for name, _ in shown] == [name for name, _ in parts] and len(shown) > 2
            assert [ps for _, ps in shown] == pytest.approx([ps for _, ps in parts], abs=2)


def test_model_shows_the_figures_of_its_json(opened, drawn):
    page = opened("model").page
    _, printed = drawn("model")
    rows = copied(page, page.get_by_role("table").first)
    parts = {part["part"]: part for part in printed["parts"]}
    shown = [row for row in rows if row["part"] in parts]
    assert len(shown) == len(parts) > 5
    for row in shown:
        part = parts[row["part"]]
        assert float(row["each µs"]) == pytest.approx(part["each_ns"] / 1e3, abs=0.0006)
        assert int(row["count"]) == part["count"]


def test_topology_shows_the_figures_of_its_json(opened, drawn):
    page = opened("topology").page
    _, printed = drawn("topology")
    rows = {row["bandwidth, each way"]: row["GB/s"] for row in copied(page, page.get_by_role("table").nth(1))}
    assert float(rows["a router to the next"]) == printed["router_link_bytes_per_s"] / 1e9
    assert float(rows["a SIP to the switch"]) == printed["pcie_bytes_per_s_per_sip"] / 1e9


def test_run_shows_the_figures_of_its_json(opened, drawn):
    page = opened("run").page
    _, printed = drawn("run")
    rows = copied(page, page.locator("table.bounds"))
    bounds = {bound["resource"]: bound for bound in printed["bounds"]}
    assert {row["resource"] for row in rows} == set(bounds) != set()
    [unit] = {"ns", "µs", "ms"} & set(rows[0])
    for row in rows:
        shown = float(row[unit]) * {"ns": 1, "µs": 1e3, "ms": 1e6}[unit]
        assert shown == pytest.approx(bounds[row["resource"]]["least_ns"], rel=1e-3)
