"""What adapting can earn: published figures, brute force over pure policies, figures by hand, and no ceiling with a reason."""

import itertools

import numpy as np
import pytest

from sparring.core.errors import GameError, TooLargeError, UnknownNameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.solvers import average_policy
from sparring.measure import attempt_tree
from sparring.measure.attempt_tree import adaptation_ceiling, ceiling_or_reason
from sparring.measure.exploitability import ask, best_response_values, from_table
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.ops.game_tree import best_response, folded, policy_values
from sparring.play.players.biased import biased
from sparring.play.players.cfr import cfr
from sparring.play.players.kuhn_bot import STYLES, kuhn_bot
from sparring.play.players.mcts import mcts
from sparring.play.players.random import random
from sparring.play.players.scripted import scripted

KUHN, RPS = make_game("kuhn_poker"), make_game("rock_paper_scissors")
TRAINED = dict(zip(("conservative", "aggressive", "intermediate"), (0.3, 0.3, 0.4), strict=True))
HELD_OUT = dict.fromkeys(("passive", "station", "loose"), 1.0)


def of_styles(shares, role, **options):
    return adaptation_ceiling(KUHN, role=role, opponents={style: kuhn_bot(style=style) for style in shares}, shares=shares, **options)


def against_moves(moves, **options):
    """The ceiling in rock, paper, scissors against opponents with these weights."""
    return adaptation_ceiling(RPS, role="left", opponents={str(n): biased(weights=w) for n, w in enumerate(moves)}, **options)


# -- figures that are known --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "best", "fixed", "best_by", "share"),
    [("first", 0.2833, 0.0833, (1 / 6, 1 / 3, 1 / 3), 0.80), ("second", 0.2667, 0.1667, (1 / 3, 1 / 3, 1 / 6), 0.67)],
)
def test_the_figures_of_mages_pool_in_kuhn_poker(role, best, fixed, best_by, share):
    found = of_styles(TRAINED, role, attempts=3, reveal=True)
    assert (found.best, found.fixed) == (pytest.approx(best, abs=5e-5), pytest.approx(fixed, abs=5e-5))
    assert tuple(found.best_by.values()) == pytest.approx(best_by) and [*found.best_by] == [*TRAINED]
    assert found.closed(found.last[2]) == pytest.approx(share, abs=5e-3)  # the policy that is best in the last attempt
    assert found.most[0] == pytest.approx(found.fixed) and found.most[2] == found.last[2]
    assert found.closed(found.best) == pytest.approx(1) and found.closed(found.fixed) == pytest.approx(0)


@pytest.mark.parametrize(
    ("shares", "role", "reveal", "most", "total"),
    [
        (TRAINED, "first", False, (0, 0.5278, 0.7824), (0, 0.5, 0.7222)),
        (TRAINED, "first", True, (0, 0.5556, 0.7963), (0, 0.5278, 0.7454)),
        (TRAINED, "second", False, (0, 0.4167, 0.6528), (0, 0.3889, 0.6481)),
        (TRAINED, "second", True, (0, 0.4444, 0.6667), (0, 0.3889, 0.6481)),
        (HELD_OUT, "first", True, (0, 0.9333, 0.9778), (0, 0.9333, 0.9778)),
        (HELD_OUT, "second", True, (0, 0.9792, 0.9965), (0, 0.9792, 0.9957)),
    ],
)
def test_shares_of_the_headroom_by_attempt_as_the_page_has_them(shares, role, reveal, most, total):
    found = of_styles(shares, role, reveal=reveal)
    assert [found.closed(value) for value in found.most] == pytest.approx(most, abs=5e-5)
    assert [found.closed(value) for value in found.total] == pytest.approx(total, abs=5e-5)


@pytest.mark.parametrize(("role", "best", "fixed"), [("first", 17 / 36, 1 / 3), ("second", 19 / 36, 5 / 12)])
def test_the_held_out_styles_leave_headroom_to_both_seats(role, best, fixed):
    found = of_styles(HELD_OUT, role)
    assert (found.best, found.fixed) == (pytest.approx(best), pytest.approx(fixed)) and found.headroom >= 0.05
    assert not {*HELD_OUT} & {*TRAINED} and {*HELD_OUT, *TRAINED} == {*STYLES}


def test_biased_rock_paper_scissors_by_hand():
    found = against_moves([{"rock": 3}, {"paper": 3}, {"scissors": 3}], attempts=3)
    # known: .6 - .2 = .4; not known: all three moves are alike. After one rock the beliefs are .6 .2 .2, so that
    # the next is rock with .44 and each other with .28: paper earns .16
    assert found.best == pytest.approx(0.4) and found.fixed == pytest.approx(0)
    assert found.most == pytest.approx((0, 0.16, 0.192)) and found.total == pytest.approx(found.last)
    third = 0.0
    for seen in itertools.product(range(3), repeat=2):
        like = np.array([np.prod([0.6 if move == one else 0.2 for move in seen]) for one in range(3)]) / 3
        nxt = [sum(like[one] * (0.6 if move == one else 0.2) for one in range(3)) for move in range(3)]
        third += max(nxt[(own - 1) % 3] - nxt[(own + 1) % 3] for own in range(3))  # rock, paper, scissors
    assert found.most[2] == pytest.approx(third)


def test_opponents_that_give_themselves_away_are_known_from_the_second_attempt_on():
    found = against_moves([{"paper": 0, "scissors": 0}, {"rock": 0, "scissors": 0}], attempts=3, shares={"0": 3, "1": 1})
    assert found.best == pytest.approx(1) and found.fixed == pytest.approx(0.75)
    assert found.shares == {"0": 0.75, "1": 0.25} and found.fixed_by == pytest.approx({"0": 1, "1": 0})
    assert found.last == found.most == pytest.approx((0.75, 1, 1))
    assert found.last_by["1"] == pytest.approx((0, 1, 1))


def test_one_opponent_leaves_nothing_to_adapt_to_and_closed_is_none():
    found = against_moves([{"rock": 3}], attempts=2)
    assert found.headroom == pytest.approx(0) and found.closed(0.3) is None and found.most == pytest.approx((0.4, 0.4))


def test_preferred_cells_of_tic_tac_toe_leave_no_headroom_as_one_policy_beats_them_all():
    cells = ("a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3")
    pool = {"rows": scripted(preference=cells), "back": scripted(preference=cells[::-1])}
    found = adaptation_ceiling(make_game("tic_tac_toe"), role="O", opponents=pool, attempts=2)
    assert found.best == found.fixed == pytest.approx(1)


# -- brute force -------------------------------------------------------------------------------

DEALS = list(itertools.permutations(range(3), 2))
POLICIES = list(itertools.product((False, True), repeat=6))  # bets with J, Q, K; calls with J, Q, K


def does(policy, card, faced):
    return bool(policy[card + 3 * faced])


def one_play(cards, policies):
    """Kuhn poker, written anew: (actions, returns of the first seat, whether cards are shown)."""
    low = 1 if cards[0] > cards[1] else -1
    if does(policies[0], cards[0], False):
        return ("bb", 2 * low, True) if does(policies[1], cards[1], True) else ("bp", 1, False)
    if not does(policies[1], cards[1], False):
        return "pp", low, True
    return ("pbb", 2 * low, True) if does(policies[0], cards[0], True) else ("pbp", -1, False)


def brute(seat, pool, reveal):
    found = []
    for own in POLICIES:
        earned, told = np.zeros(len(pool)), {}
        for number, style in enumerate(pool):
            bot = [*STYLES[style][0], *STYLES[style][1]]
            for cards in DEALS:
                acts, first, shown = one_play(cards, (own, bot) if seat == 0 else (bot, own))
                earned[number] += (first if seat == 0 else -first) / 6
                what = (cards[seat], acts, first, cards[1 - seat] if shown and reveal else None)
                told.setdefault(what, np.zeros(len(pool)))[number] += 1 / 6
        found.append((earned, told))
    return found


@pytest.mark.parametrize("reveal", [False, True])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("shares", [TRAINED, {"station": 0.5, "passive": 0.2, "aggressive": 0.3}], ids=["trained", "other"])
def test_two_attempts_of_kuhn_poker_against_brute_force(seat, reveal, shares):
    prior, policies = np.array([*shares.values()]), brute(seat, shares, reveal)
    worth = np.array([earned for earned, _ in policies])  # [64, K]
    found = of_styles(shares, KUHN.roles[seat], attempts=2, reveal=reveal)
    assert found.fixed == pytest.approx((worth @ prior).max())
    assert [*found.best_by.values()] == pytest.approx(worth.max(axis=0).tolist())
    second = [sum((worth @ (prior * weights)).max() for weights in told.values()) for _, told in policies]
    assert found.last[1] == pytest.approx(max(second))
    sums = [earned @ prior + later for (earned, _), later in zip(policies, second, strict=True)]
    assert sum(found.total) == pytest.approx(max(sums))
    good = [total for total, later in zip(sums, second, strict=True) if later > max(second) - 1e-9]
    assert sum(found.last) == pytest.approx(max(good))  # of those that are best in the last, best in all


def test_attempt_by_attempt_no_policy_exceeds_what_that_attempt_can_earn():
    for role, shares in itertools.product(KUHN.roles, (TRAINED, HELD_OUT)):
        found = of_styles(shares, role, attempts=4)
        assert [*found.most] == sorted(found.most) and found.most[-1] <= found.best + 1e-12
        assert all(one <= top + 1e-12 for one, top in zip(found.last, found.most, strict=True))
        assert all(one <= top + 1e-12 for one, top in zip(found.total, found.most, strict=True))
        assert sum(found.total) >= sum(found.last) - 1e-12
        for row, by in ((found.last, found.last_by), (found.total, found.total_by)):
            assert row == pytest.approx([sum(found.shares[name] * by[name][n] for name in by) for n in range(4)])


# -- beside the other exact code -----------------------------------------------------------------


@pytest.mark.parametrize("game", ["kuhn_poker", "tiny_hanabi"])
def test_best_and_fixed_are_those_of_the_game_tree(game):
    rules = make_game(game)
    states = enumerate_info_states(rules)
    rows = [ask(scorer, states)[0] for scorer in (UniformScorer(), from_table(states, average_policy(rules, "cfr", 30)))]
    for seat, role in enumerate(rules.roles):
        pool = {"random": random(), "cfr": cfr(iterations=30, variant="cfr")}
        found = adaptation_ceiling(rules, role=role, opponents=pool, shares={"random": 1, "cfr": 3}, attempts=1)
        wanted = [best_response_values(rules, states, row)[seat] for row in rows]
        assert [*found.best_by.values()] == pytest.approx(wanted)
        tree = folded(states.tree, states.seats == seat, [(0.25, rows[0]), (0.75, rows[1])])
        answer = best_response(tree, states.seats, rows[0], seat)
        assert found.fixed == pytest.approx(policy_values(tree, states.seats, answer).returns[seat])


class Coin:
    """The left seat is told heads or tails, which come with 3/4 and 1/4; a right guess of what the other says pays."""

    name, roles, num_seats, max_turns, brief = "coin", ("left", "right"), 2, 2, True

    def openings(self):
        return ((0.75, Toss("heads")), (0.25, Toss("tails")))


class Toss:
    def __init__(self, side, said=()):
        self.side, self.said = side, said

    @property
    def done(self):
        return bool(self.said)

    @property
    def returns(self):
        won = float(bool(self.said) and self.said[0] == self.said[1]) * (2.0 if self.side == "heads" else 1.0)
        return (won, -won)

    def due(self):
        return () if self.said else (0, 1)

    def legal(self, seat):
        return ("a", "b")

    def observe(self, seat):
        return Observation(told="toss", key=self.side if seat == 0 else "right")

    def step(self, replies):
        self.said = (replies[0], replies[1])

    def clone(self):
        return Toss(self.side, self.said)

    def ending(self, seat):
        return self.said[1 - seat]


def test_an_environment_whose_chance_comes_first_by_hand():
    pool = {"a": biased(weights={"a": 3}), "b": biased(weights={"b": 3})}
    found = adaptation_ceiling(Coin(), role="left", opponents=pool, attempts=2)
    # the mean prize is 3/4 * 2 + 1/4 = 7/4; a right guess has 3/4 where the other is known, else 1/2. After one
    # reply the beliefs are 3/4 and 1/4, so that the next reply is the same with 9/16 + 1/16
    assert found.best == pytest.approx(7 / 4 * 3 / 4) and found.fixed == pytest.approx(7 / 4 / 2)
    assert found.most == found.total == pytest.approx((7 / 4 / 2, 7 / 4 * 5 / 8))


@pytest.mark.parametrize("reveal", [False, True])
@pytest.mark.parametrize(("name", "style"), [("kuhn_poker", "brief"), ("kuhn_poker", "full"), ("rock_paper_scissors", "brief")])
def test_what_is_told_at_an_end_is_what_a_trial_tells(name, style, reveal):
    inner = {"name": name, "options": {"style": style}}
    rules = make_game("trial", options={"environment": inner, "reveal": reveal, "reflect": False, "attempts": 40})
    agent = random()
    tree = attempt_tree.attempt_tree(rules.inner, 0, {"random": agent}, reveal=reveal)
    ends, branches = set(), [tree.root]
    while branches:
        branch = branches.pop()
        ends |= {told for told, _ in branch.told}
        branches += [after for decision in branch.decisions.values() for after in decision.after.values()]
    course, met, count, root = rules.reset(Stream.from_seed(2)), set(), 0, Stream.from_seed(3)
    while not course.done:
        course.step({seat: agent.choose(course, seat, root.child(count).child(seat)) for seat in course.due()})
        met |= {course.news[0]} if 0 in course.news else set()
        count += 1
    assert met <= ends and len(met) > len(ends) / 3


# -- no ceiling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "options", "role", "opponent", "says"),
    [
        ("tic_tac_toe", {}, "X", mcts(), "'it' cannot be described exactly"),
        ("kuhn_poker", {"players": 3}, "first", random(), "the exact ceiling is of two seats, and it has 3"),
        ("bargain", {}, None, random(), "no method openings"),
        ("tic_tac_toe", {}, "O", kuhn_bot(), "'kuhn_bot' plays kuhn_poker of two seats alone"),
        ("rock_paper_scissors", {}, "left", scripted(moves=("rock",)), "does not count a seat's turns"),
        ("kuhn_poker", {}, "first", biased(weights={"raise": 2}), "bet"),
    ],
)
def test_where_there_is_none_the_reason_is_given(game, options, role, opponent, says):
    rules = make_game(game, options=options)
    if opponent.name == "biased":
        with pytest.raises(UnknownNameError, match=says):
            ceiling_or_reason(rules, role=role, opponents={"it": opponent})
        return
    found, why = ceiling_or_reason(rules, role=role or rules.roles[0], opponents={"it": opponent})
    assert found is None and why.startswith("no ceiling: ") and says in why


def test_what_is_too_large_gives_a_reason(monkeypatch):
    monkeypatch.setattr(attempt_tree, "MOST_HISTORIES", 30)
    assert "over 30 histories" in ceiling_or_reason(KUHN, role="first", opponents={"it": random()})[1]
    monkeypatch.undo()
    monkeypatch.setattr(attempt_tree, "MOST_BELIEFS", 5)
    with pytest.raises(TooLargeError, match="More than 5 beliefs"):
        of_styles(TRAINED, "first")


def test_what_names_nobody_is_refused():
    with pytest.raises(UnknownNameError, match="role of kuhn_poker 'third'"):
        ceiling_or_reason(KUHN, role="third", opponents={"it": random()})
    with pytest.raises(UnknownNameError, match="opponent 'other'"):
        adaptation_ceiling(KUHN, role="first", opponents={"it": random()}, shares={"other": 1})
    for shares in ({}, {"it": 0}, {"it": -1}):
        with pytest.raises(GameError, match="a weight above 0"):
            adaptation_ceiling(KUHN, role="first", opponents={"it": random()}, shares=shares)
    with pytest.raises(GameError, match="no opponents"):
        adaptation_ceiling(KUHN, role="first", opponents={})
    with pytest.raises(GameError, match="attempts=0"):
        of_styles(TRAINED, "first", attempts=0)


def test_an_opponent_that_is_named_without_a_weight_is_refused_and_weights_may_have_any_scale():
    with pytest.raises(GameError, match="must give each of the opponents"):
        adaptation_ceiling(KUHN, role="first", opponents={"a": random(), "b": random()}, shares={"a": 1})
    ten = {name: 10 * share for name, share in TRAINED.items()}
    assert of_styles(ten, "first").last == pytest.approx(of_styles(TRAINED, "first").last)
