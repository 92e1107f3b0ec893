"""Word problems: stories by hand, answers parsed from replies, banks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.word_problems import Problem, Story, max_answer, story, word_problems
from tests.cases import every_case
from tests.environments.worlds import make_contract_test

EVENTS = (("loses", 2, 1), ("doubles", 0, 0), ("gets", 5, 0))


def make_story(opening="bags", numbers=(3, 4), events=EVENTS):
    return Story(person="ada", other="ben", things="apples", opening=opening, numbers=numbers, events=events)


test_environment_contract = make_contract_test(
    word_problems,
    [
        {},
        {"style": "full", "steps": 3},
        {"steps": 5, "largest": 2},
        {"largest": 100, "problems": 1},
    ],
    plays=8,
)


def test_stories_and_answers_by_hand():
    bags = make_story()
    assert bags.answer == 25  # (3 * 4 - 2) * 2 + 5
    assert bags.text(brief=True) == "ada has 3 bags of 4 apples loses 2 doubles gets 5 how many"
    assert bags.text(brief=False) == (
        "Ada has 3 bags with 4 apples in each bag. Ada gives away 2 apples. Then Ada doubles the number of apples. Ada buys 5 more apples. "
        "How many apples does Ada have now?"
    )
    comparison = make_story("more", (3, 4), ())
    assert comparison.answer == 7 and comparison.text(brief=False).startswith(
        "Ben has 3 apples. Ada has 4 more apples than Ben. How many apples does Ada"
    )
    assert comparison.text(brief=True) == "ben has 3 apples ada has 4 more than ben how many"
    assert make_story("has", (3, 0), EVENTS[:1]).answer == 1
    assert (
        make_story("more", (1, 2), (("gets", 1, 2),))
        .text(brief=False)
        .startswith("Ben has 1 apple. Ada has 2 more apples than Ben. A friend gives Ada 1 more apple. How many apples")
    )
    problem = Problem(word_problems(), make_story())
    assert problem.read(0, " 25 ", exact=True) == "25" and problem.read(0, "is 25", exact=True) is None


def test_initial_states_ignore_words_that_the_prompt_leaves_out():
    # Stories that differ only in words that the prompt leaves out have the same initial state.
    game = make_game("word_problems", options={"problems": 1})
    problems = [
        Problem(game, Story("ada", other_person, "apples", "bags", (3, 4), (("gets", 2, wording),)))
        for other_person in ("ben", "cleo")
        for wording in (0, 1)
    ]
    assert len({game.start_of(episode) for episode in problems}) == 1 < len({episode.start for episode in problems})
    assert game.starts() == {game.start_of(game.reset(Stream.from_seed(5)))}


def test_sampled_replies_are_valid():
    game = word_problems(steps=2)
    episode = game.reset(Stream.from_seed(3))
    replies = {episode.sample(0, Stream.from_seed(seed)) for seed in range(50)}
    assert len(replies) > 20 and all(episode.read(0, reply, exact=True) == reply for reply in replies)


@every_case(
    ("reply", "answer"),
    [
        ("25", "25"),
        ("3 times 4 is 12, less 2 is 10; twice 10 is 20. The answer is 25.", "25"),
        ("\\boxed{1,025}", "1025"),
        ("25.0 apples", "25"),
        ("25.5", "25.5"),
        ("007", "7"),
        ("many", None),
        ("", None),
        ("9" * 5000, None),
        ("1,2,3", "3"),
        ("The answer is -25.", "-25"),
        ("30 - 5 = \u221225", "-25"),
        ("30-5 is 25", "25"),
        ("25-30=-5", "-5"),
        ("- 25", "25"),
        ("12-25", "25"),
        ("$1,025.00", "1025"),
        ("1,025, that is.", "1025"),
        ("1,025.50", "1025.50"),
        ("1,23,456", "456"),
    ],
)
def test_the_last_number_of_a_reply_is_the_answer(reply, answer):
    problem = Problem(word_problems(style="full"), make_story())
    assert problem.read(0, reply) == answer
    if answer is None:
        with pytest.raises(GameError, match="is no answer, or the episode is over"):
            problem.step({0: reply})
    else:
        problem.step({0: reply})
        assert problem.done and problem.returns == (float(answer == "25"),) and problem.due() == ()


@given(st.integers(1, 5), st.integers(2, 100), st.integers(0, 10**6))
def test_counts_stay_between_zero_and_the_largest_answer(steps, largest, seed):
    a_story = story(Stream.from_seed(seed), steps, largest)
    counts = [
        Story(
            a_story.person, a_story.other, a_story.things, a_story.opening, a_story.numbers, a_story.events[:num_events]
        ).answer
        for num_events in range(len(a_story.events) + 1)
    ]
    assert min(counts) >= 0 and max(counts) <= max_answer(steps, largest)
    assert len(a_story.events) + (a_story.opening != "has") == steps and a_story.person != a_story.other
    numbers = [
        a_story.numbers[0],
        *([a_story.numbers[1]] if a_story.opening != "has" else []),
        *(number for kind, number, _ in a_story.events if kind != "doubles"),
    ]
    assert all(1 <= number <= largest for number in numbers)
