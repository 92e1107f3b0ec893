"""The self-play loop: values by hand, reductions between algorithms, and theory."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import MetaStrategy
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import TabularScorer, enumerate_info_states
from studies.self_play.algorithms import ALGORITHMS, EXACT, FRESH, STEPS
from studies.self_play.diverse import cardinality
from studies.self_play.frame import Row, begin, curve, targets
from studies.self_play.tree_world import tree_world
from tests.cases import every_case

RPS, KUHN = "matrix_rps", "kuhn_poker"


def run_of(name, game=RPS, seed=0, **changes):
    recipe = ALGORITHMS[name] if isinstance(name, str) else name
    return begin(replace(recipe, **changes), tree_world(game), Stream.from_seed(seed))


def run_after(rounds, *arguments, **changes):
    run = run_of(*arguments, **changes)
    for _ in range(rounds):
        run.step()
    return run


def nash_conv_of(run):
    return run.world.gap(run.answer())


def policies(run):
    return [[member.policy.tolist() for member in members] for members in run.members]


def test_double_oracle_ends_at_a_third_each_in_three_rounds():
    run = run_after(2, "double oracle", start="first")
    assert len(run.members[0]) == 3  # rock, then paper, then scissors
    assert not run.has_converged
    run.step()
    assert run.has_converged and run.round == 3
    for plan in run.answer():
        np.testing.assert_allclose(plan.policy[1:], 1 / 3, atol=1e-9)


def test_fictitious_play_on_rock_paper_scissors_by_hand():
    # rock: paper; (1/2, 1/2, 0): paper; (1/3, 2/3, 0): paper and scissors earn 1/3, so the first of
    # them; (1/4, 3/4, 0): scissors
    run = run_after(4, "fictitious play", start="first")
    actions = [int(member.policy[1:].argmax()) for member in run.members[0]]
    assert actions == [0, 1, 1, 1, 2]
    np.testing.assert_allclose(run.answer()[0].policy[1:], [1 / 5, 3 / 5, 1 / 5], atol=1e-12)


def test_the_last_policy_of_vanilla_self_play_is_always_beaten():
    for rounds in (1, 10, 31):
        assert nash_conv_of(run_after(rounds, "vanilla, exact", start="first")) == pytest.approx(2.0)
        assert nash_conv_of(run_after(rounds, "vanilla")) > 1.9


def test_xdo_solves_kuhn_exactly():
    run = run_after(10, "XDO", KUHN)
    assert run.has_converged and nash_conv_of(run) < 1e-6


def test_psro_nash_approaches_the_kuhn_equilibrium_by_openspiel():
    run = run_after(12, "PSRO Nash", KUHN)
    game = make_game(KUHN)
    states = enumerate_info_states(game)
    table, profile = {}, run.answer()
    for seat, plan in zip(run.world.seats, profile, strict=True):
        for number, first_action, width in zip(seat.states, seat.first, seat.width, strict=True):
            query = states.queries[number]
            row = plan.policy[first_action : first_action + width].tolist()
            table[query.seat, query.key] = dict(zip(query.legal_actions, row, strict=True))
    report = evaluate_exploitability(game, states, TabularScorer(table))
    assert report.nash_conv == pytest.approx(nash_conv_of(run), abs=1e-9)
    assert nash_conv_of(run) < 0.05


def test_delta_0_is_uniform_past_and_delta_near_1_is_vanilla():
    def trained(solver, **options):
        return policies(run_after(6, replace(ALGORITHMS["vanilla"], row=Row(solver=solver, options=options)), KUHN))

    assert trained("delta_uniform", delta=0.0) == trained("uniform")
    assert trained("delta_uniform", delta=0.999) == trained("last") != trained("uniform")


def test_psro_uniform_with_exact_answers_is_fictitious_play():
    psro_run = run_after(9, replace(ALGORITHMS["PSRO uniform"], oracle=EXACT), KUHN)
    fictitious = run_after(9, "fictitious play", KUHN)
    assert policies(psro_run) == policies(fictitious)
    for uniform_policy, fictitious_policy in zip(psro_run.answer(), fictitious.answer(), strict=True):
        np.testing.assert_allclose(uniform_policy.plan, fictitious_policy.plan, atol=1e-12)


def test_prioritised_play_without_priorities_is_uniform_past(monkeypatch):
    from sparring.league import payoffs

    monkeypatch.setitem(payoffs.WEIGHTINGS, "squared", ("hard", 0.0))
    assert policies(run_after(6, "PFSP squared", KUHN)) == policies(run_after(6, "uniform past", KUHN))


def test_answers_to_a_correlated_row_use_marginals_or_members():
    joint = np.array([[0.2, 0.2], [0.6, 0.0]])
    strategy = MetaStrategy(sides=(np.array([0.4, 0.6]), np.array([0.8, 0.2])), joint=joint)
    ((number, weights),) = targets(strategy, 0)
    assert number is None
    np.testing.assert_allclose(weights, [0.8, 0.2])
    weights_of = dict(targets(strategy, 0, by_member=True))
    np.testing.assert_allclose(weights_of[0], [0.5, 0.5])
    np.testing.assert_allclose(weights_of[1], [1.0, 0.0])
    weights_of = dict(targets(strategy, 1, by_member=True))
    np.testing.assert_allclose(weights_of[0], [0.25, 0.75])


def test_every_nonzero_row_of_members_gets_an_answer():
    rows = (np.array([[0.0, 0.0], [0.5, 0.5]]), np.array([[1.0, 0.0], [0.0, 0.0]]))
    strategy = MetaStrategy(sides=(np.array([0.0, 1.0]), np.array([1.0, 0.0])), rows=rows)
    assert [number for number, _ in targets(strategy, 0)] == [1]
    assert [number for number, _ in targets(strategy, 1)] == [0]


@settings(max_examples=25, deadline=None)
@given(
    game=st.sampled_from([RPS, "matrix_brps", KUHN, "leduc_poker"]),
    seed=st.integers(0, 2**32),
    weights=st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda shares: sum(shares) > 0.1),
)
def test_a_mixture_earns_the_weighted_mean_against_any_opponent(game, seed, weights):
    world, stream = tree_world(game), Stream.from_seed(seed)
    share = np.array(weights) / sum(weights)
    kinds = ["pure", "random"]
    members = [world.start(0, kinds[n % 2], stream.child(n)) for n in range(len(share))]
    opponent = world.start(1, "random", stream.child("other"))
    mixture = world.mix(0, members, share)
    behavioural = world.table_plan(0, mixture.policy)  # as a behavioural policy, state by state
    expected = sum(w * world.payoffs([member, opponent])[0] for w, member in zip(share, members, strict=True))
    assert world.payoffs([behavioural, opponent])[0] == pytest.approx(expected, abs=1e-9 * world.largest)
    np.testing.assert_allclose(world.seats[0].normalised_policy(mixture.policy)[1:], mixture.policy[1:], atol=1e-9)


@pytest.mark.parametrize("game", [RPS, KUHN])
def test_anytime_psro_never_gets_worse(game):
    points = curve(run_of("anytime PSRO", game), range(13), steps=STEPS)
    gaps = [point.gap for point in points]
    assert all(later <= earlier + 1e-7 for earlier, later in pairwise(gaps))
    assert gaps[-1] < gaps[0] / 10


def test_steps_of_improvement_earn_more_and_tend_to_the_best_response():
    world = tree_world("leduc_poker")
    policy, opponent = (world.start(side, "random", Stream.from_seed(4)) for side in (0, 1))
    earned, learner = [world.payoffs([policy, opponent])[0]], policy
    for _ in range(30):
        learner = world.respond(0, [((opponent,), 1.0)], FRESH, start=learner)
        earned.append(world.payoffs([learner, opponent])[0])
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(earned))
    assert earned[-1] == pytest.approx(world.best_value(0, opponent), abs=0.01)


@every_case("name", ALGORITHMS, parts=2)
def test_every_algorithm_is_deterministic_and_uses_no_global_generator(name):
    runs = []
    for draws in (0, 3):
        np.random.random(draws)  # noqa: NPY002, the global generator is in another state
        runs.append(curve(run_of(name, KUHN, seed=5), [0, 2 * ALGORITHMS[name].policies_per_round], steps=STEPS))
    assert runs[0] == runs[1]
    assert runs[0][-1].passes > 0 and np.isfinite(runs[0][-1].gap)


def test_the_gate_keeps_policies_that_are_not_beaten():
    run = run_after(3, "AlphaGo Zero's gate", KUHN)
    run_with_closed_gate = run_after(
        3, replace(ALGORITHMS["AlphaGo Zero's gate"], schedule=replace(run.recipe.schedule, gate=1.0)), KUHN
    )
    assert len(run_with_closed_gate.members[0]) == 1 and len(run.members[0]) > 1
    assert run_with_closed_gate.live[0] is not run_with_closed_gate.members[0][0]  # and training continues


def test_a_converged_run_is_measured_when_it_converges():
    points = curve(run_of("double oracle", KUHN), [2, 3, 40, 50], steps=STEPS)
    assert points[-1].gap == pytest.approx(0.0, abs=1e-9)
    assert points[-1].gap == points[-2].gap


def test_a_curve_point_uses_at_most_its_number_of_answers():
    for name in ("DCH", "NFSP", "live mirror", "PSRO rectified", "fictitious play"):
        run = run_of(name, KUHN)
        unit = run.num_populations * (STEPS if run.recipe.oracle.kind == "improve" else 1)
        points = curve(run, [0, 1, 9], steps=STEPS)
        assert [point.answers for point in points] == [0, 1, 9]
        assert points[0].round == 0 and 0 < points[-1].passes <= 9 * unit


def test_a_shared_population_needs_a_symmetric_world():
    assert tree_world(RPS).symmetric and run_of("vanilla").num_populations == 1
    assert not tree_world(KUHN).symmetric and run_of("vanilla", KUHN).num_populations == 2
    assert run_of("independent learners").num_populations == 2


def test_win_rates_stay_between_0_and_1_despite_rounding(monkeypatch):
    world = tree_world(RPS)
    monkeypatch.setattr(world, "_wins", world._wins * (1 + 1e-12))
    rock, paper = np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 1, 0])
    assert world.wins([world.table_plan(0, paper), world.table_plan(1, rock)]).tolist() == [1.0, 0.0]


def test_a_game_that_is_not_zero_sum_is_refused():
    with pytest.raises(ConfigError, match=r"two seats whose returns sum to 0; 'tiny_hanabi'"):
        tree_world("tiny_hanabi")


def test_payoffs_are_evaluated_once_and_counted():
    run = run_after(3, "PSRO Nash")
    run.answer()
    assert run.table.cells == 4 * 5 // 2
    run.answer()
    assert run.table.cells == 10
    assert run_after(3, "vanilla").table.cells == 0


def test_a_rectified_row_needs_members_for_every_seat():
    run = run_after(3, "PSRO rectified", KUHN)
    assert run.num_populations == 1 and len(run.members[0][0]) == 2
    base_world = tree_world(KUHN)
    policy = run.members[0][0]
    assert run.world.gap([policy, policy]) == pytest.approx(base_world.gap(policy))
    other_member = run.members[0][1]
    mean = (
        base_world.payoffs([policy[0], other_member[1]])[0] + base_world.payoffs([other_member[0], policy[1]])[1]
    ) / 2
    np.testing.assert_allclose(run.world.payoffs([policy, other_member]), [mean, -mean], atol=1e-12)


def test_a_main_exploiter_is_reset_and_a_main_is_not():
    run, run_without_reset = run_of("AlphaStar's league"), run_of("AlphaStar's league, no reset")
    for league in (run, run_without_reset):
        while "main_exploiter" not in [checkpoint.kind for checkpoint in league.checkpoints]:
            league.step()
        assert league.round <= 4  # by then a checkpoint must be made
    first_policies = run.checkpoints[0].policies
    assert run.agents[1].policies == first_policies and run.agents[0].policies != first_policies
    assert run_without_reset.agents[1].policies != run_without_reset.checkpoints[0].policies


def test_pipelines_freeze_the_lowest_levels_first():
    run = run_after(12, "pipeline PSRO, timer", KUHN)
    assert run.frozen == 1 + 12 // 4
    assert all(len(members) == run.frozen + run.levels for members in run.members)
    frozen = [members[: run.frozen] for members in run.members]
    run.step()
    assert [
        members[: len(frozen_members)] for members, frozen_members in zip(run.members, frozen, strict=True)
    ] == frozen


def test_a_level_answers_only_lower_levels():
    run, other_run = run_of("DCH", KUHN), run_of("DCH", KUHN)
    other_run.members[1][2] = other_run.world.respond(
        1, [((other_run.members[0][0],), 1.0)], EXACT, start=other_run.members[1][0]
    )
    run.step()
    other_run.step()
    run_policies, other_policies = policies(run)[0], policies(other_run)[0]
    assert run_policies[:3] == other_policies[:3]  # the first policy and all levels up to the changed one
    assert run_policies[3] != other_policies[3]


def test_priorities_fall_as_members_are_beaten():
    run = run_of("OpenAI Five's, unverified")
    for _ in range(5):
        run.step()
    assert len(run.quality) == len(run.members[0]) == 6
    assert run.quality.min() < 0 and run.strategy().sides[0].sum() == pytest.approx(1.0)


def test_diversity_of_equal_and_of_orthogonal_rows():
    assert cardinality(np.eye(3)) == pytest.approx(1.5)  # each of three eigenvalues 1 gives 1/2
    assert cardinality(np.ones((3, 2))) == pytest.approx(0.75)  # one of 3


def test_the_safest_mixture_is_no_worse_than_any_member():
    world = tree_world(KUHN)
    members = [world.start(0, "pure", Stream.from_seed(n)) for n in range(6)]
    weights = world.safest(0, members)
    exploitability = world.best_value(1, world.mix(0, members, weights))
    assert exploitability <= min(world.best_value(1, member) for member in members) + 1e-9
