from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, SparringError, UnknownNameError
from sparring.core.records import Credit
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.credit_lab import (
    CreditLab,
    GradientLayout,
    GradientProducts,
    LabPlan,
    advantage_per_turn,
    bind_estimator,
    estimator_names,
    figures,
    judgements_of,
    subtract_controls,
)
from sparring.measure.info_states import enumerate_info_states, exact_values
from sparring.measure.lab_episodes import (
    TablePolicy,
    improved_table,
    random_table,
    repeat_table,
    slice_turns,
)
from sparring.ops.groups import trajectory_starts
from sparring.play.turn_table import ordered_turns

TEAM_OPTIONS = {"items": 2, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 2}
GAMES = {name: make_game(name) for name in ("kuhn_poker", "tiny_hanabi", "leduc_poker")}
GAMES["wide_search"] = make_game("wide_search", options=TEAM_OPTIONS)
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


def negated_outcome(turns, state):
    credit = outcome(turns, state)
    return replace(credit, advantages=-credit.advantages)


@pytest.mark.parametrize("name", ["outcome", "rloo", "exact_advantage"])
@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_unbiased_estimators_are_measured_as_unbiased(game, name, request):
    figures = request.getfixturevalue(game).row(name).gradient
    assert figures.bias_unpaired.low == 0.0
    assert figures.bias_unpaired.high < 0.25
    assert figures.bias.low <= 1e-6
    assert figures.bias.high < 1e-6
    assert figures.cosine.mean == pytest.approx(1.0)


@pytest.mark.parametrize("group_size", [2, 4])
def test_measured_bias_of_dr_grpo_is_one_over_the_group_size(group_size):
    figures = lab_of(group_size=group_size, batch_size=16, episodes=2000).row("grpo:dr_grpo").gradient
    assert figures.bias.mean == pytest.approx(1 / group_size)
    assert figures.bias_unpaired.low <= 1 / group_size <= figures.bias_unpaired.high
    assert figures.bias_scaled.mean == pytest.approx(0.0, abs=1e-6)
    assert figures.cosine.mean == pytest.approx(1.0)


@pytest.mark.always
def test_the_bias_of_mars_is_measured_and_falls_with_the_batch():
    small_batch, large_batch = (lab_of(batch_size=size, group_size=1).row("mars").gradient.bias for size in (4, 64))
    assert small_batch.low > 0.1
    assert small_batch.low > large_batch.high


def test_a_flipped_sign_is_detected(kuhn):
    outcome_row, negated_row = kuhn.measure("right", outcome), kuhn.measure("wrong", negated_outcome)
    assert negated_row.gradient.cosine.mean == pytest.approx(-1.0)
    assert negated_row.gradient.cosine.high < -0.99
    assert negated_row.gradient.bias.mean == pytest.approx(2.0)
    assert negated_row.gradient.bias_scaled.mean == 1.0
    assert negated_row.gradient.variance == outcome_row.gradient.variance
    assert negated_row.right_sign == pytest.approx(1 - outcome_row.right_sign)


def test_constant_and_zero_advantages_are_detected(kuhn):
    constant_row = kuhn.measure("one", lambda turns, state: Credit(advantages=np.ones(len(turns.reward))))
    assert constant_row.gradient.bias.mean == pytest.approx(1.0)
    assert constant_row.gradient.bias_unpaired.low <= 1.0 <= constant_row.gradient.bias_unpaired.high
    assert constant_row.effective == pytest.approx(1.0)
    zero_row = kuhn.measure("zero", lambda turns, state: Credit(advantages=np.zeros(len(turns.reward))))
    assert (zero_row.zeros, zero_row.effective) == (1.0, 0.0)
    assert np.isnan(zero_row.right_sign)


def test_an_error_in_one_seat_is_reported_for_that_seat(hanabi):
    row = hanabi.measure(
        "mixed", lambda turns, state: Credit(advantages=np.where(turns.seat == 0, 1.0, -1.0) * turns.reward)
    )
    assert row.gradient.bias.low > 0.5
    first_seat, second_seat = row.seats.values()
    assert (first_seat.cosine.mean, second_seat.cosine.mean) == (pytest.approx(1.0), pytest.approx(-1.0))


@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_exact_advantages_have_the_lowest_variance(game, request):
    lab = request.getfixturevalue(game)
    exact_row, outcome_row = lab.row("exact_advantage"), lab.row("outcome")
    assert exact_row.gradient.variance.high < outcome_row.gradient.variance.low
    assert exact_row.gradient.batch_cosine.low > outcome_row.gradient.batch_cosine.high
    assert exact_row.right_sign == 1.0
    assert 0.5 < outcome_row.right_sign < 1.0


def test_scaled_advantages_change_only_figures_that_depend_on_gradient_length(kuhn):
    full_scale, half_scale = (
        kuhn.measure(
            "scaled", lambda turns, state, scale=scale: Credit(advantages=scale * outcome(turns, state).advantages)
        )
        for scale in (1.0, 0.5)
    )
    assert half_scale.gradient.bias.mean == pytest.approx(0.5)
    assert half_scale.gradient.variance.mean == pytest.approx(full_scale.gradient.variance.mean / 4)
    for name in ("bias_scaled", "cosine", "variance_scaled", "batch_cosine"):
        assert getattr(half_scale.gradient, name).mean == pytest.approx(
            getattr(full_scale.gradient, name).mean, abs=1e-6
        ), name
    assert (half_scale.right_sign, half_scale.effective) == (full_scale.right_sign, pytest.approx(full_scale.effective))


@pytest.mark.always
def test_every_estimator_and_preset_has_a_row():
    lab = lab_of(episodes=512)
    names = estimator_names("all")
    rows = lab.report(names).rows
    assert [row.estimator for row in rows] == names
    assert {name.partition(":")[0] for name in names} == set(registry.names("credit"))
    assert set(names) > {"mars:as_released", "grpo:dr_grpo"}
    for row in rows:
        assert (row.refused is None) == (row.gradient is not None), row
        assert row.refused is None or row.refused.startswith("credit"), row


def test_the_report_depends_only_on_the_seed():
    names = ["outcome", "grpo", "rae", "gae lam=0.5"]
    report, repeated_report, report_of_other_seed = (
        lab_of(seed=seed, episodes=640, critic="noisy").report(names) for seed in (0, 0, 1)
    )
    assert report == repeated_report
    assert report != report_of_other_seed


def test_refused_estimators_have_rows(kuhn):
    assert "needs the column" in without_column(kuhn, "value").row("gae").refused
    assert kuhn.row("grpo").refused is None
    with pytest.raises(SparringError, match="returned the advantage nan in turn 3"):
        kuhn.measure(
            "bad", lambda turns, state: Credit(advantages=np.where(np.arange(len(turns.reward)) == 3, np.nan, 1.0))
        )


def without_column(lab, name):
    changed_lab = object.__new__(CreditLab)
    changed_lab.__dict__.update(lab.__dict__, tables=[replace(table, **{name: None}) for table in lab.tables])
    return changed_lab


def test_batches_are_in_order_with_state_and_without_the_burn_in():
    batch_numbers = []

    def count_calls(turns, state):
        calls = state.get("calls", 0)
        batch_numbers.append((calls, int(turns.episode.min()), int(turns.episode.max())))
        assert turns.trajectory[0] == 0
        return Credit(advantages=np.full(len(turns.reward), float(calls)), state={"calls": calls + 1})

    lab = lab_of(episodes=320, batch_size=32, burn_in=0.3)
    assert (lab.counted_turns.num_batches, lab.plan.batches) == (7, 10)
    row = lab.measure("counting", count_calls)
    assert batch_numbers == [(k, 32 * k, 32 * k + 31) for k in range(10)]
    assert row.zeros == 0.0  # the first call's advantages are 0 and do not count
    advantages = lab.advantages("counting", count_calls)[lab.first_counted_turn :]
    assert sorted(set(advantages)) == [3, 4, 5, 6, 7, 8, 9]


def test_turn_columns_have_exact_values():
    lab = lab_of("leduc_poker", episodes=512)
    turns, lab_episodes = lab.counted_turns.turns, lab.counted_turns
    assert all(
        (getattr(turns, field.name) is None)
        == (
            field.name
            in (
                "process_logprob",
                "cut",
                "state_group",
                "committed",
                "memory",
                "attempt",
                "note",
                "opponents",
                "playout",
                "playout_before",
                "candidate_value",
                "candidate_judged",
                "failed",
                "wideseek_turns",
            )
        )
        for field in fields(turns)
    )
    for row in range(0, len(turns.reward), 37):
        index, choice = lab_episodes.state[row], lab_episodes.choice[row]
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


def test_a_critic_predicts_future_rewards_not_earlier_ones():
    """In round 2 of the dilemma, the exact value includes the payoff of round 1; the critic's value excludes it."""
    game = make_game("repeated_dilemma")
    policy = random_table(enumerate_info_states(game), Stream.from_seed(0))
    lab = CreditLab(game, policy, LabPlan(episodes=640, timed=False))
    turns, previous_rewards = lab.counted_turns.turns, np.roll(lab.counted_turns.turns.reward, 1)
    is_second_round = turns.turn_index == 1
    assert np.any(previous_rewards[is_second_round] != 0) and np.all(is_second_round == turns.done)
    assert turns.value[is_second_round] == pytest.approx((turns.state_value - previous_rewards)[is_second_round])
    assert turns.value[~is_second_round] == pytest.approx(turns.state_value[~is_second_round])
    biases = {
        name: lab.row(name).gradient.bias_unpaired for name in ("gae lam=0.0", "spa grounding=0", "exact_advantage")
    }
    assert all(interval.low == 0.0 for interval in biases.values()), biases


@pytest.mark.parametrize("game", ["kuhn", "hanabi"])
def test_contributions_of_a_fitted_head_add_no_bias(game, request):
    lab = request.getfixturevalue(game)
    estimator = bind_estimator("spa grounding=0")

    def undeclared_estimator(
        turns, state
    ):  # does not declare that it reads contributions, so it gets the values of states
        return estimator(turns, state)

    bias_with_contributions = lab.measure("plain", estimator).gradient.bias_unpaired
    bias_with_values = lab.measure("values", undeclared_estimator).gradient.bias_unpaired
    assert bias_with_contributions.low == 0.0 and bias_with_contributions.high < 0.25
    assert bias_with_values.low > 0.5


def test_critics_have_the_configured_error():
    exact_critic, noisy_critic, zero_critic = (
        lab_of(episodes=512, critic=critic).counted_turns for critic in ("exact", "noisy", "zero")
    )
    assert not zero_critic.turns.value.any()
    error = noisy_critic.turns.value - exact_critic.turns.value
    assert 0.1 < error.std() < 2.0
    assert all(len(set(error[exact_critic.state == index].round(9))) == 1 for index in set(exact_critic.state))
    assert np.array_equal(noisy_critic.turns.state_value, exact_critic.turns.state_value)


def test_slicing_and_tiling_keep_trajectories_separate():
    turns = lab_of(episodes=256).counted_turns.turns
    repeated_turns = repeat_table(turns, len(turns.reward) + 1)
    assert len(repeated_turns.reward) == 2 * len(turns.reward)
    for name in ("episode", "group", "trajectory"):
        column = getattr(repeated_turns, name)
        assert len(set(column)) == 2 * len(set(getattr(turns, name)))
    assert np.array_equal(slice_turns(repeated_turns, 0, len(turns.reward)).reward, turns.reward)
    second_half = slice_turns(repeated_turns, len(turns.reward), 2 * len(turns.reward))
    assert np.array_equal(second_half.trajectory, turns.trajectory)
    assert (np.diff(repeated_turns.trajectory) >= 0).all()


def test_credit_per_token_becomes_its_mean_over_the_turn(kuhn):
    turns = replace(slice_turns(kuhn.counted_turns.turns, 0, 3), n_tokens=np.array([2, 0, 3]))
    credit = Credit(advantages=np.array([1.0, 2.0, 3.0, 4.0, 8.0]), level="token")
    assert advantage_per_turn(credit, turns).tolist() == [1.5, 0.0, 5.0]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("outcom", UnknownNameError, "outcome"),
        ("mars:as_releasd", UnknownNameError, "as_released"),
        ("gae lamb=1", UnknownNameError, "lam"),
        ("gae lam=high", ConfigError, "lam"),
        ("gae lam", ConfigError, "key=value"),
        (" , ", ConfigError, "names no estimator"),
    ],
)
def test_invalid_lists_of_estimators_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        estimator_names(text)


def test_a_list_can_have_presets_and_options():
    assert estimator_names("rloo, mars:as_released,gae lam=0.5,rloo") == ["rloo", "mars:as_released", "gae lam=0.5"]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (dict(episodes=64), "counted batches"),
        (dict(episodes=320, burn_in=0.9), "counted batches"),
        (dict(burn_in=1.0), "burn-in"),
        (dict(batch_size=60), "whole groups"),
        (dict(playouts=0), "--playouts 0 must be at least 1"),
        (dict(reward="best_action"), "--reward 'best_action' reads verdicts, which the lab does not have"),
    ],
)
def test_impossible_plans_are_refused(plan, message):
    with pytest.raises(ConfigError, match=message):
        lab_of(**plan)


def test_a_policy_without_a_gradient_is_refused():
    rows = [np.eye(len(query.legal_actions))[0] for query in STATES["kuhn_poker"].queries]
    with pytest.raises(ConfigError, match="exact gradient"):
        CreditLab(GAMES["kuhn_poker"], TablePolicy.of(STATES["kuhn_poker"], rows), LabPlan())


def test_process_rewards_come_from_a_judge_with_exact_values(kuhn):
    tables = []

    def record_table(turns, state):
        tables.append(turns)
        return outcome(turns, state)

    plain_table = kuhn.tables[0]
    assert list(plain_table.components) == ["game"]
    for name in ("ppr", "spae", "ssl", "vpr"):
        estimator = bind_estimator(name)
        tables.clear()
        kuhn.advantages(
            name,
            replace(
                estimator,
                plugin=replace(estimator.plugin, function=lambda turns, state, **_: record_table(turns, state)),
            ),
        )
        table = tables[0]
        best_action_rewards = table.components["best_action"]
        assert set(best_action_rewards.tolist()) == {0.0, 1.0}
        assert table.reward == pytest.approx(plain_table.reward + best_action_rewards)
        assert table.components["game"] == pytest.approx(plain_table.reward)
        exact_advantages = kuhn.all_turns.advantage[: len(best_action_rewards)]
        assert (exact_advantages[best_action_rewards == 1] >= -1e-9).all() and (
            exact_advantages[best_action_rewards == 0] <= 1e-9
        ).all()
    playout_estimator = bind_estimator("vpr process=playout_value")
    assert kuhn.all_turns.with_judgements(judgements_of(playout_estimator, kuhn.all_turns)).turns.components[
        "playout_value"
    ] == pytest.approx(kuhn.all_turns.turns.action_value)


@pytest.mark.parametrize("name", ["ppr", "spae", "ssl", "vpr", "vpr process=playout_value"])
def test_estimators_that_read_judgements_are_measured_with_exact_ones(name):
    row = lab_of(episodes=640, burn_in=0.25, timed=True).row(name)
    assert row.refused is None
    assert row.gradient.cosine.mean > 0.5
    assert row.seconds is not None


def test_estimators_with_a_process_model_are_refused(kuhn):
    assert "only a run trains" in kuhn.row("oprl").refused and "oprl:policy" in kuhn.row("oprl").refused
    assert kuhn.row("oprl:policy").refused is None


def test_other_estimators_get_the_rewards_of_the_game(kuhn):
    for name in ("outcome", "grpo", "mars:as_released"):
        assert judgements_of(bind_estimator(name), kuhn.all_turns) == []
    refusal = kuhn.row("ppr process=nothing").refused
    assert "no reward component 'nothing'" in refusal


def make_generator(seed):
    return np.random.Generator(np.random.Philox(seed))


def dense_layout(batches, parameters):
    """Return a layout in which every batch has a gradient for every parameter, for gradients [batches * parameters]."""
    no_turns = np.zeros(0, dtype=np.int64)
    return GradientLayout(
        num_batches=batches,
        num_parameters=parameters,
        batch_size=1,
        turn=no_turns,
        slot=no_turns,
        score=np.zeros(0),
        batch=np.repeat(np.arange(batches), parameters),
        parameter=np.tile(np.arange(parameters), batches),
    )


def make_products(gradients, exact_gradient):
    return GradientProducts.of(dense_layout(*gradients.shape), gradients.ravel(), exact_gradient)


def naive_moments(gradients, exact_gradient):
    """Return the unbiased estimates by sums over pairs of different batches."""
    squared_length, unit = exact_gradient @ exact_gradient, exact_gradient / np.linalg.norm(exact_gradient)
    pairs = [(i, j) for i in range(len(gradients)) for j in range(len(gradients)) if i != j]
    gradients_across = gradients - np.outer(gradients @ unit, unit)
    return {
        "bias": np.mean([(gradients[i] - exact_gradient) @ (gradients[j] - exact_gradient) for i, j in pairs])
        / squared_length,
        "along": gradients.mean(axis=0) @ exact_gradient / squared_length,
        "across": np.mean([gradients_across[i] @ gradients_across[j] for i, j in pairs]) / squared_length,
        "variance": gradients.var(axis=0, ddof=1).sum() / squared_length,
    }


def test_moments_and_leave_one_out_values_equal_plain_loops():
    rng = make_generator(0)
    gradients, exact_gradient = rng.normal(size=(6, 4)), rng.normal(size=4)
    estimates, leave_one_out = make_products(gradients, exact_gradient).estimates()
    for name, value in naive_moments(gradients, exact_gradient).items():
        assert getattr(estimates, name) == pytest.approx(value)
        expected_leave_one_out = [
            naive_moments(np.delete(gradients, k, axis=0), exact_gradient)[name] for k in range(6)
        ]
        assert getattr(leave_one_out, name) == pytest.approx(np.array(expected_leave_one_out))


def test_a_shift_equals_shifted_gradients():
    rng = make_generator(1)
    gradients, exact_gradient = rng.normal(size=(5, 3)), rng.normal(size=3)
    shifted_products = GradientProducts.of(dense_layout(5, 3), gradients.ravel(), exact_gradient, shift=0.7)
    expected_products = make_products(gradients + 0.7 * exact_gradient, exact_gradient)
    for name in ("squares", "with_sum", "along"):
        assert getattr(shifted_products, name) == pytest.approx(getattr(expected_products, name))


def test_gradients_of_batches_equal_plain_loops():
    rng = make_generator(2)
    states = SimpleNamespace(queries=[SimpleNamespace(seat=0)] * 3)
    policy = TablePolicy.of(states, [np.array([0.2, 0.8]), np.array([0.1, 0.3, 0.6]), np.array([1.0])])
    state, batch = rng.integers(0, 3, 40), np.sort(rng.integers(0, 4, 40))
    choice = np.array([rng.integers(0, len(policy.rows[index])) for index in state])
    lab_episodes = SimpleNamespace(state=state, choice=choice, batch=batch, num_batches=4, batch_size=5)
    layout = GradientLayout.of(lab_episodes, policy)
    advantages = rng.normal(size=40)
    expected = np.zeros((4, 6))
    for state_index, chosen_index, batch_index, advantage in zip(state, choice, batch, advantages, strict=True):
        for action_index, probability in enumerate(policy.rows[state_index]):
            expected[batch_index, policy.starts[state_index] + action_index] += (
                advantage * ((action_index == chosen_index) - probability) / 5
            )
    gradients = np.zeros((4, 6))
    gradients[layout.batch, layout.parameter] = layout.gradients(advantages)
    assert gradients == pytest.approx(expected)
    assert layout.total(layout.gradients(advantages)) == pytest.approx(expected.sum(axis=0))


def test_estimates_are_unbiased_and_intervals_cover_exact_values():
    exact_gradient = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 2.0])
    mean = 0.8 * exact_gradient + np.array([0.0, 0.0, 0.0, 0.6, -0.3, 0.0])
    length = np.linalg.norm(exact_gradient)
    exact_values = {
        "bias": np.linalg.norm(mean - exact_gradient) / length,
        "cosine": mean @ exact_gradient / np.linalg.norm(mean) / length,
        "variance": 6 * 4.0 / length**2,
        "variance_scaled": 6 * 4.0 * length**2 / (mean @ exact_gradient) ** 2,
    }
    exact_values["bias_scaled"] = np.sqrt(1 - exact_values["cosine"] ** 2)
    rng = make_generator(3)
    squared_biases, num_covered = [], dict.fromkeys(exact_values, 0)
    for _ in range(300):
        sampled_products = make_products(mean + 2.0 * rng.normal(size=(40, 6)), exact_gradient)
        squared_biases.append(float(sampled_products.estimates()[0].bias))
        estimates = figures(sampled_products, sampled_products)
        for name, value in exact_values.items():
            interval = getattr(estimates, name)
            num_covered[name] += interval.low <= value <= interval.high
    assert np.mean(squared_biases) == pytest.approx(
        exact_values["bias"] ** 2, abs=4 * np.std(squared_biases) / np.sqrt(300)
    )
    assert all(count >= 0.9 * 300 for count in num_covered.values()), num_covered


def test_control_variates_keep_the_mean_and_reduce_the_noise():
    rng, exact_gradient = make_generator(5), np.array([1.0, -0.5, 0.25])
    noise, residual = rng.normal(size=(50, 3)), 0.1 * rng.normal(size=(50, 3))
    control, unrelated = exact_gradient + noise, rng.normal(size=(50, 3))
    gradients = 1.3 * exact_gradient + 2.0 * noise + residual
    layout = dense_layout(50, 3)
    paired = subtract_controls(
        layout, gradients.ravel(), exact_gradient, np.array([control.ravel(), unrelated.ravel()]), np.array([1.0, 0.0])
    )
    without_control = make_products(gradients, exact_gradient)
    paired_figures, unpaired_figures = figures(without_control, paired), figures(without_control, without_control)
    assert paired_figures.bias.low <= 0.3 <= paired_figures.bias.high
    assert paired_figures.bias.high - paired_figures.bias.low < 0.3 * (
        unpaired_figures.bias.high - unpaired_figures.bias.low
    )
    assert paired_figures.bias_unpaired == unpaired_figures.bias
    assert paired_figures.variance == unpaired_figures.variance


def test_opposite_and_vanishing_gradients():
    rng, exact_gradient = make_generator(6), np.array([1.0, 2.0])
    gradients = exact_gradient + 0.1 * rng.normal(size=(30, 2))
    opposite = make_products(-gradients, exact_gradient)
    opposite_figures = figures(opposite, opposite)
    assert (
        opposite_figures.bias_scaled.low,
        opposite_figures.bias_scaled.high,
        opposite_figures.variance_scaled.mean,
    ) == (1.0, 1.0, np.inf)
    zero_gradients = make_products(0.0 * gradients, exact_gradient)
    zero_figures = figures(zero_gradients, zero_gradients)
    assert (
        zero_figures.bias.mean,
        zero_figures.bias_scaled.mean,
        zero_figures.variance.mean,
        zero_figures.batch_cosine.mean,
    ) == (1.0, 1.0, 0.0, 0.0)
    assert np.isnan(zero_figures.cosine.mean)


@pytest.mark.parametrize("bias", [0.0, 0.1, 0.2])
def test_intervals_cover_small_biases_when_the_noise_has_one_direction(bias):
    """A jackknife interval misses a bias of 0.1 in 20% of these samples, because noise and bias can cancel."""
    exact_gradient, rng, num_covered = np.array([1.0, 0.0]), make_generator(7), 0
    for _ in range(300):
        sampled_products = make_products(
            np.array([1.0, bias]) + np.outer(rng.normal(size=50), [0.0, 1.0]), exact_gradient
        )
        estimates = figures(sampled_products, sampled_products)
        num_covered += all(
            interval.low <= value <= interval.high
            for interval, value in (
                (estimates.bias, bias),
                (estimates.bias_unpaired, bias),
                (estimates.bias_scaled, bias / np.hypot(1, bias)),
                (estimates.cosine, 1 / np.hypot(1, bias)),
            )
        )
    assert num_covered >= 0.9 * 300


def test_the_error_of_products_is_that_of_normal_noise():
    rng, scale = make_generator(8), np.array([1.0, 2.0, 0.5])
    error = np.mean([make_products(rng.normal(size=(60, 3)) * scale, np.ones(3)).pair_error for _ in range(20)])
    assert error == pytest.approx(np.sqrt(2 * (scale**4).sum() / (60 * 59)), rel=0.15)


@pytest.fixture(scope="module")
def kuhn_columns():
    return lab_of(episodes=256)


def value_of_history(lab, history, seat):
    """Return the value of a history to a seat, by recursion over OpenSpiel's states."""
    rows = {
        (query.seat, query.key): dict(zip(query.legal_actions, row, strict=True))
        for query, row in zip(lab.policy.states.queries, lab.policy.rows, strict=True)
    }

    def value(spiel):
        if spiel.is_terminal():
            return spiel.returns()[seat]
        if spiel.is_chance_node():
            return sum(p * value(spiel.child(a)) for a, p in spiel.chance_outcomes())
        state = GAMES["kuhn_poker"].state_of(spiel)
        row = rows[state.seat, state.observe(state.seat, 0).key]
        return sum(
            row[word] * value(spiel.child(index))
            for word, index in zip(state.legal_actions(), spiel.legal_actions(), strict=True)
        )

    return value(history)


@pytest.mark.slow
def test_playout_values_equal_values_of_histories():
    """Playouts start from a history with both cards. Their mean is the value of this history."""
    lab = lab_of(episodes=256, playouts=400)
    turns, errors, value_differences = lab.playout_turns.turns, [], []
    for row, (episode, turn) in enumerate(ordered_turns(lab.episodes)):
        turn_index = next(k for k, other_turn in enumerate(episode.turns) if other_turn is turn)
        state = GAMES["kuhn_poker"].reset(Stream(episode.seed))
        for other_turn in episode.turns[:turn_index]:
            state.apply(other_turn.action)
        exact_value = value_of_history(lab, state.spiel, turn.seat)
        state.apply(turn.action)
        errors += [
            turns.playout_before[row] - exact_value,
            turns.playout[row] - value_of_history(lab, state.spiel, turn.seat),
        ]
        value_differences.append(exact_value - turns.state_value[row])
    errors = np.array(errors)
    assert abs(errors.mean()) < 0.02
    assert errors.std() < 0.12  # a return deviates by at most 2, so the mean of 400 has a standard error of at most 0.1
    assert np.std(value_differences) > 0.3  # the value of an information state averages over hidden cards


def test_the_last_playout_value_is_the_return_and_turns_share_playouts(kuhn_columns):
    turns = kuhn_columns.playout_turns.turns
    returns_of_trajectories = np.add.reduceat(turns.reward, trajectory_starts(turns.trajectory))
    for row, (episode, turn) in enumerate(ordered_turns(kuhn_columns.episodes)):
        if turn is episode.turns[-1]:
            assert turns.playout[row] == returns_of_trajectories[turns.trajectory[row]]
    second_rows = [
        row for row, (episode, turn) in enumerate(ordered_turns(kuhn_columns.episodes)) if turn is episode.turns[1]
    ]
    first_rows = [
        row for row, (episode, turn) in enumerate(ordered_turns(kuhn_columns.episodes)) if turn is episode.turns[0]
    ]
    assert np.array_equal(
        turns.playout_before[second_rows], -turns.playout[first_rows]
    )  # the payoffs of kuhn poker sum to 0


@pytest.mark.slow
def test_differences_of_histories_are_unbiased_and_whitening_is_not():
    lab = lab_of(episodes=8000)
    unwhitened, whitened = lab.row("vine_ppo:unbiased"), lab.row("vine_ppo")
    assert unwhitened.refused is None and whitened.refused is None
    for bias in (unwhitened.gradient.bias, unwhitened.gradient.bias_unpaired):
        assert bias.low == 0.0 and bias.high < 0.25
    assert whitened.gradient.bias.low > 0.01
    assert 0.6 < unwhitened.right_sign < 0.95  # hidden cards add noise to the differences


@pytest.mark.slow
def test_more_playouts_reduce_the_noise():
    few_playouts, many_playouts = (
        lab_of(playouts=count, episodes=2000).row("vine_ppo:unbiased").gradient.variance for count in (1, 16)
    )
    assert few_playouts.mean > many_playouts.high and many_playouts.mean < few_playouts.low


def test_only_estimators_that_read_playout_values_get_them(kuhn_columns):
    assert kuhn_columns.episodes_for(bind_estimator("vine_ppo")).turns.playout is not None
    assert kuhn_columns.episodes_for(bind_estimator("rloo")) is kuhn_columns.input_turns
    assert kuhn_columns.input_turns.turns.playout is None
    assert lab_of(episodes=640, timed=True, burn_in=0.2).row("vine_ppo").seconds > 0


@pytest.mark.always
def test_playouts_depend_only_on_the_seed_and_the_batch():
    turns_of_seed, repeated_turns, turns_of_other_seed = (
        lab_of(seed=seed, episodes=320).playout_turns.turns for seed in (0, 0, 1)
    )
    assert np.array_equal(turns_of_seed.playout, repeated_turns.playout) and np.array_equal(
        turns_of_seed.playout_before, repeated_turns.playout_before
    )
    assert not np.array_equal(turns_of_seed.playout[:300], turns_of_other_seed.playout[:300])
    values_of_smaller_batch = lab_of(episodes=256).playout_turns.turns.playout
    assert np.array_equal(turns_of_seed.playout[: len(values_of_smaller_batch)], values_of_smaller_batch)


@pytest.fixture(scope="module")
def team():
    return {
        rule: lab_of("wide_search", reward=rule and f"contribution by={rule}", episodes=3200)
        for rule in ("", "difference", "own")
    }


def test_difference_rewards_keep_the_team_gradient_with_less_noise(team):
    shared_reward, difference_reward, own_reward = (
        team[rule].row("outcome").gradient for rule in ("", "difference", "own")
    )
    for bias in (difference_reward.bias, difference_reward.bias_unpaired):
        assert bias.low == 0.0 and bias.high < 0.2
    assert (
        difference_reward.variance.high < shared_reward.variance.mean
        and difference_reward.variance.mean < shared_reward.variance.low
    )
    assert own_reward.bias.low > 0.1 and own_reward.cosine.high < 0.995


def test_exact_values_are_of_the_games_return_for_any_reward(team):
    assert np.array_equal(team[""].exact, team["own"].exact)
    assert np.array_equal(team[""].controls, team["own"].controls)
    assert np.array_equal(team[""].all_turns.turns.reward, team["own"].all_turns.turns.reward)
    inputs = team["own"].input_turns.turns
    assert np.array_equal(inputs.reward, inputs.components["contribution"]) and not inputs.components["game"].any()
    assert not np.array_equal(inputs.reward, team[""].input_turns.turns.reward)
    assert team["own"].row("exact_advantage").gradient.bias.high < 1e-6  # exact values use the game's return


def test_an_improved_table_earns_more_and_zero_steps_change_nothing():
    table = random_table(STATES["wide_search"], Stream.from_seed(0))
    table_after_0_steps, improved_policy = improved_table(table, steps=0), improved_table(table)
    returns = [exact_values(table.states, policy.rows).returns[0] for policy in (table, improved_policy)]
    assert table_after_0_steps is table and returns[1] > returns[0] + 0.3
    assert all(row.sum() == pytest.approx(1.0) and (row > 0).all() for row in improved_policy.rows)
    table_after_1_step = improved_table(table, steps=1, rate=2.0)
    action_values = exact_values(table.states, table.rows).action[0]
    weights = table.rows[0] * np.exp(2.0 * action_values)  # returns of wide_search range from 0 to 1
    assert table_after_1_step.rows[0] == pytest.approx(weights / weights.sum())
