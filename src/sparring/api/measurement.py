"""A run or a bot measured on games: figures, matches, attempts of trials, notes.

`sparring evaluate` and the public API return it as plain data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

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
from sparring.config.parts import PluginConfig, bound_agent
from sparring.config.plugins.registry import Bound, bind
from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.trial import Trial
from sparring.measure.adaptation import AdaptationRow, PoolOpponent, adaptation, rules_of
from sparring.measure.agent_spec import AgentSpec, labels, parse_agent
from sparring.measure.attempt_tree import (
    AttemptReturns,
    Ceiling,
    attempt_returns,
    ceiling_or_reason,
)
from sparring.measure.info_states import ActionScorer
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.measure.oracle_choice import OracleSpec, oracles_for
from sparring.measure.oracle_regret import BUDGET, Judge
from sparring.measure.suite import as_data
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import configured_oracles
from sparring.play.players.base import HasNotes
from sparring.play.players.best_of_n import BestOfN
from sparring.play.players.mixture import Mixture

SHARES = "bots"  # option of matchmakers: the share of the starts that a bot plays
_Exact = tuple[Ceiling | None, str, AttemptReturns | str]  # of a role and pool


def adaptations_of(
    policy: Any,
    games: Sequence[Environment],
    pool: Mapping[str, PoolOpponent],
    *,
    trials: int,
    met: SeenInitialStates,
    seed: int,
    limit: int = 0,
    in_flight: int | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of all trials among games, as plain data.

    Beside a row stand ``best``, what the best response earns that knows the opponent, and
    ``fixed``, what the best single policy does against the pool; beside that of a pool ``closed``,
    the share (return - fixed) / (best - fixed) of each attempt, and ``ceiling``, the most that any
    policy can close in it. Or ``why`` there is none of this. ``exact`` has what the policy gets by
    its probabilities, without plays: ``returns``, ``illegal`` and of a pool ``closed``, by attempt;
    or ``why_sampled`` says why there is none.

    Args:
        policy: who is measured.
        games: of different names; what is no trial is left out.
        pool: who is met; see ``pool_of``.
        trials: of each role against each opponent.
        met: the starts that the policy was trained on; others are played where there are any.
        seed: of the trials.
        limit: conversations up to which the policy is asked for exact returns; 0: not at all.
        in_flight: plays at once; see ``rollout_teams``.
    """
    rows, root = list[dict[str, Any]](), Stream.from_seed(seed).child("adaptation")
    for game in games:
        if not isinstance(game, Trial):
            continue
        rules = rules_of(game)
        starts, stream = measured_starts(game, met)[0], root.child(game.name)
        found = adaptation(starts, policy, pool, trials=trials, stream=stream, in_flight=in_flight)
        about = {"game": game.name, "starts": starts.label}
        beside: dict[tuple[str, bool], _Exact] = {}
        for row in found:
            some = {name: one for name, one in pool.items() if one.trained == row.trained}
            if (row.role, row.trained) not in beside:
                beside[row.role, row.trained] = (
                    *_ceiling(rules, row.role, some),
                    _without_plays(rules, policy, row.role, some, limit),
                )
            ceiling, why, exact = beside[row.role, row.trained]
            more = _exact(row, ceiling, why) | _asked(row, some, exact, ceiling)
            plain = {
                "role": row.role,
                "opponent": row.opponent or None,
                "trained": row.trained,
                "attempts": [{**as_data(one), "trials": one.count} for one in row.returns],
                "gain": as_data(row.gain),
                "forfeits": row.forfeits,
            }
            rows.append({**about, **plain, **more})
    return rows


def pool_of(
    games: Sequence[Environment], config: RunConfig | None, others: Sequence[AgentSpec]
) -> dict[str, PoolOpponent]:
    """Return who is met in the attempts of the trials among games.

    Args:
        games: that are measured.
        config: of the run; its bots are those that training met, and what it is evaluated against
            besides are held out. None: there was no training.
        others: further opponents, held out.

    Raises:
        ConfigError: no game is a trial, one has one seat, or there is nobody to meet.
    """
    trials = [game for game in games if isinstance(game, Trial)]
    if not trials:
        named = ", ".join(game.name for game in games)
        raise ConfigError(
            f"--adaptation measures attempts, and {named} has none; measure an environment "
            "'trial', e.g. --environment \"trial 'environment={name: kuhn_poker}'\"."
        )
    for game in trials:
        rules_of(game)
    pool = opponents_of(config, others)
    if not pool:
        raise ConfigError(
            "--adaptation needs opponents: the run has no bots, so name some, e.g. --opponent "
            "'scripted preference=[rock]'."
        )
    return pool


def opponents_of(config: RunConfig | None, others: Sequence[AgentSpec]) -> dict[str, PoolOpponent]:
    """Return the bots that a run's training met, by their names there, and those held out.

    Who is held out twice stands there once, and who was met is not held out: options that are left
    out count as their defaults.
    """
    found, known = dict[str, PoolOpponent](), list[Any]()
    held: list[tuple[AgentSpec, Bound, Callable[[], Any]]] = [
        (spec, bind("players", spec.name, spec.options), spec.make) for spec in others
    ]
    if config is not None:
        shares: Mapping[str, float] = config.matchmaker.options.get(SHARES) or {}
        for name, bot in config.bots.items():
            if shares.get(name, not shares):
                for member, bound, weight in _members(name, bot, config.bots):
                    known.append(_played(bound))
                    found[member] = PoolOpponent(
                        agent=bound(), weight=shares.get(name, 1.0) * weight, trained=True
                    )
        for bot in config.evaluation.opponents:
            bound = bot.bind("players")
            spelled = f"{bot.name}:{bot.preset}" if bot.preset else bot.name
            held.append((AgentSpec(spelled, bot.options), bound, bound))
    new, made = list[AgentSpec](), list[Callable[[], Any]]()
    for spec, bound, make in held:
        if _played(bound) not in known:
            known.append(_played(bound))
            new.append(spec)
            made.append(make)
    for label, make in zip(labels(new), made, strict=True):
        name = f"{label} (held out)" if label in found else label
        found[name] = PoolOpponent(agent=make(), weight=1.0, trained=False)
    return found


def _played(bot: Bound) -> tuple[str, dict[str, Any]]:
    """Return what a bot plays by: its plug-in and every option."""
    given = {key: bot.options.get(key, one.default) for key, one in bot.plugin.options.items()}
    return bot.plugin.name, given


def _ceiling(
    game: Trial, role: str, pool: Mapping[str, PoolOpponent]
) -> tuple[Ceiling | None, str]:
    """Return what there is to be had against a pool, or None and why not."""
    if game.redeal != "fresh" or game.stop_on_win:
        return None, "no ceiling: it is that of fresh deals in every attempt, with no early stop"
    return ceiling_or_reason(
        game.inner,
        role=role,
        opponents={name: one.agent for name, one in pool.items()},
        shares={name: one.weight for name, one in pool.items()},
        attempts=game.attempts,
        reveal=game.reveal,
    )


def _without_plays(
    game: Trial, policy: Any, role: str, pool: Mapping[str, PoolOpponent], limit: int
) -> AttemptReturns | str:
    """Return what a policy gets by its probabilities, or why there is none; "": nobody asks."""
    if not limit or not isinstance(policy, ActionScorer):
        return ""
    opponents = {name: one.agent for name, one in pool.items()}
    try:
        return attempt_returns(game, policy, role=role, opponents=opponents, limit=limit)
    except GameError as error:
        return f"sampled alone: {error}"


def _exact(row: AdaptationRow, ceiling: Ceiling | None, why: str) -> dict[str, Any]:
    """Return what stands beside a row: exact returns, and what share of the headroom is closed."""
    if ceiling is None:
        return {"why": why}
    if row.opponent:
        return {"best": ceiling.best_by[row.opponent], "fixed": ceiling.fixed_by[row.opponent]}
    found: dict[str, Any] = {"best": ceiling.best, "fixed": ceiling.fixed}
    most = [ceiling.closed(value) for value in ceiling.most]
    if None not in most:  # there is something to adapt for
        closed = [
            {end: None if value is None else ceiling.closed(value) for end, value in ends.items()}
            for ends in map(as_data, row.returns)
        ]
        found |= {"ceiling": most, "closed": closed}
    return found


def _asked(
    row: AdaptationRow,
    pool: Mapping[str, PoolOpponent],
    exact: AttemptReturns | str,
    ceiling: Ceiling | None,
) -> dict[str, Any]:
    if isinstance(exact, str):
        return {"why_sampled": exact} if exact else {}
    shares = {n: one.weight for n, one in enumerate(pool.values())}
    if row.opponent:  # the others may have no returns, where a win ends their trials
        shares = {[*pool].index(row.opponent): 1.0}
    weights = np.array([*shares.values()]) / math.fsum(shares.values())
    returns, illegal = (
        (values[:, [*shares]] @ weights).tolist() for values in (exact.returns, exact.illegal)
    )
    columns = {"returns": returns, "illegal": illegal}
    found: dict[str, Any] = {
        name: [None if math.isnan(value) else value for value in values]
        for name, values in columns.items()
    }
    if not row.opponent and ceiling is not None and ceiling.closed(0.0) is not None:
        found["closed"] = [ceiling.closed(value) for value in returns]
    return {"exact": found}


def _members(
    name: str, bot: PluginConfig, bots: Mapping[str, PluginConfig]
) -> list[tuple[str, Bound, float]]:
    """Return a bot, or the bots that a mixture draws; players of the run are left out."""
    bound = bot.bind("players")
    agent = bound()
    if type(agent) is not Mixture:
        return [(name, bound, 1.0)]
    total = math.fsum(agent.weights.values())
    return [
        (
            f"{name}: {player.name}",
            bots[player.name].bind("players") if player.name in bots else bound_agent(player.name),
            share / total,
        )
        for player, share in agent.shares().items()
        if player.kind == "bot"
    ]


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
        scores=isinstance(policy, ActionScorer),
    )


def _run(
    run: Path, checkpoint: int | None, only: str | None, names: Sequence[str], answer: str | None
) -> Measured:
    """Return what is measured of a run, on its own games or on others."""
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
        notes += policy.notes if isinstance(policy, HasNotes) else ()
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
    return [
        f"{game.name}: {len(words)} words are unknown to the model and read as <unknown>."
        for game in games
        if (words := unknown(game))
    ]
