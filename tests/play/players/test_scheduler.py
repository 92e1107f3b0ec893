"""The scripted lead and workers of sub-tasks: the best schedule, fixed widths, each fault alone, and where they do not play."""

import pytest

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.scheduler import scheduler


def done(agent, number=0, **options):
    """Return a play that an agent has finished alone."""
    game = make_game("dag_search", options=options)
    play, turns = game.reset(Stream.from_seed(number)), Stream.from_seed(number).child("turns")
    for moment in range(10_000):
        if play.done:
            return play
        said = {seat: agent.choose(play, seat, turns.child(moment).child(seat)) for seat in play.due()}
        assert all(reply in play.legal(seat) for seat, reply in said.items())
        play.step(said)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("options", [{"shape": "independent"}, {"shape": "chain"}, {}, {"tasks": 10, "edges": 0.15, "handout": 0}])
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
