"""Groups played by a plan, for tests."""

from sparring.config.plugins import registry
from sparring.core.records import Episode, Segment, Turn
from sparring.play.plans.base import FRESH, PlannedEpisode, play_planned
from sparring.play.players.base import TextAgent
from sparring.play.rollout import rollout, run_requests
from tests.play.plays import specs


class Reader(TextAgent):
    def __init__(self, moves):
        super().__init__("reader")
        self.moves = iter(moves)

    def choose(self, state, seat, stream):
        return next(self.moves)


def bound(name, **options):
    return registry.bind("rollout.plans", name, options)


def planned(plan, games, agents, *, group_size, **options):
    """Return the episodes of these specs played by a plan, the figures, and the games of each wave."""
    waves = []

    def playing(due):
        waves.append(list(due))
        return rollout(due, agents, **options)

    rollouts, figures = run_requests(play_planned(plan, games, group_size=group_size), playing)
    return rollouts.episodes, figures, waves


def moves(episodes):
    """Return what was said and played; log-probabilities differ in the last digits with the make-up of a batch, plan or not."""
    return [
        (episode.episode_id, episode.group_id, [(turn.seat, turn.reply, turn.action) for turn in episode.turns])
        for episode in episodes
    ]


def walks(game, plan, moves, *, group_size):
    """Return the actions of the games of one group of a one-seat game, said in this order, and everything else."""
    episodes, figures, waves = planned(
        plan,
        specs(game, group_size, name="reader", group_size=group_size),
        {"reader": Reader(moves)},
        group_size=group_size,
    )
    return [" ".join(turn.action[0] for turn in episode.turns) for episode in episodes], figures, waves


def game_of(surprises, *, origin=FRESH, seats=None, trained=(True, True)):
    """Return a finished game whose turns have tokens of these surprises; a turn without any is an empty list."""
    seats = seats or [number % 2 for number in range(len(surprises))]
    turns = []
    for seat, values in zip(seats, surprises, strict=True):
        segments = (Segment(kind="sampled", ids=(1,) * len(values), logprobs=tuple(-value for value in values)),)
        turns.append(
            Turn(
                seat=seat,
                turn_index=0,
                agent="a",
                state_key="",
                legal_actions=(),
                reply="",
                action="x",
                event="ok",
                rewards={},
                segments=segments,
            )
        )
    episode = Episode(
        episode_id=0,
        group_id=0,
        game="g",
        seed=0,
        roles=("f", "s"),
        agents=("a", "a"),
        trained=trained,
        turns=tuple(turns),
        returns=(0.0, 0.0),
    )
    return PlannedEpisode(origin, episode)
