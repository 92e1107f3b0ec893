"""The public API: each function works twice in one process and refuses wrong input with one line."""

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sparring
from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, CreditError, RunError, SparringError, UnknownNameError
from sparring.methods.losses.base import LossBatch

QUICK = ("steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1", "store.every=1")
EXAMPLES = ("first_run", "credit_of_plays", "read_a_run")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sparring.train("kuhn-tiny", *QUICK, run=tmp_path_factory.mktemp("api") / "run")


def test_stored_turns_are_tables_and_turn_tables_have_advantages(run):
    episodes, credit = run.table(), run.table("credit")
    assert episodes.num_rows == sum(len(episode.turns) for _, episode in run.episodes()) == credit.num_rows
    assert credit.to_pandas()["advantage"].notna().all() and set(episodes["step"].to_pylist()) == {1, 2}
    with pytest.raises(ConfigError, match="'turns' is not a table of a run; write 'episodes' or 'credit'"):
        run.table("turns")
    episodes = sparring.play_episodes("kuhn_poker", [run, "random"], plays=8, group_size=4, trained=[0])
    for _ in range(2):
        turns = sparring.turn_table(episodes)
        assert set(turns.seat) == {0} and len(turns.reward) == sum(
            turn.seat == 0 for episode in episodes for turn in episode.turns
        )
        credit = sparring.advantages("mars:no_turn_level", turns)
        assert credit.advantages.shape == turns.reward.shape
    assert np.allclose(sparring.advantages("grpo", turns, divide_by_std=False).advantages.mean(), 0, atol=1)
    assert sparring.advantages("rae", turns, sparring.advantages("rae", turns).state).state != {}
    with pytest.raises(CreditError, match="needs the column 'value'"):
        sparring.advantages("gae", turns)
    with pytest.raises(UnknownNameError, match="Unknown preset"):
        sparring.advantages("mars:nothing", turns)


def test_public_names_are_functions_that_are_imported_on_first_use():
    for module in pkgutil.iter_modules(sparring.__path__):
        assert module.name not in sparring.__all__
        if module.ispkg:
            importlib.import_module(f"sparring.{module.name}")
    assert all(callable(getattr(sparring, name)) for name in sparring.__all__)
    assert {*sparring.__all__} <= {*dir(sparring)}
    with pytest.raises(AttributeError, match="has no attribute 'trian'; its names are Run, advantages"):
        _ = sparring.trian
    code = "import sparring, sys; print({'sparring', 'sparring.api', 'torch'} & {*sys.modules})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "{'sparring'}\n"
    )
    assert all(getattr(sparring, name) is getattr(sparring.api, name) for name in sparring.__all__)


def test_train_gives_the_same_run_twice_and_resumes_it(run, tmp_path):
    second_run = sparring.train(load_recipe("kuhn-tiny"), *QUICK, run=tmp_path / "again")
    assert second_run.metrics() == run.metrics() and [line["step"] for line in run.metrics()] == [1, 2]
    with pytest.raises(RunError, match="already holds a run"):
        sparring.train("kuhn-tiny", *QUICK, run=second_run.path)
    extended_run = sparring.train("kuhn-tiny", *QUICK[1:], "steps=3", run=second_run.path, resume=True)
    assert extended_run.step == 3 and extended_run.metrics()[:2] == run.metrics()
    with pytest.raises(ConfigError, match="resume and overwrite contradict each other"):
        sparring.train("kuhn-tiny", *QUICK, run=second_run.path, resume=True, overwrite=True)
    assert extended_run.metrics() == second_run.metrics()
    assert sparring.train("kuhn-tiny", *QUICK, run=second_run.path, overwrite=True).metrics() == run.metrics()
    run_start = json.loads((second_run.path / "provenance.json").read_text())["starts"][0]
    assert run_start["command"].startswith("sparring.train kuhn-tiny steps=2")


def test_train_shows_progress_if_asked(tmp_path, capsys):
    sparring.train("kuhn-tiny", *QUICK, run=tmp_path / "quiet")
    assert capsys.readouterr().err == ""
    sparring.train("kuhn-tiny", *QUICK, run=tmp_path / "loud", progress=True)
    assert "step 2/2" in capsys.readouterr().err


def test_load_run_gives_the_step_episodes_and_export_of_a_run(run, tmp_path):
    for _ in range(2):
        loaded_run = sparring.load_run(run.path)
        assert (loaded_run.step, loaded_run.config.steps, repr(loaded_run)) == (2, 2, f"Run({str(run.path)!r})")
    assert sparring.load_run(run.path, step=2).step == 2
    assert {step for step, _ in loaded_run.episodes()} == {1, 2} and len(loaded_run.episodes()) == 32
    assert (loaded_run.export(tmp_path / "model") / "config.json").is_file()
    with pytest.raises(RunError, match="There is no run folder"):
        sparring.load_run(tmp_path / "none")


def test_evaluate_accepts_a_run_its_path_and_a_bot(run):
    results = [sparring.evaluate(run_or_path, games_per_seat=4) for run_or_path in (run, run.path, str(run.path))]
    assert results[0] == results[1] == results[2] and "nash_conv/kuhn_poker" in results[0]["figures"]
    bot = sparring.evaluate("minimax", ["tic_tac_toe"], games_per_seat=4, opponents=["random", "minimax"], exact=False)
    assert [match["opponent"] for match in bot["matches"]] == ["random", "random", "minimax", "minimax"]
    assert bot["matches"][2]["intervals"]["return"]["mean"] == 0.0
    for text in ("random", "no_such_folder"):
        with pytest.raises(ConfigError, match="is not a run folder; to measure a bot, name environments"):
            sparring.evaluate(text)


def test_evaluate_counts_self_plays_attempts_and_best_of_n():
    options = {"games_per_seat": 4, "exact": False}
    team = sparring.evaluate("searcher", ["wide_search"], opponents=["searcher"], self_plays=3, **options)
    assert [row["plays"] for row in team["self_plays"]] == [3] and team["self_plays"][0]["figures"]["item_f1"][
        "mean"
    ] == 1.0
    trial = "trial attempts=2 environment='{name: rock_paper_scissors}'"
    trial_result = sparring.evaluate(
        "random", [trial], opponents=["biased weights='{rock: 3}'"], adaptation=True, **options
    )
    assert {len(row["attempts"]) for row in trial_result["adaptation"]} == {2}
    evaluation = sparring.evaluate("random", ["sudoku"], best_of=64, games_per_seat=4, exact=False)
    assert evaluation["best_of"] == 64 and evaluation["matches"][0]["intervals"]["return"]["mean"] == 1.0
    result_without_options = sparring.evaluate("random", ["sudoku"], **options)
    assert not {"best_of", "self_plays", "adaptation"} & result_without_options.keys()


def test_environments_take_options_and_a_health_rule_warns(tmp_path):
    for _ in range(2):
        game = sparring.make_environment("kuhn_poker", players=3, illegal={"rule": "retry", "retries": 2})
        assert (game.num_seats, game.illegal.rule) == (3, "retry")
    assert sparring.make_environment("nim").name == "nim"
    with pytest.raises(UnknownNameError, match="Did you mean 'players'"):
        sparring.make_environment("kuhn_poker", player=3)
    rule = "health.rules=[{metric: legal_rate, below: 2.0, action: stop}]"
    with pytest.warns(UserWarning, match="A health rule stopped the run after step 1"):
        assert sparring.train("kuhn-tiny", *QUICK, rule, run=tmp_path / "run").step == 1


def test_play_episodes_repeats_with_its_seed_and_groups_share_a_deal(run):
    def play_six(**options):
        return sparring.play_episodes("kuhn_poker", [run, "random"], plays=6, **options)

    episodes = play_six(group_size=3, seed=4)
    assert episodes == play_six(group_size=3, seed=4) != play_six(group_size=3, seed=5)
    assert [episode.group_id for episode in episodes] == [0, 0, 0, 1, 1, 1]
    assert {episode.agents for episode in episodes} == {("learner", "random")}
    initial_states = [episode.turns[0].state_key for episode in play_six(group_size=6)]
    assert len(set(initial_states)) == 1
    mirror = sparring.play_episodes(sparring.make_environment("kuhn_poker"), [run.policy, run], trained=[1])
    assert mirror[0].trained == (False, True) and len(set(mirror[0].agents)) == 1
    with pytest.raises(ConfigError, match="kuhn_poker has 2 seats, but there are 1 players"):
        sparring.play_episodes("kuhn_poker", [run])
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        sparring.play_episodes("kuhn_poker", ["rndom", run])


def test_a_loss_by_hand_in_two_calls():
    for _ in range(2):
        logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
        old_logprobs = logprobs.detach()
        batch = LossBatch(
            logprobs=logprobs,
            old_logprobs=old_logprobs,
            sampler_logprobs=old_logprobs,
            advantages=torch.tensor([3.0, -1.0]),
            sequence=torch.tensor([0, 0]),
            turn=torch.tensor([0, 0]),
            num_sequences=1,
        )
        sparring.loss("ppo_clip", batch, clip_low=0.1).values.sum().backward()
        assert logprobs.grad.tolist() == [-3.0, 1.0]
    with pytest.raises(UnknownNameError, match="Unknown loss"):
        sparring.loss("ppo", batch)


def wrong_calls(run):
    turns = sparring.turn_table(sparring.play_episodes("kuhn_poker", ["random", "random"]))
    return {
        "plays": (
            lambda: sparring.play_episodes("kuhn_poker", ["random"] * 2, plays=0),
            "plays=0 is not a whole number of at least 1",
        ),
        "group": (
            lambda: sparring.play_episodes("kuhn_poker", ["random"] * 2, group_size=0),
            "group_size=0 is not a whole number",
        ),
        "seed": (
            lambda: sparring.play_episodes("kuhn_poker", ["random"] * 2, seed="1"),
            "seed='1' is not a whole number",
        ),
        "trained": (
            lambda: sparring.play_episodes("kuhn_poker", ["random"] * 2, trained=[2]),
            r"trained=\[2\] is not a list of seats",
        ),
        "one text": (lambda: sparring.play_episodes("kuhn_poker", "random"), "players='random' is not a list"),
        "no player": (lambda: sparring.play_episodes("kuhn_poker", ["random", None]), "None is not a player"),
        "no environment": (lambda: sparring.play_episodes(None, ["random"]), "None is not an environment"),
        "make": (lambda: sparring.make_environment(None), "None is not a name of an environment"),
        "opponents": (lambda: sparring.evaluate(run, opponents="random"), "opponents='random' is not a list of texts"),
        "environments": (
            lambda: sparring.evaluate("random", "kuhn_poker"),
            "environments='kuhn_poker' is not a list of texts",
        ),
        "typo": (lambda: sparring.evaluate("runs/typo", ["kuhn_poker"]), "There is no run folder runs/typo"),
        "self_plays": (
            lambda: sparring.evaluate("random", ["kuhn_poker"], self_plays=1),
            "self_plays=1 is not a whole number of at least 2",
        ),
        "best_of": (
            lambda: sparring.evaluate("random", ["kuhn_poker"], best_of=0),
            "best_of=0 is not a whole number of at least 1",
        ),
        "number": (lambda: sparring.evaluate(5), "5 is not a path of a run folder"),
        "load": (lambda: sparring.load_run(None), "None is not a path of a run folder"),
        "step": (lambda: sparring.load_run(run.path, "5"), "step='5' is not a whole number"),
        "export": (lambda: run.export(None), "None is not a path"),
        "recipe": (lambda: sparring.train(5), "5 is not a recipe"),
        "change": (lambda: sparring.train("kuhn-tiny", {"steps": 5}), "is not a list of texts"),
        "rule": (
            lambda: sparring.train("kuhn-tiny", "health.rules=[{metric: no/such, above: 1.0}]"),
            "metric of a health rule",
        ),
        "episodes": (lambda: sparring.turn_table(None), "turn_table\\(\\) takes a list of episodes"),
        "table": (
            lambda: sparring.advantages("mars", [1]),
            "advantages\\(\\) takes an estimator's name and a turn table",
        ),
        "estimator": (lambda: sparring.advantages(None, turns), "advantages\\(\\) takes"),
    }


def test_wrong_input_is_refused_with_one_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (call, message) in wrong_calls(run).items():
        with pytest.raises(SparringError, match=message) as error:
            call()
        assert "\n" not in str(error.value), name
    assert list(tmp_path.iterdir()) == []


def test_a_bot_wins_over_a_folder_of_its_name_and_a_mapping_extends_a_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random").mkdir()
    assert sparring.evaluate("random", ["kuhn_poker"], games_per_seat=2)["agent"] == "random"
    run = sparring.train({"extends": "kuhn-tiny", "name": "own"}, *QUICK, run=tmp_path / "run")
    assert (run.config.name, run.config.credit.name) == ("own", "mars")


def test_an_interrupted_run_is_saved_and_its_error_names_the_step(tmp_path, monkeypatch):
    from sparring.core.process import GracefulStop

    original_enter = GracefulStop.__enter__
    monkeypatch.setattr(GracefulStop, "__enter__", lambda self: setattr(self, "requested", True) or self)
    with pytest.raises(KeyboardInterrupt, match="stopped before the first step was done"):
        sparring.train("kuhn-tiny", *QUICK, run=tmp_path / "run")
    monkeypatch.setattr(GracefulStop, "__enter__", original_enter)
    finished_run = sparring.train("kuhn-tiny", *QUICK, "steps=1", run=tmp_path / "one")
    monkeypatch.setattr(GracefulStop, "__enter__", lambda self: setattr(self, "requested", True) or self)
    with pytest.raises(KeyboardInterrupt, match="stopped after step 1 and saved; resume=True"):
        sparring.train("kuhn-tiny", *QUICK, run=finished_run.path, resume=True)
    assert sparring.load_run(finished_run.path).step == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_import_only_sparring(name):
    lines = (ROOT / "examples" / f"{name}.py").read_text().splitlines()
    assert [line for line in lines if line.startswith(("import", "from"))] == ["import sparring"]
