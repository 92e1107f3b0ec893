"""Sub-tasks with dependencies: episodes by hand, hidden information, limits, worlds and illegal input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import GameError
from sparring.environments.base import HasCounterfactual
from sparring.environments.dag_search import RESULTS, DagPlay, DagWorld, dag_search
from tests.environments.worlds import make_contract_test, make_refusal_test, play_replies

# 1 and 2 are ready at first; 3 needs both
WORLD = DagWorld((("ardan",), ("bemir", "cosol"), ("dutek",)), ("red", "blue", "gold"), ((), (), (0, 1)))


def new_episode(**options):
    return DagPlay(dag_search(tasks=3, **{"workers": 3, "turns": 4, **options}), WORLD)


test_environment_contract = make_contract_test(
    dag_search,
    [
        *({}, {"shape": "chain", "style": "full"}, {"shape": "independent", "handout": 0}),
        *(
            {"tasks": 12, "workers": 16, "pages": 4, "edges": 0.1},
            {"tasks": 1, "workers": 1, "slack": 3.5},
            {"worlds": 1, "edges": 1.0},
        ),
    ],
    plays=8,
)


def test_an_optimal_episode_by_hand():
    play = new_episode()
    # first wave: 1 + 2 workers + 3 turns; second wave: 1 + 1 worker + 2 turns
    assert play.limit == 6 + 4 and play.due() == (0,)
    assert (
        play.observe(0).prompt
        == "lead workers 3 left 10 task 1 takes 2 task 2 takes 3 task 3 takes 2 needs 1 2 ready 2 of 1 2"
    )
    assert play.legal(0) == ("call 1", "call 2", "call 3")
    play.step({0: "call 2"})
    assert play.due() == (1, 2) and play.critical_steps == 3 and play.legal(0) == ()
    assert play.observe(1).prompt == "worker 1 begin ardan left 4" and play.observe(1).fresh
    assert play.legal(1) == (
        *(f"open {name}" for name in ("ardan", "bemir", "cosol", "dutek")),
        *(f"note {colour}" for colour in RESULTS),
        "done",
    )
    play.step({1: "open ardan", 2: "open bemir"})
    assert play.observe(1).prompt == "page ardan result red left 3" and not play.observe(1).fresh
    assert play.observe(2).prompt == "page bemir next cosol left 3"
    play.step({1: "note red", 2: "open cosol"})
    assert play.due() == (2,) and play.done_by == {0: 1}
    play.step({2: "note blue"})
    assert (
        play.due() == (0,) and play.observe(0).prompt == "finished 2 left 4 ready 1 of 3" and play.returns == (0.0,) * 4
    )
    play_replies(play, {0: "call 1"}, {1: "open dutek"}, {1: "note gold"})
    assert play.done and play.due() == () and play.returns == (1.0,) * 4
    figures = play.figures()
    assert {name: values[0] for name, values in figures.items() if name != "found"} == {
        "waves": 2,
        "width": 2,
        "critical_steps": 10,
        "total_steps": 5 + 2 + 3 + 2,
        "called": 3,
        "finished": 3,
        "parallel": 0.5,
        "finished_share": 1.0,
        "success": 1.0,
        "optimal_width": 2,
        "optimal_critical_steps": 10,
        "serial_critical_steps": 3 * (1 + 1) + 2 + 3 + 2,
    }
    assert figures["found"] == (0.0, 2.0, 1.0, 0.0)


def test_one_worker_more_than_needed_costs_the_last_sub_task():
    # Three are called for two sub-tasks; one step too many leaves the last sub-task a turn short.
    play = new_episode()
    play.step({0: "call 3"})
    assert play.due() == (1, 2) and play.critical_steps == 4
    play_replies(
        play,
        {1: "open ardan", 2: "open bemir"},
        {1: "note red", 2: "open cosol"},
        {2: "note blue"},
        {0: "call 1"},
        {1: "open dutek"},
    )
    assert play.done and play.critical_steps == play.limit and play.returns[0] == pytest.approx(2 / 3)
    figures = play.figures()
    assert (
        figures["called"][0] == 4
        and figures["finished_share"][0] == 2 / 4
        and figures["parallel"][0] == 1.0
        and figures["success"][0] == 0.0
    )


def test_wrong_notes_and_guesses():
    play = new_episode(slack=10.0)
    play_replies(play, {0: "call 2"}, {1: "note blue", 2: "done"})
    assert play.ready_tasks() == [0, 1] and play.observe(0).prompt.startswith("finished 0 left")
    play.step({0: "call 1"})
    for _ in range(4):
        play.step({1: "open dutek"})  # a page of another sub-task can be read as well
    assert play.due() == (0,) and play.ready_tasks() == [0, 1] and play.waves == ((1, 1), (4,))
    play.step({0: "call 1"})
    play.step({1: "note red"})  # guessed
    assert play.ready_tasks() == [1] and play.figures()["found"] == (0.0, 1.0, 0.0, 0.0)


def test_a_call_can_use_up_all_steps():
    play = new_episode(handout=10)
    play.limit = 20
    play.step({0: "call 2"})
    assert play.done and play.waves == ((0, 0),) and play.returns == (0.0,) * 4 and play.figures()["called"][0] == 2


def test_lead_and_workers_see_only_their_own_information():
    other_world = DagWorld(WORLD.pages, ("red", "pink", "grey"), WORLD.needs)
    plays = [DagPlay(dag_search(tasks=3, workers=3, turns=4), world) for world in (WORLD, other_world)]
    assert plays[0].observe(0) == plays[1].observe(0) and plays[0].draw(0) == plays[1].draw(0)
    for play in plays:
        play_replies(play, {0: "call 2"}, {1: "open ardan", 2: "open cosol"})
    assert plays[0].observe(1) == plays[1].observe(1) and plays[0].observe(2) != plays[1].observe(2)
    assert plays[0].draw(1) == plays[1].draw(1) and plays[0].draw(None) != plays[1].draw(None)
    lead_view = plays[0].draw(0), plays[0].described(0)
    plays[0].step({1: "note red", 2: "open bemir"})
    assert (plays[0].draw(0), plays[0].described(0)) == lead_view and plays[
        0
    ].done_by  # the lead gets the results after the wave
    assert plays[0].observe(3).key == "worker 3 idle" and plays[0].described(3) == "worker 3 is not at work."
    keys = set()
    for width in (1, 2):
        play = new_episode(slack=10.0, handout=0)
        play.step({0: f"call {width}"})
        play.step(dict.fromkeys(play.due(), "done"))
        keys.add(play.observe(0).key)
    assert len(keys) == 2
    play = new_episode(style="full")
    assert "for each worker" not in new_episode(style="full", handout=0).observe(0).prompt
    play.step({0: "call 2"})
    assert "Open the page of ardan" in play.observe(1).text and "note RESULT" in play.observe(1).text
    play.step({1: "open ardan", 2: "open bemir"})
    assert "The result is red" in play.observe(1).prompt and "go on at cosol" in play.observe(2).prompt


@given(st.integers(0, 10_000), st.sampled_from(["independent", "chain", "random"]), st.integers(1, 12), st.floats(0, 1))
def test_worlds_have_the_shape_of_the_option(index, shape, tasks, edges):
    rules = dag_search(tasks=tasks, shape=shape, edges=edges, pages=4)
    world = rules.start(index)
    assert world == rules.start(index) and len(set(world.names)) == len(world.names) == sum(world.turns) - tasks
    assert all(needed_task < task for task, needs in enumerate(world.needs) for needed_task in needs)
    assert all(2 <= count <= 5 for count in world.turns) and list(world.names) == sorted(world.names)
    if shape == "independent":
        assert not any(world.needs)
    if shape == "chain":
        assert world.needs == tuple((task - 1,) if task else () for task in range(tasks))


def test_step_limit_and_counterfactual_worth():
    # 2.2 times 45 is 99; in floating point it is a little more.
    needs = ((), *((task,) for task in range(7)))
    chain = DagWorld(
        (
            *(tuple(name * 2 for name in names) for names in ("abcd", "efgh", "ijkl", "mnop", "qrst", "uvwx", "ABCD")),
            ("z",),
        ),
        ("red",) * 8,
        needs,
    )
    play = DagPlay(dag_search(tasks=8, workers=1, pages=4, turns=6, slack=2.2, handout=0), chain)
    assert play.schedule.best().steps == 7 * (1 + 5) + (1 + 2) == 45 and play.limit == 99
    # Workers 1 and 2 finish a sub-task each, and the third sub-task needs both.
    play = new_episode(slack=9.0)
    assert isinstance(play, HasCounterfactual) and play.parts() == ()
    play.step({0: "call 3"})  # only two sub-tasks are ready
    assert play.parts() == (1, 2)
    play.step({1: "note red", 2: "note gold"})
    assert play.worth((1, 2)) == play.worth((1,)) == pytest.approx(1 / 3) and play.worth((2,)) == play.worth(()) == 0.0
    play_replies(play, {0: "call 1"}, {1: "note blue"}, {0: "call 2"}, {1: "note gold"})
    assert play.done and play.returns == (play.worth((1, 2)),) * 4 == (1.0,) * 4
    assert play.own_share(1) == 1.0 and play.own_share(2) == 0.0  # 3 of 3 calls; 0 of 1 call
    play.done_by = {0: 1, 1: 2, 2: 1}
    assert (
        play.worth((1,)) == pytest.approx(1 / 3)
        and play.worth((2,)) == pytest.approx(1 / 3)
        and play.worth((1, 2)) == 1.0
    )
    play.num_calls = {1: 4, 2: 1}
    assert play.own_share(1) == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("seat", "reply"), [(0, "call 4"), (0, "call 0"), (0, "call"), (1, "done"), (0, "open ardan"), (9, "call 1")]
)
def test_illegal_replies_are_refused(seat, reply):
    play = new_episode()
    with pytest.raises(GameError, match="is illegal for seat"):
        play.step({seat: reply})
    assert play.due() == (0,) and not play.waves


test_options_out_of_range_are_refused = make_refusal_test("dag_search", {"turns": 3}, by_option=True)
