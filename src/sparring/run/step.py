"""One step of the algorithm: seat, play, shape, credit, update; and its figures.

Metrics of plays, over the trained seats unless said otherwise. Of several replies to a prompt,
figures of replies (legal_rate to sampled_entropy) count all, figures of games what was played:
    legal_rate              share of replies that were a legal action, of turns with a list of legal
                            actions; left out where there are none, as any text is legal
    legal_rate/GAME         the same in one game
    unparsable_rate         share of replies that held no action at all
    truncated_rate          share of replies that ran into the token limit
    overlong_rate           share of turns that the model was not asked, as the conversation had
                            outgrown model.context; these turns count in truncated_rate too, and in
                            none of the other figures
    reply_tokens            sampled tokens per turn
    sampled_entropy         mean of -log(probability) of the sampled tokens: estimates the sampler's
                            entropy per token, nats
    memories_per_game       memories that seats were asked to write, per game; they count in none of
                            the figures above. This and the next only where there are any
    memory_tokens           sampled tokens per memory
    turns_per_game          decisions of all seats per game
    forfeit_rate            share of games that ended by an illegal reply
    cut_rate                share of games that were truncated, by rollout.max_turns or by
                            model.context; only where there are any
    return/GAME/ROLE        mean return of the role, in the game's units; games that outgrew
                            model.context are left out
    seat_asymmetry/GAME     largest minus smallest mean return over the roles of a game
    attempt/GAME/NUMBER     of trials, mean payoff of the game in attempt 1, 2, ..., over the seats
                            that had a turn in it, times environments.N.scale; attempts that
                            outgrew model.context are left out
    figure/GAME/NAME        what an environment counts itself, such as understood of code_words, a
                            mean over seats; plays that were forfeited or truncated are left out,
                            and seats of which it says nothing
    candidates/decisions    decisions per game to which there were several replies; this and the
                            next where rollout.candidates.count is above 1
    candidates/equal_share  share of these whose replies were all judged alike
    candidates/unjudged     share of these none of whose replies could be judged
    candidates/score        mean score of all replies that were judged: how good the policy is
    candidates/gain         mean score of what was played, less that: what choosing adds
    candidates/tokens       sampled tokens of the step, all replies counted
    group_deviation         mean over groups (trajectories of one start and role) of the rewards'
                            standard deviation
    group_equal_share       share of the groups whose rewards are all equal; both only where groups
                            have two or more
Metrics of the step:
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

import math
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from sparring.config import RunConfig
from sparring.config.checks import stands_for_others
from sparring.config.plugins.registry import BoundPlugin, bind, required_services
from sparring.config.sections import FRESH, LeagueConfig
from sparring.core.errors import ConfigError, RolloutError
from sparring.core.records import MAIN, Credit, Episode, PlayerRef, Turn, TurnTable
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.logprob_check import SAME
from sparring.engine.logprob_check import metrics as same_numbers
from sparring.engine.protocol import Batch, Engine, Judging, Pinned, rewards_of
from sparring.environments.base import Environment, teams_of
from sparring.league.payoffs import Payoffs
from sparring.league.seating import LeagueLearner, arms, starts, turn_limit
from sparring.methods.credit.base import start_groups, trajectory_returns
from sparring.methods.knowledge.base import Gathered, Knowledge, replies, with_scores
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import configured_oracles, is_best, regret
from sparring.methods.rewards.base import apply_rewards, outcome_gap
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.selection.curricula.base import ArmBook
from sparring.ops.groups import group_counts, group_std
from sparring.play.episode import sampled_tokens
from sparring.play.plans.base import play_planned
from sparring.play.players.mixture import Mixture
from sparring.play.playouts import with_playouts
from sparring.play.replay import figures_of
from sparring.play.rollout import Asking, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec
from sparring.play.store import Learned
from sparring.play.turn_table import turn_table
from sparring.run.state import LEAGUE, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Methods:
    """The plug-ins of a run that the loop calls itself."""

    matchmaker: BoundPlugin
    curriculum: BoundPlugin
    selection: BoundPlugin
    credit: Mapping[str, BoundPlugin]  # by the name of the policy that it trains
    rewards: tuple[WeightedReward, ...] = ()
    replay: BoundPlugin | None = None
    knowledge: BoundPlugin | None = None  # what judges candidates after the plays
    plan: BoundPlugin = field(default_factory=lambda: bind("rollout.plans", "none"))
    keeping: BoundPlugin = field(default_factory=lambda: bind("league.keeping", "spread"))
    schedules: Mapping[str, BoundPlugin] = field(default_factory=dict)  # by the learner's policy
    learners: tuple[LeagueLearner, ...] = ()  # of a league in which several learn
    oracles: Mapping[str, Oracle] = field(default_factory=dict)  # by the game's name
    mixtures: Mapping[str, Mixture] = field(default_factory=dict)  # by the bot's name

    @classmethod
    def of(cls, config: RunConfig, games: Sequence[Environment] = ()) -> Methods:
        """Bind the plug-ins that a configuration names; oracles are made for the run's games."""
        return cls(
            matchmaker=config.matchmaker.bind("league.matchmakers"),
            curriculum=config.curriculum.bind("selection.curricula"),
            selection=config.selection.bind("selection"),
            credit={
                name: own.credit.bind("credit")
                for name, own in config.by_policy.items()
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
                    matchmaker=(own.matchmaker or config.matchmaker).bind("league.matchmakers"),
                    share=own.share,
                )
                for name, own in config.league.learners.items()
            ),
            mixtures={
                name: given.bind("players")()
                for name, given in config.bots.items()
                if stands_for_others(given)
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
    """Return the figures listed above, those of groups left out, of at least one episode."""
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
        of_game = [mean for (name, _), mean in means.items() if name == game]
        metrics[f"seat_asymmetry/{game}"] = max(of_game) - min(of_game)
    return metrics | _attempt_metrics(episodes)


def _attempt_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    trials = {
        one.game
        for one in episodes
        if any(turn.attempt and one.trained[turn.seat] for turn in one.turns)
    }
    paid: defaultdict[tuple[str, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for number, episode in enumerate(episodes):
        turns = episode.turns if episode.game in trials else ()
        lost = {turn.attempt for turn in turns if turn.event == "unsent"}
        for turn in turns:
            if episode.trained[turn.seat] and turn.attempt not in lost:
                own, who = paid[episode.game, turn.attempt], (number, turn.seat)
                own[who] = own.get(who, 0.0) + turn.rewards.get("game", 0.0)
    return {
        f"attempt/{game}/{attempt + 1}": sum(own.values()) / len(own)
        for (game, attempt), own in sorted(paid.items())
    }


def environment_metrics(
    episodes: Sequence[Episode], games: Iterable[Environment]
) -> dict[str, float]:
    """Return what environments count themselves: those that have ``figures``.

    Plays are played again for it, as records do not hold what was hidden.
    """
    metrics: dict[str, float] = {}
    for game in games:
        counted: dict[str, list[float]] = {name: [] for name in game.figures}
        for episode in episodes if counted else ():
            found = figures_of(game, episode) if episode.game == game.name else None
            for name, values in (found or {}).items():
                own = (values[n] for n, mine in enumerate(episode.trained) if mine)
                counted[name] += (value for value in own if not math.isnan(value))
        means = {name: sum(own) / len(own) for name, own in counted.items() if own}
        metrics |= {f"figure/{game.name}/{name}": mean for name, mean in means.items()}
    return metrics


def _reply_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    unparsable = truncated = unsent = tokens = replies = 0
    surprise = 0.0
    listed: defaultdict[str, int] = defaultdict(int)  # turns with a list of legal actions
    legal: defaultdict[str, int] = defaultdict(int)
    for episode in episodes:
        trained = episode.trained
        if episode.has_outgrown_context:
            unsent += sum(turn.event == "unsent" and trained[turn.seat] for turn in episode.turns)
        for turn in all_replies(episode):
            if not trained[turn.seat]:
                continue
            replies += 1
            event, said = turn.event, 0
            if turn.legal_actions:
                listed[episode.game] += 1
                legal[episode.game] += event == "ok"
            unparsable += event == "unparsable"
            for segment in turn.segments:
                if segment.kind == "sampled":
                    said += len(segment.ids)
                    surprise -= sum(segment.logprobs)
            tokens += said
            truncated += turn.truncated
    turns = replies + unsent
    metrics = {
        "unparsable_rate": unparsable / max(replies, 1),
        "truncated_rate": (truncated + unsent) / max(turns, 1),
        "overlong_rate": unsent / max(turns, 1),
        "reply_tokens": tokens / max(replies, 1),
    }
    if listed or not turns:
        metrics = {"legal_rate": sum(legal.values()) / max(sum(listed.values()), 1), **metrics}
    metrics.update({f"legal_rate/{game}": legal[game] / count for game, count in listed.items()})
    return {**metrics, "sampled_entropy": surprise / tokens} if tokens else metrics


def all_replies(episode: Episode) -> Iterator[Turn]:
    """Yield all replies of an episode: what was played, and the others to the same prompts."""
    for turn in episode.decisions:
        yield turn
        yield from turn.candidates


def _memory_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures of the memories that trained seats wrote; none where there are none."""
    written = [
        sampled_tokens(turn)
        for episode in episodes
        for turn in episode.turns
        if turn.event == "memory" and episode.trained[turn.seat]
    ]
    if not written:
        return {}
    count = len(written)
    return {"memories_per_game": count / len(episodes), "memory_tokens": sum(written) / count}


def candidate_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the figures of candidates listed above; none where every prompt had one reply."""
    groups = [
        (turn, [one.score for one in (turn, *turn.candidates) if one.score is not None])
        for episode in episodes
        for turn in episode.turns
        if turn.candidates
    ]
    if not groups:
        return {}
    judged = [(turn.score, scores) for turn, scores in groups if scores]
    every = [score for _, scores in judged for score in scores]
    played = [score for score, _ in judged if score is not None]
    mean = sum(every) / max(len(every), 1)
    tokens = sum(
        sampled_tokens(turn)
        for episode in episodes
        for turn in all_replies(episode)
        if episode.trained[turn.seat]
    )
    return {
        "candidates/decisions": len(groups) / len(episodes),
        "candidates/equal_share": sum(max(own) == min(own) for _, own in judged) / len(groups),
        "candidates/unjudged": 1 - len(judged) / len(groups),
        "candidates/score": mean,
        "candidates/gain": sum(played) / max(len(played), 1) - mean,
        "candidates/tokens": float(tokens),
    }


def oracle_metrics(episodes: Sequence[Episode], games: Iterable[str]) -> dict[str, float]:
    """Return per game with an oracle the share of best replies, the mean regret, and the share of
    turns judged.
    """
    metrics = {}
    for game in games:
        turns = [
            turn
            for episode in episodes
            if episode.game == game
            for turn in episode.decisions
            if episode.trained[turn.seat]
        ]
        best = [right for right in map(is_best, turns) if right is not None]
        lost = [value for value in map(regret, turns) if value is not None]
        if turns:
            metrics[f"judged_rate/{game}"] = len(best) / len(turns)
        if best:
            metrics[f"optimal_rate/{game}"] = sum(best) / len(best)
            metrics[f"regret/{game}"] = sum(lost) / len(lost)
    return metrics


def group_metrics(turns: TurnTable) -> dict[str, float]:
    """Return the figures of groups listed above; none where no group has two trajectories.

    Args:
        turns: the batch before selection, so that groups it leaves out are seen.
    """
    if not len(turns.reward):
        return {}
    returns, starts = trajectory_returns(turns)
    groups, count = start_groups(turns)
    own = groups[starts]
    shared = group_counts(own, count) > 1
    if not shared.any():
        return {}
    deviation = group_std(returns, own, count, ddof=0)[shared]
    equal = deviation <= 1e-9 * max(float(np.abs(returns).max()), 1.0)
    return {"group_deviation": float(deviation.mean()), "group_equal_share": float(equal.mean())}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepInputs:
    """A step as its plays begin: everything that they are a function of, but for the
    configuration.

    With ``scale.lag`` it is taken while earlier steps are still to be learnt from.
    """

    step: int
    learnt: int  # steps that had been learnt from
    members: tuple[PlayerRef, ...] = ()
    curriculum: Mapping[str, Any] = field(default_factory=dict)  # the state of the arm book
    payoffs: Payoffs = field(default_factory=Payoffs)
    pinned: Pinned | None = None  # the weights it is played with; None: those of now
    live: str = ""  # the policy of a league that alone learns; empty: all do

    @classmethod
    def of(
        cls, engine: Engine, state: RunState, step: int, pinned: Pinned | None = None
    ) -> StepInputs:
        """Return a step as it is now.

        Args:
            engine: whose members may be met.
            state: of the run now.
            step: that is played.
            pinned: the weights that it is played with.
        """
        return cls(
            step=step,
            learnt=state.step,
            members=engine.members,
            curriculum=state.json("curriculum"),
            payoffs=state.payoffs,
            pinned=pinned,
            live=state.json(LEAGUE).get("live", ""),
        )


def book_of(config: RunConfig, engine: Engine, inputs: StepInputs) -> ArmBook:
    """Return the curriculum's records as they were when a step was opened."""
    return ArmBook(arms(engine.environments, config.rollout.starts), inputs.curriculum)


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
    """Return the games that a step begins with, or those of a refill; see ``starts``."""
    return starts(
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
        live=inputs.live,
    )


T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class StepEpisodes:
    """The games of a step: all of them, those that are trained on, and figures of both."""

    episodes: list[Episode] = field(default_factory=list)
    kept: list[Episode] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    counts: RolloutCounts = field(default_factory=RolloutCounts)
    arm_of: dict[int, str] = field(default_factory=dict)  # of each group id
    lag: float = 0  # steps that had been learnt from since it was opened; in fresh order a mean
    turns: TurnTable | None = None  # of all games; None where there were refills
    # what the curriculum is to take note of: turns, and the arm of each of their groups
    observed: list[tuple[TurnTable, dict[int, str]]] = field(default_factory=list)


class PlayRequest(NamedTuple):
    """Games that a step wants played, and what judges them; see ``Engine.play``."""

    specs: list[EpisodeSpec]
    judging: Judging | None


def request_plays(
    config: RunConfig, engine: Engine, methods: Methods, inputs: StepInputs
) -> Generator[PlayRequest, Rollout, StepEpisodes]:
    """Ask for a step's games, shape their rewards and select what is trained on.

    More are asked for in place of what is dropped, if the configuration says so. Nothing but what
    ``inputs`` holds is read of the run's state, and nothing is changed.
    """
    rollout, step = config.rollout, inputs.step
    played = StepEpisodes(lag=step - inputs.learnt)
    progress = step / config.steps
    book = book_of(config, engine, inputs)
    judging = Judging.of(
        config,
        [game for game, _ in engine.environments],
        progress,
        oracles=methods.oracles,
        rewards=methods.rewards,
    )
    tables = []
    for refill in range(rollout.refills + 1):
        specs = specs_of(
            config, engine, methods, inputs, book=book, progress=progress, refill=refill
        )
        planned = play_planned(
            methods.plan, specs, group_size=rollout.group_size, progress=progress
        )
        (episodes, counts), figures = yield from _requesting(planned, judging)
        played.counts += counts
        if rollout.playouts:
            valued = _playouts(episodes, config, engine, step, refill)
            episodes, more = yield from _requesting(valued, None)
            figures = {**figures, **more}
        episodes, shaping = _shape(episodes, config, engine, methods.rewards, progress)
        if not episodes:
            raise RolloutError("No game of this step could be played; the log says why.")
        turns = turn_table(episodes)
        arm_of = {spec.group_id: spec.arm for spec in specs}
        played.arm_of.update(arm_of)
        played.observed.append((turns, arm_of))
        if refill < rollout.refills:  # the next one looks at it
            book.observe(turns, arm_of, step)
        stream = engine.root.child("selection").child(step).child(refill)
        kept, share = _selected(methods, stream, episodes, turns, progress)
        played.kept += kept
        played.episodes += episodes
        figures = {**figures, **shaping, **group_metrics(turns), "kept_share": share}
        tables.append((len(episodes), figures))
        if len(played.kept) >= rollout.games_per_step:
            break
    played.kept = _whole_groups(played.kept, rollout.games_per_step)
    played.turns = turns if len(tables) == 1 else None
    played.metrics = (
        {**_mean_metrics(tables), "refills": float(len(tables) - 1)}
        if rollout.refills
        else tables[0][1]
    )
    return played


def play_step(config: RunConfig, engine: Engine, methods: Methods, state: RunState) -> StepEpisodes:
    """Play the games of the step that comes next at once; see ``request_plays``.

    Raises:
        ConfigError: steps are to be played ahead of the learner.
    """
    if config.scale.lag or config.scale.order == FRESH:
        raise ConfigError(
            f"scale.lag={config.scale.lag}, scale.order={config.scale.order}: one source plays the "
            "steps of a run ahead; give play_round that of run.loop.step_source."
        )
    inputs = StepInputs.of(engine, state, state.step)
    requests = request_plays(config, engine, methods, inputs)
    try:
        request = next(requests)
        while True:
            request = requests.send(engine.play(request.specs, request.judging))
    except StopIteration as done:
        episodes: StepEpisodes = done.value
        return episodes


class StepSource(Protocol):
    """Gives the steps of a run their episodes where these are played ahead of the learner."""

    def episodes_of(self, state: RunState) -> StepEpisodes:
        """Return the episodes of the step that comes next."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of episodes that are being played, by owner."""


def shaped(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    episodes: list[Episode],
    *,
    step: int,
    withheld: frozenset[int],
) -> StepEpisodes:
    """Return a step's plays that have come, with their rewards, and those that are trained on.

    Args:
        config: of the run.
        engine: its models.
        methods: its plug-ins.
        episodes: whole groups.
        step: its number.
        withheld: ids of the plays that nothing learns from, whole groups too.
    """
    progress = step / config.steps
    episodes, shaping = _shape(episodes, config, engine, methods.rewards, progress)
    kept = [episode for episode in episodes if episode.episode_id not in withheld]
    turns = turn_table(episodes)
    own = turns if len(kept) == len(episodes) else turn_table(kept)
    stream = engine.root.child("selection").child(step).child(0)
    kept, share = _selected(methods, stream, kept, own, progress)
    metrics = {**shaping, **group_metrics(own), "kept_share": share}
    return StepEpisodes(
        episodes=episodes, kept=kept, metrics=metrics, turns=turns, observed=[(turns, {})]
    )


def _selected(
    methods: Methods, stream: Stream, episodes: list[Episode], turns: TurnTable, progress: float
) -> tuple[list[Episode], float]:
    """Return the episodes that are trained on, and the share of turns that are."""
    mask = methods.selection(turns, stream, progress=progress)
    share = float(mask.mean()) if len(mask) else 1.0
    if mask.all():
        return episodes, share
    alive = set(turns.episode[mask].tolist())
    return [episode for episode in episodes if episode.episode_id in alive], share


def _requesting(asking: Asking[T], judging: Judging | None) -> Generator[PlayRequest, Rollout, T]:
    try:
        specs = next(asking)
        while True:
            rollout = yield PlayRequest(specs, judging)
            specs = asking.send(rollout)
    except StopIteration as done:
        result: T = done.value
        return result


def _playouts(
    episodes: list[Episode], config: RunConfig, engine: Engine, step: int, refill: int
) -> Asking[tuple[list[Episode], dict[str, float]]]:
    """Ask for games that go on after the turns of these; return them with values of their turns,
    and figures of it.
    """
    games = {game.name: game for game, _ in engine.environments}
    stream = engine.root.child("playouts").child(step).child(refill)
    limit = turn_limit(config.rollout, step / config.steps)
    count = config.rollout.playouts
    credits = [own.credit.bind("credit") for own in config.by_policy.values()]
    before = any("playouts" in required_services(credit) for credit in credits)
    return with_playouts(
        episodes, games, count=count, stream=stream, max_turns=limit, before=before
    )


def _whole_groups(episodes: list[Episode], wanted: int) -> list[Episode]:
    if len(episodes) <= wanted:
        return episodes
    groups = {episode.group_id for episode in episodes[:wanted]}
    return [episode for episode in episodes if episode.group_id in groups]


def _mean_metrics(parts: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """Return the means of metrics over parts of so many games, of those that have them."""
    names = {name: None for _, metrics in parts for name in metrics}
    own = {
        name: [(games, metrics[name]) for games, metrics in parts if name in metrics]
        for name in names
    }
    return {
        name: sum(games * value for games, value in found) / sum(games for games, _ in found)
        for name, found in own.items()
    }


def _shape(
    episodes: list[Episode],
    config: RunConfig,
    engine: Engine,
    rewards: tuple[WeightedReward, ...],
    progress: float,
) -> tuple[list[Episode], dict[str, float]]:
    fined = any(
        game.illegal.penalty and game.illegal.rule != "forfeit" for game, _ in engine.environments
    )
    scales = {section.known_as: section.scale for section in config.environments}
    if not rewards and not fined and config.outcome_weight == 1.0 and set(scales.values()) == {1.0}:
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


OWNER = "knowledge"  # under which the run's state keeps it


def update_knowledge(
    engine: Engine, methods: Methods, state: RunState, played: StepEpisodes, progress: float
) -> tuple[StepEpisodes, Mapping[str, Any]]:
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
class StepResult:
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
    source: StepSource | None = None,
) -> StepResult:
    """Play the games of one step and learn from them.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
        state: ``RunState()`` in the first step, and then what the round before gave.
        recorded: compute the entropy of every sampled token, at the price of one more forward pass.
        source: gives the episodes, the same one in every step; None: they are played now.

    Raises:
        ConfigError: the steps are played ahead, and there is no source.
        RolloutError: no game could be played.
    """
    clock = [time.perf_counter()]
    step, progress = state.step, state.step / config.steps
    book = ArmBook(arms(engine.environments, config.rollout.starts), state.json("curriculum"))
    played = source.episodes_of(state) if source else play_step(config, engine, methods, state)
    played, learnt = update_knowledge(engine, methods, state, played, progress)
    for turns_of, arm_of in played.observed:
        book.observe(turns_of, arm_of, step)
    clock.append(time.perf_counter())
    buffer = state.replay
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
            {game.name: teams_of(game) for game, _ in engine.environments},
            decay=config.league.payoff_decay,
            apart=bool(config.league.learners),
        ).to_json(),
        **(source.state() if source is not None else {}),
    )
    return StepResult(
        episodes=played.episodes,
        metrics=metrics,
        timing=timing,
        state=after,
        learned=tuple(learned),
    )


def _of_plays(
    config: RunConfig, engine: Engine, played: StepEpisodes, methods: Methods
) -> dict[str, float]:
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
