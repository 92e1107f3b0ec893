"""Oracle: grades of a game's process reward, by the tiers of its solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparring.config.plugins.registry import names_with_line_in_part
from sparring.core.errors import UnknownNameError
from sparring.core.records import SolverResult, Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.methods.oracles.base import verdict_from_solver
from sparring.methods.oracles.solvers import KeyedOracle, solver_of

# in a solver's module: reward of each tier, and the function that gives the tier of each action
TIERS, TIERS_FUNCTION = "TIERS", "tiers"


@dataclass(kw_only=True, eq=False)
class GradedOracle(KeyedOracle):
    """Grade each action by its tier: the process reward of VPR in the authors' code.

    What: the game's solver assigns every legal action to a tier, such as a right digit in a forced
    cell. The verdict's values are the rewards of the tiers, and its best actions those of the best
    tier. The game's ``solver.py``, described on the game's page, defines tiers and default rewards.
    When to use: with the reward ``graded_action``. Replies to one prompt differ more often in their
    grades than in a reward that knows only right and wrong.
    Mathematics:
        value(a) = pay[tier(s, a)]
    Pitfalls: values are grades, not returns. ``regret`` is in the unit of grades, and
    ``optimal_rate`` is the share of actions of the best tier. An action of the best tier need not
    be best play. For measurements use an exact oracle.
    Reference: code of thu-nics/VPR (arXiv 2605.10325): the games' oracles and rewards.
    Verified by: tests/methods/oracles/test_puzzles.py.

    Args:
        pay: rewards by name of the tier, in place of the game's numbers, such as {shortest: 1.0,
            other: -1.0}; null (default): the game's numbers, which are those of the authors' code.
    """

    pay: Mapping[str, float] | None = None

    name = "graded"

    def __post_init__(self) -> None:
        super().__init__()
        self._tier_rewards: Mapping[str, float] = {}
        self._tiers_of: Callable[[SearchablePlay], Sequence[str] | None] | None = None

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or "".

        Raises:
            UnknownNameError: the game does not have a tier of ``pay``.
        """
        solver = solver_of(game)
        rewards: Mapping[str, float] | None = getattr(solver and solver.module, TIERS, None)
        if rewards is None:
            names = names_with_line_in_part("environments", "solver", f"def {TIERS_FUNCTION}(")
            return (
                f"its solver defines no tiers of actions; play {', '.join(names)}, or use "
                "oracle constraint, posterior or minimax."
            )
        for tier in self.pay or {}:
            if tier not in rewards:
                raise UnknownNameError(f"tier of {game.name!r} in oracle 'graded'", tier, rewards)
        return ""

    def prepare(self, game: Searchable) -> None:
        """Load the tiers of the game's solver."""
        super().prepare(game)
        solver = solver_of(game)
        assert solver is not None, "the oracle covers the game"
        self._tiers_of = getattr(solver.module, TIERS_FUNCTION)
        self._tier_rewards = {**getattr(solver.module, TIERS), **(self.pay or {})}

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; None where the game's solver abstains."""
        return [self._verdict(state) for state in states]

    def _verdict(self, state: SearchablePlay) -> Verdict | None:
        assert self._tiers_of is not None, "prepare was called"
        tiers = self._tiers_of(state)
        if tiers is None:
            return None
        return verdict_from_solver(
            state.legal_actions(), SolverResult(values=[self._tier_rewards[tier] for tier in tiers])
        )


graded = GradedOracle
