"""Every game trains and is evaluated, with two to four seats and under every rule for illegal replies."""

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.engine.local import LocalEngine
from sparring.run.evaluation import Evaluator
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from tests.estimators import played_for, required_rollout

MORE_THAN_TWO_SEATS = [
    ("kuhn_poker", {"players": 3}),
    ("leduc_poker", {"players": 3}),
    ("hanabi", {"players": 4, "size": "simple"}),
]
OPENSPIEL_GAMES = [("matrix_rps", {}), ("goofspiel", {"num_cards": 3}), ("catch", {})]


def train_and_evaluate(game, options, *, illegal=None, steps=2, is_evaluated=True, **changes):
    config = resolve(
        {
            "environments": [{"name": game, "options": options, "illegal": illegal or {"rule": "random"}}],
            "steps": steps,
            "threads": 1,
            "rollout": {"games_per_step": 8},
            "model": {"hidden_size": 16, "layers": 1, "heads": 2, "context": 2048},
            "evaluation": {"max_states": 2000, "opponents": [{"name": "random", "games_per_seat": 2}]},
            **changes,
        }
    )
    engine, state = LocalEngine(config), RunState()
    while state.step < config.steps:
        outcome = play_round(config, engine, Methods.of(config), state)
        state = outcome.state
        assert outcome.metrics.get("logprob_difference_max", 0.0) < 1e-4  # absent if no turn was left to learn from
        assert outcome.metrics["retried_games"] == 0
    if not is_evaluated:
        return outcome
    evaluator = Evaluator([game for game, _ in engine.environments], config.evaluation)
    return outcome, evaluator.measure(engine.agent("policy"), engine.root), engine


@pytest.mark.parametrize(
    ("game", "options"),
    [*((name, {}) for name in registry.names("environments")), *MORE_THAN_TWO_SEATS, *OPENSPIEL_GAMES],
)
def test_every_game_trains_and_is_evaluated(game, options):
    outcome, metrics, engine = train_and_evaluate(game, options)
    num_seats = engine.environments[0][0].num_seats
    assert len(outcome.episodes[0].returns) == num_seats
    assert sum(name.startswith("match/") and name.endswith("/return") for name in metrics) == num_seats


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
@pytest.mark.parametrize("payoff", ["zero_sum", "offender_only", "spiral", "mars"])
def test_every_rule_for_illegal_replies_trains(rule, payoff):
    outcome = train_and_evaluate(
        "kuhn_poker", {"players": 3}, is_evaluated=False, illegal={"rule": rule, "payoff": payoff, "penalty": 0.5}
    )
    assert outcome.metrics["legal_rate"] < 1
    assert (outcome.metrics["forfeit_rate"] > 0) == (rule == "forfeit")


CRITICS = {"value", "value_after", "token_value"}
REWARD_OPTIONS = {  # options that name the reward component of these estimators
    "ppr": {"process": "format_bonus"},
    "spae": {"accuracy": "format_bonus"},
    "ssl": {"component": "format_bonus"},
    "vpr": {"process": "game"},
}


@pytest.mark.parametrize("name", registry.names("credit"))
def test_every_estimator_runs_in_the_loop(name):
    losses = [{"name": "ppo_clip"}]
    if CRITICS & registry.load("credit", name).needs:
        losses.append({"name": "value_loss"})
    changes = {
        "losses": losses,
        "rollout": {"games_per_step": 8, "group_size": 4},
        "rewards": [{"name": "format_bonus"}],
    }
    # the returns of a zero-sum game sum to 0
    game = "tiny_hanabi" if name == "shapley" else "leduc_poker"
    for preset in (None, *registry.load("credit", name).presets):
        changes_for_estimator = {**changes, "rollout": {**changes["rollout"], **required_rollout(name, preset)}}
        options = {
            **REWARD_OPTIONS.get(name, {}),
            **({"process": "format_bonus", "skip_above": 1.0} if (name, preset) == ("vpr", "as_released") else {}),
        }
        outcome = train_and_evaluate(
            played_for(name, preset) or game,
            {},
            is_evaluated=False,
            credit={"name": name, "preset": preset, **options},
            **changes_for_estimator,
        )
        assert outcome.metrics["gradient_norm"] > 0


def test_a_run_of_several_games_drops_equal_groups():
    config = {
        "environments": [{"name": "kuhn_poker"}, {"name": "tiny_hanabi"}, {"name": "tic_tac_toe"}],
        "selection": {"name": "equal_groups", "policy": "drop"},
        "rollout": {"games_per_step": 24, "group_size": 4},
    }
    outcome, metrics, _ = train_and_evaluate("kuhn_poker", {}, **config)
    assert {episode.game for episode in outcome.episodes} == {"kuhn_poker", "tiny_hanabi", "tic_tac_toe"}
    assert 0 <= outcome.metrics["kept_share"] < 1
    assert {"nash_conv/kuhn_poker", "optimality_gap/tiny_hanabi"} <= set(metrics)
