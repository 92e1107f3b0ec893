import pytest

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.players.scheduler import scheduler
from sparring.play.players.searcher import searcher


def play_to_end(agent, seed=0, name="wide_search", **options):
    play = make_game(name, options=options).reset(Stream.from_seed(seed))
    stream = Stream.from_seed(seed).child("turns")
    for moment in range(10_000):
        if play.done:
            return play
        replies = {seat: agent.choose(play, seat, stream.child(moment).child(seat)) for seat in play.due()}
        for seat, reply in replies.items():
            legal = play.legal(seat)
            assert reply in legal if legal is not None or name == "dag_search" else isinstance(reply, str)
        play.step(replies)
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize(
    ("width", "num_cells", "critical_steps"),
    [(1, 8, 2 * (1 + 6)), (2, 16, 2 * (1 + 6)), (4, 16, 2 + 6), (0, 16, 2 + 6), (8, 16, 2 + 6)],
)
def test_cells_and_critical_steps_by_width(width, num_cells, critical_steps):
    """Eight rows and two waves; if one wave finds all rows, the lead finishes."""
    play = play_to_end(searcher(width=width), workers=4, turns=6, waves=2)
    assert sum(play.figures()["found"]) == num_cells
    assert play.critical_steps == critical_steps


def test_without_faults_the_whole_table_is_found():
    play = play_to_end(searcher(), workers=3, turns=40, waves=1, items=7, columns=4)
    assert play.returns == (1.0,) * 4 and play.figures()["success"] == (1.0,) * 4
    assert play_to_end(searcher(), workers=0, turns=24).returns == (1.0,)


def test_slips_are_wrong_values_and_quits_end_calls():
    play_with_slips = play_to_end(searcher(slips=1.0), workers=2, turns=40, waves=1)
    assert len(play_with_slips.notes) == 16 and play_with_slips.figures()["found"] == (0.0,) * 3
    assert play_with_slips.score.non_key_f1 == 0.0 and play_with_slips.score.item_f1 == pytest.approx(1 / 3)
    play_with_quits = play_to_end(searcher(quits=1.0), workers=2, turns=40, waves=3)
    assert not play_with_quits.notes and play_with_quits.returns[0] == 0.0 and play_with_quits.critical_steps == 6
    num_cells = [
        len(play_to_end(searcher(slips=0.5), seed=seed, workers=1, turns=40, waves=1).notes) for seed in range(3)
    ]
    num_right = [
        sum(play_to_end(searcher(slips=0.5), seed=seed, workers=1, turns=40, waves=1).figures()["found"])
        for seed in range(20)
    ]
    assert num_cells == [16] * 3 and 5 < sum(num_right) / 20 < 11


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("search", ["names", "words"])
def test_slips_and_quits_can_be_combined(style, search):
    options = {"workers": 2, "turns": 40, "waves": 1, "style": style, "search": search}
    plays = [play_to_end(searcher(slips=0.4, quits=0.1), seed=seed, **options) for seed in range(40)]
    num_cells, num_right = sum(len(play.notes) for play in plays), sum(sum(play.figures()["found"]) for play in plays)
    assert num_cells < 0.8 * sum(
        len(play_to_end(searcher(slips=0.4), seed=seed, **options).notes) for seed in range(40)
    )
    assert 0.4 < num_right / num_cells < 0.8


def test_searcher_plays_only_wide_search():
    play = make_game("nim").reset(Stream.from_seed(0))
    with pytest.raises(GameError, match="only wide_search"):
        searcher().choose(play, 0, Stream.from_seed(0))


def play_dag_search(agent, seed=0, **options):
    return play_to_end(agent, seed, "dag_search", **options)


@pytest.mark.parametrize(
    "options", [{"shape": "independent"}, {"shape": "chain"}, {}, {"tasks": 10, "edges": 0.15, "handout": 0}]
)
def test_the_scheduler_needs_the_optimal_number_of_steps(options):
    for seed in range(20):
        play = play_dag_search(scheduler(), seed, **options)
        assert play.returns[0] == 1.0 and play.critical_steps == play.schedule.best().steps == play.limit


@pytest.mark.parametrize("options", [{"shape": "independent", "handout": 0}, {"shape": "chain"}])
def test_the_schedule_is_short_and_narrow_even_with_spare_steps(options):
    for seed in range(10):
        play = play_dag_search(scheduler(), seed, slack=5.0, **options)
        assert play.critical_steps == play.schedule.best().steps
        if options["shape"] == "chain":
            assert {len(wave) for wave in play.waves} == {1}


@pytest.mark.parametrize(("width", "num_workers"), [(1, 1), (3, 3), (4, 4), (16, 4)])
def test_a_fixed_width_calls_that_many_workers(width, num_workers):
    play = play_dag_search(scheduler(width=width), shape="chain", workers=4)
    assert {len(wave) for wave in play.waves} == {num_workers}
    assert (play.returns[0] == 1.0) == (num_workers == 1)


def test_slips_finish_nothing_and_quits_end_calls():
    play_with_slips = play_dag_search(scheduler(slips=1.0))
    assert play_with_slips.returns[0] == 0.0 and not play_with_slips.done_by
    play_with_quits = play_dag_search(scheduler(quits=1.0))
    assert not play_with_quits.done_by and all(steps <= 1 for wave in play_with_quits.waves for steps in wave)
    shares = [
        play_dag_search(scheduler(slips=0.5), seed, slack=1.0, shape="independent").returns[0] for seed in range(20)
    ]
    assert 0.1 < sum(shares) / 20 < 0.9


def test_scheduler_plays_only_dag_search():
    play = make_game("wide_search").reset(Stream.from_seed(0))
    with pytest.raises(GameError, match="only dag_search"):
        scheduler().choose(play, 0, Stream.from_seed(0))
