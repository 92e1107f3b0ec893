"""The layout of training arrays: one row per turn, whatever a turn holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import RolloutError
from sparring.core.records import Episode, Segment, Turn
from sparring.learn.pack import LegalReplies, critic_positions, pack
from sparring.play.turn_table import turn_table


def turn(index, *kinds, seat=0, conversation=0, start=0):
    """A turn of segments, each "kind:length", its ids counting up from ``start``."""
    segments, at = [], start
    for kind, length in (part.split(":") for part in kinds):
        ids = tuple(range(at, at + int(length)))
        at += int(length)
        segments.append(
            Segment(kind=kind, ids=ids, logprobs=tuple(-float(i) for i in ids) if kind == "sampled" else ())
        )
    return Turn(
        seat, index, "learner", "k", ("a",), "a", "a", "ok", {"game": 0.0}, tuple(segments), conversation=conversation
    )


def episode(*turns, number=0):
    return Episode(
        episode_id=number,
        group_id=0,
        game="g",
        seed=0,
        roles=("r",),
        agents=("learner",),
        trained=(True,),
        turns=turns,
        returns=(0.0,),
    )


def test_a_turn_of_several_sampled_runs_is_one_row():
    """Think, the tool's answer, answer; then a turn whose reply is empty; then a plain one."""
    played = episode(
        turn(0, "prompt:3", "sampled:2", "context:4", "sampled:3", "boundary:1", start=0),
        turn(1, "context:2", "sampled:0", start=13),
        turn(2, "context:1", "sampled:2", start=15),
    )
    data, turns = pack([played]), turn_table([played])
    assert len(data.prompt_ends) == len(turns.reward) == 3
    assert data.prompt_ends.tolist() == [
        [0, 2],
        [0, 14],
        [0, 15],
    ]  # the position of the last id before each turn's first sampled one
    assert data.turn_of.tolist() == [0, 0, 0, 0, 0, 2, 2]
    assert [data.sequences[0][position] for position in data.position_of] == [3, 4, 9, 10, 11, 16, 17]
    assert turns.n_tokens.tolist() == [5, 0, 2]
    before, after, token = (
        critic_positions(data, at, np.arange(n))[1].tolist() for at, n in (("before", 3), ("after", 3), ("token", 7))
    )
    assert before == [2, 14, 15]
    assert after == [11, 14, 17]  # the last sampled id of the turn; an empty reply adds nothing to what was asked
    assert token == [2, 3, 8, 9, 10, 15, 16]  # the id before each sampled one, the tool's answer included


@pytest.mark.parametrize(
    ("parts", "like"), [(("sampled:1", "sampled:2"), ("sampled:3",)), (("sampled:3", "context:1", "sampled:3"), None)]
)
def test_legal_replies_are_compared_with_the_whole_reply(parts, like):
    """Over a change of weights a reply goes on; after a tool's answer another begins."""
    replies = LegalReplies(lambda action: (1, 2, 3))
    legal = pack([episode(turn(0, *parts, start=1))], replies).legal[0]
    if like is not None:
        assert (
            legal
            == pack([episode(turn(0, *like, start=1))], replies).legal[0]
            == (((1, 1.0),), ((2, 1.0),), ((3, 1.0),))
        )
    else:
        assert legal[3:] == replies.next_tokens(("a",), (5, 6, 7)) and legal[3] == ((1, 1.0),)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
def test_rows_and_positions_are_those_of_a_plain_loop(turns, anew):
    """Each turn is a list of (told, said) lengths; ``anew`` opens a conversation per turn."""
    played, at = [], 0
    for index, runs in enumerate(turns):
        at = 0 if anew else at
        kinds = [
            f"{kind}:{length}"
            for num_context, num_sampled in runs
            for kind, length in (("context", num_context), ("sampled", num_sampled))
        ]
        played.append(turn(index, *kinds, conversation=index if anew else 0, start=at))
        at += sum(num_context + num_sampled for num_context, num_sampled in runs)
    data = pack([episode(*played)])
    assert len(data.prompt_ends) == len(turns)
    expected, rows, position = [], [], 0
    for row, runs in enumerate(turns):
        position = 0 if anew else position
        for num_context, num_sampled in runs:
            position += num_context
            expected += range(position, position + num_sampled)
            rows += [row] * num_sampled
            position += num_sampled
    assert data.position_of.tolist() == expected and data.turn_of.tolist() == rows
    for row, (_, at) in enumerate(data.prompt_ends.tolist()):
        num_context = turns[row][0][0]
        begin = (
            0 if anew else sum(num_context + num_sampled for runs in turns[:row] for num_context, num_sampled in runs)
        )
        assert at == begin + num_context - 1


def test_a_trained_turn_without_tokens_is_refused():
    silent = Turn(0, 1, "random", "k", ("a",), "a", "a", "ok", {"game": 0.0})
    with pytest.raises(
        RolloutError,
        match=r"Turn 1 of seat 0 in episode 7 of 'g' was not sampled by a model.*'random' returns no tokens",
    ):
        pack([episode(turn(0, "prompt:2", "sampled:1"), silent, number=7)])


MASKS = st.lists(st.booleans(), min_size=9, max_size=9)


def played_alike():
    alike = [turn(0, "prompt:2", "sampled:2", start=1), turn(1, "context:1", "sampled:1", start=5)]
    other = [turn(0, "prompt:2", "sampled:3", start=1)]
    return [episode(*alike, number=0), episode(*alike, number=1), episode(*other, number=2)]


@given(MASKS)
def test_a_pack_of_some_tokens_has_them_and_the_same_context(mask):
    data, mask = pack(played_alike()), np.array(mask)
    some = data.only(mask)
    assert (
        some.turn_of.tolist() == data.turn_of[mask].tolist() and some.logprobs.tolist() == data.logprobs[mask].tolist()
    )
    owner = np.repeat(np.arange(3), data.tokens)
    assert some.tokens.tolist() == [int((mask & (owner == number)).sum()) for number in range(3)]
    assert some.with_replies.tolist() == [number for number in range(3) if some.tokens[number]]
    at = 0
    for number in range(3):
        ids, positions = some.sequences[some.distinct[number]], some.positions[some.distinct[number]]
        assert ids == data.sequences[data.distinct[number]]
        assert (
            list(positions) == some.position_of[at : at + len(positions)].tolist()
            and len(positions) == some.tokens[number]
        )
        at += len(positions)
    assert len(some.sequences) == len(set(zip(some.sequences, some.positions, strict=True)))  # each distinct one once
    for (old, place), (new, same) in zip(
        data.prompt_ends, some.prompt_ends, strict=True
    ):  # what a critic reads stands where it stood
        assert place == same and some.sequences[new] == data.sequences[old]


def test_a_pack_of_all_tokens_is_the_pack():
    data = pack(played_alike())
    assert repr(data.only(np.ones(9, dtype=bool))) == repr(data)
