"""What rewards of teams share: pay by what an environment counts, and what they cannot pay in."""

from __future__ import annotations

import math

from sparring.core.errors import RewardError
from sparring.core.records import Episode
from sparring.environments.base import Combination, Environment, HasLeads
from sparring.play.replay import figures_of


def within(game: Environment) -> Environment:
    """Return the environment that combinators are made of in the end; of any other, itself."""
    while isinstance(game, Combination):
        game = game.inner
    return game


def around(game: Environment, inner: Environment, reward: str) -> RewardError:
    """Return the error of a reward that is for an environment, and is asked of a combinator of it.

    Args:
        game: the combinator.
        inner: the environment, which has what the reward pays for.
        reward: its name.
    """
    return RewardError(
        f"rewards {reward!r}: {game.name} is made of plays of {inner.name}, and what each seat has "
        f"done is known of a play of {inner.name} by itself alone. Leave the reward out, or play "
        f"{inner.name} without {game.name}."
    )


def paid_to_leads(
    episode: Episode, game: Environment, name: str, reward: str
) -> tuple[float | None, ...]:
    """Return a figure of the play on the last turn of each seat that leads, None on all others.

    None everywhere where the environment does not count it, or has no lead, in plays that were cut
    or forfeited, and for a seat of which the figure says nothing (nan).

    Args:
        episode: the play.
        game: its environment; ``leads(seat)`` says who leads.
        name: of the figure.
        reward: that pays it.

    Raises:
        RewardError: the environment is a combinator of one that has a lead and counts this.
    """
    nothing = (None,) * len(episode.turns)
    if not isinstance(game, HasLeads) or name not in game.figures:
        inner = within(game)
        counted = inner is not game and name in inner.figures
        if (
            counted
            and isinstance(inner, HasLeads)
            and any(inner.leads(seat) for seat in range(inner.num_seats))
        ):
            raise around(game, inner, reward)
        return nothing
    found = figures_of(game, episode)
    if found is None:
        return nothing
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    paid = {last[seat]: found[name][seat] for seat in last if game.leads(seat)}
    said = {number: value for number, value in paid.items() if not math.isnan(value)}
    return tuple(said.get(number) for number in range(len(episode.turns)))
