"""Two ends between which a team's gain lies where its best joint plan cannot be searched for.

    lower_t = max over seats s of max over d_s of u_t(d_s, pi of its team-mates, pi) - u_t(pi)
    upper_t = max over d of u_t(d, pi) - u_t(pi)     d: a plan of one player who sees all that the
                                                     seats of the team see, and acts for all of them

The best plans of the team's seats together gain at least the first, and no more than the second.
Where the two are far apart, what the seats hide from one another matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from sparring.environments.base import Enumerable, Node, sides_of
from sparring.environments.openspiel.base import Game
from sparring.environments.played import tree_of
from sparring.measure.info_states import InfoStates
from sparring.measure.team_exploitability import shared
from sparring.ops.game_tree import GameTree, best_response, policy_values
from sparring.types import FloatArray, IntArray

Sides = tuple[tuple[int, ...], ...]  # the seats of each team


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamEnds:
    """Gains of each team, in the environment's units."""

    values: tuple[float, ...]  # expected payoff of each team
    alone: tuple[float, ...]  # the most that one of its seats gains for it
    as_one: tuple[float, ...]  # what it gains as one player that sees what all its seats see

    @property
    def one_seat_exploitability(self) -> float:
        """The mean over teams of the most that one seat gains."""
        return float(np.mean(self.alone))

    @property
    def as_one_exploitability(self) -> float:
        """The mean over teams of what a team gains as one player."""
        return float(np.mean(self.as_one))


def team_ends(
    game: Game, info_states: InfoStates, teams: Sequence[int], policy: Sequence[FloatArray]
) -> TeamEnds:
    """Return the least and the most that teams can gain by their best plans against a policy.

    Args:
        game: the game the information states were enumerated from.
        info_states: of ``enumerate_info_states(game)``.
        teams: the number of each seat's team, ``environments.base.teams_of``; the payoff of a team
            is the mean of its seats' payoffs.
        policy: probabilities of the legal actions of each information state, I arrays.
    """
    sides, seats = sides_of(tuple(teams)), info_states.seats
    tree = shared(info_states.tree, teams)
    found = []
    for own, one in zip(sides, _one_players(game, info_states, tree, sides), strict=True):
        value = _paid(tree, seats, policy, own[0])
        alone = max(
            _paid(tree, seats, best_response(tree, seats, policy, seat), seat) for seat in own
        )
        rows = [policy[state] for state in one.states]
        best = best_response(one.tree, one.seats, rows, own[0])
        joint = _paid(one.tree, one.seats, best, own[0])
        found.append((value, max(alone - value, 0.0), max(joint - value, 0.0)))
    values, alone_gains, joint_gains = zip(*found, strict=True)
    return TeamEnds(values=values, alone=alone_gains, as_one=joint_gains)


def _paid(tree: GameTree, seats: IntArray, policy: Sequence[FloatArray], seat: int) -> float:
    """Return what a seat is paid."""
    return float(policy_values(tree, seats, policy).returns[seat])


@dataclass(frozen=True, kw_only=True, slots=True)
class _OnePlayer:
    """A game in which a team is its first seat, who knows all that its seats know."""

    tree: GameTree
    seats: IntArray  # who acts in each information state; -1 in those that are no more
    states: IntArray  # of each, one of the game's whose policy is played there


_merged: WeakKeyDictionary[InfoStates, dict[Sides, list[_OnePlayer]]] = WeakKeyDictionary()


def _one_players(
    game: Game, info_states: InfoStates, tree: GameTree, sides: Sides
) -> list[_OnePlayer]:
    """Return the game of each team as one player, found once per ``info_states``."""
    known = _merged.setdefault(info_states, {})
    if sides not in known:
        seats = info_states.seats
        state_at = np.full(len(tree.parent), -1, dtype=np.int64)  # left by a history's children
        state_at[tree.parent[1:]] = tree.info_state[1:]
        team = {seat: own for own in sides for seat in own}
        told = [
            tuple(node.information_state_string(seat) for seat in team[int(seats[state])])
            if (state := int(state_at[at])) >= 0
            else ()
            for at, node in enumerate(_histories(tree_of(game)))
        ]
        known[sides] = [_as_one(tree, seats, state_at, told, own) for own in sides]
    return known[sides]


def _as_one(
    tree: GameTree,
    seats: IntArray,
    state_at: IntArray,
    told: Sequence[tuple[str, ...]],
    own: Sequence[int],
) -> _OnePlayer:
    """Return the game in which a team is one player.

    Args:
        tree: every history.
        seats: who acts in each information state.
        state_at: the information state of each history, -1 where nobody acts.
        told: of each history what the seats of the team that acts know.
        own: seats of the team.
    """
    number: dict[tuple[object, ...], int] = {}
    states = [*range(len(seats))]
    new_at = state_at.copy()
    before: list[tuple[int, int]] = []  # of each history, the team's last state and choice
    for at, parent in enumerate(tree.parent.tolist()):
        last = before[parent] if parent >= 0 else (-1, -1)
        if parent >= 0 and new_at[parent] >= len(seats):
            last = (int(new_at[parent]), int(tree.choice[at]))
        before.append(last)
        state = int(state_at[at])
        if state < 0 or int(seats[state]) not in own:
            continue
        key = (last, int(seats[state]), told[at])
        if key not in number:
            number[key] = len(states)
            states.append(state)
        new_at[at] = number[key]
    info_state = tree.info_state.copy()
    info_state[1:] = new_at[tree.parent[1:]]
    acts = np.where(np.isin(seats, own), -1, seats)
    return _OnePlayer(
        tree=replace(tree, info_state=info_state),
        seats=np.append(acts, np.full(len(number), own[0])),
        states=np.array(states),
    )


def _histories(rules: Enumerable) -> Iterator[Node]:
    """Yield every history, in the order of ``enumerate_info_states``."""
    stack: list[Node] = [rules.first_node()]
    while stack:
        node = stack.pop()
        yield node
        if node.is_terminal():
            continue
        if node.is_chance_node():
            follow = [action for action, share in node.chance_outcomes() if share > 0]
        else:
            follow = node.legal_actions()
        stack += reversed([node.child(action) for action in follow])
