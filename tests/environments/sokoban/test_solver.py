"""Sokoban judged by shortest solutions: against best play by trying everything, by hand, and at the edges of what can be judged."""

import pytest

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
    {"boxes": 1, "walls": 3, "shortest": 1, "longest": 6, "moves": 7},
    {"boxes": 2, "walls": 2, "shortest": 1, "longest": 7, "moves": 7},
    {"boxes": 3, "walls": 4, "shortest": 1, "longest": 6, "moves": 6},
]


@every_case("blocked", ["illegal", "waits"])
@every_case("pay", ["solved", "share"])
@every_case("cost", [0.0, 0.03])
@every_case("room", ROOMS, ids=lambda room: f"{room['boxes']}-boxes", parts=2)
def test_values_and_best_moves_are_those_of_best_play(room, pay, blocked, cost):
    states = played(game(**room, pay=pay, blocked=blocked, cost=cost), number=12)
    right, wrong, known = 0, 0, {}
    for state, every, forced in zip(
        states, constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), strict=True
    ):
        table = state.spiel.table
        ways = dict(
            zip(state.legal_actions(), (best_play(table.after(index), known) for index in table.legal()), strict=True)
        )
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


def test_values_by_hand_and_what_cannot_be_judged():
    judgement = judged(CORRIDOR, moves=5)  # 3 moves solve it
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"right": 1.0} and judgement.best == {"right"}
    assert judged(CORRIDOR, "right", moves=5).best == {"left", "right"}  # back and forth costs 2, and 2 are to spare
    assert judged(CORRIDOR, "right", moves=4).best == {"right"}
    assert judged(CORRIDOR, "right", moves=5, judge=constraint_oracle(right="forced")).best == {"right"}
    judgement = judged("@-$-./-----", "right", moves=4, cost=0.1, blocked="waits")
    assert judgement.actions == ("down", "left", "right", "up") and judgement.values == pytest.approx(
        (-0.4, -0.4, 0.7, 0.6)
    )
    assert judgement.best == {"right", "up"}  # up waits, and keeps a solution
    room, judge = "----/-$--/-@.-/----", constraint_oracle(lost="solution")
    assert judged(room, "up") is None and judged(room, "up", judge=judge) is None  # along the wall
    assert judge.metrics["abstained"] == 1 and judge.metrics["judged"] == 1
    words = ("right", "left")
    assert judged(CORRIDOR, *words, moves=4) is None
    judgement = judged(CORRIDOR, *words, "right", moves=4, cost=0.1, judge=constraint_oracle(lost="solution"))
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"left": 0.0, "right": 1.0}
    assert judgement.best == {"right"} and judgement.bound == pytest.approx(1.4) and judgement.certainty == 1.0
    room = "-@$.-/--$.-/-----"
    judgement = judged(
        room, "left", "down", "right", "right", moves=5, pay="share"
    )  # the lower box is home, the upper 3 moves away
    assert dict(zip(judgement.actions, judgement.values, strict=True)) == {"down": 0.5, "left": 0.5, "right": 0.0}
    assert judgement.best == {"down", "left"} and judgement.bound == 0.0
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
