"""The curves in a browser: what is drawn, smoothed, listed, and lies across them."""

import pytest

from tests.view import run_made as made

NASH = "nash_conv/kuhn_poker"
CARD = f"[data-metric='{NASH}']"


@pytest.fixture(scope="module")
def served(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("runs")
    run = made.write_run(folder / "kuhn")
    values = {1: 0.9, 10: 0.5, 20: 0.4, 30: 0.25}  # few, and all above 0
    made.append(run / "metrics.jsonl", *({"step": 30 + n, NASH: y} for n, y in values.items()))
    made.append(run / "metrics.jsonl", *({"step": 60 + n, "noise": n % 2} for n in range(1, 41)))
    with serve(folder) as served:
        yield served


def test_smoothing_is_said_and_never_of_few_points(visitor, served):
    page = visitor.open(served, f"?view=curves&run=0&metrics={NASH},noise")
    assert "last 0.25" in page.inner_text(f"{CARD} .readout")
    assert "smoothed" not in page.inner_text(".charts")
    page = visitor.open(served, "?view=curves&run=0&metrics=noise&smooth=0.5")
    # the last value is 0, and half of what came before is of a 1: (0 + 1/2 + 0 + 1/8 ...) / 2 = 1/3
    assert "last 0 (smoothed 0.3333)" in page.inner_text("[data-metric=noise] .readout")
    said = page.get_attribute("[data-metric=noise] .plot", "aria-label")
    assert "kuhn: 0 (smoothed 0.3333)" in said
    page = visitor.open(served, f"?view=curves&run=0&metrics={NASH}&smooth=0.9")
    said = page.inner_text(f"{CARD} .readout")
    assert "last 0.25" in said and "not smoothed: 20 points or fewer" in said
    assert "(smoothed" not in said


def test_all_figures_are_listed_in_sections(visitor, served):
    page = visitor.open(served, "?view=curves&run=0&metrics=loss")
    page.click("text=all 8 figures")
    listed = page.inner_text(".all-figures")
    for section, name in (("Skill", NASH), ("Replies", "legal_rate"), ("Learning", "noise")):
        assert listed.index(section) < listed.index(name)
    assert listed.index("Time") < listed.index("seconds/play")
    page.click(".all-figures button:has-text('noise')")
    page.wait_for_selector("[data-metric=noise] .plot *")
    assert page.is_visible(".all-figures button:has-text('noise')")  # the list stays open


def test_nash_conv_lies_between_uniform_and_best_play(visitor, served):
    page = visitor.open(served, f"?view=curves&run=0&metrics={NASH}")
    page.wait_for_selector(f"{CARD} .reference:has-text('equilibrium 0')", timeout=20_000)
    assert "random play 0.9167" in page.inner_text(f"{CARD} .readout")  # 11/12, which OpenSpiel has
    assert "lower is better" in page.inner_text(f"{CARD} h2")
    page.wait_for_selector(f"{CARD} canvas")
