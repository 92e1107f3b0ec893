import pytest

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.scheduler import scheduler
from sparring.play.players.searcher import searcher


def searched(agent, seed=0, name="wide_search", **options):
    play = make_game(name, options=options).reset(Stream.from_seed(seed))
    turns = Stream.from_seed(seed).child("turns")
    for number in range(10_000):
        if play.done:
            return play
        replies = {seat: agent.choose(play, seat, turns.child(number).child(seat)) for seat in play.due()}
        for seat, reply in replies.items():
            legal = play.legal(seat)
            assert reply in legal if legal is not None or name == "dag_search" else isinstance(reply, str)
        play.step(replies)
    raise AssertionError("it does not end")


@pytest.mark.parametrize(
    ("width", "cells", "critical"),
    [(1, 8, 2 * (1 + 6)), (2, 16, 2 * (1 + 6)), (4, 16, 2 + 6), (0, 16, 2 + 6), (8, 16, 2 + 6)],
)
def test_a_worker_of_six_turns_finds_two_rows_of_two_cells(width, cells, critical):
    """Eight rows, two waves; with all found after one wave the lead finishes."""
    play = searched(searcher(width=width), workers=4, turns=6, waves=2)
    assert sum(play.figures()["found"]) == cells
    assert play.critical_steps == critical


def test_no_faults_and_enough_turns_give_the_whole_table():
    play = searched(searcher(), workers=3, turns=40, waves=1, items=7, columns=4)
    assert play.returns == (1.0,) * 4 and play.figures()["success"] == (1.0,) * 4
    assert searched(searcher(), workers=0, turns=24).returns == (1.0,)


def test_slips_are_wrong_values_and_quits_end_calls():
    wrong = searched(searcher(slips=1.0), workers=2, turns=40, waves=1)
    assert len(wrong.notes) == 16 and wrong.figures()["found"] == (0.0,) * 3
    assert wrong.score.non_key_f1 == 0.0 and wrong.score.item_f1 == pytest.approx(1 / 3)
    gone = searched(searcher(quits=1.0), workers=2, turns=40, waves=3)
    assert not gone.notes and gone.returns[0] == 0.0 and gone.critical_steps == 6
    cells = [len(searched(searcher(slips=0.5), seed=seed, workers=1, turns=40, waves=1).notes) for seed in range(3)]
    right = [
        sum(searched(searcher(slips=0.5), seed=seed, workers=1, turns=40, waves=1).figures()["found"])
        for seed in range(20)
    ]
    assert cells == [16] * 3 and 5 < sum(right) / 20 < 11


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("search", ["names", "words"])
def test_with_slips_and_quits_at_once_both_show(style, search):
    options = {"workers": 2, "turns": 40, "waves": 1, "style": style, "search": search}
    plays = [searched(searcher(slips=0.4, quits=0.1), seed=seed, **options) for seed in range(40)]
    cells, right = sum(len(play.notes) for play in plays), sum(sum(play.figures()["found"]) for play in plays)
    assert cells < 0.8 * sum(len(searched(searcher(slips=0.4), seed=seed, **options).notes) for seed in range(40))
    assert 0.4 < right / cells < 0.8


def test_it_plays_wide_search_alone():
    play = make_game("nim").reset(Stream.from_seed(0))
    with pytest.raises(GameError, match="wide_search alone"):
        searcher().choose(play, 0, Stream.from_seed(0))


def done(agent, number=0, **options):
    return searched(agent, number, "dag_search", **options)


@pytest.mark.parametrize(
    "options", [{"shape": "independent"}, {"shape": "chain"}, {}, {"tasks": 10, "edges": 0.15, "handout": 0}]
)
def test_the_best_schedule_takes_what_the_best_takes(options):
    for number in range(20):
        play = done(scheduler(), number, **options)
        assert play.returns[0] == 1.0 and play.critical_steps == play.schedule.best().steps == play.limit


@pytest.mark.parametrize("options", [{"shape": "independent", "handout": 0}, {"shape": "chain"}])
def test_where_steps_are_many_it_is_still_the_soonest_and_narrowest(options):
    for number in range(10):
        play = done(scheduler(), number, slack=5.0, **options)
        assert play.critical_steps == play.schedule.best().steps
        if options["shape"] == "chain":
            assert {len(wave) for wave in play.waves} == {1}


@pytest.mark.parametrize(("width", "expected"), [(1, 1), (3, 3), (4, 4), (16, 4)])
def test_a_fixed_width_is_called_whatever_is_ready(width, expected):
    play = done(scheduler(width=width), shape="chain", workers=4)
    assert {len(wave) for wave in play.waves} == {expected}
    assert (play.returns[0] == 1.0) == (expected == 1)


def test_slips_finish_nothing_and_quits_end_calls():
    wrong = done(scheduler(slips=1.0))
    assert wrong.returns[0] == 0.0 and not wrong.done_by
    gone = done(scheduler(quits=1.0))
    assert not gone.done_by and all(steps <= 1 for wave in gone.waves for steps in wave)
    shares = [done(scheduler(slips=0.5), number, slack=1.0, shape="independent").returns[0] for number in range(20)]
    assert 0.1 < sum(shares) / 20 < 0.9


def test_it_plays_dag_search_alone():
    play = make_game("wide_search").reset(Stream.from_seed(0))
    with pytest.raises(GameError, match="dag_search alone"):
        scheduler().choose(play, 0, Stream.from_seed(0))
