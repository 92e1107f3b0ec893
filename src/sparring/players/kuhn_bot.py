"""Kuhn poker by a fixed style that is no equilibrium, so that it can be adapted to."""

from __future__ import annotations

from typing import Any, Literal

from sparring.environments.combining import played
from sparring.environments.openspiel.base import State
from sparring.errors import GameError
from sparring.players.base import Agent
from sparring.players.described import DescribedAgent, listed

Style = Literal["conservative", "aggressive", "intermediate"]

# by style, with J, Q, K: the probability to bet where nobody has, and to call a bet
STYLES: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "conservative": ((0, 0, 1), (0, 0, 1)),
    "aggressive": ((1, 1, 1), (0, 1, 1)),
    "intermediate": ((0, 1, 1), (0, 0, 1)),
}


class KuhnBot(DescribedAgent):
    """Bets and calls by its card alone."""

    def __init__(self, style: str) -> None:
        super().__init__("kuhn_bot")
        self.style = style

    def chances(self, state: Any, seat: int) -> dict[str, float]:
        """Return the probabilities of passing and betting.

        Raises:
            GameError: it is no Kuhn poker of two seats.
        """
        play = played(state)
        legal = listed(self.name, state, seat)
        rules = getattr(play, "game", None)
        if not isinstance(play, State) or rules.rules_name != "kuhn_poker" or rules.num_seats != 2:
            raise GameError(
                "Agent 'kuhn_bot' plays kuhn_poker of two seats alone, not "
                f"{getattr(rules or getattr(play, 'rules', play), 'name', type(play).__name__)}; "
                "write biased or scripted there."
            )
        known = play.observe(seat).key  # the card, then p and b for all that was done
        bet = STYLES[self.style]["b" in known][int(known[0])]
        return dict(zip(legal, (1.0 - bet, float(bet)), strict=True))


def kuhn_bot(*, style: Style = "conservative") -> Agent:
    """Kuhn poker by a fixed style.

    Args:
        style: how it plays.
    """
    return KuhnBot(style)
