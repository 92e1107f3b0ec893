"""Functions for rewards of teams: pay by an environment's figures, and errors for combinators."""

from __future__ import annotations

import math

from sparring.core.errors import RewardError
from sparring.core.records import Episode
from sparring.environments.base import Combination, Environment, HasLeads
from sparring.play.replay import figures_of


def innermost_environment(game: Environment) -> Environment:
    """Return the innermost environment of nested combinators."""
    while isinstance(game, Combination):
        game = game.inner
    return game


def combinator_error(game: Environment, inner: Environment, reward: str) -> RewardError:
    """Return the error of a reward for an environment inside a combinator.

    Args:
        game: the combinator.
        inner: the inner environment, which the reward supports.
        reward: name of the reward.
    """
    return RewardError(
        f"rewards {reward!r}: {game.name} combines episodes of {inner.name}, and each seat's part "
        f"is known only for a single episode of {inner.name}. Leave the reward out, or play "
        f"{inner.name} without {game.name}."
    )


def pay_leads(
    episode: Episode, game: Environment, name: str, reward: str
) -> tuple[float | None, ...]:
    """Return a figure of the episode on the last turn of each leading seat, None on other turns.

    All turns have None if the environment has no such figure or no lead, or if the episode was
    truncated or forfeited. A seat whose figure is nan has None.

    Args:
        episode: the episode.
        game: the environment.
        name: name of the figure, as in ``game.figures``.
        reward: name of the reward, for errors.

    Raises:
        RewardError: the environment is a combinator of an environment with a lead and this figure.
    """
    no_rewards = (None,) * len(episode.turns)
    if not isinstance(game, HasLeads) or name not in game.figures:
        inner = innermost_environment(game)
        has_figure = inner is not game and name in inner.figures
        if (
            has_figure
            and isinstance(inner, HasLeads)
            and any(inner.leads(seat) for seat in range(inner.num_seats))
        ):
            raise combinator_error(game, inner, reward)
        return no_rewards
    figures = figures_of(game, episode)
    if figures is None:
        return no_rewards
    last_index_of = {turn.seat: index for index, turn in enumerate(episode.turns)}
    leads = [seat for seat in last_index_of if game.leads(seat)]
    values = {last_index_of[seat]: figures[name][seat] for seat in leads}
    rewards = {index: value for index, value in values.items() if not math.isnan(value)}
    return tuple(rewards.get(index) for index in range(len(episode.turns)))
