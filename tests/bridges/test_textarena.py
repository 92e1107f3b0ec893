import copy

import pytest
import textarena as ta

from sparring.api.bridge_check import check_bridge, library_ids
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.bridges.textarena import (
    BRIEF,
    TextArenaPlay,
    known_games,
    random_text,
    stated_actions,
    textarena,
)
from sparring.environments.catalogue import make_game
from sparring.testing import check_environment


def game(name, **options):
    return make_game("textarena", options={"game": name, **options})


def begin(name, seed=0, **options):
    return game(name, **options).reset(Stream.from_seed(seed))


def play_on(play, *replies):
    for reply in replies:
        (seat,) = play.due()
        play.step({seat: reply})
    return play


SAMPLE = (
    "TicTacToe",
    "ConnectFour",
    "Nim",
    "KuhnPoker",
    "2048",
    "GuessTheNumber",
    "LiarsDice",
    "SecretMafia",
    "Snake",
    "IndianPoker",
)


@pytest.mark.parametrize("name", SAMPLE)
def test_games_keep_the_contract_of_environments(name):
    check_environment(textarena, plays=3, game=f"{name}-v0")


@pytest.mark.parametrize("name", sorted(BRIEF))
def test_brief_words_are_all_in_the_vocabulary(name):
    rules = game(f"{name}-v0", style="brief")
    check_environment(textarena, plays=10, game=f"{name}-v0", style="brief")
    words = set(rules.vocabulary())
    for seed in range(5):
        play, stream = rules.reset(Stream.from_seed(seed)), Stream.from_seed(seed)
        turns = 0
        while not play.done:
            (seat,) = play.due()
            legal = play.legal(seat)
            assert (
                set(play.observe(seat).text.split()) <= words
                and {word for text in legal for word in text.split()} <= words
            )
            play.step({seat: legal[stream.integer(turns, len(legal))]})
            turns += 1


def test_a_game_of_tic_tac_toe_is_that_of_the_library():
    play = begin("TicTacToe-v0")
    assert play.rules.roles == ("player_0", "player_1") and play.rules.zero_sum
    assert "Your goal is to win three in a row" in play.observe(0).prompt
    assert play.legal(0) == tuple(f"[{n}]" for n in range(9))
    play_on(play, "[0]", "[4]")
    assert play.legal(0) == ("[1]", "[2]", "[3]", "[5]", "[6]", "[7]", "[8]")
    assert "Your goal" not in play.observe(0).prompt and "[Player 1] [4]" in play.observe(0).prompt
    play_on(play, "[1]", "[5]", "[2]")
    assert play.done and play.returns == (1.0, -1.0) and play.figures() == {"invalid_replies": (0.0, 0.0)}


def test_brief_boards_are_words():
    play = begin("TicTacToe-v0", style="brief")
    assert play.observe(0).text == "seat0 0 1 2 3 4 5 6 7 8" and play.legal(0)[:2] == ("0", "1")
    play_on(play, "4")
    assert play.observe(1).text == "seat1 0 1 2 3 O 5 6 7 8"
    play = play_on(begin("ConnectFour-v0", style="brief"), "col 3")
    assert play.observe(1).text.split()[-7:] == [*"...X..."] and len(play.observe(1).text.split()) == 43
    assert begin("Nim-v0", style="brief").observe(0).text == "seat0 3 4 5"


def test_full_columns_and_empty_piles_are_not_legal():
    play = play_on(begin("ConnectFour-v0"), *["[col 0]"] * 6)
    assert play.legal(play.due()[0]) == tuple(f"[col {n}]" for n in range(1, 7))
    play = play_on(begin("Nim-v0"), "[0 3]")
    assert play.legal(1) == tuple(f"[{pile} {n}]" for pile, size in ((1, 4), (2, 5)) for n in range(1, size + 1))


def test_the_games_own_rule_judges_free_text_and_each_invalid_reply_is_counted_once():
    play = begin("Mastermind-v0")
    assert play.legal(0) is None
    play_on(play, "no guess")
    assert not play.done and "invalid move" in play.observe(0).prompt and play.figures() == {"invalid_replies": (1.0,)}
    play_on(play, "again none")
    assert play.done and play.figures() == {"invalid_replies": (2.0,)}


def crash(self, action):
    if action == "[crash]":
        self.state.game_state["board"] = None  # half of a move
        raise IndexError("list index out of range")
    return ORIGINAL(self, action)


ORIGINAL = None


@pytest.fixture
def crashing(monkeypatch):
    global ORIGINAL
    begin("TicTacToe-v0")
    from textarena.envs.TicTacToe.env import TicTacToeEnv

    ORIGINAL = TicTacToeEnv.step
    monkeypatch.setattr(TicTacToeEnv, "step", crash)


def test_an_exception_of_the_game_is_an_invalid_reply_and_undoes_the_half_move(crashing):
    play = play_on(begin("TicTacToe-v0"), "[0]", "[crash]")
    assert play.due() == (1,) and play.legal(1)[0] == "[1]" and play.figures()["invalid_replies"] == (0.0, 1.0)
    copied = play.clone()
    play_on(play, "[1]", "[2]")
    assert not play.done
    assert play_on(copied, "[crash]").returns == (1.0, -1.0)


def test_copies_do_not_share_state():
    play = play_on(begin("KuhnPoker-v0", seed=3))
    twin = play.clone()
    before = copy.deepcopy(twin.library.state.game_state)
    play_on(play, play.legal(play.due()[0])[0])
    assert twin.library.state.game_state == before and twin.steps == []


def test_seeds_bind_also_when_plays_are_interleaved():
    alone = begin("KuhnPoker-v0", seed=5)
    play_on(alone, "[bet]", "[call]")
    first, other = begin("KuhnPoker-v0", seed=5), begin("KuhnPoker-v0", seed=6)
    for reply in ("[bet]", "[call]"):
        play_on(first, reply)
        play_on(other, reply)
    assert alone.observe(alone.due()[0]) == first.observe(first.due()[0])


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("TicTacToo-v0", {}, UnknownNameError, "TicTacToe-v0"),
        ("Mastermind-v0", {"style": "brief"}, ConfigError, "has no brief wording"),
        ("TicTacToe-v0", {"seats": 3}, ConfigError, "number of players"),
        ("TwentyQuestions-v0", {}, ConfigError, "needs a network"),
        ("Wordle-v0", {}, ConfigError, "needs a network"),
        ("Chess-v0", {}, ConfigError, "SyntaxError"),
    ],
)
def test_games_that_cannot_be_played_are_refused(name, options, error, message):
    with pytest.raises(error, match=message):
        game(name, **options)


def test_a_game_without_a_form_of_replies_has_no_random_player(monkeypatch):
    play = begin("TicTacToe-v0")
    play.rules.entry = None
    assert play.legal(0) is None
    with pytest.raises(GameError, match=r"warmup\.updates=0 and use no random player"):
        play.sample(0, Stream.from_seed(0))


def test_endings_of_ids_are_ignored():
    assert game("TicTacToe-v0-raw").game_id == game("TicTacToe-v0-train").game_id == "TicTacToe-v0"
    assert set(known_games()) >= {name.partition("-v")[0] for name in ("TicTacToe-v0", "Nim-v0")}
    assert set(library_ids("textarena")) <= set(ta.envs.registration.ENV_REGISTRY)


def test_forms_of_replies_and_stated_lists():
    stream = Stream.from_seed(0)
    texts = {random_text("[<1-3> <a-c>]|x<+,->", stream.child(n)) for n in range(200)}
    assert texts == {f"[{n} {c}]" for n in "123" for c in "abc"} | {"x+", "x-"}
    assert stated_actions("Example [9].\nAvailable Moves: '[0]', '[1]'") == ("[0]", "[1]")
    assert stated_actions("Valid moves: [a]\nnew\nYour possible actions: '[b]', '[c 2]'") == ("[b]", "[c 2]")
    assert stated_actions("no list [1]") == ()


def test_the_check_of_a_bridge_reports_what_fails():
    rows = [row for _, _, row in check_bridge("textarena", ["TicTacToe-v0", "Chess-v0"], plays=1)]
    assert [row.conforms for row in rows] == [True, False] and rows[0].has_seeds and rows[0].has_copies
    assert rows[0].turns_per_second > 0 and "SyntaxError" in rows[1].problem and not rows[1].begins
    assert rows[1].has_seeds is None and rows[1].has_copies is None  # not tried, so unknown


def test_wrong_copies_do_not_count_against_seeds(monkeypatch):
    monkeypatch.setattr(TextArenaPlay, "clone", lambda play: TextArenaPlay(play.rules, play.seed + len(play.steps)))
    ((_, _, row),) = check_bridge("textarena", ["GuessTheNumber-v0"], plays=2)
    assert row.has_seeds is True and row.has_copies is False and not row.conforms
    assert row.problem == "equal seeds or copies give other episodes"


def test_a_game_that_would_ask_for_ever_ends_after_the_second_invalid_reply():
    play = begin("Poker-v0")
    for _ in range(2):
        seat = play.due()[0]
        play.step({seat: "zzz"})
        if play.done:
            break
    assert play.done and play.returns == tuple(-1.0 * (number == seat) for number in range(2))


def test_keys_know_the_seats_own_replies():
    first, other = (play_on(begin("GuessTheNumber-v0"), reply) for reply in ("[3]", "[2]"))
    assert first.observe(0).prompt == other.observe(0).prompt and first.observe(0).key != other.observe(0).key
