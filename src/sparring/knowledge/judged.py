"""What a solution says of each reply: where it stands in the abstracted game, and its score."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sparring.knowledge.space import Space
from sparring.knowledge.standing import Standing

Prefer = Literal["ratio", "probability"]
EVEN = 1e-9
ILLEGAL = -1  # the cluster of what was no action


class Placed(NamedTuple):
    """A prompt with several replies, in the abstracted game."""

    episode: int  # its place among those gathered
    number: int  # of the turn
    state: tuple[str, str, str]  # environment, kind and list of actions, information state
    of: tuple[int, ...]  # action of each reply there


def placed_replies(stood: Sequence[Sequence[Standing]], space: Space) -> list[Placed]:
    """Return the prompts with several replies whose place in the abstracted game is known.

    Args:
        stood: of each play, of ``standing.standings``.
        space: has the strategies.
    """
    made = []
    for number, own in enumerate(stood):
        for game, one, place, said in own:
            known = space.strategies.get(game, {}).get(place.key)
            if not one.several or known is None or len(known) != len(place.called):
                continue
            if any(
                line is not None and action not in place.legal
                for line, action in zip(one.said, said, strict=True)
            ):
                continue  # the sentences in place of what was said leave other actions
            of = tuple(ILLEGAL if action is None else place.number(action) for action in said)
            pool = "/".join((one.kind, *place.called))
            made.append(Placed(number, one.number, (game, pool, place.key), of))
    return made


def scores_of(
    said: Sequence[Placed], space: Space, prefer: Prefer, floor: float
) -> tuple[list[list[float | None]], dict[str, float]]:
    """Return the scores of the replies to each prompt, and figures of them."""
    there: dict[tuple[str, str, str], Counter[int]] = {}
    everywhere: dict[str, Counter[int]] = {}
    for one in said:
        there.setdefault(one.state, Counter()).update(one.of)
        everywhere.setdefault(one.state[1], Counter()).update(one.of)
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    apart = []
    for state, counts in there.items():
        game, kind, key = state
        target = _floored(space.strategies[game][key], floor)
        k, in_all = len(target) - 1, everywhere[kind]
        share = {
            number: (counts[number] + k * in_all[number] / in_all.total()) / (counts.total() + k)
            for number in target
        }
        apart.append(sum(abs(target[number] - share[number]) for number in target) / 2)
        values[state] = {
            number: math.log(target[number] / share[number])
            if prefer == "ratio"
            else target[number]
            for number in counts
        }
    scores: list[list[float | None]] = [
        [values[one.state][number] for number in one.of] for one in said
    ]
    if not said:
        return scores, {}
    even = sum(_even(space.strategies[one.state[0]][one.state[2]]) for one in said)
    return scores, {"apart": sum(apart) / len(apart), "even": even / len(said)}


def _even(strategy: Sequence[float]) -> bool:
    """Return whether a solution prefers nothing, as one of a state that few plays came to."""
    return len(strategy) > 1 and max(strategy) - min(strategy) < EVEN


def _floored(strategy: Sequence[float], floor: float) -> dict[int, float]:
    """Return what each cluster is to have, and what is no action."""
    k = len(strategy)
    target = {number: (1 - floor) * p + floor / k for number, p in enumerate(strategy)}
    return {**target, ILLEGAL: floor / k}
