"""Kuhn poker by a fixed style that is not an equilibrium, as an opponent to adapt to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sparring.core.errors import GameError
from sparring.environments.base import Play, is_searchable_play
from sparring.environments.combining import innermost_seat
from sparring.environments.reply import actions_meant
from sparring.play.players.chances import AgentWithChances, legal_actions_of

Style = Literal["conservative", "aggressive", "intermediate", "passive", "station", "loose"]

# style -> probabilities, with J, Q and K, to make the first bet, and to call a bet
STYLES: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "conservative": ((0, 0, 1), (0, 0, 1)),
    "aggressive": ((1, 1, 1), (0, 1, 1)),
    "intermediate": ((0, 1, 1), (0, 0, 1)),
    "passive": ((0, 0, 0), (0, 0, 0)),
    "station": ((0, 0, 0), (1, 1, 1)),
    "loose": ((0.5, 0.5, 1), (0.5, 0.5, 1)),
}


@dataclass(kw_only=True, eq=False)
class KuhnBot(AgentWithChances):
    """Kuhn poker by a fixed style that is not an equilibrium, so that an agent can adapt to it.

    What: it bets and calls only by its card, and has no memory. The first three styles are MAGE's;
    ``passive``, ``station`` and ``loose`` are a second family to be held out of training.
    When to use: inside ``trial``, to measure how far an agent adapts to its opponent. Measure in
    chips: no policy raises its win rate by knowing which of MAGE's three styles it plays against.
    Mathematics: the best response to each style gains, in chips per game (first, second seat),

        conservative .167 .333    aggressive .333 .333    intermediate .333 .167
        passive 1.00 1.00         station .333 .333       loose .083 .250

    If the style is drawn, the best policy that knows it gains more than the best one that does not:

        first three, shares .3 .3 .4    known .283 .267   unknown .083 .167   difference .200 .100
        last three, equal shares        known .472 .528   unknown .333 .417   difference .139 .111

    ``measure.attempt_tree`` computes these, and the best values over several attempts.
    Pitfalls: two seats only. Other games are refused at the first turn.
    Reference: MAGE (arXiv 2603.03680), the opponents of its Kuhn poker.
    Verified by: tests/play/players/test_kuhn_bot.py, tests/measure/test_attempt_tree.py.

    Args:
        style: the rule for the first bet and for calls. "conservative" (default): bets and calls
            only with the King. "aggressive": always bets; calls with Queen and King.
            "intermediate": bets with Queen and King; calls with the King. "passive": never bets or
            calls. "station": never bets; always calls. "loose": bets and calls with the King
            always, with Jack and Queen half of the time.
    """

    style: Style = "conservative"

    name = "kuhn_bot"

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of passing and betting.

        Raises:
            GameError: the environment is not Kuhn poker of two seats.
        """
        play, inner_seat = innermost_seat(state, seat)
        legal = legal_actions_of(self.name, state, seat)
        rules: Any = getattr(play, "game", getattr(play, "rules", play))
        if not is_searchable_play(play) or rules.rules_name != "kuhn_poker" or rules.num_seats != 2:
            raise GameError(
                "Agent 'kuhn_bot' plays only kuhn_poker of two seats, not "
                f"{getattr(rules, 'name', type(play).__name__)}; "
                "write biased or scripted there."
            )
        key = play.observe(inner_seat).key  # the card, then p and b for the actions
        p_bet = STYLES[self.style]["b" in key][int(key[0])]
        chances = dict(zip(play.legal_actions(), (1.0 - p_bet, float(p_bet)), strict=True))
        actions = actions_meant(state, seat, legal)
        if len(actions) < len(chances):  # a wrapper such as choose offers only some actions
            return dict.fromkeys(legal, 1.0 / len(legal))
        return {reply: chances[action] for reply, action in zip(legal, actions, strict=True)}


kuhn_bot = KuhnBot
