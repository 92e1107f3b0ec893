"""Oracle: the grades of a game's process reward, by the tiers that its solver tells apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparring.config.plugins.registry import offering
from sparring.core.errors import UnknownNameError
from sparring.core.records import Judgement, Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.methods.oracles.base import verdict_of
from sparring.methods.oracles.solvers import KeyedOracle, solver_of

TIERS, OFFER = "TIERS", "tiers"  # of a solver's module: what each tier pays, and the tiers


@dataclass(kw_only=True, eq=False)
class GradedOracle(KeyedOracle):
    """The tier of each action, and what the tier pays: the process reward of VPR as released.

    What: the game's solver puts every legal action into a tier, such as a right digit in a cell
    that is forced. The verdict's values are what the tiers pay, and its best actions are those of
    the best tier that there is. The tiers, and what they pay by default, are written in the game's
    folder: its ``solver.py``, shown on the game's page.
    When to use: with the reward ``graded_action``. Of several replies to one prompt the graded ones
    are told apart more often than by right and wrong.
    Mathematics:
        value(a) = pay[tier(s, a)]
    Pitfalls: values are grades and no returns: ``regret`` is in their unit, ``optimal_rate`` is the
    share of actions of the best tier, and a best action need not be best play. To measure, take the
    oracle that knows the truth.
    Reference: code of thu-nics/VPR (arXiv 2605.10325): the games' oracles and rewards.
    Verified by: tests/methods/oracles/test_puzzles.py.

    Args:
        pay: what tiers pay in place of the game's own numbers, by their names, such as {shortest:
            1.0, other: -1.0}; null (default): the game's own, which are the released ones.
    """

    pay: Mapping[str, float] | None = None

    name = "graded"

    def __post_init__(self) -> None:
        super().__init__()
        self._pay: Mapping[str, float] = {}
        self._tiers: Callable[[SearchablePlay], Sequence[str] | None] | None = None

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or "".

        Raises:
            UnknownNameError: a tier that the game has not.
        """
        solver = solver_of(game)
        known: Mapping[str, float] | None = getattr(solver and solver.module, TIERS, None)
        if known is None:
            names = offering("environments", "solver", f"def {OFFER}(")
            return (
                f"its solver tells no tiers of actions apart; play {', '.join(names)}, or use "
                "oracle constraint, posterior or minimax."
            )
        for tier in self.pay or {}:
            if tier not in known:
                raise UnknownNameError(f"tier of {game.name!r} in oracle 'graded'", tier, known)
        return ""

    def entered(self, game: Searchable) -> None:
        """Take the tiers of the game's solver."""
        super().entered(game)
        solver = solver_of(game)
        assert solver is not None, "covered before"
        self._tiers = getattr(solver.module, OFFER)
        self._pay = {**getattr(solver.module, TIERS), **(self.pay or {})}

    def opinions(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; None where the game's solver abstains."""
        return [self._verdict(state) for state in states]

    def _verdict(self, state: SearchablePlay) -> Verdict | None:
        assert self._tiers is not None, "entered before"
        found = self._tiers(state)
        if found is None:
            return None
        return verdict_of(
            state.legal_actions(), Judgement(values=[self._pay[tier] for tier in found])
        )


graded = GradedOracle
