"""Wide search: scores and episodes by hand, hidden information, illegal replies, and game trees."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.wide_search import WideSearchPlay, wide_search
from sparring.environments.wide_search.scoring import score_table
from sparring.environments.wide_search.world import VALUES, World
from sparring.measure.info_states import enumerate_info_states, exact_values
from tests.environments.worlds import make_contract_test, play_replies

WORLD = World(("ardan", "bemir", "cosol"), ("colour", "size"), (("red", "tiny"), ("blue", "huge"), ("red", "tall")))
CORRECT_ROWS = WORLD.rows()


def new_episode(**options):
    return WideSearchPlay(wide_search(items=3, **{"workers": 2, "turns": 4, "waves": 2, **options}), WORLD)


test_environment_contract = make_contract_test(
    wide_search,
    [
        {},
        {"workers": 0, "turns": 12},
        {"style": "full", "items": 3, "columns": 4},
        {"workers": 16, "items": 1, "waves": 1},
        {"critical": 5},
        {"worlds": 1},
    ],
    plays=8,
)


def test_an_episode_of_two_waves_by_hand():
    play = new_episode()
    assert play.due() == (0,) and play.legal(0) == ("call 1", "call 2", "finish")
    assert play.observe(0).prompt == "lead items 3 find colour size workers 2 waves 2"
    play.step({0: "call 2"})
    assert play.due() == (1, 2)
    assert play.observe(1) == play.observe(1) and play.observe(1).fresh
    assert play.observe(1).prompt == "worker 1 find colour size of ardan left 4"
    assert play.observe(2).prompt == "worker 2 find colour size of bemir cosol left 4"
    assert play.legal(1) == ("open ardan", "done")
    play.step({1: "open ardan", 2: "open cosol"})
    assert play.observe(1).prompt == "page ardan colour red size tiny left 3" and not play.observe(1).fresh
    assert play.legal(2) == (
        "open bemir",
        *(f"note {key} {value}" for key in ("colour", "size") for value in VALUES[key]),
        "done",
    )
    play.step({1: "note colour red", 2: "note size tall"})
    assert "note colour red" not in play.legal(1) and play.observe(1).prompt == "noted left 2"
    play.step({1: "done", 2: "note colour blue"})
    assert play.due() == (2,) and play.returns == (0.0,) * 3
    play.step({2: "done"})
    assert play.due() == (0,) and play.observe(0).prompt == "back noted 3 left 2"
    assert play.open_items() == [0, 1] and play.critical_steps == 1 + 4 and play.total_steps == 1 + 3 + 4
    play.step({0: "call 2"})
    assert play.observe(1).fresh and play.observe(1).prompt == "worker 1 find colour size of ardan left 4"
    play_replies(play, {1: "open ardan", 2: "done"}, {1: "note size tiny"}, {1: "done"})
    assert play.done and play.answer == {
        "ardan": {"colour": "red", "size": "tiny"},
        "cosol": {"colour": "blue", "size": "tall"},
    }
    # 5 cells are right (2 names and 3 values), of 6 in the answer and 9 in the world
    assert play.returns == (pytest.approx(2 * (5 / 6) * (5 / 9) / (5 / 6 + 5 / 9)),) * 3
    figures = play.figures()
    assert figures["found"] == (0.0, 2.0, 1.0) and figures["waves"][0] == 2 and figures["width"][0] == 2
    assert figures["critical_steps"][0] == 1 + 4 + 1 + 3 and figures["total_steps"][0] == 1 + 7 + 1 + 4
    # four calls; the last one noted nothing
    assert (
        figures["called"][0] == 4
        and figures["finished"][0] == 3
        and figures["finished_share"][0] == 3 / 4
        and figures["parallel"][0] == 1.0
    )


def test_a_lead_can_finish_early():
    play = new_episode(turns=2)
    play.step({0: "call 1"})
    for reply in ("open ardan", "note colour red"):
        assert play.due() == (1,)
        play.step({1: reply})
    assert play.due() == (0,)
    play.step({0: "finish"})
    assert play.done and play.due() == () and play.returns[0] == pytest.approx(2 * (2 / 3) * (2 / 9) / (2 / 3 + 2 / 9))


def test_the_limit_of_critical_steps_ends_an_episode():
    play = new_episode(critical=3)
    play_replies(play, {0: "call 2"}, {1: "open ardan", 2: "open bemir"}, {1: "note colour red", 2: "note size huge"})
    assert play.done and play.critical_steps == 3 and play.figures()["found"] == (0.0, 1.0, 1.0)


def test_a_single_seat_without_workers():
    play = new_episode(workers=0, turns=9)
    assert play.rules.roles == ("single",) and play.due() == (0,) and play.observe(0).fresh
    for name, row in CORRECT_ROWS.items():
        play.step({0: f"open {name}"})
        for column, value in row.items():
            play.step({0: f"note {column} {value}"})
    assert play.done and play.returns == (1.0,) and play.critical_steps == play.total_steps == 9


def test_scores_by_hand():
    # The answer has two of three rows, with one wrong and one missing cell, and one row that does not exist.
    scores = score_table(
        CORRECT_ROWS,
        {"ardan": {"colour": "red", "size": "huge"}, "bemir": {"size": "huge"}, "dutek": {"colour": "red"}},
        2,
    )
    assert scores.precision == pytest.approx(4 / 9) and scores.recall == pytest.approx(4 / 9)
    assert scores.item_f1 == pytest.approx(4 / 9)
    assert scores.non_key_f1 == pytest.approx(2 * (2 / 4) * (2 / 6) / (2 / 4 + 2 / 6))
    assert scores.row_f1 == scores.success == 0.0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(CORRECT_ROWS, 1.0), ({}, 0.0), ({"dutek": {"colour": "red"}}, 0.0), ({name: {} for name in CORRECT_ROWS}, 1 / 3)],
)
def test_scores_of_complete_empty_and_invented_answers(answer, expected):
    scores = score_table(CORRECT_ROWS, answer, 2)
    assert scores.item_f1 == pytest.approx(expected) and scores.success == float(expected == 1.0)


cells = st.dictionaries(st.sampled_from(["colour", "size"]), st.sampled_from(["red", "tiny", "none"]), max_size=2)


@given(st.dictionaries(st.sampled_from([*CORRECT_ROWS, "dutek", "elvor"]), cells))
def test_scores_are_shares_and_item_f1_is_the_dice_coefficient(answer):
    scores = score_table(CORRECT_ROWS, answer, 2)
    assert all(
        0.0 <= getattr(scores, name) <= 1.0
        for name in ("item_f1", "precision", "recall", "non_key_f1", "row_f1", "success")
    )
    num_right = sum(
        1 + sum(CORRECT_ROWS[key][name] == value for name, value in row.items())
        for key, row in answer.items()
        if key in CORRECT_ROWS
    )
    assert scores.item_f1 == pytest.approx(2 * num_right / (3 * len(answer) + 9))
    better_answer = {**answer, "ardan": dict(CORRECT_ROWS["ardan"])}
    assert score_table(CORRECT_ROWS, better_answer, 2).recall >= scores.recall


@given(st.integers(1, 48), st.integers(1, 16))
def test_rows_are_divided_evenly_among_workers(items, workers):
    play = wide_search(items=items, workers=workers).reset(Stream.from_seed(1))
    width = int(play.legal(0)[-2].split()[1])
    assert width == min(items, workers)
    play.step({0: f"call {width}"})
    items_by_call = [call.rows for call in play.calls.values()]
    assert sorted(item for call_items in items_by_call for item in call_items) == list(range(items))
    assert max(map(len, items_by_call)) - min(map(len, items_by_call)) <= 1 and min(map(len, items_by_call)) >= 1


def test_seats_see_only_their_own_information():
    other_world = World(WORLD.names, WORLD.columns, (WORLD.values[0], ("pink", "small"), ("gold", "giant")))
    plays = [WideSearchPlay(wide_search(items=3, workers=2, turns=4), start) for start in (WORLD, other_world)]
    for play in plays:
        play_replies(play, {0: "call 2"}, {1: "open ardan", 2: "open bemir"})
    assert plays[0].observe(1) == plays[1].observe(1) and plays[0].observe(2) != plays[1].observe(2)
    for play, other_reply in zip(plays, ("note size huge", "note size tall"), strict=True):
        play.step({1: "note colour red", 2: other_reply})
        assert play.draw(1) == plays[0].draw(1) and play.described(1) == plays[0].described(1)
    for play in plays:
        play.step({1: "done", 2: "done"})
        assert not play.observe(1).text and play.observe(1).key == "worker 1 idle"
    assert plays[0].observe(0) == plays[1].observe(0)
    assert plays[0].draw(0) == plays[1].draw(0) and plays[0].draw(None) != plays[1].draw(None)
    play = WideSearchPlay(wide_search(items=3, workers=2, style="full"), WORLD)
    assert "call N" in play.observe(0).ask and "Reply open NAME" not in play.observe(0).text
    play.step({0: "call 1"})
    assert "note colour red" in play.observe(1).text


@pytest.mark.parametrize(
    ("seat", "reply"), [(0, "call 3"), (0, "call 0"), (0, "call"), (1, "done"), (0, "note colour red"), (7, "finish")]
)
def test_illegal_replies_are_refused(seat, reply):
    play = new_episode()
    assert play.legal(seat) == ((*(f"call {width}" for width in (1, 2)), "finish") if seat == 0 else ())
    with pytest.raises(GameError, match="is illegal for seat"):
        play.step({seat: reply})
    assert play.due() == (0,) and not play.waves


def test_the_table_of_widths_in_the_docs_matches_the_scripted_team():
    from sparring.play.players.searcher import searcher

    docs_page = (Path(__file__).parents[2] / "docs" / "teams.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \| (\d+) \|$", docs_page, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8]
    for width, item_f1, non_key_f1, critical_steps, total_steps in rows:
        play = wide_search(items=8, workers=8, turns=6, waves=1).reset(Stream.from_seed(0))
        player, moment = searcher(width=int(width)), 0
        while not play.done:
            play.step({seat: player.choose(play, seat, Stream.from_seed(moment)) for seat in play.due()})
            moment += 1
        assert (f"{play.score.item_f1:.2f}", f"{play.score.non_key_f1:.2f}") == (item_f1, non_key_f1)
        assert (play.critical_steps, play.total_steps) == (int(critical_steps), int(total_steps))


def test_uniform_play_and_recall_of_world_trees():
    game = make_game(
        "wide_search", options={"items": 2, "columns": 1, "workers": 2, "turns": 2, "waves": 1, "worlds": 3}
    )
    initial_states = game.openings()
    assert [share for share, _ in initial_states] == [1 / 3] * 3
    assert {play.start for _, play in initial_states} == game.starts()
    states = enumerate_info_states(game)
    assert {query.seat for query in states.queries} == {0, 1, 2}
    assert {tuple(row) for row in states.tree.returns.tolist()} == {
        (value,) * 3 for value in (0.0, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1.0)
    }
    uniform = [np.full(len(query.legal_actions), 1 / len(query.legal_actions)) for query in states.queries]
    probabilities = np.array(
        [0.0, 1 / 2 * 7 / 9, 1 / 2 * 1 / 9]
    )  # P(open no page; note a wrong value; note the right value)
    probabilities[0] = 1 - probabilities.sum()
    return_of_two_workers = sum(
        probabilities[row] * probabilities[other_row] * expected_item_f1(row, other_row)
        for row in range(3)
        for other_row in range(3)
    )
    return_of_one_worker = (
        2 / 3 * (7 / 10 * expected_item_f1(1, 0) + 1 / 10 * expected_item_f1(2, 0))
    )  # a worker with two rows may open the other page instead
    assert exact_values(states, uniform).returns[0] == pytest.approx(
        (return_of_two_workers + return_of_one_worker) / 3
    )  # call 1, call 2 or finish
    with pytest.raises(TooLargeError, match=r"at most 1000 worlds and the bank has 100,000; write worlds: 4"):
        enumerate_info_states(make_game("wide_search"))
    game = make_game(
        "wide_search", options={"items": 2, "columns": 1, "workers": 1, "turns": 2, "waves": 2, "worlds": 1}
    )
    with pytest.raises(GameError, match="breaks perfect recall"):
        enumerate_info_states(game)


def expected_item_f1(first_cells, second_cells):
    """Return item F1 of two rows with one cell each: 0 no row, 1 only the name is right, 2 name and cell."""
    num_cells, num_right = 2 * ((first_cells > 0) + (second_cells > 0)), first_cells + second_cells
    return 2 * num_right / (num_cells + 4) if num_cells else 0.0
