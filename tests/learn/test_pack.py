"""The layout of training arrays: one row per turn, for any segments of a turn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import RolloutError
from sparring.core.records import Episode, Segment, Turn
from sparring.learn.pack import LegalReplies, critic_positions, pack
from sparring.play.turn_table import turn_table


def turn(index, *kinds, seat=0, conversation=0, start=0):
    """Return a turn of segments "kind:length" whose ids count up from ``start``."""
    segments, next_id = [], start
    for kind, length in (segment_text.split(":") for segment_text in kinds):
        ids = tuple(range(next_id, next_id + int(length)))
        next_id += int(length)
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


def test_a_turn_of_several_sampled_segments_is_one_row():
    """Three turns: a thought, a tool result and a reply; an empty reply; one plain reply."""
    episode_of_three = episode(
        turn(0, "prompt:3", "sampled:2", "context:4", "sampled:3", "boundary:1", start=0),
        turn(1, "context:2", "sampled:0", start=13),
        turn(2, "context:1", "sampled:2", start=15),
    )
    data, turns = pack([episode_of_three]), turn_table([episode_of_three])
    assert len(data.prompt_ends) == len(turns.reward) == 3
    assert data.prompt_ends.tolist() == [
        [0, 2],
        [0, 14],
        [0, 15],
    ]  # the position of the last id before the first sampled id of each turn
    assert data.turn_of.tolist() == [0, 0, 0, 0, 0, 2, 2]
    assert [data.sequences[0][position] for position in data.position_of] == [3, 4, 9, 10, 11, 16, 17]
    assert turns.n_tokens.tolist() == [5, 0, 2]
    before_ids, after_ids, token_ids = (
        critic_positions(data, key, np.arange(n))[1].tolist() for key, n in (("before", 3), ("after", 3), ("token", 7))
    )
    assert before_ids == [2, 14, 15]
    assert after_ids == [11, 14, 17]  # the last sampled id of the turn; an empty reply adds nothing to the prompt
    assert token_ids == [2, 3, 8, 9, 10, 15, 16]  # the id before each sampled id, also after the tool result


@pytest.mark.parametrize(
    ("segments", "expected_ids"),
    [(("sampled:1", "sampled:2"), ("sampled:3",)), (("sampled:3", "context:1", "sampled:3"), None)],
)
def test_legal_replies_are_compared_with_the_complete_reply(segments, expected_ids):
    """A reply continues over a change of weights; after a tool result a new reply begins."""
    replies = LegalReplies(lambda action: (1, 2, 3))
    legal = pack([episode(turn(0, *segments, start=1))], replies).legal[0]
    if expected_ids is not None:
        assert (
            legal
            == pack([episode(turn(0, *expected_ids, start=1))], replies).legal[0]
            == (((1, 1.0),), ((2, 1.0),), ((3, 1.0),))
        )
    else:
        assert legal[3:] == replies.next_tokens(("a",), (5, 6, 7)) and legal[3] == ((1, 1.0),)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
def test_rows_and_positions_equal_a_plain_loop(turns, new_conversations):
    """Each turn is a list of (context, sampled) lengths; with ``new_conversations`` every turn begins a new conversation."""
    packed_turns, next_id = [], 0
    for index, runs in enumerate(turns):
        next_id = 0 if new_conversations else next_id
        kinds = [
            f"{kind}:{length}"
            for num_context, num_sampled in runs
            for kind, length in (("context", num_context), ("sampled", num_sampled))
        ]
        packed_turns.append(turn(index, *kinds, conversation=index if new_conversations else 0, start=next_id))
        next_id += sum(num_context + num_sampled for num_context, num_sampled in runs)
    data = pack([episode(*packed_turns)])
    assert len(data.prompt_ends) == len(turns)
    expected, rows, position = [], [], 0
    for row, runs in enumerate(turns):
        position = 0 if new_conversations else position
        for num_context, num_sampled in runs:
            position += num_context
            expected += range(position, position + num_sampled)
            rows += [row] * num_sampled
            position += num_sampled
    assert data.position_of.tolist() == expected and data.turn_of.tolist() == rows
    for row, (_, next_id) in enumerate(data.prompt_ends.tolist()):
        num_context = turns[row][0][0]
        begin = (
            0
            if new_conversations
            else sum(num_context + num_sampled for runs in turns[:row] for num_context, num_sampled in runs)
        )
        assert next_id == begin + num_context - 1


def test_a_trained_turn_without_tokens_is_refused():
    turn_without_tokens = Turn(0, 1, "random", "k", ("a",), "a", "a", "ok", {"game": 0.0})
    with pytest.raises(
        RolloutError,
        match=r"Turn 1 of seat 0 in episode 7 of 'g' was not sampled by a model.*'random' returns no tokens",
    ):
        pack([episode(turn(0, "prompt:2", "sampled:1"), turn_without_tokens, number=7)])


MASKS = st.lists(st.booleans(), min_size=9, max_size=9)


def two_equal_episodes():
    turns = [turn(0, "prompt:2", "sampled:2", start=1), turn(1, "context:1", "sampled:1", start=5)]
    other_turns = [turn(0, "prompt:2", "sampled:3", start=1)]
    return [episode(*turns, number=0), episode(*turns, number=1), episode(*other_turns, number=2)]


@given(MASKS)
def test_a_pack_of_some_tokens_keeps_their_context(mask):
    data, mask = pack(two_equal_episodes()), np.array(mask)
    subset = data.only(mask)
    assert (
        subset.turn_of.tolist() == data.turn_of[mask].tolist()
        and subset.logprobs.tolist() == data.logprobs[mask].tolist()
    )
    episode_of_token = np.repeat(np.arange(3), data.tokens)
    assert subset.tokens.tolist() == [int((mask & (episode_of_token == number)).sum()) for number in range(3)]
    assert subset.with_replies.tolist() == [number for number in range(3) if subset.tokens[number]]
    index = 0
    for number in range(3):
        ids, positions = subset.sequences[subset.distinct[number]], subset.positions[subset.distinct[number]]
        assert ids == data.sequences[data.distinct[number]]
        assert (
            list(positions) == subset.position_of[index : index + len(positions)].tolist()
            and len(positions) == subset.tokens[number]
        )
        index += len(positions)
    assert len(subset.sequences) == len(
        set(zip(subset.sequences, subset.positions, strict=True))
    )  # no pair occurs twice
    for (old_sequence, position), (new_sequence, new_position) in zip(
        data.prompt_ends, subset.prompt_ends, strict=True
    ):  # the positions that a critic reads stay the same
        assert position == new_position and subset.sequences[new_sequence] == data.sequences[old_sequence]


def test_a_pack_of_all_tokens_is_the_pack():
    data = pack(two_equal_episodes())
    assert repr(data.only(np.ones(9, dtype=bool))) == repr(data)
