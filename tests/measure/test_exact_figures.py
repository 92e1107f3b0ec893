import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.api.policy_evaluation import evaluate_policy
from sparring.config import EvaluationConfig
from sparring.core.errors import GameError
from sparring.core.records import snapshot
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure import exact_figures
from sparring.measure.exact_figures import ChooserScorer, base_game, exact_figures_of, policy_in_base_game
from sparring.measure.exploitability import evaluate_exploitability, history_reach, query_policy
from sparring.measure.info_states import Query, TabularScorer, UniformScorer, enumerate_info_states
from sparring.play.players.mixture import MemberMixture
from sparring.run.evaluation import Evaluator

GAME = make_game("team_matrix", options={"game": "rock_paper_scissors", "members": 2})
STATES = enumerate_info_states(GAME)
ROCK, PAPER, SCISSORS = ([1, 1], [1, 0], [0, 0])  # probability of the first choice, by member


def make_team_policy(chances, legal_mass=1.0):
    """Return a policy in which each seat takes its first choice with these probabilities; two values apply to both teams."""
    rows = {}
    for query, first_chance in zip(STATES.queries, chances if len(chances) == 4 else [*chances, *chances], strict=True):
        rows[query.seat, query.key] = dict(
            zip(query.legal_actions, (legal_mass * first_chance, legal_mass * (1 - first_chance)), strict=True)
        )
    return TabularScorer(rows)


def make_mixture(scorers, weights, **options):
    members = [snapshot(step) for step in range(len(scorers))]
    return MemberMixture(
        dict(zip(members, weights, strict=True)), dict(zip(members, scorers, strict=True)).get, **options
    )


def figures_of_teams(policy):
    return exact_figures_of(GAME, STATES, policy)


def test_a_team_mixture_of_rock_and_paper_by_hand():
    """Against half rock and half paper, paper earns 1/2; one seat can change its team's rock into paper."""
    mixture_figures = figures_of_teams(make_mixture([make_team_policy(ROCK), make_team_policy(PAPER)], [0.5, 0.5]))
    assert mixture_figures.figures["team_exploitability/team_matrix"] == pytest.approx(0.5)
    assert mixture_figures.figures["one_seat_exploitability/team_matrix"] == pytest.approx(0.5)
    assert (
        mixture_figures.values == pytest.approx((0, 0, 0, 0)) and "nash_conv/team_matrix" not in mixture_figures.figures
    )
    assert "share its draw" in mixture_figures.note
    figures_of_thirds = figures_of_teams(
        make_mixture([make_team_policy(ROCK), make_team_policy(PAPER), make_team_policy(SCISSORS)], [1 / 3] * 3)
    )
    assert figures_of_thirds.figures["team_exploitability/team_matrix"] == pytest.approx(0.0)
    # a mixture that draws members per seat is a different policy, and no equilibrium
    report_by_seat = evaluate_exploitability(GAME, STATES, make_team_policy([2 / 3, 1 / 3])).teams
    assert report_by_seat.team_exploitability > 0.1


def test_a_mixture_of_one_member_equals_the_member():
    member = make_team_policy([0.3, 0.8], legal_mass=0.9)
    report, mixture_of_one = (
        evaluate_exploitability(GAME, STATES, member),
        figures_of_teams(make_mixture([member, make_team_policy(ROCK)], [1.0, 0.0])),
    )
    assert mixture_of_one.figures["team_exploitability/team_matrix"] == pytest.approx(report.teams.team_exploitability)
    assert mixture_of_one.figures["one_seat_exploitability/team_matrix"] == pytest.approx(
        report.teams.one_seat_exploitability
    )
    assert (
        mixture_of_one.figures["illegal_mass/team_matrix"] == pytest.approx(report.illegal_mass) == pytest.approx(0.1)
    )
    assert mixture_of_one.figures["illegal_mass_reached/team_matrix"] == pytest.approx(report.illegal_mass_reached)
    assert mixture_of_one.values == pytest.approx(report.values)
    member_figures = figures_of_teams(member)
    assert member_figures.note == "" and member_figures.figures["nash_conv/team_matrix"] == report.nash_conv


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=3, max_size=3),
    st.lists(st.floats(0.05, 1), min_size=3, max_size=3),
)
def test_values_are_means_over_draws_and_equal_members_are_merged(chances, weights):
    scorers = [make_team_policy(chances_of_member) for chances_of_member in chances]
    shares = np.array(weights) / sum(weights)
    mixture_figures = figures_of_teams(make_mixture(scorers, shares.tolist()))
    policies, expected_values = [query_policy(scorer, STATES)[0] for scorer in scorers], np.zeros(4)
    for first_team, second_team in itertools.product(range(3), repeat=2):
        rows = [
            policies[first_team if query.seat < 2 else second_team][index] for index, query in enumerate(STATES.queries)
        ]
        reach_of_draw = history_reach(STATES, rows)
        expected_values += (
            shares[first_team] * shares[second_team] * (reach_of_draw[STATES.tree.terminal] @ STATES.tree.returns)
        )
    assert mixture_figures.values == pytest.approx(tuple(expected_values), abs=1e-9)
    split_figures = figures_of_teams(
        make_mixture([*scorers, scorers[0]], [shares[0] / 2, shares[1], shares[2], shares[0] / 2])
    )
    assert split_figures.figures == pytest.approx(
        mixture_figures.figures, abs=1e-9
    ) and split_figures.values == pytest.approx(mixture_figures.values, abs=1e-9)


def test_if_each_seat_is_a_team_nash_conv_is_reported():
    game = make_game("kuhn_poker")
    states = enumerate_info_states(game)
    report = exact_figures_of(game, states, make_mixture([UniformScorer(), UniformScorer()], [0.5, 0.5]))
    assert report.note == "" and report.figures["nash_conv/kuhn_poker"] == pytest.approx(11 / 12)


def test_runs_and_evaluations_report_figures_and_name_missing_ones_once():
    agent = make_mixture(
        [make_team_policy(ROCK), make_team_policy(PAPER)], [0.5, 0.5], notes=["1 of 1 pairs of members have never met"]
    )
    evaluator = Evaluator([GAME], EvaluationConfig(opponents=[]))
    for step in range(2):
        metrics = evaluator.measure(agent, Stream.from_seed(step))
        assert metrics["team_exploitability/team_matrix"] == pytest.approx(0.5)
    assert [("never met" in note, "no NashConv" in note) for note in evaluator.new_notes()] == [
        (True, False),
        (False, True),
    ]
    result = evaluate_policy(agent, [GAME], opponents=[], games_per_seat=2, exact=True, max_states=100, seed=0)
    assert result["figures"]["value/team_matrix/a1"] == pytest.approx(0)
    assert result["references"]["team_exploitability/team_matrix"]["best"] == 0 and "no NashConv" in result["notes"][0]


def test_too_many_draws_are_refused_and_too_many_plans_are_skipped(monkeypatch):
    agent = make_mixture([make_team_policy(ROCK), make_team_policy(PAPER)], [0.5, 0.5])
    monkeypatch.setattr("sparring.measure.exploitability.MAX_HISTORIES_TIMES_PLANS", 1)
    partial_figures = figures_of_teams(agent)
    assert "too many plans" in partial_figures.note and set(partial_figures.figures) == {
        "illegal_mass/team_matrix",
        "illegal_mass_reached/team_matrix",
    }
    monkeypatch.setattr(exact_figures, "MAX_HISTORIES_TIMES_PLANS", 1)
    with pytest.raises(GameError, match="4 draws of 2 teams from 2 members"):
        figures_of_teams(agent)
    with pytest.raises(GameError, match="cannot evaluate"):
        exact_figures_of(make_game("team_matrix", options={"members": 3}), STATES, agent)


FIVE_MOVES = ("rock", "paper", "scissors", "spock", "lizard")


def game_of(name="rps_spock_lizard", **options):
    return make_game("choose", options={"environment": {"name": name}, **options})


class ChooserByMemory:
    """A chooser whose probabilities depend on its whole conversation."""

    def __init__(self, illegal_mass=0.0):
        self.illegal_mass = illegal_mass

    def action_logprobs(self, queries):
        rows = []
        for query in queries:
            text = repr((query.seat, query.observations, query.actions)).encode()
            seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
            rows.append(
                np.log(
                    np.random.default_rng(seed).dirichlet(np.ones(len(query.legal_actions))) * (1 - self.illegal_mass)
                )
            )
        return rows


class ConstantChooser:
    """A chooser that always replies the same number, or the number of one action."""

    def __init__(self, number=None, action=None):
        self.number, self.action = number, action

    def action_logprobs(self, queries):
        rows = []
        for query in queries:
            words = query.observations[-1].split()
            reply = self.number or (words[words.index(self.action) - 1] if self.action in words else "1")
            rows.append(np.log([0.999999 if action == reply else 1e-12 for action in query.legal_actions]))
        return rows


def exact_figures_in_base_game(game, policy):
    return exact_figures_of(game, enumerate_info_states(base_game(game)), policy)


@pytest.mark.parametrize(
    ("words", "expected"), [(FIVE_MOVES[:3], 1 / 3), (FIVE_MOVES[:4], 1 / 4), (FIVE_MOVES, 0.0), (None, 0.0)]
)
def test_an_equilibrium_over_candidates_can_be_exploited_in_the_game(words, expected):
    """With 4 words and 3 candidates, uniform choice plays all 4 equally: paper beats rock and spock, scissors beat paper."""
    game = game_of(proposals=None if words is None else dict.fromkeys(words, 1.0))
    figures_by_name = exact_figures_in_base_game(game, UniformScorer()).figures
    assert figures_by_name["exploitability/choose/left"] == pytest.approx(expected)
    assert figures_by_name["nash_conv/choose"] == pytest.approx(2 * expected)


def test_in_rock_paper_scissors_uniform_choice_is_an_equilibrium():
    game = game_of("rock_paper_scissors", proposals={"rock": 0.9, "paper": 0.05, "scissors": 0.05})
    assert exact_figures_in_base_game(game, UniformScorer()).figures["nash_conv/choose"] == pytest.approx(0)
    assert exact_figures_in_base_game(game, ConstantChooser(number="1")).figures["nash_conv/choose"] == pytest.approx(
        0, abs=1e-6
    )
    assert exact_figures_in_base_game(game, ConstantChooser(action="rock")).figures[
        "nash_conv/choose"
    ] == pytest.approx(2, abs=1e-5)
    game_with_fixed_order = game_of("rock_paper_scissors", shuffle=False)
    assert exact_figures_in_base_game(game_with_fixed_order, ConstantChooser(number="1")).figures[
        "nash_conv/choose"
    ] == pytest.approx(2, abs=1e-5)


def test_with_one_candidate_the_policy_has_the_proposers_bias():
    game = game_of("rock_paper_scissors", count=1, proposals={"rock": 0.6, "paper": 0.3, "scissors": 0.1})
    states = enumerate_info_states(base_game(game))
    rows, _ = query_policy(policy_in_base_game(game, UniformScorer()), states)
    assert rows[0] == pytest.approx([0.6, 0.3, 0.1])
    two_candidates = game_of("rock_paper_scissors", count=2, proposals={"rock": 0.6, "paper": 0.3, "scissors": 0.1})
    rows, _ = query_policy(policy_in_base_game(two_candidates, ConstantChooser(action="scissors")), states)
    not_shown = 0.6 * 3 / 4 + 0.3 * 6 / 7  # scissors are not shown, then the first of a random order
    assert rows[1] == pytest.approx([not_shown / 2, not_shown / 2, 1 - not_shown], abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"count": 1, "proposals": {"pass": 0.7, "bet": 0.3}},
        {"count": 2, "diverse": False, "proposals": {"pass": 2, "bet": 1}},
        {"choosers": ["second"]},
        {"count": 1, "choosers": ["first"]},
    ],
    ids=str,
)
def test_values_equal_enumeration_of_games_with_candidates(options):
    """Kuhn poker, in which a seat acts twice, with a chooser that remembers its candidates."""
    game, policy = game_of("kuhn_poker", **options), ChooserByMemory()
    expected = expected_returns_by_enumeration(game, policy, game.inner.first_node(), ((), ()))
    assert exact_figures_in_base_game(game, policy).values == pytest.approx(expected, abs=1e-9)


def expected_returns_by_enumeration(game, policy, node, decisions_by_seat):
    """Return expected returns by enumerating chance, candidates and choices; `decisions_by_seat` has each seat's decisions."""
    if node.is_terminal():
        return np.array(node.returns())
    if node.is_chance_node():
        return sum(
            probability * expected_returns_by_enumeration(game, policy, node.child(index), decisions_by_seat)
            for index, probability in node.chance_outcomes()
        )
    state, seat = game.inner.state_of(node), node.current_player()
    legal, total = state.legal_actions(), np.zeros(2)
    plies = decisions_by_seat[seat][-1][2] if decisions_by_seat[seat] else 0
    chooses = seat in game.choosers
    for probability, candidates in game.proposer.possible_lists(legal) if chooses else [(1.0, legal)]:
        observation, replies = state.observe(seat, plies), legal
        if chooses:
            prefix = "".join(f"{'/'.join(earlier_candidates)}|" for *_, earlier_candidates in decisions_by_seat[seat])
            observation, replies = game.add_candidates(observation, candidates, prefix), tuple("12"[: len(candidates)])
        texts, actions = [*zip(*decisions_by_seat[seat], strict=True)][:2] or ((), ())
        observations = (*texts, observation.text)
        query = Query(
            game="choose",
            seat=seat,
            key=observation.key,
            observations=observations,
            actions=actions,
            legal_actions=replies,
        )
        for choice, chance in enumerate(np.exp(policy.action_logprobs([query])[0])):
            next_decisions = [*decisions_by_seat]
            next_decisions[seat] = (
                *decisions_by_seat[seat],
                (observation.text, replies[choice], state.plies + 1, candidates if chooses else ()),
            )
            total += (
                probability
                * chance
                * expected_returns_by_enumeration(
                    game, policy, node.child(state.action_index(candidates[choice])), next_decisions
                )
            )
    return total


def test_replies_that_are_no_number_are_illegal_mass():
    game = game_of("kuhn_poker")
    without_illegal_mass, with_illegal_mass = (
        exact_figures_in_base_game(game, ChooserByMemory()),
        exact_figures_in_base_game(game, ChooserByMemory(illegal_mass=0.2)),
    )
    assert with_illegal_mass.figures["illegal_mass/choose"] == pytest.approx(0.2) and without_illegal_mass.figures[
        "illegal_mass/choose"
    ] == pytest.approx(0)
    assert with_illegal_mass.values == pytest.approx(without_illegal_mass.values)


def test_actions_never_proposed_are_never_played():
    game = game_of("kuhn_poker", proposals={"bet": 1.0})
    states = enumerate_info_states(base_game(game))
    rows, _ = query_policy(policy_in_base_game(game, ChooserByMemory()), states)
    for query, row in zip(states.queries, rows, strict=True):
        assert row == pytest.approx([0.5, 0.5] if "pass" in query.actions else [0.0, 1.0])


def test_other_games_and_their_policies_are_unchanged():
    game, policy = make_game("kuhn_poker"), UniformScorer()
    assert base_game(game) is game and policy_in_base_game(game, policy) is policy


def test_earlier_decisions_must_exist_and_be_few_enough(monkeypatch):
    game = game_of("kuhn_poker")
    states = enumerate_info_states(base_game(game))
    later_queries = [query for query in states.queries if query.actions]
    with pytest.raises(GameError, match=r"before .* is not among the information states"):
        ChooserScorer(game, UniformScorer()).action_logprobs(later_queries)
    monkeypatch.setattr(exact_figures, "MAX_CONVERSATIONS", 3)
    with pytest.raises(GameError, match="choose: no exact figures, because 4 lists of candidates lead to one"):
        exact_figures_in_base_game(game, UniformScorer())


def test_runs_and_evaluations_measure_the_base_game():
    game = game_of(proposals=dict.fromkeys(FIVE_MOVES[:3], 1.0))
    run_metrics = Evaluator([game], EvaluationConfig(exact=True, opponents=[])).measure(
        UniformScorer(), Stream.from_seed(0)
    )
    assert run_metrics["exploitability/choose/right"] == pytest.approx(1 / 3)
    evaluation = evaluate_policy(
        UniformScorer(), [game], opponents=[], games_per_seat=1, exact=True, max_states=100, seed=0
    )
    assert evaluation["figures"]["nash_conv/choose"] == pytest.approx(2 / 3)
