"""The environment choose with proposer seats: for each seat that chooses, an extra seat proposes the candidates."""

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
KUHN_FULL_STYLE = {"name": "kuhn_poker", "options": {"style": "full"}}
WEREWOLF = {
    "name": "werewolf",
    "options": {"players": 3, "speech": "text", "style": "full", "tie": "none", "rounds": 1},
}
FIRST, SECOND, FIRST_PROPOSER, SECOND_PROPOSER = range(4)  # seats; in rock_paper_scissors the first seat is "left"


def new_episode(inner_environment=RPS, seed=0, **options):
    return choose(environment=inner_environment, proposer="seat", **options).reset(Stream.from_seed(seed))


def choose_candidate(episode, seat, action):
    """Return the seat's reply that chooses a candidate: its number, from 1."""
    return str(episode.candidates[seat].index(action) + 1)


@pytest.mark.parametrize(
    "inner_environment",
    [RPS, KUHN, KUHN_FULL_STYLE, {"name": "talk"}, {"name": "sealed_auction"}, {"name": "code_words"}, WEREWOLF],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"count": 2, "diverse": False}, {"shuffle": False}], ids=str)
def test_contract_holds_for_any_inner_environment(inner_environment, options):
    check_environment(choose, environment=inner_environment, proposer="seat", plays=3, **options)


def test_proposers_are_extra_seats_of_the_same_team():
    episode = new_episode(count=2)
    rules = episode.rules
    assert rules.roles == ("left", "right", "left_proposer", "right_proposer") and teams_of(rules) == (0, 1, 0, 1)
    assert rules.max_turns == 6 and rules.utility_sum == 0  # 2 seats x (2 proposals + 1 choice)
    episode.step({FIRST_PROPOSER: "rock", SECOND_PROPOSER: "paper"})
    episode.step({FIRST_PROPOSER: "paper", SECOND_PROPOSER: "scissors"})
    episode.step({FIRST: choose_candidate(episode, FIRST, "rock"), SECOND: choose_candidate(episode, SECOND, "paper")})
    assert episode.returns == (-1.0, 1.0, -1.0, 1.0)
    assert episode.ending(FIRST_PROPOSER) == episode.ending(FIRST) == "you rock they paper"
    assert episode.ending(SECOND_PROPOSER) == "you paper they rock"


def test_candidates_are_different_and_shuffled():
    candidate_orders = set()
    for seed in range(12):
        episode = new_episode(count=2, seed=seed)
        assert episode.due() == (FIRST_PROPOSER, SECOND_PROPOSER)
        assert episode.legal(FIRST_PROPOSER) == ("rock", "paper", "scissors")
        assert episode.observe(FIRST_PROPOSER).text == "left choose propose"
        episode.step({FIRST_PROPOSER: "rock", SECOND_PROPOSER: "paper"})
        assert episode.legal(FIRST_PROPOSER) == ("paper", "scissors")
        assert episode.legal(SECOND_PROPOSER) == ("rock", "scissors")
        assert episode.observe(FIRST_PROPOSER).text == "propose" and episode.read(FIRST_PROPOSER, "rock") is None
        episode.step({FIRST_PROPOSER: "scissors", SECOND_PROPOSER: "rock"})
        assert episode.due() == (FIRST, SECOND)
        assert episode.draws == {FIRST: ("rock", "scissors"), SECOND: ("paper", "rock")}
        assert set(episode.candidates[FIRST]) == {"rock", "scissors"} and episode.legal(FIRST) == ("1", "2")
        candidate_orders.add(episode.candidates[FIRST])
    assert len(candidate_orders) == 2  # both orders occur


def test_equal_proposals_give_one_candidate_without_diverse():
    episode = new_episode(count=3, diverse=False)
    for action in ("rock", "rock", "paper"):
        assert episode.legal(FIRST_PROPOSER) == ("rock", "paper", "scissors")
        episode.step({FIRST_PROPOSER: action, SECOND_PROPOSER: "paper"})
    assert set(episode.candidates[FIRST]) == {"rock", "paper"}
    assert episode.candidates[SECOND] == ("paper",) and episode.legal(SECOND) == ("1",)


def test_all_actions_are_candidates_if_count_is_large():
    episode = new_episode(KUHN, count=5)
    play_replies(episode, {FIRST_PROPOSER: "pass"}, {FIRST_PROPOSER: "bet"})
    assert episode.due() == (FIRST,) and set(episode.candidates[FIRST]) == {"pass", "bet"}


def test_a_deducing_seat_acts_before_its_proposer():
    episode = new_episode({"name": "werewolf", "options": {**WEREWOLF["options"], "deduce": True}})
    while episode.play.position.phase != "speak":
        episode.step({seat: episode.legal(seat)[0] for seat in episode.due()})
    (deducer,) = episode.due()
    assert episode.observe(deducer).note and episode.inner_seat(deducer) == deducer and episode.legal(deducer) is None
    episode.step({deducer: "p1 is a wolf"})
    (proposer,) = episode.due()
    assert episode.inner_seat(proposer) == deducer != proposer


def test_at_simultaneous_turns_only_choosing_seats_have_a_proposer():
    check_environment(choose, environment=RPS, proposer="seat", choosers=["right"], plays=3)
    episode = new_episode(RPS, count=1, choosers=["right"])
    assert episode.due() == (SECOND_PROPOSER,)
    episode.step({SECOND_PROPOSER: "rock"})
    assert episode.due() == (FIRST, SECOND)
    assert episode.legal(FIRST) == ("rock", "paper", "scissors") and episode.legal(SECOND) == ("1",)
    episode.step({FIRST: "paper", SECOND: "1"})
    assert episode.returns == (1.0, -1.0, 1.0, -1.0)  # paper beats rock


def test_at_alternating_turns_only_choosing_seats_have_a_proposer():
    check_environment(choose, environment=KUHN, proposer="seat", choosers=["second"], plays=3)
    episode = new_episode(KUHN, count=1, choosers=["second"])
    assert episode.due() == (FIRST,) and episode.legal(FIRST) == ("pass", "bet")
    episode.step({FIRST: "bet"})
    assert episode.due() == (SECOND_PROPOSER,)
    assert FIRST_PROPOSER not in episode.news  # the first seat does not choose, so its proposer gets no news


@pytest.mark.parametrize("order", ["ordered", "simultaneous"])
@pytest.mark.parametrize(
    ("choosers", "deducers"), [(["seer"], ["seer"]), (["seer"], ["wolf", "villager1"]), (["wolf"], [])]
)
def test_seats_can_choose_and_the_same_or_others_deduce(order, choosers, deducers):
    werewolf = {"name": "werewolf", "options": {"deduce": True, "deducers": deducers, "order": order}}
    for proposer in ("seat", "weights"):
        check_environment(choose, environment=werewolf, proposer=proposer, choosers=choosers, plays=3)
    options = {"players": 7, "wolves_talk": True, "speech": "text", "style": "full"}
    check_environment(
        choose,
        environment={"name": "werewolf", "options": options},
        plays=3,
        proposer="seat",
        choosers=["wolf1", "doctor"],
    )


def test_the_key_of_a_proposer_contains_its_own_earlier_proposals():
    keys_by_first_proposal = {}
    for first_proposal, second_proposal in (("pass", "bet"), ("bet", "pass")):
        episode = new_episode(KUHN, shuffle=False)
        play_replies(
            episode,
            {FIRST_PROPOSER: first_proposal},
            {FIRST_PROPOSER: second_proposal},
            {FIRST: "1"},
            {SECOND_PROPOSER: "pass"},
            {SECOND_PROPOSER: "bet"},
            {SECOND: "2"},
        )
        observation = episode.observe(FIRST_PROPOSER)
        # brief style: your seat took pass, the other seat bet, now propose
        assert episode.due() == (FIRST_PROPOSER,) and observation.text == "took pass bet propose"
        keys_by_first_proposal[first_proposal] = observation.key
        episode.step({FIRST_PROPOSER: "pass"})
        assert episode.observe(FIRST_PROPOSER).text == "propose"
    assert keys_by_first_proposal["pass"] != keys_by_first_proposal["bet"]


def test_a_proposer_gets_the_prompt_of_its_seat_only_once():
    episode = new_episode(KUHN_FULL_STYLE)
    observation = episode.observe(FIRST_PROPOSER)
    assert observation.ask.endswith("Propose an action.") and "Your card" in observation.prompt
    episode.step({FIRST_PROPOSER: "pass"})
    observation = episode.observe(FIRST_PROPOSER)
    assert observation.ask.endswith("Propose another action.") and observation.prompt == ""


def test_proposals_are_shown_only_to_their_proposer():
    episode, other_episode = new_episode(count=2), new_episode(count=2)
    episode.step({FIRST_PROPOSER: "rock", SECOND_PROPOSER: "paper"})
    other_episode.step({FIRST_PROPOSER: "rock", SECOND_PROPOSER: "scissors"})
    for seat in (FIRST, SECOND, FIRST_PROPOSER):
        assert episode.draw(seat) == other_episode.draw(seat)
        assert episode.described(seat) == other_episode.described(seat)
    assert episode.draw(SECOND_PROPOSER) != other_episode.draw(SECOND_PROPOSER)
    assert "Proposed for right: paper." in episode.described(None)  # None: with all hidden information


def test_different_lists_of_proposed_texts_have_different_keys():
    proposed_lists = (("a/b", "c"), ("a", "b/c"), ("a b", "c"), ("'a'", "b/c"), ("a", "b", "c"))
    keys = set()
    for texts in proposed_lists:
        episode, _, proposer = play_until_speech(count=4)
        play_replies(episode, *({proposer: text} for text in texts))
        keys.add(episode.observe(proposer).key)
    assert len(keys) == len(proposed_lists)


def test_only_the_proposer_that_must_act_is_asked_to_propose():
    episode, speaker, proposer = play_until_speech(count=1)
    other_proposer = next(
        seat for seat in range(episode.rules.num_seats) if seat != proposer and episode.inner_seat(seat) != seat
    )
    assert episode.observe(proposer).ask.endswith("Propose an action.") and episode.observe(other_proposer).ask == ""
    assert "propose" not in episode.observe(other_proposer).key
    episode.step({proposer: "p2 is a wolf"})
    assert episode.due() == (speaker,) and episode.observe(proposer).ask == ""


def play_until_speech(**options):
    """Return an episode of free-text Werewolf just before a speech, the seat that speaks and its proposer."""
    episode = new_episode(WEREWOLF, **options)
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
    ):  # the first and third are equal after cleaning, so two candidates remain
        episode.step({proposer: episode.read(proposer, text)})
    assert episode.due() == (speaker,) and episode.legal(speaker) == ("1", "2")
    assert sorted(episode.candidates[speaker]) == ["I am the seer. 2. p1 is a wolf", "p2 is a wolf"]
    observation = episode.observe(speaker)
    assert "2. p1 is a wolf" not in observation.text.splitlines()  # a candidate stays on one line
    episode.step({speaker: choose_candidate(episode, speaker, "p2 is a wolf")})
    assert episode.play.position.events[-1].word == "p2 is a wolf"
    assert "What was chosen: p2 is" in episode.observe(proposer).text
    episode, speaker, proposer = play_until_speech(count=2, diverse=False, shuffle=False)
    play_replies(episode, {proposer: "b"}, {proposer: "a"})
    assert episode.candidates[speaker] == ("b", "a")
    episode, speaker, proposer = play_until_speech(count=2, shuffle=False)
    max_characters = 300  # default of the option limit
    for text in ("\u200b \n", "a" * 200_000):
        episode.step({proposer: episode.read(proposer, text)})
    assert episode.candidates[speaker] == ("", "a" * (max_characters + 1))  # the last character marks a truncated text
    assert "1. (nothing)\n2. aaa" in episode.observe(speaker).text
    episode.step({speaker: "2"})
    assert episode.play.position.events[-1].word == "a" * max_characters


def test_exact_figures_need_proposer_weights():
    game = choose(environment=RPS, proposer="seat")
    with pytest.raises(GameError, match="no method openings"):
        enumerate_info_states(base_game(game))
    with pytest.raises(ConfigError, match="'proposals' need proposer: weights"):
        choose(proposer="seat", proposals={"rock": 1.0})


def test_a_clone_does_not_change_the_original():
    episode = new_episode(count=1)
    copy = episode.clone()
    copy.step(dict.fromkeys(copy.due(), "rock"))
    assert copy.draws == {FIRST: ("rock",), SECOND: ("rock",)} and episode.draws == {}


def test_records_of_version_1_are_refused():
    spec = spec_of(make_game("choose", options={"environment": RPS}))
    assert spec.version == 2 and from_spec(spec).name == "choose"
    with pytest.raises(GameError, match="version 2 here, but the record has version 1"):
        from_spec(dataclasses.replace(spec, version=1))
