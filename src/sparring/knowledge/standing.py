"""Where the decisions of recorded plays stand in the abstracted game, and what was done there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparring.knowledge.base import Gathered
from sparring.knowledge.places import Place
from sparring.knowledge.space import Space, few
from sparring.knowledge.statements import Decision, placed


class Standing(NamedTuple):
    """A decision whose place in the abstracted game is known."""

    game: str  # the environment's name
    decision: Decision
    place: Place
    said: tuple[str | None, ...]  # for each reply what stands for it there; None: nothing


def standings(
    gathered: Gathered, found: Sequence[Sequence[Decision]], space: Space, *, gists: bool
) -> list[list[Standing]]:
    """Return of each play the decisions whose place in the abstracted game is known.

    Args:
        gathered: the plays of a step.
        found: the decisions of each.
        space: has the clusters.
        gists: see ``places.place_of``.
    """
    stands = _stand_ins(found, space)
    of_game = {name: few(game, space.kinds) for name, game in gathered.environments.items()}
    made = []
    for episode, own in zip(gathered.episodes, found, strict=True):
        few_words = of_game[episode.game]
        places = placed(few_words, episode, own, lambda *one: stands.get(one), gists=gists)
        stood = []
        for one in own:
            place = places.get(one.number)
            if place is None:
                continue
            said = tuple(
                stands.get((one.kind, line)) if one.kind and line is not None else line
                for line in one.said
            )
            stood.append(Standing(episode.game, one, place, said))
        made.append(stood)
    return made


def _stand_ins(
    found: Sequence[Sequence[Decision]], space: Space
) -> dict[tuple[str, str], str | None]:
    """Return what stands for each statement in the abstracted game, by kind and statement."""
    lines = {
        (one.kind, line)
        for own in found
        for one in own
        for line in one.said
        if line is not None and one.kind in space.kinds
    }
    stands: dict[tuple[str, str], str | None] = {}
    for kind in sorted(space.kinds):
        own_lines = sorted(line for of, line in lines if of == kind)
        pairs = zip(own_lines, space.stand_ins(kind, own_lines), strict=True)
        stands |= {(kind, line): sentence for line, sentence in pairs}
    return stands
