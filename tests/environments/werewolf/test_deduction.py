"""Deductions in Werewolf: when seats deduce, parsing, privacy, and figures of right guesses."""

import hashlib
import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.base import random_reply
from sparring.environments.catalogue import make_game
from sparring.environments.history_tree import tree_of
from sparring.environments.werewolf import werewolf
from sparring.environments.werewolf.deduction import (
    STANCE_FIGURES,
    parse_guesses,
    random_deduction,
    read_deduction,
)
from sparring.measure.initial_states import Starts
from sparring.measure.matches import self_plays
from sparring.play.players.random import random
from sparring.play.players.scripted import scripted
from sparring.play.players.werewolf_bot import werewolf_bot
from sparring.play.rollout import play as run_episodes
from sparring.play.spec import EpisodeSpec
from tests.environments.worlds import play_replies

ROLES = ("wolf", "seer", "villager", "villager")
ROOT = Stream.from_seed(0)


def play_at_day(**options):
    """Return an episode on day 1: wolf p1, seer p2, dead villager p3, villager p4."""
    play = werewolf(deduce=True, **options).begin((0, 1, 2, 3), ROOT)
    play.step({0: "p3", 1: "p1"})
    return play


def test_seats_deduce_before_they_speak_or_vote():
    play = play_at_day()
    assert play.due() == (0,) and play.legal(0) is None
    observation = play.observe(0)
    assert observation.note and observation.prompt == "dead p3 deduce p2 p4"  # the prompt names the players to guess
    play.step({0: "p4 villager low p2 seer high"})
    assert play.due() == (0,) and "silence" in play.legal(0)
    observation = play.observe(0)
    assert not observation.note and observation.prompt == "think p2 seer high p4 villager low say"
    play.step({0: "silence"})
    assert play.due() == (1,) and play.legal(1) is None
    for seat in (1, 3):
        play_replies(play, {seat: "p1 wolf high"}, {seat: "silence"})
    assert play.due() == (0, 1, 3) and all(play.legal(seat) is None and play.observe(seat).note for seat in play.due())
    play.step({0: "p2 seer high p4 villager high", 1: "p1 wolf high p4 villager high", 3: "p1 seer low p2 wolf low"})
    assert play.due() == (0, 1, 3) and play.legal(3) == ("p1", "p2", "abstain")
    assert play.observe(3).prompt == "think p1 seer low p2 wolf low vote"
    play.step({0: "p2", 1: "p1", 3: "p1"})
    assert play.done and play.returns == (-1.0, 1.0, 1.0, 1.0)
    play, night_actions = werewolf(deduce=True, players=5).begin((0, 1, 2, 3, 4), ROOT), {0: "p3", 1: "p1"}
    for victim in ("p3", "p4"):
        play.step({**night_actions, 0: victim})
        assert play.position.phase == "speak" and play.due() == (0,) and play.legal(0) is None
        while play.position.phase in ("speak", "vote"):
            reply = "?" if play.position.is_deducing else "silence" if play.position.phase == "speak" else "abstain"
            play.step(dict.fromkeys(play.due(), reply))
    assert play.done or play.position.round == 3
    play = werewolf(deduce=True).reset(ROOT)
    assert all(play.legal(seat) and not play.observe(seat).note for seat in play.due())


def test_deductions_are_private():
    play, plain_play = play_at_day(deducers=["seer"]), werewolf().begin((0, 1, 2, 3), ROOT)
    plain_play.step({0: "p3", 1: "p1"})
    assert (
        play.due() == plain_play.due() == (0,)
        and play.observe(0) == plain_play.observe(0)
        and play.legal(0) == plain_play.legal(0)
    )
    play.step({0: "silence"})
    plain_play.step({0: "silence"})
    assert play.due() == (1,) and play.legal(1) is None
    play.step({1: "p1 wolf high p4 seer low"})
    for each_play in (play, plain_play):
        each_play.step({1: "silence"})
        assert each_play.due() == (3,) and "silence" in each_play.legal(3)
        each_play.step({3: "silence"})
    assert (
        play.due() == (1,) and play.legal(1) is None and plain_play.due() == (0, 1, 3)
    )  # the seer deduces first, then all vote
    play.step({1: "p1 wolf high p4 seer low"})
    assert play.due() == (0, 1, 3) and all(play.observe(seat) == plain_play.observe(seat) for seat in (0, 3))
    play.step({0: "p2", 1: "p1", 3: "p1"})
    figures = play.figures()
    assert (
        play.returns[1] == 1.0
        and figures["right_roles"][1] == 0.5
        and all(map(math.isnan, (figures["right_roles"][0], figures["right_roles"][3])))
    )
    rules = {seat: play_at_day(deducers=["seer"], style="full").observe(seat).prompt for seat in (0, 1)}
    assert "you are asked what you think" not in rules[0]
    first_play, second_play = play_at_day(), play_at_day()
    first_play.step({0: "p2 villager low p4 seer low"})
    second_play.step({0: "I will not say"})
    assert (
        first_play.described(0) != second_play.described(0)
        and first_play.draw(0) != second_play.draw(0)
        and first_play.observe(0) != second_play.observe(0)
    )
    assert "Deduced by p1: p2 is a villager (low), p4 is the seer (low)." in first_play.described(0)
    assert "p4 unknown" in second_play.described(None)
    for _ in range(2):
        for seat in (1, 2, 3):
            assert first_play.observe(seat) == second_play.observe(seat)
            assert first_play.described(seat) == second_play.described(seat) and first_play.draw(
                seat
            ) == second_play.draw(seat)
        for play in (first_play, second_play):
            play.step({0: "silence"} if play.due() == (0,) else {1: "p1 wolf high p4 villager high"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deduce": True, "deducers": ["villager"]}, "villager1"),
        ({"deduce": True, "deducers": ["seer", "seer"]}, "names a role twice"),
        ({"deducers": ["seer"]}, "deduce is false"),
        ({"malformed": "illegal"}, "malformed=illegal concerns deductions, but deduce is false"),
    ],
)
def test_invalid_deduction_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        werewolf(**options)


@pytest.mark.parametrize(
    ("text", "normal_form"),
    [
        ("p2 seer high p4 villager low", "p2 seer high p4 villager low"),
        ("p4 villager low p2 seer high", "p2 seer high p4 villager low"),
        ("p2 seer high", ""),
        ("p2 seer high p4 villager", ""),
        ("p2 seer high p4 doctor low", ""),
        ("p2 seer high p4 villager sure", ""),
        ("p2 seer high p4 villager low p1 wolf low", ""),
        ("p2 seer high p4 villager low p4 wolf low", ""),
        ("p2: seer, high; p4: villager, low", ""),
        ("", ""),
    ],
)
def test_brief_deductions_are_parsed_strictly(text, normal_form):
    assert read_deduction(text, ("p2", "p4"), ROLES, True) == (normal_form or "p2 unknown p4 unknown")


@pytest.mark.parametrize(
    ("text", "normal_form"),
    [
        ("p2 seer high p4 villager low", "p2 seer high p4 villager low"),
        ("p2: werewolf, high\np4: villager, medium", "p2 wolf high p4 villager medium"),
        (
            "- **P2**: Seer (confidence: low)\n- p4 is probably a Werewolf with high confidence.",
            "p2 seer low p4 wolf high",
        ),
        (
            '{"p2": {"role": "Werewolf", "confidence": "high"}, "p4": {"role": "seer", "confidence": "low"}}',
            "p2 wolf high p4 seer low",
        ),
        ("p2 is not a werewolf. p4 is the seer", "p2 unknown p4 seer low"),
        ("p2 is a villager? No, p2 is the seer, high.", "p2 seer high p4 unknown"),
        ("p2 accuses p4, the seer.", "p2 unknown p4 seer low"),
        ("p2: doctor, high", "p2 unknown p4 unknown"),
        ("p1: seer, high", "p2 unknown p4 unknown"),
        ("xp2 seer, p22 seer, p2 seers", "p2 unknown p4 unknown"),
        ("p2 " * 60_000, "p2 unknown p4 unknown"),
    ],
)
def test_sentences_are_parsed_leniently(text, normal_form):
    assert read_deduction(text, ("p2", "p4"), ROLES, False) == normal_form


@pytest.mark.parametrize(
    ("style", "good_text", "bad_text"),
    [("brief", "p4 seer low p2 wolf high", "p2 seer"), ("full", "p2 is the seer, p4: villager", "p2 is the seer.")],
)
def test_malformed_deductions_can_be_illegal_replies(style, good_text, bad_text):
    strict_play, lenient_play = (play_at_day(malformed=malformed, style=style) for malformed in ("illegal", "noted"))
    assert lenient_play.read(0, bad_text) == bad_text and strict_play.read(0, bad_text) is None
    assert strict_play.read(0, good_text) == good_text and strict_play.read(0, bad_text, True) is None
    assert strict_play.observe(0) == lenient_play.observe(0)
    strict_play.step({0: good_text})
    assert (
        strict_play.read(0, "silence") == "silence" and strict_play.read(0, "p2 seer low p4 wolf high") is None
    )  # the seat must speak now


@pytest.mark.parametrize("inside_choose", [False, True])
def test_an_illegal_deduction_costs_the_penalty_and_is_replaced(inside_choose):
    name, options = "werewolf", {"deduce": True, "malformed": "illegal", "rounds": 1}
    if inside_choose:
        name, options = "choose", {"environment": {"name": name, "options": options}, "count": 2}
    game = make_game(name, options=options, illegal={"rule": "random", "penalty": 0.25})
    specs = [
        EpisodeSpec(game=game, episode_id=0, group_id=0, deal=ROOT, stream=ROOT, seats=("a",) * 4, trained=(True,) * 4)
    ]
    (episode,) = run_episodes(specs, {"a": scripted(preference=["p4", "silence", "0"])})
    turns = [turn for turn in episode.turns if not turn.legal_actions]
    assert turns and {turn.event for turn in turns} == {"unparsable"}
    assert all(
        read_deduction(turn.action, tuple(turn.action.split()[::3]), ROLES, True) == turn.action for turn in turns
    )
    lenient_options = (
        {**options, "environment": {"name": "werewolf", "options": {"deduce": True, "rounds": 1}}}
        if inside_choose
        else {"deduce": True, "rounds": 1}
    )
    specs = [
        replace(specs[0], game=make_game(name, options=lenient_options, illegal={"rule": "random", "penalty": 0.25}))
    ]
    (lenient_episode,) = run_episodes(specs, {"a": scripted(preference=["p4", "silence", "0"])})
    assert {turn.event for turn in lenient_episode.turns if not turn.legal_actions} == {"ok"}


def test_malformed_deductions_figures_and_full_style_prompts():
    play = play_at_day()
    play.step({0: "p2 seer"})
    assert play.observe(0).prompt == "think p2 unknown p4 unknown say" and "silence" in play.legal(0)
    for seat, text in ((0, ""), (1, "p1 wolf high p4 villager high"), (3, "p1 seer low p2 wolf low")):
        if seat:
            play.step({seat: text})
        play.step({seat: "silence"})
    play_replies(
        play, {0: "p2 seer high p4 villager low", 1: "what?", 3: "p1 wolf low p2 wolf low"}, {0: "p2", 1: "p1", 3: "p1"}
    )
    figures = play.figures()
    assert figures["malformed"] == (1, 1, 0, 0) and play.returns == (-1.0, 1.0, 1.0, 1.0)
    assert (
        figures["right_roles"][0] == 2 / 4 and figures["right_roles"][1] == 2 / 4 and figures["right_roles"][3] == 1 / 4
    )
    assert math.isnan(figures["right_roles"][2])  # this seat was killed before its first deduction
    assert figures["right_roles_seer"][1] == 1 / 2 and sum(map(math.isnan, figures["right_roles_seer"])) == 3
    assert figures["right_roles_villager"][3] == 1 / 4 and set(figures) == set(play.rules.figures)
    play = play_at_day(style="full")
    observation = play.observe(0)
    rules = werewolf(deduce=True, style="full").reset(ROOT).observe(0).prompt
    assert "Before you speak or vote you are asked what you think" in rules and observation.ask == (
        "What do you think that the others are? Write a line for each of p2, p4: PLAYER: ROLE, CONFIDENCE. A role is one of: "
        "werewolf, seer, villager. A confidence is one of: low, medium, high."
    )
    play.step({0: "p2: seer, high."})
    assert play.observe(0).prompt == "You have noted: p2 is the seer (high), p4 unknown."
    assert play.observe(0).ask.startswith("What do you say to all?")
    free_text_play = play_at_day(style="full", speech="text", limit=20)
    free_text_play.step({0: "p2: seer, high, as it speaks a great deal and says nothing"})
    assert free_text_play.num_truncated == (0, 0, 0, 0) and free_text_play.observe(0).ask.endswith(
        "Reply with your speech alone."
    )


def test_sampled_deductions_use_what_a_seat_knows():
    play = play_at_day()
    counts = Counter(random_deduction(play.position, 0, ROOT.child(number)) for number in range(900))
    assert {text.split()[1] for text in counts} == {"seer", "villager"} and all("medium" in text for text in counts)
    assert sum(count for text, count in counts.items() if text.startswith("p2 seer")) == pytest.approx(300, abs=60)
    play_replies(play, {0: ""}, {0: "silence"}, {1: ""}, {1: "silence"})
    counts = Counter(random_deduction(play.position, 3, ROOT.child(number)) for number in range(900))
    assert len(counts) == 4 and all("high" not in text for text in counts)  # p3 was killed, so it is not a wolf
    assert sum(count for text, count in counts.items() if text.startswith("p1 wolf")) == pytest.approx(450, abs=60)


def test_scripted_players_deduce():
    game = make_game("werewolf", options={"deduce": True, "rounds": 1})
    self_play = self_plays(Starts(label="all", game=game), werewolf_bot(), plays=8, stream=ROOT)
    assert 0 < self_play.figures["right_roles"].mean < 1 and self_play.figures["right_roles_wolf"].count == 8
    play, bot = play_at_day(), werewolf_bot()
    assert bot.choose(play, 0, ROOT).startswith("p2 ") and len(parse_guesses(bot.choose(play, 0, ROOT))) == 2
    with pytest.raises(GameError, match="no exact probabilities if any text is a reply"):
        bot.chances(play, 0)


def test_deductions_in_json_are_parsed():
    text = 'I think: {"p1": {"confidence": "high", "reason": "it was quiet", "role": "Werewolf"}, "P3": "seer", "p4": {"role": "x"}}'
    assert (
        read_deduction(text, ["p1", "p3", "p4"], ["wolf", "seer", "villager"], False)
        == "p1 wolf high p3 seer low p4 unknown"
    )
    for malformed_json in ("{", "}", "{}", "[1]", '{"p1": null}', '{"p1": [1]}', "{" * 1000):
        assert read_deduction(malformed_json, ["p1"], ["wolf"], False) == "p1 unknown"


def possible_deals(position, seat):
    """Yield every deal (roles by player number) that is possible given what a seat knows."""
    setup, living = position.setup, {position.places[other] for other in position.living()}
    events = position.events_of(seat)
    for deal in set(itertools.permutations(setup.roles)):
        wolves = {number for number, role in enumerate(deal) if role == "wolf"}
        num_wolves = len(wolves & living)
        if (
            deal[position.places[seat]] != setup.roles[seat]
            or not 0 < num_wolves < len(living) - num_wolves + setup.strict
        ):
            continue
        if any(
            event.kind in ("dead", "out") and event.word not in ("", deal[event.target]) for event in events
        ):  # revealed
            continue
        if setup.roles[seat] == "wolf" and wolves != {position.places[other] for other in setup.wolves}:
            continue
        if any(event.kind == "dead" and event.target in wolves for event in events):
            continue
        if all((event.target in wolves) == (event.word == "wolf") for event in events if event.kind == "look"):
            yield deal


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    players=st.sampled_from([4, 5, 6]),
    strict=st.booleans(),
    reveal=st.booleans(),
    order=st.sampled_from(["ordered", "simultaneous"]),
)
def test_sampled_deductions_are_possible_and_their_confidence_is_exact(seed, players, strict, reveal, order):
    play = werewolf(deduce=True, players=players, strict=strict, reveal=reveal, order=order).reset(
        Stream.from_seed(seed)
    )
    root_stream = Stream.from_seed(seed).child("draws")
    for moment in range(40):
        if play.done:
            break
        stream = root_stream.child(moment)
        for seat in play.due() if play.position.is_deducing else ():
            deals = list(possible_deals(play.position, seat))
            for draw_number in range(4):
                text = random_deduction(play.position, seat, stream.child(f"{seat} {draw_number}"))
                guesses, names = parse_guesses(text), [f"p{index + 1}" for index in play.position.targets(seat)]
                assert all(
                    read_deduction(text, names, play.rules.setup.roles, is_brief) == text for is_brief in (True, False)
                )
                indices = [int(guess.name[1:]) - 1 for guess in guesses]
                assert any(
                    all(deal[index] == guess.role for index, guess in zip(indices, guesses, strict=True))
                    for deal in deals
                )
                for index, guess in zip(indices, guesses, strict=True):
                    assert (guess.confidence == "high") == all(deal[index] == guess.role for deal in deals)
                    assert (guess.confidence == "low") == (len({deal[index] == "wolf" for deal in deals}) == 2)
        play.step({seat: random_reply(play, seat, play.legal(seat), stream.child(seat)) for seat in play.due()})


def test_right_roles_follow_player_numbers_and_deductions_prevent_a_tree():
    play = werewolf(deduce=True, rounds=1).begin((1, 0, 2, 3), ROOT)  # seer p1, wolf p2
    play.step({0: "p3", 1: "p2"})
    while not play.done:
        texts = {"p1": "p1 seer low", "p2": "p2 wolf low", "p4": "p4 villager low"}
        names = {seat: f"p{play.position.places[seat] + 1}" for seat in play.due()}
        action = "silence" if play.position.phase == "speak" else "abstain"
        play.step(
            {
                seat: " ".join(text for name, text in texts.items() if name != names[seat])
                if play.position.is_deducing
                else action
                for seat in names
            }
        )
    assert play.figures()["right_roles"][:2] == (1, 1) and play.figures()["right_roles"][3] == 1
    assert tree_of(werewolf(deduce=True, tie="none")) is None and tree_of(werewolf(tie="none")) is not None


@pytest.mark.parametrize(
    ("options", "digest"),
    [
        ({}, "2bfd87f7116f48ba"),
        ({"players": 7, "style": "full", "reveal": True}, "977c73003621fd6d"),
        ({"players": 6, "speech": "text", "style": "full"}, "ac2ecd320de44b69"),
    ],
)
def test_episodes_without_deductions_are_unchanged(options, digest):
    """The digests come from the code before deductions existed."""
    text = ""
    for seed in range(2):
        for bot in (random(), werewolf_bot(), werewolf_bot(style="silent"), werewolf_bot(style="accuser")):
            play, stream, lines = (
                make_game("werewolf", options=options).reset(Stream.from_seed(seed)),
                Stream.from_seed(seed).child("play"),
                [],
            )
            while not play.done:
                due = play.due()
                lines += [
                    repr((seat, tuple(play.observe(seat))[:7], play.legal(seat), play.described(seat))) for seat in due
                ]
                replies = {seat: bot.choose(play, seat, stream.child(len(lines)).child(seat)) for seat in due}
                lines.append(repr(replies))
                play.step(replies)
            text += "\n".join(
                [
                    *lines,
                    repr({name: value for name, value in play.figures().items() if name not in STANCE_FIGURES}).replace(
                        "nan", "0.0"
                    ),
                    repr(play.returns),
                ]
            )
    assert hashlib.blake2b(text.encode(), digest_size=8).hexdigest() == digest
