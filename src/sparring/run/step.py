"""One training step: seat, play, shape, credit, update; and its metrics.

Metrics of episodes, over trained seats unless stated otherwise. If a prompt has several candidate
replies, legal_rate to sampled_entropy count all of them; other metrics count the played one:
    legal_rate              share of replies that were a legal action, in turns with a list of legal
                            actions; absent in environments where any text is legal
    legal_rate/GAME         legal_rate of one game
    unparsable_rate         share of replies from which no action could be parsed
    truncated_rate          share of replies that reached the token limit
    overlong_rate           share of turns without a reply, because the prompt was longer than
                            model.context; these turns count in truncated_rate too, and in no
                            other metric
    reply_tokens            sampled tokens per turn
    sampled_entropy         mean of -log(probability) of the sampled tokens: estimates the sampler's
                            entropy per token, nats
    memories_per_game       memories that seats wrote, per game; they count in no metric above;
                            this and memory_tokens are absent without memories
    memory_tokens           sampled tokens per memory
    turns_per_game          decisions of all seats per game
    forfeit_rate            share of games that an illegal reply ended
    cut_rate                share of games that were truncated, by rollout.max_turns or by
                            model.context; absent if 0
    return/GAME/ROLE        mean return of the role, in the game's units; games that outgrew
                            model.context are left out
    seat_asymmetry/GAME     largest minus smallest mean return over the roles of a game
    attempt/GAME/NUMBER     for trials: mean payoff in attempt 1, 2, ..., times
                            environments.N.scale, over the seats with a turn in this attempt;
                            without attempts that outgrew model.context
    figure/GAME/NAME        a figure that the environment defines (such as understood of
                            code_words), mean over seats that have the figure; without forfeited and
                            truncated episodes
    candidates/decisions    decisions per game with several candidates; this and the other
                            candidates/ metrics need rollout.candidates.count above 1
    candidates/equal_share  share of these decisions whose candidates all had the same score
    candidates/unjudged     share of these decisions without any scored candidate
    candidates/score        mean score of all scored candidates: the quality of the policy
    candidates/gain         mean score of the played candidates minus candidates/score
    candidates/tokens       sampled tokens of the step, in all candidates
    group_deviation         mean standard deviation of rewards within groups (trajectories
                            of one initial state and role)
    group_equal_share       share of groups with equal rewards; this and group_deviation only if
                            groups have two or more trajectories
Metrics of the step:
    reward/NAME             mean of this reward component over trained turns that have it,
                            weighted and bounded
    reward/llm_judge        this mean for rewards by a language model, which are opinions
    abstained/NAME          share of trained turns for which this reward gave no value; absent if
                            0
    optimal_rate/GAME       share of the judged turns whose reply is one of the oracle's best
                            actions
    regret/GAME             mean value lost per judged turn by the oracle, in the game's units
    judged_rate/GAME        share of trained turns that the oracle judged; this, regret and
                            optimal_rate need an oracle
    bounded_share           share of trained seats whose shaping rewards were scaled down so that
                            a better outcome still has a larger return
    kept_share              share of turns that selection kept
    replayed_share          share of the batch's games that come from the replay buffer; replay
                            metrics are absent without a buffer
    buffer_size             games in the replay buffer after the step
    replay_age              steps since the replayed games were played, mean
    replay_weight           mean importance weight of the replayed groups, relative to the largest;
                            reported, not applied
    playouts/tokens         sampled tokens of playouts, which are not trained on; this and
                            playouts/failed need rollout.playouts above 0
    playouts/failed         share of the states from which no playout could be played
    refills                 further batches played to replace games that selection dropped; needs
                            rollout.refills above 0
    advantage_std           standard deviation of the advantages over the tokens that carry loss
    distinct_share          share of distinct sequences; duplicates are computed once
    retried_games           games that failed and were played again
    dropped_groups          groups dropped because a game failed more often than its retries
    lag                     staleness of the sampling weights in steps; needs scale.lag above 0.
                            In fresh order: mean over trained turns, in updates of their policy.
                            With a lag, logprob_difference_max and _mean come from one episode
                            in 100, scored again with the weights that sampled it
    credit/...              metrics of the advantage estimator, such as its baselines
    knowledge/NAME/...      metrics of the knowledge plug-in; its page explains them
    knowledge/judged        share of the candidates that the plug-in scored
In a run with several policies, each policy's learning metrics have its name as prefix, as in
leader/loss, leader/advantage_std, leader/credit/...; the policy main has no prefix.
Timing, in timing.jsonl:
    seconds/play            playing, judging and shaping the games
    seconds/oracle          the oracle's part of seconds/play, if a game has an oracle
    seconds/credit          turn table, values, reward model, advantages, packing
    seconds/update          updating the weights
    seconds/round           sum of seconds/play, seconds/credit and seconds/update
    seconds/evaluation      measuring, in steps with an evaluation
    tokens_per_second       trained tokens, prompts included, divided by seconds/round
    games_per_second        games divided by seconds/round
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from sparring.config import RunConfig
from sparring.config.checks import is_mixture_player
from sparring.config.plugins.registry import BoundPlugin, bind, required_services
from sparring.config.sections import FRESH, LeagueConfig
from sparring.core.errors import ConfigError, RolloutError
from sparring.core.records import MAIN, Credit, Episode, PlayerRef, Turn, TurnTable
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.logprob_check import LOGPROB_METRICS, logprob_metrics
from sparring.engine.protocol import Batch, Engine, Pinned, ReplyJudges, rewards_of
from sparring.environments.base import Environment, teams_of
from sparring.league.payoffs import Payoffs
from sparring.league.seating import LeagueLearner, make_arms, max_turns_at, step_specs
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.knowledge.base import Knowledge, KnowledgeRequest, replies, with_scores
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import configured_oracles, is_best, regret
from sparring.methods.rewards.base import apply_rewards, outcome_gap
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.selection.curricula.base import ArmBook
from sparring.ops.groups import group_counts, group_std
from sparring.play.episode import num_sampled_tokens
from sparring.play.plans.base import play_planned
from sparring.play.players.mixture import Mixture
from sparring.play.playouts import with_playouts
from sparring.play.replay import figures_of
from sparring.play.rollout import EpisodeRequests, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec
from sparring.play.store import LearnedBatch
from sparring.play.turn_table import turn_table
from sparring.run.state import LEAGUE, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Methods:
    """The plug-ins of a run that the training loop calls."""

    matchmaker: BoundPlugin
    curriculum: BoundPlugin
    selection: BoundPlugin
    credit: Mapping[str, BoundPlugin]  # estimator of each trained policy, by name
    rewards: tuple[WeightedReward, ...] = ()
    replay: BoundPlugin | None = None
    knowledge: BoundPlugin | None = None  # scores candidates after the episodes
    plan: BoundPlugin = field(default_factory=lambda: bind("rollout.plans", "none"))
    keeping: BoundPlugin = field(default_factory=lambda: bind("league.keeping", "spread"))
    schedules: Mapping[str, BoundPlugin] = field(default_factory=dict)  # by name of the policy
    learners: tuple[LeagueLearner, ...] = ()  # learners of a league with several
    oracles: Mapping[str, Oracle] = field(default_factory=dict)  # by name of the game
    mixtures: Mapping[str, Mixture] = field(default_factory=dict)  # by name of the bot

    @classmethod
    def of(cls, config: RunConfig, games: Sequence[Environment] = ()) -> Methods:
        """Return the plug-ins of a configuration, with the oracles of the run's environments."""
        return cls(
            matchmaker=config.matchmaker.bind("league.matchmakers"),
            curriculum=config.curriculum.bind("selection.curricula"),
            selection=config.selection.bind("selection"),
            credit={
                name: section.credit.bind("credit")
                for name, section in config.by_policy.items()
                if not config.is_frozen(name)
            },
            rewards=rewards_of(config),
            replay=config.replay.bind("selection.replay"),
            knowledge=config.knowledge.bind("knowledge") if config.knowledge else None,
            plan=config.rollout.plan.bind("rollout.plans"),
            keeping=config.league.keeping.bind("league.keeping"),
            schedules=schedules_of(config.league),
            learners=tuple(
                LeagueLearner(
                    policy=name,
                    matchmaker=(section.matchmaker or config.matchmaker).bind("league.matchmakers"),
                    share=section.share,
                )
                for name, section in config.league.learners.items()
            ),
            mixtures={
                name: bot.bind("players")()
                for name, bot in config.bots.items()
                if is_mixture_player(bot)
            },
            oracles=configured_oracles(config.environments, games) if games else {},
        )


def schedules_of(league: LeagueConfig) -> dict[str, BoundPlugin]:
    """Return the schedule of each learner of a league, by its policy."""
    return {
        name: (getattr(league.learners.get(name), "schedule", None) or league.schedule).bind(
            "league.schedules"
        )
        for name in league.tags
    }


def rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the metrics of one or more episodes; the module's docstring lists them."""
    metrics = _reply_metrics(episodes)
    metrics["turns_per_game"] = sum(len(episode.decisions) for episode in episodes) / len(episodes)
    metrics["forfeit_rate"] = sum(episode.forfeited_by is not None for episode in episodes) / len(
        episodes
    )
    metrics |= _memory_metrics(episodes)
    if any(episode.cut for episode in episodes):
        metrics["cut_rate"] = sum(episode.cut for episode in episodes) / len(episodes)
    returns: dict[tuple[str, str], list[float]] = {}
    for episode in episodes:
        if episode.has_outgrown_context:
            continue
        for seat, role in enumerate(episode.roles):
            if episode.trained[seat]:
                returns.setdefault((episode.game, role), []).append(episode.returns[seat])
    means = {key: sum(values) / len(values) for key, values in returns.items()}
    metrics.update({f"return/{game}/{role}": mean for (game, role), mean in means.items()})
    for game in {game for game, _ in means}:
        game_means = [mean for (name, _), mean in means.items() if name == game]
        metrics[f"seat_asymmetry/{game}"] = max(game_means) - min(game_means)
    return metrics | _attempt_metrics(episodes)


def _attempt_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    trial_games = {
        episode.game
        for episode in episodes
        if any(turn.attempt and episode.trained[turn.seat] for turn in episode.turns)
    }
    payoff_sums: defaultdict[tuple[str, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for index, episode in enumerate(episodes):
        turns = episode.turns if episode.game in trial_games else ()
        unsent_attempts = {turn.attempt for turn in turns if turn.event == "unsent"}
        for turn in turns:
            if episode.trained[turn.seat] and turn.attempt not in unsent_attempts:
                payoffs = payoff_sums[episode.game, turn.attempt]
                seat_key = (index, turn.seat)
                payoffs[seat_key] = payoffs.get(seat_key, 0.0) + turn.rewards.get("game", 0.0)
    return {
        f"attempt/{game}/{attempt + 1}": sum(payoffs.values()) / len(payoffs)
        for (game, attempt), payoffs in sorted(payoff_sums.items())
    }


def environment_metrics(
    episodes: Sequence[Episode], games: Iterable[Environment]
) -> dict[str, float]:
    """Return the figures of environments that declare ``figures``.

    The episodes are replayed, as records do not hold hidden state.
    """
    metrics: dict[str, float] = {}
    for game in games:
        values_by_figure: dict[str, list[float]] = {name: [] for name in game.figures}
        for episode in episodes if values_by_figure else ():
            figures = figures_of(game, episode) if episode.game == game.name else None
            for name, values in (figures or {}).items():
                seat_values = itertools.compress(values, episode.trained)
                values_by_figure[name] += (value for value in seat_values if not math.isnan(value))
        means = {
            name: sum(values) / len(values) for name, values in values_by_figure.items() if values
        }
        metrics |= {f"figure/{game.name}/{name}": mean for name, mean in means.items()}
    return metrics


def _reply_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    num_unparsable = num_truncated = num_unsent = num_tokens = num_replies = 0
    negative_logprob = 0.0
    num_listed: defaultdict[str, int] = defaultdict(int)  # turns with a list of legal actions
    num_legal: defaultdict[str, int] = defaultdict(int)
    for episode in episodes:
        trained = episode.trained
        if episode.has_outgrown_context:
            num_unsent += sum(
                turn.event == "unsent" and trained[turn.seat] for turn in episode.turns
            )
        for turn in all_replies(episode):
            if not trained[turn.seat]:
                continue
            num_replies += 1
            event, num_sampled = turn.event, 0
            if turn.legal_actions:
                num_listed[episode.game] += 1
                num_legal[episode.game] += event == "ok"
            num_unparsable += event == "unparsable"
            for segment in turn.segments:
                if segment.kind == "sampled":
                    num_sampled += len(segment.ids)
                    negative_logprob -= sum(segment.logprobs)
            num_tokens += num_sampled
            num_truncated += turn.truncated
    num_turns = num_replies + num_unsent
    metrics = {
        "unparsable_rate": num_unparsable / max(num_replies, 1),
        "truncated_rate": (num_truncated + num_unsent) / max(num_turns, 1),
        "overlong_rate": num_unsent / max(num_turns, 1),
        "reply_tokens": num_tokens / max(num_replies, 1),
    }
    if num_listed or not num_turns:
        rate = sum(num_legal.values()) / max(sum(num_listed.values()), 1)
        metrics = {"legal_rate": rate, **metrics}
    metrics.update(
        {f"legal_rate/{game}": num_legal[game] / count for game, count in num_listed.items()}
    )
    return {**metrics, "sampled_entropy": negative_logprob / num_tokens} if num_tokens else metrics


def all_replies(episode: Episode) -> Iterator[Turn]:
    """Yield all replies of an episode: the played ones and the other candidates."""
    for turn in episode.decisions:
        yield turn
        yield from turn.candidates


def _memory_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    token_counts = [
        num_sampled_tokens(turn)
        for episode in episodes
        for turn in episode.turns
        if turn.event == "memory" and episode.trained[turn.seat]
    ]
    if not token_counts:
        return {}
    count = len(token_counts)
    return {"memories_per_game": count / len(episodes), "memory_tokens": sum(token_counts) / count}


def candidate_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the candidates/ metrics; empty if every prompt had one reply."""
    groups = [
        (turn, [reply.score for reply in (turn, *turn.candidates) if reply.score is not None])
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
    ]
    if not groups:
        return {}
    scored_groups = [(turn.score, scores) for turn, scores in groups if scores]
    all_scores = [score for _, scores in scored_groups for score in scores]
    played_scores = [score for score, _ in scored_groups if score is not None]
    mean_score = sum(all_scores) / max(len(all_scores), 1)
    num_tokens = sum(
        num_sampled_tokens(turn)
        for episode in episodes
        for turn in all_replies(episode)
        if episode.trained[turn.seat]
    )
    return {
        "candidates/decisions": len(groups) / len(episodes),
        "candidates/equal_share": sum(max(group) == min(group) for _, group in scored_groups)
        / len(groups),
        "candidates/unjudged": 1 - len(scored_groups) / len(groups),
        "candidates/score": mean_score,
        "candidates/gain": sum(played_scores) / max(len(played_scores), 1) - mean_score,
        "candidates/tokens": float(num_tokens),
    }


def oracle_metrics(episodes: Sequence[Episode], games: Iterable[str]) -> dict[str, float]:
    """Return judged_rate, optimal_rate and regret of each game with an oracle."""
    metrics = {}
    for game in games:
        turns = [
            turn
            for episode in episodes
            if episode.game == game
            for turn in episode.decisions
            if episode.trained[turn.seat]
        ]
        optimal_flags = [is_optimal for is_optimal in map(is_best, turns) if is_optimal is not None]
        regrets = [value for value in map(regret, turns) if value is not None]
        if turns:
            metrics[f"judged_rate/{game}"] = len(optimal_flags) / len(turns)
        if optimal_flags:
            metrics[f"optimal_rate/{game}"] = sum(optimal_flags) / len(optimal_flags)
            metrics[f"regret/{game}"] = sum(regrets) / len(regrets)
    return metrics


def group_metrics(turns: TurnTable) -> dict[str, float]:
    """Return the group_ metrics; empty if no group has two trajectories.

    Args:
        turns: the batch before selection.
    """
    if not len(turns.reward):
        return {}
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    group_of = groups[starts]
    is_comparable = group_counts(group_of, count) > 1
    if not is_comparable.any():
        return {}
    deviation = group_std(returns, group_of, count, ddof=0)[is_comparable]
    is_equal = deviation <= 1e-9 * max(float(np.abs(returns).max()), 1.0)
    return {"group_deviation": float(deviation.mean()), "group_equal_share": float(is_equal.mean())}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepInputs:
    """The inputs of a step's rollout besides the configuration.

    With ``scale.lag``, inputs are read before the learner has finished earlier steps.
    """

    step: int
    num_learned_steps: int  # number of steps that these weights have learned from
    members: tuple[PlayerRef, ...] = ()
    curriculum: Mapping[str, Any] = field(default_factory=dict)  # the state of the arm book
    payoffs: Payoffs = field(default_factory=Payoffs)
    pinned: Pinned | None = None  # sampling weights; None: the current weights
    only_policy: str = ""  # the only policy that learns in a league; empty: all learn

    @classmethod
    def of(
        cls, engine: Engine, state: RunState, step: int, pinned: Pinned | None = None
    ) -> StepInputs:
        """Return the inputs of a step from the current state.

        Args:
            engine: the engine, which has the members that may play.
            state: current state of the run.
            step: the step.
            pinned: the step's sampling weights.
        """
        return cls(
            step=step,
            num_learned_steps=state.step,
            members=engine.members,
            curriculum=state.json("curriculum"),
            payoffs=state.payoffs,
            pinned=pinned,
            only_policy=state.json(LEAGUE).get("live", ""),
        )


def book_of(config: RunConfig, engine: Engine, inputs: StepInputs) -> ArmBook:
    """Return the curriculum's records at the beginning of a step."""
    return ArmBook(make_arms(engine.environments, config.rollout.starts), inputs.curriculum)


def specs_of(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    inputs: StepInputs,
    *,
    book: ArmBook,
    progress: float,
    refill: int = 0,
) -> list[EpisodeSpec]:
    """Return the specs of a step's episodes, or of a refill's; see ``step_specs``."""
    return step_specs(
        inputs.step,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=methods.matchmaker,
        members=inputs.members,
        root=engine.root,
        progress=progress,
        curriculum=methods.curriculum,
        book=book,
        refill=refill,
        payoffs=inputs.payoffs,
        bots=config.bots,
        seats=engine.seats,
        mixtures=methods.mixtures,
        learners=methods.learners,
        tags=config.league.tags,
        only_policy=inputs.only_policy,
    )


T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class StepEpisodes:
    """The episodes of a step, the selected ones that are trained on, and metrics."""

    episodes: list[Episode] = field(default_factory=list)
    selected: list[Episode] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    counts: RolloutCounts = field(default_factory=RolloutCounts)
    arm_of: dict[int, str] = field(default_factory=dict)  # curriculum arm of each group id
    lag: float = 0  # staleness in steps; in fresh order a mean
    turns: TurnTable | None = None  # turns of all episodes; None after refills
    # for the curriculum, per batch: turns, and the arm of each group
    observed: list[tuple[TurnTable, dict[int, str]]] = field(default_factory=list)


class PlayRequest(NamedTuple):
    """Specs of episodes that a step requests, and judges of replies; see ``Engine.play``."""

    specs: list[EpisodeSpec]
    judges: ReplyJudges | None


def request_plays(
    config: RunConfig, engine: Engine, methods: Methods, inputs: StepInputs
) -> Generator[PlayRequest, Rollout, StepEpisodes]:
    """Request a step's episodes, shape their rewards and select the ones to train on.

    Refills replace dropped episodes if ``rollout.refills`` is above 0. The run's state is read only
    through ``inputs`` and does not change.
    """
    rollout, step = config.rollout, inputs.step
    result = StepEpisodes(lag=step - inputs.num_learned_steps)
    progress = step / config.steps
    book = book_of(config, engine, inputs)
    judges = ReplyJudges.of(
        config,
        [game for game, _ in engine.environments],
        progress,
        oracles=methods.oracles,
        rewards=methods.rewards,
    )
    batch_metrics = []
    for refill in range(rollout.refills + 1):
        specs = specs_of(
            config, engine, methods, inputs, book=book, progress=progress, refill=refill
        )
        plan_requests = play_planned(
            methods.plan, specs, group_size=rollout.group_size, progress=progress
        )
        (episodes, counts), figures = yield from _relay_requests(plan_requests, judges)
        result.counts += counts
        if rollout.playouts:
            playout_requests = _request_playouts(episodes, config, engine, step, refill)
            episodes, playout_figures = yield from _relay_requests(playout_requests, None)
            figures = {**figures, **playout_figures}
        episodes, shaping = _shape_rewards(episodes, config, engine, methods.rewards, progress)
        if not episodes:
            raise RolloutError("No game of this step could be played; the log says why.")
        turns = turn_table(episodes)
        arm_of = {spec.group_id: spec.arm for spec in specs}
        result.arm_of.update(arm_of)
        result.observed.append((turns, arm_of))
        if refill < rollout.refills:  # used by the next refill
            book.observe(turns, arm_of, step)
        stream = engine.root.child("selection").child(step).child(refill)
        selected, kept_share = _select(methods, stream, episodes, turns, progress)
        result.selected += selected
        result.episodes += episodes
        figures = {**figures, **shaping, **group_metrics(turns), "kept_share": kept_share}
        batch_metrics.append((len(episodes), figures))
        if len(result.selected) >= rollout.games_per_step:
            break
    result.selected = _first_groups(result.selected, rollout.games_per_step)
    result.turns = turns if len(batch_metrics) == 1 else None
    result.metrics = (
        {**_mean_metrics(batch_metrics), "refills": float(len(batch_metrics) - 1)}
        if rollout.refills
        else batch_metrics[0][1]
    )
    return result


def play_step(config: RunConfig, engine: Engine, methods: Methods, state: RunState) -> StepEpisodes:
    """Play the episodes of the next step at once; see ``request_plays``.

    Raises:
        ConfigError: steps are played ahead of the learner.
    """
    if config.scale.lag or config.scale.order == FRESH:
        raise ConfigError(
            f"scale.lag={config.scale.lag}, scale.order={config.scale.order}: steps are played "
            "ahead of the learner; pass run.loop.step_source(...) to play_round as source."
        )
    inputs = StepInputs.of(engine, state, state.step)
    requests = request_plays(config, engine, methods, inputs)
    try:
        request = next(requests)
        while True:
            request = requests.send(engine.play(request.specs, request.judges))
    except StopIteration as stop:
        episodes: StepEpisodes = stop.value
        return episodes


class StepSource(Protocol):
    """Returns each step's episodes if steps are played ahead of the learner."""

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the episodes of the next step."""

    def state(self) -> dict[str, Any]:
        """Return the state of unfinished episodes for a checkpoint."""


def shape_episodes(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    episodes: list[Episode],
    *,
    step: int,
    stale_ids: frozenset[int],
) -> StepEpisodes:
    """Return a step's episodes with shaped rewards, and the selected ones.

    Args:
        config: the run's configuration.
        engine: the run's models.
        methods: the run's plug-ins.
        episodes: complete groups.
        step: number of the step.
        stale_ids: ids of episodes that are too stale to train on, in whole groups.
    """
    progress = step / config.steps
    episodes, shaping = _shape_rewards(episodes, config, engine, methods.rewards, progress)
    batch = [episode for episode in episodes if episode.episode_id not in stale_ids]
    turns = turn_table(episodes)
    trained_turns = turns if len(batch) == len(episodes) else turn_table(batch)
    stream = engine.root.child("selection").child(step).child(0)
    batch, kept_share = _select(methods, stream, batch, trained_turns, progress)
    metrics = {**shaping, **group_metrics(trained_turns), "kept_share": kept_share}
    return StepEpisodes(
        episodes=episodes, selected=batch, metrics=metrics, turns=turns, observed=[(turns, {})]
    )


def _select(
    methods: Methods, stream: Stream, episodes: list[Episode], turns: TurnTable, progress: float
) -> tuple[list[Episode], float]:
    mask = methods.selection(turns, stream, progress=progress)
    kept_share = float(mask.mean()) if len(mask) else 1.0
    if mask.all():
        return episodes, kept_share
    kept_ids = set(turns.episode[mask].tolist())
    return [episode for episode in episodes if episode.episode_id in kept_ids], kept_share


def _relay_requests(
    requests: EpisodeRequests[T], judges: ReplyJudges | None
) -> Generator[PlayRequest, Rollout, T]:
    try:
        specs = next(requests)
        while True:
            rollout = yield PlayRequest(specs, judges)
            specs = requests.send(rollout)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _request_playouts(
    episodes: list[Episode], config: RunConfig, engine: Engine, step: int, refill: int
) -> EpisodeRequests[tuple[list[Episode], dict[str, float]]]:
    games = {game.name: game for game, _ in engine.environments}
    stream = engine.root.child("playouts").child(step).child(refill)
    limit = max_turns_at(config.rollout, step / config.steps)
    count = config.rollout.playouts
    credits = [section.credit.bind("credit") for section in config.by_policy.values()]
    needs_estimates = any("playouts" in required_services(credit) for credit in credits)
    return with_playouts(
        episodes,
        games,
        count=count,
        stream=stream,
        max_turns=limit,
        estimate_before=needs_estimates,
    )


def _first_groups(episodes: list[Episode], num_games: int) -> list[Episode]:
    if len(episodes) <= num_games:
        return episodes
    groups = {episode.group_id for episode in episodes[:num_games]}
    return [episode for episode in episodes if episode.group_id in groups]


def _mean_metrics(batch_metrics: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
    names = {name: None for _, metrics in batch_metrics for name in metrics}
    values_by_name = {
        name: [(size, metrics[name]) for size, metrics in batch_metrics if name in metrics]
        for name in names
    }
    return {
        name: sum(size * value for size, value in values) / sum(size for size, _ in values)
        for name, values in values_by_name.items()
    }


def _shape_rewards(
    episodes: list[Episode],
    config: RunConfig,
    engine: Engine,
    rewards: tuple[WeightedReward, ...],
    progress: float,
) -> tuple[list[Episode], dict[str, float]]:
    has_penalty = any(
        game.illegal.penalty and game.illegal.rule != "forfeit" for game, _ in engine.environments
    )
    scales = {section.display_name: section.scale for section in config.environments}
    is_plain = config.outcome_weight == 1.0 and set(scales.values()) == {1.0}
    if is_plain and not rewards and not has_penalty:
        return episodes, {}
    games = {game.name: game for game, _ in engine.environments}
    gaps = {
        name: section.outcome_gap or outcome_gap(game)
        for section, (name, game) in zip(config.environments, games.items(), strict=True)
    }
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


OWNER = "knowledge"  # name of the plug-in's state in the state of a run


def score_with_knowledge(
    engine: Engine, methods: Methods, state: RunState, step_episodes: StepEpisodes, progress: float
) -> tuple[StepEpisodes, Mapping[str, Any]]:
    """Update the knowledge plug-in, and add its scores to this step's candidates.

    Args:
        engine: the engine, which has the run's environments.
        methods: the run's plug-ins.
        state: state of the run before the step.
        step_episodes: the episodes of this step.
        progress: finished share of the run, 0 to 1.

    Returns:
        The scored episodes, and the plug-in's new state by owner.
    """
    if methods.knowledge is None:
        return step_episodes, {}
    request = KnowledgeRequest(
        episodes=step_episodes.episodes,
        environments={game.name: game for game, _ in engine.environments},
        step=state.step,
        stream=engine.root.child(OWNER).child(state.step),
    )
    knowledge: Knowledge = methods.knowledge(request, state.json(OWNER), progress=progress)
    episodes = with_scores(step_episodes.episodes, knowledge.scores)
    scored_episodes = {episode.episode_id: episode for episode in episodes}
    name = methods.knowledge.plugin.name
    figures = {f"{OWNER}/{name}/{key}": value for key, value in knowledge.metrics.items()}
    scored_step = replace(
        step_episodes,
        episodes=episodes,
        selected=[scored_episodes[episode.episode_id] for episode in step_episodes.selected],
        metrics={**step_episodes.metrics, **figures, f"{OWNER}/judged": _judged_share(episodes)},
    )
    return scored_step, {OWNER: knowledge.state}


def _judged_share(episodes: list[Episode]) -> float:
    score_flags = [
        reply.score is not None
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
        for reply in replies(turn)
    ]
    return sum(score_flags) / max(len(score_flags), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """The result of one step: episodes, metrics, times, the next state, and learned batches."""

    episodes: list[Episode]
    metrics: dict[str, float]
    timing: dict[str, float]
    state: RunState
    learned: tuple[LearnedBatch, ...] = ()  # one per policy, if recorded


def play_round(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    state: RunState,
    *,
    recorded: bool = False,
    source: StepSource | None = None,
) -> StepResult:
    """Play the episodes of one step and learn from them.

    Args:
        config: the run's configuration.
        engine: the run's models.
        methods: the run's plug-ins.
        state: ``RunState()`` in the first step, then the previous result's state.
        recorded: whether to compute the entropy of every sampled token for the record, by one
            more forward pass.
        source: returns the episodes of each step; None: the episodes are played now.

    Raises:
        ConfigError: steps are played ahead of the learner, and ``source`` is None.
        RolloutError: no episode could be played.
    """
    times = [time.perf_counter()]
    step, progress = state.step, state.step / config.steps
    book = ArmBook(make_arms(engine.environments, config.rollout.starts), state.json("curriculum"))
    rollout = source.episodes_of(state) if source else play_step(config, engine, methods, state)
    rollout, knowledge_state = score_with_knowledge(engine, methods, state, rollout, progress)
    for table, arm_of in rollout.observed:
        book.observe(table, arm_of, step)
    times.append(time.perf_counter())
    buffer = state.replay
    episodes, replay_metrics = buffer.join(
        methods.replay,
        rollout.selected,
        rollout.arm_of,
        num_episodes=config.rollout.games_per_step,
        step=step,
        stream=engine.root.child("replay").child(step),
        progress=progress,
    )
    all_episodes = rollout.episodes
    is_unchanged = len(episodes) == len(all_episodes) and all(map(is_, episodes, all_episodes))
    turns = rollout.turns if is_unchanged else None
    batches = [
        engine.batch(episodes, progress=progress, policy=name, turns=turns)
        for name in engine.learners
    ]
    credits: list[Credit] = [
        methods.credit[batch.policy](
            batch.turns, state.json(owner_of(batch.policy)), progress=progress
        )
        for batch in batches
    ]
    policy_metrics = list(map(_credit_metrics, batches, credits))
    times.append(time.perf_counter())
    learned_batches, metrics = list[LearnedBatch](), dict[str, float]()
    for batch, credit, values in zip(batches, credits, policy_metrics, strict=True):
        if recorded:
            learned_batches.append(_learned_record(engine, batch, credit))
        if batch.episodes and batch.has_loss(credit):
            values |= engine.learn(batch, credit, step=step, progress=progress)
        if config.scale.lag:
            values = {name: value for name, value in values.items() if name not in LOGPROB_METRICS}
            values |= logprob_metrics(rollout.counts.scored, batch.policy)
        metrics |= {f"{metric_prefix(batch.policy)}{name}": value for name, value in values.items()}
    times.append(time.perf_counter())
    metrics = {**_play_metrics(config, engine, rollout, methods), **replay_metrics, **metrics}
    timing = _timing(times, len(rollout.episodes), sum(batch.pack.num_tokens for batch in batches))
    timing |= engine.timing()
    timing |= {"seconds/oracle": rollout.counts.judging_seconds} if methods.oracles else {}
    next_state = state.after(
        **{
            owner_of(batch.policy): dict(credit.state)
            for batch, credit in zip(batches, credits, strict=True)
        },
        curriculum=book.state,
        replay=buffer,
        **knowledge_state,
        payoffs=state.payoffs.with_episodes(
            rollout.episodes,
            {game.name: teams_of(game) for game, _ in engine.environments},
            decay=config.league.payoff_decay,
            by_policy=bool(config.league.learners),
        ).to_json(),
        **(source.state() if source is not None else {}),
    )
    return StepResult(
        episodes=rollout.episodes,
        metrics=metrics,
        timing=timing,
        state=next_state,
        learned=tuple(learned_batches),
    )


def _play_metrics(
    config: RunConfig, engine: Engine, step_episodes: StepEpisodes, methods: Methods
) -> dict[str, float]:
    return {
        **rollout_metrics(step_episodes.episodes),
        **candidate_metrics(step_episodes.episodes),
        **oracle_metrics(step_episodes.episodes, methods.oracles),
        **environment_metrics(step_episodes.episodes, (game for game, _ in engine.environments)),
        **step_episodes.metrics,
        "retried_games": float(step_episodes.counts.retried),
        "dropped_groups": float(len(step_episodes.counts.dropped_groups)),
        **({"lag": float(step_episodes.lag)} if config.scale.lag else {}),
    }


def metric_prefix(policy: str) -> str:
    """Return the prefix of the metrics of a policy's learning."""
    return "" if policy == MAIN else f"{policy}/"


def owner_of(policy: str) -> str:
    """Return the name of a policy's estimator in the run's state."""
    return "credit" if policy == MAIN else f"credit-{policy}"


def _credit_metrics(batch: Batch, credit: Credit) -> dict[str, float]:
    advantages, trained = batch.advantages(credit), batch.trained(credit)
    if trained is not None:
        advantages = advantages[trained]
    return {
        **batch.metrics,
        **{f"credit/{name}": value for name, value in credit.metrics.items()},
        "advantage_std": float(np.std(advantages)) if len(advantages) else 0.0,
        "distinct_share": len(batch.pack.sequences) / max(len(batch.pack.distinct), 1),
    }


def _learned_record(engine: Engine, batch: Batch, credit: Credit) -> LearnedBatch:
    entropies = engine.entropies(batch) if batch.episodes else np.zeros(0)
    return LearnedBatch(batch=batch.episodes, turns=batch.turns, credit=credit, entropies=entropies)


def _timing(times: list[float], num_games: int, num_tokens: int) -> dict[str, float]:
    total = max(times[-1] - times[0], 1e-9)
    phases = dict(zip(("play", "credit", "update"), np.diff(times).tolist(), strict=True))
    return {
        **{f"seconds/{name}": value for name, value in phases.items()},
        "seconds/round": total,
        "tokens_per_second": num_tokens / total,
        "games_per_second": num_games / total,
    }
