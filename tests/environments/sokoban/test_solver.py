"""Sokoban judged by shortest solutions: against best play by trying everything, by hand, and at the edges of what can be judged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.sokoban import distances as module
from sparring.environments.sokoban import room_of
from sparring.environments.sokoban import solver as puzzle
from tests.cases import every_case
from tests.environments.worlds import constraint_oracle, maker
from tests.methods.oracles.positions import played

CORRIDOR = "@-$-."
game = maker("sokoban")


def judged(room, *words, judge=None, **options):
    """Return the verdict after some moves in a room."""
    state = game(room=room, **options).reset(Stream.from_seed(0))
    for word in words:
        state.apply(word)
    return (judge or constraint_oracle()).judge([state])[0]


def best_play(table, known):
    """Return what best play pays and, if it can solve the room, in how many moves in all, by trying everything."""
    if table.player < 0:
        return table.returns()[0], len(table.moves) if table.solved else None
    place = table.room, table.agent, table.boxes, len(table.moves)
    if place not in known:
        ways = [best_play(table.after(index), known) for index in table.legal()]
        lengths = [length for _, length in ways if length is not None]
        known[place] = max(value for value, _ in ways), min(lengths, default=None)
    return known[place]


ROOMS = [
    {"boxes": 1, "walls": 3, "shortest": 1, "longest": 6, "moves": 7}, {"boxes": 2, "walls": 2, "shortest": 1, "longest": 7, "moves": 7},
    {"boxes": 3, "walls": 4, "shortest": 1, "longest": 6, "moves": 6},
]


@every_case("blocked", ["illegal", "waits"])
@every_case("pay", ["solved", "share"])
@every_case("cost", [0.0, 0.03])
@every_case("room", ROOMS, ids=lambda room: f"{room['boxes']}-boxes", parts=2)
def test_values_and_best_moves_are_those_of_best_play(room, pay, blocked, cost):
    states = played(game(**room, pay=pay, blocked=blocked, cost=cost), number=12)
    right, wrong, known = 0, 0, {}
    for state, every, forced in zip(states, constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), strict=True):
        table = state.spiel.table
        ways = dict(zip(state.legal_actions(), (best_play(table.after(index), known) for index in table.legal()), strict=True))
        keeps = {word for word, (_, length) in ways.items() if length is not None}
        if every is None:
            assert forced is None and not keeps and pay == "solved"
            assert {value for value, _ in ways.values()} == {-cost * table.options.moves}
            wrong += 1
            continue
        right += bool(keeps)
        wrong += len(keeps) < len(ways)
        assert every.values == forced.values == pytest.approx([value for value, _ in ways.values()])
        assert (every.certainty, every.bound, every.entropy) == (1.0, 0.0, None)
        if keeps:
            least = min(ways[word][1] for word in keeps)
            assert every.best == keeps and forced.best == {word for word in keeps if ways[word][1] == least}
        else:
            top = max(value for value, _ in ways.values())
            assert every.best == forced.best == {word for word, (value, _) in ways.items() if value > top - 1e-9}
    assert right > 2 and wrong > 2


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), boxes=st.integers(1, 3), walls=st.integers(0, 9))
def test_following_forced_moves_solves_a_room_in_the_fewest_moves(seed, boxes, walls):
    environment = game(rows=5, columns=6, boxes=boxes, walls=walls, shortest=4, longest=16, moves=16, cost=0.01)
    state, judge, values, draws = environment.reset(Stream.from_seed(seed)), constraint_oracle(right="forced"), [], Stream.from_seed(seed)
    while not state.done:
        judgement = judge.judge([state])[0]
        best = sorted(judgement.best)
        assert judgement.best <= constraint_oracle().judge([state])[0].best
        values.append(max(judgement.values))
        state.apply(best[draws.integer(state.plies, len(best))])
    assert state.spiel.table.solved and 4 <= state.plies <= 16
    assert values == pytest.approx([state.returns[0]] * len(values))


def test_values_by_hand_and_what_cannot_be_judged():
    judgement = judged(CORRIDOR, moves=5)  # 3 moves solve it
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"right": 1.0} and judgement.best == {"right"}
    assert judged(CORRIDOR, "right", moves=5).best == {"left", "right"}  # back and forth costs 2, and 2 are to spare
    assert judged(CORRIDOR, "right", moves=4).best == {"right"}
    assert judged(CORRIDOR, "right", moves=5, judge=constraint_oracle(right="forced")).best == {"right"}
    judgement = judged("@-$-./-----", "right", moves=4, cost=0.1, blocked="waits")
    assert judgement.actions == ("down", "left", "right", "up") and judgement.values == pytest.approx((-0.4, -0.4, 0.7, 0.6))
    assert judgement.best == {"right", "up"}  # up waits, and keeps a solution
    room = "----/-$--/-@.-/----"
    judgement = judged(room)
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"down": 1.0, "left": 1.0, "right": 1.0, "up": 0.0}  # up: along the wall
    assert judgement.best == {"down", "left", "right"}
    judge = constraint_oracle(lost="solution")
    assert judged(room, "up") is None and judged(room, "up", judge=judge) is None
    assert judge.metrics["abstained"] == 1 and judge.metrics["judged"] == 1
    words = ("right", "left")
    assert judged(CORRIDOR, *words, moves=4) is None
    judgement = judged(CORRIDOR, *words, "right", moves=4, cost=0.1, judge=constraint_oracle(lost="solution"))
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"left": 0.0, "right": 1.0}
    assert judgement.best == {"right"} and judgement.bound == pytest.approx(1.4) and judgement.certainty == 1.0
    room = "-@$.-/--$.-/-----"
    judgement = judged(room, "left", "down", "right", "right", moves=5, pay="share")  # the lower box is home, the upper 3 moves away
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"down": 0.5, "left": 0.5, "right": 0.0}
    assert judgement.best == {"down", "left"} and judgement.bound == 0.0
    judgement = judged(room, moves=4, pay="share", cost=0.1)
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == pytest.approx({"down": 0.1, "left": 0.1, "right": 0.6})
    environment = game(rows=7, columns=7, boxes=3, walls=0, shortest=5, longest=6, moves=6)
    judgement = constraint_oracle(right="forced").judge([environment.reset(Stream.from_seed(0))])[0]
    assert max(judgement.values) == 1.0 and judgement.best
    environment, judge = game(room="@$."), puzzle.sokoban
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


@pytest.mark.parametrize(("pay", "numbers"), [("solved", {2}), ("share", {1, 2})])
def test_ways_to_bring_some_boxes_home_are_sought_only_where_they_are_paid(monkeypatch, pay, numbers):
    calls, seek = set(), puzzle.solutions
    monkeypatch.setattr(puzzle, "solutions", lambda floor, boxes, number: calls.add(number) or seek(floor, boxes, number))
    assert judged("-@$.-/--$.-/-----", moves=4, pay=pay).best == {"right"}
    assert calls == numbers


def test_a_room_over_the_budget_is_abstained_on_and_counted(monkeypatch):
    monkeypatch.setattr(puzzle, "MOST_POSITIONS", 19)
    puzzle.solutions.cache_clear()
    judge = constraint_oracle()
    assert judged(CORRIDOR, judge=judge) is None  # 5 * 4 positions
    assert judge.metrics["abstained"] == 1
    monkeypatch.setattr(puzzle, "MOST_POSITIONS", 20)
    puzzle.solutions.cache_clear()
    assert judged(CORRIDOR) is not None
    puzzle.solutions.cache_clear()


@pytest.mark.parametrize("boxes", [1, 2])
def test_positions_counted_one_by_one_are_those_of_the_search_in_layers(boxes, monkeypatch):
    for number in range(20):
        floor = room_of(5, 5, boxes, 5, 3, 8, 0, number).floor
        monkeypatch.setattr(module, "FEW", 10**9)
        first = module.distances(floor, boxes, boxes, 10**6)
        monkeypatch.setattr(module, "FEW", 0)
        other = module.distances(floor, boxes, boxes, 10**6)
        assert first.keys.tolist() == other.keys.tolist() and first.moves.tolist() == other.moves.tolist()
        assert first.keys.dtype == other.keys.dtype and first.moves.dtype == other.moves.dtype
