"""Measures a run or a bot on games, for `sparring evaluate` and ``sparring.evaluate``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparring.api.load import load_answer, load_run, published_policy
from sparring.api.policy_evaluation import (
    evaluate_policy,
    league_of_run,
    named_games,
    self_plays_of,
)
from sparring.api.suite_player import run_player, unknown_to
from sparring.config import RunConfig
from sparring.config.checks import NON_MIXTURE_ANSWERS, POLICY, measured_weights
from sparring.config.parts import PluginConfig, bound_agent
from sparring.config.plugins.registry import BoundPlugin, bind
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

SHARES = "bots"  # option of matchmakers: share of the initial states for each bot
_Exact = tuple[
    Ceiling | None, str, AttemptReturns | str
]  # (ceiling, reason if None, exact returns)


def adaptations_of(
    policy: Any,
    games: Sequence[Environment],
    pool: Mapping[str, PoolOpponent],
    *,
    trials: int,
    seen_states: SeenInitialStates,
    seed: int,
    limit: int = 0,
    in_flight: int | None = None,
) -> list[dict[str, Any]]:
    """Measure how a policy improves over the attempts of trials, and return rows of plain data.

    A trial is several attempts at one game against one opponent. Keys of a row:
        best         best response value against the known opponent
        fixed        value of the best single policy against the pool of opponents
        closed       in the row of a pool: share (return - fixed) / (best - fixed), by attempt
        ceiling      in the row of a pool: largest possible ``closed``, by attempt
        why          reason why the keys above are missing
        exact        values from the policy's probabilities, not from play: ``returns``,
                     ``illegal`` and, in the row of a pool, ``closed``, by attempt
        why_sampled  reason why ``exact`` is missing

    Args:
        policy: the measured player.
        games: games with different names; games that are not trials are left out.
        pool: the opponents; see ``pool_of``.
        trials: number of trials of each role against each opponent.
        seen_states: initial states seen in training; other states are played where possible.
        seed: seed of the trials.
        limit: largest number of conversations for exact returns; 0: no exact returns.
        in_flight: episodes at once; see ``rollout_teams``.
    """
    rows, root = list[dict[str, Any]](), Stream.from_seed(seed).child("adaptation")
    for game in games:
        if not isinstance(game, Trial):
            continue
        rules = rules_of(game)
        starts, stream = measured_starts(game, seen_states)[0], root.child(game.name)
        table = adaptation(starts, policy, pool, trials=trials, stream=stream, in_flight=in_flight)
        labels = {"game": game.name, "starts": starts.label}
        exact_of_pool: dict[tuple[str, bool], _Exact] = {}
        for row in table:
            opponents = {name: item for name, item in pool.items() if item.trained == row.trained}
            if (row.role, row.trained) not in exact_of_pool:
                exact_of_pool[row.role, row.trained] = (
                    *_find_ceiling(rules, row.role, opponents),
                    _exact_returns(rules, policy, row.role, opponents, limit),
                )
            ceiling, reason, exact = exact_of_pool[row.role, row.trained]
            exact_figures = _ceiling_columns(row, ceiling, reason)
            exact_figures |= _exact_columns(row, opponents, exact, ceiling)
            figures = {
                "role": row.role,
                "opponent": row.opponent or None,
                "trained": row.trained,
                "attempts": [{**as_data(ends), "trials": ends.count} for ends in row.returns],
                "gain": as_data(row.gain),
                "forfeits": row.forfeits,
            }
            rows.append({**labels, **figures, **exact_figures})
    return rows


def pool_of(
    games: Sequence[Environment], config: RunConfig | None, others: Sequence[AgentSpec]
) -> dict[str, PoolOpponent]:
    """Return the opponents against which trials are measured.

    Args:
        games: the measured games; at least one must be a trial.
        config: the run's configuration. Its bots trained with it; its evaluation opponents are held
            out. None: there was no training.
        others: further opponents, held out.

    Raises:
        ConfigError: no game is a trial, a trial has one seat, or there is no opponent.
    """
    trials = [game for game in games if isinstance(game, Trial)]
    if not trials:
        names = ", ".join(game.name for game in games)
        raise ConfigError(
            f"--adaptation measures attempts, and {names} has none; measure the environment "
            "'trial', e.g. --environment \"trial 'environment={name: kuhn_poker}'\"."
        )
    for game in trials:
        rules_of(game)
    pool = opponents_of(config, others)
    if not pool:
        raise ConfigError(
            "--adaptation needs opponents, and the run has no bots; name some, e.g. --opponent "
            "'scripted preference=[rock]'."
        )
    return pool


def opponents_of(config: RunConfig | None, others: Sequence[AgentSpec]) -> dict[str, PoolOpponent]:
    """Return a run's bots by name, then the held-out opponents.

    An opponent that equals a bot of training, or an earlier opponent, is left out. Two bots are
    equal if their options are equal, defaults included.
    """
    opponents, identities = dict[str, PoolOpponent](), list[Any]()
    held_out_bots: list[tuple[AgentSpec, BoundPlugin, Callable[[], Any]]] = [
        (spec, bind("players", spec.name, spec.options), spec.make) for spec in others
    ]
    if config is not None:
        shares: Mapping[str, float] = config.matchmaker.options.get(SHARES) or {}
        for name, bot in config.bots.items():
            if shares.get(name, not shares):
                for member, plugin, weight in _bots_in(name, bot, config.bots):
                    identities.append(_bot_identity(plugin))
                    opponents[member] = PoolOpponent(
                        agent=plugin(), weight=shares.get(name, 1.0) * weight, trained=True
                    )
        for bot in config.evaluation.opponents:
            plugin = bot.bind("players")
            bot_name = f"{bot.name}:{bot.preset}" if bot.preset else bot.name
            held_out_bots.append((AgentSpec(bot_name, bot.options), plugin, plugin))
    new_specs, factories = list[AgentSpec](), list[Callable[[], Any]]()
    for spec, plugin, factory in held_out_bots:
        if _bot_identity(plugin) not in identities:
            identities.append(_bot_identity(plugin))
            new_specs.append(spec)
            factories.append(factory)
    for label, factory in zip(labels(new_specs), factories, strict=True):
        name = f"{label} (held out)" if label in opponents else label
        opponents[name] = PoolOpponent(agent=factory(), weight=1.0, trained=False)
    return opponents


def _bot_identity(bot: BoundPlugin) -> tuple[str, dict[str, Any]]:
    options = {
        key: bot.options.get(key, option.default) for key, option in bot.plugin.options.items()
    }
    return bot.plugin.name, options


def _find_ceiling(
    game: Trial, role: str, pool: Mapping[str, PoolOpponent]
) -> tuple[Ceiling | None, str]:
    if game.redeal != "fresh" or game.stop_on_win:
        return None, "no ceiling: it needs a fresh deal in every attempt, and no early stop"
    return ceiling_or_reason(
        game.inner,
        role=role,
        opponents={name: opponent.agent for name, opponent in pool.items()},
        shares={name: opponent.weight for name, opponent in pool.items()},
        attempts=game.attempts,
        reveal=game.reveal,
    )


def _exact_returns(
    game: Trial, policy: Any, role: str, pool: Mapping[str, PoolOpponent], limit: int
) -> AttemptReturns | str:
    if not limit or not isinstance(policy, ActionScorer):
        return ""
    opponents = {name: opponent.agent for name, opponent in pool.items()}
    try:
        return attempt_returns(game, policy, role=role, opponents=opponents, limit=limit)
    except GameError as error:
        return f"sampled only: {error}"


def _ceiling_columns(row: AdaptationRow, ceiling: Ceiling | None, reason: str) -> dict[str, Any]:
    if ceiling is None:
        return {"why": reason}
    if row.opponent:
        return {"best": ceiling.best_by[row.opponent], "fixed": ceiling.fixed_by[row.opponent]}
    columns: dict[str, Any] = {"best": ceiling.best, "fixed": ceiling.fixed}
    max_returns = [ceiling.closed_share(value) for value in ceiling.most]
    if None not in max_returns:  # adaptation can gain something
        closed_shares = [
            {
                end: None if value is None else ceiling.closed_share(value)
                for end, value in ends.items()
            }
            for ends in map(as_data, row.returns)
        ]
        columns |= {"ceiling": max_returns, "closed": closed_shares}
    return columns


def _exact_columns(
    row: AdaptationRow,
    pool: Mapping[str, PoolOpponent],
    exact: AttemptReturns | str,
    ceiling: Ceiling | None,
) -> dict[str, Any]:
    if isinstance(exact, str):
        return {"why_sampled": exact} if exact else {}
    shares = {index: opponent.weight for index, opponent in enumerate(pool.values())}
    if row.opponent:  # the returns of other opponents may be NaN, if a win ends their trials
        shares = {[*pool].index(row.opponent): 1.0}
    weights = np.array([*shares.values()]) / math.fsum(shares.values())
    returns, illegal = (
        (values[:, [*shares]] @ weights).tolist() for values in (exact.returns, exact.illegal)
    )
    columns = {"returns": returns, "illegal": illegal}
    result: dict[str, Any] = {
        name: [None if math.isnan(value) else value for value in values]
        for name, values in columns.items()
    }
    if not row.opponent and ceiling is not None and ceiling.closed_share(0.0) is not None:
        result["closed"] = [ceiling.closed_share(value) for value in returns]
    return {"exact": result}


def _bots_in(
    name: str, bot: PluginConfig, bots: Mapping[str, PluginConfig]
) -> list[tuple[str, BoundPlugin, float]]:
    plugin = bot.bind("players")
    agent = plugin()
    if type(agent) is not Mixture:
        return [(name, plugin, 1.0)]
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


MAX_STATES = 20_000  # largest number of information states for an agent without a run


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementTarget:
    """A player with the games that it is measured on.

    Args:
        policy: the measured player.
        games: games with different names.
        seen_states: initial states seen in training.
        about: description of the player, part of the result.
        notes: notes about requests that could not be met.
        oracles: oracles of the run, by game.
        limit: largest number of information states for enumeration.
        scores_actions: whether the policy can return probabilities of replies.
        config: the run's configuration, if there is a run.
        engine: the run's engine, if there is a run.
    """

    policy: Any
    games: Sequence[Environment]
    seen_states: SeenInitialStates
    about: Mapping[str, Any]
    notes: Sequence[str]
    oracles: Mapping[str, Oracle] = field(default_factory=dict)
    limit: int = MAX_STATES
    scores_actions: bool = True
    config: RunConfig | None = None
    engine: Any = None


def measure(
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
    use_oracle: bool = True,
    oracle_turns: int = BUDGET,
    answer: str | None = None,
    best_of: int = 1,
    in_flight: int | None = None,
) -> dict[str, Any]:
    """Measure a run or an agent; return figures, matches, notes and a description.

    Args:
        run: the folder of a run, or None.
        agent: a bot as on the command line, if there is no run.
        checkpoint: step of the run's checkpoint; None: the newest.
        only: if the run has several policies, the one that plays every seat.
        names: games as on the command line; empty: the games of the run.
        bots: opponents; empty: a player with random actions.
        games_per_seat: games against each opponent from each seat.
        exact: whether exact figures are computed where possible.
        league: whether the run's snapshots are rated.
        self_plays: number of episodes with the policy in all seats, of which the different ones
            are counted; 0: none.
        adaptation: whether each attempt of trials is measured, in ``games_per_seat`` trials for
            each role and opponent.
        seed: seed of the games.
        oracle: judges turns; None: the oracle of the run, or the first exact one.
        use_oracle: whether an oracle judges turns.
        oracle_turns: largest number of judged turns per game and opponent.
        answer: name of the run's answer, such as "nash"; None: the configuration's.
        best_of: number of candidates; the candidate that the oracle ranks best is played.
        in_flight: games at once; see ``rollout_teams``.

    Raises:
        SparringError: the run, a bot or a game does not exist, or does not fit the others.
    """
    target = (
        _target_of_agent(str(agent), names, checkpoint)
        if run is None
        else _target_of_run(run, checkpoint, only, names, answer)
    )
    policy, games, seen_states = target.policy, target.games, target.seen_states
    exact = exact and target.scores_actions
    notes, about = list(target.notes), dict(target.about)
    opponents = list(bots) or [parse_agent("random")]
    oracles, more_notes = oracles_for(games, oracle, target.oracles) if use_oracle else ({}, [])
    judges = {name: Judge(oracle=judge, budget=oracle_turns) for name, judge in oracles.items()}
    if best_of > 1:
        policy, exact = _choose_best_of(policy, best_of, games, oracles, more_notes), False
        about["best_of"] = best_of
    settings: dict[str, Any] = {
        "opponents": opponents,
        "games_per_seat": games_per_seat,
        "exact": exact,
        "max_states": target.limit,
        "seed": seed,
        "in_flight": in_flight,
    }
    pool = pool_of(games, target.config, bots) if adaptation else {}  # raises before the matches
    result = evaluate_policy(policy, games, judges=judges, seen_states=seen_states, **settings)
    result = {**about, **result, "notes": [*dict.fromkeys([*notes, *more_notes, *result["notes"]])]}
    if run is None and isinstance(policy, Mixture):
        result["answer"] = f"mixture of {policy}"
    if self_plays:
        result["self_plays"] = self_plays_of(
            policy, games, plays=self_plays, seen_states=seen_states, seed=seed, in_flight=in_flight
        )
    if adaptation:
        result["adaptation"] = adaptations_of(
            policy,
            games,
            pool,
            trials=games_per_seat,
            seen_states=seen_states,
            seed=seed,
            limit=target.limit if exact else 0,
            in_flight=in_flight,
        )
    if league and run is not None:
        result["league"] = league_of_run(
            target.engine,
            opponents=opponents,
            games_per_seat=games_per_seat,
            seed=seed,
            in_flight=in_flight,
        )
    return result


def _target_of_agent(text: str, names: Sequence[str], checkpoint: int | None) -> MeasurementTarget:
    if checkpoint is not None:
        raise ConfigError("--checkpoint needs a run; name a run folder instead of --agent.")
    spec = parse_agent(text)
    policy: Any = spec.make()
    games = named_games(names, style=spec.style)
    return MeasurementTarget(
        policy=policy,
        games=games,
        seen_states=SeenInitialStates(None),
        about={"agent": spec.name, "options": dict(spec.options)},
        notes=_unknown_word_notes(games, lambda known: unknown_to(spec.words, known)),
        scores_actions=isinstance(policy, ActionScorer),
    )


def _target_of_run(
    run: Path, checkpoint: int | None, only: str | None, names: Sequence[str], answer: str | None
) -> MeasurementTarget:
    config, engine, step = load_run(run, checkpoint)
    policy: Any = (
        load_answer(run, config, engine, step, answer)
        if only is None
        else engine.agent(published_policy(config, run, only))
    )
    games: Sequence[Environment] = [game for game, _ in engine.environments]
    about, notes, oracles = {"run": str(run), "step": step}, list[str](), dict[str, Oracle]()
    seen_states = SeenInitialStates(config, games)
    answer_name = config.league.answer if answer is None else answer
    if answer_name not in NON_MIXTURE_ANSWERS and not isinstance(policy, Mixture):
        answer_name = POLICY  # the league has no members yet
    about["weights"] = measured_weights(config, answer_name, only)
    if isinstance(policy, Mixture):
        about["answer"] = f"mixture of {policy}"
        notes += policy.notes if isinstance(policy, HasNotes) else ()
    if names:
        style = str(config.environments[0].options.get("style", "brief"))
        games = named_games(names, style=style)
        notes += _unknown_word_notes(games, run_player(run, step, None).unknown_words)
    else:
        oracles = configured_oracles(config.environments, games)
    return MeasurementTarget(
        policy=policy,
        games=games,
        seen_states=seen_states,
        about=about,
        notes=notes,
        oracles=oracles,
        limit=config.evaluation.max_states,
        config=config,
        engine=engine,
    )


def _choose_best_of(
    policy: Any,
    count: int,
    games: Sequence[Environment],
    oracles: Mapping[str, Oracle],
    notes: Sequence[str],
) -> BestOfN:
    if isinstance(policy, Mixture):
        raise ConfigError(
            "--best-of calls one player several times, but the run's answer is a mixture; add "
            "--answer policy."
        )
    missing_games = [game.name for game in games if game.name not in oracles]
    if missing_games:
        reason = " ".join(notes) or "leave --oracle none out."
        raise ConfigError(f"--best-of needs an oracle that judges {missing_games[0]!r}: {reason}")
    return BestOfN(policy, count, lambda game: oracles[game.name].judge)


def _unknown_word_notes(
    games: Sequence[Environment], unknown_words_of: Callable[[Environment], Sequence[str]]
) -> list[str]:
    return [
        f"{game.name}: {len(words)} words are unknown to the model and read as <unknown>."
        for game in games
        if (words := unknown_words_of(game))
    ]
