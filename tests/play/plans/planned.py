"""Helpers that play groups of episodes by a rollout plan."""

from sparring.config.plugins import registry
from sparring.core.records import Episode, Segment, Turn
from sparring.play.plans.base import FRESH, PlannedEpisode, play_planned
from sparring.play.players.base import TextAgent
from sparring.play.rollout import rollout, run_requests
from tests.play.plays import make_specs


class ScriptedWalker(TextAgent):
    def __init__(self, moves):
        super().__init__("reader")
        self.moves = iter(moves)

    def choose(self, state, seat, stream):
        return next(self.moves)


def plan_of(name, **options):
    return registry.bind("rollout.plans", name, options)


def play_by_plan(plan, specs, agents, *, group_size, **options):
    """Play these specs by a plan; return the episodes, the metrics, and the specs of each wave."""
    waves = []

    def play_wave(wave_specs):
        waves.append(list(wave_specs))
        return rollout(wave_specs, agents, **options)

    rollouts, figures = run_requests(play_planned(plan, specs, group_size=group_size), play_wave)
    return rollouts.episodes, figures, waves


def turns_of_episodes(episodes):
    """Return seats, replies and actions; log-probabilities may differ in the last digits between batches."""
    return [
        (episode.episode_id, episode.group_id, [(turn.seat, turn.reply, turn.action) for turn in episode.turns])
        for episode in episodes
    ]


def walk_by_plan(game, plan, moves, *, group_size):
    """Play one group of a one-seat game with these moves; return the actions of each game, the metrics, and the waves."""
    episodes, figures, waves = play_by_plan(
        plan,
        make_specs(game, group_size, name="reader", group_size=group_size),
        {"reader": ScriptedWalker(moves)},
        group_size=group_size,
    )
    return [" ".join(turn.action[0] for turn in episode.turns) for episode in episodes], figures, waves


def episode_of_surprises(surprises, *, origin=FRESH, seats=None, trained=(True, True)):
    """Return a finished episode; each turn has one token per surprise (negative log-probability), or none."""
    seats = seats or [number % 2 for number in range(len(surprises))]
    turns = []
    for seat, token_surprises in zip(seats, surprises, strict=True):
        segments = (
            Segment(
                kind="sampled", ids=(1,) * len(token_surprises), logprobs=tuple(-value for value in token_surprises)
            ),
        )
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
