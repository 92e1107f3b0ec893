"""A run or a bot measured on games: what `sparring evaluate` and the public API return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparring.api.adaptation_rows import adaptations_of, pool_of
from sparring.api.load import load_answer, load_run, published
from sparring.api.policy_evaluation import (
    evaluate_policy,
    league_of_run,
    named_games,
    self_plays_of,
)
from sparring.api.suite_player import run_player, unknown_to
from sparring.config import RunConfig
from sparring.config.checks import PLAIN, POLICY, measured_weights
from sparring.core.errors import ConfigError
from sparring.environments.base import Environment
from sparring.measure.agent_spec import AgentSpec, parse_agent
from sparring.measure.initial_states import SeenInitialStates
from sparring.measure.oracle_choice import OracleSpec, oracles_for
from sparring.measure.regret import BUDGET, Judge
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import configured_oracles
from sparring.play.players.best_of_n import BestOfN
from sparring.play.players.mixture import Mixture

MAX_STATES = 20_000  # information states, for an agent that is no run's


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Who is measured, and on what.

    Args:
        policy: who plays.
        games: of different names.
        met: the starts that training met.
        about: what is said of it in the result.
        notes: on what could not be as asked.
        own: oracles of the run, by game.
        limit: information states up to which enumeration is tried.
        scores: whether the policy may know the probability of its replies.
        config: of the run.
        engine: of the run.
    """

    policy: Any
    games: Sequence[Environment]
    met: SeenInitialStates
    about: Mapping[str, Any]
    notes: Sequence[str]
    own: Mapping[str, Oracle] = field(default_factory=dict)
    limit: int = MAX_STATES
    scores: bool = True
    config: RunConfig | None = None
    engine: Any = None


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
    adaptation: bool = False,
    seed: int = 0,
    oracle: OracleSpec | None = None,
    judged: bool = True,
    oracle_turns: int = BUDGET,
    answer: str | None = None,
    best_of: int = 1,
    in_flight: int | None = None,
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
        adaptation: whether to measure each attempt of trials, ``games_per_seat`` of them for each
            role and opponent.
        seed: of the games.
        oracle: who judges turns; None: the run's own, or the first exact one.
        judged: whether turns are judged at all.
        oracle_turns: of a game and opponent that are judged at most.
        answer: of the run, such as "nash"; None: the one that its configuration names.
        best_of: replies of which the oracle's best is played.
        in_flight: games at once; see ``rollout_teams``.

    Raises:
        SparringError: the run, a bot or a game cannot be had, or does not fit the others.
    """
    who = (
        _agent(str(agent), names, checkpoint)
        if run is None
        else _run(run, checkpoint, only, names, answer)
    )
    policy, games, met = who.policy, who.games, who.met
    exact = exact and who.scores
    notes, about = list(who.notes), dict(who.about)
    against = list(bots) or [parse_agent("random")]
    oracles, more = oracles_for(games, oracle, who.own) if judged else ({}, [])
    judges = {name: Judge(oracle=judge, budget=oracle_turns) for name, judge in oracles.items()}
    if best_of > 1:
        policy, exact = _choosing(policy, best_of, games, oracles, more), False
        about["best_of"] = best_of
    measured: dict[str, Any] = {
        "opponents": against,
        "games_per_seat": games_per_seat,
        "exact": exact,
        "max_states": who.limit,
        "seed": seed,
        "in_flight": in_flight,
    }
    pool = pool_of(games, who.config, bots) if adaptation else {}  # refused before all matches
    result = evaluate_policy(policy, games, judges=judges, met=met, **measured)
    result = {**about, **result, "notes": [*dict.fromkeys([*notes, *more, *result["notes"]])]}
    if run is None and isinstance(policy, Mixture):
        result["answer"] = f"mixture of {policy}"
    if self_plays:
        result["self_plays"] = self_plays_of(
            policy, games, plays=self_plays, met=met, seed=seed, in_flight=in_flight
        )
    if adaptation:
        result["adaptation"] = adaptations_of(
            policy,
            games,
            pool,
            trials=games_per_seat,
            met=met,
            seed=seed,
            limit=who.limit if exact else 0,
            in_flight=in_flight,
        )
    if league and run is not None:
        result["league"] = league_of_run(
            who.engine,
            opponents=against,
            games_per_seat=games_per_seat,
            seed=seed,
            in_flight=in_flight,
        )
    return result


def _agent(text: str, names: Sequence[str], checkpoint: int | None) -> Measured:
    """Return a bot and the games that it is measured on.

    Raises:
        SparringError: the bot or a game cannot be had.
    """
    if checkpoint is not None:
        raise ConfigError("--checkpoint belongs to a run; name its folder in place of --agent.")
    spec = parse_agent(text)
    policy: Any = spec.make()
    games = named_games(names, style=spec.style)
    return Measured(
        policy=policy,
        games=games,
        met=SeenInitialStates(None),
        about={"agent": spec.name, "options": dict(spec.options)},
        notes=_unknown(games, lambda known: unknown_to(spec.words, known)),
        scores=hasattr(policy, "action_logprobs"),
    )


def _run(
    run: Path, checkpoint: int | None, only: str | None, names: Sequence[str], answer: str | None
) -> Measured:
    """Return what is measured of a run, on its own games or on others.

    Raises:
        SparringError: the run or a game cannot be had.
    """
    config, engine, step = load_run(run, checkpoint)
    policy: Any = (
        load_answer(run, config, engine, step, answer)
        if only is None
        else engine.agent(published(config, run, only))
    )
    games: Sequence[Environment] = [known for known, _ in engine.environments]
    about, notes, own = {"run": str(run), "step": step}, list[str](), dict[str, Oracle]()
    met = SeenInitialStates(config, games)
    asked = config.league.answer if answer is None else answer
    if asked not in PLAIN and not isinstance(policy, Mixture):
        asked = POLICY  # the league has no members yet
    about["weights"] = measured_weights(config, asked, only)
    if isinstance(policy, Mixture):
        about["answer"] = f"mixture of {policy}"
        notes += getattr(policy, "notes", ())
    if names:
        style = str(config.environments[0].options.get("style", "brief"))
        games = named_games(names, style=style)
        notes += _unknown(games, run_player(run, step, None).unknown_words)
    else:
        own = configured_oracles(config.environments, games)
    return Measured(
        policy=policy,
        games=games,
        met=met,
        about=about,
        notes=notes,
        own=own,
        limit=config.evaluation.max_states,
        config=config,
        engine=engine,
    )


def _choosing(
    policy: Any,
    count: int,
    games: Sequence[Environment],
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


def _unknown(
    games: Sequence[Environment], unknown: Callable[[Environment], Sequence[str]]
) -> list[str]:
    """Return notes on the words of games that who is measured does not know."""
    return [
        f"{game.name}: {len(words)} words are unknown to the model and read as <unknown>."
        for game in games
        if (words := unknown(game))
    ]
