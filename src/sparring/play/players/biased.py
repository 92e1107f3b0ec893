"""A player that draws legal actions by weights, as an opponent to adapt to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparring.core.errors import ConfigError, UnknownNameError, quoted
from sparring.environments.base import Play, is_searchable_play
from sparring.environments.combining import innermost_play
from sparring.environments.options import unknown_words
from sparring.environments.reply import actions_meant
from sparring.play.players.chances import AgentWithChances, legal_actions_of


@dataclass(kw_only=True, eq=False)
class BiasedAgent(AgentWithChances):
    """Draws any legal action, with probabilities proportional to weights.

    What: the same weights at every turn, independent of the past. A name that is not an action or
    word of the environment is an error at the first turn.
    When to use: as an opponent to adapt to, such as one that prefers rock, and as biased random
    play.
    Mathematics: with weights w and the legal actions A,

        P(a) = w_a / sum over b in A of w_b

    In rock, paper, scissors {rock: 3, paper: 1} gives .6 .2 .2, as scissors has weight 1; the best
    response, paper, earns .4.
    In ``choose`` the number of a candidate has the weight of the action that it stands for.
    Pitfalls: if all legal actions have weight 0, they are equally likely.
    Verified by: tests/play/players/test_choices.py.

    Args:
        weights: weight by action, at least 0; all other actions have weight 1. null (default): all
            actions have weight 1, as with ``random``.

    Raises:
        ConfigError: a weight is negative or not finite, or the sum of weights is not finite.
    """

    weights: dict[str, float] | None = None

    name = "biased"

    def __post_init__(self) -> None:
        self._weights = self.weights or {}
        names = [name for name, weight in self._weights.items() if not 0 <= weight < math.inf]
        if names:
            name = names[0]
            raise ConfigError(
                f"biased: the weight of {quoted(name)} is {self._weights[name]!r}; "
                "write a number of at least 0."
            )
        if not math.isfinite(sum(self._weights.values())):
            raise ConfigError(
                f"biased: weights={quoted(self.weights)} have a sum that is not finite; write "
                "smaller weights."
            )

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of the legal actions.

        Raises:
            UnknownNameError: the environment has no action of a name in ``weights``.
            GameError: any text is a legal reply.
        """
        legal = legal_actions_of(self.name, state, seat)
        self._check_names(innermost_play(state), legal)
        pairs = zip(legal, actions_meant(state, seat, legal), strict=True)
        weights = {reply: self._weights.get(action, 1.0) for reply, action in pairs}
        total = math.fsum(weights.values())
        if not total:
            return dict.fromkeys(legal, 1.0 / len(legal))
        return {reply: weight / total for reply, weight in weights.items()}

    def _check_names(self, play: Play, legal: tuple[str, ...]) -> None:
        for name in self._weights:
            if name not in legal:
                words = _action_words(play)
                if words and unknown_words(name, words):
                    raise UnknownNameError("action", name, sorted({*legal, *words}))


def _action_words(play: Play) -> tuple[str, ...]:
    """Return the words from which an environment makes its actions; () if they are unknown."""
    rules: Any = play.game if is_searchable_play(play) else getattr(play, "rules", None)
    if is_searchable_play(play) and rules.words:
        return tuple(rules.words)
    return tuple(rules.vocabulary()) if hasattr(rules, "vocabulary") else ()


biased = BiasedAgent
