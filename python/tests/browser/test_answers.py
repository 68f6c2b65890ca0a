"""Pages answer first: time by source line, causes at the pointer, levers, the parts of a model, pictures before tables."""

import pytest

PHONE = {"width": 390, "height": 844, "has_touch": True}
TIMELINE = "document.querySelector('figure.operations').timeline"


def rows(page, table):
    """The text of the cells of a table, row by row."""
    cells = "rows => rows.map(row => Array.from(row.cells).map(cell => cell.textContent.trim()))"
    return page.locator(f"table.{table} tbody tr").evaluate_all(cells)


def test_lines_are_those_of_the_json(opened, drawn):
    _, printed = drawn("run")
    page = opened("run").page
    shown = rows(page, "source-lines")
    expected = [line["place"] or "no source line" for line in printed["lines"][:20]]
    assert [row[0] for row in shown] == expected
    assert len(expected) > 2
    steps = [int(row[4].replace(",", "")) for row in shown]
    assert steps == [line["steps"] for line in printed["lines"][:20]]
    assert sum(line["span_ns"] for line in printed["lines"]) == pytest.approx(printed["kernel_ns"])
    merged = [(row[3], page.locator("table.steps tbody tr").nth(at).locator("rect").get_attribute("class"))
              for at, row in enumerate(rows(page, "steps"))]
    assert len(set(merged)) == len(merged), "a line and a unit have one row"


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desktop", "phone"])
def test_the_pointer_shows_line_and_cause(opened, size):
    opening = opened("run", **size)
    page = opening.page
    page.wait_for_function("document.querySelector('figure.operations').dataset.to")
    canvas = page.locator(".operations canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    at = box["x"] + box["width"] * 0.6, box["y"] + 52
    if size:
        page.touchscreen.tap(*at)
    else:
        page.mouse.move(*at)
    tip = page.locator(".operations .tip")
    assert tip.is_visible()
    found = page.evaluate(
        f"""([x, y]) => {{ const it = {TIMELINE}, found = it.under({{clientX: x, clientY: y}});
        return [it.data.line, it.data.why].map(column => it.data.names[column[found.at]]); }}""",
        list(at),
    )
    assert tip.locator(".line").inner_text() == found[0]
    assert tip.locator(".why").inner_text() == "Not earlier: " + found[1]
    placed = tip.bounding_box()
    width, height = page.viewport_size["width"], page.viewport_size["height"]
    assert placed["x"] >= 0 and placed["x"] + placed["width"] <= width
    assert placed["y"] >= 0 and placed["y"] + placed["height"] <= height
    opening.keep("run-tip-phone" if size else "run-tip")
    opening.check()


def test_the_page_of_levers_ranks_those_of_the_json(opened, drawn):
    _, printed = drawn("levers")
    page = opened("levers").page
    effects = [lever["name"] for lever in printed["levers"] if lever["saved"]]
    shown = [row[0] for row in rows(page, "levers")]
    assert shown[: len(effects)] == effects
    assert len(effects) > 2
    verdict = " ".join(page.locator(".verdict").inner_text().split())
    assert verdict == " ".join(printed["verdict"].split())


@pytest.mark.parametrize("size", [{}, PHONE], ids=["desktop", "phone"])
def test_the_page_of_a_model_has_each_part_with_its_bound(opened, drawn, size):
    _, printed = drawn("model")
    opening = opened("model", **size)
    page = opening.page
    verdict = " ".join(page.locator(".verdict").inner_text().split())
    assert verdict == " ".join(printed["verdict"].split())
    titles = page.locator(".parts svg g title").evaluate_all("all => all.map(it => it.textContent.split(':')[0])")
    assert titles == [part["part"] for part in printed["parts"]] + ["launches"]
    widths = page.locator(".parts svg g rect").evaluate_all("all => all.map(it => +it.getAttribute('width'))")
    totals = [part["total_ns"] for part in printed["parts"]]
    bounds = [max(part["memory_bound_ns"], part["gemm_bound_ns"]) for part in printed["parts"]]
    scale = max(widths) / max([*totals, printed["launching_ns"]])
    assert widths[:-2:2] == pytest.approx([scale * total for total in totals], abs=0.02)
    assert widths[1:-2:2] == pytest.approx([scale * bound for bound in bounds], abs=0.02)
    opening.check()


@pytest.mark.parametrize("name", ["probe", "topology"])
def test_the_picture_is_before_the_tables(opened, name):
    page = opened(name).page
    order = page.evaluate(
        """() => { const [picture, table] = ['section svg, section figure', 'table'].map(it => document.querySelector(it));
        return picture.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING; }"""
    )
    assert order


@pytest.mark.parametrize("name", ["run", "levers", "model", "probe", "topology", "compare"])
def test_words_in_tables_do_not_break_on_a_phone(opened, name):
    page = opened(name, width=390, height=844).page
    broken = page.evaluate(
        """() => { const broken = [], walk = node => {
          for (const found of node.data.matchAll(/[A-Za-z]+/g)) {
            const range = document.createRange();
            range.setStart(node, found.index);
            range.setEnd(node, found.index + found[0].length);
            if (new Set(Array.from(range.getClientRects()).map(it => it.top)).size > 1) { broken.push(found[0]); }
          } };
          document.querySelectorAll('td, th').forEach(cell => {
            const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) { walk(texts.currentNode); }
          });
          return broken; }"""
    )
    assert broken == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
