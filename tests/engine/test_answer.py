"""The answer of a run: its policy, its last weights, or a mixture of the league's members."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.checks import measured_weights
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.refs import snapshot
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.measure.exploitability import ask, nash_conv
from sparring.measure.info_states import (
    TabularScorer,
    UniformScorer,
    enumerate_info_states,
    exact_values,
)
from sparring.play.spec import EpisodeSpec
from sparring.play.team import play_teams
from sparring.run.evaluation import MemberMixture, answer_of

GAME = make_game("kuhn_poker")
STATES = enumerate_info_states(GAME)
MEMBERS = [snapshot(step) for step in (1, 2, 3)]
BASE = {
    "name": "answers", "steps": 2, "threads": 1, "environments": [{"name": "kuhn_poker"}], "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "league": {"every": 1, "plays": 4}, "learner": {"average": 0.9}, "warmup": {"updates": 0},
}


def table(rows):
    found, numbers = {}, iter(rows)
    for query in STATES.queries:
        first = next(numbers)
        found[query.seat, query.key] = dict(zip(query.legal_actions, (first, 1 - first), strict=True))
    return TabularScorer(found)


def policies(count):
    return st.lists(st.lists(st.floats(0.0, 1.0), min_size=len(STATES), max_size=len(STATES)), min_size=count, max_size=count)


def returns(first, second):
    """Return what seat 0 earns with the first policy against the second, exactly."""
    one, other = ask(first, STATES)[0], ask(second, STATES)[0]
    joint = [one[n] if query.seat == 0 else other[n] for n, query in enumerate(STATES.queries)]
    return exact_values(STATES, joint).returns[0]


@settings(deadline=None, max_examples=40)
@given(policies(4), st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3))
def test_one_policy_earns_what_the_mixture_does(rows, weights):
    """Drawn once a play or played state by state: the same expected return against anybody."""
    scorers = [table(row) for row in rows]
    shares = np.array(weights) / sum(weights)
    mixture = MemberMixture(dict(zip(MEMBERS, shares.tolist(), strict=True)), dict(zip(MEMBERS, scorers[:3], strict=True)).get)
    mean = sum(share * returns(scorer, scorers[3]) for share, scorer in zip(shares, scorers, strict=False))
    assert returns(mixture, scorers[3]) == pytest.approx(mean, abs=1e-9)
    mean = sum(share * returns(scorers[3], scorer) for share, scorer in zip(shares, scorers, strict=False))
    assert returns(scorers[3], mixture) == pytest.approx(mean, abs=1e-9)


def test_weights_by_hand():
    """Seat 0 of Kuhn passes with K in member 1, bets in member 2: after pass and bet it is member 1 alone."""
    calls, folds = [0.0] * len(STATES), [1.0] * len(STATES)
    first, second = table(folds), table(calls)  # the first action of each state is to pass
    mixture = MemberMixture({MEMBERS[0]: 0.25, MEMBERS[1]: 0.75}, {MEMBERS[0]: first, MEMBERS[1]: second}.get)
    for query, row in zip(STATES.queries, mixture.action_logprobs(STATES.queries), strict=True):
        later = bool(query.actions)
        assert np.exp(row) == pytest.approx([1, 0] if later else [0.25, 0.75])


def test_one_member_is_the_member_and_equal_members_are_one():
    mixture = MemberMixture({MEMBERS[0]: 1.0, MEMBERS[1]: 0.0}, lambda _: UniformScorer())
    assert list(mixture.shares()) == MEMBERS[:1]
    both = MemberMixture({MEMBERS[0]: 0.3, MEMBERS[1]: 0.7}, lambda _: UniformScorer())
    exact = nash_conv(GAME, STATES, UniformScorer()).nash_conv
    for one in (mixture, both):
        assert nash_conv(GAME, STATES, one).nash_conv == pytest.approx(exact)


def test_teams_that_share_a_draw_have_no_exact_figures_of_a_mixture():
    """Two profiles of a team, all zeros or all ones: drawn seat by seat they would be mixed up."""
    game = make_game("team_matrix", options={"members": 2})
    states = enumerate_info_states(game)
    mixture = MemberMixture({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}, lambda _: UniformScorer())
    with pytest.raises(GameError, match="share its draw"):
        nash_conv(game, states, mixture)
    assert nash_conv(game, states, UniformScorer()).teams is not None


def test_a_state_that_no_member_plays_to_has_the_weights():
    passes = table([1.0] * len(STATES))
    mixture = MemberMixture({MEMBERS[0]: 0.5, MEMBERS[1]: 0.5}, lambda _: passes)
    assert all(np.isfinite(row).any() and not np.isnan(row).any() for row in mixture.action_logprobs(STATES.queries))


@pytest.fixture(scope="module")
def engine():
    made = LocalEngine(resolve(BASE))
    for member in MEMBERS:
        made.take_member(member)
    return made


def book():
    rows = {}
    for i, one in enumerate(MEMBERS):
        for j, other in enumerate(MEMBERS):
            if i != j:
                sign = 1 if (i - j) % 3 == 1 else -1  # a cycle
                rows[Row("kuhn_poker", 0, one, other)] = Results(games=10, wins=5 + 5 * sign, losses=5 - 5 * sign, returns=10.0 * sign)
    return Payoffs(rows)


def test_the_named_answers(engine):
    assert answer_of(engine, book(), "policy").name == "policy" and answer_of(engine, book(), "last").name == "learner"
    assert list(answer_of(engine, book(), "nash").members.values()) == pytest.approx([1 / 3] * 3)
    assert list(answer_of(engine, book(), "uniform").members) == MEMBERS
    assert list(answer_of(engine, book(), "delta_uniform delta=0.99").members) == MEMBERS[-1:]


def test_words_say_which_weights_are_measured():
    """The EMA where a run keeps one, else the live weights; a frozen policy has no average, and a mixture is of members."""
    words = measured_weights
    assert words(resolve(BASE)) == words(resolve(BASE), "average") == "EMA weights"
    assert words(resolve(BASE), "last") == words(resolve({**BASE, "learner": {}})) == "live weights"
    assert words(resolve({**BASE, "league": {"every": 1, "answer": "nash"}})) == "mixture of members by nash"
    policies = {"leader": {"learner": {"average": 0.9}}, "helper": {"learner": {"average": 0.0}}}
    two = resolve({**BASE, "policies": policies, "roles": {"first": "leader", "second": "helper"}})
    assert words(two) == "EMA weights of leader, live weights of helper"
    assert words(two, policy="leader") == "EMA weights" and words(two, policy="helper") == "live weights"
    frozen = resolve({**BASE, "policies": {"leader": {}, "helper": {"frozen": True}}, "roles": {"first": "leader", "second": "helper"}})
    assert words(frozen) == "EMA weights" and words(frozen, policy="helper") == "live weights"


def test_the_average_is_the_policy_and_must_be_kept(engine):
    assert answer_of(engine, book(), "average") is answer_of(engine, book(), "policy") is not answer_of(engine, book(), "last")
    assert resolve({**BASE, "league": {"every": 1, "answer": "average"}}).league.answer == "average"
    with pytest.raises(ConfigError, match=r"this run keeps none; train it with learner\.average=0\.99, or"):
        resolve({**BASE, "learner": {}, "league": {"every": 1, "answer": "average"}})
    two = {"policies": {"leader": {"learner": {"average": 0.9}}, "helper": {"learner": {"average": 0.0}}}, "roles": {"first": "leader", "second": "helper"}}
    with pytest.raises(ConfigError, match=r"policies\.helper\.learner\.average=0\.99"):
        resolve({**BASE, **two, "league": {"every": 1, "answer": "average"}})
    two["policies"]["helper"] = {"frozen": True}
    assert resolve({**BASE, **two, "league": {"every": 1, "answer": "average"}})


def test_pairs_that_never_met_are_said_of_the_mixture(engine):
    assert answer_of(engine, book(), "nash").notes == ()
    (note,) = answer_of(engine, Payoffs(), "nash").notes
    assert note.startswith("3 of 3 pairs of members have never met") and answer_of(engine, Payoffs(), "uniform").notes == ()


def test_without_members_it_is_the_policy():
    assert answer_of(LocalEngine(resolve(BASE)), Payoffs(), "nash").name == "policy"


def test_each_play_and_team_draws_its_own(engine):
    mixture = answer_of(engine, book(), "nash")
    root = Stream.from_seed(0)
    specs = [
        EpisodeSpec(game=GAME, episode_id=n, group_id=n, deal=root.child(n).child("deal"), stream=root.child(n), seats=("agent", "agent"), trained=(False, False))
        for n in range(60)
    ]
    asked = []
    agent_of = mixture._agent_of
    mixture._agent_of = lambda who: asked.append(who) or agent_of(who)
    episodes = play_teams(specs, {"agent": mixture})
    assert len(episodes) == 60 and all(set(episode.agents) == {"agent"} for episode in episodes)
    counts = [asked.count(member) for member in MEMBERS]
    assert min(counts) > 20 and sum(counts) >= 120


@pytest.mark.parametrize("answer", ["nahs", "", "delta_uniform alpha=1"])
def test_what_is_no_answer_is_refused(answer):
    with pytest.raises((UnknownNameError, ConfigError)):
        resolve({**BASE, "league": {**BASE["league"], "answer": answer}})
