"""One round of the algorithm: seat, play, shape, credit, update.

Metrics:
    reward/NAME             mean of a reward's component over trained turns that have it, weighted
                            and bounded
    reward/llm_judge        as reward/NAME, and no fact: a language model's opinion of the turns
    abstained/NAME          share of trained turns on which a reward has no opinion; only where
                            there are any
    optimal_rate/GAME       share of the judged turns whose reply is one of the oracle's best
                            actions
    regret/GAME             mean value lost per judged turn, as the oracle says, in the game's units
    judged_rate/GAME        share of trained turns on which the oracle gave a verdict; these three
                            where a game has an oracle
    bounded_share           share of trained seats whose shaping was scaled down in a game, so that
                            outcomes keep their order
    kept_share              share of turns that selection left
    replayed_share          share of the batch's games that come from the replay buffer; these only
                            where something is stored
    buffer_size             games in the replay buffer after the step
    replay_age              steps since the replayed games were played, mean
    replay_weight           mean importance weight of the replayed groups, relative to the largest;
                            reported, not applied
    playouts/tokens         sampled tokens of the games that were played on from turns, which
                            nothing learns from; this and the next where rollout.playouts is above 0
    playouts/failed         share of the positions from which no game could be played on
    refills                 further batches played in place of games that selection dropped; where
                            rollout.refills allows any
    advantage_std           standard deviation of the advantages over the tokens that carry loss
    distinct_share          distinct sequences among all; the rest is computed once and shared
    retried_games           games that failed and began anew
    dropped_groups          groups given up because a game failed beyond its retries
    lag                     steps that the weights which played were behind those that learn; where
                            scale.lag is above 0. In fresh order the mean over the trained turns
                            that the step learns from, in updates of their policy.
                            logprob_difference_max and _mean are with a lag of one play in 100,
                            scored again by the weights that played it
    credit/...              figures of the advantage estimator, such as its baselines
    knowledge/NAME/...      figures of what the run knows; its page says what they are
    knowledge/judged        share of the replies to prompts with several that it judged
Where a run has several policies, what one of them learns from and how it is updated stands below
its name, as in leader/loss, leader/advantage_std, leader/credit/...; main has no name.
Timing, in timing.jsonl:
    seconds/play            playing the games, judging and shaping them
    seconds/oracle          judging alone, where a game has an oracle
    seconds/credit          turn table, values, reward model, advantages, packing
    seconds/update          updating the weights
    seconds/round           the three together
    seconds/evaluation      measuring, in steps that do
    tokens_per_second       all tokens trained on, prompts included, over the whole round
    games_per_second        games over the whole round
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

import numpy as np

from sparring.config import RunConfig
from sparring.config.scale import FRESH
from sparring.core.records import Credit, Episode
from sparring.core.refs import MAIN
from sparring.engine.logprob_check import SAME
from sparring.engine.logprob_check import metrics as same_numbers
from sparring.engine.protocol import Batch, Engine
from sparring.environments.base import teams_of
from sparring.league.seating import arms
from sparring.methods.knowledge.base import Gathered, Knowledge, replies, with_scores
from sparring.methods.selection.curricula.base import ArmBook
from sparring.play.credit_store import Learned
from sparring.run.fresh_steps import Fresh
from sparring.run.measures import (
    candidate_metrics,
    environment_metrics,
    oracle_metrics,
    rollout_metrics,
)
from sparring.run.methods import Methods
from sparring.run.pipeline import Ahead, Played
from sparring.run.state import RunState

OWNER = "knowledge"  # under which the run's state keeps it


def known(
    engine: Engine, methods: Methods, state: RunState, played: Played, progress: float
) -> tuple[Played, Mapping[str, Any]]:
    """Return a step's plays as knowledge judges them, and what its owner remembers from now on.

    Args:
        engine: whose environments they are of.
        methods: of the run.
        state: of the run before the step.
        played: the step's plays.
        progress: share of the run that is done.
    """
    if methods.knowledge is None:
        return played, {}
    gathered = Gathered(
        episodes=played.episodes,
        environments={game.name: game for game, _ in engine.environments},
        step=state.step,
        stream=engine.root.child(OWNER).child(state.step),
    )
    found: Knowledge = methods.knowledge(gathered, state.json(OWNER), progress=progress)
    episodes = with_scores(played.episodes, found.scores)
    now = {episode.episode_id: episode for episode in episodes}
    name = methods.knowledge.plugin.name
    figures = {f"{OWNER}/{name}/{key}": value for key, value in found.metrics.items()}
    judged = replace(
        played,
        episodes=episodes,
        kept=[now[episode.episode_id] for episode in played.kept],
        metrics={**played.metrics, **figures, f"{OWNER}/judged": _judged(episodes)},
    )
    return judged, {OWNER: found.state}


def _judged(episodes: list[Episode]) -> float:
    """Return the share of the replies to prompts with several that have a score."""
    every = [
        one.score is not None
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
        for one in replies(turn)
    ]
    return sum(every) / max(len(every), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What one round gave: its episodes, figures, wall-clock times, the state to go on from, and
    what it learned from.
    """

    episodes: list[Episode]
    metrics: dict[str, float]
    timing: dict[str, float]
    state: RunState
    learned: tuple[Learned, ...] = ()  # of each policy, where it was to be recorded


def play_round(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    state: RunState,
    *,
    recorded: bool = False,
    ahead: Ahead | Fresh | None = None,
) -> Round:
    """Play the games of one step and learn from them.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
        state: ``RunState()`` in the first step, and then what the round before gave.
        recorded: compute the entropy of every sampled token, at the price of one more forward pass.
        ahead: the steps that are being played, the same in every round; None: this one alone.

    Raises:
        RolloutError: no game could be played.
    """
    clock = [time.perf_counter()]
    step, progress = state.step, state.step / config.steps
    book = ArmBook(arms(engine.environments, config.rollout.starts), state.json("curriculum"))
    buffer = state.replay
    ahead = ahead or steps_of(config, engine, methods)
    played, learnt = known(engine, methods, state, ahead.played(state), progress)
    for turns_of, arm_of in played.observed:
        book.observe(turns_of, arm_of, step)
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
    all_and_no_more = len(joined) == len(played.episodes) and all(map(is_, joined, played.episodes))
    turns = played.turns if all_and_no_more else None
    batches = [
        engine.batch(joined, progress=progress, policy=name, turns=turns)
        for name in engine.learners
    ]
    credits: list[Credit] = [
        methods.credit[batch.policy](
            batch.turns, state.json(owner_of(batch.policy)), progress=progress
        )
        for batch in batches
    ]
    figures = [_figures(batch, credit) for batch, credit in zip(batches, credits, strict=True)]
    clock.append(time.perf_counter())
    learned, metrics = list[Learned](), dict[str, float]()
    for batch, credit, own in zip(batches, credits, figures, strict=True):
        if recorded:
            learned.append(_learned(engine, batch, credit))
        if batch.episodes and batch.teaches(credit):
            own |= engine.learn(batch, credit, step=step, progress=progress)
        if config.scale.lag:
            own = {name: value for name, value in own.items() if name not in SAME}
            own |= same_numbers(played.counts.scored, batch.policy)
        metrics |= {f"{prefix(batch.policy)}{name}": value for name, value in own.items()}
    clock.append(time.perf_counter())
    metrics = {**_of_plays(config, engine, played, methods), **replayed, **metrics}
    timing = _timing(clock, len(played.episodes), sum(b.pack.num_tokens for b in batches))
    timing |= engine.timing()
    timing |= {"seconds/oracle": played.counts.judging} if methods.oracles else {}
    teams = {game.name: teams_of(game) for game, _ in engine.environments}
    after = state.after(
        **{
            owner_of(batch.policy): dict(credit.state)
            for batch, credit in zip(batches, credits, strict=True)
        },
        curriculum=book.state,
        replay=buffer,
        **learnt,
        payoffs=state.payoffs.after(
            played.episodes,
            teams,
            decay=config.league.payoff_decay,
            apart=bool(config.league.learners),
        ).to_json(),
        **ahead.state(),
    )
    return Round(
        episodes=played.episodes,
        metrics=metrics,
        timing=timing,
        state=after,
        learned=tuple(learned),
    )


def steps_of(config: RunConfig, engine: Engine, methods: Methods) -> Ahead | Fresh:
    """Return what gives the steps of a run their plays, in the order of its configuration."""
    kind = Fresh if config.scale.order == FRESH else Ahead
    return kind(config, engine, methods)


def _of_plays(
    config: RunConfig, engine: Engine, played: Played, methods: Methods
) -> dict[str, float]:
    """Return the figures of a step's plays."""
    return {
        **rollout_metrics(played.episodes),
        **candidate_metrics(played.episodes),
        **oracle_metrics(played.episodes, methods.oracles),
        **environment_metrics(played.episodes, (game for game, _ in engine.environments)),
        **played.metrics,
        "retried_games": float(played.counts.retried),
        "dropped_groups": float(len(played.counts.dropped_groups)),
        **({"lag": float(played.lag)} if config.scale.lag else {}),
    }


def prefix(policy: str) -> str:
    """Return what the metrics of a policy's learning begin with."""
    return "" if policy == MAIN else f"{policy}/"


def owner_of(policy: str) -> str:
    """Return under which name the run's state keeps what a policy's estimator remembers."""
    return "credit" if policy == MAIN else f"credit-{policy}"


def _figures(batch: Batch, credit: Credit) -> dict[str, float]:
    """Return the figures of a policy's batch and credit."""
    advantages, trained = batch.advantages(credit), batch.trained(credit)
    if trained is not None:
        advantages = advantages[trained]
    return {
        **batch.metrics,
        **{f"credit/{name}": value for name, value in credit.metrics.items()},
        "advantage_std": float(np.std(advantages)) if len(advantages) else 0.0,
        "distinct_share": len(batch.pack.sequences) / max(len(batch.pack.distinct), 1),
    }


def _learned(engine: Engine, batch: Batch, credit: Credit) -> Learned:
    """Return what is recorded of a policy's batch, before it is learned from."""
    entropies = engine.entropies(batch) if batch.episodes else np.zeros(0)
    return Learned(batch=batch.episodes, turns=batch.turns, credit=credit, entropies=entropies)


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
