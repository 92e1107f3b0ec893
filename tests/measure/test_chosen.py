"""A chooser as a policy of the game beneath: by hand, and beside every play of the game with candidates."""

import hashlib

import numpy as np
import pytest

from sparring.api.policy_evaluation import evaluate_policy
from sparring.config import EvaluationConfig
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure import exact_figures
from sparring.measure.exact_figures import ChosenScorer, as_beneath, beneath, exact_figures_of
from sparring.measure.exploitability import ask
from sparring.measure.info_states import Query, UniformScorer, enumerate_info_states
from sparring.run.evaluation import Evaluator

FIVE = ("rock", "paper", "scissors", "spock", "lizard")


def game_of(name="rps_spock_lizard", **options):
    return make_game("choose", options={"environment": {"name": name}, **options})


class Fancy:
    def __init__(self, lost=0.0):
        self.lost = lost

    def action_logprobs(self, queries):
        rows = []
        for query in queries:
            text = repr((query.seat, query.observations, query.actions)).encode()
            seed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
            rows.append(np.log(np.random.default_rng(seed).dirichlet(np.ones(len(query.legal_actions))) * (1 - self.lost)))
        return rows


class Favourite:
    def __init__(self, number=None, action=None):
        self.number, self.action = number, action

    def action_logprobs(self, queries):
        rows = []
        for query in queries:
            words = query.observations[-1].split()
            said = self.number or (words[words.index(self.action) - 1] if self.action in words else "1")
            rows.append(np.log([0.999999 if one == said else 1e-12 for one in query.legal_actions]))
        return rows


def figures(game, policy):
    return exact_figures_of(game, enumerate_info_states(beneath(game)), policy)


@pytest.mark.parametrize(("words", "left"), [(FIVE[:3], 1 / 3), (FIVE[:4], 1 / 3), (FIVE, 0.0), (None, 0.0)])
def test_the_equilibrium_of_the_candidates_is_not_the_games(words, left):
    """A third stays with rock, paper and scissors. With four words and three of them shown, uniform choice is uniform over the four."""
    game = game_of(proposals=None if words is None else dict.fromkeys(words, 1.0))
    found = figures(game, UniformScorer()).figures
    expected = left if words is None or len(words) != 4 else 1 / 4  # paper: it beats rock and spock, scissors beat it
    assert found["exploitability/choose/left"] == pytest.approx(expected)
    assert found["nash_conv/choose"] == pytest.approx(2 * expected)


def test_in_rock_paper_scissors_nothing_stays():
    game = game_of("rock_paper_scissors", proposals={"rock": 0.9, "paper": 0.05, "scissors": 0.05})
    assert figures(game, UniformScorer()).figures["nash_conv/choose"] == pytest.approx(0)
    assert figures(game, Favourite(number="1")).figures["nash_conv/choose"] == pytest.approx(0, abs=1e-6)
    assert figures(game, Favourite(action="rock")).figures["nash_conv/choose"] == pytest.approx(2, abs=1e-5)
    fixed = game_of("rock_paper_scissors", shuffle=False)
    assert figures(fixed, Favourite(number="1")).figures["nash_conv/choose"] == pytest.approx(2, abs=1e-5)


def test_of_a_biased_proposer_the_bias_is_what_one_candidate_plays():
    game = game_of("rock_paper_scissors", count=1, proposals={"rock": 0.6, "paper": 0.3, "scissors": 0.1})
    states = enumerate_info_states(beneath(game))
    rows, _ = ask(as_beneath(game, UniformScorer()), states)
    assert rows[0] == pytest.approx([0.6, 0.3, 0.1])
    two = game_of("rock_paper_scissors", count=2, proposals={"rock": 0.6, "paper": 0.3, "scissors": 0.1})
    rows, _ = ask(as_beneath(two, Favourite(action="scissors")), states)
    none = 0.6 * 3 / 4 + 0.3 * 6 / 7  # scissors are not shown; then the first, in an order of chance
    assert rows[1] == pytest.approx([none / 2, none / 2, 1 - none], abs=1e-5)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"count": 1, "proposals": {"pass": 0.7, "bet": 0.3}}, {"count": 2, "diverse": False, "proposals": {"pass": 2, "bet": 1}}, {"choosers": ["second"]}, {"count": 1, "choosers": ["first"]}], ids=str)
def test_values_are_those_of_every_play_with_candidates(options):
    """Kuhn poker, in which a seat acts twice, by a chooser that remembers what it was shown."""
    game, policy = game_of("kuhn_poker", **options), Fancy()
    expected = every_play(game, policy, game.inner.first_node(), ((), ()))
    assert figures(game, policy).values == pytest.approx(expected, abs=1e-9)


def every_play(game, policy, node, told):
    """Return the expected returns by going through chance, candidates and choices one by one."""
    if node.is_terminal():
        return np.array(node.returns())
    if node.is_chance_node():
        return sum(share * every_play(game, policy, node.child(index), told) for index, share in node.chance_outcomes())
    state, seat = game.inner.state_of(node), node.current_player()
    legal, total = state.legal_actions(), np.zeros(2)
    since = told[seat][-1][2] if told[seat] else 0
    if seat not in game.choosers:
        seen = state.observe(seat, since)
        query = Query(
            game="choose", seat=seat, key=seen.key, observations=(*(one[0] for one in told[seat]), seen.text),
            actions=tuple(one[1] for one in told[seat]), legal_actions=legal,
        )  # fmt: skip
        for place, chance in enumerate(np.exp(policy.action_logprobs([query])[0])):
            own = (*told[seat], (seen.text, legal[place], state.plies + 1, (), None))
            after = tuple(own if one == seat else told[one] for one in (0, 1))
            total += chance * every_play(game, policy, node.child(state.action_index(legal[place])), after)
        return total
    for share, shown in game.proposer.offers(legal):
        before = "".join(f"{'/'.join(one)}|" for *_, one, _ in told[seat])
        seen = game.offered(state.observe(seat, since), shown, before)
        query = Query(
            game="choose", seat=seat, key=seen.key, observations=(*(one[0] for one in told[seat]), seen.text),
            actions=tuple(one[1] for one in told[seat]), legal_actions=tuple("12"[: len(shown)]),
        )  # fmt: skip
        for place, chance in enumerate(np.exp(policy.action_logprobs([query])[0])):
            own = (*told[seat], (seen.text, str(place + 1), state.plies + 1, shown, None))
            after = tuple(own if one == seat else told[one] for one in (0, 1))
            total += share * chance * every_play(game, policy, node.child(state.action_index(shown[place])), after)
    return total


def test_replies_that_are_no_number_are_illegal_mass():
    game = game_of("kuhn_poker")
    sure, lossy = figures(game, Fancy()), figures(game, Fancy(lost=0.2))
    assert lossy.figures["illegal_mass/choose"] == pytest.approx(0.2) and sure.figures["illegal_mass/choose"] == pytest.approx(0)
    assert lossy.values == pytest.approx(sure.values)


def test_what_is_never_proposed_is_never_played():
    game = game_of("kuhn_poker", proposals={"bet": 1.0})
    states = enumerate_info_states(beneath(game))
    rows, _ = ask(as_beneath(game, Fancy()), states)
    for query, row in zip(states.queries, rows, strict=True):
        assert row == pytest.approx([0.5, 0.5] if "pass" in query.actions else [0.0, 1.0])


def test_other_games_and_their_policies_are_left_alone():
    game, policy = make_game("kuhn_poker"), UniformScorer()
    assert beneath(game) is game and as_beneath(game, policy) is policy


def test_a_decision_before_must_be_there_and_not_too_many(monkeypatch):
    game = game_of("kuhn_poker")
    states = enumerate_info_states(beneath(game))
    later = [query for query in states.queries if query.actions]
    with pytest.raises(GameError, match=r"decided before .* is not among the information states"):
        ChosenScorer(game, UniformScorer()).action_logprobs(later)
    monkeypatch.setattr(exact_figures, "MOST_CONVERSATIONS", 3)
    with pytest.raises(GameError, match="choose: no exact figures, as 4 lists of candidates lead to one"):
        figures(game, UniformScorer())


def test_runs_and_evaluations_measure_the_game_beneath():
    game = game_of(proposals=dict.fromkeys(FIVE[:3], 1.0))
    ran = Evaluator([game], EvaluationConfig(exact=True, opponents=[])).measure(UniformScorer(), Stream.from_seed(0))
    assert ran["exploitability/choose/right"] == pytest.approx(1 / 3)
    measured = evaluate_policy(UniformScorer(), [game], opponents=[], games_per_seat=1, exact=True, max_states=100, seed=0)
    assert measured["figures"]["nash_conv/choose"] == pytest.approx(2 / 3)
