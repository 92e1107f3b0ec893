"""Wide search by words: searches by hand, libraries of pages, parsed actions and written tables."""

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
from sparring.environments.wide_search.library import MAX_RESULTS, find_pages, library
from sparring.environments.wide_search.scoring import format_table, normalise_cell, read_table, score_table
from sparring.environments.wide_search.searching import SearchCall
from sparring.environments.wide_search.world import VALUES, World
from sparring.play.players.base import TextAgent
from sparring.play.players.searcher import searcher
from sparring.play.rollout import play as run_episodes
from sparring.play.spec import EpisodeSpec
from tests.environments.worlds import make_contract_test, play_replies

WORLD = World(("ardan", "bemir", "cosol"), ("colour", "size"), (("red", "tiny"), ("blue", "huge"), ("red", "tall")))
WORD_SEARCH = {"search": "words", "items": 3, "workers": 2, "turns": 6, "waves": 2}
FREE_TEXT = {**WORD_SEARCH, "style": "full"}
WRITTEN_TABLE = {"items": 3, "workers": 2, "turns": 4, "waves": 2, "answer": "written"}


def new_episode(**options):
    return WideSearchPlay(wide_search(**options), WORLD)


test_environment_contract = make_contract_test(
    wide_search,
    [
        WORD_SEARCH,
        {**WORD_SEARCH, "distractors": 12, "workers": 0, "turns": 30},
        {**FREE_TEXT, "distractors": 3},
        WRITTEN_TABLE,
        {**WRITTEN_TABLE, "workers": 0, "turns": 9},
        {**WRITTEN_TABLE, "critical": 4, "search": "words"},
        {**FREE_TEXT, "answer": "written", "waves": 1},
    ],
    plays=6,
)


def test_prompts_and_legal_actions_of_a_short_search():
    play = new_episode(**WORD_SEARCH)
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
    play = new_episode(**FREE_TEXT)
    play_replies(play, {0: "call 1"}, {1: "search xyzzy"})
    assert "Nothing was found." in play.observe(1).text and play.read(1, "open 1") is None
    assert "malformed" not in wide_search().figures and "malformed" in wide_search(answer="written").figures


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 4), st.integers(0, 60), st.booleans())
def test_libraries_have_a_page_per_row_value_and_distractor(number, items, columns, distractors, brief):
    world = wide_search(items=items, columns=columns, worlds=20_000).start(number)
    pages = library(world, distractors, brief)
    list_values = {value for row in world.values for value in row}
    assert len(pages) == items + len(list_values) + distractors == len({page.text for page in pages})
    assert sorted(page.item for page in pages if page.item >= 0) == list(range(items))
    for page in pages:
        name, values = (world.names[page.item], world.values[page.item]) if page.item >= 0 else ("", ())
        assert name in page.text and all(value in page.text for value in values)
    page_indices = find_pages(pages, " ".join(world.names))
    assert len(page_indices) == min(MAX_RESULTS, len(set(page_indices))) and not find_pages(pages, "zzzqqq")


def test_distractors_hide_pages_and_libraries_are_deterministic():
    def num_missed(distractors):
        worlds = [wide_search(items=4, columns=2).start(number) for number in range(40)]
        libraries = [(world, library(world, distractors, True)) for world in worlds]
        return sum(
            item not in [pages[number].item for number in find_pages(pages, name)]
            for world, pages in libraries
            for item, name in enumerate(world.names)
        )

    assert num_missed(0) < num_missed(4) < num_missed(12) and num_missed(40) == 160
    library.cache_clear()
    pages = library(WORLD, 5, True)
    library.cache_clear()
    assert library(WORLD, 5, True) == pages and library(WORLD, 6, True)[:10] != pages[:10]


def test_the_error_without_fts5_names_it(monkeypatch):
    class ConnectionWithoutFts(sqlite3.Connection):
        def execute(self, *_):
            raise sqlite3.OperationalError("no such module: fts5")

    toolbox._index.cache_clear()
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=ConnectionWithoutFts))
    with pytest.raises(GameError, match="SQLite with FTS5"):
        find_pages(library(WORLD, 0, True), "ardan")
    toolbox._index.cache_clear()


def play_with_open_page(**options):
    """Return a play in which worker 1 has two rows, an open page, and one noted cell."""
    play = new_episode(**{**FREE_TEXT, **options})
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
def test_the_first_valid_line_is_the_action(reply, action):
    play = play_with_open_page()
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
def test_invalid_lines_are_no_action(reply):
    play = play_with_open_page()
    assert play.read(1, reply) is None
    with pytest.raises(GameError, match="is illegal for seat 1"):
        play.step({1: reply})
    assert len(play.notes) == 1 and play.calls[1].turns == 3


def test_notes_are_parsed_and_truncated():
    play = new_episode(**FREE_TEXT)
    play.step({0: "call 1"})
    assert play.read(1, "note ardan | colour | red") is None
    assert len(play.read(1, "search " + "a b " * 1000)) <= len("search ") + searching.MAX_QUERY_CHARS
    play = play_with_open_page()
    assert (
        len(play.read(1, "note ardan | colour | " + "x" * 1000))
        == len("note ardan | colour | ") + searching.MAX_VALUE_CHARS
    )
    world = World(
        ("Guinea", "Guinea-Bissau", "Niger"),
        ("area", "area code"),
        (("1", "2"), ("3", "4"), ("5", "6")),
        kind="countries",
        asked="whose",
    )
    play = WideSearchPlay(wide_search(**FREE_TEXT), world)
    play.calls = {1: SearchCall((0, 1, 2), 3, open_page=0)}
    for reply, action in (
        ("note Guinea-Bissau area code 4", "note Guinea-Bissau | area code | 4"),
        ("note guinea | area | 1", "note Guinea | area | 1"),
        ("note Guinea - area = -1", None),
        ("note Nigeria | area | 5", None),
    ):
        assert play.read(1, reply) == action


@given(st.text(max_size=60), st.sampled_from(["", "search ", "note ardan | colour | ", "note ", "open ", "done"]))
def test_parsing_an_action_again_gives_the_same_action(text, prefix):
    play = play_with_open_page()
    action = play.read(1, prefix + text)
    if action is not None:
        assert "\n" not in action and play.read(1, action, True) == action
        play.step({1: action})


class OneReply(TextAgent):
    def __init__(self, reply):
        super().__init__("one reply")
        self.reply = reply

    def choose(self, state, seat, stream):
        return self.reply if seat else "call 2"


@pytest.mark.parametrize(("rule", "is_continued"), [("random", True), ("forfeit", False)])
def test_unparsable_replies_cost_the_penalty_of_the_rule(rule, is_continued):
    game = make_game("wide_search", options={**FREE_TEXT, "waves": 1}, illegal={"rule": rule, "penalty": 0.25})
    root = Stream.from_seed(0)
    spec = EpisodeSpec(
        game=game, episode_id=0, group_id=0, deal=root, stream=root.child(1), seats=("a",) * 3, trained=(True,) * 3
    )
    (episode,) = run_episodes([spec], {"a": OneReply("I would rather not.")})
    turns = [turn for turn in episode.turns if turn.seat]
    assert (
        turns and all(turn.event == "unparsable" for turn in turns) and (episode.forfeited_by is None) == is_continued
    )
    assert all(turn.rewards["illegal"] == -0.25 for turn in turns)
    assert all((turn.action is None) != is_continued for turn in turns)


def test_the_lead_writes_the_table_at_the_end():
    play = new_episode(**WRITTEN_TABLE)
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
    play = new_episode(**WRITTEN_TABLE)
    play.step({0: "finish"})
    assert play.observe(0).prompt == "write" and play.due() == (0,)
    play.step({0: "none"})
    assert play.done and play.answer == {} and play.figures()["malformed"][0] == 0.0 and play.returns[0] == 0.0
    play = new_episode(**{**WRITTEN_TABLE, "critical": 3})
    play_replies(play, {0: "call 2"}, {1: "open ardan", 2: "open bemir"}, {1: "note colour red", 2: "note size huge"})
    assert play.observe(0).prompt == "back noted 2 left 3 ardan colour red bemir size huge write"
    play.step({0: "ardan red tiny"})
    assert play.done and play.critical_steps == 4
    play = new_episode(**{**WRITTEN_TABLE, "workers": 0, "turns": 3})
    for reply in ("open ardan", "note colour red", "note size tiny"):
        play.step({0: reply})
    assert play.observe(0).prompt == "write" and not play.observe(0).fresh and not play.done
    play.step({0: "ardan red tiny ; bemir blue huge ; cosol red tall"})
    assert play.done and play.returns == (1.0,) and play.critical_steps == play.total_steps == 4


def test_a_malformed_table_scores_zero_and_is_counted():
    play = new_episode(**{**FREE_TEXT, "answer": "written", "waves": 1})
    assert "that you write at the end" in play.observe(0).prompt
    play_replies(
        play, {0: "call 1"}, {1: "search ardan colour"}, {1: "open 1"}, {1: "note ardan | colour | red"}, {1: "done"}
    )
    observation = play.observe(0)
    assert "- ardan: colour red\n" in observation.prompt and observation.ask.endswith(
        "| name | colour | size |\n| --- | --- | --- |"
    )
    play.step({0: "ardan is red"})
    assert play.done and play.answer is None and play.returns == (0.0,) * 3
    assert play.figures()["malformed"] == (1.0,) * 3 and play.figures()["found"] == (0.0, 1.0, 0.0)
    assert "Answer" in play.draw(0) and "malformed" in play.draw(None) and "Answer" not in play.draw(1)


GOOD_TABLE = "| name | colour | size |\n| --- | :-: | --- |\n| ardan | red | tiny |"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (GOOD_TABLE, {"ardan": {"colour": "red", "size": "tiny"}}),
        (f"Here it is:\n```markdown\n{GOOD_TABLE}\n```\nDone.", {"ardan": {"colour": "red", "size": "tiny"}}),
        ("| Size | NAME | note | colour |\n|-|-|-|-|\n| tiny | ardan | ? | |", {"ardan": {"size": "tiny"}}),
        (f"{GOOD_TABLE}\n| ARDAN | blue | huge |\n| x | | |", {"ardan": {"colour": "red", "size": "tiny"}, "x": {}}),
        (f"{GOOD_TABLE}\n\n| bemir | blue | huge |", {"ardan": {"colour": "red", "size": "tiny"}}),
        ("| name | colour | size |\n| --- | --- | --- |", {}),
        ("| name | colour | size |\n| ardan | red | tiny |", None),
        ("| name | colour |\n| --- | --- |\n| ardan | red |", None),
        ("| name | colour | size | size |\n|-|-|-|-|\n| ardan | red | tiny | tiny |", None),
        (f"{GOOD_TABLE}\n| bemir | blue |", None),
        (f"{GOOD_TABLE}\n| | blue | huge |", None),
        ("name, colour, size\nardan, red, tiny", None),
        ("", None),
    ],
)
def test_markdown_tables_are_parsed_or_malformed(text, rows):
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
def test_brief_tables_are_parsed_or_malformed(text, rows):
    assert read_table(text, WORLD, brief=True) == rows


rows = st.dictionaries(
    st.sampled_from([*WORLD.names, "dutek"]),
    st.dictionaries(st.sampled_from(WORLD.columns), st.sampled_from(["red", "tiny", "big"])),
)


@given(rows, st.booleans())
def test_written_tables_are_parsed_unchanged(table, brief):
    assert read_table(format_table(table, WORLD, brief=brief), WORLD, brief=brief) == table


def test_sampled_tables_name_every_row_and_some_are_right():
    play = new_episode(**{**WRITTEN_TABLE, "workers": 1, "turns": 30})
    play.step({0: "call 1"})
    for name, row in WORLD.rows().items():
        play.step({1: f"open {name}"})
        for column, value in row.items():
            play.step({1: f"note {column} {value}"})
    play_replies(play, {1: "done"}, {0: "finish"})
    tables = {play.sample(0, Stream.from_seed(seed)) for seed in range(50)}
    assert len(tables) > 10 and all(set(read_table(text, WORLD, brief=True)) == set(WORLD.names) for text in tables)
    assert any(score_table(WORLD.rows(), read_table(text, WORLD, brief=True), 2).success for text in tables)


def test_a_table_is_scored_by_its_first_row_of_each_name():
    table = {"Ardan": {"colour": "RED", "size": " tiny."}, "ardan ": {"colour": "blue"}}
    scores = score_table(WORLD.rows(), table, 2)
    assert scores.precision == 1.0 and scores.recall == pytest.approx(3 / 9) and scores.row_f1 == pytest.approx(0.5)


def test_keys_of_the_lead_differ_by_earlier_actions_when_it_writes_at_the_limit():
    def play_after(*replies):
        play = new_episode(**{**WORD_SEARCH, "workers": 0, "critical": 2, "answer": "written"})
        for reply in replies:
            play.step({0: reply})
        return play

    first_play, second_play = play_after("search ardan", "open 1"), play_after("search bemir", "open 1")
    assert first_play.must_write and second_play.must_write and first_play.observe(0).key != second_play.observe(0).key


@pytest.mark.parametrize(
    ("first_cell", "second_cell", "is_equal"),
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
def test_cells_are_compared_in_normal_form(first_cell, second_cell, is_equal):
    assert (normalise_cell(first_cell) == normalise_cell(second_cell)) == is_equal and normalise_cell(
        normalise_cell(first_cell)
    ) == normalise_cell(first_cell)


@pytest.mark.parametrize(
    "options",
    [
        WORD_SEARCH,
        FREE_TEXT,
        {**FREE_TEXT, "answer": "written"},
        {**WRITTEN_TABLE, "search": "words"},
        {**FREE_TEXT, "workers": 0, "distractors": 30, "answer": "written"},
    ],
)
def test_the_scripted_team_finds_the_whole_table(options):
    play, player = new_episode(**{**options, "turns": 40}), searcher()
    for number in range(1000):
        if play.done:
            break
        play.step({seat: player.choose(play, seat, Stream.from_seed(number)) for seat in play.due()})
    assert play.returns[0] == 1.0
    faulty_play = new_episode(**{**options, "turns": 40})
    for number in range(1000):
        if faulty_play.done:
            break
        faulty_play.step(
            {
                seat: searcher(slips=1.0).choose(faulty_play, seat, Stream.from_seed(number))
                for seat in faulty_play.due()
            }
        )
    assert faulty_play.score.non_key_f1 == 0.0 and faulty_play.score.item_f1 == pytest.approx(1 / 3)


def test_distractors_without_word_search_are_refused():
    with pytest.raises(ConfigError, match="search=words"):
        make_game("wide_search", options={"distractors": 3})


@pytest.mark.parametrize(
    "value", ["\u00a0/\u00a0/", "\u2003/ /\u2003/", "|\u00a0|\u00a0|", "/", "El Paso/", "\u00a0'\u00a0x"]
)
def test_parsed_notes_are_legal_actions(value):
    """With any Unicode white space, a parsed note must be a legal action. An illegal one would end the run."""
    play = new_episode(**{**FREE_TEXT, "workers": 0, "turns": 9})
    play_replies(play, {0: play.read(0, "search ardan colour")}, {0: "open 1"})
    note = play.read(0, f"note ardan | colour | {value}")
    if note is not None:
        assert play.read(0, note, True) == note
        play.step({0: note})
        assert play.notes[0, 0] == note.rpartition("| ")[2]
        if value == "El Paso/":  # city names of some airports end in "/"
            assert normalise_cell(play.notes[0, 0]) == normalise_cell(value)


@pytest.mark.parametrize("options", [{"waves": 1}, {**WORD_SEARCH, "waves": 1}])
def test_pictures_hide_whether_other_workers_are_busy(options):
    def play_after(choose_reply):
        play = new_episode(**{**options, "items": 3, "workers": 2, "turns": 6})
        play.step({0: "call 2"})
        play.step({1: play.legal(1)[0], 2: choose_reply(play.legal(2))})
        return play

    both_busy, one_idle = play_after(lambda legal: legal[0]), play_after(lambda legal: legal[-1])
    assert both_busy.due() == (1, 2) and one_idle.due() == (1,)
    for seat in (0, 1):
        assert both_busy.observe(seat) == one_idle.observe(seat)
        assert both_busy.draw(seat) == one_idle.draw(seat) and both_busy.described(seat) == one_idle.described(seat)


@pytest.mark.parametrize("answer", ["merged", "written"])
def test_keys_of_the_lead_include_the_number_of_called_workers(answer):
    """The prompts are equal after one and two workers, but the information states must differ."""

    def observations_after(width):
        play = new_episode(**{**WRITTEN_TABLE, "answer": answer})
        play.step({0: f"call {width}"})
        play.step(dict.fromkeys(play.due(), "done"))
        first_observation = play.observe(0)
        play.step({0: "finish"})
        return first_observation, play.observe(0)

    for after_one, after_two in zip(observations_after(1), observations_after(2), strict=True):
        assert after_one.prompt == after_two.prompt and after_one.key != after_two.key
