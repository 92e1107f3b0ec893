"""The contract of rewards, for every file in the slot."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.records import Episode, Segment, Turn, Verdict
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.base import GAME_COMPONENTS
from sparring.testing import check_reward
from sparring.testing.rewards import check_reward_of

NAMES = registry.names("rewards")
NEEDS_MORE = [
    name
    for name in NAMES
    if any(option.default is inspect.Parameter.empty for option in registry.load("rewards", name).options.values())
]
GAMES = {name: make_game(name) for name in ("tic_tac_toe", "kuhn_poker")}

LEGAL = ("bet", "pass")
TURNS = st.tuples(
    st.integers(0, 2), st.sampled_from(["ok", "illegal", "unparsable"]), st.integers(0, 30), st.booleans()
)


@st.composite
def verdicts(draw):
    if draw(st.booleans()):
        return None
    values = draw(st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
    best_actions = frozenset(action for action, value in zip(LEGAL, values, strict=True) if value == max(values))
    return Verdict(actions=LEGAL, values=values, best=best_actions, entropy=draw(st.none() | st.floats(0, 3)))


@st.composite
def episodes(draw):
    """Return a random finished episode of three seats. Replies may have no tokens, and seats no turns."""
    turns, counts = [], [0, 0, 0]
    for seat, event, tokens, truncated in draw(st.lists(TURNS, max_size=8)):
        reply = Segment(kind="sampled", ids=(7,) * tokens * 200, logprobs=(-1.0,) * tokens * 200)
        action = draw(st.sampled_from(LEGAL)) if event == "ok" else None
        rewards = {"game": draw(st.floats(-10, 10))}
        segments = (reply,) if tokens else ()
        turn = Turn(
            seat, counts[seat], "learner", "k", LEGAL, "bet", action, event, rewards, segments, truncated=truncated
        )
        turns.append(turn._replace(verdict=draw(verdicts())))
        counts[seat] += 1
    return Episode(
        episode_id=draw(st.integers(0, 9)),
        group_id=0,
        game=draw(st.sampled_from(["tic_tac_toe", "kuhn_poker"])),
        seed=0,
        roles=("a", "b", "c"),
        agents=("learner",) * 3,
        trained=tuple(draw(st.lists(st.booleans(), min_size=3, max_size=3))),
        turns=tuple(turns),
        returns=tuple(draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=3, max_size=3))),
        forfeited_by=draw(st.sampled_from([None, 0])),
    )


def test_reward_names_are_not_reserved_and_only_llm_judge_needs_options():
    assert not set(NAMES) & set(GAME_COMPONENTS)
    assert set(NEEDS_MORE) <= {"llm_judge"}  # its own test file has the same checks


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEEDS_MORE])
@given(episode=episodes())
def test_a_reward_has_one_finite_number_per_turn_and_keeps_the_episode(name, episode):
    for preset in (None, *registry.load("rewards", name).presets):
        check_reward_of(registry.bind("rewards", name, preset=preset), episode, GAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEEDS_MORE])
def test_the_public_check_passes(name):
    for preset in (None, *registry.load("rewards", name).presets):
        check_reward(registry.bind("rewards", name, preset=preset), episodes=20)
