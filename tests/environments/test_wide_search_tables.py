"""Wide search over real tables: questions, separate banks, and missing or damaged packages."""

import re
import sys
from types import SimpleNamespace

import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.catalogue import another_bank, make_game
from sparring.environments.wide_search import WideSearchPlay, wide_search
from sparring.environments.wide_search.library import find_pages, library
from sparring.environments.wide_search.scoring import normalise_cell
from sparring.environments.wide_search.world import MIN_ROWS, READERS, _one_line, questions, table
from sparring.play.players.searcher import searcher
from sparring.testing import check_environment, check_picture
from tests.environments.worlds import play_replies

TABLE_OPTIONS = {"style": "full", "search": "words"}


@pytest.fixture
def clear_table_caches():
    """Clear the caches of tables before and after a test that replaces a package."""
    for cached_function in (table, questions):
        cached_function.cache_clear()
    yield
    for cached_function in (table, questions):
        cached_function.cache_clear()


@pytest.mark.parametrize("kind", READERS)
def test_environment_contract(kind):
    check_environment(wide_search, plays=4, tables=kind, items=5, distractors=4, **TABLE_OPTIONS)
    check_environment(
        wide_search, plays=4, tables=kind, columns=4, workers=0, turns=12, answer="written", **TABLE_OPTIONS
    )


def test_pages_and_questions():
    world = wide_search(tables="countries", items=8, **TABLE_OPTIONS).start(1)
    pages = library(world, 5, False)
    assert len(pages) == len(world.names) + 1 + 5
    distractors = [page for page in pages if page.item < 0 and world.asked not in page.title]
    assert len(distractors) == 5 and not {page.title for page in distractors} & set(world.names)
    assert all(f"- {column}: " in page.text for page in distractors for column in table("countries").columns)
    for item, name in enumerate(world.names):
        matches = [pages[index] for index in find_pages(pages, f"{name} {world.columns[0]}")]
        assert item in [page.item for page in matches]
    assert len(library(world, 1000, False)) == len(table("countries").rows) + 1
    rules = wide_search(tables="countries", items=8, workers=2, answer="written", **TABLE_OPTIONS)
    play = rules.reset(Stream.from_seed(0))
    world = play.start
    assert (
        f"A table of all countries {world.asked}, {len(world.names)} of them, has the columns {', '.join(world.columns)}"
        in play.observe(0).prompt
    )
    play.step({0: "call 1"})
    assert f"(countries {world.asked})" in play.observe(1).prompt and all(
        name in play.observe(1).prompt for name in world.names
    )
    play_replies(play, {1: "done"}, {0: "finish"})
    assert f"| {world.key} | {' | '.join(world.columns)} |" in play.observe(0).ask
    with pytest.raises(ConfigError, match="write items=8"):
        make_game("wide_search", options={"tables": "countries", "items": 1, **TABLE_OPTIONS})
    check_picture(wide_search, plays=2, deals=4, tables="elements", items=4, turns=3, answer="written", **TABLE_OPTIONS)


@pytest.mark.parametrize(
    ("kind", "key", "facts"),
    [
        (
            "countries",
            "Austria",
            {"capital": "Vienna", "currency": "EUR", "calling code": "43", "subregion": "Western Europe"},
        ),
        ("elements", "iron", {"symbol": "Fe", "atomic number": "26", "atomic mass": "55.845", "period": "4"}),
        ("elements", "argon", {"period": "3"}),
        ("airports", "ZRH", {"city": "Zurich", "country": "CH", "ICAO code": "LSZH", "time zone": "Europe/Zurich"}),
    ],
)
def test_well_known_facts_are_in_the_tables(kind, key, facts):
    source = table(kind)
    row = dict(zip(source.columns, dict(source.rows)[key], strict=True))
    assert {name: row[name] for name in facts} == facts


@pytest.mark.parametrize("kind", READERS)
def test_cells_are_nonempty_and_fit_a_markdown_table(kind):
    source = table(kind)
    assert len(source.rows) >= MIN_ROWS and len({normalise_cell(name) for name, _ in source.rows}) == len(source.rows)
    for name, cells in source.rows:
        assert len(cells) == len(source.columns)
        assert all(cell and "|" not in cell and cell == " ".join(cell.split()) for cell in (name, *cells))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("max_rows", [4, 8, 48])
def test_questions_select_exactly_their_rows(kind, max_rows):
    source = table(kind)
    filters = [question for is_other_bank in (False, True) for question in questions(kind, max_rows, is_other_bank)]
    assert len({question.text for question in filters}) == len(filters)
    columns = {source.key: [name for name, _ in source.rows]}
    columns |= {name: [row[index] for _, row in source.rows] for index, name in enumerate(source.columns)}
    rows_by_condition = {name: {} for name in columns}  # per column: (condition, value) -> rows
    for name, cells in columns.items():
        for row, cell in enumerate(cells):
            for condition in (("is", cell), ("is from", cell), ("begins with", cell[0])):
                rows_by_condition[name].setdefault(condition, []).append(row)
    for question in filters:
        assert 2 <= len(question.rows) <= max_rows and list(question.rows) == sorted(set(question.rows))
        condition = re.fullmatch(r"whose ([\w ]+?) (is|begins with|is from) (.+)", question.text)
        if range_match := re.fullmatch(r"from (\d+) to (\d+)", condition[3]):
            matching_rows = [
                row
                for row, cell in enumerate(columns[condition[1]])
                if int(range_match[1]) <= int(cell) <= int(range_match[2])
            ]
        else:
            matching_rows = rows_by_condition[condition[1]].get((condition[2], condition[3]), [])
        assert list(question.rows) == matching_rows and question.column in ("", condition[1])


@pytest.mark.parametrize("kind", READERS)
def test_training_and_evaluation_banks_use_different_filters(kind):
    game = make_game("wide_search", options={"tables": kind, "items": 8, "columns": 2, "worlds": 400, **TABLE_OPTIONS})
    evaluation_game = another_bank(game)
    assert evaluation_game.bank >= BANKS // 2 > game.bank
    training_filters, evaluation_filters = (
        {game.start(number).asked for number in range(400)} for game in (game, evaluation_game)
    )
    assert training_filters and evaluation_filters and not training_filters & evaluation_filters
    assert not set(questions(kind, 8, False)) & set(questions(kind, 8, True))


@pytest.mark.parametrize("kind", READERS)
def test_worlds_copy_their_rows_without_the_filtered_column(kind):
    rules, source = wide_search(tables=kind, items=6, columns=4, **TABLE_OPTIONS), table(kind)
    columns = set()
    for number in range(60):
        world = rules.start(number)
        assert 2 <= len(world.names) <= 6 and len(set(world.columns)) == 4
        assert not any(f"whose {column} is" in world.asked for column in world.columns)
        for name, row in world.rows().items():
            source_row = dict(zip(source.columns, dict(source.rows)[name], strict=True))
            assert row == {column: source_row[column] for column in world.columns}
        columns |= set(world.columns)
    assert len(columns) > 4


@pytest.mark.parametrize("kind", READERS)
def test_the_scripted_team_finds_the_whole_table(kind):
    for number in range(8):
        rules = wide_search(
            tables=kind, items=8, columns=3, turns=60, distractors=20, answer="written", **TABLE_OPTIONS
        )
        play, player = WideSearchPlay(rules, rules.start(number)), searcher()
        while not play.done:
            play.step({seat: player.choose(play, seat, Stream.from_seed(number)) for seat in play.due()})
        assert play.returns[0] == 1.0 and play.figures()["success"][0] == 1.0


@pytest.mark.parametrize("options", [{}, {"style": "full"}, {"search": "words"}])
def test_real_tables_need_full_style_and_word_search(options):
    with pytest.raises(ConfigError, match="write style=full and search=words"):
        make_game("wide_search", options={"tables": "countries", **options})


@pytest.mark.parametrize("kind", READERS)
def test_a_missing_package_is_named_with_its_extra(kind, monkeypatch, clear_table_caches):
    monkeypatch.setitem(sys.modules, READERS[kind][1], None)
    with pytest.raises(ConfigError, match=rf"package {READERS[kind][1]}.*sparring\[tables\]"):
        make_game("wide_search", options={"tables": kind, **TABLE_OPTIONS})


def fake_package(rows):
    return SimpleNamespace(all_countries=lambda: [SimpleNamespace(info=lambda row=row: row) for row in rows])


@pytest.mark.parametrize(
    ("package", "message"),
    [
        (SimpleNamespace(), "AttributeError"),
        (fake_package([{"capital": "Paris"}]), "KeyError: 'name'"),
        (fake_package([None]), "TypeError"),
        (fake_package([]), "gives 0 complete countries"),
        (
            fake_package([{"name": f"Land {number}", "capital": ""} for number in range(300)]),
            "gives 0 complete countries",
        ),
    ],
)
def test_a_damaged_package_is_named_with_a_remedy(package, message, monkeypatch, clear_table_caches):
    monkeypatch.setitem(sys.modules, "countryinfo", package)
    with pytest.raises(ConfigError, match=rf"package countryinfo .*{message}.*force-reinstall"):
        make_game("wide_search", options={"tables": "countries", **TABLE_OPTIONS})


def test_incomplete_rows_are_left_out_and_bars_replaced(monkeypatch, clear_table_caches):
    fields = ("capital", "population", "area", "currencies", "callingCodes", "demonym", "tld", "region", "subregion")
    rows = [{"name": f"Land {number}", **dict.fromkeys(fields, f"x|{number % 7}")} for number in range(MIN_ROWS + 2)]
    rows[3]["area"] = None
    rows[4]["currencies"] = []
    monkeypatch.setitem(sys.modules, "countryinfo", fake_package(rows))
    assert len(table("countries").rows) == MIN_ROWS and {"Land 3", "Land 4"}.isdisjoint(dict(table("countries").rows))
    assert dict(table("countries").rows)["Land 5"][0] == "x/5"
    assert _one_line([1.0, None, "a  b"]) == "1, , a b"
