"""Which policy sits in which seat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparring.config import RunConfig
from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError, UnknownNameError
from sparring.refs import MAIN


class Roles:
    """The policy of every seat of a run's environments.

    Args:
        config: of the run.
        games: its environments, in the order of the configuration.

    Raises:
        ConfigError: a role has no policy, or a policy no role. Where several learn in one league,
            each plays all roles, and the seats are those of ``main``.
        UnknownNameError: a role is named that no environment has.
    """

    def __init__(self, config: RunConfig, games: Sequence[Game]) -> None:
        own = list(zip(games, config.environments, strict=True))
        self._policies, self._shared = tuple(config.by_policy), config.roles
        self._several = bool(config.policies) and not config.league.learners
        self._given = {game.name: {**config.roles, **section.roles} for game, section in own}
        every = {role: None for game, _ in own for role in game.roles}
        _check(config.roles, every)
        for game, section in own:
            _check(section.roles, game.roles)
        seated = {name for game, _ in own for name in self.of(game)} | set(config.league.learners)
        for name in self._policies:
            if name not in seated:
                raise ConfigError(
                    f"policies.{name}: it plays no role; give it one of {', '.join(every)}, such "
                    f"as roles: {{{next(iter(every))}: {name}}}, or leave it out."
                )

    def of(self, game: Game) -> tuple[str, ...]:
        """Return the policy of each seat of an environment, [num_seats].

        Raises:
            ConfigError: a role has none.
        """
        if not self._several:
            return (MAIN,) * game.num_seats
        given = self._given.get(game.name, self._shared)
        missing = [role for role in game.roles if role not in given]
        if missing:
            raise ConfigError(
                f"roles: the role {missing[0]!r} of {game.name!r} has no policy. Its roles are "
                f"{', '.join(dict.fromkeys(game.roles))}; write roles: "
                f"{{{missing[0]}: {self._policies[0]}}}, or another one of the policies "
                f"{', '.join(self._policies)}."
            )
        return tuple(given[role] for role in game.roles)


def _check(given: Iterable[str], there: Iterable[str]) -> None:
    """Refuse a role that nobody has."""
    for role in given:
        if role not in there:
            raise UnknownNameError("role in `roles`", role, there)
