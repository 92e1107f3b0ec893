"""Questions that take several searches in a library, and a calculator."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.lookups import (
    Library,
    LookupQuestion,
    QuestionEnvironment,
    lookups,
    make_library,
)
from tests.cases import every_case
from tests.environments.worlds import make_contract_test, make_refusal_test

LIBRARY = Library(("ada", "bob"), ("red", "blue"), ("lamp", "drum"), (7, 5), 3, (0, 1))


def new_episode(style="brief", **options):
    game = lookups(style=style, **options)
    episode = game.reset(Stream.from_seed(0))
    episode.play = episode.first_play = LookupQuestion(game.inner, LIBRARY)
    return episode


test_environment_contract = make_contract_test(
    lookups,
    [
        {},
        {"style": "full"},
        {"hops": 1, "terms": 1, "calls": 1},
        {"terms": 3, "things": 3, "cost": 0.1},
        {"largest": 99, "results": 20, "things": 12},
    ],
    plays=8,
)


def test_episodes_by_hand():
    episode, texts = new_episode(), []
    for reply in (
        "search ada",
        "search red",
        "search lamp",
        "search bob",
        "search blue",
        "search drum",
        "add 7 5",
        "answer 12",
    ):
        texts.append(episode.observe(0).text)
        episode.step({0: reply})
    assert texts == [
        "ada plus bob",
        "ada owns red",
        "ada owns red ; red holds lamp",
        "red holds lamp ; lamp weighs 7",
        "bob owns blue",
        "bob owns blue ; blue holds drum",
        "blue holds drum ; drum weighs 5",
        "12",
    ]
    assert episode.done and episode.returns == (1.0,)
    episode = new_episode("full", calls=3, cost=0.125)
    assert episode.observe(0).prompt.startswith(
        "What is the weight of the thing in Ada's box plus the weight of the thing in Bob's box?\n\nBefore"
    )
    texts = []
    for reply in (
        'I search "<search>Ada\'s box</search>"',
        "Now what?",
        "<calculate>7+5</calculate>",
        "So <answer>1</answer>, no: <answer> 12 </answer>.",
    ):
        episode.step({0: episode.read(0, reply)})
        texts.append(None if episode.done else episode.observe(0).prompt)
    assert texts[0] == "Found: Ada owns the red box. Bob owns the blue box."
    assert texts[1].startswith("Your reply holds neither a call nor a move.") and texts[2] == "The result is 12."
    assert episode.returns == (1.0 - 3 * 0.125,)
    sizes = {"things": 2, "largest": 9, "hops": 1, "terms": 1}
    episode = QuestionEnvironment(sizes, 0, 4, "brief").reset(Stream.from_seed(0))
    episode.step({0: f"answer {episode.start.answer}"})
    assert episode.returns == (1.0,)
    with pytest.raises(GameError, match="not an answer that is due"):
        episode.step({0: "answer 1"})


@pytest.mark.parametrize(
    ("answer", "pay"),
    [("12", 1.0), ("13", 0.0), ("012", 0.0), ("12.0", 0.0), ("+12", 0.0), ("", 0.0), ("१२", 0.0), ("9" * 9999, 0.0)],
)
def test_an_answer_is_checked_digit_by_digit(answer, pay):
    episode = new_episode("full")
    episode.step({0: f"<answer>{answer}</answer>"})
    assert episode.done and episode.returns == (pay,)


@pytest.mark.parametrize(
    ("hops", "brief_question", "full_question", "num_documents"),
    [
        (1, "lamp plus drum", "What is the weight of the lamp plus the weight of the drum?", 2),
        (
            2,
            "red plus blue",
            "What is the weight of the thing in the red box plus the weight of the thing in the blue box?",
            4,
        ),
        (
            3,
            "ada plus bob",
            "What is the weight of the thing in Ada's box plus the weight of the thing in Bob's box?",
            6,
        ),
    ],
)
def test_questions_by_number_of_hops(hops, brief_question, full_question, num_documents):
    library_world = Library(
        *(getattr(LIBRARY, field) for field in ("people", "boxes", "things", "weights")), hops, (0, 1)
    )
    assert (library_world.question("brief"), library_world.question("full"), library_world.answer) == (
        brief_question,
        full_question,
        12,
    )
    assert [len(library_world.documents(style)) for style in ("brief", "full")] == [num_documents, num_documents]


HARD_REPLIES = [
    "",
    " ",
    "search",
    "answer",
    "answer 1 2",
    "search " + '"' * 99,
    "search '; DROP TABLE documents; --",
    "search \x00",
    "search \ud800",
    "x" * 99_999,
    "🦆",
    "<answer>",
]


@every_case("style", ["brief", "full"])
@every_case("reply", HARD_REPLIES)
def test_malformed_replies_spend_a_call_and_then_are_illegal(reply, style):
    episode = new_episode(style, calls=1)
    episode.step({0: episode.read(0, reply, True)})
    assert episode.calls_left(0) == 0 and not episode.done and len(episode.observe(0).text) < 700
    assert episode.read(0, reply, True) is None
    with pytest.raises(GameError, match="no move"):
        episode.step({0: reply})


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 99),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_facts_lead_to_the_one_answer(bank, index, num_things, largest, hops, terms):
    library_world = make_library(bank, index, num_things, largest, hops, min(terms, num_things))
    facts = {}
    for document in library_world.documents("brief"):
        subject, _, value = document.split()
        assert facts.setdefault(subject, value) == value
    answer = 0
    for name in library_world.names():
        value = name
        for _ in range(hops):
            value = facts[value]
        answer += int(value)
    assert answer == library_world.answer and len(set(library_world.names())) == min(terms, num_things)
    assert all(1 <= weight <= largest for weight in library_world.weights)


def test_a_pickled_copy_is_independent():
    episode = new_episode()
    episode.step({0: "search ada"})
    copy = pickle.loads(pickle.dumps(episode))
    copy.step({0: "search red"})
    assert copy.observe(0).prompt == "ada owns red ; red holds lamp" and episode.observe(0).prompt == "ada owns red"


test_wrong_options_are_refused = make_refusal_test("lookups", {"terms": 3, "things": 2}, by_option=True)
