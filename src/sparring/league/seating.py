"""From a step's number to the games to be played: which game and deal, who sits, who learns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparring.config import RolloutConfig
from sparring.config.plugins.registry import BoundPlugin, bind
from sparring.core.records import LEARNER, MAIN, EnvironmentSpec, PlayerRef, refs
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import Environment, first_seats, spec_of, teams_of
from sparring.league.matchmakers.base import MatchRequest, Seating, drawn
from sparring.league.payoffs import Payoffs
from sparring.methods.selection.curricula.base import Arm, ArmBook
from sparring.play.players.mixture import Mixture
from sparring.play.spec import EpisodeSpec

TURN = (5**0.5 - 1) / 2  # of a circle, from one step to the next: no learner is left out for long


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueLearner:
    """A policy that learns in a league.

    Args:
        policy: its name.
        matchmaker: fills the seats of the states from which it learns.
        share: of the initial states, relative to the others'.
    """

    policy: str
    matchmaker: BoundPlugin
    share: float = 1.0

    @property
    def player(self) -> PlayerRef:
        """It, as a player."""
        return LEARNER.of(self.policy)


def asked(
    learners: Sequence[LeagueLearner], step: int, group: int, groups: int, live: str = ""
) -> LeagueLearner:
    """Return who learns from an initial state.

    The states of a step are a circle, cut by the shares, which turns from step to step:

        position = (group + 1/2) / groups + step * (sqrt(5) - 1) / 2   modulo 1

    So each step has of every learner its share of states, to the next whole number.

    Args:
        learners: of the league.
        step: steps done.
        group: number of the state in its step.
        groups: how many the step has.
        live: the policy that alone learns now; empty: all do.
    """
    for one in learners:
        if one.policy == live:
            return one
    position = ((group + 0.5) / groups + step * TURN) % 1.0
    return drawn(learners, [one.share for one in learners], position)


def arms(games: Sequence[tuple[Environment, float]], starts: int) -> tuple[Arm, ...]:
    """Return what a curriculum chooses from: the trained games, each with its fixed starts."""
    played = [(game.name, weight) for game, weight in games if weight]
    numbers = range(starts) if starts else (None,)
    return tuple(Arm(name, start, weight) for name, weight in played for start in numbers)


def turn_limit(rollout: RolloutConfig, progress: float) -> int | None:
    """Return after how many turns of all seats a game is cut now; None: never."""
    return None if rollout.max_turns is None else max(1, round(parse(rollout.max_turns)(progress)))


def starts(
    step: int,
    *,
    games: Sequence[tuple[Environment, float]],
    rollout: RolloutConfig,
    matchmaker: BoundPlugin,
    members: Sequence[PlayerRef],
    root: Stream,
    progress: float,
    curriculum: BoundPlugin | None = None,
    book: ArmBook | None = None,
    refill: int = 0,
    payoffs: Payoffs | None = None,
    bots: Iterable[str] = (),
    seats: Callable[[Environment], Sequence[tuple[str, bool]]] | None = None,
    mixtures: Mapping[str, Mixture] | None = None,
    learners: Sequence[LeagueLearner] = (),
    tags: Mapping[str, str] | None = None,
    live: str = "",
) -> list[EpisodeSpec]:
    """Return the games of one step.

    Args:
        step: the step's number; with ``root`` and the records it determines every draw.
        games: the games and their weights; those of weight 0 are held out.
        rollout: how many games, in groups of what size.
        matchmaker: fills the seats of each start.
        members: snapshots that may be met.
        root: the run's root stream.
        progress: share of the run that is done, for schedules of the plug-ins.
        curriculum: chooses each group's arm; by weight if None.
        book: the records it looks at; empty if None.
        refill: 0, or the number of the refill of this step.
        payoffs: the payoff book that the matchmaker looks at; empty if None.
        bots: names of the bots that the run has options of.
        seats: gives the policy of each seat, and whether it is trained; None: ``main``, and it is.
        mixtures: those of the bots that stand for several players, of whom each play draws one.
        learners: who learns in the league, each with a matchmaker of its own; none: one learner,
            or one per role.
        tags: tag of each of them, by its name.
        live: which of them alone learns now; empty: all do.

    Returns:
        ``games_per_step`` specs. The members of a group share game, deal and seating and differ in
        their own stream. Groups of one step that have the same fixed start are one group.
    """
    stream = root.child("rollout").child(step)
    stream = stream.child("refill").child(refill) if refill else stream
    groups, by_name = (
        rollout.games_per_step // rollout.group_size,
        {game.name: game for game, _ in games},
    )
    book = book or ArmBook(arms(games, rollout.starts))
    choose = curriculum or bind("selection.curricula", "by_weight")
    chosen = choose(book.request(groups, step, stream), progress=progress)
    limit = turn_limit(rollout, progress)
    first: dict[str, tuple[int, Seating]] = {}  # of fixed starts, by the arm's name
    common: dict[str, Any] = {
        "members": refs(members),
        "payoffs": payoffs or Payoffs(),
        "bots": tuple(bots),
        "step": step,
        "tags": dict(tags or {}) if learners else {},
    }
    requests = {
        game.name: _request(game, seats(game) if seats is not None else (), **common)
        for game, weight in games
        if weight
    }
    specs, alone = [], LeagueLearner(policy=MAIN, matchmaker=matchmaker)
    for group, arm in enumerate(book.arms[number] for number in chosen.tolist()):
        own, game = stream.child(group), by_name[arm.game]
        number = (step * (rollout.refills + 1) + refill) * groups + group
        shared, seating = first.get(arm.name, (number, None))
        if seating is None:
            who = asked(learners, step, group, groups, live) if learners else alone
            request = requests[arm.game](
                number=number, stream=own.child("seats"), learner=who.player
            )
            seating = who.matchmaker(request, progress=progress)
        deal, several = own.child("deal"), _several(seating, mixtures)
        if arm.start is not None:
            first[arm.name] = shared, seating
            deal = root.child("starts").child(arm.game).child(arm.start)
        for member in range(rollout.group_size):
            play = own.child(member)
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=number * rollout.group_size + member,
                    group_id=shared,
                    deal=deal,
                    stream=play,
                    seats=_drawn(seating, several, game, play, common["members"]),
                    trained=seating.trained,
                    max_turns=limit,
                    arm=arm.name,
                )
            )
    return specs


def _several(seating: Seating, mixtures: Mapping[str, Mixture] | None) -> Mapping[int, Mixture]:
    found: dict[int, Mixture] = {}
    for seat, player in enumerate(seating.seats):
        if isinstance(player, Mixture):
            found[seat] = player
        elif mixtures and isinstance(player, PlayerRef) and player.kind == "bot":
            found.update({seat: mixtures[player.name]} if player.name in mixtures else {})
    return found


def _drawn(
    seating: Seating,
    several: Mapping[int, Mixture],
    game: Environment,
    stream: Stream,
    members: Sequence[PlayerRef],
) -> Sequence[Any]:
    if not several:
        return seating.seats
    first = first_seats(teams_of(game))
    return tuple(
        several[seat].at(game, seat).drawn(stream, first[seat], members)
        if seat in several
        else player
        for seat, player in enumerate(seating.players)
    )


def _request(
    game: Environment, policies: Sequence[tuple[str, bool]], **common: Any
) -> Callable[..., MatchRequest]:
    """Return what makes the requests of a game; the number and the stream are still wanted."""
    return partial(
        MatchRequest,
        environment=spec_of(game) or EnvironmentSpec(name=game.name),
        roles=tuple(game.roles),
        teams=teams_of(game),
        policies=tuple(name for name, _ in policies),
        learns=tuple(learns for _, learns in policies),
        **common,
    )
