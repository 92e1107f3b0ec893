"""Small finished games by hand."""

import pytest

from sparring.core.records import Episode, Segment, Turn, Verdict


@pytest.fixture
def make_episode():
    """Return a function that makes an episode from (seat, event, tokens, game reward) per turn."""

    def make(turns, *, returns=(0.0, 0.0), trained=(True, True), game="tic_tac_toe", forfeited_by=None, number=0):
        count = [0] * len(trained)
        taken = []
        for seat, event, tokens, reward in turns:
            prompt, reply = Segment(kind="prompt", ids=(1, 2, 3)), Segment(kind="sampled", ids=(5,) * tokens, logprobs=(-0.5,) * tokens)
            taken.append(
                Turn(
                    seat=seat,
                    turn_index=count[seat],
                    agent="learner",
                    state_key="k",
                    legal_actions=("bet",),
                    reply="bet",
                    action="bet",
                    event=event,
                    rewards={"game": reward},
                    segments=(prompt, reply) if tokens else (),
                )
            )
            count[seat] += 1
        return Episode(
            episode_id=number,
            group_id=number,
            game=game,
            seed=0,
            roles=("first", "second")[: len(trained)],
            agents=("learner",) * len(trained),
            trained=trained,
            turns=tuple(taken),
            returns=returns,
            forfeited_by=forfeited_by,
        )

    return make


@pytest.fixture
def judged():
    """Return a function that makes an episode from (seat, event, values of the actions a, b, .., index of the action, entropy) per turn.

    Values of None stand for a turn that no oracle judged.
    """

    def make(turns, *, trained=(True, True), game="tic_tac_toe"):
        taken = []
        for seat, event, values, chosen, *entropy in turns:
            actions = tuple("abcdefghij"[: len(values or "ab")])
            index = sum(turn.seat == seat for turn in taken)
            action = actions[chosen] if event == "ok" else None
            best = frozenset(a for a, v in zip(actions, values or (), strict=False) if v == max(values))
            verdict = Verdict(actions=actions, values=tuple(values), best=best, entropy=entropy[0] if entropy else None) if values else None
            taken.append(Turn(seat, index, "learner", "k", actions, "a reply", action, event, {"game": 0.0}, verdict=verdict))
        return Episode(
            episode_id=0,
            group_id=0,
            game=game,
            seed=0,
            roles=("first", "second")[: len(trained)],
            agents=("learner",) * len(trained),
            trained=trained,
            turns=tuple(taken),
            returns=(0.0,) * len(trained),
        )

    return make
