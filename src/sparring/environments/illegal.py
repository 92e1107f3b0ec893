"""What an illegal or unparsable reply costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, get_args

from sparring.core.errors import ConfigError, GameError, UnknownNameError, quoted

Rule = Literal["forfeit", "retry", "random"]
Payoff = Literal["zero_sum", "offender_only", "spiral", "mars"]

SPIRAL_OFFENDER, SPIRAL_OTHERS = -1.5, 0.5  # the constants of the SPIRAL release
MARS_FINE = 10.0  # the MARS release charges the stake and 10 more


class HasUtilities(Protocol):
    """What an environment says of its payoffs; see ``Environment``."""

    name: str
    num_seats: int
    min_utility: float
    utility_sum: float | None
    cooperative: bool


class HasReturns(Protocol):
    """A play, as far as it has paid."""

    @property
    def returns(self) -> tuple[float, ...]:
        """HasUtilities so far, [num_seats], cumulative."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class IllegalRule:
    """What happens at a reply that is no legal action, and what a forfeiture pays.

    ``rule``: "forfeit" ends the game; "retry" asks again up to ``retries`` times and then plays a
    random legal action; "random" plays a random legal action at once. ``penalty`` is subtracted
    from the offender at every such reply, as the reward component "illegal", under every rule;
    where the game goes on it is shaping, and bounded as such, so that a win with illegal replies
    stays better than a clean draw (``reorder_outcomes`` lifts that). ``payoff`` says what a
    forfeiture pays:

    - "zero_sum": the offender gets the game's least utility and the other seats share the rest of
      the game's sum; in a cooperative game every seat gets the least utility; in a general-sum game
      the others keep what they have.
    - "offender_only": the offender gets the least utility, the others 0.
    - "spiral": -1.5 for the offender, +0.5 for each other seat (as SPIRAL's code does).
    - "mars": minus the offender's stake minus 10, the others 0 (as MARS's code does).
    """

    rule: Rule = "forfeit"
    penalty: float = 0.0
    retries: int = 2
    payoff: Payoff = "zero_sum"

    def __post_init__(self) -> None:
        for field, kind in (("rule", Rule), ("payoff", Payoff)):
            if getattr(self, field) not in get_args(kind):
                raise UnknownNameError(
                    f"value of illegal.{field}", str(getattr(self, field)), get_args(kind)
                )
        for field in ("penalty", "retries"):
            value = getattr(self, field)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value < float("inf")
            ):
                raise ConfigError(
                    f"illegal.{field}={quoted(value)} must be a finite number, at least 0; write "
                    f"illegal.{field}=1."
                )
        if not isinstance(self.retries, int):
            raise ConfigError(
                f"illegal.retries={quoted(self.retries)} must be a whole number; write "
                "illegal.retries=2."
            )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> IllegalRule:
        """Return the rule that a configuration mapping describes.

        Raises:
            UnknownNameError: an option, a rule or a payoff that does not exist.
            ConfigError: a number out of range.
        """
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownNameError("option of illegal", name, known)
        return cls(**options)

    def check(self, game: HasUtilities) -> None:
        """Refuse a rule that asks an environment for what it does not say.

        Raises:
            GameError: a forfeit pays the least utility, and the environment names none.
        """
        if self.rule != "forfeit" or self.payoff in ("spiral", "mars"):
            return
        if not math.isfinite(game.min_utility):
            raise GameError(
                f"Environment {game.name!r} does not say what a seat can lose, which is what a "
                "forfeit costs; give it min_utility = -1.0 (its least return), or write "
                "illegal: {rule: retry}."
            )

    def forfeit_returns(
        self, game: HasUtilities, state: HasReturns, offender: int
    ) -> tuple[float, ...]:
        """Return the final returns, [num_seats], when ``offender`` forfeits in ``state``."""
        if self.payoff == "spiral":
            mine, others = SPIRAL_OFFENDER, SPIRAL_OTHERS
        elif self.payoff == "mars":
            staked = getattr(game, "stake", None)  # an option's number in some environments
            stake = staked(state, offender) if callable(staked) else 1.0
            mine, others = -stake - MARS_FINE, 0.0
        elif self.payoff == "offender_only":
            mine, others = game.min_utility, 0.0
        else:
            return _zero_sum(game, state, offender)
        return tuple(mine if seat == offender else others for seat in range(game.num_seats))


def _zero_sum(game: HasUtilities, state: HasReturns, offender: int) -> tuple[float, ...]:
    """Return the returns of a forfeiture.

    They keep the sum of the game's utilities where the game has one.
    """
    if game.cooperative:
        return (game.min_utility,) * game.num_seats
    if game.utility_sum is None:
        return tuple(
            game.min_utility if seat == offender else value
            for seat, value in enumerate(state.returns)
        )
    share = (game.utility_sum - game.min_utility) / max(game.num_seats - 1, 1)
    return tuple(game.min_utility if seat == offender else share for seat in range(game.num_seats))
