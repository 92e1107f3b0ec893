"""Chooses the oracle that judges a game: the requested one, the run's, or an exact one.

Exact oracles are tried in this order:

1. ``minimax``: two opposed seats, no chance, nothing hidden, if the whole game has at most 50,000
   positions
2. ``constraint``: puzzles whose folder has a solver
3. ``posterior``: hidden worlds whose folder has a solver
4. ``cfr``: one seat or two opposed ones, at most 50,000 histories. CFR only
   approximates an equilibrium, which mixes actions of equal value. So actions count as equally
   good if their values differ by less than a thousandth of the game's range of payoffs
5. ``planning``: environments that are not OpenSpiel games and have a solver

``mcts`` is not exact and is used only on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparring.config.parts import parse_named
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.base import Environment, is_searchable_play
from sparring.environments.foreign import reason_not_searchable
from sparring.measure.oracle_regret import without_faults
from sparring.methods.oracles import base
from sparring.methods.oracles.base import Oracle, judge_states
from sparring.methods.oracles.minimax import MinimaxOracle

MAX_POSITIONS = 50_000
MAX_HISTORIES = 50_000
EXAMPLE = "cfr iterations=1000"


class OracleSpec(NamedTuple):
    """An oracle as plain data: its plug-in's name and options."""

    name: str
    options: Mapping[str, Any]

    def make(self) -> Oracle:
        """Return the oracle.

        Raises:
            UnknownNameError: the oracle or an option does not exist.
            ConfigError: an option's value is wrong.
        """
        oracle: Oracle = registry.bind("oracles", self.name, self.options)()
        return oracle


def parse_oracle(text: str) -> OracleSpec:
    """Return the oracle that a text describes, in the format of ``parse_agent``.

    Raises:
        UnknownNameError: the oracle or an option does not exist.
        ConfigError: the text cannot be read, or a value is of the wrong type or left out.
    """
    name, options = parse_named(text, "Oracle", EXAMPLE)
    registry.bind("oracles", name, options)
    return OracleSpec(name, options)


def oracles_for(
    games: Sequence[Environment], spec: OracleSpec | None, run_oracles: Mapping[str, Oracle]
) -> tuple[dict[str, Oracle], list[str]]:
    """Return (oracle by game name, notes about games without an oracle).

    Args:
        games: the games.
        spec: the requested oracle; None: the run's oracle of each game, or the first exact one.
        run_oracles: the run's oracles by name of the game.

    Raises:
        ConfigError: the requested oracle can judge none of the games.
    """
    if spec is not None:
        return _make_requested_oracle(spec, games)
    choices = {game.name: choose_oracle(game, run_oracles.get(game.name)) for game in games}
    notes = [note for _, note in choices.values() if note]
    return {name: oracle for name, (oracle, _) in choices.items() if oracle is not None}, notes


def _make_requested_oracle(
    spec: OracleSpec, games: Sequence[Environment]
) -> tuple[dict[str, Oracle], list[str]]:
    oracle = spec.make()
    reasons = {game.name: base.reason_not_judged(oracle, game) for game in games}
    if all(reasons.values()):
        text = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise ConfigError(f"--oracle {spec.name} cannot judge the games: {text.rstrip('.')}.")
    notes = [
        f"{name}: no regret, as {spec.name} cannot judge it: {reason}"
        for name, reason in reasons.items()
        if reason
    ]
    return {name: oracle for name, reason in reasons.items() if not reason}, notes


def choose_oracle(game: Environment, run_oracle: Oracle | None = None) -> tuple[Oracle | None, str]:
    """Return (oracle, reason): the reason says why the oracle is None, or is "".

    Args:
        game: the game.
        run_oracle: the run's oracle of the game, which comes first, without ``noisy`` around it.
    """
    if run_oracle is not None:
        return without_faults(run_oracle), ""
    if reason_not_searchable(game):
        planning = OracleSpec("planning", {}).make()
        if not base.reason_not_judged(planning, game):
            return planning, ""
        return None, f"{game.name}: no regret, as {reason_not_searchable(game)}."
    reasons = []
    for name, options in (
        ("minimax", {"max_states": MAX_POSITIONS}),
        ("constraint", {}),
        ("posterior", {}),
        (
            "cfr",
            {
                "max_histories": MAX_HISTORIES,
                "margin": (game.max_utility - game.min_utility) / 1000,
            },
        ),
    ):
        oracle = OracleSpec(name, options).make()
        reason = (_cfr_hindrance(game) if name == "cfr" else "") or reason_not_judged(oracle, game)
        if not reason:
            return oracle, ""
        reasons.append(f"{name}: {reason.partition(';')[0].rstrip('.')}")
    return (
        None,
        (
            f"{game.name}: no regret, as no exact oracle can judge it ({'; '.join(reasons)}). "
            "Name one with --oracle."
        ),
    )


def _cfr_hindrance(game: Environment) -> str:
    if game.num_seats == 1 or (game.num_seats == 2 and game.zero_sum):
        return ""
    return "its average policy is an equilibrium only for one seat or two opposed ones"


def reason_not_judged(oracle: Oracle, game: Environment) -> str:
    """Return why an oracle cannot judge a game from its beginning, or "".

    Minimax solves the whole game here and caches the result. Otherwise it would try, for seconds,
    to solve many positions of a game that is too large.
    """
    reason = base.reason_not_judged(oracle, game)
    if reason or not isinstance(oracle, MinimaxOracle):
        return reason
    play = game.reset(Stream.from_seed(0))
    assert is_searchable_play(play)
    (verdict,) = judge_states(oracle, [play])
    return "" if verdict is not None else f"it has more than {oracle.max_states} positions"
