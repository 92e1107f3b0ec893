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

import numpy as np

from sparring.environments.base import sides_of
from sparring.environments.enumerable import Enumerable, Node
from sparring.environments.openspiel.base import Game
from sparring.environments.played import tree_of
from sparring.measure.info_states import InfoStates
from sparring.measure.team_exploitability import shared
from sparring.ops.game_tree import GameTree, best_response, policy_values
from sparring.types import FloatArray, IntArray


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
    seats, tree = info_states.seats, shared(info_states.tree, teams)
    found = []
    for own in sides_of(tuple(teams)):
        value = _paid(tree, seats, policy, own[0])
        alone = max(
            _paid(tree, seats, best_response(tree, seats, policy, seat), seat) for seat in own
        )
        one, acts, rows = _as_one(game, tree, seats, policy, own)
        joint = _paid(one, acts, best_response(one, acts, rows, own[0]), own[0])
        found.append((value, max(alone - value, 0.0), max(joint - value, 0.0)))
    values, alone_gains, joint_gains = zip(*found, strict=True)
    return TeamEnds(values=values, alone=alone_gains, as_one=joint_gains)


def _paid(tree: GameTree, seats: IntArray, policy: Sequence[FloatArray], seat: int) -> float:
    """Return what a seat is paid."""
    return float(policy_values(tree, seats, policy).returns[seat])


def _as_one(
    game: Game, tree: GameTree, seats: IntArray, policy: Sequence[FloatArray], own: Sequence[int]
) -> tuple[GameTree, IntArray, list[FloatArray]]:
    """Return the tree in which a team is its first seat, who knows all that its seats know.

    Also who acts in each information state of it, and the policy there.
    """
    state_at = np.full(len(tree.parent), -1, dtype=np.int64)  # left by each history's children
    state_at[tree.parent[1:]] = tree.info_state[1:]
    number: dict[tuple[object, ...], int] = {}
    rows, acts = list(policy), [-1 if seat in own else int(seat) for seat in seats]
    new_at = state_at.copy()
    before: dict[int, tuple[int, int]] = {}  # history -> the team's last state and choice
    for at, node in _histories(tree_of(game)):
        parent = int(tree.parent[at])
        last = before.get(parent, (-1, -1))
        if parent >= 0 and new_at[parent] >= len(policy):
            last = (int(new_at[parent]), int(tree.choice[at]))
        before[at] = last
        state = int(state_at[at])
        if state < 0 or int(seats[state]) not in own:
            continue
        told = tuple(node.information_state_string(seat) for seat in own)
        key = (last, int(seats[state]), told)
        if key not in number:
            number[key] = len(rows)
            rows.append(policy[state])
            acts.append(own[0])
        new_at[at] = number[key]
    info_state = tree.info_state.copy()
    info_state[1:] = new_at[tree.parent[1:]]
    return replace(tree, info_state=info_state), np.array(acts), rows


def _histories(rules: Enumerable) -> Iterator[tuple[int, Node]]:
    """Yield every history with its number, in the order of ``enumerate_info_states``."""
    stack: list[Node] = [rules.first_node()]
    number = 0
    while stack:
        node = stack.pop()
        yield number, node
        number += 1
        if node.is_terminal():
            continue
        if node.is_chance_node():
            follow = [action for action, share in node.chance_outcomes() if share > 0]
        else:
            follow = node.legal_actions()
        stack += reversed([node.child(action) for action in follow])
