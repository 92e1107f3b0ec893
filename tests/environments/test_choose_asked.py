"""The environment choose with proposer seats: extra seats propose the candidates."""

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
def test_environment_contract_around_any_environment(inner, options):
    check_environment(choose, environment=inner, proposer="seat", plays=3, **options)


def test_proposers_and_their_candidates():
    episode = new_play(count=2)
    rules = episode.rules
    assert rules.roles == ("left", "right", "left_proposer", "right_proposer") and teams_of(rules) == (0, 1, 0, 1)
    assert rules.max_turns == 6 and rules.utility_sum == 0
    for replies in ({2: "rock", 3: "paper"}, {2: "paper", 3: "scissors"}):
        episode.step(replies)
    episode.step({0: str(episode.candidates[0].index("rock") + 1), 1: str(episode.candidates[1].index("paper") + 1)})
    assert episode.returns == (-1.0, 1.0, -1.0, 1.0) and episode.ending(2) == episode.ending(0) == "you rock they paper"
    assert episode.ending(3) == "you paper they rock"
    orders = set()
    for seed in range(12):
        episode = new_play(count=2, seed=seed)
        assert episode.due() == (2, 3) and episode.legal(2) == ("rock", "paper", "scissors")
        assert episode.observe(2).text == "left choose propose"
        episode.step({2: "rock", 3: "paper"})
        assert episode.legal(2) == ("paper", "scissors") and episode.legal(3) == ("rock", "scissors")
        assert episode.observe(2).text == "propose" and episode.read(2, "rock") is None
        episode.step({2: "scissors", 3: "rock"})
        assert episode.due() == (0, 1) and episode.draws == {0: ("rock", "scissors"), 1: ("paper", "rock")}
        assert set(episode.candidates[0]) == {"rock", "scissors"} and episode.legal(0) == ("1", "2")
        orders.add(episode.candidates[0])
    assert len(orders) == 2
    episode = new_play(count=3, diverse=False)
    for word in ("rock", "rock", "paper"):
        assert episode.legal(2) == ("rock", "paper", "scissors")
        episode.step({2: word, 3: "paper"})
    assert (
        set(episode.candidates[0]) == {"rock", "paper"}
        and episode.candidates[1] == ("paper",)
        and episode.legal(1) == ("1",)
    )
    episode = new_play(KUHN, count=5)
    play_replies(episode, {2: "pass"}, {2: "bet"})
    assert episode.due() == (0,) and set(episode.candidates[0]) == {"pass", "bet"}
    inner = {"name": "werewolf", "options": {**WOLVES["options"], "deduce": True}}
    episode = new_play(inner)
    while episode.play.position.phase != "speak":
        episode.step({seat: episode.legal(seat)[0] for seat in episode.due()})
    (seat,) = episode.due()
    assert episode.observe(seat).note and episode.inner_seat(seat) == seat and episode.legal(seat) is None
    episode.step({seat: "p1 is a wolf"})
    (proposer,) = episode.due()
    assert episode.inner_seat(proposer) == seat != proposer


@pytest.mark.parametrize("inner", [RPS, KUHN], ids=str)
def test_no_candidates_are_proposed_for_seats_that_do_not_choose(inner):
    chooser = "right" if inner is RPS else "second"
    check_environment(choose, environment=inner, proposer="seat", choosers=[chooser], plays=3)
    episode = new_play(inner, count=1, choosers=[chooser])
    if inner is RPS:  # both are due at once
        assert episode.due() == (3,)
        episode.step({3: "rock"})
        assert (
            episode.due() == (0, 1) and episode.legal(0) == ("rock", "paper", "scissors") and episode.legal(1) == ("1",)
        )
        episode.step({0: "paper", 1: "1"})
        assert episode.returns == (1.0, -1.0, 1.0, -1.0)
    else:
        assert episode.due() == (0,) and episode.legal(0) == ("pass", "bet")
        episode.step({0: "bet"})
        assert episode.due() == (3,) and 2 not in episode.news


@pytest.mark.parametrize("order", ["ordered", "simultaneous"])
@pytest.mark.parametrize(
    ("choosers", "deducers"), [(["seer"], ["seer"]), (["seer"], ["wolf", "villager1"]), (["wolf"], [])]
)
def test_choosers_and_deducers_can_share_a_game(order, choosers, deducers):
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


def test_a_proposer_sees_only_its_own_information():
    keys = {}
    for first in ("pass", "bet"):
        episode = new_play(KUHN, shuffle=False)
        for replies in (
            {2: first},
            {2: "bet" if first == "pass" else "pass"},
            {0: "1"},
            {3: "pass"},
            {3: "bet"},
            {1: "2"},
        ):
            episode.step(replies)
        assert episode.due() == (2,) and episode.observe(2).text == "took pass bet propose"
        keys[first] = episode.observe(2).key
        episode.step({2: "pass"})
        assert episode.observe(2).text == "propose"
    assert keys["pass"] != keys["bet"]
    full_episode = new_play(FULL)
    assert full_episode.observe(2).ask.endswith("Propose an action.") and "Your card" in full_episode.observe(2).prompt
    full_episode.step({2: "pass"})
    assert full_episode.observe(2).ask.endswith("Propose another action.") and full_episode.observe(2).prompt == ""
    episode, other_episode = new_play(count=2), new_play(count=2)
    episode.step({2: "rock", 3: "paper"})
    other_episode.step({2: "rock", 3: "scissors"})
    for seat in (0, 1, 2):
        assert episode.draw(seat) == other_episode.draw(seat) and episode.described(seat) == other_episode.described(
            seat
        )
    assert episode.draw(3) != other_episode.draw(3) and "Proposed for right: paper." in episode.described(None)
    keys = set()
    for texts in (("a/b", "c"), ("a", "b/c"), ("a b", "c"), ("'a'", "b/c"), ("a", "b", "c")):
        episode, _, proposer = play_until_speech(count=4)
        for text in texts:
            episode.step({proposer: text})
        keys.add(episode.observe(proposer).key)
    assert len(keys) == 5
    episode, speaker, proposer = play_until_speech(count=1)
    idle = next(
        seat for seat in range(episode.rules.num_seats) if seat != proposer and episode.inner_seat(seat) != seat
    )
    assert episode.observe(proposer).ask.endswith("Propose an action.") and episode.observe(idle).ask == ""
    assert "propose" not in episode.observe(idle).key
    episode.step({proposer: "p2 is a wolf"})
    assert episode.due() == (speaker,) and episode.observe(proposer).ask == ""


def play_until_speech(**options):
    """Return an episode of Werewolf in free text before a speech, with the speaking seat and its proposer."""
    episode = new_play(WOLVES, **options)
    while episode.play.position.phase != "speak":
        episode.step({seat: episode.legal(seat)[0] for seat in episode.due()})
    (proposer,) = episode.due()
    return episode, episode.inner_seat(proposer), proposer


def test_free_text_candidates_are_cleaned_and_truncated():
    episode, speaker, proposer = play_until_speech(count=3)
    assert episode.legal(proposer) is None and episode.read(proposer, "p2 is\na wolf") == "p2 is a wolf"
    assert episode.observe(proposer).ask.endswith("Propose an action.")
    for text in (
        "p2 is\na wolf",
        "I am the seer.\n2. p1 is a wolf",
        "p2 \u200bis a  wolf",
    ):  # the first and third are equal once cleaned: two candidates remain
        episode.step({proposer: episode.read(proposer, text)})
    assert episode.due() == (speaker,) and episode.legal(speaker) == ("1", "2")
    assert sorted(episode.candidates[speaker]) == ["I am the seer. 2. p1 is a wolf", "p2 is a wolf"]
    observation = episode.observe(speaker)
    assert "2. p1 is a wolf" not in observation.text.splitlines()  # a candidate stays on one line
    number = episode.candidates[speaker].index("p2 is a wolf") + 1
    episode.step({speaker: str(number)})
    assert episode.play.position.events[-1].word == "p2 is a wolf"
    assert "What was chosen: p2 is" in episode.observe(proposer).text
    episode, speaker, proposer = play_until_speech(count=2, diverse=False, shuffle=False)
    play_replies(episode, {proposer: "b"}, {proposer: "a"})
    assert episode.candidates[speaker] == ("b", "a")
    episode, speaker, proposer = play_until_speech(count=2, shuffle=False)
    limit = WOLVES["options"].get("limit", 300)
    for text in ("\u200b \n", "a" * 200_000):
        episode.step({proposer: episode.read(proposer, text)})
    assert episode.candidates[speaker] == ("", "a" * (limit + 1))
    assert "1. (nothing)\n2. aaa" in episode.observe(speaker).text
    episode.step({speaker: "2"})
    assert episode.play.position.events[-1].word == "a" * limit


def test_figures_clones_and_earlier_versions():
    game = choose(environment=RPS, proposer="seat")
    with pytest.raises(GameError, match="no method openings"):
        enumerate_info_states(base_game(game))
    with pytest.raises(ConfigError, match="'proposals' need proposer: weights"):
        choose(proposer="seat", proposals={"rock": 1.0})
    episode = new_play(count=1)
    copy = episode.clone()
    copy.step(dict.fromkeys(copy.due(), "rock"))
    assert copy.draws == {0: ("rock",), 1: ("rock",)} and episode.draws == {}
    spec = spec_of(make_game("choose", options={"environment": RPS}))
    assert spec.version == 2 and from_spec(spec).name == "choose"
    with pytest.raises(GameError, match="version 2 here, but the record has version 1"):
        from_spec(dataclasses.replace(spec, version=1))
