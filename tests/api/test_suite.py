"""Suites: the report has every row, no game is played twice, and workers and interruptions change nothing."""

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
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import enumerate_info_states
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.warmup import warm_up
from tests.api.builders import as_json, checkpoint_writer, row_of

GAMES = 60  # more games than one piece of work holds (50)
FORFEITS = 1  # in one seat of leduc-mcts the games end before the opponent, which refuses to play, has a turn

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
            checkpoint.save(path, step, checkpoint_writer(engine), keep=2)
    return path


def test_the_report_has_every_row_and_the_totals(run, suite, tmp_path):
    lines = []
    evaluation = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    report = as_json(evaluation.run(workers=1, watch=lines.append))
    assert (report["suite"], report["player"]["step"]) == ("small", 2)
    kuhn = row_of(report, "kuhn-cfr")
    assert kuhn["measured"] and kuhn["trained_by_this_run"] and kuhn["options"] == {"style": "brief"}
    assert [seat["role"] for seat in kuhn["seats"]] == ["first", "second"]
    for figures in (kuhn["overall"], *kuhn["seats"]):
        assert figures["games"] == figures["wins"] + figures["draws"] + figures["losses"]
        for key in ("return", "win", "win_or_draw", "illegal", "score"):
            assert figures[key]["low"] <= figures[key]["mean"] <= figures[key]["high"]
        assert figures["score"]["mean"] == pytest.approx(25 * (figures["return"]["mean"] + 2))
    assert kuhn["overall"]["games"] == 2 * GAMES
    hanabi = row_of(report, "hanabi")
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
def test_the_initial_states_of_training_are_made_once_for_all_rows(name, options, tmp_path, monkeypatch):
    """The initial states of a run may be 100,000 puzzles, which take long to make."""
    config = resolve(
        {
            "environments": [{"name": name, "options": options}],
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "threads": 1,
        }
    )
    path = tmp_path / "run"
    with RunFolder.create(path, to_yaml(config)):
        checkpoint.save(path, 1, checkpoint_writer(LocalEngine(config)), keep=1)
    rows = [
        {"name": f"row{number}", "game": name, "options": {**options, "bank": 1}, "role": "trained", "kind": "coplay"}
        for number in (1, 2)
    ]
    (tmp_path / "banked.yaml").write_text(
        yaml.safe_dump({"rows": [{**row, "games_per_seat": 2, "normalise": [0, 1]} for row in rows]})
    )
    environment_class, games_asked = type(make_game(name, options=options)), []
    make_states = environment_class.starts
    monkeypatch.setattr(environment_class, "starts", lambda game: games_asked.append(game) or make_states(game))
    report = SuiteEvaluation(str(tmp_path / "banked.yaml"), run_player(path, None, None), folder=tmp_path).run(
        workers=1
    )
    assert len(games_asked) == 1 and {row["starts"] for row in report["rows"]} >= {"unseen"}


def test_exact_rows_are_enumerated_and_unmeasured_rows_have_a_note(run, suite, tmp_path):
    report = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path).run(workers=1)
    _, engine, _ = load_run(run)
    game = make_game("kuhn_poker")
    assert (
        row_of(report, "kuhn-exact")["figures"]["nash_conv"]
        == evaluate_exploitability(game, enumerate_info_states(game), engine.agent("policy")).nash_conv
    )
    assert not row_of(report, "leduc-mcts")["measured"] and report["not_in_totals"] == ["leduc-mcts"]
    assert "would see the hidden information" in row_of(report, "leduc-mcts")["notes"][-1]
    assert "lacks actions of this game" in row_of(report, "ttt-exact")["notes"][-1]
    assert "words of this game are unknown" in row_of(report, "ttt-random")["notes"][0]
    assert row_of(report, "ttt-random")["overall"]["illegal"]["mean"] > 0.9
    assert row_of(report, "kuhn-cfr")["notes"] == []


def test_a_conversation_that_outgrows_the_model_is_noted(suite, tmp_path):
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker"}],
            "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 4},
            "threads": 1,
        }
    )
    with RunFolder.create(tmp_path / "run", to_yaml(config)):
        checkpoint.save(tmp_path / "run", 1, checkpoint_writer(LocalEngine(config)), keep=1)
    report = SuiteEvaluation(suite, run_player(tmp_path / "run", None, None), folder=tmp_path).run(workers=1)
    assert "exceeds the context of 4" in row_of(report, "kuhn-cfr")["notes"][-1]
    assert report["totals"]["trained"] is None


def test_no_game_is_played_twice_even_if_scores_change(run, suite, tmp_path):
    first_evaluation, lines = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path), []
    report = first_evaluation.run(workers=1)
    second_evaluation = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    assert second_evaluation.run(workers=1, watch=lines.append) == report
    assert first_evaluation.num_played > 0 and second_evaluation.num_played == 0 and "nothing is played" in lines[0]
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
    second_evaluation = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    report = second_evaluation.run(workers=1)
    assert second_evaluation.num_played == 0 and row_of(report, "kuhn-cfr")["normalise"] == [-1, 1]


def test_only_missing_games_are_played_and_temperature_changes_results(run, suite, tmp_path):
    SuiteEvaluation(suite, run_player(run, None, None), games=50, folder=tmp_path).run(workers=1)
    evaluation = SuiteEvaluation(suite, run_player(run, None, None), games=GAMES, folder=tmp_path)
    report = evaluation.run(workers=1)
    assert evaluation.num_played == (2 + 1 + 2) * (GAMES - 50)
    fresh_report = SuiteEvaluation(suite, run_player(run, None, None), games=GAMES, folder=tmp_path / "fresh").run(
        workers=1
    )
    assert as_json(fresh_report) == as_json(report)
    warm_report, cold_report = (
        SuiteEvaluation(suite, run_player(run, None, temperature), folder=tmp_path / "cold").run(workers=1)
        for temperature in (None, 0.01)
    )
    assert row_of(warm_report, "kuhn-exact")["figures"] != row_of(cold_report, "kuhn-exact")["figures"]
    assert row_of(warm_report, "kuhn-cfr")["overall"] != row_of(cold_report, "kuhn-cfr")["overall"]


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"step": 1}, {"temperature": 0.5}, {"opponent": {"name": "cfr", "options": {"iterations": 6}}}],
)
def test_changed_settings_are_played_anew_and_old_results_stay(run, suite, tmp_path, changes):
    SuiteEvaluation(suite, run_player(run, None, None), games=2, folder=tmp_path).run(workers=1)
    if "opponent" in changes:
        rows = [{**row, **changes} if row["name"] == "kuhn-cfr" else row for row in ROWS]
        (tmp_path / "small.yaml").write_text(yaml.safe_dump({"rows": rows}))
    player = run_player(run, changes.get("step"), changes.get("temperature"))
    changed_evaluation = SuiteEvaluation(suite, player, games=2, seed=changes.get("seed", 0), folder=tmp_path)
    changed_evaluation.run(workers=1)
    assert changed_evaluation.num_played == (4 if "opponent" in changes else 4 + 2 + 4 + FORFEITS * 2)
    if "opponent" not in changes:
        restored_evaluation = SuiteEvaluation(suite, run_player(run, None, None), games=2, folder=tmp_path)
        restored_evaluation.run(workers=1)
        assert restored_evaluation.num_played == 0  # the results of the first settings are still in the file


def test_an_interrupted_evaluation_keeps_its_results(run, suite, tmp_path, monkeypatch):
    uninterrupted_report = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path / "whole").run(workers=1)
    num_pieces, play = [0], suite_module.play_piece

    def interrupted(*arguments):
        num_pieces[0] += 1
        if num_pieces[0] == 4:
            raise KeyboardInterrupt
        return play(*arguments)

    monkeypatch.setattr(suite_module, "play_piece", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path).run(workers=1)
    resumed_evaluation = SuiteEvaluation(suite, run_player(run, None, None), folder=tmp_path)
    assert as_json(resumed_evaluation.run(workers=1)) == as_json(uninterrupted_report)
    # 50 + 10 + 50 games were stored before the interruption
    assert resumed_evaluation.num_played == (5 + FORFEITS) * GAMES - (50 + 10 + 50)


class Pool:
    """Stands for the worker pool, in this process; jobs and answers pass through JSON, as with processes."""

    worker_counts: ClassVar[list[int]] = []

    def __init__(self, make, settings, workers):
        self.worker_counts.append(workers)
        self._play = make(json.loads(json.dumps(settings)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """There are no processes to end."""

    def results(self, jobs):
        for job in [json.loads(json.dumps(job)) for job in jobs][::-1]:  # in another order
            yield job, json.loads(json.dumps(self._play(job)))


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_number_of_workers_changes_nothing(run, suite, tmp_path, monkeypatch, processes):
    if not processes:
        monkeypatch.setattr(suite_module, "WorkerPool", Pool)
    games = None if processes else 6
    one_worker = SuiteEvaluation(suite, run_player(run, None, None), games=games, folder=tmp_path / "one").run(
        workers=1
    )
    two_workers = SuiteEvaluation(suite, run_player(run, None, None), games=games, folder=tmp_path / "two").run(
        workers=2
    )
    assert as_json(one_worker) == as_json(two_workers)
    stored_results = [
        json.loads((tmp_path / name / "evaluation-small.json").read_text())["measured"] for name in ("one", "two")
    ]
    rows = [
        {
            key: {name: a for name, a in entry["pieces"].items() if "unmeasured" not in a}
            for key, entry in results.items()
        }
        for results in stored_results
    ]
    assert rows[0] == rows[1]
    assert processes or Pool.worker_counts == [2]


def test_bots_without_a_run_are_measured_against_named_opponents(suite, tmp_path):
    report = SuiteEvaluation(suite, agent_player(parse_agent("random")), games=10, folder=tmp_path).run(workers=1)
    assert row_of(report, "ttt-random")["options"] == {"style": "full"}
    assert row_of(report, "ttt-random")["trained_by_this_run"] is None and set(report["totals"]) == {
        "trained",
        "held_out",
        "all",
    }
    assert row_of(report, "ttt-random")["overall"]["illegal"]["mean"] == 0.0
    assert "returns no probabilities" in row_of(report, "kuhn-exact")["notes"][0]
    opponents = [AgentSpec("mcts", {"simulations": 2}), AgentSpec("mcts", {"simulations": 3})]
    report = SuiteEvaluation(
        suite, agent_player(parse_agent("random")), opponents=opponents, games=2, folder=tmp_path
    ).run(workers=1)
    names = [row["name"] for row in report["rows"] if row["game"] == "tic_tac_toe" and row["kind"] == "match"]
    assert names == ["ttt-random", "ttt-mcts(simulations=2)", "ttt-mcts(simulations=3)"]
    assert not row_of(report, "ttt-mcts(simulations=2)")["in_totals"] and report["totals"]["all"]["games"] == 3


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1, "measured": 3, "report": null}', '{"format": 9}'])
def test_a_damaged_file_is_never_overwritten(suite, tmp_path, text):
    (tmp_path / "evaluation-small.json").write_text(text)
    with pytest.raises(RunError, match="--out"):
        SuiteEvaluation(suite, agent_player(parse_agent("random")), folder=tmp_path)
    assert (tmp_path / "evaluation-small.json").read_text() == text
