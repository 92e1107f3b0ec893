"""The page of a run: escaping, contents for one run or several seeds, and charts."""

import base64
import hashlib
import html
import re
import unicodedata
import xml.etree.ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sparring import cli
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, RunError, UnknownNameError
from sparring.core.foreign_text import HIDDEN, JOINERS, LINE_LETTERS
from sparring.ops.statistics import mean_interval
from sparring.report.curves import series_of
from sparring.report.explanations import check_metrics, entries, explanation, glossary
from sparring.report.progress import short_name
from sparring.report.run_page import (
    mark_invisible,
    render_page,
    results_over_seeds,
    seeds_of,
    series_over_seeds,
    style,
    templates,
    write_chart,
    write_report,
)
from sparring.report.svg import LETTER, WIDTH, Series, line_chart, ticks
from sparring.run.events import MetricsWriter
from tests.report.builders import page_of, write_run

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


def macro(name, *values, **keywords):
    return str(getattr(templates().get_template("macros.html").module, name)(*values, **keywords))


@given(st.text(alphabet=st.characters()))
def test_any_text_is_visible_and_no_markup(text):
    visible = str(mark_invisible(text))
    assert macro("quoted", text, len(text)) == f"<bdi>{visible}</bdi>"  # also in a template
    assert not [c for c in visible if unicodedata.category(c) in HIDDEN and c not in LINE_LETTERS + JOINERS]
    without_marks = re.sub(r'<span class="mark">(U\+[0-9A-F]{4,6})</span>', "", visible)
    assert (
        "<" not in without_marks and ">" not in without_marks and '"' not in without_marks and "'" not in without_marks
    )
    assert html.unescape(without_marks) == "".join(
        c for c in text if unicodedata.category(c) not in HIDDEN or c in LINE_LETTERS + JOINERS
    )


def test_pages_have_only_inline_style_and_report_truncation():
    page = render_page("page.html", EVIL, body=EVIL).decode()
    digest = base64.b64encode(
        hashlib.sha256(re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1].encode()).digest()
    ).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in page
    assert "<script" not in page and "<img" not in page and page.count("<title>") == 1
    assert '<html lang="en">' in page and page.startswith("<!doctype html>")
    assert "url(" not in style() and "@import" not in style() and "</" not in style()
    assert (
        "prefers-color-scheme: dark" in style() and "@media print" in style() and "details::details-content" in style()
    )
    text = macro("table", ("a", EVIL), [(EVIL, "1")], "of <it>")
    assert (
        text.count('scope="col"') == 2 and text.count('scope="row"') == 1 and "<caption>of &lt;it&gt;</caption>" in text
    )
    assert "<script" not in text + macro("folded", EVIL, caller=lambda: "") + macro("section", "x", EVIL, "body")
    assert macro("section", "x", "title", " \n").strip() == ""
    assert mark_invisible("a\n\tb\u200d") == "a\n\tb\u200d"
    text = macro("quoted", "x" * 10_000_000)
    assert len(text) < 1_500 and "and 9,998,800 more characters" in text
    assert macro("quoted", "\u202eab").startswith('<bdi><span class="mark">U+202E')
    assert render_page("page.html", "\ud800", body="\ud800").decode()


EVIL_REPORT = "<script>alert(1)</script>"


def test_a_page_loads_nothing_and_escapes_everything(tmp_path):
    match = {f"match/g/random/{EVIL_REPORT.replace('/', '')}/{key}": 0.5 for key in ("win", "win_or_draw", "return")}
    metrics = {"nash_conv/kuhn_poker": 1.0, f"return/{EVIL_REPORT}/x": 1.0, "legal_rate": 1.0, **match}
    config = f'name: "{EVIL_REPORT}"\nsummary: "{EVIL_REPORT}"\n'
    page = page_of(write_run(tmp_path / "run", *[(metrics, {"seconds/round": 1.0})] * 2, config=config))
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "nash_conv/kuhn_poker" in page and "2 s of training, 0 s of measuring" in page


def test_an_opponent_whose_name_holds_a_slash_breaks_no_page(tmp_path):
    names = ("match/kuhn/endpoint(model=org/name)/first/win_or_draw", "match/kuhn/3/random/second/win_or_draw")
    page = page_of(write_run(tmp_path / "run", (dict.fromkeys(names, 0.5), {})))
    assert (
        '<th scope="row">kuhn</th><td>-</td><td>endpoint(model=org/name)</td><td>first</td>' in page
        and "<td>3/random</td><td>second</td>" in page
    )
    assert [short_name(name) for name in names] == [
        "kuhn first vs endpoint(model=org/name) win-or-draw",
        "kuhn second vs 3/random win-or-draw",
    ]


def test_health_is_listed_and_escaped(tmp_path):
    path = write_run(tmp_path / "healthy", config="name: x\nhealth: {stop: false}\n")
    assert "No health rule has acted." in page_of(path)
    writer = MetricsWriter(path)
    writer.record(20, [{"metric": "x", "value": 2.0, "stops": False, "message": EVIL_REPORT}])
    writer.close()
    page = page_of(path)
    assert "<h2>Health</h2><ul><li>step 20: &lt;script&gt;" in page and "<script" not in page
    assert "<h2>Health" not in page_of(write_run(tmp_path / "old"))


def test_charts_and_the_metrics_table_hold_only_metrics():
    lines = [{"step": 1, "legal_rate": 1.0, "legal_rate/a": 0.5, "return/a/x": 2.0}]
    assert [series.name for series in series_of(lines, ("legal_rate", "return/"))] == ["legal_rate", "return/a/x"]
    assert [series.name for series in series_of(lines, ("legal_rate/",))] == ["legal_rate/a"]
    assert [name for name in glossary() if not re.fullmatch(r"[\w./]+", name)] == []
    assert not {"issued", "joined", "tick"} & {*glossary()}  # events of the scheduler


@pytest.mark.parametrize(
    "name", ["legal_rate", "legal_rate/GAME", "seat_asymmetry/chess", "ppo_clip/ratio_max", "match/GAME/BOT/ROLE/win"]
)
def test_rules_can_name_metrics_and_patterns(name):
    check_metrics([name])


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("seat_asymetry/GAME", "seat_asymmetry/GAME"), ("legal", "legal_rate"), ("ratio_tails", "ratio_tail")],
)
def test_rules_about_unknown_metrics_are_errors_that_name_the_nearest(name, nearest):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{nearest}'"):
        check_metrics([name])


POINTS = st.lists(
    st.tuples(st.integers(0, 10**6), st.floats(-1e9, 1e9) | st.just(float("nan"))), min_size=1, max_size=30
)


@example([[(0, 0.0), (0, 5e-324)]])
@example([[(0, 1e9), (1, 1e9 + 1e-6)]])
@given(st.lists(POINTS, max_size=4))
def test_any_series_gives_well_formed_svg(series):
    chart = line_chart(
        [Series(name=f"s<{i}>&", points=points) for i, points in enumerate(series)], title="<&>", standalone=True
    )
    xml.etree.ElementTree.fromstring(chart)
    assert "nan" not in chart


def test_figures_of_ema_and_live_weights_are_distinguished(tmp_path):
    """Charts and results say that NashConv is of the EMA weights and the legal rate of the live weights."""
    environments = "environments: [{name: kuhn_poker}]\nlosses: [{name: ppo_clip}]\n"
    pages = {}
    for decay in (0.0, 0.5):
        config = f"name: x\nsteps: 2\n{environments}learner: {{average: {decay}}}\n"
        path = write_run(
            tmp_path / f"run{decay}", *[({"nash_conv/kuhn_poker": 0.25, "legal_rate": 1.0}, {})] * 2, config=config
        )
        pages[decay] = page_of(path), write_chart(path, tmp_path / "x.svg").read_text()
    assert "legal_rate (live) = 1" in pages[0.5][0]
    for text in pages[0.5]:
        assert "nash_conv/kuhn_poker (EMA) = 0.25" in text
        assert "(EMA)" not in text.replace("nash_conv/kuhn_poker (EMA)", "")
    assert "Figures of nash_conv measure the EMA weights." in pages[0.5][0]
    for text in pages[0.0]:
        assert "EMA" not in text and "(live)" not in text
    assert "All figures measure the live weights, which play and learn." in pages[0.0][0]


def test_the_chart_of_a_run_shows_nash_conv_with_references_or_else_learning_metrics(tmp_path):
    config = "name: x\nsteps: 2\nenvironments: [{name: kuhn_poker}]\nlosses: [{name: ppo_clip}]\n"
    figures_with_nash_conv, figures_without_nash_conv = (
        {"nash_conv/kuhn_poker": 0.25, "legal_rate": 1.0},
        {"legal_rate": 1.0},
    )
    charts = []
    for number, figures in enumerate((figures_with_nash_conv, figures_without_nash_conv)):
        path = write_run(tmp_path / str(number), *[(figures, {})] * 2, config=config)
        charts.append(write_chart(path, tmp_path / "x.svg").read_text())
    assert "random play: 0.9167" in charts[0] and "equilibrium: 0" in charts[0] and "legal_rate" not in charts[0]
    assert "legal_rate" in charts[1] and "random play" not in charts[1]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_few(low, span):
    marks = ticks(low, low + span)
    assert 2 <= len(marks) <= 9
    assert marks == sorted(marks)


def test_every_metric_of_a_real_step_is_documented():
    from sparring.config import resolve
    from sparring.engine.local import LocalEngine
    from sparring.run.evaluation import Evaluator
    from sparring.run.events import fits
    from sparring.run.state import RunState
    from sparring.run.step import Methods, play_round

    losses = [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.1}]
    config = resolve(
        {"environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 8}, "losses": losses, "threads": 1}
    )
    engine = LocalEngine(config)
    outcome = play_round(config, engine, Methods.of(config), RunState())
    evaluation = Evaluator([game for game, _ in engine.environments], config.evaluation).measure(
        engine.agent("policy"), engine.root
    )
    documented = glossary()
    for name in {**outcome.metrics, **outcome.timing, **evaluation}:
        pattern = next((pattern for pattern in documented if fits(pattern, name)), None)
        assert pattern is not None, name
        if pattern.split("/")[0] in registry.names("losses"):
            assert name.split("/")[1] in documented[pattern], name


@pytest.mark.parametrize("kind", ["environments", "methods", "recipes"])
def test_everything_listed_can_be_explained(kind):
    for entry in entries(kind):
        assert entry["summary"]
        assert explanation(entry["name"])


def legend_of(names):
    chart = line_chart([Series(name=name, points=[(1, 0.0), (2, 0.25)]) for name in names], title="t")
    labels = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">([^<]*)<title>', chart)
    return [(float(x), float(y), text) for x, y, text in labels], float(
        re.search(r'viewBox="0 0 \d+ ([\d.]+)"', chart)[1]
    )


@pytest.mark.parametrize("length", [5, 36, 60, 200])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_labels_of_a_legend_do_not_overlap_and_stay_within_the_chart(length, count):
    labels, height = legend_of([f"{index}" + "x" * length for index in range(count)])
    assert len(labels) == count
    boxes = [(left_x, y, left_x + LETTER * len(text)) for left_x, y, text in labels]
    assert all(right_x <= WIDTH and y <= height for _, y, right_x in boxes)
    for index, (left_x, y, right_x) in enumerate(boxes):
        assert all(
            other_y != y or other_right <= left_x or right_x <= other_x
            for other_x, other_y, other_right in boxes[:index]
        )
    assert all(text.endswith("= 0.25") for _, _, text in labels)


@pytest.mark.parametrize("steps", [[1], [1, 2], [1, 2, 3, 4]])
def test_axis_ticks_are_whole_steps(steps):
    chart = line_chart([Series(name="x", points=[(step, 0.5) for step in steps])], title="t")
    marks = re.findall(r'text-anchor="middle">([^<]*)<', chart)
    assert marks and all(float(tick).is_integer() for tick in marks)


@pytest.mark.parametrize("count", [1, 399, 400, 401, 450, 801, 5000])
def test_a_thinned_curve_keeps_its_first_and_last_point(count):
    values = [(1, 5.0), *((step, 0.0) for step in range(2, count)), (count, -5.0)][:count]
    chart = line_chart([Series(name="x", points=values)], title="t")
    points = re.search(r'<polyline points="([^"]*)"', chart)[1].split()
    assert len(points) == min(count, 400) and points[0].startswith("56.0,")
    first_y, last_y = (float(points[end].split(",")[1]) for end in (0, -1))
    assert count == 1 or (points[-1].startswith("546.0,") and first_y < last_y - 150)


def run(path, seed, values, extra=""):
    steps = [({"nash_conv/kuhn_poker": value}, {"seconds/round": 1.0}) for value in values]
    return write_run(
        path, *steps, config=f"name: x\nseed: {seed}\nsteps: 3\nenvironments: [{{name: kuhn_poker}}]\n{extra}"
    )


def test_several_seeds_are_means_or_lines_in_order(tmp_path):
    values = [(0.9, 0.5, 0.2), (0.8, 0.4), (0.7, 0.1, 0.3)]
    seeds = seeds_of([run(tmp_path / str(index), index, figures) for index, figures in enumerate(values)])
    (line,) = series_over_seeds("nash_conv/kuhn_poker", seeds)
    assert line.points == [(1, pytest.approx(0.8)), (2, pytest.approx(1 / 3))]  # steps that all seeds have
    interval = mean_interval([0.5, 0.4, 0.1])
    assert line.band[1] == (2, interval.low, interval.high)
    assert series_over_seeds("nothing", seeds) == []
    (row,) = results_over_seeds(seeds, {}, ("nash_conv/",))["rows"]
    last_interval = mean_interval([0.2, 0.4, 0.3])
    assert row[1:6] == (f"0.3\u00a0[{last_interval.low:.4g},\u00a0{last_interval.high:.4g}]", "0.2", "0.4", "0.3", "-")
    seeds = seeds_of([run(tmp_path / "two" / "b", 7, (0.9, 0.5)), run(tmp_path / "two" / "a", 3, (0.8,))])
    assert [member.seed for member in seeds] == [3, 7]
    lines = series_over_seeds("nash_conv/kuhn_poker", seeds)
    assert [(curve.name, curve.points, curve.band) for curve in lines] == [
        ("nash_conv/kuhn_poker, seed 3", [(1, 0.8)], ()),
        ("nash_conv/kuhn_poker, seed 7", [(1, 0.9), (2, 0.5)], ()),
    ]


def test_runs_with_different_configurations_or_equal_seeds_are_refused(tmp_path):
    first_run = run(tmp_path / "a", 1, (0.9,))
    with pytest.raises(ConfigError, match=r"b is not another seed of .*c: credit.name differs"):
        seeds_of(
            [
                run(tmp_path / "c", 1, (0.9,), "credit: {name: mars}\n"),
                run(tmp_path / "b", 2, (0.9,), "credit: {name: rloo}\n"),
            ]
        )
    with pytest.raises(ConfigError, match="have seed 1; name each seed once"):
        seeds_of([first_run, run(tmp_path / "d", 1, (0.9,))])
    assert len(seeds_of([first_run, run(tmp_path / "e", 2, (0.9,), "threads: 1\n")])) == 2
    with pytest.raises(ConfigError, match=r"scale\.lag"):  # the fleet may differ between seeds, the lag may not
        seeds_of([first_run, run(tmp_path / "f", 3, (0.9,), "scale: {lag: 1}\n")])
    with pytest.raises(RunError, match="no run folder"):
        seeds_of([first_run, tmp_path / "none"])


def test_the_page_of_several_seeds_names_them(tmp_path):
    paths = [run(tmp_path / f"s{n}", n, (0.9 - n / 10, 0.5)) for n in (2, 0, 1)]
    page = write_report(paths[0], tmp_path / "all.html", paths[1:]).read_text()
    assert (
        "3 runs of one configuration: s0 (seed 0), s1 (seed 1), s2 (seed 2)." in page
        and "all other parts show seed 0" in page
    )
    assert "<polygon" in page and "with the 95 % interval of the mean" in page and "random play: 0.9167" in page
    assert not (paths[0] / "report.html").exists()
    paths = [str(run(tmp_path / f"t{n}", n, (0.9,))) for n in (0, 1)]
    assert "write --out FILE" in str(CliRunner().invoke(cli.app, ["report", *paths]).exception)
    assert CliRunner().invoke(cli.app, ["report", *paths, "--out", str(tmp_path / "x.html")]).exit_code == 0
