"""A run or a bot measured on games: what `sparring evaluate` and the public API return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError
from sparring.experiments.load import load_answer, load_run, published
from sparring.experiments.measuring import (
    evaluate_policy,
    league_of_run,
    named_games,
    self_plays_of,
)
from sparring.experiments.suite_player import run_player, unknown_to
from sparring.measure.opponents import AgentSpec, parse_agent
from sparring.measure.oracle_choice import OracleSpec, oracles_for
from sparring.measure.regret import BUDGET, Judge
from sparring.measure.starts import Met
from sparring.oracles.base import Oracle
from sparring.oracles.judge import configured_oracles
from sparring.players.best_of_n import BestOfN
from sparring.players.mixture import Mixture

MAX_STATES = 20_000  # information states, for an agent that is no run's


def measured(
    run: Path | None,
    agent: str | None,
    *,
    checkpoint: int | None = None,
    only: str | None = None,
    names: Sequence[str] = (),
    bots: Sequence[AgentSpec] = (),
    games_per_seat: int,
    exact: bool = True,
    league: bool = False,
    self_plays: int = 0,
    seed: int = 0,
    oracle: OracleSpec | None = None,
    judged: bool = True,
    oracle_turns: int = BUDGET,
    answer: str | None = None,
    best_of: int = 1,
) -> dict[str, Any]:
    """Return figures, matches and notes, and what was measured.

    Args:
        run: the folder of a run, or None.
        agent: else a bot as on the command line.
        checkpoint: step of the run's checkpoint; None takes the newest.
        only: the policy that sits in every seat, where the run has several.
        names: games as on the command line; none: those of the run.
        bots: opponents; none: random play.
        games_per_seat: against each of them.
        exact: whether to compute exact figures where possible.
        league: whether to rate the run's snapshots.
        self_plays: of the policy in all seats, to tell how many differ; 0: none.
        seed: of the games.
        oracle: who judges turns; None: the run's own, or the first exact one.
        judged: whether turns are judged at all.
        oracle_turns: of a game and opponent that are judged at most.
        answer: of the run, such as "nash"; None: the one that its configuration names.
        best_of: replies of which the oracle's best is played.

    Raises:
        SparringError: the run, a bot or a game cannot be had, or does not fit the others.
    """
    bots = list(bots) or [parse_agent("random")]
    policy: Any
    own: dict[str, Oracle] = {}
    limit, notes, met = MAX_STATES, list[str](), Met(None)
    if run is None:
        if checkpoint is not None:
            raise ConfigError("--checkpoint belongs to a run; name its folder in place of --agent.")
        spec = parse_agent(str(agent))
        policy, games = spec.make(), named_games(names, style=spec.style)
        notes += _unknown(games, lambda known: unknown_to(spec.words, known))
        about: dict[str, Any] = {"agent": spec.name, "options": dict(spec.options)}
        exact = exact and hasattr(policy, "action_logprobs")
    else:
        config, engine, step = load_run(run, checkpoint)
        policy, limit, games = (
            load_answer(run, config, engine, step, answer)
            if only is None
            else engine.agent(published(config, run, only)),
            config.evaluation.max_states,
            [known for known, _ in engine.environments],
        )
        about, met = {"run": str(run), "step": step}, Met(config, games)
        if isinstance(policy, Mixture):
            about["answer"] = f"mixture of {policy}"
            notes += getattr(policy, "notes", ())
        if names:
            games = named_games(
                names, style=str(config.environments[0].options.get("style", "brief"))
            )
            player = run_player(run, step, None)
            notes += _unknown(games, player.unknown_words)
        else:
            own = configured_oracles(config.environments, games)
    oracles, more = oracles_for(games, oracle, own) if judged else ({}, [])
    judges = {name: Judge(oracle=judge, budget=oracle_turns) for name, judge in oracles.items()}
    if best_of > 1:
        policy, exact = _choosing(policy, best_of, games, oracles, more), False
        about["best_of"] = best_of
    measured: dict[str, Any] = {
        "opponents": bots,
        "games_per_seat": games_per_seat,
        "exact": exact,
        "max_states": limit,
        "seed": seed,
    }
    result = evaluate_policy(policy, games, judges=judges, met=met, **measured)
    result = {**about, **result, "notes": [*notes, *more, *result["notes"]]}
    if run is None and isinstance(policy, Mixture):
        result["answer"] = f"mixture of {policy}"
    if self_plays:
        result["self_plays"] = self_plays_of(policy, games, plays=self_plays, met=met, seed=seed)
    if league and run is not None:
        result["league"] = league_of_run(
            engine, opponents=bots, games_per_seat=games_per_seat, seed=seed
        )
    return result


def _choosing(
    policy: Any,
    count: int,
    games: Sequence[Game],
    oracles: Mapping[str, Oracle],
    notes: Sequence[str],
) -> BestOfN:
    """Return who plays the best of several replies of a policy.

    Raises:
        ConfigError: it is a mixture, or a game has no oracle.
    """
    if isinstance(policy, Mixture):
        raise ConfigError(
            "--best-of asks one player several times, and the run's answer is a mixture; write "
            "--answer policy beside it."
        )
    without = [game.name for game in games if game.name not in oracles]
    if without:
        why = " ".join(notes) or "leave --oracle none out."
        raise ConfigError(f"--best-of needs an oracle that judges {without[0]!r}: {why}")
    return BestOfN(policy, count, lambda game: oracles[game.name].judge)


def _unknown(games: Sequence[Game], unknown: Callable[[Game], Sequence[str]]) -> list[str]:
    """Return notes on the words of games that who is measured does not know."""
    return [
        f"{game.name}: {len(words)} words are unknown to the model and read as <unknown>."
        for game in games
        if (words := unknown(game))
    ]
