"""The example game on a run's page: values per legal action, regrets by hand, escaping, and stores without verdicts."""

import re

import pytest

from sparring.core.records import Episode, Turn, Verdict
from sparring.play.store import EpisodeStore
from sparring.report.curves import series_of
from sparring.report.progress import key_figures, short_name
from sparring.report.run_page import templates
from sparring.report.sample_plays import ACTIONS, judged_games
from tests.report.builders import page_of, write_run

EVIL = "<script>alert(1)</script>"


def turn(action, values, *, event="ok", best=None, seat=0, reply=None, **about):
    verdict = None
    if values is not None:
        best_actions = best or [name for name in values if values[name] == max(values.values())]
        verdict = Verdict(actions=tuple(values), values=tuple(values.values()), best=frozenset(best_actions), **about)
    legal = tuple(values or (action,))
    return Turn(
        seat, 0, "policy", "key", legal, reply or action or "zzz", action, event, {}, view="board", verdict=verdict
    )


def episode(*turns, game="g", number=0):
    return Episode(
        episode_id=number,
        group_id=0,
        game=game,
        seed=0,
        roles=("X", "O"),
        agents=("policy", "policy"),
        trained=(True, True),
        turns=turns,
        returns=(1.0, -1.0),
    )


def page(tmp_path, *parts):
    tmp_path.mkdir(exist_ok=True)
    store = EpisodeStore(tmp_path / "episodes")
    for step, episodes in enumerate(parts, start=1):
        store.append(10 * step, episodes)
    template = templates().get_template("judged.html")
    return "".join(template.render(game=game) for game in judged_games(tmp_path / "episodes"))


def regrets(text):
    return re.findall(r"<td>([^<]*)</td></tr>", text)


def test_a_game_shows_values_regrets_and_illegal_replies(tmp_path):
    text = page(
        tmp_path, [episode(turn("b", {"a": 1.0, "b": -1.0, "c": 1.0}), turn("x", {"x": -0.0}, seat=1), turn("a", None))]
    )
    assert "A game of g, as the oracle sees it" in text
    assert (
        "Step 10" in text
        and "Returns: X 1, O -1." in text
        and "1 of 2 judged moves" in text
        and "mean regret 1." in text
    )
    assert "<b>a 1</b>, <b>c 1</b>, <u>b -1</u>" in text
    assert "<u><b>x 0</b></u>" in text
    assert regrets(text) == ["2", "0", "-"] and "not judged" in text
    text = page(tmp_path / "b", [episode(turn(None, {"a": 1.0, "b": -0.5}, event="illegal"))])
    assert "zzz (illegal)" in text and regrets(text) == ["1.5"] and "0 of 1 judged" in text
    values = {f"w{index}": float(index) for index in range(20)}
    text = page(tmp_path / "c", [episode(turn("w3", values, certainty=0.5, bound=0.25, entropy=1.5))])
    assert len(re.findall(r"w\d+ \d", text)) == ACTIONS + 1 and "<u>w3 3</u>" in text
    assert "(and 11 more; certainty 0.5; values within 0.25; 1.50 nats hidden)" in text
    assert regrets(text) == ["16"]


def test_the_newest_verdicts_are_shown_once_and_matches_by_figure(tmp_path):
    cases = ((1.0, "g"), (2.0, "g"), (3.0, "h"))
    judged_episodes = [
        episode(turn("a", {"a": value}), game=game, number=index) for index, (value, game) in enumerate(cases)
    ]
    text = page(tmp_path, [episode(turn("stale", {"stale": 0.0}))], judged_episodes, [episode(turn("a", None))])
    assert text.count("<h2>") == 2 and "Step 20" in text and "a 1" in text and "a 3" in text
    assert "a 2" not in text and "stale" not in text
    line = {f"match/g/b/X/{name}{end}": 0.5 for name in ("win_or_draw", "optimal", "regret") for end in ("", "_low")}
    lines = [{"step": 1, **line, "regret/g": 0.1}]
    assert [series.name for series in series_of(lines, ("match/*/win_or_draw", "match/*/success"))] == [
        "match/g/b/X/win_or_draw"
    ]
    assert [series.name for series in series_of(lines, ("match/*/regret", "regret/"))] == [
        "match/g/b/X/regret",
        "regret/g",
    ]


@pytest.mark.parametrize("damage", ["torn", "foreign", "nothing"])
def test_without_verdicts_no_example_game_is_shown(tmp_path, damage):
    assert judged_games(tmp_path / "episodes") == []
    if damage != "nothing":
        assert page(tmp_path, [episode(turn("a", {"a": 1.0}))]) != ""
        episode_file = tmp_path / "episodes" / "part-000010.parquet"
        episode_file.write_bytes(episode_file.read_bytes()[:100] if damage == "torn" else b"")
    assert judged_games(tmp_path / "episodes") == []


def test_the_page_has_the_game_and_escapes_it(tmp_path):
    metrics = {
        f"match/g/random/X/{name}{end}": 0.5
        for name in ("success", "optimal", "regret", "return")
        for end in ("", "_low", "_high")
    }
    path = write_run(tmp_path / "run", ({**metrics, "regret/g": 0.25}, {}))
    EpisodeStore(path / "episodes").append(1, [episode(turn(EVIL, {EVIL: 1.0}, reply=EVIL), game=EVIL)])
    text = page_of(path)
    assert "<script" not in text and "&lt;script&gt;" in text
    for heading in ("success", "optimal moves", "regret per turn"):
        assert f'<th scope="col">{heading}</th>' in text
    assert ">win</th>" not in text and "<td>0.500 [0.500, 0.500]</td>" in text


def test_the_page_and_progress_line_show_seen_and_unseen_states(tmp_path):
    metrics = {
        "match/g/random/X/success": 0.125,
        "match_seen/g/random/X/success": 0.75,
        "match/h/random/X/success": 0.5,
    }
    text = page_of(write_run(tmp_path / "run", (metrics, {})))
    for game, kind, share in (("g", "unseen", "0.125"), ("g", "seen", "0.750"), ("h", "-", "0.500")):
        assert f'<th scope="row">{game}</th><td>{kind}</td><td>random</td><td>X</td><td>{share}' in text
    assert key_figures(metrics) == list(metrics)
    assert short_name("match_seen/g/random/X/success", single_game=True) == "success on seen starts"
    assert short_name("match/g/random/X/success", single_game=True) == "success"
