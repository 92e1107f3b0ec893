"""Fixtures that make small finished episodes."""

import pytest

from sparring.core.records import Episode, Segment, Turn, Verdict


def finished_episode(
    turns, *, returns=(0.0, 0.0), trained=(True, True), game="tic_tac_toe", forfeited_by=None, number=0
):
    """Return the episode of these turns, in which the learner plays every seat."""
    seats = len(trained)
    return Episode(
        episode_id=number,
        group_id=number,
        game=game,
        seed=0,
        roles=("first", "second")[:seats],
        agents=("learner",) * seats,
        trained=trained,
        turns=tuple(turns),
        returns=returns[:seats],
        forfeited_by=forfeited_by,
    )


@pytest.fixture
def make_episode():
    """Return a function that makes an episode from (seat, event, tokens, game reward) per turn."""

    def make(rows, **fields):
        turns = []
        for seat, event, tokens, reward in rows:
            prompt = Segment(kind="prompt", ids=(1, 2, 3))
            reply = Segment(kind="sampled", ids=(5,) * tokens, logprobs=(-0.5,) * tokens)
            index, segments = sum(turn.seat == seat for turn in turns), (prompt, reply) if tokens else ()
            turns.append(Turn(seat, index, "learner", "k", ("bet",), "bet", "bet", event, {"game": reward}, segments))
        return finished_episode(turns, **fields)

    return make


@pytest.fixture
def make_judged_episode():
    """Return a function that makes an episode from a row per turn.

    Args of the function: rows of (seat, event, values of the actions a, b, .., index of the action, entropy).
    A turn with the values None has no verdict.
    """

    def make(rows, **fields):
        turns = []
        for seat, event, values, action_index, *entropy in rows:
            actions = tuple("abcdefghij"[: len(values or "ab")])
            index = sum(turn.seat == seat for turn in turns)
            action = actions[action_index] if event == "ok" else None
            best_actions = frozenset(a for a, v in zip(actions, values or (), strict=False) if v == max(values))
            entropy = entropy[0] if entropy else None
            verdict = (
                Verdict(actions=actions, values=tuple(values), best=best_actions, entropy=entropy) if values else None
            )
            turns.append(
                Turn(seat, index, "learner", "k", actions, "a reply", action, event, {"game": 0.0}, verdict=verdict)
            )
        return finished_episode(turns, **fields)

    return make
