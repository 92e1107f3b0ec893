"""The solver of sokoban against exhaustive search and by hand; rooms that it cannot judge."""

import pytest

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.sokoban import distances as distances_module
from sparring.environments.sokoban import room_of
from sparring.environments.sokoban import solver as solver_module
from tests.cases import every_case
from tests.environments.worlds import constraint_oracle, make_game_factory
from tests.methods.oracles.positions import random_states

CORRIDOR = "@-$-."
game = make_game_factory("sokoban")


def judge_room(room, *words, judge=None, **options):
    state = game(room=room, **options).reset(Stream.from_seed(0))
    for word in words:
        state.apply(word)
    return (judge or constraint_oracle()).judge([state])[0]


def search_best_play(table, cache):
    """Return (return, moves) of best play by exhaustive search; moves is None if the room stays unsolved."""
    if table.player < 0:
        return table.returns()[0], len(table.moves) if table.solved else None
    key = table.room, table.agent, table.boxes, len(table.moves)
    if key not in cache:
        outcomes = [search_best_play(table.after(index), cache) for index in table.legal()]
        lengths = [length for _, length in outcomes if length is not None]
        cache[key] = max(value for value, _ in outcomes), min(lengths, default=None)
    return cache[key]


ROOMS = [
    {"boxes": 1, "walls": 3, "shortest": 1, "longest": 6, "moves": 7},
    {"boxes": 2, "walls": 2, "shortest": 1, "longest": 7, "moves": 7},
    {"boxes": 3, "walls": 4, "shortest": 1, "longest": 6, "moves": 6},
]


@every_case("blocked", ["illegal", "waits"])
@every_case("pay", ["solved", "share"])
@every_case("cost", [0.0, 0.03])
@every_case("room", ROOMS, ids=lambda room: f"{room['boxes']}-boxes", parts=2)
def test_values_and_best_moves_match_exhaustive_search(room, pay, blocked, cost):
    states = random_states(game(**room, pay=pay, blocked=blocked, cost=cost), number=12)
    num_solvable, num_mistakes, cache = 0, 0, {}
    for state, judgement, forced_judgement in zip(
        states, constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), strict=True
    ):
        table = state.spiel.table
        outcomes = dict(
            zip(
                state.legal_actions(),
                (search_best_play(table.after(index), cache) for index in table.legal()),
                strict=True,
            )
        )
        solving_moves = {word for word, (_, length) in outcomes.items() if length is not None}
        if judgement is None:
            assert forced_judgement is None and not solving_moves and pay == "solved"
            assert {value for value, _ in outcomes.values()} == {-cost * table.options.moves}
            num_mistakes += 1
            continue
        num_solvable += bool(solving_moves)
        num_mistakes += len(solving_moves) < len(outcomes)
        assert judgement.values == forced_judgement.values == pytest.approx([value for value, _ in outcomes.values()])
        assert (judgement.certainty, judgement.bound, judgement.entropy) == (1.0, 0.0, None)
        if solving_moves:
            fewest_moves = min(outcomes[word][1] for word in solving_moves)
            assert judgement.best == solving_moves and forced_judgement.best == {
                word for word in solving_moves if outcomes[word][1] == fewest_moves
            }
        else:
            best_value = max(value for value, _ in outcomes.values())
            assert (
                judgement.best
                == forced_judgement.best
                == {word for word, (value, _) in outcomes.items() if value > best_value - 1e-9}
            )
    assert num_solvable > 2 and num_mistakes > 2


def test_values_by_hand_and_states_that_cannot_be_judged():
    judgement = judge_room(CORRIDOR, moves=5)  # 3 moves solve it
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"right": 1.0} and judgement.best == {"right"}
    assert judge_room(CORRIDOR, "right", moves=5).best == {
        "left",
        "right",
    }  # back and forth costs 2, and 2 are to spare
    assert judge_room(CORRIDOR, "right", moves=4).best == {"right"}
    assert judge_room(CORRIDOR, "right", moves=5, judge=constraint_oracle(right="forced")).best == {"right"}
    judgement = judge_room("@-$-./-----", "right", moves=4, cost=0.1, blocked="waits")
    assert judgement.actions == ("down", "left", "right", "up") and judgement.values == pytest.approx(
        (-0.4, -0.4, 0.7, 0.6)
    )
    assert judgement.best == {"right", "up"}  # up waits, and keeps a solution
    room, judge = "----/-$--/-@.-/----", constraint_oracle(lost="solution")
    assert judge_room(room, "up") is None and judge_room(room, "up", judge=judge) is None  # along the wall
    assert judge.metrics["abstained"] == 1 and judge.metrics["judged"] == 1
    words = ("right", "left")
    assert judge_room(CORRIDOR, *words, moves=4) is None
    judgement = judge_room(CORRIDOR, *words, "right", moves=4, cost=0.1, judge=constraint_oracle(lost="solution"))
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"left": 0.0, "right": 1.0}
    assert judgement.best == {"right"} and judgement.bound == pytest.approx(1.4) and judgement.certainty == 1.0
    room = "-@$.-/--$.-/-----"
    judgement = judge_room(
        room, "left", "down", "right", "right", moves=5, pay="share"
    )  # the lower box is home, the upper 3 moves away
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"down": 0.5, "left": 0.5, "right": 0.0}
    assert judgement.best == {"down", "left"} and judgement.bound == 0.0
    environment, judge = game(room="@$."), solver_module.sokoban
    state = environment.reset(Stream.from_seed(0))
    with pytest.raises(OracleError, match="no solver 'z3'"):
        judge(state, right="solution", lost="abstain", solver="z3")
    state.apply("right")
    with pytest.raises(OracleError, match="is finished"):
        judge(state)
    with pytest.raises(OracleError, match="waits for chance"):
        judge(environment.state_of(environment.spiel.new_initial_state()))
    with pytest.raises(OracleError, match="state of 'sudoku'"):
        judge(make_game("sudoku").reset(Stream.from_seed(0)))


def test_a_room_over_the_budget_is_abstained_on_and_counted(monkeypatch):
    monkeypatch.setattr(solver_module, "MAX_POSITIONS", 19)
    solver_module.solutions.cache_clear()
    judge = constraint_oracle()
    assert judge_room(CORRIDOR, judge=judge) is None  # 5 * 4 positions
    assert judge.metrics["abstained"] == 1
    monkeypatch.setattr(solver_module, "MAX_POSITIONS", 20)
    solver_module.solutions.cache_clear()
    assert judge_room(CORRIDOR) is not None
    solver_module.solutions.cache_clear()


@pytest.mark.parametrize("boxes", [1, 2])
def test_both_search_methods_give_the_same_distances(boxes, monkeypatch):
    for index in range(20):
        floor = room_of(5, 5, boxes, 5, 3, 8, 0, index).floor
        monkeypatch.setattr(distances_module, "MAX_LOOP_POSITIONS", 10**9)
        by_loop = distances_module.distances(floor, boxes, boxes, 10**6)
        monkeypatch.setattr(distances_module, "MAX_LOOP_POSITIONS", 0)
        by_arrays = distances_module.distances(floor, boxes, boxes, 10**6)
        assert by_loop.keys.tolist() == by_arrays.keys.tolist() and by_loop.moves.tolist() == by_arrays.moves.tolist()
        assert by_loop.keys.dtype == by_arrays.keys.dtype and by_loop.moves.dtype == by_arrays.moves.dtype
