"""A suite measured: what is in the report, that nothing is played twice, and that neither workers nor interruptions matter."""

import json
from typing import ClassVar

import pytest
import yaml

from sparring.api import suite_evaluation as suite_module
from sparring.api.load import load_run
from sparring.api.suite_evaluation import SuiteEvaluation
from sparring.api.suite_player import agent_player, run_player
from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import RunError
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import AgentSpec, parse_agent
from sparring.measure.exploitability import nash_conv
from sparring.measure.info_states import enumerate_info_states
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.warmup import warm_up
from tests.api.builders import of, plain, written

GAMES = 60  # more than a piece
FORFEITS = 1  # seat of leduc-mcts whose games end before the opponent, who refuses to play, is asked

ROWS = [
    {
        "name": "kuhn-cfr",
        "game": "kuhn_poker",
        "role": "trained",
        "kind": "match",
        "opponent": {"name": "cfr", "options": {"iterations": 5}},
        "normalise": [-2, 2],
    },
    {"name": "kuhn-exact", "game": "kuhn_poker", "role": "trained", "kind": "exact"},
    {"name": "hanabi", "game": "tiny_hanabi", "role": "held_out", "kind": "coplay", "normalise": [0, 10]},
    {
        "name": "ttt-random",
        "game": "tic_tac_toe",
        "role": "held_out",
        "kind": "match",
        "opponent": {"name": "random"},
        "normalise": [-1, 1],
    },
    {
        "name": "leduc-mcts",
        "game": "leduc_poker",
        "role": "held_out",
        "kind": "match",
        "opponent": {"name": "mcts"},
        "normalise": [-13, 13],
    },
    {"name": "ttt-exact", "game": "tic_tac_toe", "role": "held_out", "kind": "exact"},
]


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({"rows": [{**row, "games_per_seat": GAMES} for row in ROWS]}))
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    games = [{"name": "kuhn_poker"}, {"name": "tiny_hanabi"}]
    model, warmup = {"hidden_size": 16, "layers": 1, "heads": 1}, {"updates": 15, "games": 64, "learning_rate": 0.01}
    config = resolve({"environments": games, "model": model, "warmup": warmup, "threads": 1})
    path = tmp_path_factory.mktemp("suite") / "run"
    with RunFolder.create(path, to_yaml(config)):
        engine = LocalEngine(config)
        for step in (1, 2):
            warm_up(config, engine)
            checkpoint.save(path, step, written(engine), keep=2)
    return path


def test_the_report_has_every_row_and_the_totals(run, suite, tmp_path):
    lines = []
    evaluation = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    report = plain(evaluation.run(workers=1, watch=lines.append))
    assert (report["suite"], report["player"]["step"]) == ("small", 2)
    kuhn = of(report, "kuhn-cfr")
    assert kuhn["measured"] and kuhn["trained_by_this_run"] and kuhn["options"] == {"style": "brief"}
    assert [seat["role"] for seat in kuhn["seats"]] == ["first", "second"]
    for figures in (kuhn["overall"], *kuhn["seats"]):
        assert figures["games"] == figures["wins"] + figures["draws"] + figures["losses"]
        for key in ("return", "win", "win_or_draw", "illegal", "score"):
            assert figures[key]["low"] <= figures[key]["mean"] <= figures[key]["high"]
        assert figures["score"]["mean"] == pytest.approx(25 * (figures["return"]["mean"] + 2))
    assert kuhn["overall"]["games"] == 2 * GAMES
    hanabi = of(report, "hanabi")
    assert hanabi["seats"] == [] and hanabi["overall"]["games"] == GAMES
    assert report["totals"]["trained"]["games"] == 1 and report["totals"]["held_out"]["games"] == 2
    assert report["totals"]["trained_by_this_run"]["games"] == 2 and report["totals"]["new_to_this_run"]["games"] == 1
    assert report["totals"]["trained"]["mean"] == pytest.approx(kuhn["overall"]["score"]["mean"])
    assert json.loads((tmp_path / "evaluation-small.json").read_text())["report"] == report
    assert [line.split(";")[0] for line in lines] == [
        "kuhn-cfr done",
        "kuhn-exact done",
        "hanabi done",
        "ttt-random done",
    ]


@pytest.mark.parametrize(("name", "options"), [("sudoku", {"puzzles": 7, "blanks": 3}), ("wide_search", {"worlds": 7})])
def test_the_starts_of_training_are_made_once_for_rows_and_plays(name, options, tmp_path, monkeypatch):
    """A run's bank may hold 100,000 puzzles."""
    config = resolve(
        {
            "environments": [{"name": name, "options": options}],
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "threads": 1,
        }
    )
    path = tmp_path / "run"
    with RunFolder.create(path, to_yaml(config)):
        checkpoint.save(path, 1, written(LocalEngine(config)), keep=1)
    rows = [
        {"name": f"row{place}", "game": name, "options": {**options, "bank": 1}, "role": "trained", "kind": "coplay"}
        for place in (1, 2)
    ]
    (tmp_path / "banked.yaml").write_text(
        yaml.safe_dump({"rows": [{**row, "games_per_seat": 2, "normalise": [0, 1]} for row in rows]})
    )
    kind, banks = type(make_game(name, options=options)), []
    starts = kind.starts
    monkeypatch.setattr(kind, "starts", lambda game: banks.append(game) or starts(game))
    report = SuiteEvaluation(str(tmp_path / "banked.yaml"), run_player(path, None, None), folder=tmp_path).run(
        workers=1
    )
    assert len(banks) == 1 and {row["starts"] for row in report["rows"]} >= {"unseen"}


def test_exact_rows_are_enumerated_and_what_cannot_be_measured_says_why(run, suite, tmp_path):
    report = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path).run(workers=1)
    _, engine, _ = load_run(run)
    game = make_game("kuhn_poker")
    assert (
        of(report, "kuhn-exact")["figures"]["nash_conv"]
        == nash_conv(game, enumerate_info_states(game), engine.agent("policy")).nash_conv
    )
    assert not of(report, "leduc-mcts")["measured"] and report["not_in_totals"] == ["leduc-mcts"]
    assert "would see the hidden information" in of(report, "leduc-mcts")["notes"][-1]
    assert "lacks actions of this game" in of(report, "ttt-exact")["notes"][-1]
    assert "words of this game are unknown" in of(report, "ttt-random")["notes"][0]
    assert of(report, "ttt-random")["overall"]["illegal"]["mean"] > 0.9
    assert of(report, "kuhn-cfr")["notes"] == []


def test_a_conversation_that_outgrows_the_model_is_noted(suite, tmp_path):
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker"}],
            "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 4},
            "threads": 1,
        }
    )
    with RunFolder.create(tmp_path / "run", to_yaml(config)):
        checkpoint.save(tmp_path / "run", 1, written(LocalEngine(config)), keep=1)
    report = SuiteEvaluation(suite, run_player(tmp_path / "run", None, None), folder=tmp_path).run(workers=1)
    assert "exceeds the context of 4" in of(report, "kuhn-cfr")["notes"][-1]
    assert report["totals"]["trained"] is None


def test_nothing_is_played_twice_also_where_it_is_scored_otherwise(run, suite, tmp_path):
    first, lines = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path), []
    report = first.run(workers=1)
    again = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    assert again.run(workers=1, watch=lines.append) == report
    assert first.num_played > 0 and again.num_played == 0 and "nothing is played" in lines[0]
    rows = [
        {
            **row,
            "games_per_seat": GAMES,
            "role": "trained",
            **({"normalise": [-1, 1]} if row["name"] == "kuhn-cfr" else {}),
        }
        for row in ROWS
    ]
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    again = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    report = again.run(workers=1)
    assert again.num_played == 0 and of(report, "kuhn-cfr")["normalise"] == [-1, 1]


def test_only_new_games_are_played_and_a_colder_policy_is_another_one(run, suite, tmp_path):
    SuiteEvaluation(suite, run_player(run, None, None), games=50, folder=tmp_path).run(workers=1)
    more = SuiteEvaluation(suite, run_player(run, None, None), games=GAMES, folder=tmp_path)
    report = more.run(workers=1)
    assert more.num_played == (2 + 1 + 2) * (GAMES - 50)
    fresh = SuiteEvaluation(suite, run_player(run, None, None), games=GAMES, folder=tmp_path / "fresh").run(workers=1)
    assert plain(fresh) == plain(report)
    warm, cold = (
        SuiteEvaluation(suite, run_player(run, None, temperature), folder=tmp_path / "cold").run(workers=1)
        for temperature in (None, 0.01)
    )
    assert of(warm, "kuhn-exact")["figures"] != of(cold, "kuhn-exact")["figures"]
    assert of(warm, "kuhn-cfr")["overall"] != of(cold, "kuhn-cfr")["overall"]


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"step": 1}, {"temperature": 0.5}, {"opponent": {"name": "cfr", "options": {"iterations": 6}}}],
)
def test_other_settings_play_again(run, suite, tmp_path, changes):
    SuiteEvaluation(suite, run_player(run, None, None), games=2, folder=tmp_path).run(workers=1)
    if "opponent" in changes:
        rows = [{**row, **changes} if row["name"] == "kuhn-cfr" else row for row in ROWS]
        (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    player = run_player(run, changes.get("step"), changes.get("temperature"))
    again = SuiteEvaluation(suite, player, games=2, seed=changes.get("seed", 0), folder=tmp_path)
    again.run(workers=1)
    assert again.num_played == (4 if "opponent" in changes else 4 + 2 + 4 + FORFEITS * 2)
    if "opponent" not in changes:
        back = SuiteEvaluation(suite, run_player(run, None, None), games=2, folder=tmp_path)
        back.run(workers=1)
        assert back.num_played == 0  # the older results are still there


def test_an_interruption_loses_nothing(run, suite, tmp_path, monkeypatch):
    whole = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path / "whole").run(workers=1)
    count, play = [0], suite_module.play_piece

    def interrupted(*arguments):
        count[0] += 1
        if count[0] == 4:
            raise KeyboardInterrupt
        return play(*arguments)

    monkeypatch.setattr(suite_module, "play_piece", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path).run(workers=1)
    again = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    assert plain(again.run(workers=1)) == plain(whole)
    assert again.num_played == (5 + FORFEITS) * GAMES - (50 + 10 + 50)  # three pieces were there


class Pool:
    """Workers in this process: what goes to them and what they answer is JSON, as with processes."""

    worker_counts: ClassVar[list[int]] = []

    def __init__(self, make, settings, workers):
        self.worker_counts.append(workers)
        self._play = make(json.loads(json.dumps(settings)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing is to be ended."""

    def answers(self, jobs):
        for job in [json.loads(json.dumps(job)) for job in jobs][::-1]:  # in another order
            yield job, json.loads(json.dumps(self._play(job)))


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_number_of_workers_changes_nothing(run, suite, tmp_path, monkeypatch, processes):
    if not processes:
        monkeypatch.setattr(suite_module, "WorkerPool", Pool)
    games = None if processes else 6
    first = SuiteEvaluation(suite, run_player(run, None, None), games=games, folder=tmp_path / "one").run(workers=1)
    second = SuiteEvaluation(suite, run_player(run, None, None), games=games, folder=tmp_path / "two").run(workers=2)
    assert plain(first) == plain(second)
    measured = [
        json.loads((tmp_path / name / "evaluation-small.json").read_text())["measured"] for name in ("one", "two")
    ]
    rows = [
        {
            key: {name: a for name, a in entry["pieces"].items() if "unmeasured" not in a}
            for key, entry in results.items()
        }
        for results in measured
    ]
    assert rows[0] == rows[1]
    assert processes or Pool.worker_counts == [2]


def test_agents_without_a_run_and_named_opponents_are_told_apart(suite, tmp_path):
    report = SuiteEvaluation(suite, agent_player(parse_agent("random")), games=10, folder=tmp_path).run(workers=1)
    assert of(report, "ttt-random")["options"] == {"style": "full"}
    assert of(report, "ttt-random")["trained_by_this_run"] is None and set(report["totals"]) == {
        "trained",
        "held_out",
        "all",
    }
    assert of(report, "ttt-random")["overall"]["illegal"]["mean"] == 0.0
    assert "returns no probabilities" in of(report, "kuhn-exact")["notes"][0]
    two = [AgentSpec("mcts", {"simulations": 2}), AgentSpec("mcts", {"simulations": 3})]
    report = SuiteEvaluation(suite, agent_player(parse_agent("random")), opponents=two, games=2, folder=tmp_path).run(
        workers=1
    )
    names = [row["name"] for row in report["rows"] if row["game"] == "tic_tac_toe" and row["kind"] == "match"]
    assert names == ["ttt-random", "ttt-mcts(simulations=2)", "ttt-mcts(simulations=3)"]
    assert not of(report, "ttt-mcts(simulations=2)")["in_totals"] and report["totals"]["all"]["games"] == 3


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "measured": 3, "report": null}', '{"format": 9}'])
def test_a_damaged_file_is_never_overwritten(suite, tmp_path, text):
    (tmp_path / "evaluation-small.json").write_text(text)
    with pytest.raises(RunError, match="--out"):
        SuiteEvaluation(suite, agent_player(parse_agent("random")), folder=tmp_path)
    assert (tmp_path / "evaluation-small.json").read_text() == text
