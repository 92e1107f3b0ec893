"""The episodes of a step: environments, deals, players in the seats, and trained seats."""

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
from sparring.league.matchmakers.base import MatchRequest, Seating, draw_member
from sparring.league.payoffs import Payoffs
from sparring.methods.selection.curricula.base import Arm, ArmBook
from sparring.play.players.mixture import Mixture
from sparring.play.spec import EpisodeSpec

ROTATION = (5**0.5 - 1) / 2  # turn of the circle of ``learner_of_state`` per step


@dataclass(frozen=True, kw_only=True, slots=True)
class LeagueLearner:
    """A policy that learns in a league.

    Args:
        policy: the policy's name.
        matchmaker: fills the seats of its initial states.
        share: share of the initial states, relative to the other learners' shares.
    """

    policy: str
    matchmaker: BoundPlugin
    share: float = 1.0

    @property
    def player(self) -> PlayerRef:
        """The learner as a player."""
        return LEARNER.for_policy(self.policy)


def learner_of_state(
    learners: Sequence[LeagueLearner], step: int, group: int, num_groups: int, only_policy: str = ""
) -> LeagueLearner:
    """Return the learner that is trained from an initial state.

    The states of a step lie on a circle that is divided by the shares and rotates at each step:

        position = (group + 1/2) / num_groups + step * (sqrt(5) - 1) / 2   modulo 1

    So each learner has its share of every step, up to rounding.

    Args:
        learners: the league's learners.
        step: number of steps done.
        group: number of the state in its step.
        num_groups: number of states of the step.
        only_policy: the only policy that learns now; empty: all policies learn.
    """
    for learner in learners:
        if learner.policy == only_policy:
            return learner
    position = ((group + 0.5) / num_groups + step * ROTATION) % 1.0
    return draw_member(learners, [learner.share for learner in learners], position)


def make_arms(games: Sequence[tuple[Environment, float]], starts: int) -> tuple[Arm, ...]:
    """Return the arms of a curriculum: the trained games, each with its fixed initial states."""
    pairs = [(game.name, weight) for game, weight in games if weight]
    state_numbers = range(starts) if starts else (None,)
    return tuple(Arm(name, start, weight) for name, weight in pairs for start in state_numbers)


def max_turns_at(rollout: RolloutConfig, progress: float) -> int | None:
    """Return the number of turns of all seats after which an episode is truncated; None: never."""
    return None if rollout.max_turns is None else max(1, round(parse(rollout.max_turns)(progress)))


def step_specs(
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
    only_policy: str = "",
) -> list[EpisodeSpec]:
    """Return the specs of the episodes of one step.

    Args:
        step: number of the step; with ``root`` and the books it determines every draw.
        games: the environments and their weights; environments of weight 0 are held out.
        rollout: the number of episodes, and the size of groups.
        matchmaker: fills the seats of each initial state.
        members: snapshots that may be opponents.
        root: the run's root stream.
        progress: finished share of the run, for schedules of the plug-ins.
        curriculum: chooses the arm of each group; None: arms are drawn by their weights.
        book: the curriculum's records; None: no records.
        refill: number of the refill of this step; 0: the first batch.
        payoffs: the payoff book; None: an empty book.
        bots: names of the run's bots.
        seats: returns the policy of each seat, and whether it is trained; None: ``main``, trained.
        mixtures: the bots that are mixtures, by name; each episode draws a player from them.
        learners: the league's learners; (): one learner, or one per role.
        tags: tag of each learner, by its name.
        only_policy: the only learner that learns now; empty: all learners learn.

    Returns:
        ``games_per_step`` specs. The episodes of a group share environment, deal and seating and
        differ in their stream. Groups of one step with the same fixed initial state are one group.
    """
    stream = root.child("rollout").child(step)
    stream = stream.child("refill").child(refill) if refill else stream
    num_groups = rollout.games_per_step // rollout.group_size
    game_of_name = {game.name: game for game, _ in games}
    book = book or ArmBook(make_arms(games, rollout.starts))
    bound_curriculum = curriculum or bind("selection.curricula", "by_weight")
    arm_numbers = bound_curriculum(book.request(num_groups, step, stream), progress=progress)
    max_turns = max_turns_at(rollout, progress)
    # group id and seating of each arm with a fixed initial state
    seating_of_arm: dict[str, tuple[int, Seating]] = {}
    shared_fields: dict[str, Any] = {
        "members": refs(members),
        "payoffs": payoffs or Payoffs(),
        "bots": tuple(bots),
        "step": step,
        "tags": dict(tags or {}) if learners else {},
    }
    request_makers = {
        game.name: _request_maker(game, seats(game) if seats is not None else (), **shared_fields)
        for game, weight in games
        if weight
    }
    specs, default_learner = [], LeagueLearner(policy=MAIN, matchmaker=matchmaker)
    for group, arm in enumerate(book.arms[number] for number in arm_numbers.tolist()):
        group_stream, game = stream.child(group), game_of_name[arm.game]
        state_number = (step * (rollout.refills + 1) + refill) * num_groups + group
        group_id, seating = seating_of_arm.get(arm.name, (state_number, None))
        if seating is None:
            learner = default_learner
            if learners:
                learner = learner_of_state(learners, step, group, num_groups, only_policy)
            request = request_makers[arm.game](
                number=state_number, stream=group_stream.child("seats"), learner=learner.player
            )
            seating = learner.matchmaker(request, progress=progress)
        deal, mixtures_by_seat = group_stream.child("deal"), _find_mixtures(seating, mixtures)
        if arm.start is not None:
            seating_of_arm[arm.name] = group_id, seating
            deal = root.child("starts").child(arm.game).child(arm.start)
        for index_in_group in range(rollout.group_size):
            episode_stream = group_stream.child(index_in_group)
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=state_number * rollout.group_size + index_in_group,
                    group_id=group_id,
                    deal=deal,
                    stream=episode_stream,
                    seats=_draw_players(
                        seating, mixtures_by_seat, game, episode_stream, shared_fields["members"]
                    ),
                    trained=seating.trained,
                    max_turns=max_turns,
                    arm=arm.name,
                )
            )
    return specs


def _find_mixtures(
    seating: Seating, mixtures: Mapping[str, Mixture] | None
) -> Mapping[int, Mixture]:
    mixtures_by_seat: dict[int, Mixture] = {}
    for seat, player in enumerate(seating.seats):
        if isinstance(player, Mixture):
            mixtures_by_seat[seat] = player
        elif mixtures and isinstance(player, PlayerRef) and player.kind == "bot":
            mixtures_by_seat.update(
                {seat: mixtures[player.name]} if player.name in mixtures else {}
            )
    return mixtures_by_seat


def _draw_players(
    seating: Seating,
    mixtures_by_seat: Mapping[int, Mixture],
    game: Environment,
    stream: Stream,
    members: Sequence[PlayerRef],
) -> Sequence[Any]:
    if not mixtures_by_seat:
        return seating.seats
    first_seat_of = first_seats(teams_of(game))
    return tuple(
        mixtures_by_seat[seat]
        .mixture_of_seat(game, seat)
        .draw(stream, first_seat_of[seat], members)
        if seat in mixtures_by_seat
        else player
        for seat, player in enumerate(seating.players)
    )


def _request_maker(
    game: Environment, policies: Sequence[tuple[str, bool]], **shared_fields: Any
) -> Callable[..., MatchRequest]:
    return partial(
        MatchRequest,
        environment=spec_of(game) or EnvironmentSpec(name=game.name),
        roles=tuple(game.roles),
        teams=teams_of(game),
        policies=tuple(name for name, _ in policies),
        learns=tuple(learns for _, learns in policies),
        **shared_fields,
    )
