"""Every environment has a picture that is safe HTML and hides private information of other seats."""

from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.drawing.canvas import THEMES
from sparring.environments.drawing.pieces import describe_play, draw_play
from sparring.testing import check_picture, check_svg
from tests.cases import every_case

# first the options whose random deals often look equal to a seat, then long episodes and large boards
OPTIONS = {
    "bargain": [{"kinds": 2, "most": 2, "total": 4, "scenarios": 5}, {"style": "full", "messages": 40}],
    "choose": [
        {"environment": {"name": "kuhn_poker"}},
        {"environment": {"name": "sealed_auction"}, "diverse": False},
        {"proposer": "seat"},
    ],
    "code_words": [{"words": 2}, {"words": 6, "style": "full"}],
    "hanabi": [{}, {"size": "simple", "players": 4}],
    "kuhn_poker": [{}, {"players": 3}],
    "leduc_poker": [{"players": 3}],
    "liars_dice": [{}, {"dice": 5, "sides": 10}],
    "lookups": [{"things": 1, "terms": 1, "libraries": 40, "largest": 3}, {"style": "full", "calls": 50}],
    "kuhn_rounds": [{"rounds": 3}, {"rounds": 40}],
    "mastermind": [{}, {"pegs": 4, "colours": 6, "guesses": 12}],
    "minesweeper": [{}, {"rows": 8, "columns": 8, "mines": 9, "flags": True}],
    "ordinal_2x2": [{"game": "prisoners_dilemma"}],
    "repeated": [{"environment": {"name": "sealed_auction", "options": {"largest": 2}}}, {}, {"rounds": 30}],
    "repeated_dilemma": [{"rounds": 3}, {"rounds": 6}, {"rounds": 60, "told": False}],
    "sealed_auction": [{"seats": 3, "largest": 2}],
    "signalling": [{"types": 3, "rounds": 2}],
    "simple_negotiation": [{"values": "drawn", "turns": 6}, {"values": "drawn", "turns": 100}],
    "sudoku": [{}, {"size": 9, "blanks": 20, "wrong": "continues"}],
    "talk": [{}, {"environment": {"name": "kuhn_poker"}}],
    "tools": [{"environment": {"name": "kuhn_poker"}}, {"style": "full"}],
    "trial": [{"environment": {"name": "kuhn_poker"}, "carry": ("second",)}, {"attempts": 20}],
    "twenty_questions": [{"tables": 1}, {"objects": 32, "attributes": 5, "values": 4}],
    "urn": [{"sets": 1}],
    "werewolf": [
        {"players": 3, "say": ["result"], "rounds": 1},
        {"rounds": 1, "deduce": True},
        {"players": 9, "reveal": True, "order": "simultaneous", "wolves_talk": True},
    ],
    "word_problems": [{"problems": 1}, {"steps": 5, "largest": 100, "style": "full"}],
    "zebra": [{"puzzles": 4, "wrong": "continues"}],
}
LARGE = [(name, options) for name, options_list in OPTIONS.items() for options in options_list[1:]]


@pytest.mark.parametrize("name", registry.built_in("environments"))
def test_the_picture_of_every_environment_keeps_the_contract(name):
    function, options = registry.load("environments", name).function, OPTIONS.get(name, [{}])[0]
    num_compared = check_picture(function, plays=2, deals=24, every_seat=name != "puzzle_duel", **options)
    assert num_compared > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), LARGE, ids=map(str, LARGE))
def test_pictures_of_long_episodes_and_large_boards_keep_the_contract(name, options):
    function = registry.load("environments", name).function
    check_picture(function, plays=2, deals=4, every_seat=name != "puzzle_duel", **options)


@pytest.mark.parametrize("name", ["matrix_pd", "goofspiel", "phantom_ttt", "oware"])
def test_any_game_of_openspiel_has_a_picture(name):
    game = make_game(name)
    play, stream = game.reset(Stream.from_seed(0)), Stream.from_seed(1)
    for index in range(5):
        for seat in (None, 0, 1):
            check_svg(play.draw(seat, "dark"), name)
            assert play.described(seat).strip()
        if not play.done:
            play.step({play.seat: play.legal_actions()[stream.integer(index, len(play.legal_actions()))]})


def new_play(name, **options):
    return make_game(name, options=options).reset(Stream.from_seed(3))


def test_hidden_information_changes_only_pictures_of_those_who_know_it():
    """If information hidden from seat 0 changes, only the pictures of seat 1 and of a reader change."""
    bargain = new_play("bargain")
    scenario = bargain.table.scenario
    other_bargain = bargain.clone()
    other_bargain.table = replace(
        bargain.table, scenario=scenario._replace(values=(scenario.values[0], scenario.values[1][::-1]))
    )
    assert scenario.values[1] != scenario.values[1][::-1]
    auction = new_play("sealed_auction", seats=3)
    other_auction = auction.clone()
    other_auction.start = (auction.start[0], *(value + 1 for value in auction.start[1:]))
    for play, changed_play in ((bargain, other_bargain), (auction, other_auction)):
        assert play.draw(0) == changed_play.draw(0) and play.described(0) == changed_play.described(0)
        for seat in (None, 1):
            assert play.draw(seat) != changed_play.draw(seat) and play.described(seat) != changed_play.described(seat)


def test_a_solution_is_not_shown_to_the_seat_that_looks_for_it():
    needle = new_play("needle_chain")
    assert ">needle<" in needle.draw(None) and ">needle<" not in needle.draw(0)
    zebra = new_play("zebra", wrong="continues")
    assert zebra.draw(0).count(">?<") == 9 and ">?<" not in zebra.draw(None)
    sudoku = new_play("sudoku", wrong="continues")
    wrong_action = next(word for word in sudoku.legal_actions() if is_wrong(sudoku.table, word))
    sudoku.apply(wrong_action)
    assert "is wrong" in sudoku.described(None) and "wrong" not in sudoku.described(0)
    assert THEMES["light"]["red"] in sudoku.draw(None) and THEMES["light"]["red"] not in sudoku.draw(0)


def is_wrong(table, word):
    cell = (int(word[1]) - 1) * table.size + int(word[3]) - 1
    return table.solution[cell] != int(word[5])


def test_notes_and_earlier_attempts_are_shown_only_to_seats_that_remember():
    play = new_play("trial", carry=("left",))
    play.step({0: "rock", 1: "paper"})
    assert "paper" in play.described(0) and play.described(1) == "The attempt is over."
    play.step({0: "<i>mine</i>"})
    assert "mine" in play.draw(0) and "mine" in play.draw(None) and "paper" in play.draw(0)
    assert "mine" not in play.draw(1) + play.described(1) and "Attempt" not in play.draw(1)
    play_of_two = new_play("trial", carry=("left", "right"))
    play_of_two.step({0: "rock", 1: "paper"})
    play_of_two.step({0: "mine", 1: "theirs"})
    assert "theirs" not in play_of_two.draw(0) + play_of_two.described(0) and "theirs" in play_of_two.draw(1)


def test_the_loser_of_an_auction_is_not_shown_who_won():
    game = make_game("sealed_auction", options={"seats": 3})
    for seed in range(8):
        play = game.reset(Stream.from_seed(seed))
        play.step({0: "5", 1: "5", 2: "1"})
        assert "another seat won" in play.described(2) and ">won<" not in play.draw(2)
        assert f"{game.roles[play.winner]} won" in play.described(None)


@every_case(
    ("name", "options"),
    [
        *(
            ("battleship_hunt", {}),
            ("mastermind", {}),
            ("minesweeper", {}),
            ("urn", {"sets": 1}),
            ("twenty_questions", {"tables": 1}),
        ),
        *(("needle_chain", {}), ("signalling", {}), ("zebra", {"wrong": "continues"}), ("lookups", {}), ("hanabi", {})),
    ],
)
def test_a_reader_sees_more_than_a_seat(name, options):
    play = new_play(name, **options)
    for _ in range(2):
        play.step({seat: (play.legal(seat) or ["search x"])[0] for seat in play.due()})
        if play.done:
            break
    seat = 0 if name == "lookups" else play.game.num_seats - 1
    assert play.draw(None) != play.draw(seat) and play.described(None) != play.described(seat)


class PlayWithoutPicture:
    """A play without a picture, in which both seats reply simultaneously."""

    done, returns = False, (0.0, 0.0)

    def due(self):
        return () if self.done else (0, 1)

    def observe(self, seat):
        from sparring.core.records import Observation

        return Observation(prompt=f"secret of {seat}", key=str(seat))


def test_a_play_without_a_picture_is_drawn_as_its_prompts():
    roles = ("left", "right")
    for seat in (0, 1):
        text = draw_play(PlayWithoutPicture(), roles, seat)
        check_svg(text)
        assert f"secret of {seat}" in text and f"secret of {1 - seat}" not in text
        assert f"{roles[seat]} is told: secret of {seat}" in describe_play(PlayWithoutPicture(), roles, seat)
        assert f"secret of {1 - seat}" not in describe_play(PlayWithoutPicture(), roles, seat)
    assert "secret of 0" in draw_play(PlayWithoutPicture(), roles, None) and "secret of 1" in draw_play(
        PlayWithoutPicture(), roles, None
    )
