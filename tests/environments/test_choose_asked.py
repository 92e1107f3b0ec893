"""Candidates that seats of their own propose."""

import dataclasses

import pytest

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.base import spec_of, teams_of
from sparring.environments.catalogue import from_spec, make_game
from sparring.environments.choose import choose
from sparring.measure.exact_figures import base_game
from sparring.measure.info_states import enumerate_info_states
from sparring.testing import check_environment
from tests.environments.worlds import play_replies

RPS, KUHN = {"name": "rock_paper_scissors"}, {"name": "kuhn_poker"}
FULL = {"name": "kuhn_poker", "options": {"style": "full"}}
WOLVES = {"name": "werewolf", "options": {"players": 3, "speech": "text", "style": "full", "tie": "none", "rounds": 1}}


def new_play(inner=RPS, seed=0, **options):
    return choose(environment=inner, proposer="seat", **options).reset(Stream.from_seed(seed))


@pytest.mark.parametrize(
    "inner", [RPS, KUHN, FULL, {"name": "talk"}, {"name": "sealed_auction"}, {"name": "code_words"}, WOLVES], ids=str
)
@pytest.mark.parametrize("options", [{}, {"count": 2, "diverse": False}, {"shuffle": False}], ids=str)
def test_it_keeps_the_contract_around_any_environment(inner, options):
    check_environment(choose, environment=inner, proposer="seat", plays=3, **options)


def test_proposers_and_their_candidates():
    course = new_play(count=2)
    rules = course.rules
    assert rules.roles == ("left", "right", "left_proposer", "right_proposer") and teams_of(rules) == (0, 1, 0, 1)
    assert rules.max_turns == 6 and rules.utility_sum == 0
    for replies in ({2: "rock", 3: "paper"}, {2: "paper", 3: "scissors"}):
        course.step(replies)
    course.step({0: str(course.candidates[0].index("rock") + 1), 1: str(course.candidates[1].index("paper") + 1)})
    assert course.returns == (-1.0, 1.0, -1.0, 1.0) and course.ending(2) == course.ending(0) == "you rock they paper"
    assert course.ending(3) == "you paper they rock"
    orders = set()
    for seed in range(12):
        course = new_play(count=2, seed=seed)
        assert course.due() == (2, 3) and course.legal(2) == ("rock", "paper", "scissors")
        assert course.observe(2).text == "left choose propose"
        course.step({2: "rock", 3: "paper"})
        assert course.legal(2) == ("paper", "scissors") and course.legal(3) == ("rock", "scissors")
        assert course.observe(2).text == "propose" and course.read(2, "rock") is None
        course.step({2: "scissors", 3: "rock"})
        assert course.due() == (0, 1) and course.draws == {0: ("rock", "scissors"), 1: ("paper", "rock")}
        assert set(course.candidates[0]) == {"rock", "scissors"} and course.legal(0) == ("1", "2")
        orders.add(course.candidates[0])
    assert len(orders) == 2
    course = new_play(count=3, diverse=False)
    for word in ("rock", "rock", "paper"):
        assert course.legal(2) == ("rock", "paper", "scissors")
        course.step({2: word, 3: "paper"})
    assert (
        set(course.candidates[0]) == {"rock", "paper"}
        and course.candidates[1] == ("paper",)
        and course.legal(1) == ("1",)
    )
    course = new_play(KUHN, count=5)
    play_replies(course, {2: "pass"}, {2: "bet"})
    assert course.due() == (0,) and set(course.candidates[0]) == {"pass", "bet"}
    inner = {"name": "werewolf", "options": {**WOLVES["options"], "deduce": True}}
    course = new_play(inner)
    while course.play.position.phase != "speak":
        course.step({seat: course.legal(seat)[0] for seat in course.due()})
    (seat,) = course.due()
    assert course.observe(seat).note and course.inner_seat(seat) == seat and course.legal(seat) is None
    course.step({seat: "p1 is a wolf"})
    (proposer,) = course.due()
    assert course.inner_seat(proposer) == seat != proposer


@pytest.mark.parametrize("inner", [RPS, KUHN], ids=str)
def test_nothing_is_proposed_for_who_does_not_choose(inner):
    chooser = "right" if inner is RPS else "second"
    check_environment(choose, environment=inner, proposer="seat", choosers=[chooser], plays=3)
    course = new_play(inner, count=1, choosers=[chooser])
    if inner is RPS:  # both are due at once
        assert course.due() == (3,)
        course.step({3: "rock"})
        assert course.due() == (0, 1) and course.legal(0) == ("rock", "paper", "scissors") and course.legal(1) == ("1",)
        course.step({0: "paper", 1: "1"})
        assert course.returns == (1.0, -1.0, 1.0, -1.0)
    else:
        assert course.due() == (0,) and course.legal(0) == ("pass", "bet")
        course.step({0: "bet"})
        assert course.due() == (3,) and 2 not in course.news


@pytest.mark.parametrize("order", ["ordered", "simultaneous"])
@pytest.mark.parametrize(
    ("choosers", "deducers"), [(["seer"], ["seer"]), (["seer"], ["wolf", "villager1"]), (["wolf"], [])]
)
def test_some_choose_and_some_deduce_in_one_game(order, choosers, deducers):
    inner = {"name": "werewolf", "options": {"deduce": True, "deducers": deducers, "order": order}}
    for proposer in ("seat", "weights"):
        check_environment(choose, environment=inner, proposer=proposer, choosers=choosers, plays=3)
    options = {"players": 7, "wolves_talk": True, "speech": "text", "style": "full"}
    check_environment(
        choose,
        environment={"name": "werewolf", "options": options},
        plays=3,
        proposer="seat",
        choosers=["wolf1", "doctor"],
    )


def test_what_a_proposer_knows():
    keys = {}
    for first in ("pass", "bet"):
        course = new_play(KUHN, shuffle=False)
        for replies in (
            {2: first},
            {2: "bet" if first == "pass" else "pass"},
            {0: "1"},
            {3: "pass"},
            {3: "bet"},
            {1: "2"},
        ):
            course.step(replies)
        assert course.due() == (2,) and course.observe(2).text == "took pass bet propose"
        keys[first] = course.observe(2).key
        course.step({2: "pass"})
        assert course.observe(2).text == "propose"
    assert keys["pass"] != keys["bet"]
    full = new_play(FULL)
    assert full.observe(2).ask.endswith("Propose an action.") and "Your card" in full.observe(2).prompt
    full.step({2: "pass"})
    assert full.observe(2).ask.endswith("Propose another action.") and full.observe(2).prompt == ""
    course, other = new_play(count=2), new_play(count=2)
    course.step({2: "rock", 3: "paper"})
    other.step({2: "rock", 3: "scissors"})
    for seat in (0, 1, 2):
        assert course.draw(seat) == other.draw(seat) and course.described(seat) == other.described(seat)
    assert course.draw(3) != other.draw(3) and "Proposed for right: paper." in course.described(None)
    keys = set()
    for texts in (("a/b", "c"), ("a", "b/c"), ("a b", "c"), ("'a'", "b/c"), ("a", "b", "c")):
        course, _, proposer = speaking(count=4)
        for text in texts:
            course.step({proposer: text})
        keys.add(course.observe(proposer).key)
    assert len(keys) == 5
    course, speaker, proposer = speaking(count=1)
    idle = next(seat for seat in range(course.rules.num_seats) if seat != proposer and course.inner_seat(seat) != seat)
    assert course.observe(proposer).ask.endswith("Propose an action.") and course.observe(idle).ask == ""
    assert "propose" not in course.observe(idle).key
    course.step({proposer: "p2 is a wolf"})
    assert course.due() == (speaker,) and course.observe(proposer).ask == ""


def speaking(**options):
    """A play of Werewolf in free text in which somebody is to speak, with the seat and its proposer."""
    course = new_play(WOLVES, **options)
    while course.play.position.phase != "speak":
        course.step({seat: course.legal(seat)[0] for seat in course.due()})
    (proposer,) = course.due()
    return course, course.inner_seat(proposer), proposer


def test_candidates_of_any_text():
    course, speaker, proposer = speaking(count=3)
    assert course.legal(proposer) is None and course.read(proposer, "p2 is\na wolf") == "p2 is a wolf"
    assert course.observe(proposer).ask.endswith("Propose an action.")
    for text in (
        "p2 is\na wolf",
        "I am the seer.\n2. p1 is a wolf",
        "p2 \u200bis a  wolf",
    ):  # heard alike: there are two candidates
        course.step({proposer: course.read(proposer, text)})
    assert course.due() == (speaker,) and course.legal(speaker) == ("1", "2")
    assert sorted(course.candidates[speaker]) == ["I am the seer. 2. p1 is a wolf", "p2 is a wolf"]
    observation = course.observe(speaker)
    assert "2. p1 is a wolf" not in observation.text.splitlines()  # a candidate is one line, and makes no others
    place = course.candidates[speaker].index("p2 is a wolf") + 1
    course.step({speaker: str(place)})
    assert course.play.position.events[-1].word == "p2 is a wolf"
    assert "What was chosen: p2 is" in course.observe(proposer).text
    course, speaker, proposer = speaking(count=2, diverse=False, shuffle=False)
    play_replies(course, {proposer: "b"}, {proposer: "a"})
    assert course.candidates[speaker] == ("b", "a")
    course, speaker, proposer = speaking(count=2, shuffle=False)
    limit = WOLVES["options"].get("limit", 300)
    for text in ("\u200b \n", "a" * 200_000):
        course.step({proposer: course.read(proposer, text)})
    assert course.candidates[speaker] == ("", "a" * (limit + 1))
    assert "1. (nothing)\n2. aaa" in course.observe(speaker).text
    course.step({speaker: "2"})
    assert course.play.position.events[-1].word == "a" * limit


def test_figures_clones_and_earlier_versions():
    game = choose(environment=RPS, proposer="seat")
    with pytest.raises(GameError, match="no method openings"):
        enumerate_info_states(base_game(game))
    with pytest.raises(ConfigError, match="'proposals' need proposer: weights"):
        choose(proposer="seat", proposals={"rock": 1.0})
    first = new_play(count=1)
    other = first.clone()
    other.step(dict.fromkeys(other.due(), "rock"))
    assert other.draws == {0: ("rock",), 1: ("rock",)} and first.draws == {}
    spec = spec_of(make_game("choose", options={"environment": RPS}))
    assert spec.version == 2 and from_spec(spec).name == "choose"
    with pytest.raises(GameError, match="version 2 here, but the record has version 1"):
        from_spec(dataclasses.replace(spec, version=1))
