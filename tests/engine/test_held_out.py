"""Games of weight 0 are held out: warmed up and measured, never trained on. A label tells two sizes of one game apart."""

from sparring.api.suite_player import Player
from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.engine.plan import describe
from sparring.league.seating import starts
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from sparring.run.warmup import warm_up

MINI, SIMPLE = {"name": "hanabi", "options": {"size": "mini"}}, {"name": "hanabi", "label": "large", "options": {"size": "simple"}}


def engine(*games, **changes):
    sizes = {"model": {"hidden_size": 16, "heads": 2, "context": 160}, "rollout": {"games_per_step": 16}}
    return LocalEngine(resolve({"environments": games, **sizes, **changes}))


def test_a_held_out_game_is_known_and_measured_but_never_played():
    run = engine(
        {"name": "leduc_poker", "weight": 0}, {"name": "kuhn_poker"}, {"name": "tic_tac_toe", "weight": 0}, warmup={"updates": 1, "games": 9},
        evaluation={"exact": False, "opponents": [{"name": "random", "games_per_seat": 2}]},
    )
    seen = []
    play, run.play = run.play, lambda specs, judging=None: seen.append([spec.game.name for spec in specs]) or play(specs, judging)
    warm_up(run.config, run)
    metrics = play_round(run.config, run, Methods.of(run.config), RunState()).metrics
    assert sorted(set(seen[0])) == ["kuhn_poker", "leduc_poker", "tic_tac_toe"]
    assert set(seen[1]) == {"kuhn_poker"}
    assert "legal_rate/kuhn_poker" in metrics
    assert "legal_rate/tic_tac_toe" not in metrics
    measured = Evaluator([game for game, _ in run.environments], run.config.evaluation).measure(run.agent("policy"), run.root)
    assert "match/tic_tac_toe/random/X/return" in measured
    plan = describe(run.config)
    assert (plan["games"], plan["held_out"]) == (["kuhn_poker"], ["leduc_poker", "tic_tac_toe"])


def test_a_held_out_last_game_is_not_the_fallback_of_rounding(monkeypatch):
    run = engine({"name": "kuhn_poker"}, {"name": "tic_tac_toe", "weight": 0})
    monkeypatch.setattr(type(run.root), "uniform", lambda self, index: 1.0)
    request = {"rollout": run.config.rollout, "matchmaker": Methods.of(run.config).matchmaker, "members": (), "root": run.root}
    assert {spec.game.name for spec in starts(0, games=run.environments, progress=0.0, **request)} == {"kuhn_poker"}


def test_labels_tell_two_sizes_of_a_game_apart():
    run = engine(MINI, SIMPLE, reorder_outcomes=True, rewards=[{"name": "draw_bonus"}])
    metrics = play_round(run.config, run, Methods.of(run.config), RunState()).metrics
    assert {"legal_rate/hanabi", "legal_rate/large"} <= set(metrics)


def test_a_suite_counts_a_held_out_game_as_held_out():
    from sparring.measure.suite import load_suite

    config = resolve({"environments": [{**MINI, "weight": 0}, {"name": "kuhn_poker"}]})
    player = Player.__new__(Player)
    object.__setattr__(player, "config", config)
    rows = {row.name: row for row in load_suite("mars")[1].rows}
    assert player.trained_on(rows["kuhn_poker-exact"]) is True
    assert player.trained_on(rows["hanabi_mini-coplay"]) is False
