"""`sparring evaluate`: bots and runs, regret by oracles, attempts, self-play, unseen puzzles, and bad input."""

import json

import pytest

from sparring.core.errors import SparringError
from tests.cli.builders import assert_refused, call, succeed

QUICK = [
    "steps=1",
    "rollout.games_per_step=16",
    "model.hidden_size=16",
    "model.layers=1",
    "threads=1",
    "warmup.updates=1",
]
NIM = "nim pile_sizes=1;2 is_misere=false"


def evaluate_json(*arguments):
    outcome = succeed("evaluate", *arguments, "--json")
    return json.loads(outcome.stdout, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluate") / "run"
    games = "environments=[{name: tic_tac_toe, oracle: {name: mcts, simulations: 20}}, {name: kuhn_poker, weight: 0}]"
    succeed("train", "kuhn-tiny", *QUICK, games, "evaluation.exact=false", "--run", path, "--json")
    return path


def test_bots_are_measured_against_random_play_or_each_other():
    report = evaluate_json("--agent", "minimax", "--environment", "tic_tac_toe", "--environment", NIM, "--games", 4)
    assert report["agent"] == "minimax" and report["figures"] == {}
    rows = {(row["game"], row["opponent"], row["role"]): row for row in report["matches"]}
    assert set(rows) == {
        (game, "random", role)
        for game, roles in (("tic_tac_toe", "XO"), ("nim", ("first", "second")))
        for role in roles
    }
    for row in rows.values():
        assert row["oracle"]["name"] == "minimax"
        assert row["oracle"]["judged"] == row["oracle"]["asked"] == row["oracle"]["turns"] > 0
        assert row["intervals"]["regret"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
        assert row["intervals"]["optimal"]["mean"] == 1.0 and row["intervals"]["optimal"]["low"] < 1.0
    report = evaluate_json(
        "--agent",
        "random",
        "--environment",
        "sudoku blanks=2",
        "--games",
        5,
        "--opponent",
        "random",
        "--opponent",
        "mcts simulations=2",
    )
    (row,) = report["matches"]
    assert (row["opponent"], row["role"], row["oracle"]["name"]) == (None, "solver", "constraint")
    assert row["starts"] == "unseen"
    assert set(row["intervals"]) == {"success", "return", "illegal", "regret", "optimal"}
    stdout = call("evaluate", "--agent", "random", "--environment", "sudoku blanks=2", "--games", 5).stdout
    assert "success" in stdout and "optimal moves" in stdout and "constraint" in stdout and " win " not in stdout


def test_self_play_is_reported_beside_the_matches():
    options = ("--agent", "minimax random_moves=0.0", "--environment", NIM, "--games", 2, "--self-plays", 3)
    (row,) = evaluate_json(*options)["self_plays"]
    assert (row["game"], row["starts"], row["plays"]) == ("nim", "all", 3)
    # piles 1 and 2: the best first move leaves 1 and 1, then one each
    assert row["turns"] == 3.0 and row["illegal"]["mean"] == 0.0
    assert "Self-play" in call("evaluate", *options).stdout


KUHN_TRIAL = "trial 'environment={name: kuhn_poker}' attempts=2 reflect=false"


def test_attempts_of_trials_are_measured_by_opponent_and_pool():
    options = (
        "--agent",
        "scripted preference=[bet]",
        "--environment",
        KUHN_TRIAL,
        "--games",
        4,
        "--oracle",
        "none",
        "--no-exact",
    )
    folds = ("--opponent", "scripted preference=[pass]", "--opponent", "random")
    rows = evaluate_json(*options, "--adaptation", *folds)["adaptation"]
    assert [(row["role"], row["opponent"], row["trained"]) for row in rows] == [
        ("first", "scripted", False),
        ("first", "random", False),
        ("first", None, False),
    ]
    assert [attempt["mean"] for attempt in rows[0]["attempts"]] == [1.0, 1.0], "who passes pays a chip for every bet"
    assert rows[0]["gain"]["mean"] == 0.0 and rows[0]["attempts"][1]["trials"] == 4
    assert rows[2]["attempts"][0]["mean"] == pytest.approx(sum(row["attempts"][0]["mean"] for row in rows[:2]) / 2)
    assert "Adaptation in trial" in call("evaluate", *options, "--adaptation", *folds).stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--environment", NIM, "--opponent", "random"), "nim has none"),
        (("--environment", "trial 'environment={name: mastermind}'", "--opponent", "random"), "one seat"),
        (("--environment", KUHN_TRIAL), "the run has no bots"),
    ],
)
def test_adaptation_that_cannot_be_measured_is_refused_before_any_game(options, reason, monkeypatch):
    monkeypatch.setattr("sparring.api.measurement.evaluate_policy", lambda *args, **named: pytest.fail("it plays"))
    outcome = call("evaluate", "--agent", "random", *options, "--adaptation")
    assert isinstance(outcome.exception, SparringError) and reason in str(outcome.exception)


def test_bots_of_the_training_are_trained_opponents_and_others_held_out(tmp_path):
    overrides = [
        "environments=[{name: trial, options: {environment: {name: kuhn_poker}, attempts: 2, reflect: false}}]",
        "bots={bets: {name: scripted, preference: [bet]}, unused: {name: random}}",
        "matchmaker={name: mixed, past: 0, bots: {bets: 1.0}}",
        "evaluation={exact: false, opponents: [{name: scripted, preference: [bet]}, {name: random, games_per_seat: 2}]}",
        "model.context=64",
    ]
    succeed("train", "kuhn-tiny", *QUICK, *overrides, "--run", tmp_path / "run", "--json")
    measure = (tmp_path / "run", "--games", 2, "--oracle", "none", "--adaptation")
    rows = evaluate_json(*measure)["adaptation"]
    assert all(len(row["exact"]["returns"]) == len(row["exact"]["illegal"]) == 2 for row in rows)
    assert "exact  " in call("evaluate", *measure).stdout and not any(
        "exact" in row for row in evaluate_json(*measure, "--no-exact")["adaptation"]
    )
    assert [(row["opponent"], row["trained"]) for row in rows] == [
        ("bets", True),
        ("random", False),
        (None, True),
        (None, False),
    ]


def test_the_oracle_of_a_run_judges_its_game_and_others_get_a_fitting_one(run):
    rows = evaluate_json(run, "--games", 4, "--oracle-turns", 3)["matches"]
    assert {(row["game"], row["oracle"]["name"]) for row in rows} == {("tic_tac_toe", "mcts"), ("kuhn_poker", "cfr")}
    assert all(0 < row["oracle"]["asked"] < 10 for row in rows)
    rows = evaluate_json(run, "--games", 4, "--oracle", "cfr iterations=20 max_histories=100")
    assert {row["game"] for row in rows["matches"] if "oracle" in row} == {"kuhn_poker"}
    assert any("tic_tac_toe: no regret, as cfr cannot judge it" in note for note in rows["notes"])
    assert not any("oracle" in row for row in evaluate_json(run, "--games", 2, "--oracle", "none")["matches"])


def test_unseen_and_training_puzzles_are_measured_in_separate_rows(tmp_path):
    bank = "environments=[{name: sudoku, options: {blanks: 1, puzzles: 3}}]"
    small_changes = [*QUICK, "model.context=96", bank, "evaluation.opponents=[]", "evaluation.exact=false"]
    succeed("train", "kuhn-tiny", *small_changes, "--run", tmp_path / "run")
    evaluation = evaluate_json(tmp_path / "run", "--games", 3, "--league")
    assert [row["starts"] for row in evaluation["matches"]] == ["unseen", "seen"]
    assert [entry["starts"] for entry in evaluation["league"]] == ["unseen"]
    stdout = call("evaluate", tmp_path / "run", "--games", 3).stdout
    assert "unseen" in stdout and "memorised" in stdout
    suite = tmp_path / "own.yaml"
    suite.write_text(
        "rows: [{name: s, game: sudoku, options: {blanks: 1, puzzles: 3}, role: trained, kind: solo, games_per_seat: 60}]"
    )
    report = evaluate_json(tmp_path / "run", "--suite", suite, "--workers", 1)
    assert [(row["name"], row["starts"], row["measured"]) for row in report["rows"]] == [
        ("s", "unseen", True),
        ("s-seen", "seen", True),
    ]
    assert [row["in_totals"] for row in report["rows"]] == [True, False]
    (bot,) = evaluate_json("--agent", "random", "--suite", suite, "--out", tmp_path, "--games", 2)["rows"]
    assert bot["starts"] == "unseen"


def test_a_run_is_measured_on_other_games_and_a_mixture_needs_members(run, tmp_path, monkeypatch):
    report = evaluate_json(run, "--environment", NIM, "--environment", "nim pile_sizes=2;2", "--games", 2)
    assert {row["game"] for row in report["matches"]} == {"nim(is_misere=False,pile_sizes=1_2)", "nim(pile_sizes=2_2)"}
    assert any("are unknown to the model" in note for note in report["notes"])
    monkeypatch.chdir(tmp_path)
    small_changes = [
        "steps=1",
        "threads=1",
        "warmup.updates=0",
        "rollout.games_per_step=8",
        "model.hidden_size=8",
        "model.layers=1",
        "evaluation.opponents=[]",
    ]
    succeed("train", "kuhn-tiny", *small_changes, "--run", "run")
    outcome = call("evaluate", "run", "--answer", "nash")
    assert "league.every=20" in str(outcome.exception)


def test_the_seed_decides_the_result_and_a_game_without_oracle_has_a_note():
    command = ["--agent", "random", "--environment", NIM, "--games", 20]
    assert evaluate_json(*command) == evaluate_json(*command, "--seed", 0) != evaluate_json(*command, "--seed", 1)
    report = evaluate_json("--agent", "random", "--environment", "tiny_hanabi", "--games", 2)
    assert "tiny_hanabi: no regret, as no exact oracle can judge it (minimax: something is hidden" in report["notes"][0]
    assert all("regret" not in row["intervals"] for row in report["matches"])


def test_a_note_about_two_environments_is_printed_once(tmp_path):
    options = "workers: {}, turns: 2, waves: 1, worlds: 1001"
    environments = ", ".join(
        f"{{name: wide_search, label: w{workers}, options: {{{options.format(workers)}}}}}" for workers in (1, 2)
    )
    small_changes = [
        *QUICK,
        "rollout.games_per_step=4",
        "model.context=256",
        f"environments=[{environments}]",
        "evaluation.opponents=[]",
        "evaluation.exact=false",
    ]
    succeed("train", "kuhn-tiny", *small_changes, "--run", tmp_path / "run")
    (note,) = evaluate_json(tmp_path / "run", "--games", 2, "--oracle", "none")["notes"]
    assert note.startswith("wide_search: exact figures are for at most")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "random", "--environment", "kuhn_poker", "--oracle", "minmax"], "Did you mean 'minimax'"),
        (
            ["--agent", "random", "--environment", "kuhn_poker", "--oracle", "minimax"],
            "--oracle minimax cannot judge the games",
        ),
        (["--agent", "random", "--environment", "kuhn_poker", "--oracle", "cfr iterations=x"], "iterations"),
        (
            ["--agent", "random", "--environment", "kuhn_poker", "--environment", "kuhn_poker"],
            "Game 'kuhn_poker' occurs twice",
        ),
        (["--agent", "random", "--environment", "kuhn_poker", "--checkpoint", "3"], "--checkpoint needs a run"),
        (["--agent", "random", "--environment", "kuhn_poker", "--league"], "--league rates"),
        (["--agent", "random", "--suite", "mars", "--adaptation"], "--adaptation"),
        (["--agent", "random", "--suite", "mars", "--self-plays", "3"], "--self-plays"),
    ],
)
def test_bad_input_is_refused_with_one_line(arguments, message):
    assert_refused(call("evaluate", *arguments), message)


def test_the_answer_of_a_run_is_measured_or_the_one_that_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_changes = [
        "steps=2",
        "threads=1",
        "warmup.updates=0",
        "rollout.games_per_step=8",
        "model.hidden_size=8",
        "model.layers=1",
        "evaluation.opponents=[]",
    ]
    league = [
        "league.every=1",
        "league.start=true",
        "league.plays=6",
        "league.answer=uniform",
        "matchmaker.name=meta_strategy",
    ]
    succeed("train", "kuhn-tiny", *small_changes, *league, "--run", "run")
    metrics = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])

    def answer_report(*words):
        outcome = succeed("evaluate", "run", "--games", "2", "--oracle", "none", "--json", *words)
        return json.loads(outcome.stdout)

    mixture, policy = answer_report(), answer_report("--answer", "policy")
    assert (
        mixture["answer"] == "mixture of 0.333 past-000000, 0.333 past-000001, 0.333 past-000002"
        and "answer" not in policy
    )
    exact_key = "nash_conv/kuhn_poker"
    assert (
        mixture["figures"][exact_key]
        == pytest.approx(metrics[exact_key], abs=1e-6)
        != pytest.approx(policy["figures"][exact_key], abs=1e-6)
    )
    assert (
        answer_report("--answer", "last")["figures"][exact_key]
        == answer_report("--answer", "delta_uniform delta=0.99")["figures"][exact_key]
    )
    assert (
        "This measures a mixture of 0.333 past-000000"
        in call("evaluate", "run", "--games", "2", "--oracle", "none").output
    )
    for words in (["--answer", "nahs"], ["--answer", "nash", "--policy", "main"]):
        outcome = call("evaluate", "run", *words)
        assert outcome.exit_code != 0 and "answer" in str(outcome.exception)
