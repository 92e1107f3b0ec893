"""One round of the algorithm: seat, play, shape, credit, update.

Metrics:
    reward/NAME             mean of a reward's component over trained turns that have it, weighted and bounded
    reward/llm_judge        as reward/NAME, and no fact: a language model's opinion of the turns
    abstained/NAME          share of trained turns on which a reward has no opinion; only where there are any
    optimal_rate/GAME       share of the judged turns whose reply is one of the oracle's best actions
    regret/GAME             mean value lost per judged turn, as the oracle says, in the game's units
    judged_rate/GAME        share of trained turns on which the oracle gave a verdict; these three where a game has an oracle
    bounded_share           share of trained seats whose shaping was scaled down in a game, so that outcomes keep their order
    kept_share              share of turns that selection left
    replayed_share          share of the batch's games that come from the replay buffer; these only where something is stored
    buffer_size             games in the replay buffer after the step
    replay_age              steps since the replayed games were played, mean
    replay_weight           mean importance weight of the replayed groups, relative to the largest; reported, not applied
    refills                 further batches played in place of games that selection dropped; where rollout.refills allows any
    advantage_std           standard deviation of the advantages over tokens
    distinct_share          distinct sequences among all; the rest is computed once and shared
    retried_games           games that failed and began anew
    dropped_groups          groups given up because a game failed beyond its retries
    credit/...              figures of the advantage estimator, such as its baselines
Timing, in timing.jsonl:
    seconds/play            playing the games, judging and shaping them
    seconds/oracle          judging alone, where a game has an oracle
    seconds/credit          turn table, values, process model, advantages, packing
    seconds/update          updating the weights
    seconds/round           the three together
    seconds/evaluation      measuring, in steps that do
    tokens_per_second       all tokens trained on, prompts included, over the whole round
    games_per_second        games over the whole round
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.errors import RolloutError
from sparring.games.base import Game
from sparring.league.starts import arms, starts, turn_limit
from sparring.oracles.base import Oracle
from sparring.oracles.judge import configured_oracles, judge_episodes
from sparring.registry import Bound, bind
from sparring.rewards.base import WeightedReward, apply_rewards, outcome_gap, prepared
from sparring.rollout.credit_store import Learned
from sparring.rollout.plans.base import play_planned
from sparring.rollout.play import RolloutCounts
from sparring.rollout.playouts import with_playouts
from sparring.rollout.table import turn_table
from sparring.run.measures import group_metrics, oracle_metrics, rollout_metrics
from sparring.run.state import RunState
from sparring.schedule import parse
from sparring.selection.curricula.base import ArmBook
from sparring.types import Credit, Episode


@dataclass(frozen=True, kw_only=True, slots=True)
class Methods:
    """The plug-ins of a run that the loop calls itself."""

    matchmaker: Bound
    curriculum: Bound
    selection: Bound
    credit: Bound
    rewards: tuple[WeightedReward, ...] = ()
    replay: Bound | None = None
    plan: Bound = field(default_factory=lambda: bind("rollout.plans", "none"))
    oracles: Mapping[str, Oracle] = field(default_factory=dict)  # by the game's name

    @classmethod
    def of(cls, config: RunConfig, games: Sequence[Game] = ()) -> Methods:
        """Bind the plug-ins that a configuration names; oracles are made for the run's games."""
        return cls(
            matchmaker=config.matchmaker.bind("league.matchmakers"),
            curriculum=config.curriculum.bind("selection.curricula"),
            selection=config.selection.bind("selection"),
            credit=config.credit.bind("credit"),
            rewards=prepared([WeightedReward(bound=reward.bind("rewards"), weight=parse(reward.weight)) for reward in config.rewards]),
            replay=config.replay.bind("selection.replay"),
            plan=config.rollout.plan.bind("rollout.plans"),
            oracles=configured_oracles(config.games, games) if games else {},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What one round gave: its episodes, figures, wall-clock times, the state to go on from, and what it learned from."""

    episodes: list[Episode]
    metrics: dict[str, float]
    timing: dict[str, float]
    state: RunState
    learned: Learned | None = None  # where it was to be recorded


def play_round(config: RunConfig, engine: Engine, methods: Methods, state: RunState, *, recorded: bool = False) -> Round:
    """Play the games of one step and learn from them.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
        state: ``RunState()`` in the first step, and then what the round before gave.
        recorded: compute the entropy of every sampled token, at the price of one more forward pass.

    Raises:
        RolloutError: no game could be played.
    """
    clock = [time.perf_counter()]
    step, progress = state.step, state.step / config.steps
    book, buffer = ArmBook(arms(engine.games, config.rollout.starts), state.json("curriculum")), state.replay
    played = _play(config, engine, methods, step, book)
    clock.append(time.perf_counter())
    joined, replayed = buffer.join(
        methods.replay,
        played.kept,
        played.arm_of,
        wanted=config.rollout.games_per_step,
        step=step,
        stream=engine.root.child("replay").child(step),
        progress=progress,
    )
    batch = engine.batch(joined, progress=progress)
    credit: Credit = methods.credit(batch.turns, state.json("credit"), progress=progress)
    advantages = batch.advantages(credit)
    clock.append(time.perf_counter())
    updated, found = {}, None
    if recorded:
        entropies = engine.entropies(batch) if joined else np.zeros(0)
        found = Learned(batch=joined, turns=batch.turns, credit=credit, entropies=entropies)
    if joined:
        updated = engine.learn(batch, credit, step=step, progress=progress)
    clock.append(time.perf_counter())
    metrics = {
        **rollout_metrics(played.episodes),
        **oracle_metrics(played.episodes, methods.oracles),
        **played.metrics,
        **replayed,
        **batch.metrics,
        **{f"credit/{name}": value for name, value in credit.metrics.items()},
        **updated,
        "advantage_std": float(np.std(advantages)) if len(advantages) else 0.0,
        "distinct_share": len(batch.pack.sequences) / max(len(batch.pack.distinct), 1),
        "retried_games": float(played.counts.retried),
        "dropped_groups": float(len(played.counts.dropped_groups)),
    }
    timing = _timing(clock, len(played.episodes), batch.pack.num_tokens)
    if methods.oracles:
        timing["seconds/oracle"] = played.judging
    after = state.after(credit=dict(credit.state), curriculum=book.state, replay=buffer)
    return Round(episodes=played.episodes, metrics=metrics, timing=timing, state=after, learned=found)


@dataclass(kw_only=True, slots=True)
class _Played:
    """The games of a step: all of them, those that are trained on, and figures of both."""

    episodes: list[Episode] = field(default_factory=list)
    kept: list[Episode] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    counts: RolloutCounts = field(default_factory=RolloutCounts)
    judging: float = 0.0  # seconds
    arm_of: dict[int, str] = field(default_factory=dict)  # of each group id


def _play(config: RunConfig, engine: Engine, methods: Methods, step: int, book: ArmBook) -> _Played:
    """Play a step's games, shape their rewards and select what is trained on; play more in place of what is dropped, if asked."""
    rollout, progress, played = config.rollout, step / config.steps, _Played()
    tables = []
    for refill in range(rollout.refills + 1):
        specs = starts(
            step,
            games=engine.games,
            rollout=rollout,
            matchmaker=methods.matchmaker,
            members=engine.members,
            root=engine.root,
            progress=progress,
            curriculum=methods.curriculum,
            book=book,
            refill=refill,
        )
        episodes, planned = play_planned(methods.plan, specs, engine.play, played.counts, group_size=rollout.group_size, progress=progress)
        played.judging -= time.perf_counter()
        episodes = judge_episodes(episodes, {game.name: game for game, _ in engine.games}, methods.oracles)
        played.judging += time.perf_counter()
        if rollout.playouts:
            episodes = _played_on(episodes, config, engine, step, refill)
        episodes, shaping = _shape(episodes, config, engine, methods.rewards, progress)
        if not episodes:
            raise RolloutError("No game of this step could be played; the log says why.")
        turns = turn_table(episodes)
        arm_of = {spec.group_id: spec.arm for spec in specs}
        played.arm_of.update(arm_of)
        book.observe(turns, arm_of, step)
        mask = methods.selection(turns, engine.root.child("selection").child(step).child(refill), progress=progress)
        alive = set(turns.episode[mask].tolist())
        played.kept += episodes if mask.all() else [episode for episode in episodes if episode.episode_id in alive]
        played.episodes += episodes
        figures = {**planned, **shaping, **group_metrics(turns), "kept_share": float(mask.mean()) if len(mask) else 1.0}
        tables.append((len(episodes), figures))
        if len(played.kept) >= rollout.games_per_step:
            break
    played.kept = _whole_groups(played.kept, rollout.games_per_step)
    played.metrics = {**_mean_metrics(tables), "refills": float(len(tables) - 1)} if rollout.refills else tables[0][1]
    return played


def _played_on(episodes: list[Episode], config: RunConfig, engine: Engine, step: int, refill: int) -> list[Episode]:
    """Return the episodes with values of their turns, from games played on after them."""
    games = {game.name: game for game, _ in engine.games}
    stream = engine.root.child("playouts").child(step).child(refill)
    limit = turn_limit(config.rollout, step / config.steps)
    return with_playouts(episodes, games, engine.play, count=config.rollout.playouts, stream=stream, max_turns=limit)


def _whole_groups(episodes: list[Episode], wanted: int) -> list[Episode]:
    """Return the first episodes, at least as many as wanted, no group of them cut."""
    if len(episodes) <= wanted:
        return episodes
    groups = {episode.group_id for episode in episodes[:wanted]}
    return [episode for episode in episodes if episode.group_id in groups]


def _mean_metrics(parts: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """Return the means of metrics over parts of so many games; a part that lacks one does not count for it."""
    names = {name: None for _, metrics in parts for name in metrics}
    own = {name: [(games, metrics[name]) for games, metrics in parts if name in metrics] for name in names}
    return {name: sum(games * value for games, value in found) / sum(games for games, _ in found) for name, found in own.items()}


def _shape(
    episodes: list[Episode], config: RunConfig, engine: Engine, rewards: tuple[WeightedReward, ...], progress: float
) -> tuple[list[Episode], dict[str, float]]:
    """Return the episodes with the run's rewards added, its penalties for illegal replies bounded, and the metrics of it."""
    fined = any(game.illegal.penalty and game.illegal.rule != "forfeit" for game, _ in engine.games)
    scales = {section.known_as: section.scale for section in config.games}
    if not rewards and not fined and config.outcome_weight == 1.0 and set(scales.values()) == {1.0}:
        return episodes, {}
    games = {game.name: game for game, _ in engine.games}
    gaps = {name: section.outcome_gap or outcome_gap(game) for section, (name, game) in zip(config.games, games.items(), strict=True)}
    weight = parse(config.outcome_weight)(progress)
    return apply_rewards(
        episodes,
        rewards,
        progress,
        gaps=gaps,
        games=games,
        outcome_weight=weight,
        scales=scales,
        reorder_outcomes=config.reorder_outcomes,
    )


def _timing(clock: list[float], games: int, tokens: int) -> dict[str, float]:
    """Return seconds per phase and rates of a round."""
    total = max(clock[-1] - clock[0], 1e-9)
    phases = dict(zip(("play", "credit", "update"), np.diff(clock).tolist(), strict=True))
    return {
        **{f"seconds/{name}": value for name, value in phases.items()},
        "seconds/round": total,
        "tokens_per_second": tokens / total,
        "games_per_second": games / total,
    }
