"""Sokoban: moves against an independent simulation, shortest solutions of rooms, payoffs and prompts."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.sokoban import room_of
from sparring.environments.sokoban.distances import (
    Floor,
    cells_of,
    distances,
    goal_positions,
    mask_of,
    max_positions,
)
from tests.environments.worlds import check_contains, make_game_factory, make_refusal_test, start, state_after

STEP_OF_MOVE = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
CORRIDOR = "@-$-."
game = make_game_factory("sokoban")


def position_sets(table):
    """Return a position as coordinates: the sets of free cells, goals and boxes, and the cell of the agent."""
    floor = table.floor

    def coordinates_of(mask):
        return frozenset(divmod(cell, floor.columns) for cell in cells_of(mask))

    free_cells = frozenset(
        (row, column) for row in range(floor.rows) for column in range(floor.columns)
    ) - coordinates_of(floor.walls)
    return free_cells, coordinates_of(floor.goals), coordinates_of(table.boxes), divmod(table.agent, floor.columns)


def move_agent(free_cells, boxes, agent, word):
    """Return (boxes, agent) after a move, or None, from the rules."""
    row_step, column_step = STEP_OF_MOVE[word]
    next_cell, cell_after_next = (
        (agent[0] + row_step, agent[1] + column_step),
        (agent[0] + 2 * row_step, agent[1] + 2 * column_step),
    )
    if next_cell not in free_cells or (
        next_cell in boxes and (cell_after_next not in free_cells or cell_after_next in boxes)
    ):
        return None
    return (boxes - {next_cell} | {cell_after_next} if next_cell in boxes else boxes), next_cell


def least_moves(free_cells, goals, boxes, agent, num_boxes):
    """Return the smallest number of moves after which ``number`` boxes are on goals; None if impossible."""
    seen_positions, positions, length = set(), {(boxes, agent)}, 0
    while positions:
        if any(len(box_cells & goals) >= num_boxes for box_cells, _ in positions):
            return length
        seen_positions |= positions
        positions = {
            position
            for box_cells, agent_cell in positions
            for word in STEP_OF_MOVE
            if (position := move_agent(free_cells, box_cells, agent_cell, word))
        } - seen_positions
        length += 1
    return None


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    boxes=st.integers(1, 3),
    walls=st.integers(0, 8),
    blocked=st.sampled_from(["illegal", "waits"]),
)
def test_moves_follow_the_rules(seed, boxes, walls, blocked):
    state = start(
        game(rows=5, columns=6, boxes=boxes, walls=walls, shortest=1, longest=12, moves=20, blocked=blocked), seed
    )
    stream = Stream.from_seed(seed).child("play")
    while not state.done:
        free_cells, goals, boxes_now, agent = position_sets(state.spiel.table)
        results = {word: move_agent(free_cells, boxes_now, agent, word) for word in STEP_OF_MOVE}
        assert set(state.legal_actions()) == {word for word, result in results.items() if result or blocked == "waits"}
        word = state.legal_actions()[stream.integer(state.plies, len(state.legal_actions()))]
        state.apply(word)
        assert position_sets(state.spiel.table) == (free_cells, goals, *(results[word] or (boxes_now, agent)))
        assert state.done == (state.spiel.table.solved or state.plies == 20)
    free_cells, goals, boxes_now, agent = position_sets(state.spiel.table)
    assert state.returns == (float(boxes_now == goals),)


@pytest.mark.parametrize(
    ("rows", "columns", "boxes", "walls", "shortest", "longest"),
    [(4, 4, 1, 2, 3, 8), (4, 5, 2, 3, 5, 12), (5, 5, 1, 8, 6, 6), (4, 4, 3, 0, 4, 9)],
)
def test_the_shortest_solution_of_a_room_has_a_length_in_the_range(rows, columns, boxes, walls, shortest, longest):
    lengths = set()
    for index in range(12):
        room = room_of(rows, columns, boxes, walls, shortest, longest, 0, index)
        table = game(
            rows=rows, columns=columns, boxes=boxes, walls=walls, shortest=shortest, longest=longest
        ).opening.spiel.table
        free_cells, goals, box_cells, agent = position_sets(with_room(table, room))
        assert len(free_cells) == rows * columns - walls and len(goals) == len(box_cells) == boxes
        assert agent in free_cells and agent not in box_cells and box_cells | goals <= free_cells
        lengths.add(least_moves(free_cells, goals, box_cells, agent, boxes))
    assert None not in lengths and shortest <= min(lengths) <= max(lengths) <= longest
    assert len(lengths) > 2 or shortest == longest


def with_room(table, room):
    return replace(table, room=room, agent=room.agent, boxes=room.boxes)


@pytest.mark.parametrize(
    ("rows", "columns", "walls", "goals"),
    [(3, 3, (4,), (0,)), (3, 4, (), (5, 6)), (2, 5, (3,), (1, 7)), (1, 6, (), (4,))],
)
@pytest.mark.parametrize("num_fewer", [0, 1])
def test_distances_match_a_forward_search_from_every_position(rows, columns, walls, goals, num_fewer):
    floor, boxes = Floor(rows=rows, columns=columns, walls=mask_of(walls), goals=mask_of(goals)), len(goals)
    num_boxes_on_goals = boxes - num_fewer
    moves_to_goal, num_positions = distances(floor, boxes, num_boxes_on_goals, 10**6), 0
    cells = [divmod(cell, columns) for cell in range(rows * columns)]
    free_cells = {position for cell, position in enumerate(cells) if cell not in walls}
    targets = frozenset(cells[cell] for cell in goals)
    for box_cells in combinations(sorted(free_cells), boxes):
        for agent in free_cells - set(box_cells):
            num_positions += 1
            expected = least_moves(free_cells, targets, frozenset(box_cells), agent, num_boxes_on_goals)
            mask = mask_of([row * columns + column for row, column in box_cells])
            assert moves_to_goal.distance_of(agent[0] * columns + agent[1], mask) == expected
    assert num_positions == max_positions(floor, boxes)
    assert (
        distances(floor, boxes, num_boxes_on_goals, num_positions - 1) is None
        and distances(floor, boxes, num_boxes_on_goals, num_positions) is not None
    )


def test_rooms_by_hand():
    floor = Floor(rows=1, columns=3, goals=0b100)
    assert len(goal_positions(floor, 1, 1)) == 2 and len(goal_positions(floor, 1, 0)) == max_positions(floor, 1) == 6
    state = state_after(game(room=CORRIDOR), "right", "right")
    assert not state.done and state.returns == (0.0,) and state.legal_actions() == ("left", "right")
    state.apply("right")
    assert state.done and state.returns == (1.0,)
    with pytest.raises(GameError):
        start(game(room=CORRIDOR)).apply("up")
    state = state_after(game(room=CORRIDOR, blocked="waits", moves=4), "up")
    assert state.spiel.table.agent == 0 and state.observe(0, 1).text == "agent r1c1 box r1c3 goal r1c5 moves 3"


@pytest.mark.parametrize(("pay", "worth"), [("solved", 0.0), ("share", 0.5)])
def test_payoffs_by_hand(pay, worth):
    environment = game(room="-@$.-/--$.-", pay=pay, cost=0.01, moves=4)
    state = state_after(environment, "right", "left", "left", "right")
    assert state.done and state.returns == pytest.approx((worth - 0.04,))
    state = state_after(environment, "right", "left", "down", "right")
    assert state.returns == pytest.approx((0.96,))
    assert (environment.min_utility, environment.max_utility) == (-0.04, 1.0)


@pytest.mark.parametrize(
    ("room", "message"),
    [
        ("@$x", "holds 'x'"),
        ("@$./--", "2 rows of 3, 2 cells"),
        ("@$.-----", "1 rows of 8 cells"),
        ("-$.", "0 agent"),
        ("@$-", "0 goal"),
        ("@-.", "0 box"),
        ("@*-", "is solved already"),
        ("$@.", "no solution within moves=12"),
        ("@------/$------/-------/-------/-------/.------", None),
    ],
    ids=["sign", "ragged", "wide", "agent", "goal", "box", "solved", "stuck", "good"],
)
def test_rooms_that_cannot_be_played_are_refused(room, message):
    if message is None:
        assert game(room=room).opening.spiel.child(0).table.floor.rows == 6
        with pytest.raises(ConfigError, match="within moves=3"):
            game(room=room, moves=3)
        return
    with pytest.raises(ConfigError, match=message):
        game(room=room)


test_options_out_of_range_are_refused = make_refusal_test(
    "sokoban", {"walls": 6}, {"shortest": 9}, {"longest": 13}, {"shortest": 100, "longest": 100, "moves": 100}
)


def test_keys_views_and_prompts():
    environment = game(room="----/-@--/--$./----")
    first_state, second_state = state_after(environment, "up", "down"), state_after(environment, "left", "right")
    assert (
        first_state.observe(0).key != second_state.observe(0).key
        and first_state.observe(0).view == second_state.observe(0).view
    )
    assert first_state.observe(0).view == "agent r2c2 box r3c3 goal r3c4 moves 10"
    state = start(game(room="@-$./#---"))
    assert state.observe(0).text == "sokoban pusher agent r1c1 box r1c3 goal r1c4 wall r2c1 moves 12"
    state.apply("right")
    assert state.observe(0, 1).text == "agent r1c2 box r1c3 goal r1c4 wall r2c1 moves 11"
    assert (
        state.observe(0).text
        == f"sokoban pusher agent r1c1 box r1c3 goal r1c4 wall r2c1 moves 12 right {state.observe(0, 1).text}"
    )
    state = start(game(room="----/-$--/#-*+", style="full", moves=20, cost=0.25))
    text = state.observe(0).text
    check_contains(
        text,
        "at most 20 moves",
        "######\n#----#\n#-$--#\n##-*+#\n######",
        "20 move(s) left",
        "is illegal",
        "0 points if not",
        "0.25 point",
        "never pull",
    )
    text = start(game(style="full", pay="share", blocked="waits")).observe(0).text
    assert "the share of boxes" in text and "costs the move" in text
    state = state_after(game(room=CORRIDOR, style="full"), "right", "right")
    assert "Your moves so far: right, right." in state.observe(0).text and "Your moves" not in state.observe(0, 2).text
    state.apply("right")
    assert "The room is solved." in state.observe(0).text and "The room is solved." in state.observe(0, 3).text
