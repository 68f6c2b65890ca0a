"""The page of a replay begins with one answer, whose setting a button copies; policies keep their colours."""

import pytest

SIZES = [pytest.param({"width": 1280}, id="desktop"), pytest.param({"width": 390, "height": 800}, id="phone")]


@pytest.mark.parametrize("size", SIZES)
def test_the_answer_comes_first_and_its_setting_is_copied(opened, drawn, size):
    page = opened("answer", **size)
    _, printed = drawn("answer")
    [answer] = {tuple(sorted(record["answer"].items())) for record in printed}
    answer = dict(answer)
    assert answer["needs_with_setting_bytes"] < answer["needs_bytes"] and answer["setting"]
    assert page.page.locator(".verdict").inner_text().replace("\xa0", " ") == answer["text"]
    assert page.page.locator("main > :nth-child(2) code").inner_text() == answer["setting"]
    page.page.get_by_role("button", name="Copy", exact=True).click()
    page.page.wait_for_function("document.querySelector('.copyable output').textContent === 'Copied.'")
    assert page.page.evaluate("navigator.clipboard.readText()") == answer["setting"]
    wide = page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    assert wide, "the page is wider than the window"
    page.check()
    page.keep(f"replay-answer-{size['width']}")


def test_a_policy_has_its_colour_on_every_page(opened):
    def colours(name):
        page = opened(name).page
        page.wait_for_selector("figure.chart.live")
        items = page.locator("figure.chart").first.locator(".lines li")
        return dict(items.evaluate_all("all => all.map(it => [it.querySelector('button').innerText.trim(), it.dataset.colour])"))

    one, other = colours("replay"), colours("answer")
    shared = [name for name in one if name in other and name.startswith("pytorch")]
    assert shared == ["pytorch"] and one["pytorch"] == other["pytorch"]
    policies = {name: colour for name, colour in other.items() if "recorded" not in name and name != "live"}
    assert len(set(policies.values())) == len(policies) == 8
