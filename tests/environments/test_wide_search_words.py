"""Pages found by words: by hand, every page that can be found, what is read in free text, and tables as they are written."""

import sqlite3
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments import toolbox
from sparring.environments.catalogue import make_game
from sparring.environments.wide_search import WideSearchPlay, searching, wide_search
from sparring.environments.wide_search.library import RESULTS, find, library
from sparring.environments.wide_search.scoring import plain, read_table, score, written_table
from sparring.environments.wide_search.searching import SearchCall
from sparring.environments.wide_search.world import VALUES, World
from sparring.play.players.base import TextAgent
from sparring.play.players.searcher import searcher
from sparring.play.rollout import play as played
from sparring.play.spec import EpisodeSpec
from tests.environments.worlds import make_contract_test, play_replies

WORLD = World(("ardan", "bemir", "cosol"), ("colour", "size"), (("red", "tiny"), ("blue", "huge"), ("red", "tall")))
WORDS = {"search": "words", "items": 3, "workers": 2, "turns": 6, "waves": 2}
FREE = {**WORDS, "style": "full"}
WRITTEN = {"items": 3, "workers": 2, "turns": 4, "waves": 2, "answer": "written"}


def new_play(**options):
    return WideSearchPlay(wide_search(**options), WORLD)


test_it_keeps_the_contract = make_contract_test(
    wide_search,
    [
        WORDS,
        {**WORDS, "distractors": 12, "workers": 0, "turns": 30},
        {**FREE, "distractors": 3},
        WRITTEN,
        {**WRITTEN, "workers": 0, "turns": 9},
        {**WRITTEN, "critical": 4, "search": "words"},
        {**FREE, "answer": "written", "waves": 1},
    ],
    plays=6,
)


def test_searches_by_hand():
    play = new_play(**WORDS)
    play.step({0: "call 2"})
    assert play.observe(2).prompt == "worker 2 find colour size of bemir cosol left 6"
    queries = ("bemir", "cosol", "colour", "size", "bemir colour", "bemir size", "cosol colour", "cosol size")
    assert play.legal(2) == (*(f"search {words}" for words in queries), "done")
    play.step({1: "search ardan size", 2: "search colour"})
    assert play.observe(1).prompt == "found 1 ardan 2 bemir 3 cosol left 5"
    assert set(play.legal(1)) >= {"open 1", "open 3", "search ardan"} and "open 4" not in play.legal(1)
    assert not any(action.startswith("note") for action in play.legal(1))
    play.step({1: "open 1", 2: "open 1"})
    assert play.observe(1).prompt == "page ardan colour red size tiny left 4" and not play.observe(1).fresh
    notes = {f"note ardan {name} {value}" for name in WORLD.columns for value in VALUES[name]}
    assert {action for action in play.legal(1) if action.startswith("note")} == notes
    play.step({1: "note ardan colour red", 2: "note cosol colour blue"})
    assert play.observe(1).prompt == "noted left 3" and "note ardan colour red" not in play.legal(1)
    play.step({1: "done", 2: "search colour"})
    for _ in range(2):
        play.step({2: "open 1"})
    assert play.due() == (0,) and play.observe(0).prompt == "back noted 2 left 3"
    assert play.figures()["found"] == (0.0, 1.0, 0.0) and play.critical_steps == 1 + 6
    play = new_play(**FREE)
    play_replies(play, {0: "call 1"}, {1: "search xyzzy"})
    assert "Nothing was found." in play.observe(1).text and play.read(1, "open 1") is None
    assert "malformed" not in wide_search().figures and "malformed" in wide_search(answer="written").figures


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4), st.integers(0, 60), st.booleans())
def test_there_is_a_page_for_each_row_each_value_and_each_distractor(number, items, columns, distractors, brief):
    world = wide_search(items=items, columns=columns, worlds=20_000).start(number)
    pages = library(world, distractors, brief)
    lists = {value for row in world.values for value in row}
    assert len(pages) == items + len(lists) + distractors == len({page.text for page in pages})
    assert sorted(page.item for page in pages if page.item >= 0) == list(range(items))
    for page in pages:
        name, values = (world.names[page.item], world.values[page.item]) if page.item >= 0 else ("", ())
        assert name in page.text and all(value in page.text for value in values)
    numbers = find(pages, " ".join(world.names))
    assert len(numbers) == min(RESULTS, len(set(numbers))) and not find(pages, "zzzqqq")


def test_libraries():
    def missed(distractors):
        worlds = [wide_search(items=4, columns=2).start(number) for number in range(40)]
        libraries = [(world, library(world, distractors, True)) for world in worlds]
        return sum(
            item not in [pages[place].item for place in find(pages, name)]
            for world, pages in libraries
            for item, name in enumerate(world.names)
        )

    assert missed(0) < missed(4) < missed(12) and missed(40) == 160
    library.cache_clear()
    pages = library(WORLD, 5, True)
    library.cache_clear()
    assert library(WORLD, 5, True) == pages and library(WORLD, 6, True)[:10] != pages[:10]


def test_without_fts5_the_error_says_what_is_missing(monkeypatch):
    class ConnectionWithoutFts(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("no such module: fts5")

    toolbox._index.cache_clear()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ConnectionWithoutFts))
    with pytest.raises(GameError, match="SQLite with FTS5"):
        find(library(WORLD, 0, True), "ardan")
    toolbox._index.cache_clear()


def reading(**options):
    """Return a play whose first worker reads a page, with two rows of its own, one of them half noted."""
    play = new_play(**{**FREE, **options})
    play.step({0: "call 1"})
    for reply in ("search bemir colour", "open 1", "note bemir | colour | blue"):
        play.step({1: reply})
    return play


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("search ardan, please?", "search ardan, please?"),
        ("Search: red  things", "search red things"),
        ("I think.\n- **search ardan**\nopen 1", "search ardan"),
        ("open 2", "open 2"),
        ("Open #1.", "open 1"),
        ("> open 1: bemir", "open 1"),
        ("open 9\nopen 3", "open 3"),
        ("note ardan | colour | red", "note ardan | colour | red"),
        ("NOTE Bemir: SIZE = very  huge ", "note bemir | size | very huge"),
        ("note ardan size 1 | 2", "note ardan | size | 1 / 2"),
        ("note | cosol | size | `tall` |", "note cosol | size | tall"),
        ("done.", "done"),
    ],
)
def test_the_first_line_that_can_be_followed_is_the_action(reply, action):
    play = reading()
    assert play.legal(1) is None and play.read(1, reply) == action
    assert play.read(1, action) == play.read(1, action, True) == action
    play.step({1: action})


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "zzzqqq",
        "search",
        "search ?!",
        "open",
        "open 0",
        "open 4",
        "open 12345",
        "open bemir",
        "note",
        "note ardan",
        "note ardan | colour |",
        "note dutek | size | tall",
        "note bemir | colour | red",
        "note ardan | weight | 3",
        "done with that",
        "call 1",
    ],
)
def test_what_cannot_be_followed_is_no_action(reply):
    play = reading()
    assert play.read(1, reply) is None
    with pytest.raises(GameError, match="is illegal for seat 1"):
        play.step({1: reply})
    assert len(play.notes) == 1 and play.calls[1].turns == 3


def test_notes_that_are_read():
    play = new_play(**FREE)
    play.step({0: "call 1"})
    assert play.read(1, "note ardan | colour | red") is None
    assert len(play.read(1, "search " + "a b " * 1000)) <= len("search ") + searching.QUERY
    play = reading()
    assert len(play.read(1, "note ardan | colour | " + "x" * 1000)) == len("note ardan | colour | ") + searching.VALUE
    world = World(
        ("Guinea", "Guinea-Bissau", "Niger"),
        ("area", "area code"),
        (("1", "2"), ("3", "4"), ("5", "6")),
        kind="countries",
        asked="whose",
    )
    play = WideSearchPlay(wide_search(**FREE), world)
    play.calls = {1: SearchCall((0, 1, 2), 3, open=0)}
    for reply, action in (
        ("note Guinea-Bissau area code 4", "note Guinea-Bissau | area code | 4"),
        ("note guinea | area | 1", "note Guinea | area | 1"),
        ("note Guinea - area = -1", None),
        ("note Nigeria | area | 5", None),
    ):
        assert play.read(1, reply) == action


@given(st.text(max_size=60), st.sampled_from(["", "search ", "note ardan | colour | ", "note ", "open ", "done"]))
def test_whatever_is_said_is_read_as_itself_again(text, start):
    play = reading()
    action = play.read(1, start + text)
    if action is not None:
        assert "\n" not in action and play.read(1, action, True) == action
        play.step({1: action})


class OneReply(TextAgent):
    def __init__(self, reply):
        super().__init__("one reply")
        self.reply = reply

    def choose(self, state, seat, stream):
        return self.reply if seat else "call 2"


@pytest.mark.parametrize(("rule", "over"), [("random", True), ("forfeit", False)])
def test_malformed_calls_are_counted_and_cost_what_the_rule_says(rule, over):
    game = make_game("wide_search", options={**FREE, "waves": 1}, illegal={"rule": rule, "penalty": 0.25})
    root = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("a",) * 3, trained=(True,) * 3
    )
    (episode,) = played([spec], {"a": OneReply("I would rather not.")})
    turns = [turn for turn in episode.turns if turn.seat]
    assert turns and all(turn.event == "unparsable" for turn in turns) and (episode.forfeited_by is None) == over
    assert all(turn.rewards["illegal"] == -0.25 for turn in turns)
    assert all((turn.action is None) != over for turn in turns)


def test_the_table_is_asked_for_at_the_end():
    play = new_play(**WRITTEN)
    assert play.rules.max_turns == wide_search(items=3, workers=2, turns=4, waves=2).max_turns + 1
    play_replies(
        play,
        {0: "call 2"},
        {1: "open ardan", 2: "open bemir"},
        {1: "note colour red", 2: "note size huge"},
        {1: "done", 2: "done"},
    )
    assert play.observe(0).prompt == "back noted 2 left 3 ardan colour red bemir size huge"
    play_replies(play, {0: "call 1"}, {1: "open cosol"}, {1: "note size tall"}, {1: "done"})
    assert play.due() == (0,) and play.legal(0) is None and not play.done and play.returns == (0.0,) * 3
    assert play.observe(0).prompt == "back noted 3 left 3 cosol size tall write" and not play.observe(0).fresh
    play.step({0: "ardan red - ; cosol blue tall"})
    assert play.done and play.answer == {"ardan": {"colour": "red"}, "cosol": {"colour": "blue", "size": "tall"}}
    assert play.returns == (pytest.approx(2 * (4 / 6) * (4 / 9) / (4 / 6 + 4 / 9)),) * 3
    figures = play.figures()
    assert figures["malformed"] == (0.0,) * 3 and figures["found"] == (0.0, 2.0, 1.0)
    assert figures["critical_steps"][0] == 2 + 3 + 3 + 1
    play = new_play(**WRITTEN)
    play.step({0: "finish"})
    assert play.observe(0).prompt == "write" and play.due() == (0,)
    play.step({0: "none"})
    assert play.done and play.answer == {} and play.figures()["malformed"][0] == 0.0 and play.returns[0] == 0.0
    play = new_play(**{**WRITTEN, "critical": 3})
    play_replies(play, {0: "call 2"}, {1: "open ardan", 2: "open bemir"}, {1: "note colour red", 2: "note size huge"})
    assert play.observe(0).prompt == "back noted 2 left 3 ardan colour red bemir size huge write"
    play.step({0: "ardan red tiny"})
    assert play.done and play.critical_steps == 4
    play = new_play(**{**WRITTEN, "workers": 0, "turns": 3})
    for reply in ("open ardan", "note colour red", "note size tiny"):
        play.step({0: reply})
    assert play.observe(0).prompt == "write" and not play.observe(0).fresh and not play.done
    play.step({0: "ardan red tiny ; bemir blue huge ; cosol red tall"})
    assert play.done and play.returns == (1.0,) and play.critical_steps == play.total_steps == 4


def test_in_full_style_the_form_is_shown_and_a_malformed_table_scores_nothing_and_is_counted():
    play = new_play(**{**FREE, "answer": "written", "waves": 1})
    assert "that you write at the end" in play.observe(0).prompt
    play_replies(
        play, {0: "call 1"}, {1: "search ardan colour"}, {1: "open 1"}, {1: "note ardan | colour | red"}, {1: "done"}
    )
    seen = play.observe(0)
    assert "- ardan: colour red\n" in seen.prompt and seen.ask.endswith("| name | colour | size |\n| --- | --- | --- |")
    play.step({0: "ardan is red"})
    assert play.done and play.answer is None and play.returns == (0.0,) * 3
    assert play.figures()["malformed"] == (1.0,) * 3 and play.figures()["found"] == (0.0, 1.0, 0.0)
    assert "Answer" in play.draw(0) and "malformed" in play.draw(None) and "Answer" not in play.draw(1)


GOOD = "| name | colour | size |\n| --- | :-: | --- |\n| ardan | red | tiny |"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (GOOD, {"ardan": {"colour": "red", "size": "tiny"}}),
        (f"Here it is:\n```markdown\n{GOOD}\n```\nDone.", {"ardan": {"colour": "red", "size": "tiny"}}),
        ("| Size | NAME | note | colour |\n|-|-|-|-|\n| tiny | ardan | ? | |", {"ardan": {"size": "tiny"}}),
        (f"{GOOD}\n| ARDAN | blue | huge |\n| x | | |", {"ardan": {"colour": "red", "size": "tiny"}, "x": {}}),
        (f"{GOOD}\n\n| bemir | blue | huge |", {"ardan": {"colour": "red", "size": "tiny"}}),
        ("| name | colour | size |\n| --- | --- | --- |", {}),
        ("| name | colour | size |\n| ardan | red | tiny |", None),
        ("| name | colour |\n| --- | --- |\n| ardan | red |", None),
        ("| name | colour | size | size |\n|-|-|-|-|\n| ardan | red | tiny | tiny |", None),
        (f"{GOOD}\n| bemir | blue |", None),
        (f"{GOOD}\n| | blue | huge |", None),
        ("name, colour, size\nardan, red, tiny", None),
        ("", None),
    ],
)
def test_markdown_tables_are_read_or_malformed(text, rows):
    assert read_table(text, WORLD, brief=False) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("ardan red tiny ; bemir - huge", {"ardan": {"colour": "red", "size": "tiny"}, "bemir": {"size": "huge"}}),
        ("ardan red tiny ; ardan blue huge", {"ardan": {"colour": "red", "size": "tiny"}}),
        ("none", {}),
        ("ardan red", None),
        ("ardan red tiny ;", None),
        ("- red tiny", None),
        ("", None),
    ],
)
def test_brief_tables_are_read_or_malformed(text, rows):
    assert read_table(text, WORLD, brief=True) == rows


rows = st.dictionaries(
    st.sampled_from([*WORLD.names, "dutek"]),
    st.dictionaries(st.sampled_from(WORLD.columns), st.sampled_from(["red", "tiny", "big"])),
)


@given(rows, st.booleans())
def test_what_is_written_is_read_again(table, brief):
    assert read_table(written_table(table, WORLD, brief=brief), WORLD, brief=brief) == table


def test_answers_numbers_and_limits():
    play = new_play(**{**WRITTEN, "workers": 1, "turns": 30})
    play.step({0: "call 1"})
    for name, row in WORLD.rows().items():
        play.step({1: f"open {name}"})
        for column, value in row.items():
            play.step({1: f"note {column} {value}"})
    play_replies(play, {1: "done"}, {0: "finish"})
    answers = {play.sample(0, Stream.from_seed(seed)) for seed in range(50)}
    assert len(answers) > 10 and all(set(read_table(first, WORLD, brief=True)) == set(WORLD.names) for first in answers)
    assert any(score(WORLD.rows(), read_table(first, WORLD, brief=True), 2).success for first in answers)
    answers = {"Ardan": {"colour": "RED", "size": " tiny."}, "ardan ": {"colour": "blue"}}
    scores = score(WORLD.rows(), answers, 2)
    assert scores.precision == 1.0 and scores.recall == pytest.approx(3 / 9) and scores.row_f1 == pytest.approx(0.5)

    def after(*replies):
        play = new_play(**{**WORDS, "workers": 0, "critical": 2, "answer": "written"})
        for reply in replies:
            play.step({0: reply})
        return play

    first, other = after("search ardan", "open 1"), after("search bemir", "open 1")
    assert first.writing and other.writing and first.observe(0).key != other.observe(0).key


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("New  Zealand", "new zealand", True),
        ("24,383,301", "24383301", True),
        ("623.0", "623", True),
        ("1.50", "1.5", True),
        ("D.C.", "D.C", True),
        ("`red`", "red", True),
        ("1,5", "15", False),
        ("12,34", "1234", False),
        ("-5", "5", False),
        ("red", "reds", False),
        ("1000000", "1000001", False),
    ],
)
def test_cells_are_compared_by_what_they_say(first, second, same):
    assert (plain(first) == plain(second)) == same and plain(plain(first)) == plain(first)


@pytest.mark.parametrize(
    "options",
    [
        WORDS,
        FREE,
        {**FREE, "answer": "written"},
        {**WRITTEN, "search": "words"},
        {**FREE, "workers": 0, "distractors": 30, "answer": "written"},
    ],
)
def test_the_scripted_team_finds_the_whole_table(options):
    play, agent = new_play(**{**options, "turns": 40}), searcher()
    for number in range(1000):
        if play.done:
            break
        play.step({seat: agent.choose(play, seat, Stream.from_seed(number)) for seat in play.due()})
    assert play.returns[0] == 1.0
    slips = new_play(**{**options, "turns": 40})
    for number in range(1000):
        if slips.done:
            break
        slips.step({seat: searcher(slips=1.0).choose(slips, seat, Stream.from_seed(number)) for seat in slips.due()})
    assert slips.score.non_key_f1 == 0.0 and slips.score.item_f1 == pytest.approx(1 / 3)


def test_options_that_do_not_go_together_are_refused():
    with pytest.raises(ConfigError, match="search=words"):
        make_game("wide_search", options={"distractors": 3})


@pytest.mark.parametrize(
    "value", ["\u00a0/\u00a0/", "\u2003/ /\u2003/", "|\u00a0|\u00a0|", "/", "El Paso/", "\u00a0'\u00a0x"]
)
def test_a_note_that_is_read_can_be_followed(value):
    """White space of other kinds between signs: what is read must be an action, else a reply ends the run."""
    play = new_play(**{**FREE, "workers": 0, "turns": 9})
    play_replies(play, {0: play.read(0, "search ardan colour")}, {0: "open 1"})
    note = play.read(0, f"note ardan | colour | {value}")
    if note is not None:
        assert play.read(0, note, True) == note
        play.step({0: note})
        assert play.notes[0, 0] == note.rpartition("| ")[2]
        assert value != "El Paso/" or plain(play.notes[0, 0]) == plain(value)  # as a city of the airports is called


@pytest.mark.parametrize("options", [{"waves": 1}, {**WORDS, "waves": 1}])
def test_pictures_do_not_show_who_else_is_at_work(options):
    def after(reply):
        play = new_play(**{**options, "items": 3, "workers": 2, "turns": 6})
        play.step({0: "call 2"})
        play.step({1: play.legal(1)[0], 2: reply(play.legal(2))})
        return play

    works, rests = after(lambda legal: legal[0]), after(lambda legal: legal[-1])
    assert works.due() == (1, 2) and rests.due() == (1,)
    for seat in (0, 1):
        assert works.observe(seat) == rests.observe(seat)
        assert works.draw(seat) == rests.draw(seat) and works.described(seat) == rests.described(seat)


@pytest.mark.parametrize("answer", ["merged", "written"])
def test_the_lead_knows_how_many_it_has_called(answer):
    """The same news after one worker and after two: its conversation differs, so its information state does."""

    def after(width):
        play = new_play(**{**WRITTEN, "answer": answer})
        play.step({0: f"call {width}"})
        play.step(dict.fromkeys(play.due(), "done"))
        before = play.observe(0)
        play.step({0: "finish"})
        return before, play.observe(0)

    for first, second in zip(after(1), after(2), strict=True):
        assert first.prompt == second.prompt and first.key != second.key
