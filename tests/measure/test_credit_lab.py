"""The credit lab finds what is known: unbiased estimators, documented biases, deliberate mistakes."""

from dataclasses import fields, replace

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, SparringError, UnknownNameError
from sparring.core.records import Credit
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.credit_lab import (
    CreditLab,
    LabPlan,
    bind_estimator,
    estimator_names,
    judgements_of,
    per_turn,
)
from sparring.measure.info_states import enumerate_info_states
from sparring.measure.lab_episodes import TablePolicy, cut, random_table, tiled

GAMES = {name: make_game(name) for name in ("kuhn_poker", "tiny_hanabi", "leduc_poker")}
STATES = {name: enumerate_info_states(game) for name, game in GAMES.items()}


def lab_of(name="kuhn_poker", seed=0, **plan):
    policy = random_table(STATES[name], Stream.from_seed(seed))
    return CreditLab(GAMES[name], policy, LabPlan(**{"episodes": 6000, "timed": False, "seed": seed, **plan}))


@pytest.fixture(scope="module")
def kuhn():
    return lab_of()


@pytest.fixture(scope="module")
def hanabi():
    return lab_of("tiny_hanabi")


def outcome(turns, state):
    return bind_estimator("outcome")(turns, state)


def flipped(turns, state):
    credit = outcome(turns, state)
    return replace(credit, advantages=-credit.advantages)


@pytest.mark.parametrize("name", ["outcome", "rloo", "exact_advantage"])
@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_unbiased_estimators_are_found_unbiased_without_control_variates_too(game, name, request):
    figures = request.getfixturevalue(game).row(name).gradient
    assert figures.bias_unpaired.low == 0.0
    assert figures.bias_unpaired.high < 0.25
    assert figures.bias.low <= 1e-6
    assert figures.bias.high < 1e-6
    assert figures.cosine.mean == pytest.approx(1.0)


@pytest.mark.parametrize("group_size", [2, 4])
def test_dr_grpo_is_found_to_be_short_by_one_over_the_group(group_size):
    figures = lab_of(group_size=group_size, batch_size=16, episodes=2000).row("grpo:dr_grpo").gradient
    assert figures.bias.mean == pytest.approx(1 / group_size)
    assert figures.bias_unpaired.low <= 1 / group_size <= figures.bias_unpaired.high
    assert figures.bias_scaled.mean == pytest.approx(0.0, abs=1e-6)
    assert figures.cosine.mean == pytest.approx(1.0)


@pytest.mark.always
def test_the_bias_of_a_mean_over_turns_is_found_and_falls_with_the_batch():
    small, large = (lab_of(batch_size=size, group_size=1).row("mars").gradient.bias for size in (4, 64))
    assert small.low > 0.1
    assert small.low > large.high


def test_a_wrong_sign_is_found(kuhn):
    right, wrong = kuhn.measure("right", outcome), kuhn.measure("wrong", flipped)
    assert wrong.gradient.cosine.mean == pytest.approx(-1.0)
    assert wrong.gradient.cosine.high < -0.99
    assert wrong.gradient.bias.mean == pytest.approx(2.0)
    assert wrong.gradient.bias_scaled.mean == 1.0
    assert wrong.gradient.variance == right.gradient.variance
    assert wrong.right_sign == pytest.approx(1 - right.right_sign)


def test_advantages_that_say_nothing_are_found(kuhn):
    found = kuhn.measure("one", lambda turns, state: Credit(advantages=np.ones(len(turns.reward))))
    assert found.gradient.bias.mean == pytest.approx(1.0)
    assert found.gradient.bias_unpaired.low <= 1.0 <= found.gradient.bias_unpaired.high
    assert found.effective == pytest.approx(1.0)
    nothing = kuhn.measure("zero", lambda turns, state: Credit(advantages=np.zeros(len(turns.reward))))
    assert (nothing.zeros, nothing.effective) == (1.0, 0.0)
    assert np.isnan(nothing.right_sign)


def test_a_mistake_in_one_seat_is_found_in_that_seat(hanabi):
    found = hanabi.measure("mixed", lambda turns, state: Credit(advantages=np.where(turns.seat == 0, 1.0, -1.0) * turns.reward))
    assert found.gradient.bias.low > 0.5
    first, second = found.seats.values()
    assert (first.cosine.mean, second.cosine.mean) == (pytest.approx(1.0), pytest.approx(-1.0))


@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_knowing_the_truth_has_the_least_variance(game, request):
    lab = request.getfixturevalue(game)
    exact, plain = lab.row("exact_advantage"), lab.row("outcome")
    assert exact.gradient.variance.high < plain.gradient.variance.low
    assert exact.gradient.batch_cosine.low > plain.gradient.batch_cosine.high
    assert exact.right_sign == 1.0
    assert 0.5 < plain.right_sign < 1.0


def test_a_scale_changes_only_what_it_should(kuhn):
    plain, half = (kuhn.measure("scaled", lambda t, s, f=f: Credit(advantages=f * outcome(t, s).advantages)) for f in (1.0, 0.5))
    assert half.gradient.bias.mean == pytest.approx(0.5)
    assert half.gradient.variance.mean == pytest.approx(plain.gradient.variance.mean / 4)
    for name in ("bias_scaled", "cosine", "variance_scaled", "batch_cosine"):
        assert getattr(half.gradient, name).mean == pytest.approx(getattr(plain.gradient, name).mean, abs=1e-6), name
    assert (half.right_sign, half.effective) == (plain.right_sign, pytest.approx(plain.effective))


@pytest.mark.always
def test_every_estimator_and_preset_there_is_gets_a_row():
    lab = lab_of(episodes=512)
    names = estimator_names("all")
    rows = lab.report(names).rows
    assert [row.estimator for row in rows] == names
    assert {name.partition(":")[0] for name in names} == set(registry.names("credit"))
    assert set(names) > {"mars:as_released", "grpo:dr_grpo"}
    for row in rows:
        assert (row.refused is None) == (row.gradient is not None), row
        assert row.refused is None or row.refused.startswith("credit"), row


def test_the_same_seed_gives_the_same_report_and_another_one_another():
    names = ["outcome", "grpo", "rae", "gae lam=0.5"]
    first, again, other = (lab_of(seed=seed, episodes=640, critic="noisy").report(names) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_refusals_are_rows(kuhn):
    assert "needs the column" in replace_column(kuhn, "value").row("gae").refused
    assert kuhn.row("grpo").refused is None
    with pytest.raises(SparringError, match="gave the advantage nan in turn 3"):
        kuhn.measure("bad", lambda turns, state: Credit(advantages=np.where(np.arange(len(turns.reward)) == 3, np.nan, 1.0)))


def replace_column(lab, name):
    poor = object.__new__(CreditLab)
    poor.__dict__.update(lab.__dict__, tables=[replace(table, **{name: None}) for table in lab.tables])
    return poor


def test_batches_come_in_order_with_the_state_carried_on_and_the_burn_in_left_out():
    seen = []

    def counting(turns, state):
        calls = state.get("calls", 0)
        seen.append((calls, int(turns.episode.min()), int(turns.episode.max())))
        assert turns.trajectory[0] == 0
        return Credit(advantages=np.full(len(turns.reward), float(calls)), state={"calls": calls + 1})

    lab = lab_of(episodes=320, batch_size=32, burn_in=0.3)
    assert (lab.played.num_batches, lab.plan.batches) == (7, 10)
    row = lab.measure("counting", counting)
    assert seen == [(k, 32 * k, 32 * k + 31) for k in range(10)]
    assert row.zeros == 0.0  # the first call's advantages are 0 and do not count
    advantages = lab.advantages("counting", counting)[lab.first :]
    assert sorted(set(advantages)) == [3, 4, 5, 6, 7, 8, 9]


def test_columns_are_the_truth():
    lab = lab_of("leduc_poker", episodes=512)
    turns, played = lab.played.turns, lab.played
    assert all((getattr(turns, field.name) is None) == (field.name in ("process_logprob", "cut", "state_group", "committed", "memory", "attempt", "note", "opponents", "playout", "playout_before", "candidate_value", "candidate_judged", "failed", "wideseek_turns")) for field in fields(turns))
    for row in range(0, len(turns.reward), 37):
        index, choice = played.state[row], played.choice[row]
        probabilities = lab.policy.rows[index]
        assert turns.action_names[turns.action[row]] == lab.policy.states.queries[index].legal_actions[choice]
        assert turns.logprob[row] == pytest.approx(np.log(probabilities[choice]))
        assert turns.reference_logprob[row] == pytest.approx(-np.log(len(probabilities)))
        assert turns.state_value[row] == pytest.approx(probabilities @ lab.values.action[index])
        assert turns.action_value[row] == lab.values.action[index][choice]
        assert turns.default_value[row] == pytest.approx(lab.values.action[index].mean())
        assert turns.value_after[row] == (0.0 if turns.done[row] else turns.value[row + 1])
    assert np.array_equal(turns.value, turns.state_value)
    assert np.array_equal(turns.reward, turns.components["game"])


def test_a_critic_expects_what_is_still_to_be_earned_where_earlier_turns_are_paid():
    """A round of the dilemma is paid at once: before the second one the exact V holds it, and the critic does not."""
    game = make_game("repeated_dilemma")
    policy = random_table(enumerate_info_states(game), Stream.from_seed(0))
    lab = CreditLab(game, policy, LabPlan(episodes=640, timed=False))
    turns, paid = lab.played.turns, np.roll(lab.played.turns.reward, 1)
    second = turns.turn_index == 1
    assert np.any(paid[second] != 0) and np.all(second == turns.done)
    assert turns.value[second] == pytest.approx((turns.state_value - paid)[second])
    assert turns.value[~second] == pytest.approx(turns.state_value[~second])
    steps = {name: lab.row(name).gradient.bias_unpaired for name in ("gae lam=0.0", "spa grounding=0", "exact_advantage")}
    assert all(found.low == 0.0 for found in steps.values()), steps


@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_contributions_of_a_fitted_head_bias_nothing(game, request):
    lab = request.getfixturevalue(game)
    plain, values = (lab.measure(name, estimator).gradient.bias_unpaired for name, estimator in (
        ("plain", bind_estimator("spa grounding=0")),
        ("values", lambda turns, state: bind_estimator("spa grounding=0")(turns, state)),  # what no estimator declares: a state's values
    ))
    assert plain.low == 0.0 and plain.high < 0.25
    assert values.low > 0.5


def test_critics_are_as_wrong_as_they_are_said_to_be():
    exact, noisy, zero = (lab_of(episodes=512, critic=critic).played for critic in ("exact", "noisy", "zero"))
    assert not zero.turns.value.any()
    error = noisy.turns.value - exact.turns.value
    assert 0.1 < error.std() < 2.0
    assert all(len(set(error[exact.state == index].round(9))) == 1 for index in set(exact.state))
    assert np.array_equal(noisy.turns.state_value, exact.turns.state_value)


def test_cutting_and_tiling_keep_trajectories_apart():
    turns = lab_of(episodes=256).played.turns
    twice = tiled(turns, len(turns.reward) + 1)
    assert len(twice.reward) == 2 * len(turns.reward)
    for name in ("episode", "group", "trajectory"):
        column = getattr(twice, name)
        assert len(set(column)) == 2 * len(set(getattr(turns, name)))
    assert np.array_equal(cut(twice, 0, len(turns.reward)).reward, turns.reward)
    half = cut(twice, len(turns.reward), 2 * len(turns.reward))
    assert np.array_equal(half.trajectory, turns.trajectory)
    assert (np.diff(twice.trajectory) >= 0).all()


def test_credit_per_token_becomes_its_mean_over_the_turn(kuhn):
    turns = replace(cut(kuhn.played.turns, 0, 3), n_tokens=np.array([2, 0, 3]))
    credit = Credit(advantages=np.array([1.0, 2.0, 3.0, 4.0, 8.0]), level="token")
    assert per_turn(credit, turns).tolist() == [1.5, 0.0, 5.0]


def test_seconds_are_measured_when_asked_for():
    assert lab_of(episodes=256, timed=True).row("outcome").seconds > 0
    assert lab_of(episodes=256).row("outcome").seconds is None


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("outcom", UnknownNameError, "outcome"),
        ("mars:as_releasd", UnknownNameError, "as_released"),
        ("gae lamb=1", UnknownNameError, "lam"),
        ("gae lam=high", ConfigError, "lam"),
        ("gae lam", ConfigError, "key=value"),
        (" , ", ConfigError, "names none"),
    ],
)
def test_bad_lists_of_estimators_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        estimator_names(text)


def test_a_list_may_have_presets_and_options():
    assert estimator_names("rloo, mars:as_released,gae lam=0.5,rloo") == ["rloo", "mars:as_released", "gae lam=0.5"]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (dict(episodes=64), "counted batches"),
        (dict(episodes=320, burn_in=0.9), "counted batches"),
        (dict(burn_in=1.0), "burn-in"),
        (dict(batch_size=60), "whole groups"),
    ],
)
def test_plans_that_cannot_be_are_refused(plan, message):
    with pytest.raises(ConfigError, match=message):
        lab_of(**plan)


def test_a_policy_without_a_gradient_is_refused():
    rows = [np.eye(len(query.legal_actions))[0] for query in STATES["kuhn_poker"].queries]
    with pytest.raises(ConfigError, match="exact gradient"):
        CreditLab(GAMES["kuhn_poker"], TablePolicy.of(STATES["kuhn_poker"], rows), LabPlan())


def test_estimators_that_read_a_judges_reward_are_paid_by_one_that_knows_the_values(kuhn):
    seen = []

    def watching(turns, state):
        seen.append(turns)
        return outcome(turns, state)

    plain = kuhn.tables[0]
    assert list(plain.components) == ["game"]
    for name in ("ppr", "spae", "ssl", "vpr"):
        bound = bind_estimator(name)
        seen.clear()
        kuhn.advantages(name, replace(bound, plugin=replace(bound.plugin, function=lambda turns, state, **_: watching(turns, state))))
        table = seen[0]
        best = table.components["best_action"]
        assert set(best.tolist()) == {0.0, 1.0}
        assert table.reward == pytest.approx(plain.reward + best)
        assert table.components["game"] == pytest.approx(plain.reward)
        exact = kuhn.whole.advantage[: len(best)]
        assert (exact[best == 1] >= -1e-9).all() and (exact[best == 0] <= 1e-9).all()
    paid = bind_estimator("vpr process=playout_value")
    assert kuhn.whole.judged(judgements_of(paid, kuhn.whole)).turns.components["playout_value"] == pytest.approx(kuhn.whole.turns.action_value)


@pytest.mark.parametrize("name", ["ppr", "spae", "ssl", "vpr", "vpr process=playout_value"])
def test_estimators_with_a_perfect_judge_are_measured(name):
    row = lab_of(episodes=640, burn_in=0.25, timed=True).row(name)
    assert row.refused is None
    assert row.gradient.cosine.mean > 0.5
    assert row.seconds is not None


def test_a_process_model_is_trained_in_runs_only(kuhn):
    assert "only a run trains" in kuhn.row("oprl").refused and "oprl:policy" in kuhn.row("oprl").refused
    assert kuhn.row("oprl:policy").refused is None


def test_all_other_estimators_see_the_games_own_rewards(kuhn):
    for name in ("outcome", "grpo", "mars:as_released"):
        assert judgements_of(bind_estimator(name), kuhn.whole) == []
    missing = kuhn.row("ppr process=nothing").refused
    assert "no reward component 'nothing'" in missing
