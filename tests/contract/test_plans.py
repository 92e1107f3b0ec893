"""The contract of rollout plans, for every file in the slot."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.core.records import Episode, Segment, Turn
from sparring.core.rng import Stream
from sparring.play.plans.base import FRESH, PlannedEpisode
from tests.cases import every_case

NAMES = registry.names("rollout.plans")
CASES = [(name, preset) for name in NAMES for preset in (None, *registry.load("rollout.plans", name).presets)]
SIZE = 8  # episodes of a group; the defaults of all plans allow 8


def random_game(origin, games, stream, trained):
    """Return a game of random length and log-probabilities that shares the turns of its origin's parent."""
    shared_turns = games[origin.parent].episode.turns[: origin.turn] if origin.turn else ()
    turns = [*shared_turns]
    for index in range((1 if shared_turns else 0) + stream.integer(0, 4)):
        tokens = tuple(-stream.child(index).uniform(token) for token in range(stream.child(index).integer(9, 3)))
        segments = (Segment(kind="sampled", ids=(1,) * len(tokens), logprobs=tokens),)
        turns.append(
            Turn(
                len(turns) % 2,
                0,
                "a",
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
        episode_id=len(games), group_id=0, game="g", seed=0, roles=("f", "s"), agents=("a", "a"), trained=trained, turns=tuple(turns),
        returns=(0.0, 0.0),
    )  # fmt: skip
    return PlannedEpisode(origin, episode)


@pytest.mark.parametrize(("name", "preset"), CASES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_plan_branches_at_existing_turns_and_is_deterministic(name, preset, seed):
    plan, stream, games = registry.bind("rollout.plans", name, preset=preset), Stream.from_seed(seed), []
    while len(games) < SIZE:
        num_missing = SIZE - len(games)
        origins = plan(num_missing, tuple(games), stream.child("plan"), progress=0.5)
        assert plan(num_missing, tuple(games), Stream(stream.child("plan").key), progress=0.5) == origins
        for origin in origins:
            assert origin == FRESH or (
                0 <= origin.parent < len(games) and origin.turn in games[origin.parent].decisions
            )
        if not origins:
            break
        games_before, trained_seats = list(games), (True, stream.child("trained").uniform(0) < 0.5)
        games += [
            random_game(origin, games_before, stream.child(len(games_before) + index), trained_seats)
            for index, origin in enumerate(origins[:num_missing])
        ]


@every_case(("name", "preset"), CASES)
@every_case("size", [1, 2, 7, 8])
def test_a_group_size_is_planned_or_refused_with_what_to_write(name, preset, size):
    try:
        origins = registry.bind("rollout.plans", name, preset=preset)(size, (), Stream.from_seed(0))
    except ConfigError as error:
        assert "rollout.group_size" in str(error) and "write" in str(error)
    else:
        assert 1 <= len(origins) <= size and set(origins) == {FRESH}
