"""The steps that are being played, from their first specs to their table of turns.

With ``scale.lag`` step s is opened as soon as step s - lag - 1 has been learnt from, and is played
with the weights, the league, the curriculum and the payoff book of that moment. So what is played
is a function of configuration and seed, however long players and learner take. Of a step that is
open a checkpoint holds this moment and no plays: a run that goes on plays them again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sparring.config import RunConfig
from sparring.config.plugins.registry import asks
from sparring.core.errors import CheckpointError, ConfigError, RolloutError
from sparring.core.records import Episode, TurnTable
from sparring.core.refs import PlayerRef, refs
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.engine.protocol import Engine, Judging
from sparring.league.payoffs import Payoffs
from sparring.league.seating import arms, starts, turn_limit
from sparring.methods.rewards.base import apply_rewards, outcome_gap
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.selection.curricula.base import ArmBook
from sparring.play.plans.base import play_planned
from sparring.play.playouts import with_playouts
from sparring.play.rollout import Asking, Begun, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import turn_table
from sparring.run.measures import group_metrics
from sparring.run.methods import Methods
from sparring.run.state import LEAGUE, RunState

if TYPE_CHECKING:
    from sparring.engine.workers.published_weights import Pinned


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A step as its plays begin: everything that they are a function of, but for the
    configuration.

    With ``scale.lag`` it is opened while earlier steps are still to be learnt from.
    """

    step: int
    learnt: int  # steps that had been learnt from
    members: tuple[PlayerRef, ...] = ()
    curriculum: Mapping[str, Any] = field(default_factory=dict)  # the state of the arm book
    payoffs: Payoffs = field(default_factory=Payoffs)
    pinned: Pinned | None = None  # the weights it is played with; None: those of now
    live: str = ""  # the policy of a league that alone learns; empty: all do

    @classmethod
    def of(cls, engine: Engine, state: RunState, step: int, pinned: Pinned | None = None) -> Opened:
        """Return a step as it is opened now.

        Args:
            engine: whose members may be met.
            state: of the run now.
            step: that is opened.
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


def book_of(config: RunConfig, engine: Engine, opened: Opened) -> ArmBook:
    """Return the curriculum's records as they were when a step was opened."""
    return ArmBook(arms(engine.environments, config.rollout.starts), opened.curriculum)


def specs_of(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    opened: Opened,
    *,
    book: ArmBook,
    progress: float,
    refill: int = 0,
) -> list[EpisodeSpec]:
    """Return the games that a step begins with, or those of a refill; see ``starts``."""
    return starts(
        opened.step,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=methods.matchmaker,
        members=opened.members,
        root=engine.root,
        progress=progress,
        curriculum=methods.curriculum,
        book=book,
        refill=refill,
        payoffs=opened.payoffs,
        bots=config.bots,
        seats=engine.seats,
        mixtures=methods.mixtures,
        learners=methods.learners,
        tags=config.league.tags,
        live=opened.live,
    )


T = TypeVar("T")


@dataclass(kw_only=True, slots=True)
class Played:
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


class Wanted(NamedTuple):
    """Games that a step wants played, and what judges them; see ``Engine.play``."""

    specs: list[EpisodeSpec]
    judging: Judging | None


def play_step(
    config: RunConfig, engine: Engine, methods: Methods, opened: Opened
) -> Generator[Wanted, Rollout, Played]:
    """Ask for a step's games, shape their rewards and select what is trained on.

    More are asked for in place of what is dropped, if the configuration says so. Nothing but what
    ``opened`` holds is read of the run's state, and nothing is changed.
    """
    rollout, step = config.rollout, opened.step
    played = Played(lag=step - opened.learnt)
    progress = step / config.steps
    book = book_of(config, engine, opened)
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
            config, engine, methods, opened, book=book, progress=progress, refill=refill
        )
        planned = play_planned(
            methods.plan, specs, group_size=rollout.group_size, progress=progress
        )
        (episodes, counts), figures = yield from _wanting(planned, judging)
        played.counts += counts
        if rollout.playouts:
            valued = _playouts(episodes, config, engine, step, refill)
            episodes, more = yield from _wanting(valued, None)
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
        figures = {
            **figures,
            **shaping,
            **group_metrics(turns),
            "kept_share": share,
        }
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


def shaped(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    episodes: list[Episode],
    *,
    step: int,
    withheld: frozenset[int],
) -> Played:
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
    return Played(
        episodes=episodes, kept=kept, metrics=metrics, turns=turns, observed=[(turns, {})]
    )


def _selected(
    methods: Methods, stream: Stream, episodes: list[Episode], turns: TurnTable, progress: float
) -> tuple[list[Episode], float]:
    """Return the episodes that are trained on, and the share of turns that are.

    Args:
        methods: the run's plug-ins.
        stream: what selection draws from.
        episodes: to choose among.
        turns: of these.
        progress: share of the run that is done.
    """
    mask = methods.selection(turns, stream, progress=progress)
    share = float(mask.mean()) if len(mask) else 1.0
    if mask.all():
        return episodes, share
    alive = set(turns.episode[mask].tolist())
    return [episode for episode in episodes if episode.episode_id in alive], share


def _wanting(asking: Asking[T], judging: Judging | None) -> Generator[Wanted, Rollout, T]:
    """Say with what asks for games what judges them."""
    try:
        specs = next(asking)
        while True:
            rollout = yield Wanted(specs, judging)
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
    before = any("playouts" in asks(credit) for credit in credits)
    return with_playouts(
        episodes, games, count=count, stream=stream, max_turns=limit, before=before
    )


def _whole_groups(episodes: list[Episode], wanted: int) -> list[Episode]:
    """Return the first episodes, at least as many as wanted, no group of them cut."""
    if len(episodes) <= wanted:
        return episodes
    groups = {episode.group_id for episode in episodes[:wanted]}
    return [episode for episode in episodes if episode.group_id in groups]


def _mean_metrics(parts: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """Return the means of metrics over parts of so many games.

    A part that lacks one does not count for it.
    """
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
    """Return the episodes with the run's rewards added, its penalties for illegal replies bounded,
    and the metrics of it.
    """
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


OPEN = "open"  # the owner in a run's state of the steps that are open


class Ahead:
    """Opens steps, and gives their plays.

    Args:
        config: the run's configuration.
        engine: its models.
        methods: its plug-ins.
    """

    def __init__(self, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self._parts = config, engine, methods
        self._phases: dict[int, _Phase] = {}

    def played(self, state: RunState) -> Played:
        """Return the plays of the step that comes next.

        Further steps are opened first, as far as ``scale.lag`` says.

        Args:
            state: the run's state now.

        Raises:
            ConfigError: there is a lag, and nothing keeps older weights.
            CheckpointError: what the state says of open steps cannot be read.
            RolloutError: no game could be played.
        """
        config, engine, _ = self._parts
        recorded = state.json(OPEN)
        for step in range(state.step, min(state.step + config.scale.lag + 1, config.steps)):
            if step not in self._phases:
                opened = _restored(engine, step, recorded.get(str(step))) or self._opened(
                    step, state
                )
                self._phases[step] = _Phase(opened, *self._parts)
        phase = self._phases.pop(state.step, None)
        if phase is None:  # beyond the configuration's last step
            phase = _Phase(self._opened(state.step, state), *self._parts)
        played = phase.result()
        if phase.opened.pinned is not None:
            engine.release(phase.opened.pinned)
        for other in self._phases.values():
            other.go_on()
        return played

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of the steps that are open, by owner."""
        config, *_ = self._parts
        if not config.scale.lag:
            return {}
        return {OPEN: {str(step): _record(one.opened) for step, one in self._phases.items()}}

    def _opened(self, step: int, state: RunState) -> Opened:
        """Return a step as it is opened now."""
        config, engine, _ = self._parts
        pinned = engine.pin() if config.scale.lag else None
        if config.scale.lag and pinned is None:
            raise ConfigError(
                f"scale.lag={config.scale.lag}: nothing keeps older weights here; train with "
                "`sparring train` or sparring.train, or write scale.lag: 0."
            )
        return Opened.of(engine, state, step, pinned)


class _Phase:
    """A step that is open: what asks for its games, and what waits for those it has asked for."""

    def __init__(self, opened: Opened, config: RunConfig, engine: Engine, methods: Methods) -> None:
        self.opened, self._engine = opened, engine
        self._asking = play_step(config, engine, methods, opened)
        self._played: Played | None = None
        self._waiting: Begun | None = None
        self._begin(None)

    def _begin(self, rollout: Rollout | None) -> None:
        """Give what asks the games that it has asked for; have the next ones played."""
        try:
            wanted = next(self._asking) if rollout is None else self._asking.send(rollout)
        except StopIteration as done:
            self._played, self._waiting = done.value, None
        else:
            self._waiting = self._engine.begin(wanted.specs, wanted.judging, self.opened.pinned)

    def go_on(self) -> None:
        """Ask for more games, if those that were asked for are there. Nothing is waited for."""
        while self._waiting is not None and self._waiting.there():
            self._begin(self._waiting.result())

    def result(self) -> Played:
        """Return the plays of the step, as soon as all are there."""
        while self._waiting is not None:
            self._begin(self._waiting.result())
        assert self._played is not None, "it asks for nothing more"
        return self._played


def _record(opened: Opened) -> dict[str, Any]:
    """Return a step that is open as values of JSON."""
    return {
        "learnt": opened.learnt,
        "members": [str(member) for member in opened.members],
        "curriculum": opened.curriculum,
        "payoffs": opened.payoffs.to_json(),
        "weights": [list(key) for key in opened.pinned or ()],
        **({"live": opened.live} if opened.live else {}),
    }


def _restored(engine: Engine, step: int, record: Mapping[str, Any] | None) -> Opened | None:
    """Return a step that was open when a checkpoint was saved; None where it was not.

    Raises:
        CheckpointError: the record, or the weights that it names, cannot be read.
    """
    if record is None:
        return None
    try:
        return Opened(
            step=step,
            learnt=int(record["learnt"]),
            members=refs(record["members"]),
            curriculum=record["curriculum"],
            payoffs=Payoffs.from_json(record["payoffs"]),
            pinned=engine.pin(tuple((name, version) for name, version in record["weights"])),
            live=str(record.get("live", "")),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"What the checkpoint says of step {step}, which was being played, cannot be read "
            f"({error!r}). Take an earlier one, or start anew with --overwrite."
        ) from error
