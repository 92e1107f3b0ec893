import itertools
import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError, TooLargeError, UnknownNameError
from sparring.core.records import Observation, SamplingParams
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import complete_environment
from sparring.environments.openspiel.solvers import average_policy
from sparring.environments.trial import Trial
from sparring.measure import attempt_tree
from sparring.measure.attempt_tree import adaptation_ceiling, attempt_returns, ceiling_or_reason
from sparring.measure.exploitability import best_response_values, query_policy, scorer_from_table
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.initial_states import all_starts
from sparring.measure.matches import AGENT, OPPONENT, match_spec
from sparring.models.language_model import LanguageModel
from sparring.models.tiny import tiny_model, tiny_tokenizer
from sparring.ops.game_tree import best_response, fold_decisions, policy_values
from sparring.play.players.base import Reply
from sparring.play.players.biased import biased
from sparring.play.players.cfr import cfr
from sparring.play.players.kuhn_bot import STYLES, kuhn_bot
from sparring.play.players.mcts import mcts
from sparring.play.players.policy import policy
from sparring.play.players.random import random
from sparring.play.players.scripted import scripted
from sparring.play.team import play_teams

MOVES = ("rock", "paper", "scissors")
BEATS = {"rock": "paper", "paper": "scissors", "scissors": "rock"}
OPPONENTS_BY_MOVE = {move: biased(weights={move: 8}) for move in MOVES}
KUHN = {"environment": {"name": "kuhn_poker"}, "carry": ["first", "second"], "reveal": True}


def make_trial(**options):
    return make_game("trial", options={"reflect": False, **options})


class Policy:
    """A policy whose probabilities are a function of the query."""

    def __init__(self, probabilities):
        self.probabilities = probabilities

    def action_logprobs(self, queries):
        with np.errstate(divide="ignore"):
            return [np.log([self.probabilities(query)[action] for action in query.legal_actions]) for query in queries]


def constant_policy(**probabilities):
    return Policy(lambda query: probabilities)


def random_policy(seed):
    def probabilities(query):
        stream = Stream.from_seed(seed).child(repr((query.observations, query.actions)))
        weights = [0.05 + stream.uniform(n) for n in range(len(query.legal_actions))]
        return dict(zip(query.legal_actions, np.array(weights) / sum(weights), strict=True))

    return Policy(probabilities)


def test_returns_of_one_policy_in_all_attempts_by_hand():
    result = attempt_returns(
        make_trial(), constant_policy(rock=0.5, paper=0.2, scissors=0.2), role="left", opponents=OPPONENTS_BY_MOVE
    )
    # among legal moves: rock 5/9, paper 2/9, scissors 2/9; an opponent plays its move with 0.8, the two others with 0.1
    assert result.returns == pytest.approx(np.array([[0.0, -0.7 / 3, 0.7 / 3]] * 3))
    assert result.illegal == pytest.approx(np.full((3, 3), 0.1))
    assert result.decisions == 1 + 9 + 81


def test_illegal_mass_is_counted_in_its_attempt():
    policy = Policy(lambda query: dict.fromkeys(MOVES, 1 / 3 if len(query.observations) == 1 else 0.2))
    result = attempt_returns(make_trial(), policy, role="right", opponents={"rock": OPPONENTS_BY_MOVE["rock"]})
    assert result.illegal[:, 0] == pytest.approx([0.0, 0.4, 0.4], abs=1e-12)


def test_illegal_mass_is_weighted_by_the_reach_of_a_decision():
    """In Kuhn poker the first seat decides a second time only after "pass" and "bet"."""
    policy = Policy(lambda query: {"pass": 0.5, "bet": 0.5 if len(query.observations) == 1 else 0.1})
    bots = {str(share): biased(weights={"bet": share, "pass": 1 - share}) for share in (1.0, 0.0, 0.5)}
    result = attempt_returns(
        make_trial(environment={"name": "kuhn_poker"}, attempts=1), policy, role="first", opponents=bots
    )
    assert result.illegal[0] == pytest.approx([0.5 * 0.4 / 1.5, 0.0, 0.25 * 0.4 / 1.25], abs=1e-12)


def test_beating_the_observed_move_reaches_the_two_attempt_ceiling():
    def beat_observed_move(query):
        if len(query.observations) == 1:
            return {"rock": 1.0, "paper": 0.0, "scissors": 0.0}
        opponent_move = query.observations[1].split()[3]  # you rock they scissors plus left choose
        return {move: float(BEATS[opponent_move] == move) for move in MOVES}

    game = make_trial(attempts=2)
    result = attempt_returns(game, Policy(beat_observed_move), role="left", opponents=OPPONENTS_BY_MOVE)
    ceiling = adaptation_ceiling(game.inner, role="left", opponents=OPPONENTS_BY_MOVE, attempts=2)
    assert result.returns.mean(axis=1)[1] == pytest.approx(ceiling.most[1]) == pytest.approx(0.7 * 0.7)


@pytest.mark.parametrize("role", ["first", "second"])
def test_uniform_play_has_its_game_tree_value_in_every_attempt(role):
    bots = {style: kuhn_bot(style=style) for style in ("aggressive", "loose")}
    result = attempt_returns(make_trial(**KUHN), UniformScorer(), role=role, opponents=bots)
    game = make_game("kuhn_poker")
    states, seat = enumerate_info_states(game), game.roles.index(role)
    for column, bot in enumerate(bots.values()):
        policies = [np.full(len(query.legal_actions), 0.5) for query in states.queries]
        for index, query in enumerate(states.queries):
            if query.seat != seat:
                node = next(
                    node
                    for node in decision_nodes(game)
                    if node.seat == query.seat and node.observe(query.seat, 0).key == query.key
                )
                policies[index] = np.array(
                    [bot.chances(node, query.seat).get(action, 0.0) for action in query.legal_actions]
                )
        assert result.returns[:, column] == pytest.approx(
            [policy_values(states.tree, states.seats, policies).returns[seat]] * 3
        )


def decision_nodes(game):
    """Yield the states of a game in which a seat acts."""
    open_nodes = [game.first_node()]
    while open_nodes:
        node = open_nodes.pop()
        if node.is_terminal():
            continue
        moves = [action for action, _ in node.chance_outcomes()] if node.is_chance_node() else node.legal_actions()
        open_nodes += [node.child(action) for action in moves]
        if not node.is_chance_node():
            yield game.state_of(node)


def returns_by_enumeration(game, scorer, seat, opponent):
    """Return the mean return of each attempt, by playing all pairs of replies; the game must have no chance."""
    reach_by_attempt, return_by_attempt = np.zeros(game.attempts), np.zeros(game.attempts)

    def visit(play, reach, observations, actions):
        reach_by_attempt[play.attempt] += reach
        observations = (*observations, play.observe(seat))
        query = SimpleNamespace(
            observations=tuple(item.text for item in observations), actions=actions, legal_actions=play.legal(seat)
        )
        probabilities = np.exp(scorer.action_logprobs([query])[0])
        opponent_probabilities = opponent.chances(play.play, 1 - seat)
        for (action, probability), (reply, opponent_probability) in product(
            zip(play.legal(seat), probabilities, strict=True), opponent_probabilities.items()
        ):
            next_play = play.clone()
            next_play.step({seat: action, 1 - seat: reply})
            path_probability = reach * probability * opponent_probability
            if path_probability:
                return_by_attempt[play.attempt] += path_probability * (next_play.returns[seat] - play.returns[seat])
                if not next_play.done:
                    visit(next_play, path_probability, observations, (*actions, action))

    visit(game.reset(Stream.from_seed(5)), 1.0, (), ())
    return return_by_attempt / reach_by_attempt


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    weights=st.lists(st.floats(0.1, 9), min_size=3, max_size=3),
    seat=st.sampled_from([0, 1]),
    stop=st.booleans(),
    memory=st.sampled_from(["all", "notes"]),
    attempts=st.integers(1, 3),
)
def test_figures_equal_the_mean_over_all_episodes_of_the_trial(seed, weights, seat, stop, memory, attempts):
    game = make_trial(carry=["left", "right"], stop_on_win=stop, memory=memory, attempts=attempts)
    bots = {"drawn": biased(weights=dict(zip(MOVES, weights, strict=True))), "rock": OPPONENTS_BY_MOVE["rock"]}
    result = attempt_returns(game, random_policy(seed), role=game.roles[seat], opponents=bots)
    for column, bot in enumerate(bots.values()):
        assert result.returns[:, column] == pytest.approx(
            returns_by_enumeration(game, random_policy(seed), seat, bot), abs=1e-9
        )


class StayOrGoPlay:
    """Seat 0 stays (return -1) or goes. After "go", chance decides whether seat 1 wins. Seat 0 sees only its return."""

    def __init__(self, lucky, reply=""):
        self.lucky, self.reply = lucky, reply
        self.done, self.returns = bool(reply), (-float(reply == "stay"), float(lucky and reply == "go"))

    def due(self):
        return () if self.done else (0,)

    def legal(self, seat):
        return ("go", "stay")

    def observe(self, seat):
        return Observation(prompt="choose", key=f"{seat} choose")

    def step(self, replies):
        self.__init__(self.lucky, replies[0])

    def clone(self):
        return StayOrGoPlay(self.lucky, self.reply)


class StayOrGoGame:
    name, roles, num_seats, max_turns, style, brief = "gifts", ("left", "right"), 2, 1, "brief", True
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, None, False

    def reset(self, stream):
        return StayOrGoPlay(bool(stream.integer(0, 2)))

    def openings(self):
        return ((0.5, StayOrGoPlay(True)), (0.5, StayOrGoPlay(False)))


@pytest.mark.parametrize(("stop", "later_returns"), [(True, -2 / 3), (False, -0.5)])
def test_a_win_of_the_opponent_ends_a_trial_with_stop_on_win(stop, later_returns):
    """Seat 0 goes in half of the trials. Seat 1 wins half of these and ends them; the others have a second attempt."""

    def repeat_first_action(query):
        return (
            {"go": 0.5, "stay": 0.5}
            if len(query.observations) == 1
            else {move: float(move == query.actions[0]) for move in ("go", "stay")}
        )

    rules = Trial(
        environment=complete_environment("gifts", StayOrGoGame()),
        attempts=2,
        carry=("left", "right"),
        reflect=False,
        stop_on_win=stop,
    )
    result = attempt_returns(rules, Policy(repeat_first_action), role="left", opponents={"any": biased()})
    assert result.returns[:, 0] == pytest.approx([-0.5, later_returns])


def test_an_attempt_that_never_begins_has_no_return():
    game = make_trial(attempts=2, stop_on_win=True)
    result = attempt_returns(
        game,
        constant_policy(rock=0.0, paper=1.0, scissors=0.0),
        role="left",
        opponents={"rock": biased(weights={"rock": 1, "paper": 0, "scissors": 0})},
    )
    assert result.returns[0, 0] == 1.0 and math.isnan(result.returns[1, 0]) and math.isnan(result.illegal[1, 0])


class RandomByIds:
    def __init__(self, renderer):
        self.name, self.renderer, self.prompts = "by ids", renderer, set()

    def act(self, turns):
        self.prompts |= {turn.ids for turn in turns}
        legal = [turn.state.legal(turn.seat) for turn in turns]
        actions = [names[turn.stream.integer(0, len(names))] for turn, names in zip(turns, legal, strict=True)]
        return [Reply(text=action, ids=self.renderer.reply(action)) for action in actions]


@pytest.mark.parametrize(
    "options",
    [
        KUHN,
        {**KUHN, "reveal": False, "memory": "notes"},
        {"carry": ["left", "right"]},
        {"carry": ["left", "right"], "stop_on_win": True},
    ],
)
def test_the_policy_is_queried_in_the_conversations_of_rollouts(options, monkeypatch):
    game = make_trial(attempts=2, **options)
    tokenizer = tiny_tokenizer(game.vocabulary())
    network = tiny_model(
        vocabulary_size=len(tokenizer), stream=Stream.from_seed(3), hidden_size=16, layers=1, heads=2, context=96
    )
    renderer = bind("render", "plain")(tokenizer)
    agent = policy(
        sampler=bind("samplers", "in_process")(LanguageModel(network, tokenizer)),
        renderer=renderer,
        params=SamplingParams(max_new_tokens=2),
    )
    queries = []

    def uniform_logprobs(prompts, actions):
        queries.extend(prompts)
        return [np.full(len(legal), -math.log(len(legal))) for legal in actions]

    monkeypatch.setattr(agent, "reply_logprobs", uniform_logprobs)
    bot = kuhn_bot(style="intermediate") if "environment" in options else biased(weights={"rock": 1})
    for seat, role in enumerate(game.roles):
        queries.clear()
        attempt_returns(game, agent, role=role, opponents={"bot": bot})
        player = RandomByIds(renderer)
        specs = [match_spec(all_starts(game), seat, index, 1500, Stream.from_seed(1)) for index in range(1500)]
        play_teams(specs, {AGENT: player, OPPONENT: bot})
        assert player.prompts <= {*queries} and len(player.prompts) > 0.8 * len({*queries})


@pytest.mark.parametrize(
    ("options", "message"), [({"redeal": "same"}, "a new deal in every attempt"), ({"reflect": True}, "without notes")]
)
def test_trials_without_separate_attempts_are_refused(options, message):
    with pytest.raises(GameError, match=message):
        attempt_returns(make_trial(**options), UniformScorer(), role="left", opponents=OPPONENTS_BY_MOVE)


def test_opponents_without_chances_and_too_large_trees_are_refused():
    with pytest.raises(GameError, match="cannot be measured exactly"):
        attempt_returns(make_trial(), UniformScorer(), role="left", opponents={"mcts": mcts()})
    assert (
        attempt_returns(make_trial(), UniformScorer(), role="left", opponents=OPPONENTS_BY_MOVE, limit=91).decisions
        == 91
    )
    with pytest.raises(TooLargeError, match="over 90 conversations"):
        attempt_returns(make_trial(), UniformScorer(), role="left", opponents=OPPONENTS_BY_MOVE, limit=90)
    with pytest.raises(TooLargeError, match="over 500 conversations"):
        attempt_returns(make_trial(attempts=100), UniformScorer(), role="left", opponents=OPPONENTS_BY_MOVE, limit=500)


KUHN_GAME, RPS = make_game("kuhn_poker"), make_game("rock_paper_scissors")
TRAINED = dict(zip(("conservative", "aggressive", "intermediate"), (0.3, 0.3, 0.4), strict=True))
HELD_OUT = dict.fromkeys(("passive", "station", "loose"), 1.0)


def ceiling_against_styles(shares, role, **options):
    return adaptation_ceiling(
        KUHN_GAME, role=role, opponents={style: kuhn_bot(style=style) for style in shares}, shares=shares, **options
    )


def ceiling_against_moves(moves, **options):
    """Return the ceiling in rock, paper, scissors against opponents with these weights."""
    return adaptation_ceiling(
        RPS, role="left", opponents={str(index): biased(weights=w) for index, w in enumerate(moves)}, **options
    )


@pytest.mark.parametrize(
    ("role", "best", "fixed", "best_by", "share"),
    [("first", 0.2833, 0.0833, (1 / 6, 1 / 3, 1 / 3), 0.80), ("second", 0.2667, 0.1667, (1 / 3, 1 / 3, 1 / 6), 0.67)],
)
def test_ceilings_of_mages_opponent_pool_in_kuhn_poker(role, best, fixed, best_by, share):
    ceiling = ceiling_against_styles(TRAINED, role, attempts=3, reveal=True)
    assert (ceiling.best, ceiling.fixed) == (pytest.approx(best, abs=5e-5), pytest.approx(fixed, abs=5e-5))
    assert tuple(ceiling.best_by.values()) == pytest.approx(best_by) and [*ceiling.best_by] == [*TRAINED]
    assert ceiling.closed_share(ceiling.last[2]) == pytest.approx(
        share, abs=5e-3
    )  # the policy that is best in the last attempt
    assert ceiling.most[0] == pytest.approx(ceiling.fixed) and ceiling.most[2] == ceiling.last[2]
    assert ceiling.closed_share(ceiling.best) == pytest.approx(1) and ceiling.closed_share(
        ceiling.fixed
    ) == pytest.approx(0)


@pytest.mark.parametrize(
    ("shares", "role", "reveal", "best_share", "total"),
    [
        (TRAINED, "first", False, (0, 0.5278, 0.7824), (0, 0.5, 0.7222)),
        (TRAINED, "first", True, (0, 0.5556, 0.7963), (0, 0.5278, 0.7454)),
        (TRAINED, "second", False, (0, 0.4167, 0.6528), (0, 0.3889, 0.6481)),
        (TRAINED, "second", True, (0, 0.4444, 0.6667), (0, 0.3889, 0.6481)),
        (HELD_OUT, "first", True, (0, 0.9333, 0.9778), (0, 0.9333, 0.9778)),
        (HELD_OUT, "second", True, (0, 0.9792, 0.9965), (0, 0.9792, 0.9957)),
    ],
)
def test_shares_of_the_headroom_by_attempt_equal_those_of_the_documentation(shares, role, reveal, best_share, total):
    ceiling = ceiling_against_styles(shares, role, reveal=reveal)
    assert [ceiling.closed_share(value) for value in ceiling.most] == pytest.approx(best_share, abs=5e-5)
    assert [ceiling.closed_share(value) for value in ceiling.total] == pytest.approx(total, abs=5e-5)


def test_biased_rock_paper_scissors_by_hand():
    ceiling = ceiling_against_moves([{"rock": 3}, {"paper": 3}, {"scissors": 3}], attempts=3)
    # known opponent: .6 - .2 = .4; unknown opponent: all moves are equal. After one rock the beliefs are .6 .2 .2, so the
    # next move is rock with .44 and each other move with .28, and paper earns .16
    assert ceiling.best == pytest.approx(0.4) and ceiling.fixed == pytest.approx(0)
    assert ceiling.most == pytest.approx((0, 0.16, 0.192)) and ceiling.total == pytest.approx(ceiling.last)


def test_opponents_that_differ_in_every_move_are_known_from_the_second_attempt():
    ceiling = ceiling_against_moves(
        [{"paper": 0, "scissors": 0}, {"rock": 0, "scissors": 0}], attempts=3, shares={"0": 3, "1": 1}
    )
    assert ceiling.best == pytest.approx(1) and ceiling.fixed == pytest.approx(0.75)
    assert ceiling.shares == {"0": 0.75, "1": 0.25} and ceiling.fixed_by == pytest.approx({"0": 1, "1": 0})
    assert ceiling.last == ceiling.most == pytest.approx((0.75, 1, 1))
    assert ceiling.last_by["1"] == pytest.approx((0, 1, 1))


def test_with_one_opponent_headroom_is_zero_and_closed_share_is_none():
    ceiling = ceiling_against_moves([{"rock": 3}], attempts=2)
    assert (
        ceiling.headroom == pytest.approx(0)
        and ceiling.closed_share(0.3) is None
        and ceiling.most == pytest.approx((0.4, 0.4))
    )


DEALS = list(itertools.permutations(range(3), 2))
POLICIES = list(itertools.product((False, True), repeat=6))  # bets with J, Q, K; calls with J, Q, K


def chosen_action(policy, card, facing_bet):
    return bool(policy[card + 3 * facing_bet])


def play_kuhn(cards, policies):
    """Play Kuhn poker, implemented independently; return the actions, the first seat's return and whether cards are shown."""
    first_sign = 1 if cards[0] > cards[1] else -1
    if chosen_action(policies[0], cards[0], False):
        return ("bb", 2 * first_sign, True) if chosen_action(policies[1], cards[1], True) else ("bp", 1, False)
    if not chosen_action(policies[1], cards[1], False):
        return "pp", first_sign, True
    return ("pbb", 2 * first_sign, True) if chosen_action(policies[0], cards[0], True) else ("pbp", -1, False)


def enumerate_first_attempts(seat, pool, reveal):
    """Return two things for each policy: its return against each style, and observation -> probability under each style."""
    results = []
    for policy_of_seat in POLICIES:
        returns_by_style, probabilities_by_observation = np.zeros(len(pool)), {}
        for index, style in enumerate(pool):
            bot = [*STYLES[style][0], *STYLES[style][1]]
            for cards in DEALS:
                action_text, first_return, open_cards = play_kuhn(
                    cards, (policy_of_seat, bot) if seat == 0 else (bot, policy_of_seat)
                )
                returns_by_style[index] += (first_return if seat == 0 else -first_return) / 6
                observation = (
                    cards[seat],
                    action_text,
                    first_return,
                    cards[1 - seat] if open_cards and reveal else None,
                )
                probabilities_by_observation.setdefault(observation, np.zeros(len(pool)))[index] += 1 / 6
        results.append((returns_by_style, probabilities_by_observation))
    return results


@pytest.mark.parametrize("reveal", [False, True])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(
    "shares", [TRAINED, {"station": 0.5, "passive": 0.2, "aggressive": 0.3}], ids=["trained", "other"]
)
def test_ceilings_of_two_kuhn_attempts_equal_brute_force(seat, reveal, shares):
    prior, first_attempts = np.array([*shares.values()]), enumerate_first_attempts(seat, shares, reveal)
    expected_returns = np.array([returns_by_style for returns_by_style, _ in first_attempts])  # [64, K]
    ceiling = ceiling_against_styles(shares, KUHN_GAME.roles[seat], attempts=2, reveal=reveal)
    assert ceiling.fixed == pytest.approx((expected_returns @ prior).max())
    assert [*ceiling.best_by.values()] == pytest.approx(expected_returns.max(axis=0).tolist())
    second_returns = [
        sum(
            (expected_returns @ (prior * probabilities)).max()
            for probabilities in probabilities_by_observation.values()
        )
        for _, probabilities_by_observation in first_attempts
    ]
    assert ceiling.last[1] == pytest.approx(max(second_returns))
    total_returns = [
        returns_by_style @ prior + second_return
        for (returns_by_style, _), second_return in zip(first_attempts, second_returns, strict=True)
    ]
    assert sum(ceiling.total) == pytest.approx(max(total_returns))
    totals_of_best = [
        total
        for total, second_return in zip(total_returns, second_returns, strict=True)
        if second_return > max(second_returns) - 1e-9
    ]
    assert sum(ceiling.last) == pytest.approx(
        max(totals_of_best)
    )  # the best total among policies that are best in the last attempt


def test_no_policy_exceeds_the_ceiling_of_any_attempt():
    for role, shares in itertools.product(KUHN_GAME.roles, (TRAINED, HELD_OUT)):
        ceiling = ceiling_against_styles(shares, role, attempts=4)
        assert [*ceiling.most] == sorted(ceiling.most) and ceiling.most[-1] <= ceiling.best + 1e-12
        assert all(
            value <= ceiling_value + 1e-12 for value, ceiling_value in zip(ceiling.last, ceiling.most, strict=True)
        )
        assert all(
            value <= ceiling_value + 1e-12 for value, ceiling_value in zip(ceiling.total, ceiling.most, strict=True)
        )
        assert sum(ceiling.total) >= sum(ceiling.last) - 1e-12
        for row, by_opponent in ((ceiling.last, ceiling.last_by), (ceiling.total, ceiling.total_by)):
            assert row == pytest.approx(
                [sum(ceiling.shares[name] * by_opponent[name][n] for name in by_opponent) for n in range(4)]
            )


@pytest.mark.parametrize("game", ["kuhn_poker", "tiny_hanabi"])
def test_best_and_fixed_returns_equal_those_of_the_game_tree(game):
    rules = make_game(game)
    states = enumerate_info_states(rules)
    policies = [
        query_policy(scorer, states)[0]
        for scorer in (UniformScorer(), scorer_from_table(states, average_policy(rules, "cfr", 30)))
    ]
    for seat, role in enumerate(rules.roles):
        pool = {"random": random(), "cfr": cfr(iterations=30, variant="cfr")}
        ceiling = adaptation_ceiling(rules, role=role, opponents=pool, shares={"random": 1, "cfr": 3}, attempts=1)
        values = [best_response_values(rules, states, policy_rows)[seat] for policy_rows in policies]
        assert [*ceiling.best_by.values()] == pytest.approx(values)
        tree = fold_decisions(states.tree, states.seats == seat, [(0.25, policies[0]), (0.75, policies[1])])
        response = best_response(tree, states.seats, policies[0], seat)
        assert ceiling.fixed == pytest.approx(policy_values(tree, states.seats, response).returns[seat])


@pytest.mark.parametrize("reveal", [False, True])
@pytest.mark.parametrize(
    ("name", "style"), [("kuhn_poker", "brief"), ("kuhn_poker", "full"), ("rock_paper_scissors", "brief")]
)
def test_final_observations_equal_those_of_a_trial(name, style, reveal):
    base_game = {"name": name, "options": {"style": style}}
    rules = make_game("trial", options={"environment": base_game, "reveal": reveal, "reflect": False, "attempts": 40})
    agent = random()
    tree = attempt_tree.attempt_tree(rules.inner, 0, {"random": agent}, reveal=reveal)
    end_texts, branches = set(), [tree.root]
    while branches:
        branch = branches.pop()
        end_texts |= {text for text, _ in branch.ends_by_text}
        branches += [
            next_branch for decision in branch.decisions.values() for next_branch in decision.branches.values()
        ]
    trial_play, final_observations, count, root = rules.reset(Stream.from_seed(2)), set(), 0, Stream.from_seed(3)
    while not trial_play.done:
        trial_play.step(
            {seat: agent.choose(trial_play, seat, root.child(count).child(seat)) for seat in trial_play.due()}
        )
        final_observations |= {trial_play.news[0]} if 0 in trial_play.news else set()
        count += 1
    assert final_observations <= end_texts and len(final_observations) > len(end_texts) / 3


@pytest.mark.parametrize(
    ("game", "options", "role", "opponent", "message"),
    [
        ("tic_tac_toe", {}, "X", mcts(), "'it' cannot be measured exactly"),
        (
            "kuhn_poker",
            {"players": 3},
            "first",
            random(),
            "the exact ceiling needs two seats, and this environment has 3",
        ),
        ("bargain", {}, None, random(), "no method openings"),
        ("tic_tac_toe", {}, "O", kuhn_bot(), "'kuhn_bot' plays only kuhn_poker of two seats"),
        ("rock_paper_scissors", {}, "left", scripted(moves=("rock",)), "does not count a seat's turns"),
        ("kuhn_poker", {}, "first", biased(weights={"raise": 2}), "bet"),
    ],
)
def test_without_a_ceiling_the_reason_is_given(game, options, role, opponent, message):
    rules = make_game(game, options=options)
    if opponent.name == "biased":
        with pytest.raises(UnknownNameError, match=message):
            ceiling_or_reason(rules, role=role, opponents={"it": opponent})
        return
    ceiling, reason = ceiling_or_reason(rules, role=role or rules.roles[0], opponents={"it": opponent})
    assert ceiling is None and reason.startswith("no ceiling: ") and message in reason


def test_too_large_trees_give_a_reason(monkeypatch):
    monkeypatch.setattr(attempt_tree, "MAX_HISTORIES", 30)
    assert "over 30 histories" in ceiling_or_reason(KUHN_GAME, role="first", opponents={"it": random()})[1]
    monkeypatch.undo()
    monkeypatch.setattr(attempt_tree, "MAX_BELIEFS", 5)
    with pytest.raises(TooLargeError, match="More than 5 beliefs"):
        ceiling_against_styles(TRAINED, "first")


def test_a_role_or_pool_without_players_is_refused():
    with pytest.raises(UnknownNameError, match="role of kuhn_poker 'third'"):
        ceiling_or_reason(KUHN_GAME, role="third", opponents={"it": random()})
    with pytest.raises(UnknownNameError, match="opponent 'other'"):
        adaptation_ceiling(KUHN_GAME, role="first", opponents={"it": random()}, shares={"other": 1})
    for shares in ({}, {"it": 0}, {"it": -1}):
        with pytest.raises(GameError, match="a weight above 0"):
            adaptation_ceiling(KUHN_GAME, role="first", opponents={"it": random()}, shares=shares)
    with pytest.raises(GameError, match="must give each of the opponents"):
        adaptation_ceiling(KUHN_GAME, role="first", opponents={"a": random(), "b": random()}, shares={"a": 1})
    with pytest.raises(GameError, match="no opponents"):
        adaptation_ceiling(KUHN_GAME, role="first", opponents={})
    with pytest.raises(GameError, match="attempts=0"):
        ceiling_against_styles(TRAINED, "first", attempts=0)
