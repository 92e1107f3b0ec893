"""Exact returns of a policy in each attempt: by hand, against every play of the trial itself, and in the words of a rollout."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError, TooLargeError
from sparring.core.records import Observation, SamplingParams
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.trial import Trial
from sparring.measure.attempt_tree import adaptation_ceiling, attempt_returns
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.initial_states import every
from sparring.measure.matches import AGENT, OPPONENT, match_spec
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.ops.game_tree import policy_values
from sparring.play.players.base import Reply
from sparring.play.players.biased import biased
from sparring.play.players.kuhn_bot import kuhn_bot
from sparring.play.players.mcts import mcts
from sparring.play.players.policy import policy
from sparring.play.team import play_teams

MOVES = ("rock", "paper", "scissors")
BEATS = {"rock": "paper", "paper": "scissors", "scissors": "rock"}
LIKES = {move: biased(weights={move: 8}) for move in MOVES}
KUHN = {"environment": {"name": "kuhn_poker"}, "carry": ["first", "second"], "reveal": True}


def trial(**options):
    return make_game("trial", options={"reflect": False, **options})


class Policy:
    """Says by a function of what was seen and done how likely each move is; keeps what it was asked."""

    def __init__(self, shares):
        self.shares, self.asked = shares, []

    def action_logprobs(self, queries):
        self.asked += queries
        with np.errstate(divide="ignore"):
            return [np.log([self.shares(query)[action] for action in query.legal_actions]) for query in queries]


def fixed(**shares):
    return Policy(lambda query: shares)


def drawn(seed):
    def shares(query):
        stream = Stream.from_seed(seed).child(repr((query.observations, query.actions)))
        weights = [0.05 + stream.uniform(n) for n in range(len(query.legal_actions))]
        return dict(zip(query.legal_actions, np.array(weights) / sum(weights), strict=True))

    return Policy(shares)


# -- by hand, and what is known ------------------------------------------------------------------


def test_one_policy_for_all_attempts_by_hand():
    found = attempt_returns(trial(), fixed(rock=0.5, paper=0.2, scissors=0.2), role="left", opponents=LIKES)
    # five ninths rock, two ninths each other move, against 0.8, 0.1, 0.1
    assert found.returns == pytest.approx(np.array([[0.0, -0.7 / 3, 0.7 / 3]] * 3))
    assert found.illegal == pytest.approx(np.full((3, 3), 0.1))
    assert found.decisions == 1 + 9 + 81


def test_the_mass_on_no_legal_action_is_of_the_attempt_in_which_it_lies():
    first = Policy(lambda query: dict.fromkeys(MOVES, 1 / 3 if len(query.observations) == 1 else 0.2))
    found = attempt_returns(trial(), first, role="right", opponents={"rock": LIKES["rock"]})
    assert found.illegal[:, 0] == pytest.approx([0.0, 0.4, 0.4], abs=1e-12)


def test_the_mass_on_no_legal_action_is_weighed_by_how_often_a_decision_comes():
    """In Kuhn poker the first seat decides again after "pass" and "bet" alone; the maniac always bets, the mouse never does."""
    again = Policy(lambda query: {"pass": 0.5, "bet": 0.5 if len(query.observations) == 1 else 0.1})
    bots = {"always": scripted_bets(1.0), "never": scripted_bets(0.0), "half": scripted_bets(0.5)}
    found = attempt_returns(trial(environment={"name": "kuhn_poker"}, attempts=1), again, role="first", opponents=bots)
    assert found.illegal[0] == pytest.approx([0.5 * 0.4 / 1.5, 0.0, 0.25 * 0.4 / 1.25], abs=1e-12)


def scripted_bets(share):
    """Bets with this probability, whatever it holds."""
    return biased(weights={"bet": share, "pass": 1 - share})


def test_who_beats_what_was_liked_reaches_the_ceiling_of_two_attempts():
    """Rock, then what beats the move that was seen: Bayes by hand, which no policy surpasses."""

    def answer(query):
        if len(query.observations) == 1:
            return {"rock": 1.0, "paper": 0.0, "scissors": 0.0}
        seen = query.observations[1].split()[3]  # you rock they scissors plus left choose
        return {move: float(BEATS[seen] == move) for move in MOVES}

    game = trial(attempts=2)
    found = attempt_returns(game, Policy(answer), role="left", opponents=LIKES)
    ceiling = adaptation_ceiling(game.inner, role="left", opponents=LIKES, attempts=2)
    assert found.returns.mean(axis=1)[1] == pytest.approx(ceiling.most[1]) == pytest.approx(0.7 * 0.7)


@pytest.mark.parametrize("role", ["first", "second"])
def test_uniform_play_gets_what_the_tree_of_the_game_says_in_every_attempt(role):
    bots = {style: kuhn_bot(style=style) for style in ("aggressive", "loose")}
    found = attempt_returns(trial(**KUHN), UniformScorer(), role=role, opponents=bots)
    game = make_game("kuhn_poker")
    states, seat = enumerate_info_states(game), game.roles.index(role)
    for column, bot in enumerate(bots.values()):
        policies = [np.full(len(query.legal_actions), 0.5) for query in states.queries]
        for number, query in enumerate(states.queries):
            if query.seat != seat:
                node = next(node for node in nodes(game) if node.seat == query.seat and node.observe(query.seat, 0).key == query.key)
                policies[number] = np.array([bot.chances(node, query.seat).get(action, 0.0) for action in query.legal_actions])
        assert found.returns[:, column] == pytest.approx([policy_values(states.tree, states.seats, policies).returns[seat]] * 3)


def nodes(game):
    waiting = [game.first_node()]
    while waiting:
        node = waiting.pop()
        if node.is_terminal():
            continue
        moves = [action for action, _ in node.chance_outcomes()] if node.is_chance_node() else node.legal_actions()
        waiting += [node.child(action) for action in moves]
        if not node.is_chance_node():
            yield game.state_of(node)


# -- against every play of the trial itself ------------------------------------------------------


def by_plays(game, scorer, seat, opponent):
    """Returns and illegal mass by attempt, from stepping the trial through all pairs of replies; nothing is drawn in this game."""
    count = game.attempts
    begun, earned = np.zeros(count), np.zeros(count)

    def visit(play, share, seen, actions):
        begun[play.attempt] += share
        seen = (*seen, play.observe(seat))
        query = type("Asked", (), {"observations": tuple(one.text for one in seen), "actions": actions, "legal_actions": play.legal(seat)})
        own = np.exp(scorer.action_logprobs([query])[0])
        theirs = opponent.chances(play.play, 1 - seat)
        for (action, chance), (reply, weight) in product(zip(play.legal(seat), own, strict=True), theirs.items()):
            twin = play.clone()
            twin.step({seat: action, 1 - seat: reply})
            weighed = share * chance * weight
            if weighed:
                earned[play.attempt] += weighed * (twin.returns[seat] - play.returns[seat])
                if not twin.done:
                    visit(twin, weighed, seen, (*actions, action))

    visit(game.reset(Stream.from_seed(5)), 1.0, (), ())
    return earned / begun


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), weights=st.lists(st.floats(0.1, 9), min_size=3, max_size=3), seat=st.sampled_from([0, 1]), stop=st.booleans(),
    memory=st.sampled_from(["all", "notes"]), attempts=st.integers(1, 3),
)
def test_it_is_what_every_play_of_the_trial_gives_on_average(seed, weights, seat, stop, memory, attempts):
    game = trial(carry=["left", "right"], stop_on_win=stop, memory=memory, attempts=attempts)
    bots = {"drawn": biased(weights=dict(zip(MOVES, weights, strict=True))), "rock": LIKES["rock"]}
    found = attempt_returns(game, drawn(seed), role=game.roles[seat], opponents=bots)
    for column, bot in enumerate(bots.values()):
        assert found.returns[:, column] == pytest.approx(by_plays(game, drawn(seed), seat, bot), abs=1e-9)


class Gift:
    """One seat stays, which costs it 1, or goes, and then chance says whether the other wins; it is told its own result alone."""

    def __init__(self, lucky, said=""):
        self.lucky, self.said = lucky, said

    @property
    def done(self):
        return bool(self.said)

    @property
    def returns(self):
        return (-float(self.said == "stay"), float(self.lucky and self.said == "go"))

    def due(self):
        return () if self.said else (0,)

    def legal(self, seat):
        return ("go", "stay")

    def observe(self, seat):
        return Observation(told="choose", key=f"{seat} choose")

    def step(self, replies):
        self.said = replies[0]

    def clone(self):
        return Gift(self.lucky, self.said)


class Gifts:
    name, roles, num_seats, max_turns, style, brief = "gifts", ("left", "right"), 2, 1, "brief", True
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, None, False

    def reset(self, stream):
        return Gift(bool(stream.integer(0, 2)))

    def openings(self):
        return ((0.5, Gift(True)), (0.5, Gift(False)))


@pytest.mark.parametrize(("stop", "later"), [(True, -2 / 3), (False, -0.5)])
def test_a_win_of_the_other_seat_that_remembers_ends_a_trial_though_it_is_told_alike(stop, later):
    """Half go, and of these half have a second attempt; the others all have. What was done first is done again."""

    def again(query):
        return {"go": 0.5, "stay": 0.5} if len(query.observations) == 1 else {move: float(move == query.actions[0]) for move in ("go", "stay")}

    rules = Trial(environment=Gifts(), attempts=2, carry=("left", "right"), reflect=False, stop_on_win=stop)
    found = attempt_returns(rules, Policy(again), role="left", opponents={"any": biased()})
    assert found.returns[:, 0] == pytest.approx([-0.5, later])


def test_an_attempt_that_never_begins_has_no_return():
    game = trial(attempts=2, stop_on_win=True)
    found = attempt_returns(game, fixed(rock=0.0, paper=1.0, scissors=0.0), role="left", opponents={"rock": biased(weights={"rock": 1, "paper": 0, "scissors": 0})})
    assert found.returns[0, 0] == 1.0 and math.isnan(found.returns[1, 0]) and math.isnan(found.illegal[1, 0])


# -- in the words of a rollout -------------------------------------------------------------------


class Told:
    def __init__(self, renderer):
        self.name, self.renderer, self.ids = "told", renderer, set()

    def act(self, turns):
        self.ids |= {turn.ids for turn in turns}
        return [self.said(turn, turn.state.legal(turn.seat)) for turn in turns]

    def said(self, turn, legal):
        action = legal[turn.stream.integer(0, len(legal))]
        return Reply(text=action, ids=self.renderer.reply(action))


@pytest.mark.parametrize("options", [KUHN, {**KUHN, "reveal": False, "memory": "notes"}, {"carry": ["left", "right"]}, {"carry": ["left", "right"], "stop_on_win": True}])
def test_the_policy_is_asked_in_the_conversations_of_rollouts(options, monkeypatch):
    game = trial(attempts=2, **options)
    tokenizer = tiny_tokenizer(game.vocabulary())
    network = tiny_model(vocabulary_size=len(tokenizer), stream=Stream.from_seed(3), hidden_size=16, layers=1, heads=2, context=96)
    renderer = bind("render", "plain")(tokenizer)
    agent = policy(sampler=bind("samplers", "in_process")(LanguageModel(network, tokenizer)), renderer=renderer, params=SamplingParams(max_new_tokens=2))
    asked = []

    def uniform(prompts, actions):
        asked.extend(prompts)
        return [np.full(len(legal), -math.log(len(legal))) for legal in actions]

    monkeypatch.setattr(agent, "reply_logprobs", uniform)
    bot = kuhn_bot(style="intermediate") if "environment" in options else biased(weights={"rock": 1})
    for seat, role in enumerate(game.roles):
        asked.clear()
        attempt_returns(game, agent, role=role, opponents={"bot": bot})
        told = Told(renderer)
        specs = [match_spec(every(game), seat, number, 1500, Stream.from_seed(1)) for number in range(1500)]
        play_teams(specs, {AGENT: told, OPPONENT: bot})
        assert told.ids <= {*asked} and len(told.ids) > 0.8 * len({*asked})


# -- what cannot be had --------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "said"), [({"redeal": "same"}, "fresh deals"), ({"reflect": True}, "without notes")])
def test_trials_whose_attempts_are_not_apart_are_refused(options, said):
    with pytest.raises(GameError, match=said):
        attempt_returns(trial(**options), UniformScorer(), role="left", opponents=LIKES)


def test_an_opponent_that_says_nothing_of_itself_and_too_many_conversations_are_refused():
    with pytest.raises(GameError, match="cannot be described exactly"):
        attempt_returns(trial(), UniformScorer(), role="left", opponents={"mcts": mcts()})
    assert attempt_returns(trial(), UniformScorer(), role="left", opponents=LIKES, limit=91).decisions == 91
    with pytest.raises(TooLargeError, match="over 90 conversations"):
        attempt_returns(trial(), UniformScorer(), role="left", opponents=LIKES, limit=90)
    with pytest.raises(TooLargeError, match="over 500 conversations"):
        attempt_returns(trial(attempts=100), UniformScorer(), role="left", opponents=LIKES, limit=500)
